"""Puts the kernel's records that earlier snapshots of a boot handed on, and people's words, into the recording that is judged.

Each snapshot that is kept in the state folder carries one more capture, HANDED_ON, with the records on which its findings rest
(`healthcheck.kernellog.carried`). They become the text of the kernel log's capture, which no probe of files has otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from healthcheck.facts.kernel import KMSG, LOG, TORN
from healthcheck.kernellog.carried import NO_RECORDS, CarriedRecords, RepairStatement, before_log, carry_over, from_text, to_text
from healthcheck.model.recording import Capture, Outcome, Recording

HANDED_ON = "muster.log"


def with_earlier(recording: Recording, previous: Recording | None) -> Recording:
    """The recording, its kernel log with what `previous`, the newest snapshot before this one, hands on where it is of the same boot.

    Of what the node itself says that earlier snapshots saw, nothing is left.
    """
    capture, log = recording.captures.get(LOG.id), _log(recording)
    if capture is None or log is None:
        return recording
    found = before_log(_handed_on(recording, previous), log, torn=TORN in capture.note)
    return _with(recording, capture, "" if found == before_log(NO_RECORDS, log) else to_text(found))


def with_words(recording: Recording, repairs: Sequence[RepairStatement]) -> Recording:
    """The recording with people's words that are of its boot."""
    capture = recording.captures.get(LOG.id)
    boot = recording.host.boot_id if recording.host is not None else ""
    reason = tuple(word for word in repairs if boot and word.boot == boot)
    if capture is None or not (reason or capture.text):
        return recording
    log = _log(recording)
    if log is None:
        return recording
    found = replace(from_text(capture.text) if capture.text else before_log(NO_RECORDS, log), repairs=reason)
    return _with(recording, capture, to_text(found))


def kept(recording: Recording, previous: Recording | None, records_by_rule: Mapping[str, Collection[int] | None]) -> Capture:
    """What this snapshot is to be kept with. `records_by_rule` as for `healthcheck.kernellog.carried.carry_over`; a
    log that was not read hands on what was handed on to it."""
    log = _log(recording)
    if log is None:
        return _capture(_handed_on(recording, previous))
    capture = recording.captures[LOG.id]
    return _capture(carry_over(from_text(capture.text) if capture.text else before_log(NO_RECORDS, log), log, records_by_rule))


def _handed_on(recording: Recording, previous: Recording | None) -> CarriedRecords:
    """What the earlier snapshot hands on to one of the same boot."""
    if previous is None or previous.host is None or recording.host is None or not recording.host.boot_id \
            or previous.host.boot_id != recording.host.boot_id:
        return NO_RECORDS
    capture = previous.captures.get(HANDED_ON)
    return from_text(capture.text) if capture is not None else NO_RECORDS


def _log(recording: Recording) -> str | None:
    """What the kernel held, as far as it was read; None where no record was."""
    capture = recording.captures.get(LOG.id)
    entry = capture.files.get(KMSG) if capture is not None else None
    return entry.text if entry is not None and entry.outcome in (Outcome.DONE, Outcome.TRUNCATED) and entry.text else None


def _with(recording: Recording, capture: Capture, text: str) -> Recording:
    if text == capture.text:
        return recording
    return replace(recording, captures={**recording.captures, LOG.id: replace(capture, text=text)})


def _capture(carried: CarriedRecords) -> Capture:
    text = to_text(carried)
    return Capture(Outcome.DONE, bytes=len(text), text=text)
