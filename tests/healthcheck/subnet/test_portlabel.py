"""Numbers of ports from what is printed beside them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.portlabel import label_of, number_of


@pytest.mark.parametrize(("label", "number"), [
    ("12", 12), ("1/12", 12), ("1/12/2", 24), ("1/12/1", 23), ("IB1/1/1", 1), ("Eth1/32/2", 64), ("swp7", 7),
    ("p 3", 3), ("S1/P12/2", 24), ("U1/p3", 3), ("port-12", 12),
    ("", None), ("mlx5_0", None), ("1/12/3", None), ("1/12/0", None), ("0", None), ("255", None),
    ("1/2/3/4", None), ("swp12s1", None), ("0000:18:00.0", None),
])
def test_a_printed_label_has_its_number(label: str, number: int | None) -> None:
    assert number_of(label) == number


@given(st.integers(1, 254), st.sampled_from([1, 2]))
def test_a_number_is_read_from_its_own_label(number: int, in_a_cage: int) -> None:
    assert number_of(label_of(number, in_a_cage)) == number


@given(st.text(max_size=30))
def test_any_text_has_a_number_or_none(text: str) -> None:
    found = number_of(text)
    assert found is None or 1 <= found <= 254
