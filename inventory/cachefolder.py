"""The folder of this user's caches."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def cache_folder() -> Path | None:
    """$XDG_CACHE_HOME/muster or ~/.cache/muster, or None: without a home, and for root in another user's."""
    base = os.environ.get("XDG_CACHE_HOME")
    with contextlib.suppress(RuntimeError, OSError):
        folder = (Path(base) if base and Path(base).is_absolute() else Path.home() / ".cache") / "muster"
        # With sudo, root often keeps the user's HOME: a folder of root's would block that user.
        if os.geteuid() != 0 or _nearest(folder).stat().st_uid == 0:
            return folder
    return None


def _nearest(path: Path) -> Path:
    return next(one for one in (path, *path.parents) if one.exists())
