"""Captures as builders of facts see them: a fact is made of the probes that it declares, and of what they
brought."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.values import Partial, Unmeasured, Unread, reading
from healthcheck.model.probes import Needs, Probe
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.ruleset import plugins
from tests.healthcheck import machine

plugins.load()      # so that all facts are known, whatever rules are kept parsed


def of(name: str, recording: Recording) -> Any:
    return build_fact(FACTS[name], Captures(recording))


def noted(asked: set[str], real: Any) -> Any:
    """The method, which from now on writes down the probes that it is asked for."""
    def method(self: Captures, probe: Probe) -> Any:
        asked.add(probe.id)
        return real(self, probe)
    return method


def test_every_fact_is_made_of_the_probes_that_it_declares_and_of_no_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    snapshots = [machine.recording(), machine.recording(gpu_nvml=Capture(Outcome.MISSING)),
                 machine.recording(port_sysfs=Capture(Outcome.TIMEOUT)),
                 machine.recording(gpu_nvml=replace(machine.nvml(), outcome=Outcome.TIMEOUT)),
                 machine.recording(docker_info=Capture(Outcome.DENIED))]
    asked: set[str] = set()
    for way in ("capture", "text", "files", "devices", "outcome", "note"):
        monkeypatch.setattr(Captures, way, noted(asked, getattr(Captures, way)))
    for snapshot in snapshots:
        for spec in FACTS.values():
            asked.clear()
            build_fact(spec, Captures(snapshot))
            assert asked <= set(spec.everything), spec.name


def test_that_there_are_none_is_never_taken_for_an_answer_that_was_not_had() -> None:
    none = machine.recording(port_sysfs=replace(machine.captures()["port.sysfs"],
                                                files={"/sys/class/x": FileCapture(Outcome.MISSING)}))
    assert of("ports", none) == ()
    unasked = replace(none, captures={probe: held for probe, held in none.captures.items()
                                      if probe != "port.sysfs"})
    assert isinstance(of("ports", unasked), Unmeasured)


def test_a_fact_may_tell_of_the_snapshot_itself() -> None:
    first = machine.recording()
    later = replace(first, host=replace(machine.HOST, time=machine.HOST.time + 60, hostname="n2"),
                    received=first.received + 61)
    assert of("host_name", later).own == "n2"
    assert (of("snapshot_time", later).time - of("snapshot_time", first).time,
            of("snapshot_time", later).received - of("snapshot_time", first).received) == (60, 61)


def test_a_tool_that_had_all_of_its_time_is_not_one_that_was_cut_short() -> None:
    own = machine.captures()["host.own-name"]
    found = [
        of("own_name", machine.recording(**{"host_own-name": replace(own, outcome=Outcome.TIMEOUT, text="",
                                                                     exit=None, seconds=seconds)}))
        for seconds in (3.0, 1.0)]
    assert [reading(one.value, "resolves") is False for one in found] == [True, False]


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.TRUNCATED])
def test_a_fact_of_a_probe_that_did_not_end_well_is_at_best_partial(outcome: Outcome) -> None:
    for name, spec in FACTS.items():
        for probe in spec.probes:
            captures = machine.captures()
            # A second source does not matter where the first is whole.
            if probe.id in captures and probe.needs is not Needs.NVIDIA_UNANSWERED:
                held = {**captures,
                        probe.id: replace(captures[probe.id], outcome=outcome, seconds=probe.seconds)}
                found = of(name, replace(machine.recording(), captures=held))
                assert isinstance(found, (Partial, Unmeasured)), (name, probe.id)


def test_what_a_builder_raises_is_not_kept_and_what_it_returns_is_made_once() -> None:
    made: list[int] = []

    def build(captures: Captures) -> int:
        made.append(len(made))
        if len(made) < 3:
            raise Unread("not yet")
        return len(made)

    captures = Captures(machine.recording())
    for _ in range(2):
        with pytest.raises(Unread):
            captures.once(build)
    assert [captures.once(build) for _ in range(3)] == [3, 3, 3] and len(made) == 3


def test_a_file_that_no_one_could_read_nor_asked_for_is_reported() -> None:
    files = CapturedFiles({"/a": FileCapture(Outcome.DENIED), "/b": FileCapture(Outcome.DENIED),
                           "/c": FileCapture(Outcome.DONE, "1\n")})
    assert files.read("/a", int) == Unmeasured("/a: permission denied") and files.read("/c", int) == 1
    assert files.unreadable() == "/b: permission denied"
    files.ignore(("/b",))
    assert files.unreadable() is None


def test_a_file_that_crashed_says_why_and_one_of_another_form_what_it_holds() -> None:
    files = CapturedFiles({"/a": FileCapture(Outcome.CRASHED, "EIO\n"),
                           "/b": FileCapture(Outcome.DONE, " x\n"),
                           "/c": FileCapture(Outcome.TRUNCATED, "1\n")})
    assert (files.read("/a", int) == Unmeasured("/a: reading it failed (EIO)")
            and files.complaint("/a") == "EIO")
    assert files.read("/b", int) == Unmeasured("/b holds 'x', which is not in the documented format")
    assert files.read("/d", int) == Unmeasured("/d was not captured")
    assert files.text("/c", part=True) == "1" and files.truncated("/c")
    with pytest.raises(Unread, match="/c: longer than its limit"):
        files.require("/b", "/c")
