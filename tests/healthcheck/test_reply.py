"""Whatever a node answers becomes a recording or the reason why it is none."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.recording import Outcome, Recording, capture_to_json, from_json, to_json
from healthcheck.reply import decode
from inventory.transport.base import Failure, Reply, Stage

HOST = {"hostname": "gpu007", "boot_id": "b007", "time": 1.5, "uid": 0, "python": "3.11.2", "machine": "x86_64", "cpu_s": 0.03}
CAPTURES = {
    "host.memory": {"outcome": "done", "seconds": 0.001, "bytes": 9, "files": {"/proc/meminfo": ["done", "MemTotal:"], "/proc/x": ["missing"]}},
    "docker.info": {"outcome": "done", "seconds": 0.5, "bytes": 2, "exit": 0, "text": "{}", "stderr": "warning\n"},
    "gpu.nvml": {"outcome": "wedged", "seconds": 0.0, "bytes": 0, "note": "wedged since 2026-11-21T06:00:00Z (pid 4711)"},
}
DOCUMENT: dict[str, Any] = {"schema": "muster.reply/2", "host": HOST, "captures": CAPTURES}


def answered(body: bytes, **limit: int) -> Recording:
    return decode(Reply("gpu007", body, None, 1.0, 2.0), **limit)


def text_of(document: object) -> str:
    """As the collector writes it: the files of each capture in a line of their own."""
    lines = []
    captures = document.get("captures") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(captures, dict):
        lines = [made["files"] for made in captures.values() if isinstance(made, dict) and "files" in made]
        captures = {name: {**made, "files": True} if isinstance(made, dict) and "files" in made else made for name, made in captures.items()}
        document = {**document, "captures": captures}
    return "\n".join(json.dumps(part) for part in (document, *lines))


def packed(document: object) -> bytes:
    return zlib.compress(text_of(document).encode())


def refused(body: bytes, **limit: int) -> str:
    recording = answered(body, **limit)
    assert recording.host is None and not recording.captures and recording.failure is not None
    assert recording.failure.stage is Stage.REPLY
    assert recording.failure.reason.isprintable() and len(recording.failure.reason) < 300
    return recording.failure.reason


def test_a_good_answer_becomes_a_recording_under_the_inventorys_name_and_the_heads_clock() -> None:
    recording = answered(packed(DOCUMENT))
    assert (recording.node, recording.received, recording.failure) == ("gpu007", 2.0, None)
    assert recording.host is not None and vars(recording.host) == HOST
    assert {name: capture_to_json(capture) for name, capture in recording.captures.items()} == CAPTURES
    assert from_json(json.loads(json.dumps(to_json(recording)))) == recording


def test_a_node_that_was_not_reached_keeps_its_reason() -> None:
    failure = Failure(Stage.AUTH, "no key was accepted")
    assert decode(Reply("gpu007", None, failure, 1.0, 2.0)) == Recording("gpu007", 2.0, None, failure)


def test_bytes_that_are_not_utf_8_arrive_as_surrogate_escapes() -> None:
    captures = {"p": {"outcome": "done", "seconds": 0, "bytes": 1, "files": {"/\udcff": ["done", "\udcfe"]}}}
    recording = answered(packed({**DOCUMENT, "captures": captures}))
    assert recording.captures["p"].files["/\udcff"].text.encode("utf-8", "surrogateescape") == b"\xfe"


def test_a_decompression_bomb_is_let_off_at_the_limit() -> None:
    assert refused(zlib.compress(bytes(40 << 20), 9)) == "the answer grows past 32 MiB"


def test_an_answer_of_exactly_the_limit_is_read_and_one_byte_more_is_not() -> None:
    size = len(text_of(DOCUMENT))
    assert answered(packed(DOCUMENT), limit=size).failure is None
    assert "grows past" in refused(packed(DOCUMENT), limit=size - 1)


@pytest.mark.parametrize("kept", [0, 1, 10, -5, -1])
def test_an_answer_that_is_cut_is_none(kept: int) -> None:
    assert refused(packed(DOCUMENT)[:kept])


def test_an_answer_with_something_behind_its_end_is_none() -> None:
    assert refused(packed(DOCUMENT) + b"more")


@pytest.mark.parametrize("schema", ["muster.reply/1", "other", None, 1, [], "\x1b[31m" * 100])
def test_an_answer_of_another_version_says_so(schema: object) -> None:
    assert "another version" in refused(packed({**DOCUMENT, "schema": schema}))


@pytest.mark.parametrize("text", [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema": "muster.reply/2"}', b"[" * 100_000, b'{"a":' * 100_000, b"9" * 100_000,
    b'{"schema": "muster.reply/2", "host": [], "captures": {}}',
])
def test_what_is_not_our_document_is_refused_in_one_line(text: bytes) -> None:
    assert refused(zlib.compress(text))


@pytest.mark.parametrize("value", [
    "NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "9" * 5000, "true", "null", '"1"', "[]", "[" * 900 + "]" * 900,
    "[" * 3000 + "]" * 3000,
])
@pytest.mark.parametrize("key", ["time", "cpu_s", "uid"])
def test_a_number_that_is_none_is_refused(key: str, value: str) -> None:
    text = text_of({**DOCUMENT, "host": {**HOST, key: "@"}}).replace('"@"', value)
    if key == "uid" and value.startswith("9" * 400) and len(value) == 400:
        assert answered(zlib.compress(text.encode())).host is not None
    else:
        assert refused(zlib.compress(text.encode()))


@pytest.mark.parametrize(("key", "value"), [
    ("outcome", "fine"), ("outcome", None), ("outcome", ["done"]), ("seconds", "1"), ("seconds", None), ("bytes", 1.5), ("bytes", True),
    ("exit", "0"), ("exit", 0.0), ("text", 1), ("text", None), ("stderr", []), ("note", {}), ("files", []), ("files", {"/a": "done"}),
    ("files", {"/a": []}), ("files", {"/a": ["done", 1]}), ("files", {"/a": ["done", "x", "y"]}), ("files", {"/a": ["fine"]}),
])
def test_a_capture_of_another_form_is_refused(key: str, value: object) -> None:
    captures = {"p": {"outcome": "done", "seconds": 0.0, "bytes": 0, key: value}}
    assert refused(packed({**DOCUMENT, "captures": captures}))


@given(st.binary(max_size=2000))
def test_no_bytes_raise(data: bytes) -> None:
    for body in (data, zlib.compress(data), packed(DOCUMENT) + data, data + packed(DOCUMENT)):
        answered(body)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["outcome", "seconds", "bytes", "files", "text", "x"]), inner),
    max_leaves=12,
))
def test_no_document_raises(value: object) -> None:
    for document in (value, {**DOCUMENT, "host": value}, {**DOCUMENT, "captures": value}, {**DOCUMENT, "captures": {"p": value}}):
        answered(packed(document))
        answered(zlib.compress(json.dumps(document).encode()))


FILES = json.dumps({"/proc/meminfo": ["done", "MemTotal:"]})


@pytest.mark.parametrize(("lines", "reason"), [
    ([], "not JSON"), ([""], "not JSON"), ([FILES, FILES], "something follows"), ([FILES, ""], "something follows"), (["[]"], "not a JSON object"),
    (["[" * 100_000], "nested too deeply"), ([FILES[:-1]], "not JSON"), (["{\n}"], "not JSON"), (['{"/x": ["done", 1]}'], "not [outcome, text]"),
    (["\n" * 20_000_000], "not JSON"),
])
def test_files_that_are_not_in_their_line_are_refused(lines: list[str], reason: str) -> None:
    document = {**DOCUMENT, "captures": {"p": {"outcome": "done", "seconds": 0.0, "bytes": 0, "files": True}}}
    assert reason in refused(zlib.compress("\n".join([json.dumps(document), *lines, *([""] if lines == [FILES, ""] else [])]).encode()))


@pytest.mark.parametrize("files", [{"/proc/meminfo": ["done"]}, False, None, 1, "true", []])
def test_files_in_the_document_itself_are_refused(files: object) -> None:
    document = {**DOCUMENT, "captures": {"p": {"outcome": "done", "seconds": 0.0, "bytes": 0, "files": files}}}
    assert "lines of their own" in refused(zlib.compress(f"{json.dumps(document)}\n{FILES}".encode()))


def test_one_line_cannot_serve_two_captures() -> None:
    made = {"outcome": "done", "seconds": 0.0, "bytes": 0, "files": True}
    text = json.dumps({**DOCUMENT, "captures": {"p": made, "q": made}})
    assert refused(zlib.compress(f"{text}\n{FILES}".encode()))
    captures = answered(zlib.compress(f"{text}\n{FILES}\n{FILES}".encode())).captures
    assert captures["p"].files == captures["q"].files != {}


def test_what_two_nodes_say_alike_is_one_object_whatever_the_rest_says() -> None:
    other = {**DOCUMENT, "host": {**HOST, "hostname": "gpu008"}}
    first, second = (answered(packed(document)).captures["host.memory"] for document in (DOCUMENT, other))
    assert first.files is second.files
    assert from_json(json.loads(json.dumps(to_json(answered(packed(DOCUMENT)))))).captures["host.memory"].files is first.files


GOOD = packed(DOCUMENT)


@settings(max_examples=300)
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, len(GOOD)))
def test_a_changed_or_cut_answer_never_claims_more_than_was_sent(at: int, byte: int, kept: int) -> None:
    """The frame's checksum is not asked here: zlib's own must do."""
    changed = bytearray(GOOD)
    changed[at] = byte
    sent = answered(GOOD).captures
    for body in (bytes(changed), GOOD[:kept], bytes(changed[:kept])):
        recording = answered(body)
        assert recording.failure is not None or recording.captures == sent
        assert all(capture.outcome is not Outcome.DONE or capture == sent[name] for name, capture in recording.captures.items())
