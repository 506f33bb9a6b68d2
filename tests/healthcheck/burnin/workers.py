"""Nodes for tests of what runs on them: the real program in local processes, and a key server."""

from __future__ import annotations

import json
import queue
import secrets
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from healthcheck.burnin.model import BurnInStage, Seat, Task, TaskKind, TaskResult
from healthcheck.burnin.params import completed
from healthcheck.burnin.program import build
from healthcheck.burnin.watch import Patience
from healthcheck.burnin.wire import TOKEN
from inventory.model import BurnInSettings, Node
from inventory.transport.local import LocalTransport
from provisioning.burnin.conductor import Conductor
from provisioning.burnin.keyserver import AgentGone, AgentMessage, KeyServer
from tests.testbed import badgpu, torches


class FaultyGpus:
    """A burn-in under way, and the plan of its GPUs' faults."""

    def __init__(self, conductor: Conductor, plan: Path) -> None:
        self.conductor, self.plan, self.count = conductor, plan, 0

    def result(self, rows: Sequence[Mapping[str, Any]], seats: tuple[Seat, ...], params: dict[str, Any],
               kind: TaskKind = TaskKind.ALLREDUCE, seconds: float = 100) -> TaskResult:
        """What comes of a task of these ranks, in which GPUs have the faults of `rows`."""
        self.plan.write_text(json.dumps(rows))
        self.count += 1
        (result,) = self.conductor.run([Task(f"t{self.count}", BurnInStage.ALL, kind, seats,
                                             seconds, params)])
        return result


@contextmanager
def under_way(folder: Path, nodes: int = 2, patience: Patience = Patience(join=60, stall=60),  # noqa: B008
              ready_s: float = 100) -> Iterator[tuple[Conductor, Path]]:
    """A burn-in of nodes on this machine, and the file of the plan."""
    plan = folder / "plan.json"
    python = (*torches.forked(), badgpu.__file__, str(plan))
    there = [Node(f"n{number}", python=sys.executable, burnin=BurnInSettings(python))
             for number in range(nodes)]
    with Conductor(LocalTransport(), there, patience=patience) as conductor:
        crew = conductor.ready(ready_s)
        assert crew.whole, crew.missing
        yield conductor, plan


class RankPart:
    """What a rank is to its work; `then` is told the phases."""

    def __init__(self, kind: str, params: Mapping[str, int | float | str], world: int = 1) -> None:
        self.params = completed(kind, dict(params), gpu=False)
        self.number, self.world, self.iteration = 0, world, -1
        self.figures: dict[str, float] = {}
        self.facts: dict[str, str] = {}
        self.wrong = 0
        self.then: Callable[[str], None] = lambda phase: None

    def pause(self, seconds: float) -> None:
        pass

    def at(self, phase: str, iteration: int | None = None) -> None:
        self.iteration = self.iteration if iteration is None else iteration
        self.then(phase)

    def found_wrong(self, iteration: int, count: int, owners: list[int], own_input: bool) -> None:
        self.wrong += count


@dataclass
class Came:
    """What came of one task, by rank."""

    reports: dict[int, dict[str, Any]] = field(default_factory=dict)
    ended: dict[int, dict[str, Any]] = field(default_factory=dict)
    rows: list[dict[str, Any]] = field(default_factory=list)    # of progress, as they came
    joined: set[int] = field(default_factory=set)


class Nodes:
    """So many agents, each with its nursery, from __enter__ to __exit__."""

    def __init__(self, names: Sequence[str], python: Sequence[str], agent: str = sys.executable) -> None:
        self.agent = agent
        self.names = names
        self.token, self.run = secrets.token_hex(32), "run-" + secrets.token_hex(4)
        self.python = python
        self.server = KeyServer(self.token, self.run, names, host="127.0.0.1")
        self.agents: dict[str, subprocess.Popen[bytes]] = {}
        self.here: dict[str, dict[str, Any]] = {}
        self.gone: list[str] = []
        self.count = 0
        self.serving = True

    def __enter__(self) -> Nodes:
        self.server.__enter__()
        program = build(run=self.run, secret=self.token, nodes=self.names, hosts=["127.0.0.1"],
                        port=self.server.port, python=self.python)
        for name in self.names:
            self.agents[name] = subprocess.Popen(
                [self.agent, "-I", "-S", "-c", program.loader, program.nonce, f"node={name}"],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            pipe = self.agents[name].stdin
            assert pipe is not None
            token = program.of(name).extras[TOKEN]
            pipe.write(program.payload + b"%d\n%b" % (len(token), token))
            pipe.flush()
        while len(self.here) < len(self.names):
            node, message = self.next(100)
            if "here" in message:
                self.here[node] = message["here"]
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        for agent in self.agents.values():
            if agent.stdin is not None:
                agent.stdin.close()
        for agent in self.agents.values():
            agent.wait(20)
            if agent.stdout is not None:
                agent.stdout.close()
        self.hang_up()

    def hang_up(self) -> None:
        """The head goes away."""
        if self.serving:
            self.serving = False
            self.server.__exit__(None, None, None)

    def next(self, seconds: float) -> tuple[str, dict[str, Any]]:
        end = time.monotonic() + seconds
        while True:
            event = self.server.events.get(timeout=max(0.01, end - time.monotonic()))
            if isinstance(event, AgentMessage):
                self.server.taken(event)
                return event.node, event.message
            if isinstance(event, AgentGone):
                self.gone.append(event.node)
                return event.node, {}

    def begin(self, kind: str, seats: Sequence[tuple[str, int]], *, seconds: float = 60,
              environment: Mapping[str, str] | None = None, **params: Any) -> str:
        """Has the agents start a task's ranks; its id."""
        self.count += 1
        task = f"task-{self.count}"
        self.server.open(task)
        for node in dict.fromkeys(node for node, _ in seats):
            self.server.send(
                node,
                {"task": {"id": task, "kind": kind, "stage": "node", "seconds": seconds, "overtime": 20,
                          "params": params, "environment": dict(environment or {}), "world": len(seats),
                          "seats": [[rank, gpu] for rank, (name, gpu) in enumerate(seats) if name == node]}})
        return task

    def follow(self, task: str, world: int, *, seconds: float = 60, go: bool = True,
               until: Any = None) -> Came:
        """What comes of a task until all its ranks have ended, or `until` is true of what came."""
        came = Came()
        end = time.monotonic() + seconds
        while len(came.ended) < world and not (until is not None and until(came)):
            try:
                _, message = self.next(end - time.monotonic())
            except queue.Empty:
                raise AssertionError(f"{task} has not ended: {came}") from None
            for name, said in message.items():
                if name == "ranks":
                    came.rows += [row for row in said if row["task"] == task]
                elif name in ("joined", "report", "ended") and said["task"] == task:
                    if name == "joined":
                        came.joined.add(said["rank"])
                        if go and len(came.joined) == world:
                            self.tell_all({"go": task})
                    else:
                        (came.reports if name == "report" else came.ended)[
                            said["rank"]] = said["report"] if name == "report" else said
        if until is None:
            self.server.close(task)
        return came

    def tell_all(self, message: dict[str, Any]) -> None:
        for name in self.names:
            self.server.send(name, message)

    def task(self, kind: str, seats: Sequence[tuple[str, int]], **given: Any) -> Came:
        """A whole task, from its beginning to its end."""
        return self.follow(self.begin(kind, seats, **given), len(seats))
