"""The transport seam: `run(nodes, program, limits)` yields one `Reply` for every node, in any order, on time.

A transport starts `program.command(node)` on each node, writes `program.payload` to its standard input, keeps
that input open as a lifeline, answers the program's requests for `program.extras`, and hands back the one
frame that the program prints. What goes wrong on the way is a value that names the stage; a transport raises
nothing for a node's sake.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Protocol

from inventory.model import Node


class Stage(Enum):
    """The stage that failed; each has its own next step for the operator."""

    HEAD = "head"            # this machine lacks what the way to the node takes, or failed to judge it
    RESOLVE = "resolve"      # no address for its name, or our configuration names no usable way there
    JUMP = "jump host"       # a machine on the way to the node failed, so nothing is known of the node
    CONNECT = "connect"      # no TCP connection, or no SSH server on it
    HOST_KEY = "host key"    # unknown, changed or revoked
    AUTH = "auth"            # no key was accepted
    LOGIN = "login"          # logged in, but the shell never ran our command (hung home, broken rc file)
    BECOME = "become"        # sudo refused or asked for a password
    PYTHON = "python"        # no Python, or older than 3.8, or it did not start
    REPLY = "reply"          # the program started, but its answer is cut, oversized, damaged or not ours
    LEASE = "lease"          # nothing was sent, or it was stopped, because the lease on the node was lost
    AGENT = "agent"          # the node answered, but its agent left no reliable snapshot
    NO_AGENT = "no agent"    # the node answered, but has no readable agent snapshot
    TURN = "turn"            # the sweep's time was over before its turn came
    DEADLINE = "deadline"    # the time ran out while the program was at work


# The stages before our program runs at which a busy machine, ours or theirs, answers too late.
BUSY = (Stage.RESOLVE, Stage.JUMP, Stage.CONNECT, Stage.AUTH, Stage.LOGIN, Stage.BECOME, Stage.PYTHON)
# Those of them that leave a process on the node when they hang.
HANGS = (Stage.AUTH, Stage.LOGIN, Stage.BECOME, Stage.PYTHON)

# Nothing was learned of the node, and that is not the node's doing: its UNKNOWN is of origin muster.
NOT_ITS_FAULT = (Stage.HEAD, Stage.RESOLVE, Stage.JUMP, Stage.LEASE, Stage.TURN, Stage.NO_AGENT)


class Halt:
    """Ends a run from another thread: nodes without an answer get a failure at once."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._called = False
        self._callbacks: list[Callable[[], None]] = []

    def call(self) -> None:
        """Ends the runs that follow it, now and later."""
        with self._lock:
            self._called = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()

    def follow(self, callback: Callable[[], None]) -> None:
        """Calls `callback` once, from the thread that calls `call`; at once if that has happened."""
        with self._lock:
            if not self._called:
                self._callbacks.append(callback)
                return
        callback()


class Turns(Protocol):
    """Which nodes may be in work at one time. It is called under a lock, so that it must return at once."""

    def may_begin(self, node: Node) -> bool:
        """Whether this node may begin now; where none is in work, the first begins anyway."""
        ...

    def begins(self, node: Node) -> None:
        """Its work begins: for a second try again."""
        ...

    def ends(self, node: Node) -> None:
        """Its work has ended, however."""
        ...


# Beyond the program's own time: for what it had measured to come back.
RETURN_S = 5.0


@dataclass(frozen=True)
class Limits:
    """Bounds in seconds and bytes. `sweep_s` bounds the whole run, `node_s` one node from first packet to
    last, and `program_s` (None: as `node_s`) the program on it from its first line to the end of its answer.
    `connect_s` covers resolve, TCP and SSH banner of one attempt, and again the key exchange; `login_s` is
    from the exec request to the program's first line. A node's own limits replace these (`of`). `patience`
    multiplies those before the program, for when all nodes start at once. At most `fanout` nodes are in work,
    and `logins` of them (None: by the cores) on their way to the program (`watch`). With `twice` a node that
    did not get so far is tried again at the end. `halt` ends the run sooner. `turns` holds nodes back, as
    where a rack may have only so many in work."""

    sweep_s: float = 120.0
    node_s: float = 105.0
    connect_s: float = 10.0
    auth_s: float = 20.0
    login_s: float = 15.0
    program_s: float | None = None
    reply_bytes: int = 32 * 1024 * 1024
    stderr_bytes: int = 16 * 1024
    fanout: int = 64
    halt: Halt | None = None
    patience: float = 1.0
    logins: int | None = None
    twice: bool = True
    turns: Turns | None = None

    def of(self, node: Node) -> Limits:
        """These limits with the node's own; `node_s` grows and shrinks with them."""
        own = node.given_limits
        if not own and self.patience == 1.0:
            return self
        made = replace(
            self, patience=1.0, connect_s=self.patience * _first(own.connect, self.connect_s),
            auth_s=self.patience * _first(own.auth, self.auth_s),
            login_s=self.patience * _first(own.login, self.login_s))
        node_s = self.node_s + made.hop_s + made.login_s - self.hop_s - self.login_s
        if own.node is None:
            return replace(made, node_s=node_s)
        program_s = own.node + RETURN_S
        if self.program_s is None:      # a program with a time of its own, which is not cut
            return replace(made, node_s=max(node_s, made.hop_s + made.login_s + program_s))
        return replace(made, node_s=node_s + program_s - self.program_s, program_s=program_s)

    @property
    def hop_s(self) -> float:
        """What logging in to one machine takes at most."""
        return 2 * self.connect_s + self.auth_s

    @property
    def work_s(self) -> float:
        """What the program takes at most."""
        return self.node_s if self.program_s is None else self.program_s


def _first(own: float | None, otherwise: float) -> float:
    return otherwise if own is None else own


@dataclass(frozen=True)
class Program:
    """What to run: a loader (one line of Python), the payload on its standard input, and named extras, which
    are sent only when the program asks (`want NAME`): the NVML binding goes to nodes that have an NVIDIA
    device. `nonce` marks every line of ours, so that noise from rc files and hostile text cannot be taken for
    it. `words` are arguments of single nodes, by name; `own` are extras that no other node can have.
    `repeatable`: it changes nothing, so a node may run it again when a jump host failed."""

    nonce: str
    loader: str
    payload: bytes
    extras: Mapping[str, bytes] = field(default_factory=dict)
    words: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    own: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict, repr=False)
    repeatable: bool = False

    def of(self, node: str) -> Program:
        """The program for this node: with its own extras only."""
        return replace(self, extras={**self.extras, **self.own.get(node, {})}, own={})

    def arguments(self, node: Node) -> tuple[str, ...]:
        """Its arguments on this node: the node's own, then those in `words`."""
        return (*node.words, *self.words.get(node.name, ()))


@dataclass(frozen=True)
class Failure:
    """Why there is no answer: the stage, and one clean line for a person. `stuck` is the stage, one of BUSY,
    at which no answer came in time or the connection was lost; None where something else failed, or our
    program had begun. `algorithms`: the ends have none in common, and the system's ssh knows more."""

    stage: Stage
    reason: str
    stuck: Stage | None = field(default=None, compare=False)
    algorithms: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Reply:
    """What came back from one node: the frame's body (compressed, checksum verified), or a failure. `started`
    and `received` are the head's clock (epoch seconds), `sent_bytes` and `received_bytes` what crossed the
    channel; `attempts` counts connections; `first` is how the first try failed, if there was one."""

    node: str
    body: bytes | None
    failure: Failure | None
    started: float
    received: float
    sent_bytes: int = 0
    received_bytes: int = 0
    attempts: int = 1
    python: str | None = None
    first: Failure | None = None


class Transport(Protocol):
    """One way to reach nodes."""

    def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
        """Yields exactly one reply for each node, as soon as it is known, all by `limits.sweep_s`."""
        ...
