"""Which of MAAS's machines a node of the inventory is; pure. Labels maas_id, serial and uuid, the
controller's address and the name are looked for; all found have to be one machine: two are an error, since
the wrong one would be installed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from inventory.model import Node
from inventory.text import clean
from provisioning.osinstall.base import OsError
from provisioning.osinstall.maas.machines import MaasMachine, address, number

ID_LABEL = "maas_id"


@dataclass(frozen=True)
class MaasMatch:
    """The machine, and by what it is known: "serial number SN1, host name gpu001"."""

    machine: MaasMachine
    by: str


def find(node: Node, machines: Iterable[MaasMachine], addresses: Mapping[str, str]) -> MaasMatch | None:
    """The machine that the node is, or None; `addresses` are controllers' by system_id. Raises OsError for
    several, or for one with another serial number."""
    claims: dict[str, list[str]] = {}
    by_id = {}
    for one in machines:
        if said := list(_claims(node, one, addresses.get(one.system_id, ""))):
            claims[one.system_id] = said
            by_id[one.system_id] = one
    if len(claims) > 1:
        named = [f"{by_id[found].called} by its {' and '.join(said)}" for found, said in claims.items()]
        more = f" and {len(named) - 4} more" if len(named) > 4 else ""
        raise OsError(f"{node.name} may be any of {len(named)} machines of MAAS: {'; '.join(named[:4])}"
                      f"{more}; say which in the inventory: labels: {{{ID_LABEL}: ...}}, or correct MAAS")
    for found, said in claims.items():
        if trouble := contradiction(node, by_id[found]):
            raise OsError(f"{node.name} is {by_id[found].called} by its {' and '.join(said)}, but {trouble}")
    return next((MaasMatch(by_id[found], ", ".join(said)) for found, said in claims.items()), None)


def contradiction(node: Node, one: MaasMachine) -> str:
    """What says that this machine is another than the node, "" for nothing."""
    identity = node.labels.get(ID_LABEL)
    if identity and identity != one.system_id:
        return f"the inventory says {ID_LABEL} {clean(identity, 60)}"
    serial, uuid = number(node.labels.get("serial")), number(node.labels.get("uuid"))
    if serial and one.serials and serial not in one.serials:
        return f"the inventory says serial number {serial}, MAAS says {' and '.join(one.serials)}"
    if uuid and one.uuid and uuid != one.uuid:
        return f"the inventory says UUID {uuid}, MAAS says {one.uuid}"
    return ""


def sought(node: Node) -> str:
    """By what a node is looked for, for a message that none was found."""
    labels = {name: node.labels.get(key) for key, name in (
        (ID_LABEL, "id"), ("serial", "serial number"), ("uuid", "UUID"))}
    said = [f"{name} {clean(value, 60)}" for name, value in labels.items() if value]
    if node.bmc is not None:
        said.append(f"controller at {clean(node.bmc.address, 100)}")
    return ", ".join((*said, f"host name {node.name}"))


def _claims(node: Node, one: MaasMachine, controller: str) -> Iterator[str]:
    """What of the machine is the node's."""
    identity = node.labels.get(ID_LABEL)
    if identity:
        # A person said which, and that alone decides; `contradiction` looks at the rest.
        if identity == one.system_id:
            yield f"label {ID_LABEL}"
        return
    serial, uuid = number(node.labels.get("serial")), number(node.labels.get("uuid"))
    if serial and serial in one.serials:
        yield f"serial number {serial}"
    if uuid and uuid == one.uuid:
        yield f"UUID {uuid}"
    if controller and node.bmc is not None and address(node.bmc.address) == controller:
        yield f"controller at {controller}"
    name = node.name.lower()
    if name in (one.hostname.lower(), one.fqdn.lower()):
        yield f"host name {node.name}"
