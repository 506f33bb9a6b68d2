"""Why there is no fact of a capture: in one line, which says what was asked, and how that ended."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from healthcheck.facts import base
from healthcheck.facts.base import Captures, FactSpec, build_fact, fact, hung, subjects_of, why
from healthcheck.facts.files import CapturedFiles, DeviceOutput, device_output
from healthcheck.facts.values import Partial, Unmeasured, Unread
from healthcheck.model.probes import KIB, Needs, Probe, ProbeKind
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine

TOOL = Probe("fan.tool", ProbeKind.COMMAND, argv=("fanctl", "show"), seconds=5.0, limit=3 * KIB + 1)
ROOT = replace(TOOL, root=True)
FILES = Probe("fan.files", ProbeKind.FILES, paths=("/sys/fan",))
NVML = Probe("fan.nvml", ProbeKind.NVML, seconds=5.0)
SECOND = Probe("fan.second", ProbeKind.COMMAND, argv=("fan2",), needs=Needs.NVIDIA_UNANSWERED)
THIRD = replace(SECOND, id="fan.third")
NOTED = "it waits for a lock"


def ended(outcome: Outcome, **more: Any) -> Capture:
    return Capture(outcome, **more)


@pytest.mark.parametrize(("probe", "capture", "reason"), [
    (TOOL, None, "fanctl was not captured"), (FILES, None, "fan.files was not captured"),
    (TOOL, ended(Outcome.MISSING), "fanctl is not there"),
    (TOOL, ended(Outcome.MISSING, note=NOTED), f"fanctl is not there: {NOTED}"),
    (TOOL, ended(Outcome.DENIED), "fanctl: permission denied"),
    (ROOT, ended(Outcome.DENIED, note=NOTED), f"fanctl: permission denied: {NOTED} (needs root)"),
    (NVML, ended(Outcome.TIMEOUT, seconds=9.0, note=NOTED), f"fan.nvml: {NOTED}"),
    (NVML, ended(Outcome.TIMEOUT, seconds=9.0), "fan.nvml did not answer within 5 s"),
    (NVML, ended(Outcome.CRASHED, note=NOTED), f"fan.nvml crashed: {NOTED}"),
    (NVML, ended(Outcome.TRUNCATED, note=NOTED),
     f"fan.nvml gave more than 256 KiB; the rest was dropped: {NOTED}"),
    (FILES, ended(Outcome.TIMEOUT, seconds=5.0, note=NOTED), f"fan.files did not answer within 5 s: {NOTED}"),
    (TOOL, ended(Outcome.TIMEOUT, seconds=0.0), "fanctl did not answer within 5 s"),
    (TOOL, ended(Outcome.TIMEOUT, seconds=0.5),
     "fanctl had not answered after 0.5 s, when the snapshot's time was over"),
    (TOOL, ended(Outcome.TIMEOUT, seconds=4.4, note=NOTED),
     f"fanctl had not answered after 4.4 s, when the snapshot's time was over: {NOTED}"),
    (TOOL, ended(Outcome.TIMEOUT, seconds=4.5), "fanctl did not answer within 5 s"),
    (TOOL, ended(Outcome.TRUNCATED, seconds=1.0), "fanctl gave more than 3 KiB; the rest was dropped"),
    (TOOL, ended(Outcome.CRASHED, exit=-11), "fanctl crashed (signal 11)"),
    (TOOL, ended(Outcome.UNABLE), "fanctl: our own program could not do its work"),
    (TOOL, ended(Outcome.WEDGED, note=NOTED), f"fanctl is wedged: {NOTED}"),
    (TOOL, ended(Outcome.DONE, exit=3), "fanctl ended with exit status 3"),
    (TOOL, ended(Outcome.DONE, exit=3, stderr="first\n" + "x" * 201 + "\n"),
     f"fanctl ended with exit status 3: {'x' * 200}"),
])
def test_why_there_is_nothing_names_what_was_asked_and_how_it_ended(probe: Probe, capture: Capture | None,
                                                                    reason: str) -> None:
    assert why(probe, capture) == reason


@pytest.mark.parametrize(("capture", "is_hung"), [
    (ended(Outcome.TIMEOUT, seconds=4.5), True), (ended(Outcome.TIMEOUT, seconds=4.4), False),
    (ended(Outcome.TIMEOUT, seconds=4.5, note=NOTED), False), (ended(Outcome.TRUNCATED, seconds=4.5), False),
    (ended(Outcome.DONE, seconds=5.0), False), (None, False)])
def test_a_command_hangs_that_had_all_of_its_own_time_for_nothing(capture: Capture | None,
                                                                  is_hung: bool) -> None:
    assert hung(TOOL, capture) is is_hung


def of(**captures: Capture) -> Captures:
    return Captures(machine.recording(**{f"fan_{name}": capture for name, capture in captures.items()}))


def test_a_node_that_was_not_reached_has_no_facts() -> None:
    with pytest.raises(ValueError, match="not reached"):
        Captures(replace(machine.recording(), host=None))


@pytest.mark.parametrize("outcome", Outcome)
def test_files_and_devices_are_read_as_far_as_they_came(outcome: Outcome) -> None:
    held = {"/sys/fan": FileCapture(Outcome.DONE, "exit 0\n900\n")}
    captures = of(files=Capture(outcome, files=held))
    if outcome in (Outcome.DONE, Outcome.TRUNCATED, Outcome.TIMEOUT):
        assert (captures.files(FILES).text("/sys/fan") == captures.files_if_any(FILES).text("/sys/fan")
                == "exit 0\n900")
        assert captures.devices(FILES) == {"/sys/fan": DeviceOutput(0, "900\n")}
    else:
        for read in (captures.files, captures.devices):
            with pytest.raises(Unread, match=r"fan\.files"):
                read(FILES)
        assert list(captures.files_if_any(FILES)) == []


@pytest.mark.parametrize(("capture", "text"), [
    (ended(Outcome.DONE, text="1", exit=0), "1"), (ended(Outcome.DONE, text="1"), "1"),
    (ended(Outcome.DONE, text="1", exit=1), None), (ended(Outcome.TRUNCATED, text="1", exit=0), None)])
def test_what_a_command_printed_counts_where_it_ended_well(capture: Capture, text: str | None) -> None:
    captures = of(tool=capture)
    if text is not None:
        assert captures.text(TOOL) == text
    else:
        with pytest.raises(Unread):
            captures.text(TOOL)


def test_of_a_probe_that_was_not_run_there_is_nothing() -> None:
    captures = of()
    assert (captures.capture(TOOL), captures.outcome(TOOL), captures.note(TOOL),
            captures.whole_text(FILES, "/sys/fan")) == (None, None, "", "")
    for read in (captures.text, captures.files, captures.devices):
        with pytest.raises(Unread, match="fanctl was not captured"):
            read(TOOL)
    assert of(tool=ended(Outcome.DONE, note=NOTED)).note(TOOL) == NOTED


def test_the_text_of_a_file_is_whole_or_empty() -> None:
    files = {"/a": FileCapture(Outcome.DONE, " 1\n"), "/b": FileCapture(Outcome.TRUNCATED, "1\n"),
             "/c": FileCapture(Outcome.MISSING, "2")}
    captures = of(files=Capture(Outcome.CRASHED, files=files))
    assert [captures.whole_text(FILES, path) for path in ("/a", "/b", "/c", "/d")] == ["1", "", "", ""]


def test_what_was_said_beside_a_file_is_reported_only_where_it_was_not_read() -> None:
    files = CapturedFiles({"/a": FileCapture(Outcome.DONE, "1"),
                           "/b": FileCapture(Outcome.DENIED, "EACCES\n"),
                           "/c": FileCapture(Outcome.CRASHED), "/d": FileCapture(Outcome.CRASHED, "x" * 61)})
    assert [files.complaint(path) for path in ("/a", "/b", "/c", "/e")] == ["", "EACCES", "", ""]
    assert [files.read(path, str) for path in ("/b", "/c", "/d")] == [
        Unmeasured("/b: permission denied"), Unmeasured("/c: reading it failed"),
        Unmeasured(f"/d: reading it failed ({'x' * 60})")]
    assert "/a" in files and "/e" not in files


def test_a_file_that_was_asked_for_its_text_is_not_told_again() -> None:
    files = CapturedFiles({"/a": FileCapture(Outcome.DENIED), "/b": FileCapture(Outcome.TRUNCATED, "1")})
    with pytest.raises(Unread, match="/a: permission denied"):
        files.text("/a")
    assert files.unreadable() == "/b: longer than its limit"
    with pytest.raises(Unread, match="/b: longer than its limit"):
        files.text("/b")
    assert files.unreadable() is None


@pytest.mark.parametrize(("entry", "found"), [
    (FileCapture(Outcome.DONE, "exit 2: no such device\n1\n"), DeviceOutput(2, "1\n", "no such device")),
    (FileCapture(Outcome.DONE, "exit 0"), DeviceOutput(0, "")),
    (FileCapture(Outcome.DONE, "exit\n"), Unmeasured("/a: no exit status was captured")),
    (FileCapture(Outcome.TIMEOUT), Unmeasured("/a: the command's outcome is timeout")),
    (FileCapture(Outcome.CRASHED, "x" * 201 + "\n2"),
     Unmeasured(f"/a: the command's outcome is crashed ({'x' * 200})")),
])
def test_a_devices_command_ended_by_itself_or_has_no_output(entry: FileCapture, found: object) -> None:
    assert device_output("/a", entry) == found


WHOLE, CUT = ended(Outcome.DONE), ended(Outcome.TIMEOUT, seconds=5.0)


@pytest.mark.parametrize(("captures", "reason"), [
    ({"nvml": WHOLE, "files": WHOLE, "second": CUT, "third": CUT}, ""),
    ({"nvml": CUT, "files": WHOLE, "second": WHOLE, "third": CUT}, ""),
    ({"nvml": CUT, "files": WHOLE, "second": CUT, "third": CUT}, "fan.nvml did not answer within 5 s"),
    ({"nvml": CUT, "files": CUT, "second": WHOLE, "third": WHOLE}, "fan.files did not answer within 5 s"),
    ({"nvml": WHOLE, "files": CUT, "second": CUT, "third": CUT}, "fan.files did not answer within 5 s"),
])
def test_a_fact_is_whole_where_each_of_its_probes_is_or_nvml_has_a_second_source_that_is(
    captures: dict[str, Capture], reason: str,
) -> None:
    spec = FactSpec("fan", (NVML, FILES, SECOND, THIRD), lambda captures: 900)
    assert build_fact(spec, of(**captures)) == (Partial(900, reason) if reason else 900)


@pytest.fixture
def _registry(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FACTS", "MEMBERS", "BY_BUILDER"):
        monkeypatch.setattr(base, name, {})


@pytest.mark.usefixtures("_registry")
def test_a_fact_is_defined_in_one_module_and_may_be_defined_there_again() -> None:
    def fan(captures: Captures) -> int:
        return 900

    for _ in range(2):
        assert fact("fan", TOOL)(fan) is fan
    assert (base.FACTS["fan"].build, base.BY_BUILDER[fan].probes, base.MEMBERS) == (fan, (TOOL,), {})
    fact("fans", TOOL, each="fan")(fan)
    assert base.MEMBERS == {"fan": "fans"}

    def other(captures: Captures) -> int:
        return 901

    other.__module__ = "plugin"
    with pytest.raises(ValueError, match="the fact fan is defined in"):
        fact("fan", TOOL)(other)
    assert base.FACTS["fan"].build is fan


@pytest.mark.usefixtures("_registry")
@pytest.mark.parametrize(("made", "found"), [
    ((1, 2), ((1, 2), True)), (Partial((1,), "cut"), ((1,), False)), (Unmeasured("no"), ((), False)),
    (Partial(7, "cut"), ((), False))])
def test_subjects_of_a_fact_are_complete_where_it_is_whole(made: Any, found: object) -> None:
    def fans(captures: Captures) -> Any:
        return made

    fact("fans", TOOL)(fans)
    assert subjects_of(fans, of()) == found


@pytest.mark.usefixtures("_registry")
def test_what_a_builder_raises_is_why_its_fact_is_not_measured() -> None:
    def unread(captures: Captures) -> int:
        raise Unread("it hung", ("fan 1",))

    def broken(captures: Captures) -> int:
        raise KeyError("x")

    found = build_fact(FactSpec("fan", (TOOL,), unread), of())
    assert found == Unmeasured("it hung") and found.asked == ("fan 1",)
    assert build_fact(FactSpec("fan", (TOOL,), broken),
                      of()) == Unmeasured("fan could not be read from the node's output (KeyError)")
