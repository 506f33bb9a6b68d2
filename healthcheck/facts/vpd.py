"""Vital product data of a PCI device: what its maker wrote onto it, read-only (part number, serial number).

Format: PCI Local Bus Specification 3.0, appendix I (PCI Express Base Specification, "Vital Product Data"), as
drivers/pci/vpd.c of Linux reads it. Resources follow each other: large ones have a tag with bit 7 set and a
length of two bytes, the lower one first; small ones have the tag in bits 6 to 3 and a length in bits 2 to 0.
The read-only one holds fields of a keyword (two letters), a length of one byte, and the value; the first byte
of the field RV makes the sum of all bytes up to it 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

_LARGE, _NAME, _READ_ONLY, _END = 0x80, 0x82, 0x90, 0x0F
_HEAD, _FIELD = 3, 3        # bytes before the value of a large resource, and of a field


@dataclass(frozen=True)
class VpdLabels:
    """The product's name, its part number and its serial number; "" for what is not stated."""

    product: str = ""
    part: str = ""
    serial: str = ""


def labels(data: bytes) -> VpdLabels:
    """What a device's data say. Raises ValueError for what is not in that format, has no read-only part, or
    whose checksum is wrong; a device without a checksum is believed."""
    product, fields = "", None
    for tag, start, end in _resources(data):
        if tag == _NAME:
            product = _text(data[start:end])
        elif tag == _READ_ONLY:
            fields = dict(_fields(data, start, end))
    if fields is None:
        raise ValueError("there is no read-only part")
    return VpdLabels(product, fields.get("PN", ""), fields.get("SN", ""))


def _resources(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Each large resource: its tag, where its value begins, and where it ends."""
    at = 0
    while at < len(data):
        tag = data[at]
        if not tag & _LARGE:
            if tag >> 3 == _END:
                return
            at += 1 + (tag & 0x07)
            continue
        start = at + _HEAD
        end = start + int.from_bytes(data[at + 1:start], "little")
        if end > len(data):
            break
        yield tag, start, end
        at = end
    raise ValueError("it has no end")


def _fields(data: bytes, start: int, end: int) -> Iterator[tuple[str, str]]:
    """The fields with a text, by keyword; checks the sum where there is one."""
    at = start
    while at < end:
        value = at + _FIELD
        if value > end or value + data[value - 1] > end:
            raise ValueError("a field is longer than its resource")
        after = value + data[value - 1]
        keyword = data[at:at + 2]
        if keyword == b"RV":
            if after == value or sum(data[:value + 1]) & 0xFF:
                raise ValueError("the checksum is wrong")
            return
        if keyword in (b"PN", b"SN"):
            yield keyword.decode(), _text(data[value:after])
        at = after


def _text(value: bytes) -> str:
    """ASCII, filled up with spaces or zeros. Raises ValueError for other bytes."""
    return value.decode("ascii").strip(" \0")
