"""The kernel's table of neighbours, as it prints it."""

from __future__ import annotations

from pathlib import Path

import pytest

from provisioning.osinstall.pxe.neighbours import TABLE, hardware_address

# Of Linux 6.1: an answered address, one that does not answer (flags 0x0), and one set by hand (0x6).
PRINTED = """\
IP address       HW type     Flags       HW address            Mask     Device
10.1.0.7         0x1         0x2         52:54:00:00:00:01     *        eth1
10.1.0.8         0x1         0x0         00:00:00:00:00:00     *        eth1
10.1.0.70        0x1         0x6         52:54:00:00:00:70     *        eth1
"""


@pytest.mark.parametrize(("peer", "found"), [
    ("10.1.0.7", "52:54:00:00:00:01"), ("10.1.0.70", "52:54:00:00:00:70"), ("10.1.0.8", None),
    ("10.1.0.9", None), ("IP", None), ("", None)])
def test_a_neighbour_that_answered_has_its_address_and_no_other_has_one(tmp_path: Path, peer: str,
                                                                        found: str | None) -> None:
    (tmp_path / "arp").write_text(PRINTED)
    assert hardware_address(peer, tmp_path / "arp") == found


@pytest.mark.parametrize("text", ["", "\n", "x\n10.1.0.7\n", "x\n10.1.0.7 a b c\n",
                                  "x\n10.1.0.7 0x1 0xzz 52:54:00:00:00:01\n", "x\n10.1.0.7 0x1 0x2 zz\n"])
def test_a_table_of_another_form_names_no_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "arp").write_text(text)
    assert hardware_address("10.1.0.7", tmp_path / "arp") is None
    assert hardware_address("10.1.0.7", tmp_path / "none") is None


def test_this_machine_is_no_neighbour_of_itself() -> None:
    assert hardware_address("127.0.0.1", TABLE) is None
