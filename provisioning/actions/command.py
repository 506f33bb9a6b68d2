"""A site's own command: one JSON document on its standard input says what to do, one on its standard output what was done or is.

    {"schema": "muster.action/1", "action": "held", "nodes": ["gpu007", "gpu008"], "reason": "", "number": null}
    {"schema": "muster.action/1", "nodes": {"gpu007": {"holder": "us", "reason": "muster#12: fan", "busy": false},
                                            "gpu008": {"holder": "nobody"}}}

    {"schema": "muster.action/1", "action": "isolate", "nodes": ["gpu008"], "reason": "muster#13: slow link", "number": 13}
    {"schema": "muster.action/1", "done": true}

    {"schema": "muster.action/1", "action": "release", "nodes": ["gpu007"], "reason": "muster#12: fan", "number": 12}

Actions are held, isolate, release and reboot. With release comes the reason that was shown just before: a command that can compare it
in one step with the change does so, and says {"done": false} where it is another by then. A holder is nobody, us, others or absent; what
we hold has a reason that begins with its mark. What a command does not say is not known: a node without a holder is an error, never free.
Who has nodes rebooted says beside since when each is `booted`, in seconds since 1970, and whether it is `rebooting`. `{"done": false,
"reason": "..."}` says why not.
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
    """The program `argv`, each time with `seconds` to answer."""

    name = "command"

    def __init__(self, argv: Sequence[str], seconds: float = 30.0) -> None:
        self.argv = tuple(argv)
        self.seconds = seconds

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        """Who holds each node, as the command says."""
        said = self._nodes(nodes)
        return {node: self._held(node, said[node]) for node in nodes}

    def now(self, node: str) -> NodeHold:
        """Who holds it, as the command says."""
        return self.held([node])[node]

    def isolate(self, node: str, reason: str) -> None:
        """Has the command do it."""
        self._do("isolate", [node], reason)

    def release(self, node: str, shown: str = "") -> None:
        """Has the command do it, which hears what the node showed just before."""
        self._do("release", [node], shown)

    def rewrite(self, node: str, shown: str, reason: str) -> None:
        """Has the command isolate it once more, with other words."""
        self._do("isolate", [node], reason)

    def reboot(self, nodes: Collection[str], reason: str) -> None:
        """Has the command ask for it."""
        self._do("reboot", sorted(nodes), reason)

    def boots(self, nodes: Collection[str]) -> Mapping[str, RebootState]:
        """How far each is, of those of which the command says so."""
        boots = {}
        for node, said in self._nodes(nodes).items():
            booted, rebooting = said.get("booted"), said.get("rebooting", False)
            if booted is not None and not (type(booted) in (int, float) and 0 < booted < 1e11):
                raise self._wrong(f"booted of {node} is {short(booted)}, expected seconds since 1970, or null")
            if not isinstance(rebooting, bool):
                raise self._wrong(f"rebooting of {node} is {short(rebooting)}, expected true or false")
            boots[node] = RebootState(None if booted is None else float(booted), rebooting)
        return boots

    def _nodes(self, nodes: Collection[str]) -> dict[str, Mapping[str, Any]]:
        said = self._ask("held", list(nodes)).get("nodes")
        if not isinstance(said, dict):
            raise self._wrong('it has no "nodes", expected {"nodes": {"gpu007": {"holder": "nobody"}}}')
        for node in nodes:
            if not isinstance(said.get(node), dict):
                raise self._wrong(f'it says nothing of {node}, expected {{"holder": "nobody"}}, us, others or absent')
        return {node: said[node] for node in nodes}

    def _held(self, node: str, said: Mapping[str, Any]) -> NodeHold:
        word, reason, busy = said.get("holder"), said.get("reason", ""), said.get("busy")
        holder = _HOLDERS.get(word) if isinstance(word, str) else None
        if holder is None:
            raise self._wrong(f"the holder of {node} is {short(word)}, expected {', '.join(_HOLDERS)}")
        if not isinstance(reason, str):
            raise self._wrong(f"the reason of {node} is {short(reason)}, expected text")
        if not (busy is None or isinstance(busy, bool)):
            raise self._wrong(f"busy of {node} is {short(busy)}, expected true, false or null")
        mark = mark_of(reason) if holder is Holder.US else None
        if holder is Holder.US and mark is None:
            raise self._wrong(f"we hold {node} with the reason {short(reason)}, expected one that begins with our mark: muster#12: ...")
        return NodeHold(holder, clean(reason, REASON_LENGTH), mark, busy)

    def _do(self, action: str, nodes: list[str], reason: str = "") -> None:
        answer = self._ask(action, nodes, reason)
        done, why = answer.get("done"), answer.get("reason", "")
        if done is False and isinstance(why, str):
            raise ActionError(f"{self.argv[0]}: {action} was not done: {clean(why, REASON_LENGTH) or 'it does not say why'}")
        if done is not True:
            raise self._wrong(f'"done" is {short(done)}, expected true, or false with a "reason"')

    def _ask(self, action: str, nodes: list[str], reason: str = "") -> Mapping[str, Any]:
        question = {"schema": SCHEMA, "action": action, "nodes": nodes, "reason": reason, "number": number_of(reason)}
        said = _run(self.argv, json.dumps(question).encode() + b"\n", self.seconds)
        try:
            answer = json.loads(said, parse_constant=_refused)
        except (ValueError, RecursionError):
            raise self._wrong(f"{short(said[:60].decode('utf-8', 'backslashreplace'))} is no JSON document" if said.strip()
                              else "it is empty, expected one JSON document") from None
        if not isinstance(answer, dict) or answer.get("schema") != SCHEMA:
            raise self._wrong(f'it has no "schema": "{SCHEMA}"')
        return answer

    def _wrong(self, what: str) -> ActionError:
        return ActionError(f"{self.argv[0]}: its answer cannot be used: {what}")


def _refused(word: str) -> None:
    raise ValueError(word)      # NaN and Infinity are no JSON


def _run(argv: Sequence[str], question: bytes, seconds: float) -> bytes:
    """What the command prints; it and all that it started are killed at the limit. Raises ActionError unless it ends well."""
    try:
        # A session of its own, so that the group can be killed as one.
        child = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0,
                                 start_new_session=True)
    except OSError as error:
        raise ActionError(f"{argv[0]}: cannot be run: {error.strerror}; see the key cordon of the inventory") from None
    try:
        with child:
            try:
                said, errors = _talk(child, question, time.monotonic() + seconds)
            finally:
                with suppress(ProcessLookupError):
                    os.killpg(child.pid, signal.SIGKILL)
    except TimeoutError:
        raise ActionError(f"{argv[0]}: did not end within {seconds:g} s, and was killed with all that it had started") from None
    if len(said) > MAX_OUTPUT:
        raise ActionError(f"{argv[0]}: printed over {MAX_OUTPUT} bytes")
    if child.returncode != 0:
        first = next((line.strip() for line in errors.decode("utf-8", "surrogateescape").split("\n") if line.strip()), "it said nothing")
        raise ActionError(f"{argv[0]}: failed (exit {child.returncode}): {clean(first, REASON_LENGTH)}")
    return said


def _talk(child: subprocess.Popen[bytes], question: bytes, deadline: float) -> tuple[bytes, bytes]:
    """Writes and reads as each is possible, so that no full pipe stops the others; until the output has ended and so has the child."""
    assert child.stdin and child.stdout and child.stderr  # noqa: S101  (narrowing: all three are pipes)
    said = {"out": bytearray(), "errors": bytearray()}
    left = memoryview(question)
    os.set_blocking(child.stdin.fileno(), False)
    with selectors.DefaultSelector() as ready:
        ready.register(child.stdin, selectors.EVENT_WRITE, "in")
        ready.register(child.stdout, selectors.EVENT_READ, "out")
        ready.register(child.stderr, selectors.EVENT_READ, "errors")
        open_ = {"out", "errors"}
        while open_ and len(said["out"]) <= MAX_OUTPUT:
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
                elif key.data == "out" or len(said["errors"]) < _MAX_ERRORS:
                    said[key.data] += data
    if len(said["out"]) <= MAX_OUTPUT:
        try:
            child.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
    return bytes(said["out"]), bytes(said["errors"])


def _written(descriptor: int, data: memoryview) -> int:
    try:
        return os.write(descriptor, data[:_CHUNK])
    except BlockingIOError:
        return 0
    except BrokenPipeError:     # it needs to know no more
        return len(data)
