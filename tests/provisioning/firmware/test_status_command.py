"""`muster firmware status`: from the store alone, and after asking controllers."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from healthcheck.model.firmware import SWEEP, ComponentVersion, FirmwareReading
from healthcheck.store.file import opened
from healthcheck.store.firmware import known_firmware, write_controller
from tests.command import muster
from tests.documents import validate
from tests.testbed.bmcs import Bed, Machine, Wrong, rack, require_rack

MACHINES = (Machine("gpu001"), Machine("gpu002", bios_version="2.0.1"),
            Machine("gpu003", wrong=Wrong.PASSWORD))
PASSWORD = "calvin-0penSesame"
RULES = """firmware:
- {id: bios, vendor: "contoso", component: bios, at_least: "2.1"}
- {id: gpus, component: vbios, exactly: "96.00.74.00.01"}
- {id: cpld, component: "CPLD*", at_least: "1.0.4"}
"""


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    require_rack()
    with rack(tmp_path_factory.mktemp("rack") / "bed", MACHINES, password=PASSWORD) as found:
        yield found


Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def firmware(tmp_path: Path) -> Command:
    """Runs it with these rules; `entries` are the inventory's nodes."""
    (tmp_path / "rules").mkdir()

    def run(*words: str, entries: str = "  gpu[001-004]:\n",
            rules: str = RULES) -> subprocess.CompletedProcess[str]:
        (tmp_path / "rules" / "bringup.yaml").write_text(rules)
        (tmp_path
         / "muster.yaml").write_text(f"version: 1\ngroups: {{rack7: 'gpu[001-002]'}}\nnodes:\n{entries}")
        done = muster("firmware", "status", *words, "--rules", "rules", home=tmp_path, BMC_PASSWORD=PASSWORD)
        assert PASSWORD not in done.stdout + done.stderr and "Traceback" not in done.stderr
        return done

    return run


def kept(state: Path, node: str, *versions: tuple[str, str, str], maker: str = "Contoso") -> None:
    """What a controller told an hour ago."""
    with opened(state, make=True) as store:
        write_controller(store, node, time.time() - 3600 - 5, FirmwareReading(
            maker, tuple(ComponentVersion(name, kind, found, 0.0, SWEEP) for name, kind, found in versions),
            frozenset()))


WELL = (("bios", "bios", "2.1.5"), ("GPU0", "vbios", "96.00.74.00.01"), ("CPLD", "", "1.0.4"))


def test_the_report_is_of_the_store_and_what_it_has_not_is_unknown(firmware: Command, tmp_path: Path) -> None:
    assert firmware().returncode == 3 and "4 machines: 4 unknown" in firmware().stdout
    kept(tmp_path / "state", "gpu001", *WELL)
    kept(tmp_path / "state", "gpu002", ("bios", "bios", "2.0"), *WELL[1:])
    done = firmware("@rack7")
    assert done.returncode == 1
    assert done.stdout.splitlines()[:3] == [
        "bios: bios at least 2.1 (contoso)", "  drift         1  gpu002  bios: 2.0, read 60 min ago",
        "  as wanted     1  gpu001  read 60 min ago"]
    assert done.stdout.splitlines()[-1] == "2 machines: 1 drift, 1 as wanted"
    assert firmware("gpu001").returncode == firmware("gpu001", "--max-age", "2h").returncode == 0
    assert firmware("gpu001", "--max-age", "1h").returncode == 3
    every = firmware("gpu001", "--all").stdout.splitlines()
    assert every[0].split() == ["CPLD", "1.0.4", "1", "gpu001"]


def test_the_document_is_as_its_schema_says_and_has_every_component(firmware: Command,
                                                                    tmp_path: Path) -> None:
    kept(tmp_path / "state", "gpu001", *WELL)
    done = firmware("--format", "json", entries="  gpu[001-002]:\n  gpu009: {lifecycle: retired}\n")
    document = json.loads(done.stdout)
    validate(document, "firmware-1")
    assert done.returncode == 3
    assert [(one["node"], one["state"]) for one in document["nodes"]] == [("gpu001", "as wanted"),
                                                                          ("gpu002", "unknown")]
    assert [one["version"]
            for one in document["nodes"][0]["components"]] == ["2.1.5", "96.00.74.00.01", "1.0.4"]
    assert {one["state"] for one in document["groups"]} == {"as wanted", "unknown"}


def test_a_site_that_wants_nothing_is_reported_so_and_it_is_no_pass(firmware: Command,
                                                                    tmp_path: Path) -> None:
    kept(tmp_path / "state", "gpu001", *WELL)
    done = firmware("gpu001", rules="firmware: []\n")
    assert done.returncode == 3 and done.stdout == "nothing wanted  gpu001\n1 machine: 1 nothing wanted\n"
    assert "no version is wanted" in done.stderr and "muster help firmware" in done.stderr


def test_an_entry_for_a_sku_that_is_not_there_is_a_usage_error(firmware: Command) -> None:
    done = firmware(rules='firmware: [{id: a, skus: [nope], component: bmc, exactly: "1"}]\n')
    assert (done.returncode == 2 and "a: skus: no such SKU" in done.stderr
            and len(done.stderr.splitlines()) == 1)


def test_controllers_are_asked_and_kept_and_one_that_gives_no_answer_is_named(
    firmware: Command, bed: Bed, tmp_path: Path,
) -> None:
    entries = "".join(f"  {one.name}: {{bmc: {bed.entry(one.name, 'ca')}}}\n"
                      for one in MACHINES) + "  gpu004:\n"
    # A controller of one process beside other tests: how long it may take is not what is tried here.
    done = firmware("--read", "--timeout", "5m", entries=entries)
    assert done.returncode == 1
    shown = done.stdout.splitlines()
    assert shown[1].startswith("  drift         1  gpu002  bios: 2.0.1, read ")
    assert any(line.startswith("not read now  gpu003  credentials: ") for line in shown)
    assert "not read now  gpu004  the inventory names no controller for it (`bmc:`)" in shown
    assert shown[-1] == "4 machines: 1 drift, 2 unknown, 1 as wanted"
    with opened(tmp_path / "state") as store:
        assert known_firmware(store).keys() == {"gpu001", "gpu002"}
    asked = len(bed.log())
    assert firmware("@rack7", entries=entries).stdout.splitlines()[-1] == "2 machines: 1 drift, 1 as wanted"
    assert len(bed.log()) == asked
    document = json.loads(firmware("--read", "--timeout", "5m", "--format", "json", entries=entries).stdout)
    validate(document, "firmware-1")
    assert [one["node"] for one in document["unanswered"]] == ["gpu003", "gpu004"]


def test_tools_on_machines_that_do_not_answer_tell_nothing_and_that_is_said(firmware: Command,
                                                                            tmp_path: Path) -> None:
    rules = 'firmware: [{id: fw, component: "System Firmware", at_least: "1.0", by: fwupd}]\n'
    done = firmware("gpu001", "--tools",
                    entries="  gpu001: {address: 127.0.0.1, port: 1, user: root}\n  gpu002:\n", rules=rules)
    assert done.returncode == 3
    shown = done.stdout.splitlines()
    assert shown[:2] == ["fw: System Firmware at least 1.0",
                         "  unknown       1  gpu001  its fwupd was never asked"]
    assert (shown[2].startswith("not read now  gpu001  connect: ")
            and "muster firmware status gpu001 --tools" in shown[3])
