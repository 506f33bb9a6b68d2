"""The recorded kernel logs of virtual machines (tests/recordings/kernel/vm, written by
scripts/record-kernel-logs), as tests use them."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.located import load_yaml

FOLDER = Path(__file__).resolve().parents[2] / "recordings/kernel/vm"


@dataclass(frozen=True)
class Suffered:
    """A fault that was made: how, the regular expressions that its lines hold, and the sequence numbers of
    all that was said of it.

    `planted` are texts that were only written to /dev/kmsg. Of a machine that died (`console`) no record was
    saved, only its console.
    """

    name: str
    how: str
    says: tuple[str, ...]
    lines: frozenset[int]
    planted: tuple[str, ...] = ()
    console: bool = False


@dataclass(frozen=True)
class VmLog:
    """One recording: `records` exactly as /dev/kmsg gave them, and `about`, the whole of its YAML file."""

    name: str
    kernel: str
    records: bytes
    console: str
    faults: tuple[Suffered, ...]
    about: dict[str, Any]

    def texts(self) -> dict[int, str]:
        """The text of each record by its sequence number, without continuation lines, escapes as the kernel
        wrote them."""
        found = (re.match(rb"\d+,(\d+),[^;]*;(.*)", line) for line in self.records.split(b"\n"))
        return {int(one[1]): one[2].decode() for one in found if one}


def names(prefix: str = "") -> list[str]:
    """The recordings whose names begin so: clean-, build2-, series612-, or a fault's."""
    return sorted(path.stem for path in FOLDER.glob(f"{prefix}*.yaml"))


def load(name: str, folder: Path = FOLDER) -> VmLog:
    about = load_yaml(folder / f"{name}.yaml")
    console = folder / f"{name}.console.gz"
    faults = tuple(Suffered(one["name"], one["how"], tuple(one["says"]), frozenset(one["lines"]),
                            tuple(one.get("planted", ())), one.get("console", False))
                   for one in about["faults"])
    return VmLog(name, about["kernel"], gzip.decompress((folder / f"{name}.kmsg.gz").read_bytes()),
                 gzip.decompress(console.read_bytes()).decode(errors="replace") if console.exists() else "",
                 faults, about)
