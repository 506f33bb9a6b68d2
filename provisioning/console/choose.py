"""Which way a machine's console is read: the log that its Redfish service keeps, else serial over LAN."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from inventory.errors import MusterError
from inventory.model import Node, Speaks
from inventory.text import clean
from provisioning.bmc.base import BmcError, BmcErrorReason
from provisioning.bmc.connect import controller
from provisioning.bmc.redfish.console import HostLog
from provisioning.bmc.redfish.controller import RedfishController
from provisioning.console import sol
from provisioning.console.source import ConsoleSource, ConsoleUnavailable

POLL_S = 5.0
_PASSING = (BmcErrorReason.UNREACHABLE, BmcErrorReason.BUSY, BmcErrorReason.TIMEOUT, BmcErrorReason.BROKEN)


class HostLogSource:
    """The console's log of a Redfish service, read every `POLL_S`."""

    way = "the console log of its Redfish service"

    def __init__(self, made: RedfishController, entries: str, poll_s: float = POLL_S) -> None:
        self._controller, self._poll_s = made, poll_s
        self._log = HostLog(made.session, entries)
        self._next = 0.0

    def read(self, seconds: float) -> bytes:
        """See `ConsoleSource.read`."""
        wait = self._next - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, seconds))
            if wait > seconds:
                return b""
        try:
            lines, lost = self._log.new()
        except BmcError as error:
            raise _unavailable(error) from None
        self._next = time.monotonic() + self._poll_s
        if lost:
            lines = ["(lines before this one are not in the controller's log any more)", *lines]
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape")

    def close(self) -> None:
        """See `ConsoleSource.close`."""
        self._controller.close()


def opened(node: Node, folder: Path, *, seconds: float = 20.0) -> ConsoleSource:
    """The node's console, being read from now on. Raises ConsoleUnavailable."""
    if node.bmc is None:
        raise ConsoleUnavailable("it has no bmc in the inventory", passing=False)
    if node.bmc.speaks is Speaks.IPMI:
        return sol.opened(node, folder, seconds=seconds)
    try:
        made = controller(node, folder=folder, seconds=seconds)
    except MusterError as error:
        raise ConsoleUnavailable(clean(str(error), 200), passing=False) from None
    assert isinstance(made, RedfishController)  # noqa: S101  (it does not speak IPMI)
    try:
        found = made.console()
        if found.entries is not None:
            return HostLogSource(made, found.entries)
    except BmcError as error:
        made.close()
        raise _unavailable(error) from None
    made.close()
    if found.ipmi is not None:
        return sol.opened(replace(node, bmc=replace(node.bmc, speaks=Speaks.IPMI, port=found.ipmi or None)),
                          folder, seconds=seconds)
    ways = f"; it offers it by {', '.join(found.others)}, which muster does not use" if found.others else ""
    raise ConsoleUnavailable(
        f"its controller keeps no log of its console, and offers no serial over LAN{ways}", passing=False)


def _unavailable(error: BmcError) -> ConsoleUnavailable:
    return ConsoleUnavailable(clean(str(error), 200), passing=error.wrong in _PASSING)
