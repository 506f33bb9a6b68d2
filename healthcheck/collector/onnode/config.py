"""The registers of a PCI device's configuration space that are asked for, one by one and no others: reading some space of some devices
is an action (lspci(8) warns of its -xxx), and root's view of it takes thousands of reads.

Offsets are those of the PCI Express Base Specification as include/uapi/linux/pci_regs.h names them. Who is not root is shown the first 64
bytes (pci_read_config in drivers/pci/pci-sysfs.c): the rest is denied then, and never taken for a capability that is not there.
"""

from __future__ import annotations

import errno
import os
from typing import Tuple

HEADER = 64
EXPRESS, ACS = 0x10, 0x0D       # PCI_CAP_ID_EXP, PCI_EXT_CAP_ID_ACS
DOWNWARD = (4, 6)               # root ports, and the ports of a switch that look down
# As many capabilities as there is room for; who has more has a loop in the list.
MOST_CAPABILITIES, MOST_EXTENDED = (256 - 64) // 4, (4096 - 256) // 8


class BadConfigSpace(Exception):
    """The space is not of the documented form; its text says how."""


def registers(fd: int) -> Tuple[str, bytes]:
    """An outcome and, as lines of hexadecimal words: PCI Express flags, Device Capabilities and Device Control, and of a port that looks
    down the capability and control registers of ACS, 0 without it; of a device that is none of PCI Express one word. Raises OSError."""
    try:
        express = express_of(fd)
        if not express:
            return "done", b"conventional\n"
        flags, devcap, devctl = number(express[2:4]), number(express[4:8]), number(express[8:10])
        text = "flags %04x\ndevcap %08x\ndevctl %04x\n" % (flags, devcap, devctl)
        if flags >> 4 & 0xF in DOWNWARD:
            acs = acs_of(fd)
            text += "acs %04x %04x\n" % (number(acs[:2]), number(acs[2:]))
        return "done", text.encode()
    except BadConfigSpace as odd:
        return "crashed", str(odd).encode()


def shown(fd: int, at: int, size: int) -> bytes:
    """So many bytes of the space. All ones are what a device answers that is no longer there."""
    data = os.pread(fd, size, at)
    if len(data) < size:
        raise OSError(errno.EACCES, "")
    if not data.strip(b"\xff"):
        raise BadConfigSpace("all ones: the device does not answer")
    return data


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def express_of(fd: int) -> bytes:
    """The beginning of the PCI Express capability; empty if there is none."""
    header = shown(fd, 0, HEADER)
    at = header[0x34] & 0xFC if header[0x06] & 0x10 else 0
    for _ in range(MOST_CAPABILITIES):
        if at < HEADER:
            return b""
        kind, following = shown(fd, at, 2)
        if kind == EXPRESS:
            return shown(fd, at, 12)
        at = following & 0xFC
    raise BadConfigSpace("the list of its capabilities has no end")


def acs_of(fd: int) -> bytes:
    """The capability and control registers of ACS; empty if there are none, nor can be in a space of 256 bytes."""
    at = 0x100
    if os.fstat(fd).st_size <= at:
        return b""
    for _ in range(MOST_EXTENDED):
        head = number(shown(fd, at, 4))
        if head & 0xFFFF == ACS:
            return shown(fd, at + 4, 4)
        at = head >> 20 & 0xFFC
        if at < 0x100:
            return b""
    raise BadConfigSpace("the list of its extended capabilities has no end")
