"""Starts an agent on every node, runs tasks on them, several at a time, and reports each result and the
faulty parts.

    with Conductor(transport, nodes) as conductor:
        crew = conductor.ready(120)
        for result in conductor.run(tasks):
            ...

Nodes connect to the head: by default to the address from which sshd there says that they were reached, else
to the head's own addresses. Each node's own token authenticates the connection, which is not encrypted: on
the way measurements can be read and spoilt, but nothing gets executed that the head did not send.
"""

from __future__ import annotations

import contextlib
import ipaddress
import queue
import re
import secrets
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType, TracebackType

from healthcheck.burnin import messages
from healthcheck.burnin.model import Task, TaskResult
from healthcheck.burnin.program import build
from healthcheck.burnin.taskrun import TaskRun
from healthcheck.burnin.watch import Patience
from healthcheck.burnin.wire import NODE_WORD, PYTHON_WORD, SSH_CLIENT
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Failure, Halt, Limits, Reply, Stage, Transport
from provisioning.burnin.keyserver import (
    SILENT_S,
    AgentConnected,
    AgentGone,
    AgentMessage,
    KeyServer,
    TokenOfAnother,
)
from provisioning.burnin.readynodes import ReadyNodes, Roster

_MOST_MISUSED = 20  # remarks
LEAVE_S = 8.0       # for agents to end their ranks and leave
TICK_S = 0.25
CHECK_S = 30e-6
# A head that did not run for so long (stopped and continued, a paused virtual machine) hears what came
# meanwhile before it judges.
HELD_UP_S = 2.0
CATCH_UP_S = 1.5
DAY_S = 86400.0
_NAME = re.compile(r"[A-Za-z0-9._:+-]{1,120}")


@dataclass(frozen=True)
class _Dismissed:
    reply: Reply


class Conductor:
    """The head's side of one burn-in: leaving the context leaves nothing behind on any node. `hosts` are
    addresses at which nodes reach the head, tried first; `listen` and `port` where it listens, by default at
    every address, at a free port. `limits` bound how long a node may take to start its agent; the whole lasts
    at most `seconds`."""

    def __init__(
        self, transport: Transport, nodes: Iterable[Node], *, hosts: Sequence[str] = (), listen: str = "",
        port: int = 0, limits: Limits | None = None, seconds: float = 7 * DAY_S,
        patience: Patience | None = None, silent_s: float = SILENT_S,
        clock: Callable[[], float] = time.monotonic, remark: Callable[[str], None] | None = None,
    ) -> None:
        self._transport = transport
        self._nodes = {node.name: node for node in nodes}
        self._hosts = [*hosts, *addresses(self._nodes.values())]
        self._halt = Halt()
        self._limits = _all_at_once(limits or Limits(), len(self._nodes), seconds, self._halt)
        self._patience = patience or Patience()
        self._clock = clock
        self._remark = remark
        self._misused: set[TokenOfAnother] = set()
        self._secret = secrets.token_hex(32)
        self._run = secrets.token_hex(8)
        self._server = KeyServer(
            self._secret, self._run, self._nodes, host=listen, port=port, silent_s=silent_s, clock=clock)
        self._agents = Roster(self._nodes)
        self._running: dict[str, TaskRun] = {}
        self._thread = threading.Thread(target=self._start, name="muster-agents", daemon=True)

    def __enter__(self) -> Conductor:
        self._server.__enter__()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        try:
            self._take(0.0)
            connected = self._agents.connected
            for node in connected:
                self._server.send(node, {"leave": True})
            end = time.monotonic() + LEAVE_S
            while not self._agents.left_all(connected) and (left := end - time.monotonic()) > 0:
                self._take(left)
        finally:
            # Whoever is not gone by now, or never came, has its line hung up and its lifeline cut.
            self._server.__exit__(None, None, None)
            self._halt.call()
            self._thread.join(LEAVE_S)

    @property
    def port(self) -> int:
        """Where nodes reach the head."""
        return self._server.port

    def ready(self, seconds: float) -> ReadyNodes:
        """Waits until every node's agent is ready or known to have failed, at most `seconds`; who is here,
        and why the others are not."""
        end = time.monotonic() + seconds
        while not self._agents.known and (left := end - time.monotonic()) > 0:
            self._take(left)
        return self._agents.ready_nodes(f"its agent did not connect within {seconds:.3g} s; can the node "
                                        f"reach {' or '.join(self._hosts[:3])}, port {self.port}?")

    def run(
        self, tasks: Iterable[Task], after: Mapping[str, float] = MappingProxyType({}),
    ) -> Iterator[TaskResult]:
        """Runs tasks on disjoint seats at the same time; yields the result of each as soon as it is over.
        Raises ValueError. `after` says of some by their ids how many seconds after the first they begin.
        Ending the iteration early calls off what still runs."""
        chosen = sorted(_checked(tasks, self._nodes), key=lambda task: after.get(task.id, 0.0), reverse=True)
        if self._running:
            raise ValueError("tasks are running already")
        begun = judged = self._clock()
        # To look at a rank costs microseconds: where there are thousands that is done less often than their
        # messages come in.
        tick = min(TICK_S, 0.02 + CHECK_S * sum(len(task.seats) for task in chosen))
        try:
            while self._running or chosen:
                while chosen and self._clock() - begun >= after.get(chosen[-1].id, 0.0):
                    self._hand_out(chosen.pop())
                self._wait(tick)
                if self._clock() - judged > HELD_UP_S:
                    self._wait(CATCH_UP_S)
                judged = self._clock()
                # Of a round that has to be under way at once none begins before all can.
                waiting = bool(chosen) or any(running.waits for running in self._running.values())
                for name, running in list(self._running.items()):
                    hold = waiting and running.task.stage.at_once
                    self._send(running, running.order(self._clock(), hold))
                    if running.over(self._clock()):
                        self._forget(name)
                        yield running.result(self._clock())
        finally:
            self._call_off()

    def _hand_out(self, task: Task) -> None:
        now = self._clock()
        running = self._running[task.id] = TaskRun(task, self._patience, now)
        self._server.open(task.id)
        for node in task.nodes:
            if (why := self._agents.why(node)) is not None:
                running.agent_gone(node, why, now)
        for node, order in running.start_orders().items():
            self._server.send(node, order)

    def _call_off(self) -> None:
        for running in self._running.values():
            self._send(running, running.call_off(self._clock()))
        while self._running:
            self._wait(0.02)
            for name in [name for name, running in self._running.items() if running.over(self._clock())]:
                self._forget(name)

    def _forget(self, name: str) -> None:
        del self._running[name]
        self._server.close(name)

    def _send(self, running: TaskRun, order: str | None) -> None:
        if order is not None:
            for node in running.task.nodes:
                self._server.send(node, {order: running.task.id})

    def _wait(self, seconds: float) -> None:
        """Takes what happens in that time."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._take(left)

    def _take(self, seconds: float) -> None:
        """Takes all that has happened, or waits at most `seconds` for something to happen."""
        with contextlib.suppress(queue.Empty):
            self._note(self._server.events.get(timeout=max(0.0, seconds)))
            for _ in range(self._server.events.qsize()):
                self._note(self._server.events.get_nowait())

    def _note(self, event: object) -> None:
        if isinstance(event, AgentMessage):
            self._server.taken(event)
            if (ready := messages.ready(event.node, event.message)) is not None:
                self._agents.ready(ready)
            for name in messages.tasks(event.message) & self._running.keys():
                self._running[name].message(event.node, event.message, event.at)
        elif isinstance(event, AgentConnected):
            self._agents.connect(event.node)
        elif isinstance(event, AgentGone):
            self._agents.gone(event.node, event.why)
            for running in self._running.values():
                running.agent_gone(event.node, event.why, event.at)
        elif isinstance(event, _Dismissed):
            self._agents.left(event.reply)
        elif isinstance(event, TokenOfAnother) and event not in self._misused:
            self._misused.add(event)
            if self._remark is not None and len(self._misused) <= _MOST_MISUSED:
                self._remark(f"a peer at {event.address} used the token of node {event.owner} under the name "
                             f"{event.claimed} and was refused: what runs on {event.owner} is not to be "
                             "trusted until that is explained")

    def _start(self) -> None:
        """In a thread of its own: the agents, until the last has left."""
        words = {
            name: (NODE_WORD + name, *(PYTHON_WORD + word for word in node.burnin.python or (node.python,)))
                for name, node in self._nodes.items()}
        try:
            built = build(run=self._run, secret=self._secret, nodes=self._nodes, hosts=self._hosts,
                          port=self.port, python=())
            program = replace(built, words=words)
            for reply in self._transport.run(list(self._nodes.values()), program, self._limits):
                self._server.events.put(_Dismissed(reply))
        except Exception as error:  # noqa: BLE001  (such as an unreadable configuration)
            for name in self._nodes:
                self._server.events.put(_Dismissed(_failed(name, error)))


def _all_at_once(limits: Limits, nodes: int, seconds: float, halt: Halt) -> Limits:
    """Roster stay, so no node can wait for another's turn, nor for a second try at the end: all log in at
    once, and each may take as long as its turn would have come."""
    return replace(limits, sweep_s=seconds, node_s=seconds, fanout=max(1, nodes), halt=halt, twice=False,
                   patience=max(1.0, nodes / limits.fanout))


def addresses(nodes: Iterable[Node]) -> list[str]:
    """Where nodes may reach this machine: as sshd on them sees it, by route, by name, and on itself."""
    found = [SSH_CLIENT]
    for node in nodes:
        try:
            family = socket.AF_INET6 if ipaddress.ip_address(
                node.address or "").version == 6 else socket.AF_INET
            with socket.socket(family, socket.SOCK_DGRAM) as sock:
                sock.connect((node.address, 9))     # sends nothing
                own = str(sock.getsockname()[0])
        except (ValueError, OSError):
            continue    # a name: to look it up may take longer than all else
        if own not in found:
            found.append(own)
        if len(found) > 3:
            break
    return [*found, socket.gethostname(), "127.0.0.1"]


def _checked(tasks: Iterable[Task], nodes: Container[str]) -> list[Task]:
    """The tasks, which can be run at the same time. Raises ValueError where they cannot."""
    chosen = list(tasks)
    seats = Counter(seat for task in chosen for seat in task.seats)
    names = Counter(task.id for task in chosen)
    for task in chosen:
        if not _NAME.fullmatch(task.id) or names[task.id] > 1:
            raise ValueError(
                f"task {task.id!r}: expected a name of its own, of letters, digits and ._:+-, at most 120")
        if not task.seats:
            raise ValueError(f"task {task.id} has no seats")
        for seat in task.seats:
            if seats[seat] > 1 or seat.node not in nodes:
                raise ValueError(f"task {task.id}: seat {seat} is "
                                 f"{'taken twice' if seats[seat] > 1 else 'on a node without agent'}")
    return chosen


def _failed(name: str, error: Exception) -> Reply:
    now = time.time()
    return Reply(
        name, None, Failure(Stage.CONNECT, clean(f"{type(error).__name__}: {error}")), now, now, attempts=0)
