"""Takes cordons to a node's new name in the back ends; one of both names keeps jobs away at any moment. First
the new name bears the same mark, too; then the store is changed; last the old name loses it. A scheduler that
still has a node of the old name keeps that held: it may be the same machine."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from healthcheck.store.cordons import Cordon, cordon_of_mark, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.marks import ended_by, mark_of
from healthcheck.store.renaming import NewHold, doubled
from inventory.errors import UsageError
from inventory.text import clean
from provisioning.actions.base import (
    ActionError,
    Backend,
    Holder,
    NodeHold,
    SupportsRename,
    check_unchanged,
    file_of,
    reason_with_mark,
)
from provisioning.actions.ownership import Whose, whose

_FILES = ("hostfile", "golden")


def check_holds(store: Store, backends: Sequence[Backend], old: str, new: str) -> list[str]:
    """What would be done with the cordons of the old name, a line each. Raises UsageError where it cannot be
    done, with the next command, and ActionError."""
    done = []
    for one in _to_carry(store, old, new):
        backend = _at_hand(one, backends)
        if backend is None:
            file = shlex.quote(one.file) if one.file else "FILE"
            how = (f"add --{one.backend} {file}" if one.backend in _FILES
                   else f"name an inventory with `cordon: {one.backend}`")
            raise UsageError(f"{old} has a cordon in {one.backend}, {one.mark}: {how}, or give it back "
                             f"first: muster uncordon {old}")
        seen = backend.held([old, new])
        if seen[new].mark == one.mark:
            continue
        if seen[new].holder is Holder.ABSENT and seen[old].holder is not Holder.ABSENT:
            raise UsageError(f"{backend.name} does not know {new} yet, and {old} is cordoned there as "
                             f"{one.mark}: give it its new name there first, or: muster uncordon {old}")
        # what is not in a file of good nodes is held by others there
        others = seen[new].holder is Holder.OTHERS and backend.name != "golden"
        if _shown(one, seen[old], seen[new]) and (seen[new].mark is not None or others):
            raise UsageError(f"{new} is held in {backend.name} already: {clean(seen[new].reason, 150)}; and "
                             f"{old} is cordoned there as {one.mark}: end one of them first")
        if whose(one, seen[old]) is Whose.PERSON and seen[old].reason == reason_with_mark(one.mark, one.why):
            raise UsageError(f"{old}: {seen[old].user} set the reason of {one.mark} again in {backend.name}, "
                             f"so it is theirs: muster cordon adopt|forget {old} --reason TEXT first")
        if _shown(one, seen[old], seen[new]):
            done.append(f"{one.mark} in {backend.name}")
    return done


def carry(store: Store, backends: Sequence[Backend], old: str, new: str) -> dict[int, NewHold]:
    """Afterwards the new name bears each mark that the old one shows; gives what it then shows, by cordon.
    Raises ActionError where one could not be set."""
    found = {}
    for one in _to_carry(store, old, new):
        backend = _at_hand(one, backends)
        assert backend is not None  # noqa: S101  (`check_holds` refuses it)
        seen = backend.held([old, new])
        shown = _shown(one, seen[old], seen[new])
        if shown:
            if isinstance(backend, SupportsRename) and seen[old].mark == one.mark:
                backend.also(old, new, shown)
            else:
                check_unchanged(backend, new, "")
                backend.isolate(new, shown)
            seen = backend.held([old, new])
            if seen[new].mark != one.mark:
                raise ActionError(f"{new} was not cordoned as {one.mark}: {backend.name} shows "
                                  f"{clean(seen[new].reason, 150) or seen[new].holder.value}")
        if seen[new].mark == one.mark:
            found[one.id] = NewHold(seen[new].identity, seen[new].user, seen[new].since)
    return found


def drop(store: Store, backends: Sequence[Backend], old: str, new: str) -> list[str]:
    """Takes from the old name the marks of cordons that the store has under the new one; a line for each hold
    that is still there. Raises ActionError."""
    left = []
    for backend in backends:
        held = backend.held([old])[old]
        one = cordon_of_mark(store, held.mark) if held.mark is not None else None
        if one is not None and one.node == new and isinstance(backend, SupportsRename):
            backend.left(old, held.reason if held.holder is Holder.US else "")
            held = backend.held([old])[old]
        if held.mark is not None and one is not None and one.node == new:
            left.append(f"{backend.name} still has {old}, which stays held as {held.mark}: when that name is "
                        f"gone there, nothing is to be done; to give it back: {ended_by(held.mark)}")
        elif held.mark is not None:
            left.append(f"{held.mark} holds {old} in {backend.name}, and is no cordon of {new}: muster "
                        "cordon")
    return left


def by_others(
    backends: Sequence[Backend], old: str, new: str, before: Sequence[NodeHold],
) -> list[str]:
    """Holds of others that do not follow the name; `before`: who held the old one in each back end."""
    found = []
    for backend, was in zip(backends, before, strict=True):
        seen = backend.held([old, new])
        if seen[old].holder is Holder.OTHERS and backend.name != "golden":
            found.append(f"others hold {old} in {backend.name}, and {new} is another name to it: "
                         f"{clean(seen[old].reason, 150)}")
        if seen[new].holder is Holder.OTHERS and was.holder is Holder.NO_ONE:
            found.append(f"{new} gets no jobs by {backend.name}: {clean(seen[new].reason, 150)}")
    return found


def _at_hand(one: Cordon, backends: Sequence[Backend]) -> Backend | None:
    """The back end of a cordon, and of several files its own."""
    return next((backend for backend in backends if backend.name == one.backend
                 and one.file in ("", file_of(backend))), None)


def _to_carry(store: Store, old: str, new: str) -> list[Cordon]:
    """Open cordons of the old name, but where the new one has its own."""
    twice = {one.id for one in doubled(store, old, new)}
    return [one for one in open_cordons(store, [old]) if one.id not in twice]


def _shown(one: Cordon, before: NodeHold, after: NodeHold) -> str:
    """The words for the new name; empty where it bears them, or the cordon does not hold the old."""
    if after.mark == one.mark:
        return ""
    if before.mark == one.mark and mark_of(before.reason) == one.mark:
        return before.reason
    # beside ours others may have words of their own, which are not taken along
    anew = before.mark == one.mark or (
        before.holder is Holder.ABSENT and after.holder is Holder.NO_ONE)
    return reason_with_mark(one.mark, one.why) if anew else ""
