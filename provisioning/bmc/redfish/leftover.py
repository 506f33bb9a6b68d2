"""Sessions that a killed command left open, for the next one to end: controllers have room for few (iDRAC 9:
eight, bmcweb: sixty-four). Each open session has a small file that its process holds locked; the lock goes
with the process. The file has the session's place at the controller and never its token."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from healthcheck.config.files import make_folder
from provisioning.bmc.redfish.answers import is_within

FOLDER = "bmc-sessions"
_MOST = 2048        # bytes of one file, as of a path of a service


class OpenSessions:
    """The sessions of one node's controller; what cannot be written is not kept, and costs nothing else."""

    def __init__(self, folder: Path, node: str) -> None:
        self._folder = folder / FOLDER
        self._node = node
        self._held: tuple[int, Path] | None = None

    def began(self, path: str) -> None:
        """Keeps the place of the session that was made."""
        with contextlib.suppress(OSError):
            make_folder(self._folder, "open sessions")
            descriptor, name = tempfile.mkstemp(prefix=f"{self._node}~", dir=self._folder)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, path.encode())
            os.fsync(descriptor)
            self._held = descriptor, Path(name)

    def ended(self) -> None:
        """Forgets it: it was ended, or is over."""
        if self._held is not None:
            descriptor, path = self._held
            self._held = None
            path.unlink(missing_ok=True)
            os.close(descriptor)

    def left(self) -> Iterator[str]:
        """The places of sessions whose process is gone; each is forgotten once the next is asked for."""
        try:
            found = sorted(self._folder.glob(f"{glob.escape(self._node)}~*"))
        except OSError:
            return
        for path in found:
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                place = os.read(descriptor, _MOST).decode("ascii", "replace")
                if is_within(place):
                    yield place
                path.unlink(missing_ok=True)
            except OSError:
                continue
            finally:
                os.close(descriptor)
