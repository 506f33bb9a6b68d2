"""Serial over LAN: ipmitool's session on a machine's serial console (IPMI 2.0, 15), of which a controller has
one.

ipmitool ends its session when its standard input ends, and that is a pipe of ours: a muster that is killed
takes it along. Where both are killed the session stays at the controller, and a file of the state folder has
its id: the next capture ends that session, which is proven ours by the controller's own word, and no other.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import selectors
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from healthcheck.config.files import make_folder
from inventory.errors import MusterError
from inventory.model import Node
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.credentials import supplier
from provisioning.bmc.ipmi.controller import IpmiController
from provisioning.bmc.ipmi.tool import PrivilegeLevel
from provisioning.console.log import FOLDER
from provisioning.console.source import ConsoleUnavailable

IN_USE = "its console is in use by another session"
_BANNER = b"[SOL Session operational.  Use ~? for help]\n"
_OPENS_S, _ENDS_S = 10.0, 5.0
_LOOKS_S = 1.0
QUIET_S = 60.0      # of silence, after which the controller is asked whose the console is
_MOST_ERR = 4096


class SolSession:
    """A running ipmitool that has, or asks for, the console; `opened` makes one. A controller may give the
    console away silently: `still_ours` asks it."""

    way = "serial over LAN"

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.ours: OwnSession | None = None
        self.still_ours: Callable[[], bool] = lambda: True
        self._process = process
        self._heard = time.monotonic()
        self._begin: bytes | None = b""
        self._err = b""
        self._selector = selectors.DefaultSelector()
        for pipe in (process.stdout, process.stderr):
            assert pipe is not None  # noqa: S101  (both were asked for)
            os.set_blocking(pipe.fileno(), False)
            self._selector.register(pipe, selectors.EVENT_READ)

    @property
    def active(self) -> bool:
        """Whether ipmitool still runs."""
        return self._process.poll() is None

    def read(self, seconds: float) -> bytes:
        """See `ConsoleSource.read`."""
        found = b""
        for key, _ in self._selector.select(seconds):
            data = os.read(key.fd, 65536)
            if not data:
                self._selector.unregister(key.fileobj)
            elif key.fileobj is self._process.stderr:
                self._err = (self._err + data)[-_MOST_ERR:]
            else:
                found += self._without_banner(data)
        if not found and not self._selector.get_map():
            raise ConsoleUnavailable(self.why())
        if found:
            self._heard = time.monotonic()
        elif time.monotonic() - self._heard > QUIET_S:
            self._heard = time.monotonic()
            if not self.still_ours():
                raise ConsoleUnavailable("the controller has ended the session")
        return found

    def close(self) -> None:
        """See `ConsoleSource.close`."""
        ended = self.stop()
        if self.ours is not None:
            self.ours.ended() if ended else self.ours.release()

    def stop(self) -> bool:
        """Has ipmitool end its session, and end; whether it has."""
        self._selector.close()
        with self._process as process:
            try:
                process.communicate(timeout=_ENDS_S)
            except (subprocess.TimeoutExpired, ValueError, OSError):
                process.kill()
                return False
        return True

    def why(self) -> str:
        """Why it ended, by its last line."""
        said = [line for line in self._err.decode("utf-8", "replace").splitlines()
                if line.strip() and not line.startswith("tcgetattr")]
        if any("already active on another session" in line for line in said):
            return IN_USE
        return clean(f"the controller ended the session{f': {said[-1]}' if said else ''}", 200)

    def _without_banner(self, data: bytes) -> bytes:
        """What follows ipmitool's own first line."""
        if self._begin is None:
            return data
        self._begin += data
        if len(self._begin) < len(_BANNER) and _BANNER.startswith(self._begin):
            return b""
        data, self._begin = self._begin.removeprefix(_BANNER), None
        return data


class OwnSession:
    """The file that says which session of a controller is ours. Its lock goes with the process."""

    def __init__(self, folder: Path, node: str) -> None:
        """Raises UsageError, OSError."""
        make_folder(folder / FOLDER, "captured consoles")
        path = folder / FOLDER / f"{node}.sol"
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._file)
            raise ConsoleUnavailable("another muster has its console") from None

    @property
    def left(self) -> int:
        """The session that an earlier capture left behind, 0 for none."""
        text = os.pread(self._file, 32, 0).decode("ascii", "replace").strip()
        return int(text) if text.isdecimal() else 0

    def began(self, session: int) -> None:
        """Keeps it."""
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{session}\n".encode(), 0)
        os.fsync(self._file)

    def ended(self) -> None:
        """None of ours is open any more."""
        if self._file >= 0:
            os.ftruncate(self._file, 0)
        self.release()

    def release(self) -> None:
        """Leaves the file as it is to the next capture."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def opened(node: Node, folder: Path, *, seconds: float = 20.0) -> SolSession:
    """Begins a session on the node's serial console; ends one before that an earlier capture left there, and
    never another's. Raises ConsoleUnavailable."""
    try:
        ours = OwnSession(folder, node.name)
    except (OSError, MusterError) as error:
        raise ConsoleUnavailable(clean(str(error), 200), passing=False) from None
    try:
        return _opened(node, ours, seconds)
    except BmcError as error:
        ours.release()
        passing = error.wrong in (BmcErrorReason.UNREACHABLE, BmcErrorReason.BUSY, BmcErrorReason.TIMEOUT,
                                  BmcErrorReason.BROKEN)
        raise ConsoleUnavailable(clean(str(error), 200), passing=passing) from None
    except MusterError as error:
        ours.release()
        raise ConsoleUnavailable(clean(str(error), 200), passing=False) from None
    except BaseException:
        ours.release()
        raise


def _opened(node: Node, ours: OwnSession, seconds: float) -> SolSession:
    controller = IpmiController(node, supplier(node), seconds)
    try:
        holder = _holder(controller)
        if holder and ours.left == holder:
            controller.detach_console()
            holder = _holder(controller)
        if holder:
            raise ConsoleUnavailable(IN_USE)
        ours.began(0)
        why = ""
        # Most controllers give the console to an operator, some to an administrator alone.
        for level in (PrivilegeLevel.OPERATOR, PrivilegeLevel.ADMINISTRATOR):
            session = SolSession(controller.attach_console(level))
            try:
                found = _answered(session, controller)
            except BaseException:
                session.stop()
                raise
            if found is not None:
                ours.began(found)
                session.ours = ours
                session.still_ours = partial(_still, node, found, seconds)
                return session
            with contextlib.suppress(ConsoleUnavailable):
                while session.read(0.0):
                    pass
            why = session.why()
            session.stop()
            if "rivilege" not in why:
                break
        raise ConsoleUnavailable(why)
    finally:
        controller.close()


def _answered(session: SolSession, controller: IpmiController) -> int | None:
    """The id of the session once it is there, 0 where the controller does not tell; None where it ended."""
    end = time.monotonic() + _OPENS_S
    while time.monotonic() < end:
        time.sleep(_LOOKS_S)
        holder = _holder(controller)
        if not session.active:
            return None
        if holder:
            return holder
        if holder is None:
            break
    return 0 if session.active else None


def _still(node: Node, session: int, seconds: float) -> bool:
    """Whether this session has the console, as far as the controller tells."""
    controller = IpmiController(node, supplier(node), seconds)
    try:
        return not session or _holder(controller) in (session, None)
    except (BmcError, MusterError):
        return True         # it does not answer now; ipmitool finds out if that lasts
    finally:
        controller.close()


def _holder(controller: IpmiController) -> int | None:
    """Which session has the console, 0 for none; None where the controller does not tell."""
    try:
        return controller.console_session()
    except BmcError as error:
        if error.wrong not in (BmcErrorReason.UNSUPPORTED, BmcErrorReason.REFUSED, BmcErrorReason.DENIED):
            raise
        return None
