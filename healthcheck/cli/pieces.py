"""Prints what is too long to be held at once."""

from __future__ import annotations

import sys
from collections.abc import Iterable


def write_pieces(pieces: Iterable[str]) -> None:
    """Writes text to standard output as it is made; raises OSError where it cannot be written to the end."""
    if sys.stdout is not None:      # None where the shell closed it: >&-
        sys.stdout.writelines(pieces)
        sys.stdout.flush()
