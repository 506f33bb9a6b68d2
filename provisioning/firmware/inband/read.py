"""Asks the tools of machines which firmware there is, and keeps what they say in the store."""

from __future__ import annotations

import time
from collections.abc import Collection, Sequence

from healthcheck.store.file import Store
from healthcheck.store.firmware import write_controller
from inventory.model import Node
from inventory.transport.base import Transport
from provisioning.bringup.policy.model import UpdateRoute
from provisioning.firmware.inband.device import look_of
from provisioning.firmware.inband.send import ALL_OF_IT, BandPlace, NodeReading, look

TOOLS = (UpdateRoute.FWUPD, UpdateRoute.MLXFWMANAGER)


def read_tools(
    store: Store, nodes: Sequence[Node], transport: Transport, fanout: int,
    tools: Collection[UpdateRoute] = TOOLS, place: BandPlace = ALL_OF_IT,
) -> dict[str, str]:
    """Asks all, and keeps answers as they come; by node why a tool reported none. Raises StoreError."""
    wrong: dict[str, str] = {}
    for found in look(nodes, tools, transport, fanout, place) if nodes else ():
        keep(store, found, time.time())
        if why := found.failure or "; ".join(found.lost.values()):
            wrong[found.node] = why
    return {node.name: wrong[node.name] for node in nodes if node.name in wrong}


def keep(store: Store, found: NodeReading, now: float) -> None:
    """Keeps what tools reported; one that reported nothing changes nothing. Raises StoreError."""
    for tool, devices in found.devices.items():
        seen, _ = look_of(tool.value, devices)
        write_controller(store, found.node, now, seen, tool.value)
