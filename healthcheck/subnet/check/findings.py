"""Findings on a fabric: what is wrong, or could not be measured, where, and who acts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from healthcheck.model.outcome import Owner, Severity
from healthcheck.subnet.jobroutes import PortJobs
from healthcheck.subnet.model import FabricEnd
from inventory.nodeset import natural

# How a finding on a link's state begins that only a source with unhealthy ports (UFM) shows, or takes back.
UNHEALTHY = "the subnet manager lists it as unhealthy"


class FabricRule(Enum):
    """What is checked, by the name that findings have."""

    MANAGER = "subnet-manager"          # exactly one master
    STANDBY = "subnet-manager-standby"
    STRANGE_MANAGER = "subnet-manager-unexpected"
    GUID = "guid-unique"
    NAME = "description-unique"
    IDENTITY = "identity"               # GUID and description name different nodes
    SWITCH = "switch-missing"
    HOST = "host-missing"
    ADAPTER = "adapter-missing"
    UPLINKS = "uplinks"                 # how many of a leaf's are there
    LINK = "link-down"
    STATE = "link-state"                # neither down nor active
    SILENT = "no-answer"                # up, and the device at its end does not answer
    CABLE = "cable"                     # leads elsewhere than planned
    WIDTH = "link-width"
    SPEED = "link-speed"
    ERRORS = "link-errors"
    FLAPPING = "link-flapping"
    DISCARDS = "discards"
    CONGESTION = "congestion"           # waits far longer to send than its equals
    TEMPERATURE = "temperature"
    OPTICS = "optics-power"
    FAN = "fan"
    SUPPLY = "power-supply"
    ROUTE = "route-missing"
    BALANCE = "routes-unbalanced"
    LOT = "lot"                         # parts that were made together fail far more often than others
    SOURCE = "source"                   # an output that could not be read


class PlaceKind(Enum):
    """What a finding is about."""

    SUBNET = "subnet"
    SWITCH = "switch"
    LEAF = "leaf"
    PORT = "port"
    LINK = "link"
    NODE = "node"
    LOT = "lot"


@dataclass(frozen=True)
class FabricPlace:
    """Where: `name` in words ("leaf01 port 12 to gpu004 mlx5_0"), the ports by their identity, the nodes
    whose adapters are among them and the leaf, where they are known."""

    kind: PlaceKind
    name: str
    ends: tuple[FabricEnd, ...] = ()
    nodes: tuple[str, ...] = ()
    leaf: str | None = None


@dataclass(frozen=True)
class FabricFinding:
    """One thing that is wrong, or with `unknown` not measured (`observed` is the reason). `plane` names the
    subnet; `port` waits (congestion), and `jobs` may pass it: None where unknown or not asked for."""

    rule: FabricRule
    place: FabricPlace
    observed: str
    expected: str = ""
    severity: Severity = Severity.CRITICAL
    owner: Owner = Owner.NETWORK
    plane: str = ""
    unknown: bool = False
    port: FabricEnd | None = None
    jobs: PortJobs | None = None


@dataclass(frozen=True)
class JobHotSpots:
    """A job of several nodes: so many hot ports its pairs of nodes pass by forwarding tables, so many they
    may pass by the topology, and of so many others it is not known, as routes are not. `unplaced` of its
    nodes have no adapter that is known in any subnet."""

    job: str
    nodes: int
    unplaced: int
    routes: int
    may: int
    unknown: int


@dataclass(frozen=True)
class FabricJobs:
    """What jobs have to do with hot ports: `source` says where the jobs are from, `unknown` why they are not
    known. `single` jobs have one node and no one to talk to. In the `unmeasured` subnets hot ports are not
    known at all, of so many `ports` elsewhere it is not known whether they are hot."""

    source: str
    unknown: str = ""
    single: int = 0
    jobs: tuple[JobHotSpots, ...] = ()
    unmeasured: tuple[str, ...] = ()
    measured: bool = True
    ports: int = 0


@dataclass(frozen=True)
class FabricReport:
    """What a check found: findings, gravest first. `subnets` are the counts of each by name: switches,
    adapters, links. `interval` is the seconds between the two samples of counters, None where there is one.
    `jobs` is None where no one asked for them."""

    findings: tuple[FabricFinding, ...]
    subnets: tuple[tuple[str, int, int, int], ...]
    interval: float | None = None
    jobs: FabricJobs | None = None

    @property
    def exit_code(self) -> int:
        """1 with a warning or critical finding, 3 with one that could not be measured, else 0."""
        counting = [one for one in self.findings if one.severity is not Severity.INFO]
        if any(not one.unknown for one in counting):
            return 1
        return 3 if counting else 0


_RANK = {Severity.CRITICAL: 0, Severity.WARNING: 1, Severity.INFO: 2}
_RULES = {rule: at for at, rule in enumerate(FabricRule)}


def in_order(findings: Iterable[FabricFinding]) -> tuple[FabricFinding, ...]:
    """What is wrong before what is unknown, the gravest first, then by rule and place."""
    return tuple(sorted(findings, key=lambda one: (
        one.unknown, _RANK[one.severity], _RULES[one.rule], one.plane, natural(one.place.name))))
