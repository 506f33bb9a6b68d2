"""Back end `none`: others install, and the machine itself is asked for a sign that they have."""

from __future__ import annotations

from collections.abc import Callable

from inventory.model import Node
from provisioning.bmc.base import BootTarget
from provisioning.osinstall.base import OsError, OsReport


class ByOthers:
    """`look` asks the machine."""

    name = "none"
    target = BootTarget.NONE
    drives_power = False

    def __init__(self, look: Callable[[Node], OsReport]) -> None:
        self._look = look

    def state(self, node: Node) -> OsReport:
        """See `OsBackend.state`."""
        return self._look(node)

    def changes(self, node: Node) -> tuple[str, ...]:
        """Nothing: it is only waited for."""
        return ()

    def install(self, node: Node) -> None:
        """Raises OsError."""
        raise OsError("others install here (os: {by: none} in bringup.yaml)", done=False)
