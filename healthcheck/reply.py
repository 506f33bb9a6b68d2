"""Turns what a node answered into a Recording, or into the reason why it is none: the bytes are foreign and may be anything."""

from __future__ import annotations

import io
import json
import zlib
from dataclasses import replace
from functools import lru_cache
from typing import Any

from healthcheck.probes import KIB, MIB, Probe, ProbeSet
from healthcheck.recording import (
    Capture,
    Entries,
    FileCapture,
    Outcome,
    Recording,
    RecordingError,
    captures_from_json,
    entries_from_json,
    host_from_json,
)
from inventory.transport.base import Failure, Reply, Stage

SCHEMA = "muster.reply/2"
_SLACK = 64 * KIB
_LARGE = 64 * KIB


def decode(reply: Reply, *, limit: int = 32 * MIB) -> Recording:
    """The recording of one node's answer. Whatever the bytes are, it raises nothing: a failure of stage `reply` says why.

    `limit` bounds the answer after decompression, in bytes.
    """
    if reply.failure is not None:
        return Recording(reply.node, reply.received, None, reply.failure)
    try:
        lines = io.BytesIO(_inflate(reply.body or b"", limit))
        document = _parse(lines.readline())
        host = host_from_json(_object(document, "host"))
        captures = captures_from_json(_with_files(_object(document, "captures"), lines))
    except RecordingError as error:
        return Recording(reply.node, reply.received, None, Failure(Stage.REPLY, str(error)))
    return Recording(reply.node, reply.received, host, None, captures)


def _inflate(body: bytes, limit: int) -> bytes:
    machine = zlib.decompressobj()
    try:
        data = machine.decompress(body, limit + 1)
    except zlib.error:
        raise RecordingError("the answer is damaged: it cannot be decompressed") from None
    if len(data) > limit:
        raise RecordingError(f"the answer grows past {limit / MIB:g} MiB")
    if not machine.eof:
        raise RecordingError("the answer is cut: its compressed stream does not end")
    if machine.unused_data:
        raise RecordingError("the answer is not ours: something follows its end")
    return data


def _parse(data: bytes) -> dict[str, Any]:
    document = _json(data)
    schema = document.get("schema")
    if schema != SCHEMA:
        raise RecordingError(f"the answer is of another version: its schema is {ascii(schema)[:60]}, expected {SCHEMA}")
    return document


def _json(line: bytes) -> dict[str, Any]:
    try:
        document = json.loads(line)
    except RecursionError:
        raise RecordingError("the answer is nested too deeply") from None
    except ValueError:
        raise RecordingError("the answer is not JSON") from None
    if not isinstance(document, dict):
        raise RecordingError("the answer is not a JSON object")
    return document


def _with_files(captures: dict[str, Any], lines: io.BytesIO) -> dict[str, Any]:
    """The captures, in each that says it has files those of the next line: no line serves twice, and none is left over."""
    for name, capture in captures.items():
        if isinstance(capture, dict) and "files" in capture:
            if capture["files"] is not True:
                raise RecordingError("the answer's files are not in lines of their own")
            line = lines.readline()
            capture["files"] = _files(name, line) if len(line) <= _LARGE else _files.__wrapped__(name, line)
    if lines.read(1):
        raise RecordingError("the answer is not ours: something follows its end")
    return captures


@lru_cache(maxsize=512)
def _files(name: str, line: bytes) -> Entries:
    """What a line says; much of it is the same on a fleet's nodes, and read once."""
    return entries_from_json(name, _json(line))


def _object(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise RecordingError(f"the answer's {key} is not an object")
    return value


def within(recording: Recording, probes: ProbeSet) -> Recording:
    """The recording without what was not asked for, and cut to what each probe may bring: a node that lies pays for its lie.

    An honest collector has kept to the limits already; then the recording is returned as it is.
    """
    allowed = {probe.id: probe for probe in probes.probes}
    kept = {name: _cut(capture, allowed[name]) for name, capture in recording.captures.items() if name in allowed}
    same = len(kept) == len(recording.captures) and all(kept[name] is capture for name, capture in recording.captures.items())
    return recording if same else replace(recording, captures=kept)


def _cut(capture: Capture, probe: Probe) -> Capture:
    room = probe.limit
    size = capture.files.size if isinstance(capture.files, Entries) else sum(len(path) + len(e.text) for path, e in capture.files.items())
    if len(capture.text) + size <= room + _SLACK:
        return capture
    files: dict[str, FileCapture] = {}
    for path, entry in capture.files.items():
        room -= len(path) + len(entry.text)
        if room < 0:
            break
        files[path] = entry
    return replace(capture, outcome=Outcome.TRUNCATED, text=capture.text[: probe.limit], files=files)
