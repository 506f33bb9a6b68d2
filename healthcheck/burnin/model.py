"""The values of a burn-in: participants, tasks, reports, results and accusations. All frozen.

A task is one piece of work on seats that ranks do together, or each alone. A stage is a round of tasks that
run at the same time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType


class TaskKind(Enum):
    """What the ranks of a task do: each for itself, or all of them `together`."""

    KNOWN = "known"             # integer GEMM with a known result, exact in every precision
    # random-float GEMM: equal in every repeat, and to its equals by checksum
    RANDOM = "random"
    MEMORY = "memory"           # patterns written over most of the memory, held, and read back
    # GEMM rate, with samples of clock, power, temperature and throttle reasons
    RATE = "rate"
    COPY = "copy"               # host to device and back
    HOST = "host"               # all ranks of a node copy in its host memory at once
    STORAGE = "storage"         # one rank of a node writes to a mount and reads it back
    # owner-coded all-reduce among all seats of the task, verified exactly, each iteration
    ALLREDUCE = "allreduce"
    SIZES = "sizes"             # the all-reduce at sizes from 8 bytes on: latencies
    # steps of a small transformer; gradients, sums and weights equal bit by bit among equals
    TRAIN = "train"
    WRITE = "write"             # ib_write_bw between two RDMA ports, both ways at once

    @property
    def together(self) -> bool:
        """Whether its ranks exchange data, and so wait for each other."""
        return self in (TaskKind.ALLREDUCE, TaskKind.SIZES, TaskKind.TRAIN)

    @property
    def of_node(self) -> bool:
        """Whether it tests its node, and not the GPU of a rank's seat."""
        return self in (TaskKind.HOST, TaskKind.STORAGE)


class BurnInStage(Enum):
    """The stages, in the order in which they run."""

    NODE = "node"                   # each node alone, all kinds of work within a node
    RAIL = "rail"                   # each node alone, each rail through its own NIC
    LEAF_PAIRS = "leaf-pairs"       # pairs in a leaf (or NVLink domain): two rounds
    LEAF_CONFIRM = "leaf-confirm"   # suspects again, each with a proven node
    CROSS_PAIRS = "cross-pairs"     # pairs across leaves: four rounds
    RAIL_CONFIRM = "rail-confirm"   # the accused again, by single rails, with proven nodes
    FABRIC = "fabric"               # a link burn: pairs of ports, in rounds that load every link
    ALL = "all"                     # all nodes, several ring orders
    BISECT = "bisect"               # parts of them, by leaf, where only scale shows a failure
    TRAIN = "train"                 # all nodes, a short training
    SOAK = "soak"                   # all nodes, for hours

    @property
    def at_once(self) -> bool:
        """Whether its tasks have to be under way at the same moment: what one loads is what others meet."""
        return self is BurnInStage.FABRIC


@dataclass(frozen=True)
class Rail:
    """One NIC that takes part: its number, PCI address in full form, and its leaf (None: not given)."""

    number: int
    address: str
    leaf: str | None = None


@dataclass(frozen=True)
class Participant:
    """One node that takes part, by the inventory and its SKU. `gpus` is how many it must have. `leaf` is the
    switch of its rails, or their switches joined by "+"; nodes with equal leaves are neighbours. `domain` is
    its NVLink domain, `power` its power domain, `watts` its largest power draw (None: unknown)."""

    node: str
    gpus: int
    sku: str | None = None
    leaf: str | None = None
    domain: str | None = None
    power: str | None = None
    watts: float | None = None
    rails: tuple[Rail, ...] = ()


@dataclass(frozen=True, order=True)
class Seat:
    """Where one rank sits: a node, and which of its GPUs (from 0, in the order of PCI addresses)."""

    node: str
    gpu: int

    def __str__(self) -> str:
        return f"{self.node}:{self.gpu}"


@dataclass(frozen=True)
class Task:
    """One piece of work. Rank r sits on seats[r]; after `seconds` it is given up in any case. `params` are
    those of its kind (`healthcheck.burnin.params`). `environment` is set for its ranks after scrubbing;
    `local` overrides it for the ranks of single nodes, as device names differ between nodes."""

    id: str
    stage: BurnInStage
    kind: TaskKind
    seats: tuple[Seat, ...]
    seconds: float
    params: Mapping[str, int | float | str] = field(default_factory=lambda: MappingProxyType({}))
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    local: Mapping[str, Mapping[str, str]] = field(default_factory=lambda: MappingProxyType({}))

    def on(self, node: str) -> dict[str, str]:
        """The environment of its ranks on this node."""
        return {**self.environment, **self.local.get(node, {})}

    @property
    def part(self) -> str:
        """The part of a node that it tests, if no GPU: "host memory" or "storage /scratch"; else ""."""
        return {TaskKind.HOST: "host memory",
                TaskKind.STORAGE: f"storage {self.params.get('path', '')}"}.get(self.kind, "")

    @property
    def nodes(self) -> tuple[str, ...]:
        """Its nodes, each once, in the order of their first ranks."""
        return tuple(dict.fromkeys(seat.node for seat in self.seats))


class RankEnd(Enum):
    """How a rank's part in a task ended."""

    DONE = "done"           # it reported
    EXIT = "exit"           # its process ended by itself, without a report
    SIGNAL = "signal"       # its process was ended by a signal that muster did not send
    RAISED = "raised"       # it reported an exception of its own, or because others left
    CALLED_OFF = "called off"   # muster ended it: the task failed elsewhere or its time was over
    NEVER = "never"         # it never joined
    LOST = "lost"           # its node's agent disconnected


@dataclass(frozen=True)
class RankProgress:
    """A rank's last known position in its main loop, and the state of its process: the letter of
    /proc/PID/stat (R S D T Z), "" where not read. `moved` is when (iteration, phase) last changed, `alive`
    when its helper thread last ticked, in seconds of the head's clock, None for never."""

    iteration: int = -1
    phase: str = ""
    moved: float | None = None
    alive: float | None = None
    state: str = ""


@dataclass(frozen=True)
class WrongData:
    """Wrong data as one rank saw it in one iteration: how many elements, and which ranks own them (sorted, at
    most 16). `own_input`: whether its own input was wrong, right before or right after. `check` names the
    collective and its manner. `places` are the first wrong elements of the result, each (place in the whole,
    owner's rank or -1); `inputs` are the wrong places of the input."""

    iteration: int
    count: int
    owners: tuple[int, ...] = ()
    own_input: bool = False
    check: str = ""
    places: tuple[tuple[int, int], ...] = ()
    inputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class RankReport:
    """What one rank reports: how it ended, its figures (`healthcheck.burnin.figures`), and wrong data.
    `checksums` are exact results that equals must share, by name; `facts` are versions, device and serial,
    and the proof of RDMA; `code` is the exit code or signal number; `error` is one cleaned line."""

    seat: Seat
    end: RankEnd
    figures: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    checksums: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    wrong: tuple[WrongData, ...] = ()
    wrong_total: int = 0
    facts: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    code: int | None = None
    error: str = ""
    last: RankProgress = RankProgress()


class Object(Enum):
    """What can be accused."""

    GPU = "gpu"             # "gpu003:5"
    NODE = "node"           # "gpu003"
    RAIL = "rail"           # "gpu003/rail2"
    LEAF = "leaf"           # "leaf07"
    PAIR = "pair"           # "gpu003 - gpu017"
    LINK = "link"           # "leaf07 port 33 to spine02 port 7"
    UNEXPLAINED = "unexplained"     # the task or stage that failed


@dataclass(frozen=True)
class Accusation:
    """Who is guilty of what (a word of `healthcheck.burnin.faults`), and why in one line. `tests_for` and
    `tests_against` are ids of tasks, with what each showed; `counted` is what the accused's own error
    counters did in the stages of those tests, a line each. `nodes` are those that may share in what is
    unexplained; () where any node of its tests may."""

    object: Object
    name: str
    fault: str
    why: str
    tests_for: tuple[str, ...] = ()
    tests_against: tuple[str, ...] = ()
    confirmed: bool = False
    counted: tuple[str, ...] = ()
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class TaskResult:
    """The result of one task: a report of every seat, whom the watch accuses, and its times (head's clock).
    `named_after` is how many seconds after the first sign of trouble the culprit was named, if one was."""

    task: Task
    reports: tuple[RankReport, ...]
    accusations: tuple[Accusation, ...] = ()
    began: float = 0.0
    ended: float = 0.0
    named_after: float | None = None

    @property
    def whole(self) -> bool:
        """Whether every seat reported: only then do its figures count."""
        return (len(self.reports) == len(self.task.seats)
                and all(report.end is RankEnd.DONE for report in self.reports))
