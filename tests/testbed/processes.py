"""What the tests ask of the processes of this machine."""

from __future__ import annotations

from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
