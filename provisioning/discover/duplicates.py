"""What several machines have and only one may: address, host name, serial, MAC, UUID, GUID; pure. Claims come
from what was found now, from the inventory, from leases and from the newest looks that the store keeps; one
machine is one `who`, wherever it was seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from healthcheck.model.hardware import Now
from inventory.model import Inventory, LifecycleState
from inventory.text import clean
from provisioning.discover.model import DhcpLease, FoundController, mac, number

SERIAL, ADDRESS, MAC = "serial number", "address", "MAC address"
UUID, GUID, HOST = "UUID", "GUID", "host name"
_ITS_HOST = "controller's host name"       # which may well be that of its machine
# what a controller is called before anybody named it
_COMMON = frozenset(("localhost", "bmc", "ipmi", "idrac", "ilo", "openbmc"))


@dataclass(frozen=True)
class Claim:
    """Something that a machine has, and where that is from."""

    kind: str
    value: str
    who: str
    where: str


@dataclass(frozen=True)
class Duplicate:
    """One thing that several machines have; a claim for each of them."""

    kind: str
    value: str
    claims: tuple[Claim, ...]


def duplicated(claims: Iterable[Claim]) -> tuple[Duplicate, ...]:
    """What several have, in order of kind and value."""
    held: dict[tuple[str, str], dict[str, Claim]] = {}
    for claim in claims:
        if claim.value:
            held.setdefault((claim.kind, claim.value), {}).setdefault(claim.who, claim)
    return tuple(Duplicate(kind, value, tuple(by[who] for who in sorted(by))) for (kind, value),
                 by in sorted(held.items()) if len(by) > 1)


def of_found(found: Iterable[FoundController], names: Mapping[str, str]) -> Iterator[Claim]:
    """What was found; `names` has the node of an address that is known."""
    for one in found:
        who = names.get(one.address, one.address)
        where = f"the controller at {one.address}"
        host = one.host.partition(".")[0]
        for kind, values in ((SERIAL, (one.serial,)), (UUID, (one.uuid,)), (MAC, one.macs),
                             (_ITS_HOST, (one.host,) if host and host not in _COMMON else ())):
            yield from (Claim(kind, value, who, where) for value in values)


def of_inventory(inventory: Inventory) -> Iterator[Claim]:
    """Of nodes that are not retired: addresses, and the labels serial, mac and uuid."""
    for node in inventory:
        if node.lifecycle.state is LifecycleState.RETIRED:
            continue
        where = "the inventory"
        for address in (node.address, node.bmc.address if node.bmc is not None else None):
            yield Claim(ADDRESS, (address or "").lower(), node.name, where)
        yield Claim(HOST, node.name.lower(), node.name, where)
        yield Claim(SERIAL, number(node.labels.get("serial")), node.name, f"{where}, label serial")
        yield Claim(MAC, mac(node.labels.get("mac")), node.name, f"{where}, label mac")
        yield Claim(UUID, number(node.labels.get("uuid")), node.name, f"{where}, label uuid")


def of_leases(leases: Iterable[DhcpLease]) -> Iterator[Claim]:
    """Host names under which several MAC addresses hold leases; compared with each other only."""
    for lease in leases:
        if lease.held and lease.name and lease.name.partition(".")[0] not in _COMMON:
            yield Claim(HOST, lease.name, lease.mac or lease.address,
                        f"the lease of {lease.mac or 'no one'} at {lease.address}")


def of_hardware(hardware: Mapping[str, tuple[float, Now]], when: Mapping[str, str]) -> Iterator[Claim]:
    """The numbers of board, GPUs and adapters in each newest snapshot; `when` is its time for people."""
    for name, (_, seen) in hardware.items():
        where = f"the look of {when[name]}"
        for slot, part in seen.hardware.items():
            kind = slot.partition(" ")[0]
            at = where if kind == "board" else f"{where}, {clean(slot, 40)}"
            # A GPU's number is another maker's than the board's: the same digits are no double.
            of = SERIAL if kind == "board" else f"{kind} {SERIAL}"
            yield Claim(of, number(part.get("serial")), name, at)
            yield Claim(GUID if kind == "nic" else f"{kind} {UUID}", number(part.get("uuid")), name, at)
