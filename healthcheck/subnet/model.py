"""One fabric at one time: its switches, hosts' adapters, ports and links.

Terms are those of the InfiniBand Architecture Specification: a node (switch, channel adapter, router) has a
node GUID, each of its ports a number, and a link joins two ports. Ethernet fabrics (RoCE), seen through
LLDP, fill the same values with the chassis' MAC address in the place of the node GUID.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from types import MappingProxyType


class DeviceKind(Enum):
    """What stands at the end of a link."""

    SWITCH = "switch"
    ADAPTER = "adapter"         # a host's channel adapter or network port
    ROUTER = "router"


class LinkState(Enum):
    """The logical state of a port (PortInfo.PortState); Ethernet knows up (ACTIVE) and DOWN only."""

    DOWN = "down"
    INITIALIZE = "initialize"
    ARMED = "armed"
    ACTIVE = "active"


@dataclass(frozen=True, order=True)
class FabricEnd:
    """One port's identity in the fabric: the GUID of its node as 16 hexadecimal digits in lower case (of an
    Ethernet device, its chassis id as LLDP gives it), and the port's number there, from 1. A split or
    multi-plane port's parts have numbers of their own, as the subnet gives them."""

    guid: str
    number: int


@dataclass(frozen=True)
class FabricPort:
    """A port as a tool showed it. What no tool showed is None, and is never taken for good. `label` is what
    is printed on the device or what the tool calls the port ("1/12/1"). `width` is the number of lanes in
    use; `speed` the name of the rate of one lane (SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR), and
    `gigabits` that of the whole link for Ethernet. `physical` is the physical state in the tool's words in
    lower case ("linkup", "polling", "disabled"). `port_guid` is an adapter port's own GUID; `peer` where its
    cable ends."""

    end: FabricEnd
    state: LinkState | None = None
    physical: str | None = None
    width: int | None = None
    speed: str | None = None
    gigabits: float | None = None
    lid: int | None = None
    port_guid: str | None = None
    label: str | None = None
    peer: FabricEnd | None = None


@dataclass(frozen=True)
class FabricDevice:
    """A switch, an adapter or a router. `description` is what it calls itself (NodeDescription, system name),
    cleaned; `ports` are those that a tool showed, by number; `system` is the GUID of the chassis or card that
    it shares with others (system image GUID), as the planes of a multi-plane switch do."""

    guid: str
    kind: DeviceKind
    description: str = ""
    system: str | None = None
    port_count: int | None = None
    ports: Mapping[int, FabricPort] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, order=True)
class FabricLink:
    """A cable: its two ends, the lesser first."""

    a: FabricEnd
    b: FabricEnd

    @classmethod
    def of(cls, one: FabricEnd, other: FabricEnd) -> FabricLink:
        """The link of two ends in whichever order."""
        return cls(min(one, other), max(one, other))

    def beyond(self, end: FabricEnd) -> FabricEnd:
        """The other end."""
        return self.b if end == self.a else self.a


class ManagerState(Enum):
    """What a subnet manager is doing (SMInfo.SMState)."""

    NOT_ACTIVE = "not active"
    DISCOVERING = "discovering"
    STANDBY = "standby"
    MASTER = "master"
    UNKNOWN = "unknown"         # its port is marked as a manager's (IsSM), and no source shows its state


@dataclass(frozen=True)
class SubnetManager:
    """A subnet manager: the GUID of the port that it runs on, its state, priority and activity count."""

    port_guid: str
    state: ManagerState
    priority: int | None = None
    activity: int | None = None


# Counters that ibqueryerrors shows of every port, and leaves out where they are 0 (print_errors of
# infiniband-diags/ibqueryerrors.c). PortXmitWait is not among them: not every device has it.
LEFT_OUT = frozenset({
    "SymbolErrorCounter", "LinkErrorRecoveryCounter", "LinkDownedCounter", "PortRcvErrors",
    "PortRcvRemotePhysicalErrors", "PortRcvSwitchRelayErrors", "PortXmitDiscards", "PortXmitConstraintErrors",
    "PortRcvConstraintErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors", "VL15Dropped"})


def counted_value(values: Mapping[FabricEnd, Mapping[str, int]], zeros: bool, end: FabricEnd,
                  name: str) -> int | None:
    """A counter of a port in a sample; with `zeros` one of `LEFT_OUT` that is not in it is 0, otherwise what
    is not in it is not known."""
    found = values.get(end, {}).get(name)
    return 0 if found is None and zeros and name in LEFT_OUT else found


@dataclass(frozen=True)
class PortCounters:
    """Counters of ports at one time, by the names of the InfiniBand Architecture Specification
    ("SymbolErrorCounter", "LinkDownedCounter"). With `zeros`, the tool asked every port that is up and left
    out counters of `LEFT_OUT` that are 0; `unasked` are ports that it could not ask. Otherwise a counter that
    is not there is not known. `full` are counters at the highest value that they can show; `nodes` is how
    many nodes the tool says it asked."""

    values: Mapping[FabricEnd, Mapping[str, int]] = field(default_factory=lambda: MappingProxyType({}))
    zeros: bool = False
    unasked: frozenset[FabricEnd] = frozenset()
    full: Mapping[FabricEnd, frozenset[str]] = field(default_factory=lambda: MappingProxyType({}))
    nodes: int | None = None

    def count(self, end: FabricEnd, name: str) -> int | None:
        """A counter of a port; None where it is not known."""
        return counted_value(self.values, self.zeros and end not in self.unasked, end, name)


@dataclass(frozen=True)
class SubnetSensor:
    """A reading of a part of a device: `what` is "temperature" (degrees Celsius), "rx power" and "tx power"
    (dBm, `lane` from 1), "fan" (revolutions a minute) or "power supply" (no value). `end` is the port whose
    optics it is, number 0 for the device itself; `part` names one of several ("fan 3"). `low` and `high` are
    the limits that the part itself states, `ok` its own verdict, None where it states none."""

    end: FabricEnd
    what: str
    part: str = ""
    value: float | None = None
    lane: int | None = None
    low: float | None = None
    high: float | None = None
    ok: bool | None = None


@dataclass(frozen=True)
class CableModule:
    """What a cable or an optical module states of itself at one port."""

    vendor: str = ""
    part: str = ""
    serial: str = ""
    revision: str = ""
    date: str = ""
    kind: str = ""
    metres: float | None = None


# The condition of a port that was marked unhealthy on request (UFM Enterprise user manual, "Unhealthy Ports
# Window"). With the others, whether the subnet manager leaves the link out is its configuration's to say.
MANUAL = "MANUAL"


@dataclass(frozen=True)
class Subnet:
    """One subnet (one plane of a multi-plane fabric) as it was seen once, by `tools`.

    `name` is the plane's; `devices` are by GUID; `managers` is None where no source shows subnet managers,
    which is not none; `all_managers`: one lists all of them. `unread` names what could not be read, with the
    reason; what is missing from a `partial` subnet (an output ended early) is not known to be absent.
    `counters`, `sensors`, `modules` and `routes` (by the switch's GUID its port for each LID) are not
    measured where None or empty. `unhealthy` are ports that the subnet manager lists so, at both ends of a
    link, with the conditions ("MANUAL" where it was asked to leave the link out); None where no source shows
    them. An `ethernet` fabric has no subnet managers, GUIDs or LIDs, and is always partial: neighbours who
    were asked.
    """

    name: str
    devices: Mapping[str, FabricDevice]
    managers: tuple[SubnetManager, ...] | None = None
    all_managers: bool = True
    counters: PortCounters | None = None
    sensors: tuple[SubnetSensor, ...] = ()
    modules: Mapping[FabricEnd, CableModule] = field(default_factory=lambda: MappingProxyType({}))
    routes: Mapping[str, Mapping[int, int]] = field(default_factory=lambda: MappingProxyType({}))
    tools: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()
    partial: bool = False
    ethernet: bool = False
    unhealthy: Mapping[FabricEnd, frozenset[str]] | None = None

    def isolated(self, end: FabricEnd) -> bool:
        """Whether somebody asked the subnet manager to leave this port's link out."""
        return self.unhealthy is not None and MANUAL in self.unhealthy.get(end, ())

    @cached_property
    def links(self) -> frozenset[FabricLink]:
        """Every link that a port of either end showed."""
        return frozenset(FabricLink.of(port.end, port.peer) for port in self.ports() if port.peer is not None)

    def ports(self) -> Iterator[FabricPort]:
        """Every port of every device."""
        for device in self.devices.values():
            yield from device.ports.values()

    def port(self, end: FabricEnd) -> FabricPort | None:
        """The port of this identity, where it was shown."""
        device = self.devices.get(end.guid)
        return None if device is None else device.ports.get(end.number)
