"""What a snapshot hands on to the next of its node: the boots, the records of the log, and what was
unusual."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.facts.boot import BOOT_CAPTURE, boot_capture, earlier_boot
from healthcheck.facts.carried_log import LOG_CAPTURE, log_capture, with_earlier, with_statements
from healthcheck.facts.seen_before import (
    NOTHING_SEEN,
    UNUSUAL_CAPTURE,
    fingerprint,
    seen_before,
    unusual,
    unusual_capture,
)
from healthcheck.kernellog.carried import CarriedRecords, RepairStatement, from_text, to_text
from healthcheck.model.outcome import Finding, Result, Severity, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from inventory.model import LifecycleState
from tests.healthcheck import machine

SERVICE, MAINTENANCE = LifecycleState.SERVICE, LifecycleState.MAINTENANCE
LOST = Recording("gpu001", 900.0, None, None, {})          # it was not reached


def snapshot(boot: str = "b00t", received: float = 1000.5, **captures: Capture) -> Recording:
    seen = machine.recording()
    assert seen.host is not None
    held = {name.replace("_", ".", 1): capture for name, capture in captures.items()}
    return replace(seen, received=received, host=replace(seen.host, boot_id=boot), captures=held)


def kept(name: str, text: str, boot: str = "b00t") -> Recording:
    return replace(snapshot(boot), captures={name: Capture(Outcome.DONE, text=text)})


# Boots

def boots(**members: Any) -> str:
    return json.dumps({"state": "service", "last": 500.0, "looked": 0.0, "out": "", **members})


@pytest.mark.parametrize(("text", "boot", "known"), [
    (boots(), "other", (True, 500.0, "")),
    (boots(), "b00t", (True, 0.0, "")),
    (boots(looked=3.5, out="rma"), "b00t", (True, 3.5, "rma")),
    (boots(looked=3.5, out="rma", state="maintenance"), "other", (True, 500.0, "maintenance")),
    (boots(last=0), "other", (True, 1000.5, "")),
    (boots(last=253_402_300_799), "other", (True, 253_402_300_799.0, "")),
    # No time that a calendar has, a word that is none: nothing is known of the earlier snapshot.
    (boots(last=253_402_300_800), "other", (True, 1000.5, "")),
    (boots(last=-1), "other", (True, 1000.5, "")),
    (boots(last="500"), "other", (True, 1000.5, "")),
    (boots(last=None), "other", (True, 1000.5, "")),
    (boots(state=None), "other", (True, 1000.5, "")),
    (boots(state="m" * 41), "other", (True, 500.0, "m" * 39 + "…")),
    (boots(state="m" * 40), "other", (True, 500.0, "m" * 40)),
])
def test_the_boot_before_is_as_the_earlier_snapshot_kept_it(text: str, boot: str, known: object) -> None:
    found = earlier_boot(snapshot(boot, 2000.0), kept(BOOT_CAPTURE, text), SERVICE)
    assert (found.known, found.looked, found.out, found.now) == (*known, 2000.0)   # type: ignore[misc]


def test_a_node_that_is_out_of_service_after_its_reboot_is_out_for_that_boot() -> None:
    before = kept(BOOT_CAPTURE, boots())
    assert earlier_boot(snapshot("other"), before, MAINTENANCE).out == "maintenance"
    assert earlier_boot(snapshot(), before, MAINTENANCE).out == ""      # there was no reboot
    assert earlier_boot(snapshot(), kept(BOOT_CAPTURE, boots(looked=3.5, out="rma")),
                        MAINTENANCE).out == "rma"


@pytest.mark.parametrize(("previous", "known"), [(None, False), (LOST, False), (snapshot(""), True)])
def test_without_a_boot_that_an_earlier_snapshot_saw_none_was_before(previous: Recording | None,
                                                                     known: bool) -> None:
    found = earlier_boot(snapshot("other"), previous, SERVICE)
    assert (found.known, found.looked, found.out) == (known, 0.0, "")


def test_what_is_kept_of_boots_is_all_that_the_next_snapshot_needs() -> None:
    capture = boot_capture(snapshot("other", 2000.0), kept(BOOT_CAPTURE, boots(state="rma")), MAINTENANCE)
    assert json.loads(capture.text) == {"state": "maintenance", "last": 2000.0, "looked": 500.0, "out": "rma"}
    assert (capture.outcome, capture.bytes) == (Outcome.DONE, len(capture.text))
    assert json.loads(boot_capture(LOST, kept(BOOT_CAPTURE, boots(looked=9.0)),
                                   SERVICE).text)["looked"] == 0.0


# Records of the kernel's log

OLD = CarriedRecords(records="4,1,1000000,-;a fault\n", records_by_rule={"kernel-fault": (1,)}, newest=5,
                     since=1, seconds=0.5)
LOG = "4,6,9000000,-;another\n6,7,9500000,-;nothing\n"


def logged(text: str = LOG, *, outcome: Outcome = Outcome.DONE, sent: str = "", note: str = "",
           boot: str = "b00t") -> Recording:
    return snapshot(boot, kernel_log=Capture(Outcome.DONE, text=sent, note=note,
                                             files={"/dev/kmsg": FileCapture(outcome, text)}))


def carried(recording: Recording) -> CarriedRecords | None:
    text = recording.captures["kernel.log"].text
    return from_text(text) if text else None


HAD = kept(LOG_CAPTURE, to_text(OLD))


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.TRUNCATED])
def test_records_of_the_same_boot_that_the_log_no_longer_holds_are_handed_on(outcome: Outcome) -> None:
    found = with_earlier(logged(outcome=outcome), HAD)
    assert carried(found) == replace(OLD, newest=7)
    assert found.captures["kernel.log"].files == logged(outcome=outcome).captures["kernel.log"].files


def test_of_a_log_that_was_overwritten_while_it_was_read_records_count_from_its_end_on() -> None:
    found = carried(with_earlier(logged(note="records were overwritten"), HAD))
    assert found == replace(OLD, newest=7, since=7, seconds=9.5)


@pytest.mark.parametrize("previous", [
    None, LOST, snapshot(), kept(LOG_CAPTURE, to_text(OLD), "other"), kept(LOG_CAPTURE, to_text(OLD), ""),
])
def test_without_an_earlier_snapshot_of_its_boot_a_log_has_only_its_own_records(
        previous: Recording | None) -> None:
    assert carried(with_earlier(logged(), previous)) is None
    # What the node itself sent as earlier records is no one's.
    assert carried(with_earlier(logged(sent=to_text(OLD)), previous)) is None


def test_a_snapshot_that_does_not_say_its_boot_has_no_earlier_one() -> None:
    no_boot = kept(LOG_CAPTURE, to_text(OLD), "")
    assert carried(with_earlier(logged(boot=""), no_boot)) is None
    nowhere = replace(logged(), host=None)
    assert with_earlier(nowhere, HAD) is nowhere
    assert log_capture(LOST, HAD, {}).text == to_text(CarriedRecords())


UNREAD = [snapshot(), snapshot(kernel_log=Capture(Outcome.DENIED)), logged(""),
          logged(outcome=Outcome.DENIED), logged(outcome=Outcome.MISSING), logged(outcome=Outcome.CRASHED)]


@pytest.mark.parametrize("recording", UNREAD)
def test_where_no_record_was_read_the_earlier_ones_are_carried_on(recording: Recording) -> None:
    assert with_earlier(recording, HAD) is recording
    assert with_statements(recording, [RepairStatement("b00t", {})]) is recording
    capture = log_capture(recording, HAD, {})
    assert (capture.text, capture.outcome, capture.bytes) == (to_text(OLD), Outcome.DONE, len(capture.text))


MENDED, OTHER = RepairStatement("b00t", {("kernel-fault", "nvme0"): 1}), RepairStatement("other", {})


def test_repairs_that_people_stated_are_handed_on_for_their_boot() -> None:
    found = carried(with_statements(logged(sent=to_text(OLD)), [OTHER, MENDED]))
    assert found == replace(OLD, repairs=(MENDED,))
    alone = carried(with_statements(logged(), [MENDED]))
    assert alone == CarriedRecords(newest=7, since=6, seconds=9.0, repairs=(MENDED,))
    # Statements that the node itself sent are no one's.
    own = carried(with_statements(logged(sent=to_text(replace(OLD, repairs=(OTHER,)))), []))
    assert own == OLD


@pytest.mark.parametrize("recording", [logged(), logged(boot=""), replace(logged(), host=None)])
def test_a_statement_of_another_boot_or_of_none_changes_nothing(recording: Recording) -> None:
    assert with_statements(recording, [OTHER, RepairStatement("", {})]) is recording


def test_a_snapshot_keeps_the_records_on_which_its_findings_rest() -> None:
    given = log_capture(logged(sent=to_text(OLD)), None, {"kernel-fault": (1,), "kernel-trouble": (6,)})
    assert from_text(given.text) == replace(
        OLD, records="4,1,1000000,-;a fault\n4,6,9000000,-;another\n",
        records_by_rule={"kernel-fault": (1,), "kernel-trouble": (6,)})
    first = from_text(log_capture(logged(), HAD, {"kernel-trouble": (6,)}).text)
    assert (first.records, first.newest, first.since) == ("4,6,9000000,-;another\n", 7, 6)


# What was unusual

A, B, C = (fingerprint(name) for name in "ABC")


def unusual_text(boot: Any, before: Any = ()) -> str:
    return json.dumps({"boot": boot, "boot_before": before})


def test_a_fingerprint_is_short_and_the_same_everywhere() -> None:
    assert A == "559aead08264d579" and len({A, B, C, fingerprint("\udc80")}) == 4


def test_all_that_failed_as_unusual_has_a_fingerprint() -> None:
    def result(rule: str, check: str, status: Status, *subjects: str) -> Result:
        return Result(rule, check, status, Severity.WARNING, tuple(Finding(1, 0, one) for one in subjects))
    found = unusual({name: result(name, *given) for name, given in {
        "one": ("kernel.novel", Status.FAIL, "B", "A", "B"), "two": ("kernel.rate", Status.PASS, "C"),
        "three": ("kernel.fault", Status.FAIL, "C")}.items()})
    assert found == tuple(sorted((A, B)))


@pytest.mark.parametrize("text", ["", "{", "[]", "[" * 100_000, unusual_text(7, {}), unusual_text([7, None])])
def test_a_damaged_capture_has_no_fingerprints(text: str) -> None:
    assert seen_before(kept(UNUSUAL_CAPTURE, text)) == NOTHING_SEEN


def test_what_was_unusual_in_this_boot_or_the_one_before_was_seen_before() -> None:
    assert seen_before(None) == seen_before(snapshot()) == NOTHING_SEEN
    found = seen_before(kept(UNUSUAL_CAPTURE, unusual_text([A, 7], [B])))
    assert (found.name, found.fingerprints) == ("kernel log", {A, B})
    many = [f"{number:016x}" for number in range(1001)]
    assert seen_before(kept(UNUSUAL_CAPTURE, unusual_text(many))).fingerprints == set(many[:1000])


def test_fingerprints_stay_for_their_boot_and_the_next() -> None:
    def held(recording: Recording, previous: Recording | None, *now: str) -> Any:
        capture = unusual_capture(recording, previous, now)
        assert (capture.outcome, capture.bytes) == (Outcome.DONE, len(capture.text))
        document = json.loads(capture.text)
        return sorted(document["boot"]), document["boot_before"]
    had = kept(UNUSUAL_CAPTURE, unusual_text([B], [C]))
    assert held(snapshot(), None, A) == held(snapshot(), snapshot(), A) == ([A], [])
    assert held(snapshot(), had, A) == (sorted((A, B)), [C])
    assert held(snapshot("other"), had, A) == ([A], [B])
    assert held(LOST, had, A) == ([A], [B])
    many = [f"{number:016x}" for number in range(1001)]
    assert held(snapshot(), None, *many) == (many[:1000], [])
