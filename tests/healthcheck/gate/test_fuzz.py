"""Whatever the files of the gate hold, it does not open unless the head signed it,
and nothing is ever a traceback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.certify import sshsig
from healthcheck.gate.decide import Gate, answer
from healthcheck.gate.locate import Forged, Missing, load
from healthcheck.gate.reading import SnapshotError, bytes_of, snapshot_of
from tests.healthcheck.gate.fleet import NOW, Place, certificate, document, entry, fleet
from tests.tries import tries

JSON = st.recursive(st.none() | st.booleans() | st.integers()
                    | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.text(max_size=8), inner, max_size=3), max_leaves=8)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    made = Place(tmp_path / "gate")
    made.put(fleet(1), now=NOW)
    return made


def opens(place: Place) -> bool:
    """Whether a gate that is asked here opens; only the errors that it knows of may come up."""
    try:
        return answer(load(str(place.snapshot.parent), str(place.keys)), ["gpu001"], NOW).gate is Gate.OPEN
    except (Forged, Missing):
        return False


def cut(data: bytes, step: int = 1) -> Iterator[bytes]:
    return (data[:at] for at in range(0, len(data), step))


def flipped(data: bytes, step: int) -> Iterator[bytes]:
    """One bit is another, in each byte or in some."""
    for at in range(0, len(data), step):
        yield data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1:]


def test_what_the_head_signed_opens(place: Place) -> None:
    assert opens(place)


FILES = [("gate.json", 8), ("gate.json.sig", 2),
         *(pytest.param(name, 1, marks=pytest.mark.slow) for name in ("gate.json", "gate.json.sig"))]


@pytest.mark.parametrize(("name", "step"), FILES)
def test_a_file_cut_at_any_byte_never_opens(place: Place, name: str, step: int) -> None:
    path = place.snapshot.with_name(name)
    for text in cut(path.read_bytes(), step):
        path.write_bytes(text)
        assert not opens(place), len(text)


@pytest.mark.parametrize(("name", "step"), FILES)
def test_a_file_with_a_bit_flipped_never_opens(place: Place, name: str, step: int) -> None:
    path = place.snapshot.with_name(name)
    good = path.read_bytes()
    for text in flipped(good, step):
        path.write_bytes(text)
        # Not every bit of base64's last digit counts, nor of an empty line's end:
        # such a signature is the same one.
        assert (not opens(place)
                or (name.endswith(".sig") and sshsig._unarmored(text) == sshsig._unarmored(good))), text


def test_trusted_keys_cut_at_any_byte_trust_no_other_key(place: Place) -> None:
    whole = place.keys.read_bytes()
    for text in cut(whole):
        place.keys.write_bytes(text)
        assert not opens(place) or text in (whole[:-1], whole.rstrip()), text


def test_the_reader_alone_makes_of_a_cut_or_altered_snapshot_an_error_or_a_snapshot() -> None:
    """As if the signature held: nothing but SnapshotError may come up, and what is cut is none."""
    data = bytes_of(document(fleet(3)))
    assert answer(snapshot_of(data), ["gpu001", "gpu003"], NOW).gate is Gate.OPEN
    for text in cut(data[:-1]):
        with pytest.raises(SnapshotError):
            snapshot_of(text)
    for text in flipped(data, 1):
        try:
            found = snapshot_of(text)
        except SnapshotError:
            continue
        answer(found, ["gpu001", "gpu003"], NOW)
        found.newest_snapshot()


@given(JSON)
@settings(max_examples=tries(100), deadline=None)
def test_no_entry_but_a_whole_one_opens(held: Any) -> None:
    assert answer(snapshot_of(bytes_of(document({"gpu001": held}))), ["gpu001"], NOW).gate is not Gate.OPEN


@given(st.sampled_from(sorted(entry())), JSON)
@settings(max_examples=tries(100), deadline=None)
def test_one_key_that_is_anything_is_never_a_traceback(key: str, held: Any) -> None:
    said = answer(snapshot_of(bytes_of(document({"gpu001": entry(**{key: held}), "gpu002": entry()}))),
                  ["gpu001", "gpu002"], NOW)
    if key in ("lifecycle", "isolation", "certificate"):
        assert said.gate is not Gate.OPEN


@given(st.sampled_from(sorted(certificate())), JSON)
@settings(max_examples=tries(100), deadline=None)
def test_one_key_of_a_certificate_that_is_anything_is_never_a_traceback(key: str, held: Any) -> None:
    said = answer(snapshot_of(bytes_of(document({"gpu001": entry(certificate=certificate(**{key: held}))}))),
                  ["gpu001"], NOW)
    if key in ("stage", "kind"):
        assert said.gate is not Gate.OPEN


@given(st.sampled_from(sorted(document({}))), JSON)
@settings(max_examples=tries(100), deadline=None)
def test_one_key_of_the_snapshot_that_is_anything_is_an_error_or_never_opens(key: str, held: Any) -> None:
    whole = {**document(fleet(1)), key: held}
    try:
        found = snapshot_of((json.dumps(whole, sort_keys=True, separators=(",", ":")) + "\n").encode(
            "utf-8", "surrogatepass"))
    except SnapshotError:
        return
    said = answer(found, ["gpu001"], NOW)
    if key in ("policy", "nodes"):
        assert said.gate is not Gate.OPEN


@given(st.binary(max_size=200))
@settings(max_examples=tries(100), deadline=None)
def test_any_bytes_at_all_are_an_error(data: bytes) -> None:
    with pytest.raises(SnapshotError):
        snapshot_of(data)


def test_brackets_without_end_are_an_error() -> None:
    with pytest.raises(SnapshotError):
        snapshot_of(b'{"nodes":' + b"[" * 200_000)
    deep = bytes_of(document({"gpu001": entry()})).replace(b'"groups":[]', b'"groups":' + b"[" * 100_000)
    assert answer(snapshot_of(deep), ["gpu001"], NOW).gate is Gate.CLOSED


@given(st.lists(st.text(min_size=1, max_size=6), unique=True, max_size=5))
@settings(max_examples=tries(100), deadline=None)
def test_laid_out_by_lines_or_not_the_same_is_read(found: list[str]) -> None:
    held = document({name: {"n": name} for name in found})
    laid_out, plain = snapshot_of(bytes_of(held)), snapshot_of(json.dumps(held).encode())
    assert json.loads(bytes_of(held)) == held
    assert sorted(laid_out.names()) == sorted(plain.names()) == sorted(found)
    for name in found:
        assert laid_out.entry(name) == plain.entry(name) == {"n": name}
