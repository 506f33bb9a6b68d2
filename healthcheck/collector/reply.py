"""Turns a node's reply into a Recording, or into the reason why it is none: the bytes are untrusted."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from typing import Any

from healthcheck.model.probes import KIB, MIB, Probe, ProbeSet
from healthcheck.model.recording import (
    Capture,
    FileCapture,
    Outcome,
    Recording,
    RecordingError,
    captures_from_json,
    host_from_json,
)
from inventory.transport.base import Failure, Reply, Stage

SCHEMA = "muster.reply/2"
_SLACK = 64 * KIB


class _TooLarge(RecordingError):
    """It exceeds its limit."""


def decode(reply: Reply, *, limit: int = 32 * MIB) -> Recording:
    """The recording of one node's reply. It never raises: a failure of stage `reply` says why.

    `limit` bounds the reply after decompression, in bytes.
    """
    if reply.failure is not None:
        return Recording(reply.node, reply.received, None, reply.failure)
    try:
        text, blocks = _inflate(reply.body or b"", limit)
        document = _parse(text)
        host = host_from_json(_object(document, "host"))
        captures = captures_from_json(
            _restore_files(_object(document, "captures"), blocks, limit - len(text)))
    except RecordingError as error:
        why = f"the answer grows past {limit / MIB:g} MiB" if isinstance(error, _TooLarge) else str(error)
        return Recording(reply.node, reply.received, None, Failure(Stage.REPLY, why))
    return Recording(reply.node, reply.received, host, None, captures)


def _inflate(body: bytes, limit: int) -> tuple[bytes, bytes]:
    """The content of the compressed stream at the beginning, and the bytes after it."""
    machine = zlib.decompressobj()
    try:
        data = machine.decompress(body, limit + 1)
    except zlib.error:
        raise RecordingError("the answer is damaged: it cannot be decompressed") from None
    if len(data) > limit:
        raise _TooLarge
    if not machine.eof:
        raise RecordingError("the answer is cut: its compressed stream does not end")
    return data, machine.unused_data


def _parse(data: bytes) -> dict[str, Any]:
    document = _json(data)
    schema = document.get("schema")
    if schema != SCHEMA:
        raise RecordingError(
            f"the answer is of another version: its schema is {ascii(schema)[:60]}, expected {SCHEMA}")
    return document


def _json(text: bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except RecursionError:
        raise RecordingError("the answer is nested too deeply") from None
    except ValueError:
        raise RecordingError("the answer is not JSON") from None
    if not isinstance(document, dict):
        raise RecordingError("the answer is not a JSON object")
    return document


def _restore_files(captures: dict[str, Any], blocks: bytes, room: int) -> dict[str, Any]:
    """The captures; one that has a block's size in place of its files gets the files of the next block.

    Every block is used once. Together they hold at most `room` bytes.
    """
    at = 0
    for capture in captures.values():
        size = capture.get("files") if isinstance(capture, dict) else None
        if type(size) is not int:
            continue
        if not 0 < size <= len(blocks) - at:
            raise RecordingError("the answer is cut: it is shorter than it announces")
        text, more = _inflate(blocks[at:at + size], room)
        if more:
            raise RecordingError("the answer is not ours: something follows its end")
        capture["files"] = _json(text)
        at, room = at + size, room - len(text)
    if at < len(blocks):
        raise RecordingError("the answer is not ours: something follows its end")
    return captures


def _object(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise RecordingError(f"the answer's {key} is not an object")
    return value


def within(recording: Recording, probes: ProbeSet) -> Recording:
    """The recording with only what the probe set asked for, cut to each probe's limit.

    A real collector has kept the limits: then the recording itself is returned.
    """
    allowed = {probe.id: probe for probe in probes.probes}
    captures = recording.captures
    kept = {name: _cut(capture, allowed[name]) for name, capture in captures.items() if name in allowed}
    unchanged = (len(kept) == len(captures)
                 and all(kept[name] is capture for name, capture in captures.items()))
    return recording if unchanged else replace(recording, captures=kept)


def _cut(capture: Capture, probe: Probe) -> Capture:
    room = probe.limit
    size = sum(len(path) + len(entry.text) for path, entry in capture.files.items())
    if len(capture.text) + size <= room + _SLACK:
        return capture
    files: dict[str, FileCapture] = {}
    for path, entry in capture.files.items():
        room -= len(path) + len(entry.text)
        if room < 0:
            break
        files[path] = entry
    return replace(capture, outcome=Outcome.TRUNCATED, text=capture.text[: probe.limit], files=files)
