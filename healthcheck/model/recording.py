"""Recordings: the raw captures of one node at one time, or the stage at which it could not be reached.

One JSON document (`muster.recording/1`), the same for a live sweep, a saved sweep, a test's fixture and an
agent's state file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from math import isfinite
from types import MappingProxyType
from typing import Any, NamedTuple

from inventory.transport.base import Failure, Stage

SCHEMA = "muster.recording/1"


class Outcome(Enum):
    """How one capture ended. Only `DONE` is complete, `TRUNCATED` holds a part, the rest nothing to trust."""

    DONE = "done"              # complete; a command may still have exited with a status other than 0
    MISSING = "missing"        # no such file, directory or program
    DENIED = "denied"          # exists, but we may not
    TIMEOUT = "timeout"        # past its limit; killed
    TRUNCATED = "truncated"    # more than its limit in bytes; what is held is real, the rest was dropped
    CRASHED = "crashed"        # ended by a signal, or an I/O error while reading
    # Not started: its predecessor is past its limit and still there; or it cannot be killed
    WEDGED = "wedged"
    # Our own program lacked something (a descriptor, memory, a process, a module): says nothing of the node
    UNABLE = "unable"

    __hash__ = object.__hash__      # an Enum's own is of its member's name, in Python, and slower


_MOST_REASON = 400     # characters


class FileCapture(NamedTuple):
    """One file or mount point of a FILES or MOUNTS probe; non-UTF-8 bytes in `text` are surrogate escapes."""

    outcome: Outcome
    text: str = ""


@dataclass(frozen=True)
class Capture:
    """What one probe captured. `text` is a command's standard output, or the JSON of a CLOCK or NVML probe.

    `files` is keyed by the path as probed (never with the re-rooting prefix). `exit` is the exit status,
    negative for a signal. `note` adds what a person needs: 'wedged since 2026-11-21T06:00:00Z (pid 4711)'.
    """

    outcome: Outcome
    exit: int | None = None
    seconds: float = 0.0
    bytes: int = 0
    text: str = ""
    stderr: str = ""
    files: Mapping[str, FileCapture] = field(default_factory=lambda: MappingProxyType({}))
    note: str = ""


@dataclass(frozen=True)
class Host:
    """The collector's report on the machine and itself; `time` is the node's clock as it answered.

    `run_folder` is why it can remember no wedged probe, empty where it can.
    """

    hostname: str
    boot_id: str
    time: float
    uid: int
    python: str
    machine: str
    cpu_s: float
    run_folder: str = ""


@dataclass(frozen=True)
class Recording:
    """One snapshot of one node. Exactly one of `host` (it was reached) and `failure` is set.

    `received` is the head's clock (epoch seconds) when the answer was complete.
    """

    node: str
    received: float
    host: Host | None
    failure: Failure | None
    captures: Mapping[str, Capture] = field(default_factory=lambda: MappingProxyType({}))


class RecordingError(ValueError):
    """A document is not a recording of this version; the text says why, in one line."""


def to_json(recording: Recording) -> dict[str, Any]:
    """The document, with keys in a fixed order; equal recordings give equal documents."""
    document: dict[str, Any] = {"schema": SCHEMA, "node": recording.node, "received": recording.received}
    if recording.failure is not None:
        document["failure"] = {"stage": recording.failure.stage.value, "reason": recording.failure.reason}
    if recording.host is not None:
        document["host"] = {name: value for name, value in vars(recording.host).items()
                            if name != "run_folder" or value}
        document["captures"] = {name: capture_to_json(recording.captures[name])
                                for name in sorted(recording.captures)}
    return document


def capture_to_json(capture: Capture) -> dict[str, Any]:
    """One capture as JSON; empty members are left out."""
    document: dict[str, Any] = {"outcome": capture.outcome.value, "seconds": capture.seconds,
                                "bytes": capture.bytes}
    for key in ("exit", "text", "stderr", "note"):
        if (value := getattr(capture, key)) not in (None, ""):
            document[key] = value
    if capture.files:
        document["files"] = {
            path: [entry.outcome.value, entry.text] if entry.text else [entry.outcome.value]
            for path, entry in capture.files.items()
        }
    return document


def read(data: bytes) -> Recording:
    """The recording in a document; raises RecordingError, or ValueError or RecursionError if not JSON."""
    return from_json(json.loads(data))


def from_json(document: Any) -> Recording:
    """Reads a document; raises RecordingError for anything that is not a recording."""
    if not isinstance(document, dict):
        raise RecordingError("not a JSON object")
    if document.get("schema") != SCHEMA:
        raise RecordingError(f"schema is {_short(document.get('schema'))}, expected {SCHEMA}")
    node = _typed(document, "node", str)
    received = _number(document, "received")
    if "failure" in document:
        failure = _typed(document, "failure", dict)
        try:
            stage = Stage(failure.get("stage"))
        except ValueError:
            raise RecordingError(f"no such stage: {_short(failure.get('stage'))}") from None
        return Recording(node, received, None, Failure(stage, _typed(failure, "reason", str)))
    host = host_from_json(_typed(document, "host", dict))
    return Recording(node, received, host, None, captures_from_json(_typed(document, "captures", dict)))


def host_from_json(document: dict[str, Any]) -> Host:
    """Reads the collector's report on the machine; raises RecordingError."""
    return Host(hostname=_typed(document, "hostname", str), boot_id=_typed(document, "boot_id", str),
                time=_number(document, "time"), uid=_typed(document, "uid", int),
                python=_typed(document, "python", str), machine=_typed(document, "machine", str),
                cpu_s=_number(document, "cpu_s"),
                run_folder=_typed(document, "run_folder", str, "")[:_MOST_REASON])


def captures_from_json(document: dict[str, Any]) -> Mapping[str, Capture]:
    """Reads captures by probe id; raises RecordingError."""
    return {name: _capture(name, value) for name, value in document.items()}


def _capture(name: str, value: Any) -> Capture:
    if not isinstance(value, dict):
        raise RecordingError(f"capture {_short(name)} is not an object")
    exit_status = value.get("exit")
    if exit_status is not None and type(exit_status) is not int:
        raise RecordingError(
            f"capture {_short(name)}: exit is {_short(exit_status)}, expected a whole number")
    files = value.get("files", {})
    if not isinstance(files, dict):
        raise RecordingError(f"capture {_short(name)}: files is not an object")
    return Capture(outcome=_outcome(name, value.get("outcome")), exit=exit_status,
                   seconds=_number(value, "seconds"), bytes=_typed(value, "bytes", int),
                   text=_typed(value, "text", str, ""), stderr=_typed(value, "stderr", str, ""),
                   files=_files(name, files) if files else {}, note=_typed(value, "note", str, ""))


def _files(name: str, entries: dict[str, Any]) -> dict[str, FileCapture]:
    files = {}
    try:
        for path, entry in entries.items():
            if type(entry) is not list:
                raise TypeError
            outcome, text = entry if len(entry) != 1 else (entry[0], "")
            if type(text) is not str:
                raise TypeError
            # FileCapture(...), without a call in Python for each of a recording's hundreds of files
            files[path] = _new_tuple(FileCapture, (_OUTCOMES[outcome], text))
    except (KeyError, TypeError, ValueError):
        raise _files_error(name, entries) from None
    return files


def _files_error(name: str, entries: dict[str, Any]) -> RecordingError:
    """What is wrong with these file entries: the first that is not one or two texts, else the first outcome
    that does not exist."""
    for path, entry in entries.items():
        if type(entry) is not list or len(entry) not in (1, 2) or {str} != set(map(type, entry)):
            return RecordingError(f"capture {_short(name)}: {_short(path)} is not [outcome, text]")
    wrong = next(entry[0] for entry in entries.values() if entry[0] not in _OUTCOMES)
    return RecordingError(f"capture {_short(name)}: no such outcome: {_short(wrong)}")


_new_tuple = tuple.__new__
_OUTCOMES = {outcome.value: outcome for outcome in Outcome}


def _outcome(name: str, value: Any) -> Outcome:
    if isinstance(value, str) and value in _OUTCOMES:
        return _OUTCOMES[value]
    raise RecordingError(f"capture {_short(name)}: no such outcome: {_short(value)}")


def _typed(document: dict[str, Any], key: str, kind: type, default: Any = None) -> Any:
    value = document.get(key, default)
    if type(value) is not kind:
        raise RecordingError(f"{key} is {_short(value)}, expected {kind.__name__}")
    return value


def _number(document: dict[str, Any], key: str) -> float:
    value = document.get(key)
    if type(value) is float and isfinite(value):
        return value
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        with suppress(OverflowError):   # a whole number past the range of a float
            if isfinite(value):
                return float(value)
    raise RecordingError(f"{key} is {_short(value)}, expected a number")


def _short(value: Any) -> str:
    return ascii(value)[:60]
