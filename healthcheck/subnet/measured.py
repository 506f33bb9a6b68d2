"""Whether a check that does not show a finding has measured what it was about; pure. Without a plan it says
nothing of planned links, without an earlier sample nothing of counters: what was there stays, with the
reason."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from healthcheck.subnet.check.congestion import grown
from healthcheck.subnet.check.counted import JUDGED
from healthcheck.subnet.check.findings import UNHEALTHY, FabricRule
from healthcheck.subnet.check.seen import SeenSubnet
from healthcheck.subnet.kept import KeptFinding
from healthcheck.subnet.model import FabricPort, LinkState, ManagerState

_PART = "the subnet was read in part"
_NO_PLAN = "no plan of it was given"
_NO_PORT = "no output shows its port"
_SENSORS: Mapping[FabricRule, str] = {FabricRule.TEMPERATURE: "temperature", FabricRule.OPTICS: "rx power",
                                      FabricRule.FAN: "fan", FabricRule.SUPPLY: "power supply"}


def not_measured(one: KeptFinding, seen: SeenSubnet) -> str:
    """Why a check of the subnet that does not show this cannot say that it is over; empty where it can."""
    if not seen.subnet.devices:
        return "no device was read"
    return _HOW.get(one.rule, _whole)(one, seen)


def lot_not_measured(one: KeptFinding, seen: Sequence[SeenSubnet], lots: Collection[str]) -> str:
    """The same of a lot whose parts failed, over all subnets of a check that knew parts of these `lots`. It
    is over where the parts that are still there were measured for what they failed with."""
    if any(each.subnet.partial for each in seen):
        return _PART
    if one.place not in lots:
        return "no part of the lot was known (--delivery)"
    failed = [rule for rule in FabricRule if f"{rule.value} at " in one.observed]
    for each in seen:
        there = tuple(end for end in one.ends if end.guid in each.subnet.devices and (
            end.number == 0 or ((port := each.subnet.port(end)) is not None and port.peer is not None)))
        for rule in failed if there else ():
            if why := not_measured(replace(one, rule=rule, ends=there), each):
                return why
    return ""


def _ports(one: KeptFinding, seen: SeenSubnet) -> list[FabricPort]:
    return [port for end in one.ends if end.number and (port := seen.subnet.port(end)) is not None]


def _by_plan(one: KeptFinding, seen: SeenSubnet) -> str:
    return _PART if seen.subnet.partial else _NO_PLAN if not seen.cables else ""


def _whole(one: KeptFinding, seen: SeenSubnet) -> str:
    return _PART if seen.subnet.partial else ""


def _link(one: KeptFinding, seen: SeenSubnet) -> str:
    """A link is well once one end is seen to be joined; by a plan the check names all that are not."""
    if any(port.state is not LinkState.DOWN and (port.peer is not None or port.state is not None)
           for port in _ports(one, seen)):
        return ""       # a port that is up and whose other end is silent is another finding
    return _by_plan(one, seen)


def _state(one: KeptFinding, seen: SeenSubnet) -> str:
    if one.observed.startswith(UNHEALTHY) and seen.subnet.unhealthy is None:
        return "no source shows which ports are unhealthy"
    return "" if any(port.state is not None for port in _ports(one, seen)) else _NO_PORT


def _silent(one: KeptFinding, seen: SeenSubnet) -> str:
    return "" if any(port.peer is not None or port.state is not None
                     for port in _ports(one, seen)) else _NO_PORT


def _cable(one: KeptFinding, seen: SeenSubnet) -> str:
    if not seen.cables:
        return _NO_PLAN
    return "" if any(port.peer is not None or port.state is LinkState.DOWN
                     for port in _ports(one, seen)) else _NO_PORT


def _rate(one: KeptFinding, seen: SeenSubnet) -> str:
    """Width or speed: shown, and as it was wanted, or there is something that says what it should be."""
    width = one.rule is FabricRule.WIDTH
    shown = [f"{port.width}x" if width else port.speed for port in _ports(one, seen)
             if (port.width if width else port.speed) is not None and port.state is not LinkState.DOWN]
    if not shown:
        return "its width is not shown" if width else "its rate is not shown"
    if shown[0] == one.expected.partition(",")[0]:
        return ""
    cables = [cable for end in one.ends if (name := seen.planned_name.get(end)) is not None
              and (cable := seen.planned.get(name)) is not None]
    wanted = [seen.wanted.width, *(cable.width for cable in cables)] if width else \
        [seen.wanted.speed, *(cable.speed for cable in cables)]
    return "" if any(value is not None for value in wanted) else "nothing says what it should have"


def _counters(one: KeptFinding, seen: SeenSubnet) -> str:
    """Counters of the port that the finding names, else of all its ports, read at both samples."""
    now, before = seen.subnet.counters, seen.before
    if now is None:
        return "no source shows counters"
    if before is None or seen.at is None or seen.at <= before.time:
        return "there is no earlier sample of counters"
    ends = [end for end in one.ends if end.number]
    for end in [end for end in ends if seen.port_name(end) in one.observed] or ends:
        port = seen.subnet.port(end)
        first, last = ([sample.count(end, name) for name in JUDGED] for sample in (before, now))
        if port is None or port.peer is None or None in first or None in last:
            return "counters of its port were not read at both samples"
        if before.full.get(end, frozenset()) & now.full.get(end, frozenset()) & frozenset(JUDGED):
            return "a counter stands at its highest value"
        if any(grown(one, other) is None for one, other in zip(first, last, strict=True)):
            return "counters were reset between the samples"
    return ""


def _sensor(one: KeptFinding, seen: SeenSubnet) -> str:
    there = [sensor for sensor in seen.subnet.sensors if sensor.end in one.ends
             and sensor.what == _SENSORS[one.rule] and (sensor.value is not None or sensor.ok is not None)]
    named = [sensor for sensor in there if not sensor.part or sensor.part in one.observed]
    return "" if named else "no source shows it"


def _routes(one: KeptFinding, seen: SeenSubnet) -> str:
    return "" if any(end.guid in seen.subnet.routes for end in one.ends) else "no source shows routes"


def _manager(one: KeptFinding, seen: SeenSubnet) -> str:
    return "no source shows subnet managers" if seen.subnet.managers is None else ""


def _standby(one: KeptFinding, seen: SeenSubnet) -> str:
    found = seen.subnet.managers
    return "" if found is not None and any(
        manager.state is ManagerState.MASTER for manager in found) else "no source shows a master"


def _strange(one: KeptFinding, seen: SeenSubnet) -> str:
    """Over where no manager is at its place any more, or it is said again where managers may be."""
    found = seen.subnet.managers
    if found is None:
        return "no source shows subnet managers"
    guids = {end.guid for end in one.ends}
    at_ports = {port.port_guid for end in one.ends if (port := seen.subnet.port(end)) is not None}
    there = [manager for manager in found if manager.port_guid in guids | at_ports]
    return "" if seen.wanted.managers or not there else "nothing says where managers may run (--manager)"


def _identity(one: KeptFinding, seen: SeenSubnet) -> str:
    return "" if any(end.guid in seen.subnet.devices for end in one.ends) else "its device is not shown"


def _adapter(one: KeptFinding, seen: SeenSubnet) -> str:
    """What only all subnets of a check together show."""
    nodes = {place.node for place in seen.joined.adapters.values()}
    if seen.subnet.partial:
        return _PART
    return "" if nodes & set(one.nodes) else "no adapter of the node is shown"


_HOW: Mapping[FabricRule, Callable[[KeptFinding, SeenSubnet], str]] = {
    FabricRule.MANAGER: _manager, FabricRule.STANDBY: _standby, FabricRule.STRANGE_MANAGER: _strange,
    FabricRule.GUID: _whole, FabricRule.NAME: _whole, FabricRule.IDENTITY: _identity,
    FabricRule.SWITCH: _by_plan, FabricRule.HOST: _by_plan, FabricRule.UPLINKS: _by_plan,
    FabricRule.ADAPTER: _adapter, FabricRule.LINK: _link, FabricRule.STATE: _state,
    FabricRule.SILENT: _silent, FabricRule.CABLE: _cable, FabricRule.WIDTH: _rate, FabricRule.SPEED: _rate,
    FabricRule.ERRORS: _counters, FabricRule.FLAPPING: _counters, FabricRule.DISCARDS: _counters,
    FabricRule.CONGESTION: _counters, FabricRule.TEMPERATURE: _sensor, FabricRule.OPTICS: _sensor,
    FabricRule.FAN: _sensor, FabricRule.SUPPLY: _sensor, FabricRule.ROUTE: _routes,
    FabricRule.BALANCE: _routes, FabricRule.SOURCE: _whole, FabricRule.LOT: _whole,
}
