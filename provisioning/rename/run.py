"""Gives a node another name in all that muster keeps: cordons in the back ends, the store, the files of the
state folder, baselines, the inventory.

Each step leaves what has come over already, and so a rename that was killed is finished by the same command.
The order keeps the node held at any moment: its new name bears the mark before the store is changed, and its
old one loses it last. A line of the ledger says that a rename is under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from healthcheck.store import renaming
from healthcheck.store.file import NAME, Store, opened
from healthcheck.store.hardware import machine_identity
from healthcheck.store.leases import open_leases
from inventory.errors import UsageError
from inventory.times import minute
from provisioning.actions.base import Backend, NodeHold
from provisioning.actions.cordon import resolve_pending
from provisioning.lease.runlock import alone
from provisioning.rename.files import check_files, rename_files
from provisioning.rename.holds import by_others, carry, check_holds, drop

# What acts on nodes by their names, and its lock in the state folder.
_LOCKS = (("triage.lock", "triage"), ("bringup.lock", "bringup run"), ("remediate.lock", "remediate"),
          ("screen.lock", "burnin screen"), ("firmware.lock", "firmware update"))


@dataclass(frozen=True)
class RenameRequest:
    """A node's old and new name, muster's state, the rules folders, and all back ends that may hold it."""

    old: str
    new: str
    state: Path
    rules: Sequence[Path]
    backends: Sequence[Backend]
    why: str
    who: str


@dataclass(frozen=True)
class Renamed:
    """What was taken along, and holds that were not, each in words."""

    taken: tuple[str, ...]
    left: tuple[str, ...]


def is_known(want: RenameRequest) -> bool:
    """Whether anything but the inventory is about the old name."""
    with _store(want.state) as store:
        if store is not None and (renaming.knows(store, want.old) or _begun(store, want)):
            return True
    return any(held.mark is not None for held in _held(want))


def done_before(want: RenameRequest) -> bool:
    """Whether this very rename was made and finished."""
    with _store(want.state) as store:
        return store is not None and renaming.finished(store, want.old, want.new)


def check(want: RenameRequest) -> list[str]:
    """What would be done with cordons, a line each. Raises MusterError, one line with the next command, where
    the rename cannot be made: nothing is changed by then."""
    done: list[str] = []
    with _store(want.state) as store:
        if store is not None:
            _check_store(store, want)
            done = check_holds(store, want.backends, want.old, want.new)
    check_files(want.state, want.old, want.new)
    return done


def rename(want: RenameRequest, write: Callable[[], None], clock: Callable[[], float]) -> Renamed:
    """Does it; `write` writes the inventory. Raises MusterError: then the same command goes on from there."""
    old, new = want.old, want.new
    with ExitStack() as held:
        for lock, what in _LOCKS if want.state.is_dir() else ():
            held.enter_context(alone(want.state, lock, what, "inventory rename"))
        store = held.enter_context(_store(want.state))
        before = _held(want)
        if store is not None:
            for backend in want.backends:
                resolve_pending(store, backend, clock)
        taken = check(want)
        begun = None
        if store is not None:
            begun = renaming.begin(store, old, new, want.why, want.who, clock())
            holds = carry(store, want.backends, old, new)
            if renaming.rename(store, old, new, want.who, clock(), holds):
                taken.append("the store")
        if want.state.is_dir():
            taken += rename_files(want.state, want.rules, old, new, clock())
        write()
        left = drop(store, want.backends, old, new) if store is not None else []
        left += by_others(want.backends, old, new, before)
        if store is not None and begun is not None:
            renaming.finish(store, begun, "renamed", clock())
    return Renamed(tuple(taken), tuple(left))


@contextmanager
def _store(state: Path) -> Iterator[Store | None]:
    """The store, where there is one: a rename makes none."""
    with opened(state) if (state / NAME).exists() else nullcontext() as store:
        yield store


def _held(want: RenameRequest) -> list[NodeHold]:
    """Who holds the old name in each back end."""
    return [one.held([want.old])[want.old] for one in want.backends]


def _begun(store: Store, want: RenameRequest) -> bool:
    return any((one.old, one.new) == (want.old, want.new) for one in renaming.unfinished(store))


def _check_store(store: Store, want: RenameRequest) -> None:
    old, new = want.old, want.new
    for other in renaming.unfinished(store):
        if (other.old, other.new) != (old, new) and {other.old, other.new} & {old, new}:
            raise UsageError(f"the rename of {other.old} to {other.new} was cut short: finish it first: "
                             f"muster inventory rename {other.old} {other.new}")
    for lease in open_leases(store):
        if names := {old, new} & set(lease.nodes):
            raise UsageError(f"{min(names)} is leased ({lease.name}: {lease.why}): wait until it has ended; "
                             "see: muster lease list")
    if away := renaming.open_rmas(store, old) & renaming.open_rmas(store, new):
        raise UsageError(f"{old} and {new} both have an open RMA of {min(away) or 'the whole node'}: end one "
                         "of them first; see: muster rma list")
    if not _begun(store, want) and not _one_machine(store, old, new):
        span = renaming.seen_span(store, new)
        raise UsageError(f"the store has another machine as {new}{_until(span)}: give its history another "
                         f"name first: muster inventory rename {new} {new}-old")


def _until(span: tuple[float, float] | None) -> str:
    return (f", last swept {minute(span[1])}"
            if span is not None else "")


def _one_machine(store: Store, old: str, new: str) -> bool:
    """Whether what the store knows under both names may be one machine: by its chassis, else by its
    installation, else because it was swept under the new name only after the old one."""
    was, now = renaming.seen_span(store, old), renaming.seen_span(store, new)
    if now is None:
        return True
    ours, theirs = (dict(part.partition("=")[::2] for part in machine_identity(store, name).split())
                    for name in (old, new))
    for part in ("chassis", "machine"):
        if part in ours and part in theirs:
            return ours[part] == theirs[part]
    return was is None or was[1] <= now[0]
