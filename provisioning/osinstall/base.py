"""The interface to installers of operating systems, and their reports. `state` changes nothing; `install` is
asked for once, recorded first, and only a later `state` says how it went."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Protocol, runtime_checkable

from inventory.errors import MusterError
from inventory.model import Node
from provisioning.bmc.base import BootTarget


class OsState(Enum):
    """How far a machine's operating system is. PLANNED and FAILED: nothing is there to be destroyed; only
    such a machine is sent to an installer. UNKNOWN: not asked, or not proven either way."""

    PLANNED = "planned"
    INSTALLING = "installing"
    INSTALLED = "installed"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class OsReport:
    """`message` is one clean line; `image` what is installed, or empty. `host_keys` are the public keys
    (`type base64`) that came with the proof of the installed system: no other may be pinned by itself;
    without them an INSTALLED machine is asked over SSH for a sign as well, and that connection's keys are
    taken. `advice` is what to do where it failed or is unknown. `answered`: by the machine itself."""

    state: OsState
    message: str
    image: str = ""
    host_keys: tuple[str, ...] = ()
    advice: str = ""
    answered: bool = False


class OsError(MusterError):
    """An installer could not be asked or would not do it; one line without credentials. `done`: whether the
    change was made, None where no one knows."""

    def __init__(self, message: str, done: bool | None = None) -> None:
        super().__init__(message)
        self.done = done


class OsBackend(Protocol):
    """One installer. `target` is what a machine boots once to get there (step boot, unless the policy's
    `boot:` does); NONE where the back end sets it. `drives_power`: bring-up turns no machine on or off."""

    @property
    def name(self) -> str: ...
    @property
    def target(self) -> BootTarget: ...
    @property
    def drives_power(self) -> bool: ...

    def state(self, node: Node) -> OsReport:
        """How the machine stands now. Raises OsError where the back end cannot be asked."""

    def changes(self, node: Node) -> tuple[str, ...]:
        """What `install` would change, a line each; none where others install, and it is only waited for.
        Raises OsError where it could not be done."""

    def install(self, node: Node) -> None:
        """Has the installation begun, or accepted; asked again, nothing is doubled. Raises OsError."""


@runtime_checkable
class SupportsFinish(Protocol):
    """A back end that leaves something behind with an installed machine, such as a disc in its drive."""

    def finish(self, node: Node) -> None:
        """Takes it away; asked again, nothing happens. Raises OsError."""


@runtime_checkable
class SupportsRelease(Protocol):
    """A back end that machines can be given back to."""

    def release(self, node: Node, typed: str = "") -> bool:
        """Ends what runs there; returns whether that was asked for, False where it is so already. What was
        not installed for muster is released only where the node's name was `typed`. Raises OsError."""
