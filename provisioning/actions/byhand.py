"""What `muster uncordon` does: gives nodes back, and says who holds those that are not free; or ends exactly
one mark, known to the store or not."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import replace

from healthcheck.store.cordons import Cordon, cordon_of_mark, names, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.marks import CordonMark, ended_by
from inventory.errors import UsageError
from inventory.times import minute
from provisioning.actions.base import Backend, Holder, NodeHold, file_of, marked
from provisioning.actions.cordon import NONE_OF_OURS, Clock, CordonResult, resolve_pending, uncordon
from provisioning.actions.ownership import Whose, whose, words
from provisioning.actions.strays import forget

_FILES = ("hostfile", "golden")


def give_back(
    store: Store, backend: Backend, nodes: Sequence[str], why: str, who: str, clock: Clock, *,
    dry: bool = False,
) -> list[CordonResult]:
    """Releases what we hold of these nodes. `held`: jobs are still kept away; `failed` also that a node that
    was never ours is not free. Raises ActionError."""
    done = uncordon(store, backend, nodes, why, who, clock, dry=dry)
    loose = [one.node for one in done if one.message == NONE_OF_OURS]
    left = [one.node for one in done if dry and not one.held and one.node not in loose]
    seen = backend.held([*loose, *left]) if loose or left else {}
    ours = names(store)
    done = [_not_ours(one.node, seen[one.node], ours) if one.node in loose
            else replace(one, failed=seen[one.node].holder in (Holder.US, Holder.OTHERS)) if one.node in left
            else _still_away(one, backend.name) for one in done]
    elsewhere = {one.node: one for one in open_cordons(store, nodes)
                 if one.backend != backend.name or (one.file and one.file != file_of(backend))}
    return [_also_there(one, elsewhere[one.node]) if one.node in elsewhere else one for one in done]


def _still_away(done: CordonResult, backend: str) -> CordonResult:
    """A node that is down keeps the reason of its old drain, so the release itself names no one."""
    if done.held and done.message.endswith(" is released"):
        return replace(
            done, message=f"{done.message}; {backend} starts no job on it, for a reason of its own")
    return done


def _not_ours(node: str, held: NodeHold, ours: Collection[str]) -> CordonResult:
    """Of a node without a cordon of ours: whether it is free, else who holds it."""
    if held.holder is Holder.NO_ONE:
        return CordonResult(node, NONE_OF_OURS, held=False)
    if held.holder is Holder.ABSENT:
        beside = f"it is not known there{f' ({held.reason})' if held.reason else ''}"
    elif held.mark is not None:
        whose_is_it = ("which this store has no open cordon for" if held.mark.store in ours
                       else "a mark of a store that this one does not know")
        beside = f"{held.mark} holds it, {whose_is_it}: {ended_by(held.mark)}"
    else:
        beside = f"others hold it: {held.reason}"
    return CordonResult(node, f"{NONE_OF_OURS}; {beside}", held=held.holder is not Holder.ABSENT, failed=True)


def _also_there(done: CordonResult, other: Cordon) -> CordonResult:
    file = shlex.quote(other.file) if other.file else "FILE"
    how = (f"muster uncordon {other.node} --{other.backend} {file}" if other.backend in _FILES
           else f"muster uncordon {other.node} with an inventory that has `cordon: {other.backend}`")
    return replace(done, message=f"{done.message}; {other.backend} holds it as {other.mark}, too: {how}",
                   held=True, failed=True)


def end_mark(
    store: Store, backend: Backend, mark: CordonMark, known: Collection[str], why: str, who: str,
    clock: Clock, *, dry: bool = False,
) -> list[CordonResult]:
    """Ends this mark wherever the back end shows it, and no other: a cordon of ours is released, a mark
    without an open cordon taken away. What a person wrote beside it is theirs, and refused. `known` are the
    nodes to ask where marks cannot be listed. A result for each node that shows it, else one for the mark.
    Raises ActionError, UsageError for a mark of another back end."""
    if not dry:
        resolve_pending(store, backend, clock)
    one = cordon_of_mark(store, mark)
    is_open = one is not None and one.ended is None
    if one is not None and is_open and one.backend != backend.name:
        raise UsageError(f"{mark} is a cordon of {one.node} in {one.backend}, and this is {backend.name}"
                         + (f": add --{one.backend} FILE" if one.backend in _FILES else ""))
    seen = marked(backend, {*known, *([one.node] if one is not None else [])})
    shown = [node for node, held in seen.items() if held.mark == mark]
    done: list[CordonResult] = []
    if one is not None and is_open:
        done += give_back(store, backend, [one.node], why, who, clock, dry=dry)
        shown = [node for node in shown if node != one.node]
    # of a cordon that is over the store still has the words that were ours
    theirs = [node for node in shown if one is not None and node == one.node
              and whose(one, seen[node]) is Whose.PERSON]
    for node in theirs:
        assert one is not None  # noqa: S101  (narrowing: only then a node is among them)
        done.append(CordonResult(
            node, f"NOT released, beside {mark} {words(one, seen[node])}: it is a person's; if they agree: "
            f"muster cordon forget {node} --reason TEXT", held=True, failed=True))
    strays = [node for node in shown if node not in theirs]
    if strays:
        done += forget(store, backend, strays, why, who, clock, dry=dry, mark=mark)
    return done or [_nowhere(backend, mark, one)]


def _nowhere(backend: Backend, mark: CordonMark, one: Cordon | None) -> CordonResult:
    """Of a mark that no node shows: whether it is over, and its node free."""
    if one is None or one.ended is None:
        return CordonResult(str(mark), f"no node shows it in {backend.name}; see: muster cordon", held=False,
                            failed=True)
    over = f"{mark} is over since {minute(one.ended)}"
    held = backend.held([one.node])[one.node]
    if held.holder in (Holder.NO_ONE, Holder.ABSENT):
        return CordonResult(one.node, over, held=False)
    return CordonResult(one.node, f"{over}; others hold it: {held.reason}", held=True)
