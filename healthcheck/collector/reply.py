"""Turns what a node answered into a Recording, or into the reason why it is none: the bytes are foreign and may be anything."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from healthcheck.model.probes import KIB, MIB, Probe, ProbeSet
from healthcheck.model.recording import (
    Capture,
    Entries,
    FileCapture,
    Host,
    Kindred,
    Outcome,
    Recording,
    RecordingError,
    captures_from_json,
    entries_from_json,
    host_from_json,
)
from healthcheck.model.recordingread import loads, read_files
from inventory.transport.base import Failure, Reply, Stage

SCHEMA = "muster.reply/2"
_SLACK = 64 * KIB


class _TooLarge(RecordingError):
    """It grows past its limit."""


def decode(reply: Reply, *, limit: int = 32 * MIB) -> Recording:
    """The recording of one node's answer. Whatever the bytes are, it raises nothing: a failure of stage `reply` says why.

    `limit` bounds the answer after decompression, in bytes.
    """
    if reply.failure is not None:
        return Recording(reply.node, reply.received, None, reply.failure)
    try:
        text, blocks = _inflate(reply.body or b"", limit)
        try:
            host, captures = _said(text, blocks, limit - len(text), loads)
        except _TooLarge:
            raise
        except RecordingError:      # what is wrong is told in the node's words, and not in those of what was made of others' like it
            host, captures = _said(text, blocks, limit - len(text), json.loads)
    except RecordingError as error:
        why = f"the answer grows past {limit / MIB:g} MiB" if isinstance(error, _TooLarge) else str(error)
        return Recording(reply.node, reply.received, None, Failure(Stage.REPLY, why))
    return Recording(reply.node, reply.received, host, None, captures)


def _said(text: bytes, blocks: bytes, room: int, parse: Callable[[bytes], Any]) -> tuple[Host, Mapping[str, Capture]]:
    document = _parse(text, parse)
    host = host_from_json(_object(document, "host"))
    return host, captures_from_json(_with_files(_object(document, "captures"), blocks, room))


def _inflate(body: bytes, limit: int) -> tuple[bytes, bytes]:
    """What the compressed stream at the beginning holds, and what follows it."""
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


def _parse(data: bytes, parse: Callable[[bytes], Any]) -> dict[str, Any]:
    document = _json(data, parse)
    schema = document.get("schema")
    if schema != SCHEMA:
        raise RecordingError(f"the answer is of another version: its schema is {ascii(schema)[:60]}, expected {SCHEMA}")
    return document


def _json(text: bytes, parse: Callable[[bytes], Any] = json.loads) -> dict[str, Any]:
    try:
        document = parse(text)
    except RecursionError:
        raise RecordingError("the answer is nested too deeply") from None
    except ValueError:
        raise RecordingError("the answer is not JSON") from None
    if not isinstance(document, dict):
        raise RecordingError("the answer is not a JSON object")
    return document


def _with_files(captures: dict[str, Any], blocks: bytes, room: int) -> dict[str, Any]:
    """The captures, each that has the size of a block in place of its files with those of the next block: none serves twice, and none
    is left over. In all they hold at most `room` bytes."""
    at = 0
    for name, capture in captures.items():
        size = capture.get("files") if isinstance(capture, dict) else None
        if type(size) is not int:
            continue
        if not 0 < size <= len(blocks) - at:
            raise RecordingError("the answer is cut: there is less than it announces")
        capture["files"], length = _files(name, blocks[at:at + size], room)
        at, room = at + size, room - length
        if room < 0:
            raise _TooLarge
    if at < len(blocks):
        raise RecordingError("the answer is not ours: something follows its end")
    return captures


def _files(name: str, block: bytes, room: int) -> tuple[Entries | Kindred, int]:
    """The files in a block and the bytes of their text: much of it is the same on a fleet's nodes, and read once."""
    if (known := _KNOWN.get((name, block))) is not None:
        return known
    text, more = _inflate(block, room)
    if more:
        raise RecordingError("the answer is not ours: something follows its end")
    found = _read(name, text), len(text)
    if len(text) <= _LARGE:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[name, block] = found
    return found


def _read(name: str, text: bytes) -> Entries | Kindred:
    try:
        return read_files(text)
    except (ValueError, RecursionError):
        return entries_from_json(name, _json(text))


_KNOWN: dict[tuple[str, bytes], tuple[Entries | Kindred, int]] = {}
_MOST_KNOWN, _LARGE = 512, 64 * KIB


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
    most = capture.files.most if isinstance(capture.files, (Entries, Kindred)) else 0
    if 0 < most <= room + _SLACK - len(capture.text):
        return capture
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
