"""Problems and nodes made by hand, for tests of triage. Times are in hours from one fixed moment."""

from __future__ import annotations

from typing import Any

from healthcheck.model.faultkind import FaultKind, Isolation, Of
from healthcheck.model.outcome import Owner, Repair, Severity
from healthcheck.model.problem import Problem
from healthcheck.store.fabricfindings import FabricTrouble
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.kept import KeptFinding
from healthcheck.triage.past import (
    FleetHistory,
    Isolated,
    NodeHistory,
    OpenCordon,
    Repaired,
    RequalifySnapshot,
)
from healthcheck.triage.policy import (
    BreakerPolicy,
    Climb,
    Flap,
    RepeatPolicy,
    Requalify,
    SharedUnknown,
    TriagePolicy,
)

NOW = 1_800_000_000.0
HOUR = 3600.0


def at(hours: float) -> float:
    """A time, in hours before now where it is negative."""
    return NOW + hours * HOUR


def problem(
    rule: str = "gpu-count", subject: str = "GPU 3", *, began: float = -1, seen: float = -0.1,
    ended: float | None = None, node: str = "n1", status: str = "fail", severity: str = "critical",
    sweeps: int = 5, serial: str | None = None, **more: Any,
) -> Problem:
    """One problem; times in hours from now."""
    told: dict[str, Any] = {"origin": None if status == "fail" else "node", "owner": "operator",
                            "observed": "7", "expected": "8", "reason": "", "remedy": "", "repair": None,
                            "kind": "gpu" if serial else None, **more}
    return Problem(node=node, rule=rule, subject=subject, status=status, severity=severity, began=at(began),
                   seen=at(ended if ended is not None else seen),
                   ended=at(ended) if ended is not None else None, sweeps=sweeps, serial=serial, **told)


def trouble(
    number: int = 1, place: str = "leaf001 port 2 to gpu02 mlx5_0", rule: FabricRule = FabricRule.LINK,
    kind: PlaceKind = PlaceKind.LINK, *, began: float = -1, seen: float = -0.1, missed: float | None = None,
    **more: Any,
) -> FabricTrouble:
    """What a check of a subnet shows; times in hours from now."""
    values: dict[str, Any] = {"plane": "", "severity": Severity.WARNING, "owner": Owner.DATACENTRE,
                              "observed": "7", **more}
    return FabricTrouble(number, KeptFinding(rule, kind, place, **values), at(began), at(seen), 3,
                         at(missed) if missed is not None else None,
                         "no plan of it was given" if missed is not None else "")


CRITICAL = frozenset({Severity.CRITICAL})
KINDS = (
    FaultKind("lost", "", ("gpu-count", "gpu-answers"), isolation=Isolation.EVICT, repair=Repair.REBOOT,
              reserve=True),
    FaultKind("worn", "", ("gpu-worn",), isolation=Isolation.NO_NEW_JOBS, repair=Repair.REPLACE, reserve=True,
              lasting=True),
    FaultKind("driver", "", ("gpu-recovery-action",), isolation=Isolation.NO_NEW_JOBS,
              repair=Repair.RESET_GPU, decides=True),
    FaultKind("error", "", ("kernel-xid",), isolation=Isolation.NO_NEW_JOBS, repair=Repair.RESET_GPU),
    FaultKind("fabric", "", ("nvlink-fabric-manager",), isolation=Isolation.NO_NEW_JOBS,
              repair=Repair.RESTART_SERVICE),
    FaultKind("port", "", ("port-*",), severities=CRITICAL, isolation=Isolation.NO_NEW_JOBS,
              repair=Repair.INSPECT, confirm=2),
    FaultKind("other", "", ("*",), severities=CRITICAL, isolation=Isolation.NO_NEW_JOBS,
              repair=Repair.INSPECT),
    FaultKind("gone", "", (), of=Of.UNREACHED, isolation=Isolation.NO_NEW_JOBS, repair=Repair.INSPECT,
              owner=Owner.DATACENTRE),
    FaultKind("wedged", "", ("*",), of=Of.UNKNOWN, severities=CRITICAL, isolation=Isolation.NO_NEW_JOBS,
              repair=Repair.REBOOT),
    FaultKind("watch", "", ("*",), severities=frozenset({Severity.WARNING})),
)


def policy(**changes: Any) -> TriagePolicy:
    """A policy with round numbers."""
    values: dict[str, Any] = {
        "kinds": KINDS, "climb": Climb(2, 30), "repeat": RepeatPolicy(3, 14, 60, 6), "flap": Flap(3, 24, 12),
        "requalify": Requalify("bringup", 2),
        "ours": SharedUnknown(5, 2), "breaker": BreakerPolicy(8, 50, 1.0, {"rack": 2}, 2, None), "wedged": 3,
        "fresh_hours": 24.0, **changes}
    return TriagePolicy(**values)


def past(node: str = "n1", *problems: Problem, **more: Any) -> NodeHistory:
    """A node in service with these problems."""
    return NodeHistory(node, problems=problems, **more)


def held(hours: float = -2, verdict: int | None = 1, number: int = 1) -> OpenCordon:
    """A cordon of ours; `verdict` None: a person's."""
    return OpenCordon(number, "slurm", "why", at(hours), verdict)


def looks(*hours: float, state: str = "healthy") -> tuple[RequalifySnapshot, ...]:
    """Looks under the profile of requalification."""
    return tuple(RequalifySnapshot(at(hour), state) for hour in hours)


def repaired(hours: float, what: str = "reboot", slot: str = "") -> Repaired:
    return Repaired(at(hours), what, slot)


def fleet(
    *nodes: NodeHistory, healthy: int = 0, isolated: tuple[tuple[str, float], ...] = (), **more: Any,
) -> FleetHistory:
    """These nodes, and so many healthy ones beside."""
    others = tuple(NodeHistory(f"h{number}") for number in range(healthy))
    return FleetHistory(NOW, (*nodes, *others), tuple(Isolated(node, at(hour)) for node, hour in isolated),
                        **more)
