"""A site of made-up nodes whose head can be killed at any point; real store, leases, cordons."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from healthcheck.store.file import Store
from healthcheck.store.marks import mark_of
from healthcheck.triage.remediation import Remediation, RemediationStep
from inventory.model import Node
from provisioning.actions.base import Holder, NodeHold, RebootState
from provisioning.actions.cordon import CordonResult
from provisioning.lease import take
from provisioning.lease.check import manager
from provisioning.lease.idle import IdleReport
from provisioning.remediate import execute, resume
from provisioning.remediate.choose import PlannedStep
from provisioning.remediate.execute import RemediationContext
from provisioning.remediate.send import StepReport
from provisioning.remediate.verify import NodeHealth, VerifyContext
from tests.packagedrules import RULES
from tests.provisioning.triage.triageworld import Death, Memory

RULE = "docker-answers"
BOOT = "00000000-0000-4000-8000-00000000000"


class Idling(Memory):
    """A scheduler that knows that no job runs, but where one does."""

    def __init__(self, point: Callable[[], None]) -> None:
        super().__init__()
        self.point = point
        self.busy: set[str] = set()

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        return {node: replace(one, busy=node in self.busy) for node, one in super().held(nodes).items()}

    def isolate(self, node: str, reason: str) -> None:
        self.point()
        assert super().held([node])[node].holder is Holder.NO_ONE
        super().isolate(node, reason)
        self.point()

    def release(self, node: str, shown: str = "") -> None:
        self.point()
        super().release(node, shown)
        self.point()


class Restarting(Idling):
    """A scheduler that restarts nodes itself, and tells since when each is up."""

    def __init__(self, point: Callable[[], None], machines: Mapping[str, Machine]) -> None:
        super().__init__(point)
        self.machines = machines

    def reboot(self, nodes: Collection[str], reason: str) -> None:
        for name in nodes:
            assert mark_of(self.holds[name]) is not None
            one = self.machines[name]
            one.boots, one.reached = one.boots + 1, one.comes_back
            one.wrong.discard(RULE)

    def boots(self, nodes: Collection[str]) -> Mapping[str, RebootState]:
        return {name: RebootState(1000.0 * self.machines[name].boots) for name in nodes}


@dataclass
class Machine:
    """A node: what is wrong with it, what a step does to it, and which lines' steps it has taken."""

    wrong: set[str] = field(default_factory=lambda: {RULE})
    helps: bool = True
    breaks: str = ""
    comes_back: bool = True
    reached: bool = True
    process: str = ""
    boots: int = 1
    took: list[str] = field(default_factory=list)


class World:
    """The nodes and their scheduler. `die_at` is the number of the point at which the head is killed."""

    def __init__(self, folder: Path, names: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.machines = {name: Machine() for name in names}
        self.nodes = {name: Node(name, user="root") for name in names}
        self.backend = Idling(self.point)
        self.points, self.die_at, self.dead = 0, 0, False
        self.message: list[str] = []
        writing = Store.writing

        @contextmanager
        def mortal(store: Store) -> Iterator[Any]:
            self.point()
            with writing(store) as db:
                yield db
            self.point()

        monkeypatch.setattr(Store, "writing", mortal)
        monkeypatch.setattr(take, "me", lambda: json.dumps({"boot": _boot(), "pid": _gone(), "start": 1}))
        monkeypatch.setattr(execute, "idle", self.idle)
        monkeypatch.setattr(execute, "look", self.look)
        for module in (execute, resume):
            monkeypatch.setattr(module, "send", self.send)
            monkeypatch.setattr(
                module, "await_", lambda site, nodes, is_settled, seconds: self.look(site, nodes))

    def point(self) -> None:
        """Something that may be the last thing that the head does: after it nothing else is."""
        self.points += 1
        if self.dead or self.points == self.die_at:
            self.dead = True
            raise Death

    def idle(self, nodes: Sequence[Node], *_: object) -> IdleReport:
        """As NVML tells."""
        return IdleReport(
            {node.name: why for node in nodes if (why := self.machines[node.name].process)}, frozenset())

    def look(self, site: VerifyContext, nodes: Sequence[Node]) -> dict[str, NodeHealth]:
        """As a sweep tells."""
        return {node.name: self._seen(node.name) for node in nodes}

    def _seen(self, name: str) -> NodeHealth:
        one = self.machines[name]
        rules = {RULE, "gpu-count"}
        if not one.reached:
            return NodeHealth(name, False, message="refused")
        return NodeHealth(
            name, True, f"{BOOT}{one.boots}", frozenset(one.wrong), frozenset(rules - one.wrong))

    def send(
        self, nodes: Mapping[str, Node], step: RemediationStep | None, *_: object,
    ) -> Iterator[StepReport]:
        """As the program on the nodes does it."""
        self.point()
        for line, node in nodes.items():
            one = self.machines[node.name]
            if not one.reached:
                yield StepReport(node.name, None, False, "connect: refused")
                continue
            if step is None:
                yield (StepReport(node.name, True, True, "it was restarted") if line in one.took
                       else StepReport(node.name, False, False, "it never began here"))
                continue
            assert line not in one.took
            one.took.append(line)
            if one.helps:
                one.wrong.discard(RULE)
            if one.breaks:
                one.wrong.add(one.breaks)
            one.reached = one.comes_back
            yield StepReport(node.name, True, True, "it was restarted")
            self.point()

    def context(self, store: Store) -> RemediationContext:
        """With what the head works."""
        site = VerifyContext(RULES, None, self.folder, 4)  # type: ignore[arg-type]
        return RemediationContext(
            store, self.backend, manager(None, self.backend, "a test"), site, Remediation(), "a test",
            lambda: 1000.0 + self.points, self.nodes, self._told)

    def _told(self, one: CordonResult) -> None:
        self.message.append(f"{one.node}: {one.message}")

    def works(
        self, *names: str, step: RemediationStep = RemediationStep.RESTART_DOCKER, domain: str = "rack r1",
    ) -> list[PlannedStep]:
        """The step for these nodes."""
        return [PlannedStep(name, step, "containers", (RULE,), "docker-answers: no", domain)
                for name in names or self.machines]


def _boot() -> str:
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def _gone() -> int:
    """The number of a process that is no more."""
    done = subprocess.Popen(["/bin/true"])
    done.wait()
    return done.pid
