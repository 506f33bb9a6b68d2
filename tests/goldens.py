"""Golden files: what is printed is what is kept, so that a change of it is read in the diff."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).resolve().parent / "golden"


def golden(name: str, text: str) -> None:
    """Compares with the golden file; MUSTER_GOLDEN=update writes it anew, to be read in the diff."""
    path = GOLDEN / name
    if os.environ.get("MUSTER_GOLDEN") == "update":
        path.write_bytes(text.encode())
    assert text.encode() == path.read_bytes()
