"""What the tests ask of the processes of this machine."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


def stop(*processes: subprocess.Popen[Any], seconds: float = 30.0) -> None:
    """Ends what we started: told to, and killed where it does not end in time."""
    for process in processes:
        process.terminate()
    for process in processes:
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def alive(pid: int) -> bool:
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def with_environment(entry: str) -> list[int]:
    """The processes that have this entry, NAME=VALUE, in their environment."""
    found = []
    for path in Path("/proc").glob("[0-9]*/environ"):
        try:
            entries = path.read_bytes().split(b"\0")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if entry.encode() in entries:
            found.append(int(path.parent.name))
    return found
