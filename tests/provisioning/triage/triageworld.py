"""A small fleet for tests of triage: what is true of its nodes, a back end that fails as back ends do, and
what a person would know of both.

Nothing here asks the code under test what it thinks: `World` keeps its own log of looks, faults and
operations, in the order in which they were.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Origin,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.store.marks import mark_of
from healthcheck.store.readings import Component, NodeReadings
from inventory.model import Lifecycle, LifecycleState, Node
from provisioning.actions.base import ActionError, Holder, NodeHold
from provisioning.actions.hostfile import HostFile
from tests.testbed.death import Death

HOUR = 3600.0
RACKS = {"n1": "r1", "n2": "r1", "n3": "r1", "n4": "r2", "n5": "r2", "n6": "r2", "n7": "r3", "n8": "r3"}
NODES = tuple(RACKS)
UNREACHED = ""
# The rules of this world: what each is about, and how bad it is.
RULES = {
    "kernel-xid": ("GPU 0", Severity.CRITICAL), "port-state": ("mlx5_0", Severity.CRITICAL),
    "gpu-count": ("GPUs", Severity.CRITICAL), "gpu-row-remap-failed": ("GPU 0", Severity.CRITICAL),
    "fleet-driver": ("driver", Severity.WARNING)}
RESERVED = ("gpu-count", "gpu-row-remap-failed")


class People(Protocol):
    """A back end in which people do things, too."""

    name: str

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]: ...
    def isolate(self, node: str, reason: str) -> None: ...
    def release(self, node: str, shown: str = "") -> None: ...
    def write(self, node: str, reason: str) -> None: ...
    def clear(self, node: str) -> None: ...


class Memory:
    """A scheduler that has one hold a node."""

    name = "memory"

    def __init__(self) -> None:
        self.holds: dict[str, str] = {}

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        return {node: self._held(node) for node in nodes}

    def _held(self, node: str) -> NodeHold:
        reason = self.holds.get(node)
        if reason is None:
            return NodeHold(Holder.NO_ONE)
        mark = mark_of(reason)
        return NodeHold(Holder.OTHERS if mark is None else Holder.US, reason, mark)

    def isolate(self, node: str, reason: str) -> None:
        self.holds[node] = reason

    def release(self, node: str, shown: str = "") -> None:
        del self.holds[node]

    write = isolate

    def clear(self, node: str) -> None:
        """A person resumes it, whoever held it."""
        self.holds.pop(node, None)


class Edited(HostFile):
    """A file of hosts that people edit."""

    def write(self, node: str, reason: str) -> None:
        """A person writes a line in place of all that are there."""
        self.clear(node)
        text = self.path.read_text() if self.path.exists() else ""
        self.path.write_text(f"{text}{node}  # {reason}\n")

    def clear(self, node: str) -> None:
        """A person takes every line of the node out."""
        if self.path.exists():
            kept = [line for line in self.path.read_text().splitlines() if line.split()[0] != node]
            self.path.write_text("".join(f"{line}\n" for line in kept))


@dataclass
class Trouble:
    """From the `after`-th call on: down, denies (did it, said no), lies (said yes, did not), dies."""

    kind: str = ""
    after: int = 0


class Flaky:
    """A back end with troubles, which lets no one touch what is not theirs; `told(act, node, reason)` hears
    of each operation that was done."""

    def __init__(self, inner: People, told: Callable[[str, str, str], None]) -> None:
        self.inner, self.told = inner, told
        self.name = inner.name
        self.trouble = Trouble()
        self.asked: list[tuple[str, str]] = []

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        if self.trouble.kind == "down" and self._now():
            raise ActionError("the controller does not answer")
        return self.inner.held(nodes)

    def isolate(self, node: str, reason: str) -> None:
        """As back ends do; what someone holds is never asked for."""
        assert self.inner.held(
            [node])[node].holder is Holder.NO_ONE, f"{node} is held: {self.inner.held([node])[node]}"
        assert mark_of(reason) is not None
        self._action("isolate", node, reason, lambda: self.inner.isolate(node, reason))

    def release(self, node: str, shown: str = "") -> None:
        """As back ends do; only what we hold is asked for."""
        held = self.inner.held([node])[node]
        assert held.number is not None, f"{node} is not ours: {held}"
        self._action("release", node, held.reason, lambda: self.inner.release(node))

    def _now(self) -> bool:
        self.trouble.after -= 1
        return self.trouble.after < 0

    def _action(self, act: str, node: str, reason: str, action: Callable[[], None]) -> None:
        self.asked.append((act, node))
        kind = self.trouble.kind if self.trouble.kind and self._now() else ""
        if kind == "down":
            raise ActionError("the controller does not answer")
        if kind == "dies-before":
            raise Death
        if kind == "lies":
            return
        action()
        self.told(act, node, reason)
        if kind == "dies-after":
            raise Death
        if kind == "denies":
            raise ActionError("the controller said no")


@dataclass(frozen=True)
class Seen:
    """A look under requalification's profile: its place in order, its time, and failing rules."""

    order: int
    time: float
    against: frozenset[str]


@dataclass
class Machine:
    """One node as it is, and what was seen of it."""

    name: str
    state: LifecycleState = LifecycleState.SERVICE
    reached: bool = True
    truth: dict[str, Status] = field(default_factory=lambda: dict.fromkeys(RULES, Status.PASS))
    boot: int = 1
    board: int = 1
    away: int = 0                                                   # the number of its open RMA
    # by rule, as the newest sweep that judged it said
    seen: dict[str, Status] = field(default_factory=dict)
    # rules that failed, and have not passed since
    failing: set[str] = field(default_factory=set)
    # when a sweep last saw a rule fail, or not measured
    bad: dict[tuple[str, Status], tuple[int, float]] = field(default_factory=dict)
    looks: list[Seen] = field(default_factory=list)
    # the newest boot that was seen, and when it was seen first
    booted: tuple[int, int] = (0, 0)
    taken: int = 0                                                  # when we isolated it last
    mended: int = 0                                                 # when a part came back last
    # when a sweep last saw another thing than the one before
    changed: int = 0
    # when triage last decided on it while nothing of it was away
    told: int = 0
    # its open RMA, if any, when triage last decided on it
    known_away: int = 0
    # the RMA, if any, with which a person gave it back against us
    settled: int | None = None

    @property
    def node(self) -> Node:
        """As the inventory has it."""
        return Node(self.name, lifecycle=Lifecycle(self.state), rack=RACKS[self.name])

    @property
    def serving(self) -> bool:
        """Whether it counts."""
        return self.state is LifecycleState.SERVICE

    def report(self, rules: Collection[str]) -> NodeReport:
        """What a sweep says of it."""
        if not self.reached:
            return NodeReport(self.name, NodeState.UNKNOWN, "connect: refused", (), self.serving, "connect")
        results = tuple(self._result(rule) for rule in sorted(rules))
        return NodeReport(self.name, state_of(results), "", results, self.serving)

    def _result(self, rule: str) -> Result:
        subject, severity = RULES[rule]
        status = self.truth[rule]
        findings = (Finding(7, 0, subject),) if status is Status.FAIL else ()
        unknown = status is Status.UNKNOWN
        return Result(rule, rule.replace("-", ".", 1), status, severity, findings,
                      "it hung" if unknown else "", Origin.NODE if unknown else None)

    def readings(self) -> NodeReadings:
        """Its one GPU, and its boot."""
        board = Component("gpu", "0000:1b:00.0", f"{self.name}-{self.board}", "GPU 0")
        return NodeReadings((board,), (), frozenset({"gpu"}), f"{self.name}-{self.boot}")

    def note(self, order: int, time: float, rules: Collection[str], *, bringup: bool) -> None:
        """What a person who reads this sweep knows from now on."""
        found = {UNREACHED: Status.PASS if self.reached else Status.UNKNOWN}
        if self.reached:
            found |= {rule: self.truth[rule] for rule in rules}
            if self.boot != self.booted[0]:
                self.booted = (self.boot, order)
        against = frozenset(rule for rule, status in found.items() if status is not Status.PASS)
        self.bad |= {(rule, found[rule]): (order, time) for rule in against if serious(rule)}
        self.failing = {
            rule for rule in self.failing | found.keys() if found.get(rule, Status.FAIL) is Status.FAIL or (
                rule in self.failing and found[rule] is not Status.PASS)}
        if any(self.seen.get(rule, Status.PASS) is not status for rule, status in found.items()):
            self.settled, self.changed = None, order
        self.seen |= found
        if bringup and (len(rules) == len(RULES) or not self.reached):
            self.looks.append(Seen(order, time, against))

    def lately(self, now: float, hours: float) -> set[str]:
        """What was seriously wrong with it in the last hours."""
        return {rule for (rule, _), (_, time) in self.bad.items() if now - time <= hours * HOUR}


def serious(rule: str) -> bool:
    """Whether what is wrong with a rule keeps jobs away, or would if it lasted."""
    return rule == UNREACHED or RULES[rule][1] is Severity.CRITICAL


def back_end(kind: str, folder: Path) -> People:
    """One of the two kinds."""
    return Edited(folder / "bad") if kind == "file" else Memory()
