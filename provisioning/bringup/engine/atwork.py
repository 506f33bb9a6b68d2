"""Whether a muster is at work on machines that are brought up, by the lock that it holds while it lives."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from provisioning.bringup.engine.site import LOCK


def at_work(folder: Path) -> bool | None:
    """Whether somebody holds the lock now; None where that cannot be asked."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    except OSError:
        return None
    try:
        # Shared, so that two who ask do not see each other; and given back at once.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return None
    finally:
        os.close(descriptor)
    return False
