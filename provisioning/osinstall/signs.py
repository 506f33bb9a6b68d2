"""The signs of an installed or installing system in a machine's own report, which may hold anything."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from inventory.text import clean
from inventory.transport import answer

_MOST = 1 << 20
_ASSIGNED = re.compile(r"([A-Z][A-Z0-9_]*)=(.*)")
_MOST_NAMES = 40


class SignsUnreadable(Exception):
    """The report is not one."""


@dataclass(frozen=True)
class FileText:
    """A file's text, None where there is no such file or where it could not be read, which `unseen` says."""

    text: str | None
    unseen: str = ""


@dataclass(frozen=True)
class OsSigns:
    """`root` is the root file system's type, source and device number (major:minor), "" where unknown.
    `systemd` is systemctl is-system-running's word, or ": " and why not. `running` are installers' programs;
    `cloud_init` is its stage or "". `marker` is None where none was asked for."""

    cmdline: FileText
    root: tuple[str, str, str]
    release: Mapping[str, str]
    marker: FileText | None
    running: tuple[str, ...] = ()
    systemd: str = "running"
    cloud_init: str = ""
    notes: tuple[str, ...] = field(default=())

    @property
    def image(self) -> str:
        """What is installed, by os-release(5): IMAGE_ID with IMAGE_VERSION, else its name for people."""
        names = image_names(self.release)
        return names[-1] if names else clean(self.release.get("PRETTY_NAME", ""), 80)


def image_names(release: Mapping[str, str]) -> tuple[str, ...]:
    """What an image goes by in os-release(5): IMAGE_ID, and IMAGE_ID-IMAGE_VERSION where there is one."""
    name, version = (clean(release.get(key, ""), 80) for key in ("IMAGE_ID", "IMAGE_VERSION"))
    return () if not name else (name,) if not version else (name, f"{name}-{version}")


def read(body: bytes | None) -> OsSigns:
    """The signs in a reply's body; raises SignsUnreadable."""
    try:
        report = answer.document(body, _MOST)
        kind, source, number = [*(clean(_text(one), 120) for one in report["root"][:3]), "", "", ""][:3]
        return OsSigns(
            _file(report["cmdline"]), (kind, source, number), os_release(_file(report["release"]).text or ""),
            None if report["marker"] is None else _file(report["marker"]),
            tuple(clean(_text(one), 40) for one in report["running"][:_MOST_NAMES]),
            clean(_text(report["systemd"]), 80), clean(_text(report["cloud_init"]), 40),
            tuple(f"{name}: {clean(report[name]['unseen'], 160)}" for name in ("cmdline", "release")
                  if report[name]["unseen"]))
    except answer.UNREADABLE:
        raise SignsUnreadable("its answer cannot be read") from None


def os_release(text: str) -> Mapping[str, str]:
    """The assignments of an os-release(5) file, without their quotes; the last of a name counts."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if match := _ASSIGNED.fullmatch(line.strip()):
            value = match[2].strip()
            if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
                value = value[1:-1]
            found[match[1]] = value
    return MappingProxyType(found)


def _file(given: Mapping[str, Any]) -> FileText:
    text = given["text"]
    if text is not None and not isinstance(text, str):
        raise ValueError
    return FileText(text, clean(_text(given["unseen"]), 200))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError
    return value
