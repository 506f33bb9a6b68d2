"""What was found, as entries: planned nodes with their controller's address and serial number."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from inventory.importers.base import Collected, Imported
from inventory.model import Lifecycle, LifecycleState, Node
from inventory.nodeset import NAME
from provisioning.discover.model import Delivered, DhcpLease, FoundController


def entries(
    found: Sequence[FoundController], at: Mapping[str, Node], rows: Sequence[Delivered],
    leases: Sequence[DhcpLease], spare: Sequence[str], *, ports: tuple[int | None, int | None] = (None, None),
) -> Imported:
    """Entries for what answered and is a controller. A node of the inventory keeps its name, and gets what it
    lacks; others are called as the delivery list or their lease says, else by a spare name, else left out
    with a note. Raises InventoryError where nothing is left."""
    collected = Collected("what was found")
    listed = {row.serial: row for row in rows}
    leased = {lease.address: lease.name.partition(".")[0] for lease in leases if lease.held}
    taken = {node.name for node in at.values()}
    free = iter([name for name in spare if name not in taken])
    for one in found:
        if not one.speaks:
            continue
        row = listed.get(one.serial) if one.serial else None
        node = at.get(one.address)
        name = node.name if node is not None else next(
            _names(row, leased.get(one.address, ""), free, collected.nodes), "")
        if not name:
            collected.note(f"{one.address} is left out: nothing says its name; --names 'gpu[001-064]' would")
        elif name in collected.nodes:
            collected.note(f"{one.address} is left out: {name} is at another address already")
        else:
            collected.node(name, _entry(one, node, row, ports))
    return collected.done()


def _names(row: Delivered | None, leased: str, free: Iterator[str], used: Mapping[str, Any]) -> Iterator[str]:
    if row is not None and NAME.fullmatch(row.name):
        yield row.name
    if leased not in used and NAME.fullmatch(leased):
        yield leased
    yield from (name for name in free if name not in used)


def _spelt(value: Lifecycle) -> Any:
    said = {
        "state": value.state.value, "owner": value.owner, "until": value.until and value.until.isoformat()}
    given = {key: inner for key, inner in said.items() if inner is not None}
    return given if len(given) > 1 else value.state.value


def _entry(
    one: FoundController, node: Node | None, row: Delivered | None, ports: tuple[int | None, int | None],
) -> dict[str, Any]:
    ipmi = "redfish" not in one.speaks
    port = ports[1] if ipmi else ports[0]
    bmc: dict[str, Any] = {
        "address": one.address, **({"port": port} if port else {}), **({"protocol": "ipmi"} if ipmi else {})}
    model, slot = (row.model, row.slot) if row is not None else ("", "")
    labels = {"serial": one.serial, "model": one.model or model, "slot": slot}
    entry: dict[str, Any] = {"bmc": bmc["address"] if len(bmc) == 1 else bmc}
    # Who has none would be in service, where the file does not have the node yet.
    entry["lifecycle"] = LifecycleState.PLANNED.value if node is None else _spelt(node.lifecycle)
    if row is not None and row.rack:
        entry["rack"] = row.rack
    if said := {key: value for key, value in labels.items() if value}:
        entry["labels"] = said
    return entry
