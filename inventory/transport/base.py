"""The transport seam: `run(nodes, program, limits)` yields one `Reply` for every node, in any order, on time.

A transport starts `program.command(node)` on each node, writes `program.payload` to its standard input, keeps that input
open as a lifeline, answers the program's requests for `program.extras`, and hands back the one frame that the program
prints. What goes wrong on the way is a value that names the stage; a transport raises nothing for a node's sake.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from inventory.model import Node


class Stage(Enum):
    """How far we came before it failed; each has another next step for the operator."""

    RESOLVE = "resolve"      # the name has no address
    CONNECT = "connect"      # no TCP connection, or nobody speaks SSH on it
    HOST_KEY = "host key"    # unknown, changed or revoked
    AUTH = "auth"            # no key was accepted
    LOGIN = "login"          # logged in, but the shell never ran our command (hung home, broken rc file)
    BECOME = "become"        # sudo refused or asked for a password
    PYTHON = "python"        # no Python, or older than 3.8, or it did not start
    REPLY = "reply"          # the program started, but its answer is cut, oversized, damaged or not ours
    LEASE = "lease"          # nothing was sent, or it was stopped, because the lease on the node no longer stood
    AGENT = "agent"          # the node answered, but its agent has left no look that can be relied on
    NO_AGENT = "no agent"    # the node answered, and there is no agent's look that we may read and understand
    TURN = "turn"            # the sweep's time was over before its turn came
    DEADLINE = "deadline"    # the time ran out while the program was at work


# Where it was not for the node that nothing is known of it.
NOT_ITS_FAULT = (Stage.LEASE, Stage.TURN, Stage.NO_AGENT)


class Halt:
    """Ends a run from another thread: whoever has not answered when it is called is answered for at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._called = False
        self._acts: list[Callable[[], None]] = []

    def call(self) -> None:
        """Ends the runs that follow it, and those that will."""
        with self._lock:
            self._called = True
            acts, self._acts = self._acts, []
        for act in acts:
            act()

    def follow(self, act: Callable[[], None]) -> None:
        """`act` is called once, from the thread that calls; at once where that has been."""
        with self._lock:
            if not self._called:
                self._acts.append(act)
                return
        act()


@dataclass(frozen=True)
class Limits:
    """Bounds in seconds and bytes. `sweep_s` bounds the whole run, `node_s` one node from first packet to last.

    `connect_s` covers resolve, TCP and SSH banner of one attempt; `login_s` from the exec request to the program's first line. `halt`
    ends the run sooner.
    """

    sweep_s: float = 120.0
    node_s: float = 60.0
    connect_s: float = 10.0
    auth_s: float = 20.0
    login_s: float = 15.0
    reply_bytes: int = 32 * 1024 * 1024
    stderr_bytes: int = 16 * 1024
    fanout: int = 64
    halt: Halt | None = None


@dataclass(frozen=True)
class Program:
    """What to run: a loader (one line of Python), the payload it reads from standard input, and named extras.

    `nonce` marks every line of ours in the output, so that noise from rc files and hostile text cannot be taken for it.
    Extras are sent only when the program asks (`want NAME`): the NVML binding goes to nodes that have an NVIDIA device.
    `words` are for single nodes, by name, where what one is to be told is not what the others are; `own` are extras for single nodes, which
    no other node can have.
    """

    nonce: str
    loader: str
    payload: bytes
    extras: Mapping[str, bytes] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)

    def of(self, node: str) -> Program:
        """The program as this node has it: with its own extras, and nobody else's."""
        return replace(self, extras={**self.extras, **self.own.get(node, {})}, own={})

    def told(self, node: Node) -> tuple[str, ...]:
        """The words on its command line on this node: those of the node itself, then its own among `words`."""
        return (*node.words, *self.words.get(node.name, ()))


@dataclass(frozen=True)
class Failure:
    """Why there is no answer: the stage, and one line for a person (already free of control characters)."""

    stage: Stage
    reason: str


@dataclass(frozen=True)
class Reply:
    """What came back from one node: the frame's body (compressed, checksum verified), or a failure.

    `started` and `received` are the head's clock (seconds since the epoch) when the attempt began and when the frame was
    complete; `sent_bytes` and `received_bytes` count what crossed the channel; `attempts` counts connections tried.
    """

    node: str
    body: bytes | None
    failure: Failure | None
    started: float
    received: float
    sent_bytes: int = 0
    received_bytes: int = 0
    attempts: int = 1
    python: str | None = None


class Transport(Protocol):
    """One way to reach nodes."""

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """Yields exactly one reply for each node, each as soon as it is known, all by `limits.sweep_s` from now."""
        ...
