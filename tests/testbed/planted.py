"""Files of a test that only their mode makes into what they are."""
from __future__ import annotations

from pathlib import Path


def executable(path: Path, text: str) -> Path:
    path.write_text(text)
    path.chmod(0o755)
    return path


def private(path: Path, text: str) -> Path:
    """Nobody but its owner reads it, as a password's file must be."""
    path.write_text(text)
    path.chmod(0o600)
    return path
