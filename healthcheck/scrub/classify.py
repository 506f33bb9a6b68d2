"""Classifies text by its format: an address, a volume, a secret on the command line, a line of mountinfo."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from healthcheck.scrub import patterns as forms
from healthcheck.scrub.words import PARAMETERS, PUBLIC


def is_ip(text: str) -> bool:
    """Whether it is an address of IPv4 or IPv6."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def is_public(name: str) -> bool:
    """Whether everyone's machines name this host or domain (small letters)."""
    return name in PUBLIC or any(name.endswith(f".{public}") for public in PUBLIC)


def is_volume(path: str) -> bool:
    """Whether it is a logical volume, /dev/GROUP/VOLUME."""
    return path.startswith("/dev/") and path.count("/") == 3 and forms.DEV_FOLDERS.match(path) is None


def parameters(text: str) -> Iterable[tuple[str, str]]:
    """The words KEY=VALUE of a kernel's command line."""
    for word in text.split():
        key, equals, value = word.partition("=")
        if equals:
            yield key, value


_PLAIN = re.compile(
    r"(?i)(?:on|off|auto|yes|no|none|force|nomodeset|strict|full|lazy|pt|debug|info|quiet|[yn]|[0-9.,:-]{1,11}[kmgt]?|0x[0-9a-f]{1,8})")


def is_secret(key: str, value: str) -> bool:
    """Whether a parameter of the kernel's command line has a value that no one but
    its owner can make sense of."""
    name = key.lower().strip("\"'").replace("-", "_")
    if (not value or value.startswith(("/", "UUID=", "PARTUUID=", "LABEL=", "PARTLABEL="))
        or (":/" in value and "://" not in value)):
        return False
    if name.endswith("setenv"):
        return True
    return not (name in PARAMETERS or name.partition(".")[0] in PARAMETERS
                or _PLAIN.fullmatch(value.rstrip("\"'")))


_OCTAL = re.compile(r"\\([0-7]{3})")


def unescape(text: str) -> str:
    """A word of mountinfo, fstab or swaps without its octal escapes."""
    return _OCTAL.sub(lambda match: chr(int(match[1], 8)), text)


def escape(text: str) -> str:
    """The reverse of `unescape`."""
    return re.sub(r"[ \t\n\\]", lambda match: f"\\{ord(match[0]):03o}", text)


def mount_fields(line: str) -> tuple[list[str], list[str]] | None:
    """The words of a line of mountinfo (proc(5)) before and after the dash; None for any other line."""
    before, dash, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    return (left, right) if dash and len(left) >= 6 and len(right) >= 3 else None


def fstab_fields(line: str) -> list[str] | None:
    """An entry of fstab(5): what stands before its first word,
    then its words and the blanks between them; None for any other line.

    An entry that was commented out still names the server, so the mark stands before the first word.
    """
    bare = line.lstrip("# \t")
    parts = re.split(r"([ \t]+)", bare)
    known = len(parts) >= 5 and (parts[2].startswith("/") or parts[2] in ("none", "swap"))
    return [line[: len(line) - len(bare)], *parts] if known else None


# What serves a mount: zqnas, one@zqnas, zqmon1,zqmon2:6789 (Ceph), zqmgs1@tcp:zqmgs2@tcp (Lustre).
_SERVERS = re.compile(r"[\w.@-]+(?:[,:][\w.@-]+)*")
_NETWORK = re.compile(r"(?:tcp|o2ib|kfi|gni|ptlf)\d*")


def servers(source: str) -> list[tuple[str, str, str, str]]:
    """The hosts in what is mounted: (user and at sign, host, network behind it, separator behind that).
    Empty where none serves it."""
    if source.startswith("//"):
        return [("", source[2:].partition("/")[0], "", "")]
    served, colon, _ = source.partition(":/")
    if not colon or "/" in served or not _SERVERS.fullmatch(served):
        return []
    parts = re.split(r"([,:])", served)
    found = []
    for word, separator in zip(parts[::2], [*parts[1::2], ""], strict=True):
        before, at, after = word.rpartition("@")
        found.append(("", before, at + after, separator) if at and _NETWORK.fullmatch(after)
                     else (before + at, after, "", separator))
    return found
