"""Inventories without a file: what is taken from a command line and from sinfo, and what is refused."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inventory import discover
from inventory.discover import CommandOutput, from_names, from_slurm
from inventory.errors import MusterError, UsageError
from inventory.model import Node
from tests.testbed.planted import executable


def test_names_on_the_command_line_are_nodes_of_which_only_the_name_is_known() -> None:
    found = from_names("gpu[009-010],login")
    assert list(found) == [Node("gpu009"), Node("gpu010"), Node("login")]
    assert found.source == "names on the command line"


@pytest.mark.parametrize("text", ["@train", "gpu*", "@*", "gpu?", "a!a", "", "gpu[1-", "-oProxyCommand=id",
                                  "gpu[1-99999999]"])
def test_what_needs_an_inventory_or_names_nothing_is_one_line(text: str) -> None:
    with pytest.raises(MusterError) as caught:
        from_names(text)
    assert len(str(caught.value).splitlines()) == 1


@pytest.fixture
def sinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Puts a program called sinfo, with this body, first in PATH."""
    def make(body: str) -> None:
        executable(tmp_path / "sinfo", f"#!/bin/sh\n{body}\n")

    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return make


def refused() -> str:
    with pytest.raises(UsageError) as caught:
        from_slurm()
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).isprintable()
    return str(caught.value)


def test_slurms_nodes_are_taken_once_each_in_natural_order(sinfo: Callable[[str], None]) -> None:
    sinfo('[ "$*" = "-h -N -o %N %T" ] && printf "gpu10 idle\\ngpu2 mixed\\ngpu10 idle\\ngpu1 down*\\n"')
    found = from_slurm()
    assert list(found.nodes) == ["gpu1", "gpu2", "gpu10"]
    assert found.source == "nodes of Slurm"


def test_nodes_that_are_powered_down_do_not_count_as_in_service(sinfo: Callable[[str], None]) -> None:
    sinfo('printf "a idle~\\nb powering_up\\nc idle%%\\nd mixed#\\ne drained*\\nf allocated\\n"')
    assert [node.name for node in from_slurm() if node.in_service] == ["e", "f"]


def test_a_missing_sinfo_says_what_to_do_instead(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "sinfo was not found" in refused()


def test_a_sinfo_that_may_not_run_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sinfo").write_text("#!/bin/sh\n")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused() == "sinfo cannot be run: Permission denied"


def test_a_controller_that_is_down_is_named_by_sinfos_own_word(sinfo: Callable[[str], None]) -> None:
    sinfo('printf "slurm_load_partitions: Unable to contact slurm controller (connect failure)\\n" >&2; '
          'exit 1')
    assert refused() == (
        "sinfo failed (exit 1): slurm_load_partitions: Unable to contact slurm controller (connect failure); "
        "see: scontrol ping"
    )


def test_a_sinfo_that_hangs_is_killed(sinfo: Callable[[str], None], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(discover, "SINFO_SECONDS", 0.3)
    sinfo("exec sleep 1000")
    started = time.monotonic()
    assert "did not answer within 0.3 s" in refused()
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(("limit", "value", "script", "said"), [
    ("SINFO_SECONDS", 0.3, "exec sleep 1000 >/dev/null 2>&1", "did not answer"),
    ("MAX_OUTPUT", 100_000, "exec yes gpu1", "printed over 100000 bytes")])
def test_a_sinfo_that_stays_or_never_stops_talking_is_cut_off(
    sinfo: Callable[[str], None], monkeypatch: pytest.MonkeyPatch, limit: str, value: float,
    script: str, said: str,
) -> None:
    monkeypatch.setattr(discover, limit, value)
    sinfo(script)
    assert said in refused()


def test_a_flood_of_errors_does_not_stop_the_answer(sinfo: Callable[[str], None]) -> None:
    sinfo("yes warning | head -c 1000000 >&2; echo gpu1")
    assert list(from_slurm().nodes) == ["gpu1"]


@pytest.mark.parametrize(("body", "said"), [
    ("printf 'gpu1;reboot\\n'", "'gpu1;reboot', which is not a node name"),
    ("printf -- '-oProxyCommand=id\\n'", "which is not a node name"),
    ("printf '\\033[31mgpu1\\n'", "which is not a node name"),
    ("printf '\\377\\n'", "which is not a node name"),
    ("true", "sinfo lists no node"),
    ("printf '\\033[31mhelp\\n' >&2; exit 3", "\\x1b[31mhelp"),
])
def test_what_is_no_list_of_nodes_is_refused(sinfo: Callable[[str], None], body: str, said: str) -> None:
    sinfo(body)
    assert said in refused()


def test_too_many_nodes_are_refused() -> None:
    text = "\n".join(f"n{number}" for number in range(100_001)).encode()
    with pytest.raises(UsageError, match="over 100000 nodes"):
        from_slurm(lambda argv: CommandOutput(0, text, b""))
