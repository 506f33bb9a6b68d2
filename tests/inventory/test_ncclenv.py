"""Which variables a site may set: listed ones, and what loads code only in the inventory."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.ncclenv import FROM_INVENTORY, SETTINGS, checked


@given(st.sampled_from(sorted(SETTINGS)),
       st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=60))
def test_a_setting_may_be_given_anywhere(name: str, value: str) -> None:
    assert checked(name, value, inventory=False) == checked(name, value, inventory=True) == (name, value)


@pytest.mark.parametrize("name", sorted(FROM_INVENTORY))
def test_what_loads_code_or_touches_a_file_stands_in_the_inventory_only(name: str) -> None:
    assert checked(name, "/opt/x", inventory=True) == (name, "/opt/x")
    with pytest.raises(ValueError, match=f"{name} loads code, or reads or writes a file"):
        checked(name, "/opt/x", inventory=False)


@given(st.one_of(st.text(),
                 st.sampled_from([name + "X" for name in SETTINGS] + [name.lower() for name in SETTINGS]
                                 + ["LD_PRELOAD", "LD_LIBRARY_PATH", "PYTHONPATH", "PATH", "NCCL_CONF_FILE",
                                    "NCCL_ENV_PLUGIN", "NCCL_ALGO", "NCCL_DEBUG"])))
def test_every_other_name_is_refused_wherever_it_stands(name: str) -> None:
    if name in SETTINGS | FROM_INVENTORY:
        return
    for inventory in (False, True):
        with pytest.raises(ValueError, match="not an allowed variable"):
            checked(name, "1", inventory=inventory)


@pytest.mark.parametrize("value", [True, None, 1.5, [], "a\0b", "a\nb", "\x1b[2J", "x" * 1025, "\u00e9"])
def test_a_value_is_plain_text_or_a_whole_number(value: object) -> None:
    with pytest.raises(ValueError,
                       match="expected text of at most 1024 printable ASCII characters, or a whole number"):
        checked("NCCL_IB_TC", value, inventory=True)
    assert checked("NCCL_IB_TC", 106, inventory=False) == ("NCCL_IB_TC", "106")
