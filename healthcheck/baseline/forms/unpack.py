"""From the bytes of a saved log to text without surprises: unpacked within a bound, decoded, without colours and control characters."""

from __future__ import annotations

import bz2
import lzma
import re
import zlib

from inventory.errors import UsageError
from inventory.text import short

MIB = 1024 * 1024
MOST_BYTES = 64 * MIB   # of one log, unpacked; the kernel's own buffer holds 16 MiB at most

_ZSTD = b"\x28\xb5\x2f\xfd"
_COLOUR = re.compile("\x1b\\[[0-9;]{0,20}[mK]")
# What text of one line must not hold: other line ends than ours, and what a terminal acts on. Tabs stay.
CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")
_ORDINARY = bytes([9, 10, *range(32, 127)])


def unpack(data: bytes, name: str) -> tuple[bytes, list[str]]:
    """The data itself, or what gzip, xz or bzip2 packed there, and a caveat where the packed file ends early.

    UsageError where it is longer than MOST_BYTES, or packed in a way that we do not read.
    """
    caveats: list[str] = []
    if data[:2] == b"\x1f\x8b":
        data = _gunzip(data, name, caveats)
    elif data[:6] == b"\xfd7zXZ\x00":
        data = _inflate(lzma.LZMADecompressor(), data, name, caveats)
    elif data[:3] == b"BZh" and data[4:10] == b"1AY&SY":
        data = _inflate(bz2.BZ2Decompressor(), data, name, caveats)
    elif data[:4] == _ZSTD:
        raise UsageError(f"{short(name)}: packed by zstd, which is not read here; unpack it first: zstd -d {short(name)}")
    if len(data) > MOST_BYTES:
        raise _too_long(name)
    return data, caveats


def plain(data: bytes) -> tuple[str, list[str]]:
    """Text whose lines end in line feeds only and hold no control character but tabs; bytes that are not UTF-8 are shown as \\xNN."""
    caveats = []
    if zeros := data.count(0):
        # A file that was being written when the machine went down ends, or goes on, in zeros.
        caveats.append(f"{zeros} zero bytes were left out: such a file was being written when the machine went down")
        data = data.replace(b"\0", b"")
    data = data.removeprefix(b"\xef\xbb\xbf")
    if not data.translate(None, _ORDINARY):
        return data.decode("ascii"), caveats
    try:
        text = data.decode()
    except UnicodeDecodeError:
        text = data.decode(errors="backslashreplace")
        caveats.append("some bytes are not UTF-8, and are shown as \\xNN")
    if "\r" in text:
        text = re.sub("\r{1,4}\n", "\n", text)
    if "\x1b" in text:
        text = _COLOUR.sub("", text)
    return shown(text), caveats


def shown(text: str) -> str:
    """Control characters as \\xNN, as dmesg shows them; tabs and line feeds stay."""
    return CONTROL.sub(lambda found: f"\\x{ord(found[0]):02x}" if ord(found[0]) < 0x100 else f"\\u{ord(found[0]):04x}", text)


def _gunzip(data: bytes, name: str, caveats: list[str]) -> bytes:
    """All members, as a log that was appended to has several."""
    parts, room = [], MOST_BYTES + 1
    while data[:2] == b"\x1f\x8b" and room > 0:
        packed = zlib.decompressobj(31)
        try:
            parts.append(packed.decompress(data, room))
        except zlib.error as error:
            caveats.append(f"the packed file is damaged ({error}); what follows was not read")
            break
        room -= len(parts[-1])
        if not packed.eof and room > 0:
            caveats.append("the packed file ends early")
            break
        data = packed.unused_data
    return _bounded(b"".join(parts), name)


def _inflate(packed: lzma.LZMADecompressor | bz2.BZ2Decompressor, data: bytes, name: str, caveats: list[str]) -> bytes:
    try:
        found = packed.decompress(data, MOST_BYTES + 1)
    except (lzma.LZMAError, OSError, EOFError) as error:
        raise UsageError(f"{short(name)}: the packed file is damaged: {short(error)}") from None
    if not packed.eof and len(found) <= MOST_BYTES:
        caveats.append("the packed file ends early")
    return _bounded(found, name)


def _bounded(data: bytes, name: str) -> bytes:
    if len(data) > MOST_BYTES:
        raise _too_long(name)
    return data


def _too_long(name: str) -> UsageError:
    return UsageError(
        f"{short(name)}: longer than {MOST_BYTES // MIB} MiB, which no kernel log is; give its end: tail -c {MOST_BYTES} FILE"
    )
