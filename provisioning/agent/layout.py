"""Where an installed agent lies on a node.

    /opt/muster/<digest12>/muster.pyz     the code: one file, standard library only, for x86_64 and aarch64
    /opt/muster/<digest12>/rules.json     rules, SKUs, profiles and tables of Xids, compiled on the head
    /opt/muster/<digest12>/node.json      what the inventory says of this node, and how often its timer fires
    /opt/muster/current -> <digest12>     switched by a rename
    /opt/muster/previous -> <digest12>    what `rollback` goes back to
    /var/lib/muster/agent                 state (`healthcheck.model.places`)

<digest12> is the beginning of `digest` over the three files, so that a folder's name says all that is in it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from healthcheck.model.places import INSTALLED, METRICS, PERIOD_S, STATE, TEXTFILE_FOLDERS

__all__ = ["BASE", "CODE", "CURRENT", "DIGITS", "FILES", "METRICS", "NODE", "PERIOD_S", "PREVIOUS", "RULES",
           "STATE", "TEXTFILE_FOLDERS", "command", "digest", "exporter"]

BASE = "/opt/muster"
CURRENT = INSTALLED
PREVIOUS = f"{BASE}/previous"
CODE, RULES, NODE = FILES = ("muster.pyz", "rules.json", "node.json")
DIGITS = 12


def digest(files: Mapping[str, bytes]) -> str:
    """SHA-256 in hexadecimal over `<sha256> <length> <name>` lines of the files, in the order of FILES."""
    lines = (f"{hashlib.sha256(files[name]).hexdigest()} {len(files[name])} {name}\n" for name in FILES)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def command(python: str = "/usr/bin/python3", textfile: str | None = None) -> tuple[str, ...]:
    """What a timer starts; it goes on with the version it began with, whatever `current` becomes."""
    return (python, "-I", "-S", f"{CURRENT}/{CODE}", "run", *(("--textfile", textfile) if textfile else ()))


def exporter(python: str = "/usr/bin/python3") -> tuple[str, ...]:
    """What serves this node's result."""
    return (python, "-I", "-S", f"{CURRENT}/{CODE}", "exporter")
