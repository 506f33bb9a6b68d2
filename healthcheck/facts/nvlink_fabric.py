"""The Fabric Manager's own log of this boot, from the journal.

The messages are those of NVIDIA's Fabric Manager user guide (chapter on errors): "detected NVSwitch fatal
error 12028 on fid 0 ...".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.limits import JOURNAL_LINES
from healthcheck.facts.values import Fact, Unmeasured, Unread
from healthcheck.model.probes import MIB, Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

UNIT = "nvidia-fabricmanager.service"
JOURNAL = Probe(
    "fabric.journal", ProbeKind.COMMAND, seconds=10.0, limit=1 * MIB, tail=True, root=True,
    argv=("journalctl", "--no-pager", "-b", "-u", UNIT, "-o", "short-iso", "-n", str(JOURNAL_LINES)),
)

# The name of each kind of error and its pattern; the first match counts.
ERRORS: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("NVSwitch fatal error", re.compile(r"detected NVSwitch fatal error ([0-9]{1,6})", re.IGNORECASE)),
    ("NVSwitch non-fatal error",
     re.compile(r"detected NVSwitch non-fatal error ([0-9]{1,6})", re.IGNORECASE)),
    ("GPU without a place in its multicast team",
     re.compile(r"failed to find the GPU handle [0-9]{1,20} in the multicast team")),
    ("NVSwitches do not fit the system",
     re.compile(r"detected number of NVSwitches don't match with any supported system topology")),
    ("no NVSwitch", re.compile(r"NV_WARN_NOTHING_TO_DO")),
    ("fabric manager error",
     re.compile(r"\[ERROR\]|failed with error|nvidia-fabricmanager\.service: Failed with result")),
)


@dataclass(frozen=True)
class NvlinkFabricLine:
    """One line that reports an error: the error's name, with its number where it has one, and the line."""

    what: str
    text: str


class NvlinkFabricLog(Fact):
    """The Fabric Manager's journal of this boot. `text` is Unmeasured where we may not read it, or it holds
    nothing of this boot."""

    name: str
    text: str
    caveat: str

    def errors(self) -> Iterator[NvlinkFabricLine]:
        """The lines that report errors, oldest first."""
        for line in self.text.splitlines():
            for what, pattern in ERRORS:
                if found := pattern.search(line):
                    yield NvlinkFabricLine(f"{what} {found[1]}" if pattern.groups else what, clean(line, 300))
                    break


@fact("nvlink_fabric_log", JOURNAL, of_snapshot=True)
def nvlink_fabric_log(captures: Captures) -> NvlinkFabricLog:
    """The journal's lines of the unit. An unreadable journal is one absent field, since nodes without
    NVSwitches need none."""
    capture = captures.capture(JOURNAL)
    text: Any
    caveat = ""
    try:
        if capture is not None and capture.outcome is Outcome.TRUNCATED:
            text, caveat = (capture.text,
                            f"only the newest {JOURNAL.limit // MIB} MiB of the journal were read")
        else:
            text = captures.text(JOURNAL)
        lines = [line for line in text.splitlines() if line and not line.startswith("-- ")]
        if len(lines) >= JOURNAL_LINES:
            caveat = f"only the newest {JOURNAL_LINES} lines of the journal were read"
        if not lines:
            error = capture.stderr if capture is not None else ""
            hidden = ("insufficient permissions" in error or "not seeing messages" in error
                      or captures.host.uid)
            text = Unmeasured(f"the journal shows nothing of {UNIT} since boot"
                              + (" (needs root, or the group systemd-journal)" if hidden else ""))
    except Unread as error:
        text = Unmeasured(str(error))
    return NvlinkFabricLog(name="fabric manager log", text=text, caveat=caveat)
