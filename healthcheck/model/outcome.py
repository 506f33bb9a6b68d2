"""What judging says: findings, results, and the state of a node; plain frozen values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass, field
from enum import Enum
from operator import attrgetter

from healthcheck.model.coverage import Coverage


class IdentityEnum(Enum):
    """A word of which there is one object: hashed as that, and not, as an enum's members are, by its name and
    in Python.
    """

    __hash__ = object.__hash__


class Status(IdentityEnum):
    """What one rule says of one node. Not measured is UNKNOWN, left out on purpose is SKIPPED; neither is
    ever PASS.
    """

    PASS = "pass"  # noqa: S105  (a status, not a password)
    FAIL = "fail"
    UNKNOWN = "unknown"
    SKIPPED = "skipped"


class Severity(IdentityEnum):
    """How bad a rule's FAIL is; the rule says so, never the check."""

    INFO = "info"
    WARNING = "warning"
    CRITICAL = "critical"


class Origin(IdentityEnum):
    """Whose fault an UNKNOWN is: this node cannot be measured, or something of ours is missing."""

    NODE = "node"
    MUSTER = "muster"


class NodeState(Enum):
    """A node's state; the order of the members is from worst to best."""

    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"
    DEGRADED = "degraded"
    HEALTHY = "healthy"


class Owner(Enum):
    """Who acts on a FAIL: the job's user, the cluster's operator, the network's or the data centre's people,
    or the vendor.
    """

    USER = "user"
    OPERATOR = "operator"
    NETWORK = "network"
    DATACENTRE = "datacentre"
    VENDOR = "vendor"


class Repair(Enum):
    """What is done about a fault; the order of the members is from least to most."""

    WATCH = "watch"
    RESTART_SERVICE = "restart-service"
    RESET_GPU = "reset-gpu"
    REBOOT = "reboot"
    INSPECT = "inspect"
    REPLACE = "replace"


@dataclass(frozen=True)
class LogEvidence:
    """What a finding was read from in a kernel log, as raw values for programs.

    `emitter` is whose messages they are (`healthcheck.kernellog`), empty where nobody can say; then no node
    is isolated for them. `ends` says how what they report ends, as rules files write it: boot, reset, repair,
    quiet 24h. `first` and `last` are the seconds since boot of the first and the last of `count` reports,
    None where the log gives no times. `records` are the numbers of those records without which it would not
    be found again, the most telling first.
    """

    emitter: str
    ends: str = ""
    count: int = 1
    first: float | None = None
    last: float | None = None
    records: tuple[int, ...] = field(default=(), compare=False)

    @property
    def newest(self) -> int | None:
        """The number of the newest of the records; None where the log gives no numbers."""
        return max(self.records, default=None)


@dataclass(frozen=True)
class LogView:
    """Of a node's kernel log, what a sweep saw and judged: the boot (empty where it was not read), the number
    of the first record that the kernel held, and those of earlier ones that were judged in front of them.

    At `now` seconds since boot no record was lost since `since` seconds. `resets` are those that the log
    proves: the GPU's PCI address without its function (empty: all of them), and the number of the record.
    `whole`: nothing that the kernel held went unread.
    """

    boot: str
    first: int
    carried: frozenset[int] = frozenset()
    since: float = 0.0
    now: float = 0.0
    resets: tuple[tuple[str, int], ...] = ()
    whole: bool = True

    def covers(self, sequence: int) -> bool:
        """Whether the record of this number was among those that were judged."""
        return sequence >= self.first or sequence in self.carried


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong: what was seen, what should have been seen, and on what; a check that judges
    one subject leaves its name out.

    `remedy` and `owner` are set where this one thing wants another remedy, or another person, than its rule
    says. `repair` is what the driver itself asks for, or what the table of its errors says of this one: it
    goes before what a policy says of the rule. `lines` are those of a log that it was read from: all of one
    event, and where several were folded the first 20 that differ. `log` says whose they are.
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
        """Whose messages it was read from; empty where nobody can say, None where it was read from no log."""
        return self.log.emitter if self.log is not None else "" if self.lines else None


@dataclass(frozen=True)
class Note:
    """What a check did not accuse, and yet wants said beside its result, whatever that is."""

    text: str


@dataclass(frozen=True)
class Result:
    """What one rule says of one node. `reason` says why UNKNOWN or SKIPPED, and beside FAIL or PASS what was
    not judged.

    `remedy` and `owner` are the rule's, and there for a FAIL only.
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


@dataclass(frozen=True)
class NodeReport:
    """All that one sweep says of one node, results in the order of their rule ids. `probes` is None where it
    was not reached.

    `sku` is the one that the node is to be, or None where nobody named one and it was judged by what most
    show, if by anything. `log` is None where no rule read the kernel's log, or it could not be read.
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


def state_of(results: Iterable[Result]) -> NodeState:
    """The state that results give: a critical FAIL, then a warning or critical UNKNOWN, then a warning FAIL,
    then healthy.

    INFO never changes the state. Where nothing at all passed or failed, nothing was measured, and that is
    unknown.
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
    """The UNKNOWN results that make its state so."""
    return tuple(r for r in report.results if r.status is Status.UNKNOWN and r.severity is not Severity.INFO)


def exit_code(reports: Iterable[NodeReport], allowed: Callable[[Result], bool] = lambda _: False) -> int:
    """0 fine, 1 a warning or critical FAIL on a node in service, 3 nothing failed but something is unknown
    (DESIGN section 8).

    An UNKNOWN that is allowed does not count. A node of which nothing passed or failed counts all the same.
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
