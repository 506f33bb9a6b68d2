"""The results of judging: findings, results and node states, as plain frozen values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter

from healthcheck.model.agentmetric import AgentEvidence
from healthcheck.model.coverage import Coverage
from inventory.transport.base import NOT_ITS_FAULT

_NOT_ITS_FAULT = frozenset(stage.value for stage in NOT_ITS_FAULT)


class IdentityEnum(Enum):
    """An enum hashed by identity: an Enum's own hash is of its member's name, in Python, and slower."""

    __hash__ = object.__hash__


class Status(IdentityEnum):
    """One rule's outcome on one node. Not measured is UNKNOWN, left out is SKIPPED; neither is ever PASS."""

    PASS = "pass"  # noqa: S105  (a status, not a password)
    FAIL = "fail"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class Severity(IdentityEnum):
    """How bad a rule's FAIL is; the rule sets it, never the check."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Origin(IdentityEnum):
    """Whose fault an UNKNOWN is: the node cannot be measured, or something of ours is missing."""

    NODE = "node"
    MUSTER = "muster"


class NodeState(Enum):
    """A node's state; members are ordered from worst to best."""

    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"
    DEGRADED = "degraded"
    HEALTHY = "healthy"


class Owner(Enum):
    """Who acts on a FAIL: the job's user, the operator, the network or data-centre team, or the vendor."""

    USER = "user"
    OPERATOR = "operator"
    NETWORK = "network"
    DATACENTRE = "datacentre"
    VENDOR = "vendor"


class Repair(Enum):
    """What is done about a fault; members are ordered from least to most."""

    WATCH = "watch"
    RESTART_SERVICE = "restart-service"
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"
    INSPECT = "inspect"
    REPLACE = "replace"


@dataclass(frozen=True)
class LogEvidence:
    """What in a kernel log a finding is based on, as raw values for programs.

    `emitter` is who wrote the messages (`healthcheck.kernellog`), empty where that is unknown; then no node
    is isolated for them. `ends` says how the fault ends, as in rules files: boot, reset, repair, quiet 24h.
    `first` and `last` are the seconds since boot of the first and last of `count` reports, None where the log
    gives no times. `records` are the numbers of the records needed to find it again, the most significant
    first.
    """

    emitter: str
    ends: str = ""
    count: int = 1
    first: float | None = None
    last: float | None = None
    records: tuple[int, ...] = field(default=(), compare=False)

    @property
    def newest(self) -> int | None:
        """The number of the newest record; None where the log gives no numbers."""
        return max(self.records, default=None)


@dataclass(frozen=True)
class LogView:
    """What a sweep saw and judged of a node's kernel log: the boot (empty where it was not read), the number
    of the first record that the kernel held, and those of earlier, carried records that were judged before
    it.

    At `now` seconds since boot no record was lost since `since` seconds. `resets` are the resets that the log
    proves: the GPU's PCI address without its function (empty: all GPUs), and the record's number. `whole`:
    everything that the kernel held was read.
    """

    boot: str
    first: int
    carried: frozenset[int] = frozenset()
    since: float = 0.0
    now: float = 0.0
    resets: tuple[tuple[str, int], ...] = ()
    whole: bool = True

    def covers(self, sequence: int) -> bool:
        """Whether the record of this number was judged."""
        return sequence >= self.first or sequence in self.carried


@dataclass(frozen=True)
class Finding:
    """One fault: what was observed, what was expected, and on what subject; a check of one subject at a time
    leaves its name out.

    `remedy` and `owner` are set where they differ from the rule's. `repair` is what the driver itself or the
    table of its errors asks for; it precedes a policy's. `lines` are the log lines that it was read from: all
    of one event, or the first 20 different ones of several. `log` says who wrote them.
    """

    observed: object
    expected: object
    subject: str = ""
    remedy: str = ""
    owner: Owner | None = None
    repair: Repair | None = None
    lines: tuple[str, ...] = ()
    log: LogEvidence | None = None

    @property
    def emitter(self) -> str | None:
        """Who wrote the messages it was read from; empty if unknown, None if it was read from no log."""
        return self.log.emitter if self.log is not None else "" if self.lines else None


@dataclass(frozen=True)
class Note:
    """What a check reports beside its result without accusing anything."""

    text: str


@dataclass(frozen=True)
class Unjudged:
    """One part of what a rule could not judge, in words. `asked` are the subjects that did not answer, where
    that is why. A `note` is no reason for UNKNOWN, and stands beside what was judged.

    `cause` is the one of them that another rule, `rule`, found not to answer; both are empty where none did.
    """

    text: str
    asked: tuple[str, ...] = ()
    note: bool = False
    cause: str = ""
    rule: str = ""


@dataclass(frozen=True)
class Result:
    """One rule's result on one node. `reason` says why UNKNOWN or SKIPPED, and beside FAIL or PASS what was
    not judged.

    `remedy` and `owner` are the rule's, and set for a FAIL only. `unjudged` are the parts of the reason where
    one of them has a cause that is another rule's finding (`healthcheck.model.cause`); else it is empty.
    """

    rule: str
    check: str
    status: Status
    severity: Severity
    findings: tuple[Finding, ...] = ()
    reason: str = ""
    origin: Origin | None = None
    remedy: str = ""
    owner: Owner | None = None
    unjudged: tuple[Unjudged, ...] = ()


@dataclass(frozen=True)
class NodeReport:
    """Everything one sweep found on one node, results in the order of their rule ids. `probes` is None where
    it was not reached.

    `sku` is None where no one named one, so that it was judged by what most nodes show, if at all.
    `sku_basis` says on what it rests where no one named the SKU and the node was taken for a machine without
    GPUs; of a node without SKU that shows no GPUs, why it was not taken for one. `log` is
    None where no rule read the kernel log, or it could not be read. `agent` is the evidence by which the
    sweep left the node out: then it was not looked at, is healthy by its agent alone, and has no results.
    """

    node: str
    state: NodeState
    reason: str
    results: tuple[Result, ...]
    in_service: bool = True
    stage: str | None = None
    probes: Coverage | None = None
    sku: str | None = None
    log: LogView | None = None
    agent: AgentEvidence | None = None
    sku_basis: str = ""


def state_of(results: Iterable[Result]) -> NodeState:
    """The state that results give: a critical FAIL, then a warning or critical UNKNOWN, then a warning FAIL,
    then healthy.

    INFO never changes the state. Where nothing passed or failed, nothing was measured: unknown.
    """
    return state_by(set(map(OUTCOME, results)))


OUTCOME: Callable[[Result], tuple[Status, Severity]] = attrgetter("status", "severity")


def state_by(seen: Set[tuple[Status, Severity]]) -> NodeState:
    """The state that results of these statuses and severities give."""
    if (Status.FAIL, Severity.CRITICAL) in seen:
        return NodeState.UNHEALTHY
    if {(Status.UNKNOWN, Severity.CRITICAL), (Status.UNKNOWN, Severity.WARNING)} & seen:
        return NodeState.UNKNOWN
    if (Status.FAIL, Severity.WARNING) in seen:
        return NodeState.DEGRADED
    if not any(status in (Status.PASS, Status.FAIL) for status, _ in seen):
        return NodeState.UNKNOWN
    return NodeState.HEALTHY


def unknowns(report: NodeReport) -> tuple[Result, ...]:
    """The UNKNOWN results that decide its state."""
    return tuple(r for r in report.results if r.status is Status.UNKNOWN and r.severity is not Severity.INFO)


def not_its_fault(stage: str | None) -> bool:
    """Whether nothing was learned of a node at this stage, and that is not the node's doing."""
    return stage in _NOT_ITS_FAULT


def origin_of(report: NodeReport) -> Origin | None:
    """Whose doing an unknown state is: muster's where nothing was learned for a reason that is not the
    node's, such as a dead jump host, or where all that decides it is muster's. None for another state."""
    if report.state is not NodeState.UNKNOWN:
        return None
    if report.stage is not None:
        return Origin.MUSTER if not_its_fault(report.stage) else Origin.NODE
    if not report.results:      # we were interrupted, could not judge it, or took it for another
        return Origin.MUSTER
    return (Origin.MUSTER if {result.origin for result in unknowns(report)} == {Origin.MUSTER}
            else Origin.NODE)


def exit_code(reports: Iterable[NodeReport], allowed: Callable[[Result], bool] = lambda _: False) -> int:
    """0 fine, 1 a warning or critical FAIL on a node in service, 3 nothing failed but something is unknown
    (healthcheck/help/results.md, Exit codes).

    An allowed UNKNOWN does not count, but a node where nothing passed or failed always counts.
    """
    code = 0
    for report in reports:
        if not report.in_service:
            continue
        if any(r.status is Status.FAIL and r.severity is not Severity.INFO for r in report.results):
            return 1
        measured = any(r.status in (Status.PASS, Status.FAIL) for r in report.results)
        if report.state is NodeState.UNKNOWN and not (measured and all(map(allowed, unknowns(report)))):
            code = 3
    return code
