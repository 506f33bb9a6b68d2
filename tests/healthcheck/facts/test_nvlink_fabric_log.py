"""The Fabric Manager's journal: its errors by name and number, and how much of it was read."""

from __future__ import annotations

import pytest

from healthcheck.facts import nvlink_fabric
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine


def log(text: str) -> nvlink_fabric.NvlinkFabricLog:
    """The fact of a journal with this text."""
    captures = Captures(machine.recording(fabric_journal=Capture(Outcome.DONE, exit=0, text=text)))
    found = build_fact(FACTS["nvlink_fabric_log"], captures)
    assert isinstance(found, nvlink_fabric.NvlinkFabricLog)
    return found


def test_each_line_with_an_error_is_one_by_the_first_name_that_fits() -> None:
    lines = [
        "detected NVSwitch fatal error 12028 on fid 0 [ERROR]", "started",
        "detected NVSwitch non-fatal error 10003 on fid 1",
        "failed to find the GPU handle 12345 in the multicast team",
        "request failed with error 1 " + "x" * 400,
    ]
    errors = list(log("\n".join(lines)).errors())
    assert [error.what for error in errors] == [
        "NVSwitch fatal error 12028", "NVSwitch non-fatal error 10003",
        "GPU without a place in its multicast team",
        "fabric manager error"]
    assert errors[0].text == lines[0] and len(errors[3].text) == 300


@pytest.mark.parametrize(("lines", "caveat"),
                         [(1, ""), (2, "only the newest 2 lines of the journal were read")])
def test_a_journal_of_as_many_lines_as_are_asked_for_may_have_more(
    monkeypatch: pytest.MonkeyPatch, lines: int, caveat: str,
) -> None:
    monkeypatch.setattr(nvlink_fabric, "JOURNAL_LINES", 2)
    assert log("-- Boot --\n\n" + "started\n" * lines).caveat == caveat
