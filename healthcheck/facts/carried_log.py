"""Puts the kernel's records that earlier snapshots of a boot handed on, and people's words, into the recording that is judged.

Each snapshot that is kept in the state folder carries one more capture, HANDED_ON, with the records on which its findings rest
(`healthcheck.kernellog.carried`). They become the text of the kernel log's capture, which no probe of files has otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from healthcheck.facts.kernel import KMSG, LOG, TORN
from healthcheck.kernellog.carried import NOTHING, Carried, RepairStatement, after, before, read, written
from healthcheck.model.recording import Capture, Outcome, Recording

LOG_CAPTURE = "muster.log"


def with_earlier(recording: Recording, previous: Recording | None) -> Recording:
    """The recording, its kernel log with what `previous`, the newest snapshot before this one, hands on where it is of the same boot.

    Of what the node itself says that earlier snapshots saw, nothing is left.
    """
    capture, log = recording.captures.get(LOG.id), _log(recording)
    if capture is None or log is None:
        return recording
    found = before(_handed_on(recording, previous), log, torn=TORN in capture.note)
    return _with(recording, capture, "" if found == before(NOTHING, log) else written(found))


def with_statements(recording: Recording, words: Sequence[RepairStatement]) -> Recording:
    """The recording with people's words that are of its boot."""
    capture = recording.captures.get(LOG.id)
    boot = recording.host.boot_id if recording.host is not None else ""
    said = tuple(word for word in words if boot and word.boot == boot)
    if capture is None or not (said or capture.text):
        return recording
    log = _log(recording)
    if log is None:
        return recording
    found = replace(read(capture.text) if capture.text else before(NOTHING, log), words=said)
    return _with(recording, capture, written(found))


def log_capture(recording: Recording, previous: Recording | None, rests: Mapping[str, Collection[int] | None]) -> Capture:
    """What this snapshot is to be kept with. `rests` as of `healthcheck.kernellog.carried.after`; of a log that was not read, what was
    handed on to it is handed on."""
    log = _log(recording)
    if log is None:
        return _capture(_handed_on(recording, previous))
    capture = recording.captures[LOG.id]
    return _capture(after(read(capture.text) if capture.text else before(NOTHING, log), log, rests))


def _handed_on(recording: Recording, previous: Recording | None) -> Carried:
    """What the earlier snapshot hands on to one of the same boot."""
    if previous is None or previous.host is None or recording.host is None or not recording.host.boot_id \
            or previous.host.boot_id != recording.host.boot_id:
        return NOTHING
    capture = previous.captures.get(LOG_CAPTURE)
    return read(capture.text) if capture is not None else NOTHING


def _log(recording: Recording) -> str | None:
    """What the kernel held, as far as it was read; None where no record was."""
    capture = recording.captures.get(LOG.id)
    entry = capture.files.get(KMSG) if capture is not None else None
    return entry.text if entry is not None and entry.outcome in (Outcome.DONE, Outcome.TRUNCATED) and entry.text else None


def _with(recording: Recording, capture: Capture, text: str) -> Recording:
    if text == capture.text:
        return recording
    return replace(recording, captures={**recording.captures, LOG.id: replace(capture, text=text)})


def _capture(carried: Carried) -> Capture:
    text = written(carried)
    return Capture(Outcome.DONE, bytes=len(text), text=text)
