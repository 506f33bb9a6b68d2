"""Who found controllers are, by the accounts that the inventory names; a refused password is not tried again.
An account that may be one on many controllers, or of a directory, is tried on one first: accounts lock."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from inventory.edit import read_document
from inventory.errors import InventoryError, MusterError
from inventory.load import parse_with_origins
from inventory.model import Bmc, Node, Speaks
from inventory.text import clean
from inventory.yamltext import render
from provisioning.bmc.base import BmcError, BmcErrorReason, Controller, MachineIdentity
from provisioning.discover.model import FoundController, macs, number

WIDTH = 16
_Account = tuple[object, ...]


def default_account(text: str, path: str) -> Bmc | None:
    """What `defaults` say of controllers, as for one without an entry; None without a password."""
    document = read_document(text, path)
    made = {"version": 1, "nodes": {"controller": {"bmc": {"address": "controller.invalid"}}}}
    if document.get("defaults"):
        made["defaults"] = document["defaults"]
    try:
        bmc = parse_with_origins(render(made), path).inventory.nodes["controller"].bmc
    except InventoryError:
        return None
    return bmc if bmc is not None and bmc.user is not None and bmc.secret is not None else None


def read(
    found: Sequence[FoundController], at: Mapping[str, Node], account: Bmc | None, folder: Path,
    seconds: float, *, ports: tuple[int, int], trust: bool = False, nics: bool = False,
) -> tuple[FoundController, ...]:
    """Each with what its controller said after a login, or why there was none. `at` has the nodes of
    addresses, `account` is for others. `trust` believes unpinned certificates, for this once; `nics` reads
    adapters' MAC addresses, too, which takes a while."""
    waiting: dict[_Account, list[tuple[int, Node]]] = {}
    done = list(found)
    for index, one in enumerate(found):
        node = _node(one, at.get(one.address), account, ports)
        if isinstance(node, str):
            done[index] = replace(one, login=node)
        else:
            waiting.setdefault(_account(node), []).append((index, node))
    for group in waiting.values():
        stop = _Stop()
        left = list(group)
        # One after the other until one lets us in, and then many.
        while left and not stop.let_in and not stop.refused:
            index, node = left.pop(0)
            done[index] = _asked(done[index], node, folder, seconds, stop, trust, nics)
        with ThreadPoolExecutor(WIDTH, thread_name_prefix="login") as pool:
            for index, answer in pool.map(lambda each, stop=stop: (
                    each[0], _asked(done[each[0]], each[1], folder, seconds, stop, trust, nics)), left):
                done[index] = answer
    return tuple(done)


class _Stop:
    """What a group of controllers with one account has come to know of it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.let_in = False
        self.refused = ""


def _node(
    one: FoundController, known: Node | None, account: Bmc | None, ports: tuple[int, int],
) -> Node | str:
    """The node as which its controller is asked, or why it is not."""
    if not one.speaks:
        return ""
    speaks = Speaks.REDFISH if "redfish" in one.speaks else Speaks.IPMI
    port = ports[0] if speaks is Speaks.REDFISH else ports[1]
    if known is not None and known.bmc is not None:
        # Where its serial number was found, which may be elsewhere than the inventory has it.
        return replace(known, bmc=replace(known.bmc, address=one.address, port=port, speaks=speaks))
    if account is None or account.secret is None:
        return ("not tried: the inventory names no account for it (defaults: {bmc: {user: ..., password: "
                "...}})")
    if any("{node}" in word for word in account.secret.words):
        return "not tried: the password goes by the node's name, and it has none yet"
    return Node(one.address, bmc=replace(account, address=one.address, port=port, speaks=speaks))


def _account(node: Node) -> _Account:
    bmc = node.bmc
    if bmc is None or bmc.secret is None:
        return (node.name,)
    return bmc.user, bmc.secret.source, tuple(word.replace("{node}", node.name) for word in bmc.secret.words)


def _asked(
    one: FoundController, node: Node, folder: Path, seconds: float, stop: _Stop, trust: bool, nics: bool,
) -> FoundController:
    with stop.lock:
        if stop.refused:
            return replace(one, login=f"not tried: the account was refused at {stop.refused}")
    try:
        controller = _controller(one, node, folder, seconds, trust)
        try:
            identity = controller.identity()
            ports = _ports(controller) if nics else []
        finally:
            controller.close()
    except BmcError as problem:
        if problem.wrong is BmcErrorReason.CREDENTIALS:
            with stop.lock:
                stop.refused = stop.refused or one.address
        if problem.wrong is BmcErrorReason.TLS and node.name == one.address:
            return replace(one,
                           login="certificate: it is not pinned, and no entry names this controller; "
                                 "--trust-certificates trusts it this once")
        return replace(one, login=clean(f"{problem.wrong.value}: {problem.message}", 200))
    except MusterError as problem:
        return replace(one, login=clean(problem, 200))
    with stop.lock:
        stop.let_in = True
    return _with(one, identity, ports)


def _controller(one: FoundController, node: Node, folder: Path, seconds: float, trust: bool) -> Controller:
    from provisioning.bmc.connect import controller

    bmc = node.bmc
    if trust and one.fingerprint and bmc is not None and bmc.speaks is Speaks.REDFISH and bmc.tls == "pin":
        from provisioning.bmc import pins
        from provisioning.bmc.credentials import login
        from provisioning.bmc.redfish.controller import RedfishController
        from provisioning.bmc.redfish.wire import RedfishEndpoint

        pinned = pins.read(folder).get(node.name)
        place = RedfishEndpoint(node.name, bmc.address, bmc.port or 443, bmc.tls, pinned or one.fingerprint,
                                bmc.system)
        return RedfishController(place, lambda: login(node), seconds, folder=folder)
    return controller(node, folder=folder, seconds=seconds)


def _with(one: FoundController, identity: MachineIdentity, ports: Sequence[str]) -> FoundController:
    def said(value: object, before: str) -> str:
        return clean(value, 80).strip() if isinstance(value, str) and value.strip() else before

    return replace(
        one, login="read", vendor=said(identity.vendor, one.vendor), model=said(identity.model, one.model),
        serial=number(identity.serial) or one.serial, uuid=number(identity.uuid) or one.uuid,
        firmware=said(identity.firmware, one.firmware), product=one.product or said(identity.controller, ""),
        macs=macs((*one.macs, *ports)))


def _ports(controller: Controller) -> list[str]:
    """The MAC addresses of the machine's adapters, as far as its controller knows them."""
    try:
        nics = controller.hardware().parts.get("nic")
    except BmcError:
        return []
    return ([text for nic in nics if isinstance(nic.address, str) for text in nic.address.split(",")]
            if isinstance(nics, tuple) else [])
