"""A transport whose nodes are threads that speak the wire as a test tells them to: what an agent may say, and
no agent."""

from __future__ import annotations

import contextlib
import json
import queue
import threading
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from healthcheck.burnin.wire import AGENT, TOKEN, HeadConnection, connected, greeted
from inventory.model import Node
from inventory.transport.base import Failure, Limits, Program, Reply

HERE = {"here": {"python": "3.11.7", "host": "h", "gpus": 2, "torch": "2.13.0", "facts": {}}}


def read(program: Program) -> dict[str, Any]:
    """The document in a program's payload."""
    _, _, packed = program.payload.partition(b"\n")
    document: dict[str, Any] = json.loads(zlib.decompress(packed).partition(b"\0")[2])
    return document


class Agent:
    """One node's line to the head. `ranks` are those it was told to start, by task."""

    def __init__(self, name: str, link: HeadConnection) -> None:
        self.name, self.link = name, link
        self.told: list[dict[str, Any]] = []
        self.ranks: dict[str, list[int]] = {}

    def say(self, **message: Any) -> None:
        self.link.send(message)

    def hear(self, seconds: float = 30) -> dict[str, Any]:
        """The next order."""
        message = self.link.receive(seconds)
        self.told.append(message)
        if "task" in message:
            self.ranks[message["task"]["id"]] = [rank for rank, _ in message["task"]["seats"]]
        return message

    def arrive(self) -> None:
        """Says that it is here, and hears what it is to do."""
        self.say(**HERE)
        self.hear()

    def begin(self, task: str) -> None:
        """Arrives, and joins the task that it is told of, until the go for it."""
        self.arrive()
        self.join(task)
        self.hear()

    def leave(self, task: str) -> None:
        """Has done the task, and hears what comes next."""
        self.finish(task)
        self.hear()

    def join(self, task: str) -> None:
        for rank in self.ranks[task]:
            self.say(joined={"task": task, "rank": rank})

    def finish(self, task: str, **report: Any) -> None:
        for rank in self.ranks[task]:
            self.say(report={"task": task, "rank": rank, "report": {"end": "done", **report}})
            self.say(ended={"task": task, "rank": rank, "code": 0, "signal": None})

    def end(self, task: str, signal: int | None = 15) -> None:
        for rank in self.ranks[task]:
            self.say(ended={"task": task, "rank": rank, "code": 0, "signal": signal})

    def serve(self) -> None:
        """Does every task at once, until it is told to leave."""
        self.say(**HERE)
        while True:
            message = self.hear()
            if "leave" in message:
                return
            if "task" in message:
                self.join(message["task"]["id"])
            elif "go" in message:
                self.finish(message["go"])
            elif "stop" in message:
                self.end(message["stop"])


Script = Callable[[Agent], None] | Failure


class Scripted:
    """The transport. A node's script ends with its leaving, an error of the connection included; `agents` are
    those that have connected."""

    def __init__(self, scripts: dict[str, Script] | None = None) -> None:
        self.scripts = scripts or {}
        self.agents: dict[str, Agent] = {}
        self.halted = threading.Event()

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        document = read(program)
        document["tokens"] = {node: extras[TOKEN].decode() for node, extras in program.own.items()}
        done: queue.SimpleQueue[Reply | None] = queue.SimpleQueue()

        def halt() -> None:
            self.halted.set()
            done.put(None)

        assert limits.halt is not None
        limits.halt.follow(halt)
        names = [node.name for node in nodes]
        assert {name: program.words[name][0] for name in names} == {name: f"node={name}" for name in names}
        for name in names:
            threading.Thread(target=self._visit, args=(name, document, done.put), daemon=True).start()
        for _ in names:
            reply = done.get()
            if reply is None:
                return
            yield reply

    def _visit(self, name: str, document: dict[str, Any], put: Callable[[Reply], None]) -> None:
        script = self.scripts.get(name, Agent.serve)
        now = time.time()
        if isinstance(script, Failure):
            put(Reply(name, None, script, now, now))
            return
        sock = connected(["127.0.0.1"], document["port"])
        with sock:
            agent = self.agents[name] = Agent(
                name, greeted(sock, AGENT, name, document["run"], document["tokens"][name]))
            with contextlib.suppress(OSError, EOFError):
                script(agent)
        put(Reply(name, zlib.compress(json.dumps({"left": "the script is over"}).encode()), None, now, now))
