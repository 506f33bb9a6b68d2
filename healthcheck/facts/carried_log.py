"""Adds kernel records from earlier snapshots of the same boot, and people's repair statements, to the
recording that is judged.

Each snapshot in the state folder has one more capture, LOG_CAPTURE, with the records on which its findings
rest (`healthcheck.kernellog.carried`). They become the text of the kernel log's capture, which a probe of
files leaves empty.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from healthcheck.facts.kernel import KMSG, LOG, TORN
from healthcheck.kernellog.carried import (
    NO_RECORDS,
    CarriedRecords,
    RepairStatement,
    before_log,
    carry_over,
    from_text,
    to_text,
)
from healthcheck.model.recording import Capture, Outcome, Recording

LOG_CAPTURE = "muster.log"


def with_earlier(recording: Recording, previous: Recording | None) -> Recording:
    """The recording with the log records of `previous`, the newest snapshot before this one, where that is of
    the same boot.

    What the node itself sent as records of earlier snapshots is dropped.
    """
    capture, log = recording.captures.get(LOG.id), _log(recording)
    if capture is None or log is None:
        return recording
    found = before_log(_handed_on(recording, previous), log, torn=TORN in capture.note)
    return _with(recording, capture, "" if found == before_log(NO_RECORDS, log) else to_text(found))


def with_statements(recording: Recording, statements: Sequence[RepairStatement]) -> Recording:
    """The recording with the repair statements that are of its boot."""
    capture = recording.captures.get(LOG.id)
    boot = recording.host.boot_id if recording.host is not None else ""
    of_boot = tuple(statement for statement in statements if boot and statement.boot == boot)
    if capture is None or not (of_boot or capture.text):
        return recording
    log = _log(recording)
    if log is None:
        return recording
    found = replace(from_text(capture.text) if capture.text else before_log(NO_RECORDS, log), repairs=of_boot)
    return _with(recording, capture, to_text(found))


def log_capture(recording: Recording, previous: Recording | None,
                records_by_rule: Mapping[str, Collection[int] | None]) -> Capture:
    """The capture that is stored with this snapshot. `records_by_rule` as of
    `healthcheck.kernellog.carried.carry_over`.
    Where the log was not read, the earlier snapshot's records are carried on."""
    log = _log(recording)
    if log is None:
        return _capture(_handed_on(recording, previous))
    capture = recording.captures[LOG.id]
    earlier = from_text(capture.text) if capture.text else before_log(NO_RECORDS, log)
    return _capture(carry_over(earlier, log, records_by_rule))


def _handed_on(recording: Recording, previous: Recording | None) -> CarriedRecords:
    """The records of the earlier snapshot, where it is of the same boot."""
    if previous is None or previous.host is None or recording.host is None or not recording.host.boot_id \
            or previous.host.boot_id != recording.host.boot_id:
        return NO_RECORDS
    capture = previous.captures.get(LOG_CAPTURE)
    return from_text(capture.text) if capture is not None else NO_RECORDS


def _log(recording: Recording) -> str | None:
    """The kernel's log as far as it was read; None where no record was read."""
    capture = recording.captures.get(LOG.id)
    entry = capture.files.get(KMSG) if capture is not None else None
    return (entry.text if entry is not None and entry.outcome in (Outcome.DONE, Outcome.TRUNCATED)
            and entry.text else None)


def _with(recording: Recording, capture: Capture, text: str) -> Recording:
    if text == capture.text:
        return recording
    return replace(recording, captures={**recording.captures, LOG.id: replace(capture, text=text)})


def _capture(carried: CarriedRecords) -> Capture:
    text = to_text(carried)
    return Capture(Outcome.DONE, bytes=len(text), text=text)
