"""Makes a recording of what came back from a node; whatever the bytes are, the result is a value."""

from __future__ import annotations

import json
import zlib
from typing import Any, NoReturn

from healthcheck.probes import MIB
from healthcheck.recording import Recording, RecordingError, captures_from_json, host_from_json
from inventory.transport.base import Failure, Reply, Stage

SCHEMA = "muster.reply/1"
LIMIT = 32 * MIB


def decode(reply: Reply, *, limit: int = LIMIT) -> Recording:
    """The recording of this reply. Raises nothing for the node's sake: what is cut, oversized (over `limit` bytes), damaged,
    not ours or of another version is a failure at stage REPLY, with its reason."""
    failure = reply.failure
    if failure is None:
        try:
            document = _document(reply.body or b"", limit)
            host = host_from_json(_member(document, "host"))
            captures = captures_from_json(_member(document, "captures"))
            return Recording(reply.node, reply.received, host, None, captures)
        except RecordingError as error:
            failure = Failure(Stage.REPLY, str(error))
    return Recording(reply.node, reply.received, None, failure)


def _document(body: bytes, limit: int) -> dict[str, Any]:
    unpack = zlib.decompressobj()
    try:
        data = unpack.decompress(body, limit + 1)
    except zlib.error:
        raise RecordingError("the answer is damaged: it cannot be decompressed") from None
    if len(data) > limit:
        size = f"{limit // MIB} MiB" if limit >= MIB else f"{limit} bytes"
        raise RecordingError(f"the answer grows past {size}")
    if not unpack.eof:
        raise RecordingError("the answer is cut: its compressed text has no end")
    if unpack.unused_data:
        raise RecordingError("the answer is not ours: something follows its end")
    try:
        document = json.loads(data, parse_constant=_refuse)
    except RecursionError:
        raise RecordingError("the answer is not ours: it is nested too deeply") from None
    except ValueError:
        raise RecordingError("the answer is not ours: it is not JSON") from None
    if not isinstance(document, dict):
        raise RecordingError("the answer is not ours: it is not a JSON object")
    if document.get("schema") != SCHEMA:
        raise RecordingError(f"the answer is of another version: schema {ascii(document.get('schema'))[:60]}, expected {SCHEMA}")
    return document


def _member(document: dict[str, Any], key: str) -> dict[str, Any]:
    value = document.get(key)
    if not isinstance(value, dict):
        raise RecordingError(f"the answer's {key} is not an object")
    return value


def _refuse(name: str) -> NoReturn:
    raise ValueError(name)
