"""A site's own command as back end: it reads one JSON request from standard input and writes one JSON reply.

    {"schema": "muster.action/1", "action": "held", "nodes": ["gpu007", "gpu008"],
     "reason": "", "number": null}
    {"schema": "muster.action/1", "nodes": {
        "gpu007": {"holder": "us", "reason": "muster#12: fan", "busy": false},
        "gpu008": {"holder": "nobody"}}}

    {"schema": "muster.action/1", "action": "isolate", "nodes": ["gpu008"],
     "reason": "muster#13: slow link", "number": 13}
    {"schema": "muster.action/1", "done": true}

    {"schema": "muster.action/1", "action": "release", "nodes": ["gpu007"],
     "reason": "muster#12: fan", "number": 12}

The actions are held, isolate, release and reboot. A release carries the reason that was shown just before: a
command that can compare it and change in one step does so, and answers {"done": false} if the reason differs
by then. A holder is "nobody", us, others or absent; the reason of a node that we hold begins with our mark. A
node without a holder is an error, never free. A command that reboots nodes also reports when each was
`booted`, in seconds since 1970, and whether it is `rebooting`. `{"done": false, "reason": "..."}` says why
not.

Where the inventory has `list: [PROGRAM, ...]` beside `command:`, that program is asked with the action list
and no nodes, for every node that shows a mark of ours. Its reply is as that of held.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any

from healthcheck.store.marks import mark_of
from inventory.text import clean, short
from provisioning.actions.base import REASON_LENGTH, ActionError, Holder, NodeHold, RebootState, number_of

SCHEMA = "muster.action/1"
MAX_OUTPUT = 16 * 1024 * 1024       # a hundred thousand nodes
_MAX_ERRORS = 64 * 1024
_CHUNK = 64 * 1024
_HOLDERS = {holder.value: holder for holder in Holder}


class CommandBackend:
    """Runs the program `argv`; each call has `seconds` to answer."""

    name = "command"

    def __init__(self, argv: Sequence[str], seconds: float = 30.0) -> None:
        self.argv = tuple(argv)
        self.seconds = seconds

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        """Who holds each node, as the command says."""
        reply = self._nodes(nodes)
        return {node: self._held(node, reply[node]) for node in nodes}

    def now(self, node: str) -> NodeHold:
        """Who holds it, as the command says."""
        return self.held([node])[node]

    def isolate(self, node: str, reason: str) -> None:
        """Has the command do it."""
        self._do("isolate", [node], reason)

    def release(self, node: str, shown: str = "") -> None:
        """Has the command do it, and passes what the node showed just before."""
        self._do("release", [node], shown)

    def rewrite(self, node: str, shown: str, reason: str) -> None:
        """Has the command isolate it once more, with other words."""
        self._do("isolate", [node], reason)

    def reboot(self, nodes: Collection[str], reason: str) -> None:
        """Has the command ask for it."""
        self._do("reboot", sorted(nodes), reason)

    def boots(self, nodes: Collection[str]) -> Mapping[str, RebootState]:
        """How far each reboot is, where the command reports it."""
        boots = {}
        for node, reply in self._nodes(nodes).items():
            booted, rebooting = reply.get("booted"), reply.get("rebooting", False)
            if booted is not None and not (type(booted) in (int, float) and 0 < booted < 1e11):
                raise self._wrong(
                    f"booted of {node} is {short(booted)}, expected seconds since 1970, or null")
            if not isinstance(rebooting, bool):
                raise self._wrong(f"rebooting of {node} is {short(rebooting)}, expected true or false")
            boots[node] = RebootState(None if booted is None else float(booted), rebooting)
        return boots

    def _listed(self, argv: Sequence[str]) -> dict[str, NodeHold]:
        """Every node of which this command says that it shows a mark."""
        reply = self._ask("list", [], argv=argv).get("nodes")
        if not isinstance(reply, dict) or not all(isinstance(one, dict) for one in reply.values()):
            raise ActionError(f'{argv[0]}: its reply cannot be used: it has no "nodes", expected {{"nodes": '
                              '{"gpu007": {"holder": "us", "reason": "muster#12: fan"}}}')
        found = {node: self._held(node, one) for node, one in reply.items()}
        return {node: held for node, held in found.items() if held.mark is not None}

    def _nodes(self, nodes: Collection[str]) -> dict[str, Mapping[str, Any]]:
        reply = self._ask("held", list(nodes)).get("nodes")
        if not isinstance(reply, dict):
            raise self._wrong('it has no "nodes", expected {"nodes": {"gpu007": {"holder": "nobody"}}}')
        for node in nodes:
            if not isinstance(reply.get(node), dict):
                raise self._wrong(
                    f'it does not mention {node}, expected {{"holder": "nobody"}}, us, others or absent')
        return {node: reply[node] for node in nodes}

    def _held(self, node: str, reply: Mapping[str, Any]) -> NodeHold:
        word, reason, busy = reply.get("holder"), reply.get("reason", ""), reply.get("busy")
        holder = _HOLDERS.get(word) if isinstance(word, str) else None
        if holder is None:
            raise self._wrong(f"the holder of {node} is {short(word)}, expected {', '.join(_HOLDERS)}")
        if not isinstance(reason, str):
            raise self._wrong(f"the reason of {node} is {short(reason)}, expected text")
        if not (busy is None or isinstance(busy, bool)):
            raise self._wrong(f"busy of {node} is {short(busy)}, expected true, false or null")
        mark = mark_of(reason) if holder is Holder.US else None
        if holder is Holder.US and mark is None:
            raise self._wrong(f"we hold {node} with the reason {short(reason)}, expected one that begins "
                              "with our mark: muster#12: ...")
        return NodeHold(holder, clean(reason, REASON_LENGTH), mark, busy)

    def _do(self, action: str, nodes: list[str], reason: str = "") -> None:
        answer = self._ask(action, nodes, reason)
        done, why = answer.get("done"), answer.get("reason", "")
        if done is False and isinstance(why, str):
            raise ActionError(
                f"{self.argv[0]}: {action} was not done: {clean(why, REASON_LENGTH) or 'no reason given'}")
        if done is not True:
            raise self._wrong(f'"done" is {short(done)}, expected true, or false with a "reason"')

    def _ask(
        self, action: str, nodes: list[str], reason: str = "", argv: Sequence[str] = (),
    ) -> Mapping[str, Any]:
        question = {
            "schema": SCHEMA, "action": action, "nodes": nodes, "reason": reason, "number": number_of(reason)}
        reply = _run(argv or self.argv, json.dumps(question).encode() + b"\n", self.seconds)
        try:
            answer = json.loads(reply, parse_constant=_refused)
        except (ValueError, RecursionError):
            raise self._wrong(f"{short(reply[:60].decode('utf-8', 'backslashreplace'))} is no JSON document"
                              if reply.strip() else "it is empty, expected one JSON document") from None
        if not isinstance(answer, dict) or answer.get("schema") != SCHEMA:
            raise self._wrong(f'it has no "schema": "{SCHEMA}"')
        return answer

    def _wrong(self, what: str) -> ActionError:
        return ActionError(f"{self.argv[0]}: its reply cannot be used: {what}")


class ListingCommand(CommandBackend):
    """One whose site has another command, `lists`, which lists the marks."""

    def __init__(self, argv: Sequence[str], seconds: float, lists: Sequence[str]) -> None:
        super().__init__(argv, seconds)
        self.lists = tuple(lists)

    def marked(self, names: Collection[str]) -> Mapping[str, NodeHold]:
        """All nodes with a mark, as that command says."""
        return self._listed(self.lists)


def _refused(word: str) -> None:
    raise ValueError(word)      # NaN and Infinity are no JSON


def _run(argv: Sequence[str], question: bytes, seconds: float) -> bytes:
    """What the command prints; at the limit its group is killed. Raises ActionError unless it succeeds."""
    try:
        # A session of its own, so that the group can be killed as one.
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 bufsize=0, start_new_session=True)
    except OSError as error:
        raise ActionError(
            f"{argv[0]}: cannot be run: {error.strerror}; see the key cordon of the inventory") from None
    try:
        with child:
            try:
                reply, errors = _talk(child, question, time.monotonic() + seconds)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
    except TimeoutError:
        raise ActionError(
            f"{argv[0]}: did not end within {seconds:g} s; it and its children were killed") from None
    if len(reply) > MAX_OUTPUT:
        raise ActionError(f"{argv[0]}: printed over {MAX_OUTPUT} bytes")
    if child.returncode != 0:
        first = next((line.strip() for line in errors.decode("utf-8", "surrogateescape").split("\n")
                      if line.strip()), "it printed nothing")
        raise ActionError(f"{argv[0]}: failed (exit {child.returncode}): {clean(first, REASON_LENGTH)}")
    return reply


def _talk(child: subprocess.Popen[bytes], question: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Writes the question and reads both outputs, without blocking, until the child has ended."""
    assert child.stdin and child.stdout and child.stderr  # noqa: S101  (narrowing: all three are pipes)
    reply = {"out": bytearray(), "errors": bytearray()}
    left = memoryview(question)
    os.set_blocking(child.stdin.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdin, selectors.EVENT_WRITE, "in")
        ready.register(child.stdout, selectors.EVENT_READ, "out")
        ready.register(child.stderr, selectors.EVENT_READ, "errors")
        open_ = {"out", "errors"}
        while open_ and len(reply["out"]) <= MAX_OUTPUT:
            events = ready.select(max(deadline - time.monotonic(), 0))
            if not events:
                raise TimeoutError
            for key, _ in events:
                if key.data == "in":
                    left = left[_written(key.fd, left):]
                    if not left:
                        ready.unregister(child.stdin)
                        child.stdin.close()
                    continue
                data = os.read(key.fd, _CHUNK)
                if not data:
                    ready.unregister(key.fileobj)
                    open_.discard(key.data)
                elif key.data == "out" or len(reply["errors"]) < _MAX_ERRORS:
                    reply[key.data] += data
    if len(reply["out"]) <= MAX_OUTPUT:
        try:
            child.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
    return bytes(reply["out"]), bytes(reply["errors"])


def _written(descriptor: int, data: memoryview) -> int:
    try:
        return os.write(descriptor, data[:_CHUNK])
    except BlockingIOError:
        return 0
    except BrokenPipeError:     # it needs no more input
        return len(data)
