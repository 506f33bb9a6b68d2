"""Recordings as bytes: what we write is read as it was, and whatever else is read is a recording or says in
one line why it is none.
"""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.collector.reply import within
from healthcheck.model.probes import Probe, ProbeKind, ProbeSet
from healthcheck.model.recording import (
    Capture,
    FileCapture,
    Outcome,
    Recording,
    RecordingError,
    from_json,
    read,
    to_json,
)
from healthcheck.sweep.snapshots import encode
from tests.healthcheck import machine
from tests.tries import tries

# What our form is made of, and what resembles it: in texts it stands escaped, in bytes as it is.
MARKS = ('"files":{"', '"],"', '"]}},"', '"]}', "],", "]}},", "files", '":["', "done", '"', "\\", "\\\\",
         '\\"', "{", "}", "[", "]", ",", ":", " ", "NaN", "-Infinity", "0", "\\u0000", "\\ud800", "\\n",
         "null", '"a":["done","b"],', '"captures":{', '"outcome":"done",', '"seconds":1e999,',
         '"c":{"outcome":"done","seconds":0.1,"bytes":1},', '"files":{"/a":["done","x"]}',
         '{"outcome":["done"]}')
TEXTS = st.lists(st.sampled_from((*MARKS, "\udcff", "\n", "\x1f", "\u20ac", "\U0001f600")),
                 max_size=3).map("".join)
FILES = st.dictionaries(TEXTS, st.builds(FileCapture, st.sampled_from(Outcome), TEXTS), max_size=3)
CAPTURES = st.builds(Capture, st.sampled_from(Outcome), st.none() | st.integers(-9, 9),
                     st.sampled_from((0.0, 0.0123, -1.5, 1e300)), st.integers(0, 9), text=TEXTS, files=FILES,
                     note=st.just("") | TEXTS)
RECORDINGS = st.builds(lambda captures: Recording("n1", 1.5, machine.HOST, None, captures),
                       st.dictionaries(TEXTS, CAPTURES, max_size=3))


@settings(max_examples=tries(150))
@given(RECORDINGS)
def test_what_we_write_is_read_as_it_was(recording: Recording) -> None:
    data = encode(recording)
    assert read(data) == replace(
        recording, captures={name: recording.captures[name] for name in sorted(recording.captures)})
    assert encode(read(data)) == data


WRITTEN = encode(Recording("n1", 1.5, machine.HOST, None, {
    "a": Capture(Outcome.DONE, 0, 0.1, 3,
                 files={"/a": FileCapture(Outcome.DONE, "1\n"), "/b": FileCapture(Outcome.MISSING)}),
    "files": Capture(Outcome.DONE, None, 0.2, 3, text='{"files":{"x": [1, "]}},"]}', note="n"),
    "m": Capture(Outcome.TIMEOUT, None, 0.3, 3, files={"/a": FileCapture(Outcome.DONE, '"],"'),
                                                       "/c": FileCapture(Outcome.DONE, "\u20ac \\")}),
    "z": Capture(Outcome.DONE, None, 0.4, 3, files={"/a": FileCapture(Outcome.TRUNCATED, "1\n")})}))


@settings(max_examples=tries(400))
@given(st.lists(st.tuples(st.integers(0, len(WRITTEN)), st.integers(0, 30),
                          st.sampled_from(MARKS) | st.just("")), min_size=1, max_size=4))
def test_whatever_is_read_is_a_recording_or_says_why_it_is_none(changes: list[tuple[int, int, str]]) -> None:
    data = WRITTEN
    for at, gone, put in changes:
        data = data[:at] + put.encode() + data[at + gone:]
    try:
        recording = read(data)
    except (ValueError, RecursionError):
        return
    assert read(encode(recording)) == recording


@pytest.mark.parametrize("data", [
    WRITTEN[:-2], b"", b"{", b"[]", b"null", b'"files":{"', b'{"files":{"', b"{\0", b"\xff", WRITTEN + b"x",
    WRITTEN.replace(b"\\n", b"\n"), WRITTEN.replace(b"0.1", b"NaN"), WRITTEN.replace(b"0.1", b"1e999"),
    WRITTEN.replace(b"0.1", b"true"), WRITTEN.replace(b'"bytes":3', b'"bytes":3.0'),
    WRITTEN.replace(b'"exit":0', b'"exit":false'), WRITTEN.replace(b'"note":"n"', b'"note":null'),
    WRITTEN.replace(b'"timeout"', b'"late"'), WRITTEN.replace(b'["done","1\\n"]', b'["late","1\\n"]'),
    WRITTEN.replace(b'["done","1\\n"]', b'["done","1","2"]'),
    WRITTEN.replace(b'["done","1\\n"]', b"[]"), WRITTEN.replace(b'["done","1\\n"]', b'"done"'),
    WRITTEN.replace(b'["done","1\\n"]', b"[1]"), WRITTEN.replace(b'["done","1\\n"]', b"[" * 100_000),
    WRITTEN.replace(b'"schema":"muster.recording/1"', b'"schema":"other"')])
def test_what_is_no_recording_of_ours_is_refused(data: bytes) -> None:
    with pytest.raises((ValueError, RecursionError)):
        read(data)


@pytest.mark.parametrize("data", [WRITTEN.decode().encode("utf-8-sig"), WRITTEN.decode().encode("utf-16"),
                                  json.dumps(json.loads(WRITTEN), indent=1).encode(), b" " + WRITTEN,
                                  json.dumps(json.loads(WRITTEN), ensure_ascii=False).encode(),
                                  WRITTEN.replace(b'"exit":0', b'"exit":0,"exit":0')])
def test_the_same_in_another_form_of_json_is_the_same_recording(data: bytes) -> None:
    assert read(data) == read(WRITTEN)


def test_what_a_probe_may_bring_is_measured_in_what_it_brought_not_in_its_json() -> None:
    """A file of control characters is six times as long in JSON: it is none the larger for that."""
    probe = Probe("p", ProbeKind.FILES, paths=("/a",), seconds=1.0, limit=100_000)
    for size, kept in ((150_000, True), (170_000, False)):
        snapshot = read(encode(Recording("n1", 1.0, machine.HOST, None, {
            "p": Capture(Outcome.DONE, files={"/a": FileCapture(Outcome.DONE, "\x01" * size)})})))
        (capture,) = within(snapshot, ProbeSet.of([probe], 1.0)).captures.values()
        assert (capture.outcome is Outcome.DONE, bool(capture.files)) == (kept, kept)


@pytest.mark.parametrize("entry", ["done", ["done", "1", "2"], [], ["done", 1], [None], {"done": 1, "x": 2}])
def test_a_file_entry_of_another_form_is_named_before_an_outcome_that_does_not_exist(entry: object) -> None:
    document = to_json(machine.recording("n1"))
    document["captures"]["port.sysfs"]["files"] = {"/a": ["late", "1"], "/b": entry, "/c": None}
    with pytest.raises(RecordingError, match=r"^capture 'port.sysfs': '/b' is not \[outcome, text\]$"):
        from_json(document)


@pytest.mark.parametrize("entry", [["late"], ["late", "1"]])
def test_the_first_outcome_that_does_not_exist_is_named(entry: list[str]) -> None:
    document = to_json(machine.recording("n1"))
    document["captures"]["port.sysfs"]["files"] = {"/a": ["done", "1"], "/b": entry, "/c": ["never"]}
    with pytest.raises(RecordingError, match=r"^capture 'port.sysfs': no such outcome: 'late'$"):
        from_json(document)


def test_what_is_no_recording_says_so_in_the_words_of_from_json() -> None:
    document = to_json(machine.recording("n1"))
    document["captures"]["port.sysfs"]["bytes"] = None
    with pytest.raises(RecordingError, match="bytes is None, expected int"):
        read(json.dumps(document, separators=(",", ":")).encode())
