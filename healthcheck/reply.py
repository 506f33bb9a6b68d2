"""Turns what a node answered into a Recording, or into the reason why it is none: the bytes are foreign and may be anything."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

from healthcheck.probes import KIB, MIB, Probe, ProbeSet
from healthcheck.recording import (
    Capture,
    FileCapture,
    Outcome,
    Recording,
    RecordingError,
    captures_from_json,
    host_from_json,
)
from inventory.transport.base import Failure, Reply, Stage

SCHEMA = "muster.reply/1"
_SLACK = 64 * KIB


def decode(reply: Reply, *, limit: int = 32 * MIB) -> Recording:
    """The recording of one node's answer. Whatever the bytes are, it raises nothing: a failure of stage `reply` says why.

    `limit` bounds the answer after decompression, in bytes.
    """
    if reply.failure is not None:
        return Recording(reply.node, reply.received, None, reply.failure)
    try:
        document = _parse(_inflate(reply.body or b"", limit))
        host = host_from_json(_object(document, "host"))
        captures = captures_from_json(_object(document, "captures"))
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
    try:
        document = json.loads(data)
    except RecursionError:
        raise RecordingError("the answer is nested too deeply") from None
    except ValueError:
        raise RecordingError("the answer is not JSON") from None
    if not isinstance(document, dict):
        raise RecordingError("the answer is not a JSON object")
    schema = document.get("schema")
    if schema != SCHEMA:
        raise RecordingError(f"the answer is of another version: its schema is {ascii(schema)[:60]}, expected {SCHEMA}")
    return document


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
    if len(capture.text) + sum(len(path) + len(entry.text) for path, entry in capture.files.items()) <= room + _SLACK:
        return capture
    files: dict[str, FileCapture] = {}
    for path, entry in capture.files.items():
        room -= len(path) + len(entry.text)
        if room < 0:
            break
        files[path] = entry
    return replace(capture, outcome=Outcome.TRUNCATED, text=capture.text[: probe.limit], files=files)
