"""Pinned certificates: one file, written whole, and never changed without being told to."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import MusterError, UsageError
from provisioning.bmc import pins
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.enroll import ControllerEnrolment, PinOutcome, decided, shared

A, B = "a" * 64, "b" * 64


def test_what_was_pinned_is_read_again_and_only_ours_may_read_it(tmp_path: Path) -> None:
    assert pins.read(tmp_path) == {}
    pins.write(tmp_path, {"gpu001": A}, {})
    pins.write(tmp_path, {"gpu002": B}, {})
    assert pins.read(tmp_path) == {"gpu001": A, "gpu002": B}
    assert (tmp_path / pins.NAME).stat().st_mode & 0o077 == 0


def test_another_certificate_replaces_one_only_where_that_one_is_named(tmp_path: Path) -> None:
    pins.write(tmp_path, {"gpu001": A}, {})
    with pytest.raises(MusterError, match="the certificate of gpu001 in"):
        pins.write(tmp_path, {"gpu001": B, "gpu002": B}, {})
    assert pins.read(tmp_path) == {"gpu001": A}
    pins.write(tmp_path, {"gpu001": B}, {"gpu001": A})
    assert pins.read(tmp_path) == {"gpu001": B}


def test_writers_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    threads = [threading.Thread(target=pins.write, args=(tmp_path, {f"gpu{at:03}": f"{at:064x}"}, {}))
               for at in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert pins.read(tmp_path) == {f"gpu{at:03}": f"{at:064x}" for at in range(16)}


@given(st.binary(max_size=80) | st.sampled_from(
    [b"{}", b"[]", b'{"schema":"muster.bmc-pins/1"}', b'{"schema":"muster.bmc-pins/1","pins":7}',
     b'{"schema":"muster.bmc-pins/1","pins":{"a":"b"}}', b"[" * 5000]))
def test_a_file_that_is_none_of_ours_is_never_taken_for_no_pins(data: bytes) -> None:
    try:
        found = pins._parsed(data, Path("p"))
    except MusterError as problem:
        assert len(str(problem).splitlines()) == 1
    else:
        assert json.loads(data)["pins"] == found == {}


def test_a_list_may_be_what_openssl_prints_behind_a_nodes_name(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_text(
        f"# delivered\ngpu001 {A}\ngpu002, {pins.shown(B)}\ngpu003 sha256 Fingerprint={pins.shown(A)}\n\n")
    assert pins.expected(path) == {"gpu001": A, "gpu002": B, "gpu003": A}


@pytest.mark.parametrize(
    "line", ["gpu001", f"gpu001 {'a' * 63}", f"gpu001 {'g' * 64}", f"{A}", f"gpu001 {A} {B}"])
def test_a_line_of_a_list_that_is_none_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "list"
    path.write_text(f"gpu009 {A}\n{line}\n")
    with pytest.raises(UsageError, match=":2: "):
        pins.expected(path)
    path.write_text(f"gpu001 {A}\ngpu001 {B}\n")
    with pytest.raises(UsageError, match="gpu001 has another fingerprint further up"):
        pins.expected(path)


def test_each_case_of_an_enrolment() -> None:
    seen: dict[str, str | BmcError] = {
        "new": A, "same": A, "changed": B, "told": B,
        "away": BmcError(BmcErrorReason.UNREACHABLE, "Connection refused")}
    held = {"same": A, "changed": A, "told": A, "away": A}
    found = {one.node: one for one in decided(seen, held, None, {"told"})}
    assert {node: one.outcome for node, one in found.items()} == {
        "new": PinOutcome.PIN, "same": PinOutcome.KNOWN, "changed": PinOutcome.CHANGED,
        "told": PinOutcome.REPLACE, "away": PinOutcome.UNREACHED}
    assert found["changed"].why.endswith(
        "if it was changed on purpose: muster bmc enroll changed --replace changed")


def test_a_list_outranks_what_is_pinned_and_no_one_is_pinned_who_is_not_in_it() -> None:
    seen: dict[str, str | BmcError] = {"right": A, "wrong": B, "missing": A, "known": B}
    found = {
        one.node: one.outcome
        for one in decided(seen, {"known": B}, {"right": A, "wrong": A, "known": A}, set())}
    assert found == {"right": PinOutcome.PIN, "wrong": PinOutcome.UNEXPECTED, "missing": PinOutcome.UNLISTED,
                     "known": PinOutcome.UNEXPECTED}


def test_certificates_that_several_show_are_named() -> None:
    assert shared([ControllerEnrolment("a", PinOutcome.PIN, A), ControllerEnrolment("b", PinOutcome.KNOWN, A),
                   ControllerEnrolment("c", PinOutcome.PIN, B)]) == {A: ("a", "b")}


def test_a_list_that_an_editor_began_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    path = tmp_path / "list"
    path.write_bytes(f"\ufeffgpu001 {A}\r\ngpu002 {B}\r\n".encode())
    assert pins.expected(path) == {"gpu001": A, "gpu002": B}
