"""What is read by looking up what was met before is what json.loads and from_json make of the same bytes, or raises what they raise."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.collector.reply import within
from healthcheck.model import entryforms, recordingread
from healthcheck.model.recording import (
    Capture,
    Entries,
    FileCapture,
    Outcome,
    Recording,
    RecordingError,
    entries_from_json,
    from_json,
    to_json,
)
from healthcheck.model.recordingread import loads, read, read_files
from healthcheck.sweep.looks import encode
from tests.healthcheck import machine

# What our form is made of, and what resembles it: in texts it stands escaped, in bytes as it is.
MARKS = ('"files":{"', '"],"', '"]}},"', '"]}', "],", "]}},", "files", '":["', "done", '"', "\\", "\\\\", '\\"', "{", "}", "[", "]", ",", ":", " ",
         "NaN", "-Infinity", "0", "\\u0000", "\\ud800", "\\n", "null", '"a":["done","b"],', '"captures":{', '"outcome":"done",', '"seconds":1e999,',
         '"c":{"outcome":"done","seconds":0.1,"bytes":1},', '"files":{"/a":["done","x"]}', '{"outcome":["done"]}')
TEXTS = st.lists(st.sampled_from((*MARKS, "\udcff", "\n", "\x1f", "\u20ac", "\U0001f600")), max_size=3).map("".join)
FILES = st.dictionaries(TEXTS, st.builds(FileCapture, st.sampled_from(Outcome), TEXTS), max_size=3)
CAPTURES = st.builds(
    Capture, st.sampled_from(Outcome), st.none() | st.integers(-9, 9), st.sampled_from((0.0, 0.0123, -1.5, 1e300)), st.integers(0, 9),
    text=TEXTS, files=FILES, note=st.just("") | TEXTS,
)
RECORDINGS = st.builds(lambda captures: Recording("n1", 1.5, machine.HOST, None, captures), st.dictionaries(TEXTS, CAPTURES, max_size=3))


def plainly(data: bytes) -> Recording:
    return from_json(json.loads(data))


def came_of(how: Callable[[bytes], Any], data: bytes) -> Any:
    """What it gives, with the order of all that has one, or what it raises."""
    try:
        found = how(data)
    except (ValueError, RecursionError) as error:
        return type(error), str(error)
    if isinstance(found, Recording):
        return found, [(name, list(capture.files), list(vars(capture))) for name, capture in found.captures.items()]
    return found


@settings(max_examples=150)
@given(RECORDINGS)
def test_what_we_write_is_read_as_it_was(recording: Recording) -> None:
    data = encode(recording)
    assert came_of(read, data) == came_of(plainly, data)
    assert read(data) == replace(recording, captures={name: recording.captures[name] for name in sorted(recording.captures)})
    again = b'{"schema":"x","recording":%s,"files":1,"previous":%s}' % (data, data)
    assert from_json(loads(again)["recording"]) == from_json(loads(again)["previous"]) == read(data)


WRITTEN = encode(Recording("n1", 1.5, machine.HOST, None, {
    "a": Capture(Outcome.DONE, 0, 0.1, 3, files={"/a": FileCapture(Outcome.DONE, "1\n"), "/b": FileCapture(Outcome.MISSING)}),
    "files": Capture(Outcome.DONE, None, 0.2, 3, text='{"files":{"x": [1, "]}},"]}', note="n"),
    "m": Capture(Outcome.TIMEOUT, None, 0.3, 3, files={"/a": FileCapture(Outcome.DONE, '"],"'), "/c": FileCapture(Outcome.DONE, "\u20ac \\")}),
    "z": Capture(Outcome.DONE, None, 0.4, 3, files={"/a": FileCapture(Outcome.TRUNCATED, "1\n")}),
}))


@settings(max_examples=400)
@given(st.lists(st.tuples(st.integers(0, len(WRITTEN)), st.integers(0, 30), st.sampled_from(MARKS) | st.just("")), min_size=1, max_size=4))
def test_of_anything_else_the_same_comes_as_of_reading_it_plainly(changes: list[tuple[int, int, str]]) -> None:
    data = WRITTEN
    for at, gone, put in changes:
        data = data[:at] + put.encode() + data[at + gone:]
    assert came_of(read, data) == came_of(plainly, data)


@given(st.lists(st.sampled_from(MARKS), max_size=12).map("".join))
def test_files_are_read_as_plainly_or_not_at_all(inner: str) -> None:
    for data in (inner.encode(), f'{{"{inner}"]}}'.encode(), f'{{"/a":["done","{inner}"]}}'.encode(), f'{{"/a":["done","1"],"{inner}"]}}'.encode()):
        try:
            found = read_files(data)
        except ValueError:
            continue
        expected = entries_from_json("p", json.loads(data))
        assert found == expected and list(found) == list(expected)
        assert found.most >= expected.most


@pytest.mark.parametrize("data", [
    WRITTEN.decode().encode("utf-8-sig"), WRITTEN.decode().encode("utf-16"), WRITTEN.decode().encode("utf-16-le"), WRITTEN.decode().encode("utf-32-be"),
    json.dumps(json.loads(WRITTEN)).encode(), json.dumps(json.loads(WRITTEN), indent=1).encode(), json.dumps(json.loads(WRITTEN), ensure_ascii=False).encode(),
    b" " + WRITTEN, WRITTEN + b" ", WRITTEN + b"x", WRITTEN[:-2], b"", b"{", b"[]", b"null", b'"files":{"', b'{"files":{"', b"{\0", b"\xff",
    WRITTEN.replace(b'"/a"', b'"/\xff"'), WRITTEN.replace(b'"/a"', b'"/\xed\xa0\x80"'), WRITTEN.replace(b"\\n", b"\n"),
    WRITTEN.replace(b"0.1", b"NaN"), WRITTEN.replace(b"0.1", b"1e999"), WRITTEN.replace(b"0.1", b"1"), WRITTEN.replace(b"0.1", b"true"),
    WRITTEN.replace(b'"bytes":3', b'"bytes":3.0'), WRITTEN.replace(b'"exit":0', b'"exit":false'), WRITTEN.replace(b'"exit":0', b'"exit":null'),
    WRITTEN.replace(b'"exit":0', b'"more":0'), WRITTEN.replace(b'"note":"n"', b'"note":null'), WRITTEN.replace(b'"timeout"', b'"late"'),
    WRITTEN.replace(b'["done","1\\n"]', b'["late","1\\n"]'), WRITTEN.replace(b'["done","1\\n"]', b'["done","1","2"]'),
    WRITTEN.replace(b'["done","1\\n"]', b"[]"), WRITTEN.replace(b'["done","1\\n"]', b'"done"'), WRITTEN.replace(b'["done","1\\n"]', b'[1]'),
    WRITTEN.replace(b'"/b"', b'"/a"'), WRITTEN.replace(b'"m":', b'"a":'), WRITTEN.replace(b'"/b"', b'"\\u002fa"'),
    WRITTEN.replace(b'"files":{"/a"', b'"files":NaN,"files":{"/a"'), WRITTEN.replace(b'"files":{"/a"', b'"files":{"/a":["done"]},"files":{"/a"'),
    WRITTEN.replace(b'"m":', b'"files":{"outcome":["done"]},"m":'), WRITTEN.replace(b'"captures":{', b'"captures":{"files":{"outcome":["done"]},'),
    WRITTEN.replace(b'"host":{', b'"host":{"files":{"outcome":["done"]},'), WRITTEN.replace(b'["done","1\\n"]', b"[" * 100_000),
    WRITTEN.replace(b'"schema":"muster.recording/1"', b'"schema":"other"'), encode(Recording("n1", 1.0, None, machine.recording("x").failure)),
])
def test_odd_documents_are_read_as_plainly(data: bytes) -> None:
    assert came_of(read, data) == came_of(plainly, data)


def test_equal_files_of_looks_that_took_longer_are_read_once_and_each_look_keeps_its_own_time() -> None:
    entryforms._FORMS.clear()       # other tests' looks may differ in files that are one here
    first = machine.recording("n1")
    second = replace(first, captures={name: replace(capture, seconds=9.5) for name, capture in first.captures.items()})
    one, other = read(encode(first)).captures, read(encode(second)).captures
    assert all(one[name].files is other[name].files for name in one if one[name].files)
    assert {capture.seconds for capture in other.values()} == {9.5} and 9.5 not in {capture.seconds for capture in one.values()}
    port = one["port.sysfs"].files
    assert isinstance(port, Entries)
    path, entry = next(iter(port.items()))
    files = {**first.captures["port.sysfs"].files, path: FileCapture(Outcome.DONE, "other\n")}
    third = read(encode(replace(first, captures={"port.sysfs": replace(first.captures["port.sysfs"], files=files)})))
    assert third.captures["port.sysfs"].files == {**port, path: FileCapture(Outcome.DONE, "other\n")} and port[path] == entry


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recordingread, "_MOST_MET", 100)
    monkeypatch.setattr(recordingread, "_MET", recordingread._Met())
    for number in range(300):
        text = f'{{"/a":["done","{number}"],"/long":["done","{"x" * 300}{number}"]}}'
        assert read_files(text.encode())["/a"].text == str(number)
        assert len(recordingread._MET) <= 100 and max(map(len, recordingread._MET)) <= 256


def test_what_a_probe_may_bring_is_measured_in_what_it_brought_not_in_its_json() -> None:
    """A file of control characters is six times as long in JSON: it is none the larger for that."""
    from healthcheck.model.probes import Kind, Probe, ProbeSet

    probe = Probe("p", Kind.FILES, paths=("/a",), seconds=1.0, limit=100_000)
    for size, kept in ((150_000, True), (170_000, False)):
        look = read(encode(Recording("n1", 1.0, machine.HOST, None, {"p": Capture(Outcome.DONE, files={"/a": FileCapture(Outcome.DONE, "\x01" * size)})})))
        (capture,) = within(look, ProbeSet.of([probe], 1.0)).captures.values()
        assert (capture.outcome is Outcome.DONE, bool(capture.files)) == (kept, kept)


def test_what_is_no_recording_says_so_in_the_words_of_from_json() -> None:
    document = to_json(machine.recording("n1"))
    document["captures"]["port.sysfs"]["bytes"] = None
    with pytest.raises(RecordingError, match="bytes is None, expected int"):
        read(json.dumps(document, separators=(",", ":")).encode())
