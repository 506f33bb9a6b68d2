"""What every back end can do: say who holds a node, keep new jobs away from it in our name, and give it back.

Each node is read again just before its change, inside the change where the back end can do that (a file's
lock, a server's version), else by `SupportsRead`: what someone did in between stays theirs. The caller reads
once more afterwards, and believes that.

A cordon is owned. Its mark, "muster:7f3a#12", stands at the beginning of the reason that the back end shows,
where no cut can lose it: it names the store and the number of the cordon there. A back end never touches what
carries another mark or none: that is a person's.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Protocol, runtime_checkable

from healthcheck.store.marks import CordonMark, mark_of
from inventory.errors import UsageError
from inventory.text import clean

# What Slurm shows of a reason in its widest tables; the mark and the first words must be in it.
REASON_LENGTH = 200


class Holder(Enum):
    """Who keeps jobs away from a node."""

    NO_ONE = "nobody"
    US = "us"
    OTHERS = "others"       # a person, the scheduler itself, or another program
    ABSENT = "absent"       # the back end does not know the node


@dataclass(frozen=True)
class NodeHold:
    """Who holds a node, and with what words; of an absent one these say why it may be there. `mark` is a
    cordon's, which may stand beside others. `busy`: a job runs on it, if known; `identity` is which thing of
    that name it is (a node's UID in Kubernetes), `user` who gave the reason, "" where the back end does not
    say; `since` is by its own clock. `itself`: the scheduler holds it for now, as it does not respond or
    register. `lacks` is what someone took away of our mark, which `SupportsMend` puts back. `dropped` is why
    the back end ended a hold whose reason it still shows."""

    holder: Holder
    reason: str = ""
    mark: CordonMark | None = None
    busy: bool | None = None
    identity: str = ""
    user: str = ""
    since: float | None = None
    itself: bool = False
    lacks: str = ""
    dropped: str = ""

    @property
    def number(self) -> int | None:
        """That of the mark."""
        return self.mark.number if self.mark is not None else None


class ActionError(UsageError):
    """The back end could not be asked, or did not do what was asked; nothing is known to have changed."""


class Backend(Protocol):
    """One way to keep jobs away from nodes. Each method raises ActionError, one line with the next step."""

    name: str

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        """Who holds each of these nodes now."""

    def isolate(self, node: str, reason: str) -> None:
        """No new job starts on a node that no one holds; what runs goes on. `reason` begins with the mark.
        Raises where it sees in the same step that someone holds it by now; then nothing changes."""

    def release(self, node: str, shown: str = "") -> None:
        """Gives back a node that we hold with the words `shown`. Where the back end can see in the same step
        that it shows others by now, nothing changes, and that is raised."""


@runtime_checkable
class SupportsRead(Protocol):
    """For a back end that cannot compare and change in one step: reads one node just before its change."""

    def now(self, node: str) -> NodeHold:
        """Who holds it. Raises ActionError."""


@runtime_checkable
class SupportsTakeover(Protocol):
    """Finds that a change has taken a node from someone, where it cannot compare and change at once."""

    def taken_from(self, before: NodeHold, after: NodeHold) -> str:
        """The words of whoever took the node over after `before` was read, and lost it to our release, after
        which `after` was read; empty where that shows none."""


@runtime_checkable
class SupportsRewrite(Protocol):
    """Puts other words in the place of those that hold a node, which is never free in between."""

    def rewrite(self, node: str, shown: str, reason: str) -> None:
        """It is held with `reason` in the place of `shown`, as for `release`."""


@runtime_checkable
class SupportsRename(Protocol):
    """What a back end can do beside, in which nodes are names in a file: a mark comes to another name of the
    same machine, which one of the two keeps away from jobs at any moment."""

    def also(self, old: str, new: str, shown: str) -> None:
        """`new` bears the words `shown` of `old`, too. Raises ActionError where others hold it."""

    def left(self, old: str, shown: str) -> None:
        """The mark of `old` with these words is gone, and jobs do not get the name `old` for it."""


@runtime_checkable
class SupportsMarks(Protocol):
    """Says what it holds in our form without being asked by name: also on nodes of no inventory."""

    def marked(self, names: Collection[str]) -> Mapping[str, NodeHold]:
        """Every node that shows a mark; `names` are the inventory's, where others. Raises ActionError."""


@runtime_checkable
class SupportsLostChanges(Protocol):
    """For a back end whose controller, when killed, may lose what it has acknowledged."""

    def forgot(self, changes: Mapping[str, AcknowledgedChange]) -> Mapping[str, str]:
        """Of changes that are not there any more, by node, in words how we know that the controller lost it;
        those that a person may have undone are left out. Raises ActionError."""


@dataclass(frozen=True)
class AcknowledgedChange:
    """A change that the back end had acknowledged: of which mark, and when by its own clock."""

    mark: CordonMark
    time: float


@dataclass(frozen=True)
class RebootState:
    """How far the reboot of a node is: since when it is up, in seconds since 1970, as far as that is known,
    and whether a reboot that was asked for is still to come."""

    booted: float | None
    under_way: bool = False


@runtime_checkable
class SupportsReboot(Protocol):
    """Has nodes restarted as soon as their jobs have ended, held by us before and after."""

    def reboot(self, nodes: Collection[str], reason: str) -> None:
        """Asks for it. The nodes are held by us, and stay so, with that reason. Raises ActionError."""

    def boots(self, nodes: Collection[str]) -> Mapping[str, RebootState]:
        """How far each of these nodes is; what the back end does not know is left out. Raises ActionError."""


@runtime_checkable
class SupportsRunning(Protocol):
    """What a back end can do beside, which knows what runs where other than by `NodeHold.busy`."""

    def running(self, nodes: Collection[str]) -> Mapping[str, str]:
        """By node what runs on it; a node that is not in it has nothing. Raises ActionError."""


@runtime_checkable
class SupportsEndJobs(Protocol):
    """For a scheduler with a command that ends what runs on nodes: shown to people, never run."""

    def end_jobs(self, nodes: Sequence[str]) -> str:
        """The command for these nodes, one or more, as a person types it."""


@runtime_checkable
class SupportsQueue(Protocol):
    """What a back end can do beside, which knows the jobs that wait for nodes."""

    def waiting(self, nodes: Collection[str]) -> str:
        """Which waiting job could start if these nodes were free, or "". Raises ActionError."""


@dataclass(frozen=True)
class ProbationNode:
    """A node on probation: which thing of its name, and when it registered (epoch seconds), if known."""

    identity: str
    registered: float | None


@runtime_checkable
class SupportsProbation(Protocol):
    """New nodes are kept from jobs from their first moment until they have proven themselves."""

    def unproven(self, nodes: Collection[str]) -> Mapping[str, ProbationNode]:
        """Those of these nodes that are. Raises ActionError."""

    def prove(self, node: str, identity: str) -> None:
        """Ends it for this very thing of that name; who holds the node otherwise still does. Raises
        ActionError, also where it is gone."""


@runtime_checkable
class SupportsMend(Protocol):
    """For marks of several parts: puts back what someone took away of one (`NodeHold.lacks`)."""

    def mend(self, node: str, reason: str) -> None:
        """Makes the mark of `reason` whole where it still holds in part. Raises ActionError."""


@runtime_checkable
class SupportsParallel(Protocol):
    """What a back end can do beside, which is reached over a network: several calls at a time."""

    def in_parallel(
        self, work: Mapping[str, Callable[[], None]], before: Callable[[str], None],
    ) -> Mapping[str, str]:
        """Does these calls to it, of which `call_each` says more."""


def marked(backend: Backend, names: Collection[str]) -> Mapping[str, NodeHold]:
    """All nodes with a mark of a muster, or those of `names` where it must be asked. Raises ActionError."""
    if isinstance(backend, SupportsMarks):
        return backend.marked(names)
    seen = backend.held(sorted(set(names))) if names else {}
    return {node: held for node, held in seen.items() if held.mark is not None}


def unlisted(backend: Backend) -> str:
    """What is to be said where a back end cannot list its marks; empty where it can."""
    if isinstance(backend, SupportsMarks):
        return ""
    return (f"{backend.name} cannot list its marks: only nodes of the inventory and of the store were asked "
            "for; `list: [PROGRAM, ...]` beside `command:` in the inventory's `cordon:` lets it")


@runtime_checkable
class IsFile(Protocol):
    """A back end that is a file, of which a site may have several."""

    path: Path


def file_of(backend: object) -> str:
    """Its file, the same however it was named; empty where it is none."""
    return str(backend.path.resolve()) if isinstance(backend, IsFile) else ""


def no_check(name: str) -> None:
    """Where nothing is to be done before a call."""


def call_each(
    backend: object, work: Mapping[str, Callable[[], None]], before: Callable[[str], None] = no_check,
) -> Mapping[str, str]:
    """Does these calls to a back end, in its own way or one by one; by name why one was not done. `before` is
    called with its name just before each, here; where it raises ActionError the call is not made."""
    if isinstance(backend, SupportsParallel):
        return backend.in_parallel(work, before)
    troubles = {}
    for name, call in work.items():
        try:
            before(name)
            call()
        except ActionError as error:
            troubles[name] = str(error)
    return troubles


@dataclass(frozen=True)
class Condition:
    """How a node is by muster: `status` True (fit for jobs), False or Unknown; why in a word, and in a line;
    `seen` is when the snapshot began that says so, in seconds since 1970, None where none does."""

    status: str
    reason: str
    message: str
    seen: float | None = None


@runtime_checkable
class SupportsConditions(Protocol):
    """What a back end can do beside, which shows people how nodes are."""

    def set_conditions(self, conditions: Mapping[str, Condition]) -> None:
        """Has each node show its condition. Raises ActionError."""


def reason_with_mark(mark: CordonMark, why: str) -> str:
    """The reason of a cordon as back ends keep it: one line that begins with its mark."""
    return clean(f"{mark}: {why}", REASON_LENGTH)


# What Slurm appends to a reason by itself (set_node_reason in src/slurmctld of 22.05 and 24.11): none of it
# is a person's.
_APPENDED = re.compile(
    r"(?: : (?:reboot (?:requested|issued|complete|timed out|canceled|cancelled)|Not "
    r"responding|ResumeTimeout reached"
    r"|Low (?:socket\*core\*thread count|CPUs|TmpDisk|RealMemory \(reported:[^()]*\))))+\Z")


def check_unchanged(backend: object, node: str, shown: str) -> None:
    """Raises ActionError where a back end that is to be asked just before a change shows another reason than
    `shown` by now; "" stands for a node that no one holds."""
    now = backend.now(node) if isinstance(backend, SupportsRead) else None
    if now is None or (now.reason == shown if shown else now.holder is Holder.NO_ONE):
        return
    if now.holder is Holder.NO_ONE:
        raise ActionError("someone has given it back")
    raise ActionError(f"others hold it now: {now.reason or now.holder.value}")


def unappended(reason: str) -> str:
    """Without what Slurm has appended by itself."""
    return _APPENDED.sub("", reason)


def same_reason(wrote: str, shown: str) -> bool:
    """Whether a back end shows our words, of which it may have cut the end or to which it may have added."""
    wrote, shown = (" ".join(text.split()) for text in (wrote, unappended(shown)))
    return wrote.startswith(shown.removesuffix("…").rstrip())


def number_of(reason: str) -> int | None:
    """The number of the cordon that a reason is of, or None where it is none of ours."""
    mark = mark_of(reason)
    return mark.number if mark is not None else None
