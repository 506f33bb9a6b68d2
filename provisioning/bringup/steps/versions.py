"""Compares versions of firmware, which every maker writes in a way of its own."""

from __future__ import annotations

import functools
import re
from fnmatch import fnmatchcase

from healthcheck.model.firmware import KINDS
from provisioning.bringup.policy.model import DesiredFirmware

_PIECE = re.compile(r"[0-9a-z]+", re.IGNORECASE)
_NUMBER = re.compile(r"v?(\d{1,18})", re.IGNORECASE)
# GPUs' and NVSwitches' own: five bytes in hexadecimal digits (nvidia-smi's "VBIOS Version", 96.00.BC.00.01).
_VBIOS = re.compile(r"(?:[0-9a-f]{2}\.){4}[0-9a-f]{2}", re.IGNORECASE)
# A date that is the version, or a part of it (HPE's "U46 v2.10 (10/21/2024)"): month first, as is a BIOS's
# release date in SMBIOS (DSP0134).
_DATE = re.compile(r"(?<!\d)(\d{1,2})/(\d{1,2})/(\d{4})(?!\d)")
OWN = ("bios", "bmc")       # components that a machine's identity has


def compared(one: str, other: str) -> int | None:
    """-1, 0 or 1 as the first is older, like, or newer; None where they cannot be compared. Pieces compare as
    numbers (2.9 before 2.10; 1.0 is 1.0.0); those with letters have to be the same: U46 v1.2 and U54 v1.1 are
    of different families, and neither is the newer."""
    if _VBIOS.fullmatch(one) and _VBIOS.fullmatch(other):
        first, second = (bytes.fromhex(text.replace(".", "")) for text in (one, other))
        return (first > second) - (first < second)
    left, right = (_pieces(_DATE.sub(r"\3/\1/\2", text)) for text in (one, other))
    if not left or not right:
        return None
    for at in range(max(len(left), len(right))):
        a, b = (side[at] if at < len(side) else 0 for side in (left, right))
        if isinstance(a, str) or isinstance(b, str):
            if a != b:
                return None
        elif a != b:
            return -1 if a < b else 1
    return 0


def _pieces(version: str) -> list[int | str]:
    pieces = _PIECE.findall(version)
    return [int(match[1]) if (match := _NUMBER.fullmatch(piece)) else piece.casefold() for piece in pieces]


def as_desired(desired: DesiredFirmware, version: str) -> bool | None:
    """Whether a version is as wanted; None where the two cannot be compared: of a drive's EPK9CB5Q and
    GDC5602Q neither is the newer, but one is not exactly the other. A text without a digit is no version."""
    wanted = wanted_version(desired)
    if version == wanted:
        return True
    order = compared(version, wanted)
    if order is None:
        is_version = any(letter.isdigit() for letter in version)
        return False if is_version and desired.exactly is not None else None
    return order == 0 or (order == 1 and desired.at_least is not None)


def wanted_version(desired: DesiredFirmware) -> str:
    """The version that an entry says, exact or least."""
    wanted = desired.exactly if desired.exactly is not None else desired.at_least
    assert wanted is not None  # noqa: S101  (the loader has one or the other)
    return wanted


def is_for(desired: DesiredFirmware, name: str, kind: str) -> bool:
    """Whether an entry of a policy is about this component: by its kind, or by a glob over the names in a
    controller's firmware inventory. BIOS and BMC are only what system and manager say of themselves."""
    return _is_for(desired.component, name, kind)


@functools.lru_cache(1 << 16)       # a fleet's components have few names
def _is_for(component: str, name: str, kind: str) -> bool:
    if component in OWN:
        return name == component
    if name in OWN:
        return False
    return (component in KINDS and kind == component) or fnmatchcase(name.casefold(), component.casefold())
