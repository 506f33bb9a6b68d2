"""`muster os release`: MAAS takes a machine back, where no job is, and the ledger says who had it done."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store import ledger
from healthcheck.store.file import opened
from tests.command import muster
from tests.provisioning.osinstall.maassite import HARDWARE, key_file
from tests.testbed import maas
from tests.testbed.maas import Maas, serving


@pytest.fixture
def bed(tmp_path: Path) -> Iterator[Maas]:
    with serving(Maas(), tmp_path) as bed:
        (tmp_path / "rules").mkdir()
        (tmp_path / "rules/bringup.yaml").write_text(
            f"os: {{by: maas, url: '{bed.url}', key: {{file: {key_file(tmp_path).words[0]}}}, tls: "
            f"{bed.authority or 'verify'}}}\n")
        (tmp_path / "muster.yaml").write_text(
            "version: 1\nnodes:\n"
            "  gpu001: {lifecycle: bringup, labels: {serial: SN0001}}\n  gpu002: {labels: {serial: "
            "SN0002}}\n")
        bed.enlist("abc123", "gpu001", HARDWARE, maas.DEPLOYED, owner="alice", osystem="ubuntu",
                   distro_series="jammy")
        yield bed


def asked(bed: Maas) -> list[str]:
    return [op for method, _, op in bed.seen if method == "POST"]


def test_a_machine_whose_name_was_typed_is_released_once_and_the_ledger_has_it(bed: Maas,
                                                                               tmp_path: Path) -> None:
    dry = muster("os", "release", "gpu001", "--rules", "rules", "--dry-run", home=tmp_path)
    assert (dry.returncode, dry.stdout,
            asked(bed)) == (0, "gpu001: would have MAAS release it. Nothing changed.\n", [])
    unasked = muster("os", "release", "gpu001", "--rules", "rules", home=tmp_path)
    assert unasked.returncode == 2 and "--yes does it" in unasked.stderr and asked(bed) == []
    done = muster("os", "release", "gpu001", "--rules", "rules", "--yes", "--reason", "pool", home=tmp_path)
    assert (done.returncode, done.stdout, asked(bed)) == (0, "gpu001: accepted\n", ["release"])
    again = muster("os", "release", "gpu001", "--rules", "rules", "--yes", home=tmp_path)
    assert (again.returncode, again.stdout, asked(bed)) == (0,
                                                            "gpu001: it is released already\n", ["release"])
    with opened(tmp_path / "state") as store:
        lines = ledger.lines(store, since=0.0)
    assert [(one.action, one.node, one.why, one.outcome)
            for one in lines if one.why == "pool"] == [("os release", "gpu001", "pool", "accepted")]


@pytest.mark.parametrize(("words", "code", "said"), [
    (("gpu002",), 1, "gpu002: not done: "),
    (("gpu00[1-2]",), 2,
     "muster.yaml has no node 'gpu00[1-2]'; one is released at a time, by its whole name"),
])
def test_what_may_not_be_released_is_left_alone(bed: Maas, tmp_path: Path, words: tuple[str, ...], code: int,
                                                said: str) -> None:
    done = muster("os", "release", *words, "--rules", "rules", "--yes", home=tmp_path)
    assert done.returncode == code and said in done.stdout + done.stderr and asked(bed) == []


def test_only_a_maas_takes_machines_back(bed: Maas, tmp_path: Path) -> None:
    done = muster("os", "release", "gpu001", "--yes", home=tmp_path)
    assert (done.returncode == 2
            and "os: by: none of bringup.yaml takes no machine back; expected maas" in done.stderr)
