"""Controllers' tasks whose end no one has seen: each has a file in the state folder from its acceptance on,
so that no kill loses it. Whoever follows a task holds its file locked; the lock goes with the process. A file
has a task's place at the controller, and what was changed; never a value."""

from __future__ import annotations

import contextlib
import fcntl
import glob
import json
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from healthcheck.config.files import make_folder
from inventory.errors import MusterError
from inventory.text import clean
from provisioning.bmc.redfish.answers import is_within

FOLDER = "bmc-tasks"
# A service forgets a task after it has ended, and a controller all of them when it restarts; after so long no
# one waits for one.
OLDEST_S = 24 * 3600.0
_MOST = 4096


@dataclass(frozen=True)
class PendingTask:
    """A task at `path` of the service, for people what it changes. With `at_reset` it is as far as it comes
    once it waits for the machine's next reset. `began` is epoch seconds."""

    path: str
    what: str
    at_reset: bool = False
    began: float = 0.0


class HeldTask:
    """A task that this process follows, and its file."""

    def __init__(self, task: PendingTask, descriptor: int | None, file: Path | None) -> None:
        self.task = task
        self._descriptor = descriptor
        self._file = file

        self._stays = False

    def stays(self) -> None:
        """Its end is not known: somebody has to ask again."""
        self._stays = True

    def close(self, *, known: bool) -> None:
        """Others may follow it, unless its end is `known`."""
        if self._file is not None and known and not self._stays:
            self._file.unlink(missing_ok=True)
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


class PendingTasks:
    """The tasks of one node's controller; `folder` None keeps none. What cannot be written is not kept."""

    def __init__(self, folder: Path | None, node: str) -> None:
        self._folder = folder / FOLDER if folder is not None else None
        self._node = node

    @contextmanager
    def keeping(self, task: PendingTask) -> Iterator[HeldTask]:
        """Keeps it from now on; it is forgotten only once its end is known."""
        held, known = self._made(task), False
        try:
            yield held
            known = True
        finally:
            held.close(known=known)

    def _made(self, task: PendingTask) -> HeldTask:
        if self._folder is None:
            return HeldTask(task, None, None)
        try:
            make_folder(self._folder, "tasks of controllers")
            descriptor, name = tempfile.mkstemp(prefix=f".{self._node}~", dir=self._folder)
        except (OSError, MusterError):
            return HeldTask(task, None, None)
        file = Path(name)
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            os.write(descriptor, json.dumps({"path": task.path, "what": task.what, "at_reset": task.at_reset,
                                             "began": time.time()}).encode())
            os.fsync(descriptor)
            # Only now others see it: one that is not written yet looks like one that is lost.
            file = file.rename(file.with_name(file.name[1:]))
        return HeldTask(task, descriptor, file)

    def any(self) -> bool:
        """Whether there may be one."""
        return self._folder is not None and any(self._files())

    def left(self) -> Iterator[HeldTask | PendingTask]:
        """Those that were left; each is forgotten once the caller comes for the next, unless it `stays`. A
        PendingTask alone is one that another process follows right now."""
        for path in self._files():
            try:
                descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                continue
            task = _task(os.read(descriptor, _MOST))
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                os.close(descriptor)
                yield task or PendingTask("", "a change")
                continue
            if task is None or not path.exists() or time.time() - task.began > OLDEST_S:
                path.unlink(missing_ok=True)
                os.close(descriptor)
                continue
            held, known = HeldTask(task, descriptor, path), False
            try:
                yield held
                known = True
            finally:
                held.close(known=known)

    def _files(self) -> list[Path]:
        if self._folder is None:
            return []
        try:
            return sorted(self._folder.glob(f"{glob.escape(self._node)}~*"))
        except OSError:
            return []


def _task(data: bytes) -> PendingTask | None:
    """What a file says; None for one that was not written to its end: then the task is lost."""
    try:
        found = json.loads(data)
        path, what, began = found["path"], found["what"], float(found["began"])
        at_reset = found["at_reset"] is True
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return PendingTask(path, clean(str(what), 80), at_reset, began) if is_within(path) else None
