"""The one way to a node's management controller, whatever it speaks; nothing is asked, and no password read,
before its first use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from inventory.errors import UsageError
from inventory.model import Node, Speaks
from provisioning.bmc.base import Controller

if TYPE_CHECKING:
    from provisioning.bmc.redfish.crawl import KeptDocuments

REDFISH_PORT = 443


def controller(
    node: Node, *, folder: Path, seconds: float = 30.0, answer_s: float | None = None,
    kept: KeptDocuments | None = None,
) -> Controller:
    """The node's controller; `folder` is the state folder with the pinned certificates, `seconds` are for
    each call, and `answer_s` for each answer in it (None: as many); `kept` as for a RedfishController.

    Raises UsageError for a node of which the inventory names none, MusterError for pins that cannot be read.
    """
    bmc = node.bmc
    if bmc is None:
        raise UsageError(
            f"the inventory names no controller for {node.name}; add there: bmc: {{address: ADDRESS}}")
    if bmc.speaks is Speaks.IPMI:
        from provisioning.bmc.credentials import supplier
        from provisioning.bmc.ipmi.controller import IpmiController

        return IpmiController(node, supplier(node), answer_s or seconds)
    from provisioning.bmc import pins
    from provisioning.bmc.credentials import login
    from provisioning.bmc.redfish.controller import RedfishController
    from provisioning.bmc.redfish.wire import RedfishEndpoint

    pin = pins.read(folder).get(node.name) if bmc.tls == "pin" else None
    place = RedfishEndpoint(node.name, bmc.address, bmc.port or REDFISH_PORT, bmc.tls, pin, bmc.system)
    return RedfishController(place, lambda: login(node), seconds, folder=folder, answer_s=answer_s,
                             kept=kept)
