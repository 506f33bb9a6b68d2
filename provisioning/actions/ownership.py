"""Whose the hold on a node is, by what the back end shows and our cordons in the store. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from enum import Enum

from healthcheck.store.cordons import Cordon, CordonState
from healthcheck.store.hardware import same_machine
from healthcheck.store.marks import mark_of
from healthcheck.store.strays import Stray, StrayKind
from inventory.text import clean
from provisioning.actions.base import Holder, NodeHold, reason_with_mark, same_reason


class Whose(Enum):
    """What became of a cordon of ours."""

    OURS = "ours"           # it is there as we set it
    # our mark is there, and what stands beside it, or who gave it, is not as we set it
    PERSON = "person"
    TAKEN = "taken"         # others hold the node instead
    FREE = "free"           # no one does
    ANEW = "anew"           # it is not there, and the node is not the one that it was set on
    ABSENT = "absent"       # the back end does not know the node any more


def whose(one: Cordon, held: NodeHold, identity: str = "") -> Whose:
    """What became of it; `identity` is that of this name's machine now, if known from elsewhere."""
    if held.mark == one.mark:
        return Whose.PERSON if held.holder is Holder.US and _changed(one, held) else Whose.OURS
    if held.holder is not Holder.ABSENT and _another(one.identity, held.identity, identity):
        return Whose.ANEW
    if held.holder is Holder.ABSENT:
        return Whose.ABSENT
    return Whose.FREE if held.holder is Holder.NO_ONE else Whose.TAKEN


def dropped(one: Cordon, held: NodeHold) -> str:
    """Why the back end ended a cordon of ours whose words it still shows as we set them; or ""."""
    ours = mark_of(held.reason) == one.mark and not _changed(one, held)
    return held.dropped if ours else ""


def _another(before: str, shown: str, machine: str) -> bool:
    """Whether it is another node or machine than the cordon's; what is not known is no other."""
    if not before:
        return False
    return before != shown if shown else bool(machine) and not same_machine(before, machine)


def _changed(one: Cordon, held: NodeHold) -> bool:
    wrote = reason_with_mark(one.mark, one.why)
    if not same_reason(wrote, held.reason):
        return True
    # What the scheduler appends it appends as a user of its own.
    appended = len(held.reason) > len(wrote)
    return bool(one.user and held.user and one.user != held.user and not appended)


def words(one: Cordon, held: NodeHold) -> str:
    """What a person changed about our cordon: the text that is not ours, or who set ours again."""
    wrote, shown = reason_with_mark(one.mark, one.why), held.reason
    if same_reason(wrote, shown):
        return f"{held.user} set its reason again, which {one.user} had set"
    more = shown[len(wrote):] if shown.startswith(wrote) else shown.removeprefix(f"{one.mark}:")
    return f"a person wrote: {clean(more.strip(' -:;,') or shown, 150)}"


def instead(what: Whose, one: Cordon, held: NodeHold) -> str:
    """A phrase for what replaced a cordon of ours; empty while it is ours."""
    return {
        Whose.OURS: "", Whose.PERSON: f"beside {one.mark} {words(one, held)}",
        Whose.TAKEN: f"others hold it now: {held.reason}", Whose.FREE: "someone gave it back",
        Whose.ANEW: "it registered or was installed anew",
        Whose.ABSENT: f"it is not known there any more{f' ({held.reason})' if held.reason else ''}"}[what]


def strays(seen: Mapping[str, NodeHold], cordons: Iterable[Cordon], names: Collection[str]) -> list[Stray]:
    """Marks that no cordon accounts for; `cordons` are our open ones here, `names` those of our store."""
    known = {one.mark: one for one in cordons if one.state in (CordonState.MEANT, CordonState.HELD)}
    found = []
    for node, held in seen.items():
        if held.mark is None:
            continue
        one = known.get(held.mark)
        if one is not None and one.node == node:
            if whose(one, held) is Whose.PERSON:
                found.append(Stray(node, StrayKind.PERSON, str(held.mark), words(one, held)))
        else:
            kind = StrayKind.NUMBER if held.mark.store in names else StrayKind.STORE
            found.append(Stray(node, kind, str(held.mark), clean(held.reason, 150)))
    return found
