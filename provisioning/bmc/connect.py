"""The one way to a node's controller, whatever it speaks; no password is read before its use."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from inventory.errors import UsageError
from inventory.model import Bmc, Node, Speaks
from provisioning.bmc.base import Controller

if TYPE_CHECKING:
    from provisioning.bmc.accounts import AccountLogin, Accounts, DesiredAccounts
    from provisioning.bmc.credentials import Hidden
    from provisioning.bmc.redfish.crawl import KeptDocuments
    from provisioning.bmc.redfish.wire import RedfishEndpoint

REDFISH_PORT = 443


def controller(
    node: Node, *, folder: Path, seconds: float = 30.0, answer_s: float | None = None,
    kept: KeptDocuments | None = None,
) -> Controller:
    """The node's controller; `folder` is the state folder with pins, `seconds` are for each call, `answer_s`
    for each answer in it (None: as many); `kept` as for a RedfishController. Raises UsageError where the
    inventory names none, MusterError for unreadable pins."""
    bmc = node.bmc
    if bmc is None:
        raise UsageError(
            f"the inventory names no controller for {node.name}; add there: bmc: {{address: ADDRESS}}")
    if bmc.speaks is Speaks.IPMI:
        from provisioning.bmc.credentials import supplier
        from provisioning.bmc.ipmi.controller import IpmiController

        return IpmiController(node, supplier(node), answer_s or seconds)
    from provisioning.bmc.credentials import login
    from provisioning.bmc.redfish.controller import RedfishController

    return RedfishController(_place(node, bmc, folder), lambda: login(node), seconds, folder=folder,
                             answer_s=answer_s, kept=kept)


def account(node: Node, user: str, password: Hidden, *, folder: Path, seconds: float = 30.0) -> AccountLogin:
    """An account of the node's controller, to be logged in to with this password; raises as `controller`."""
    bmc = node.bmc
    if bmc is None:
        raise UsageError(f"the inventory names no controller for {node.name}")
    if bmc.speaks is Speaks.IPMI:
        from provisioning.bmc.ipmi.accounts import IpmiAccounts
        from provisioning.bmc.ipmi.controller import IpmiController

        return IpmiAccounts(IpmiController(node, lambda: (user, password.text), seconds), user)
    from provisioning.bmc.redfish.accounts import RedfishAccounts
    from provisioning.bmc.redfish.leftover import OpenSessions
    from provisioning.bmc.redfish.pending import PendingTasks
    from provisioning.bmc.redfish.session import Session

    return RedfishAccounts(
        Session(_place(node, bmc, folder), lambda: (user, password), seconds,
                kept=OpenSessions(folder, node.name)), user, PendingTasks(folder, node.name))


def accounts_of(desired: DesiredAccounts, folder: Path, seconds: float = 30.0) -> Accounts:
    """What sets the accounts of nodes' controllers; `folder` is the state folder."""
    from provisioning.bmc.accounts import Accounts

    return Accounts(desired, folder, lambda node, user, password: account(
        node, user, password, folder=folder, seconds=seconds))


def _place(node: Node, bmc: Bmc, folder: Path) -> RedfishEndpoint:
    from provisioning.bmc import pins
    from provisioning.bmc.redfish.wire import RedfishEndpoint

    pin = pins.read(folder).get(node.name) if bmc.tls == "pin" else None
    return RedfishEndpoint(node.name, bmc.address, bmc.port or REDFISH_PORT, bmc.tls, pin, bmc.system)
