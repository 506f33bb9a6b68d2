"""From the bytes of a saved log to clean text: unpacked within a bound, decoded, no control characters."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

from inventory.errors import UsageError
from inventory.text import short

MIB = 1024 * 1024
MOST_BYTES = 64 * MIB   # of one log, unpacked; the kernel's own buffer holds 16 MiB at most
_MOST_MEMBERS = 100_000
_PIECE = 4096


class _Packing(NamedTuple):
    """How a member begins, and what unpacks one."""

    magic: bytes
    start: Callable[[], Any]


_GZIP = _Packing(b"\x1f\x8b", lambda: zlib.decompressobj(31))
_XZ = _Packing(b"\xfd7zXZ\x00", lzma.LZMADecompressor)
_BZIP2 = _Packing(b"BZh", bz2.BZ2Decompressor)
_PADDING = bytes(4)     # between streams of xz
_ZSTD = b"\x28\xb5\x2f\xfd"
_COLOUR = re.compile("\x1b\\[[0-9;]{0,20}[mK]")
# What the text of a line must not hold: other line ends, and what a terminal acts on. Tabs stay.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_ORDINARY = bytes([9, 10, *range(32, 127)])


def unpack(data: bytes, name: str, most: int = MOST_BYTES) -> tuple[bytes, list[str]]:
    """The data itself, or what gzip, xz or bzip2 packed, with a caveat where not all of it was read.
    UsageError if it is longer than `most`, or packed in an unsupported way."""
    caveats: list[str] = []
    if data[:2] == _GZIP.magic:
        data = _members(_GZIP, data, name, caveats, most)
    elif data[:6] == _XZ.magic:
        data = _members(_XZ, data, name, caveats, most)
    elif data[:3] == _BZIP2.magic and data[4:10] == b"1AY&SY":
        data = _members(_BZIP2, data, name, caveats, most)
    elif data[:4] == _ZSTD:
        raise UsageError(
            f"{short(name)}: packed by zstd, which muster does not read; unpack it: zstd -d {short(name)}")
    return _bounded(data, name, most), caveats


def plain(data: bytes) -> tuple[str, list[str]]:
    """Text with line feeds as line ends and no control character but tabs; bytes not in UTF-8 as \\xNN."""
    caveats = []
    if zeros := data.count(0):
        # A file that was being written when the machine went down contains zeros.
        caveats.append(
            f"{zeros} zero bytes were left out: such a file was being written when the machine went down")
        data = data.replace(b"\0", b"")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.translate(None, _ORDINARY):
        return data.decode("ascii"), caveats
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="backslashreplace")
        caveats.append("bytes that are not UTF-8 are shown as \\xNN")
    if "\r" in text:
        text = re.sub("\r{1,4}\n", "\n", text)
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return shown(text), caveats


def shown(text: str) -> str:
    """Control characters as \\xNN, as dmesg shows them; tabs and line feeds stay."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 0x100
                       else f"\\u{ord(found[0]):04x}", text)


def _members(kind: _Packing, data: bytes, name: str, caveats: list[str], most: int) -> bytes:
    """All members, as of a log that was appended to or packed on several cores. Fed in pieces: the rest after
    a member is copied."""
    found, at, members = bytearray(), 0, 0
    while data.startswith(kind.magic, at) and len(found) <= most:
        members += 1
        if members > _MOST_MEMBERS:
            caveats.append(f"the packed file has over {_MOST_MEMBERS} members; the others were not read")
            return _bounded(bytes(found), name, most)
        packed = kind.start()
        try:
            while not packed.eof and at < len(data) and len(found) <= most:
                piece = data[at:at + _PIECE]
                found += packed.decompress(piece, most + 1 - len(found))
                at += len(piece) - len(packed.unused_data)
        except (zlib.error, lzma.LZMAError, OSError, EOFError) as error:
            if not found:
                raise UsageError(f"{short(name)}: the packed file is damaged: {short(error)}") from None
            caveats.append(f"the packed file is damaged ({short(error)}); the rest was not read")
            return _bounded(bytes(found), name, most)
        if not packed.eof and len(found) <= most:
            caveats.append("the packed file ends early")
        while data[at:at + 4] == _PADDING:
            at += 4
    if len(found) <= most and data[at:].strip(b"\0"):
        caveats.append(f"{len(data) - at} bytes after what is packed were not read")
    return _bounded(bytes(found), name, most)


def _bounded(data: bytes, name: str, most: int) -> bytes:
    if len(data) > most:
        which = ", which no kernel log is" if most == MOST_BYTES else ""
        raise UsageError(
            f"{short(name)}: longer than {most // MIB} MiB{which}; use its end: tail -c {most} FILE")
    return data
