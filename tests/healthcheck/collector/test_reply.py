"""Whatever a node answers becomes a recording or the reason why it is none."""

from __future__ import annotations

import json
import zlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.collector.reply import decode
from healthcheck.model.recording import Outcome, Recording, capture_to_json, from_json, to_json
from inventory.transport.base import Failure, Reply, Stage
from tests.tries import tries

HOST = {"hostname": "gpu007", "boot_id": "b007", "time": 1.5, "uid": 0, "python": "3.11.2",
        "machine": "x86_64", "cpu_s": 0.03}
CAPTURES = {
    "host.memory": {"outcome": "done", "seconds": 0.001, "bytes": 9,
                    "files": {"/proc/meminfo": ["done", "MemTotal:"], "/proc/x": ["missing"]}},
    "docker.info": {"outcome": "done", "seconds": 0.5, "bytes": 2, "exit": 0, "text": "{}",
                    "stderr": "warning\n"},
    "gpu.nvml": {"outcome": "wedged", "seconds": 0.0, "bytes": 0,
                 "note": "wedged since 2026-11-21T06:00:00Z (pid 4711)"},
}
DOCUMENT: dict[str, Any] = {"schema": "muster.reply/2", "host": HOST, "captures": CAPTURES}


def answered(body: bytes, **limit: int) -> Recording:
    return decode(Reply("gpu007", body, None, 1.0, 2.0), **limit)


def packed(document: object) -> bytes:
    """As the collector writes it, but that all files are in blocks, however few there are."""
    blocks = []
    captures = document.get("captures") if isinstance(document, dict) else None
    if isinstance(document, dict) and isinstance(captures, dict):
        document = {**document, "captures": {**captures}}
        for name, made in captures.items():
            if isinstance(made, dict) and "files" in made:
                blocks.append(zlib.compress(json.dumps(made["files"]).encode()))
                document["captures"][name] = {**made, "files": len(blocks[-1])}
    return zlib.compress(json.dumps(document).encode()) + b"".join(blocks)


def inflated(body: bytes) -> int:
    """Bytes of text in an answer."""
    size = 0
    while body:
        machine = zlib.decompressobj()
        size += len(machine.decompress(body))
        body = machine.unused_data
    return size


def refused(body: bytes, **limit: int) -> str:
    recording = answered(body, **limit)
    assert recording.host is None and not recording.captures and recording.failure is not None
    assert recording.failure.stage is Stage.REPLY
    assert recording.failure.reason.isprintable() and len(recording.failure.reason) < 300
    return recording.failure.reason


def test_a_good_answer_becomes_a_recording_under_the_inventorys_name_and_the_heads_clock() -> None:
    recording = answered(packed(DOCUMENT))
    assert (recording.node, recording.received, recording.failure) == ("gpu007", 2.0, None)
    assert recording.host is not None and vars(recording.host) == {**HOST, "run_folder": ""}
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
    size = inflated(packed(DOCUMENT))
    assert answered(packed(DOCUMENT), limit=size).failure is None
    assert "grows past" in refused(packed(DOCUMENT), limit=size - 1)


@pytest.mark.parametrize("kept", [0, 1, 10, -5, -1])
def test_an_answer_that_is_cut_is_none(kept: int) -> None:
    assert refused(packed(DOCUMENT)[:kept])


def test_an_answer_of_which_all_is_there_but_the_end_of_its_stream_is_none() -> None:
    whole = zlib.compress(json.dumps(DOCUMENT).encode())
    assert zlib.decompressobj().decompress(whole[:-4]) == json.dumps(DOCUMENT).encode()
    assert answered(whole).failure is None
    assert refused(whole[:-4]) == "the answer is cut: its compressed stream does not end"


def test_an_answer_with_something_behind_its_end_is_none() -> None:
    assert refused(packed(DOCUMENT) + b"more")


@pytest.mark.parametrize("schema", ["muster.reply/1", "other", None, 1, [], "\x1b[31m" * 100])
def test_an_answer_of_another_version_reports_it(schema: object) -> None:
    assert "another version" in refused(packed({**DOCUMENT, "schema": schema}))


@pytest.mark.parametrize("text", [
    b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"schema": "muster.reply/2"}', b"[" * 100_000,
    b'{"a":' * 100_000, b"9" * 100_000, b'{"schema": "muster.reply/2", "host": [], "captures": {}}',
])
def test_what_is_not_our_document_is_refused_in_one_line(text: bytes) -> None:
    assert refused(zlib.compress(text))


@pytest.mark.parametrize("value", [
    "NaN", "Infinity", "-Infinity", "1e999", "9" * 400, "9" * 5000, "true", "null", '"1"', "[]",
    "[" * 900 + "]" * 900, "[" * 3000 + "]" * 3000,
])
@pytest.mark.parametrize("key", ["time", "cpu_s", "uid"])
def test_a_number_that_is_none_is_refused(key: str, value: str) -> None:
    text = json.dumps({**DOCUMENT, "host": {**HOST, key: "@"}}).replace('"@"', value)
    if key == "uid" and value.startswith("9" * 400) and len(value) == 400:
        assert answered(zlib.compress(text.encode())).host is not None
    else:
        assert refused(zlib.compress(text.encode()))


@pytest.mark.parametrize(("key", "value"), [
    ("outcome", "fine"), ("outcome", None), ("outcome", ["done"]), ("seconds", "1"), ("seconds", None),
    ("bytes", 1.5), ("bytes", True), ("exit", "0"), ("exit", 0.0), ("text", 1), ("text", None),
    ("stderr", []), ("note", {}), ("files", []), ("files", {"/a": "done"}),
    ("files", {"/a": []}), ("files", {"/a": ["done", 1]}), ("files", {"/a": ["done", "x", "y"]}),
    ("files", {"/a": ["fine"]}),
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
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.sampled_from(["outcome", "seconds", "bytes", "files", "text", "x"]), inner),
    max_leaves=12,
))
def test_no_document_raises(value: object) -> None:
    for document in (value, {**DOCUMENT, "host": value}, {**DOCUMENT, "captures": value},
                     {**DOCUMENT, "captures": {"p": value}}):
        answered(packed(document))
        answered(zlib.compress(json.dumps(document).encode()))


MADE = {"outcome": "done", "seconds": 0.0, "bytes": 0}
FILES = zlib.compress(json.dumps({"/proc/meminfo": ["done", "MemTotal:"]}).encode())


def in_blocks(captures: object, *blocks: bytes) -> bytes:
    return zlib.compress(json.dumps({**DOCUMENT, "captures": captures}).encode()) + b"".join(blocks)


def test_few_files_may_be_in_the_document_itself() -> None:
    whole, apart = zlib.compress(json.dumps(DOCUMENT).encode()), packed(DOCUMENT)
    assert answered(whole).captures == answered(apart).captures


@pytest.mark.parametrize(("block", "reason"), [
    (b"", "cut"), (FILES[:-1], "cut"), (b"x" * 20, "damaged"), (zlib.compress(b""), "not JSON"),
    (zlib.compress(b"[]"), "not a JSON object"), (zlib.compress(b"[" * 100_000), "nested too deeply"),
    (zlib.compress(b'{"/x": ["done", 1]}'), "not [outcome, text]"),
    (FILES + b"more", "something follows"), (FILES + FILES, "something follows"),
    (zlib.compress(bytes(40 << 20), 9), "grows past 32 MiB"),
])
def test_a_block_that_holds_no_files_is_refused(block: bytes, reason: str) -> None:
    assert reason in refused(in_blocks({"p": {**MADE, "files": len(block)}}, block))


def test_files_within_files_are_refused_wherever_they_stand() -> None:
    block = zlib.compress(b'{"files":{"/a":["done","x"]}}')
    assert "not [outcome, text]" in refused(in_blocks({"p": {**MADE, "files": len(block)}}, block))
    held = json.dumps({**DOCUMENT, "captures": {"p": {**MADE, "files": "HERE"}}}).replace(
        '"HERE"', '{"files":{"/a":["done","x"]}}')
    assert "not [outcome, text]" in refused(zlib.compress(held.encode()))


@pytest.mark.parametrize("size", [0, -1, len(FILES) - 1, len(FILES) + 1, 10**30, -10**30, True, False, None,
                                  1.0, "1", []])
def test_files_of_another_size_than_their_block_are_refused(size: object) -> None:
    assert refused(in_blocks({"p": {**MADE, "files": size}}, FILES))


def test_one_block_cannot_serve_two_captures() -> None:
    made = {**MADE, "files": len(FILES)}
    assert refused(in_blocks({"p": made, "q": made}, FILES))
    captures = answered(in_blocks({"p": made, "q": made}, FILES, FILES)).captures
    assert captures["p"].files == captures["q"].files != {}


def test_many_blocks_that_are_small_each_are_let_off_at_the_limit_of_the_answer() -> None:
    block = zlib.compress(json.dumps({"/x": ["done", "x" * 60_000]}).encode(), 9)
    body = in_blocks({f"p{number}": {**MADE, "files": len(block)} for number in range(20)}, *[block] * 20)
    assert answered(body, limit=2 << 20).failure is None
    assert refused(body, limit=1 << 20) == "the answer grows past 1 MiB"


GOOD = packed(DOCUMENT)


@settings(max_examples=tries(300))
@given(st.integers(0, len(GOOD) - 1), st.integers(0, 255), st.integers(0, len(GOOD)))
def test_a_changed_or_cut_answer_never_claims_more_than_was_sent(at: int, byte: int, kept: int) -> None:
    """The frame's checksum is not asked here: zlib's own must do."""
    changed = bytearray(GOOD)
    changed[at] = byte
    sent = answered(GOOD).captures
    for body in (bytes(changed), GOOD[:kept], bytes(changed[:kept])):
        recording = answered(body)
        assert recording.failure is not None or recording.captures == sent
        assert all(capture.outcome is not Outcome.DONE or capture == sent[name]
                   for name, capture in recording.captures.items())
