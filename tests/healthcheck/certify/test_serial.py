"""Serial numbers rise, whatever happens to the clock, the process or the folder."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.certify.serial import newest_written, next_serial, written_serial
from inventory.errors import CertificateError
from tests.healthcheck.certify.world import dying
from tests.tries import tries


@settings(max_examples=tries(40), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2_000_000_000), st.integers(0, 25)), min_size=1, max_size=6))
def test_numbers_rise_over_every_clock_and_every_kill(
    tmp_path_factory: pytest.TempPathFactory, turns: list[tuple[int, int]],
) -> None:
    folder = tmp_path_factory.mktemp("serial")
    newest = 0
    for clock, killed in turns:
        given_ = []
        with dying(killed):
            given_.append(next_serial(folder, clock))
            written_serial(folder, given_[0])
        for serial in given_:
            assert serial > newest
            newest = serial
        assert newest_written(folder) <= newest


def test_a_head_that_lost_its_folder_goes_on_above_what_nodes_have_seen(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "new").mkdir()
    before = [next_serial(tmp_path / "old", 1_790_000_000 + at * 60) for at in range(5)]
    assert next_serial(tmp_path / "new", 1_790_000_300) > max(before)


def test_a_damaged_number_is_not_begun_anew_in_silence(tmp_path: Path) -> None:
    for damaged in (b"", b"{", b"[]", b'{"reserved": -1, "written": 0}', b'{"reserved": true, "written": 0}',
                    b"\xff", b"[" * 100_000):
        (tmp_path / "serial.json").write_bytes(damaged)
        with pytest.raises(CertificateError, match=r"serial\.json: cannot be read"):
            next_serial(tmp_path, 5)


def test_a_clock_that_is_absurd_uses_up_no_numbers(tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="no serial number is left"):
        next_serial(tmp_path, 2.0**60)
    assert next_serial(tmp_path, 100) == 100
