"""Asks controllers which firmware there is, and keeps what they say in the store."""

from __future__ import annotations

import time
from collections.abc import Sequence

from healthcheck.model.firmware import FirmwareReading
from healthcheck.store.file import Store
from healthcheck.store.firmware import write_controller
from inventory.model import Node
from provisioning.bmc.ask import Connect, ask_controllers
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller
from provisioning.bmc.components import controller_reading


def read_now(store: Store, nodes: Sequence[Node], reach: Connect, fanout: int) -> dict[str, str]:
    """Asks all, and keeps answers as they come; gives by node why there was none. Raises StoreError."""
    without = {node.name: "the inventory names no controller for it (`bmc:`)" for node in nodes
               if node.bmc is None}
    wrong: dict[str, str] = {}
    asked = [node for node in nodes if node.bmc is not None]
    for node, found in ask_controllers(asked, reach, look, fanout) if asked else ():
        if isinstance(found, BmcError):
            wrong[node.name] = f"{found.wrong.value}: {found.message}"
        else:
            write_controller(store, node.name, time.time(), found)
    return {node.name: why for node in nodes
            if (why := without.get(node.name) or wrong.get(node.name)) is not None}


def look(controller: Controller) -> FirmwareReading:
    """What a controller says of its machine, at least its own version (IPMI); raises BmcError."""
    identity = controller.identity()
    try:
        entries = controller.firmware()
    except BmcError as error:
        if error.wrong is not BmcErrorReason.UNSUPPORTED:
            raise
        return controller_reading(identity, None)
    return controller_reading(identity, entries)
