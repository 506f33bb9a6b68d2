"""Reads single registers of a PCI device's configuration space: reading more may have side effects.

It follows lspci(8), which warns of its -xxx.

Offsets are those of the PCI Express Base Specification as include/uapi/linux/pci_regs.h names them. Users
other than root see the first 64 bytes (pci_read_config in drivers/pci/pci-sysfs.c): the rest is denied, and
not taken for a missing capability.
"""

from __future__ import annotations

import errno
import os
from typing import Tuple

HEADER = 64
EXPRESS, ACS = 0x10, 0x0D       # PCI_CAP_ID_EXP, PCI_EXT_CAP_ID_ACS
DOWNWARD = (4, 6)               # root ports, and downstream ports of a switch
# As many capabilities as there is room for; more mean a loop in the list.
MOST_CAPABILITIES, MOST_EXTENDED = (256 - 64) // 4, (4096 - 256) // 8


class BadConfigSpace(Exception):
    """The space does not have the documented form; the message says why."""


def registers(fd: int) -> Tuple[str, bytes]:
    """An outcome, and lines of hexadecimal words: PCI Express flags, Device Capabilities and Device Control.

    A downstream port has the ACS capability and control registers, too, 0 without ACS. A device without PCI
    Express has one word. Raises OSError.
    """
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
    """So many bytes of the space. A device that is gone answers all ones."""
    data = os.pread(fd, size, at)
    if len(data) < size:
        raise OSError(errno.EACCES, "")
    if not data.strip(b"\xff"):
        raise BadConfigSpace("all ones: the device does not answer")
    return data


def number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def express_of(fd: int) -> bytes:
    """The beginning of the PCI Express capability; empty without one."""
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
    """The capability and control registers of ACS; empty without them, as in a space of 256 bytes."""
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
