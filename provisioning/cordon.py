"""Cordons nodes and gives them back, through one back end and with the store as memory.

Each deed is written into the ledger before it is done, and its outcome after somebody looked. Whoever is killed in between leaves a
cordon that is `meant`; the next run looks at the node and writes down which it was. What others hold is left alone, always.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from healthcheck.store.cordons import Cordon, State, mean, open_cordons, releasing, settle
from healthcheck.store.file import Store
from healthcheck.store.ledger import lines
from provisioning.actions.base import ActionError, Backend, Held, Holder, marked

Clock = Callable[[], float]


@dataclass(frozen=True)
class Done:
    """What became of one node. `held`: no new job of the back end starts on it now, whoever saw to that."""

    node: str
    said: str
    held: bool
    failed: bool = False


def cordon(
    store: Store, backend: Backend, nodes: Sequence[str], why: str, who: str, clock: Clock, *, dry: bool = False,
    verdict: int | None = None,
) -> list[Done]:
    """Keeps new jobs away from these nodes; gives a line for each, in order. Raises ActionError where the back end cannot be asked.

    `verdict` is the one of triage in whose name it is done; what a person cordons, triage leaves to people.
    """
    if not dry:
        settle_meant(store, backend, clock)
    known = {one.node: one for one in open_cordons(store, nodes, backend.name)}
    done: dict[str, Done] = {}
    ours: list[Cordon] = []
    troubles: dict[str, str] = {}
    for node, held in backend.held(nodes).items():
        if held.holder is not Holder.NOBODY:
            done[node] = _left(node, held, known.get(node))
            continue
        if dry:
            done[node] = Done(node, f"would be cordoned in {backend.name}: {why}", held=False)
            continue
        if (stale := known.get(node)) is not None:
            settle(store, stale, State.VOID, "somebody gave the node back", clock())
        made = mean(store, node, backend.name, why, who, clock(), verdict)
        if made is None:
            done[node] = Done(node, "another muster is cordoning it", held=False, failed=True)
            continue
        ours.append(made)
        try:
            backend.isolate(node, marked(made.id, why))
        except ActionError as error:
            troubles[node] = str(error)
    done.update(_looked_at(store, backend, ours, troubles, clock))
    return [done[node] for node in nodes]


def _looked_at(store: Store, backend: Backend, made: Sequence[Cordon], troubles: dict[str, str], clock: Clock) -> dict[str, Done]:
    """What the back end shows of cordons that were just made, written down; it is believed more than what it said."""
    done: dict[str, Done] = {}
    seen = backend.held([one.node for one in made]) if made else {}
    for one in made:
        held = seen[one.node]
        if held.number == one.id:
            settle(store, one, State.HELD, "cordoned", clock())
            done[one.node] = Done(one.node, f"cordoned in {backend.name} as muster#{one.id}", held=True)
        else:
            why = troubles.get(one.node) or f"{backend.name} shows {held.holder.value}: {held.reason}"
            settle(store, one, State.VOID, f"not done: {why}", clock())
            done[one.node] = Done(one.node, f"NOT cordoned: {why}", held=held.holder is Holder.OTHERS, failed=True)
    return done


def _left(node: str, held: Held, cordon: Cordon | None) -> Done:
    if held.holder is Holder.ABSENT:
        return Done(node, "is not known there", held=False, failed=True)
    if cordon is not None and cordon.id == held.number:
        return Done(node, f"cordoned already as muster#{cordon.id}: {cordon.why}", held=True)
    if held.holder is Holder.OTHERS:
        return Done(node, f"left alone, others hold it: {held.reason}", held=True)
    return Done(node, f"left alone, a mark that this store does not know: {held.reason}", held=True)


def uncordon(
    store: Store, backend: Backend, nodes: Collection[str] | None, why: str, who: str, clock: Clock, *, dry: bool = False, saying: str = "",
) -> list[Done]:
    """Gives back what we hold among these nodes, or everything; what others hold by now stays theirs. Raises ActionError.

    Ours is what bears our cordon's number, and is `saying` this: another store counts from 1 as well.
    """
    if not dry:
        settle_meant(store, backend, clock)
    known = open_cordons(store, nodes, backend.name)
    done = [Done(node, "there is no cordon of ours", held=False) for node in nodes or () if node not in {one.node for one in known}]
    seen = backend.held([one.node for one in known]) if known else {}
    if dry:
        return done + [_would_be_given_back(one, seen[one.node]) for one in known]
    ours = [one for one in known if _is(one, seen[one.node], saying)]
    begun: dict[str, int] = {}
    troubles: dict[str, str] = {}
    for one in ours:
        begun[one.node] = releasing(store, one, why, who, clock())
        try:
            backend.release(one.node)
        except ActionError as error:
            troubles[one.node] = str(error)
    # One look for all: where there are a thousand nodes it is a long one.
    now = backend.held([one.node for one in ours]) if ours else {}
    for one in known:
        if one.node in now:
            kept = _is(one, now[one.node], saying)
            done.append(_given_back(store, one, begun[one.node], now[one.node], kept, troubles.get(one.node, ""), clock))
        else:
            done.append(_lost(store, one, releasing(store, one, why, who, clock()), seen[one.node], clock))
    return done


def _is(one: Cordon, held: Held, saying: str) -> bool:
    """Whether it is this cordon that a node shows; a back end that lost the words and kept the mark shows it, too."""
    return held.number == one.id and (saying in held.reason or not held.reason.partition(":")[2].strip())


def _would_be_given_back(one: Cordon, held: Held) -> Done:
    ours = held.number == one.id
    return Done(one.node, f"muster#{one.id} would be released" if ours else f"would be left alone: {held.reason or held.holder.value}",
                held=ours)


def _lost(store: Store, one: Cordon, line: int, held: Held, clock: Clock) -> Done:
    """What is not ours any more is only written down."""
    free = held.holder in (Holder.NOBODY, Holder.ABSENT)
    said = ("somebody had given it back" if held.holder is Holder.NOBODY else "it is not known there any more" if free
            else f"left alone, others hold it now: {held.reason}")
    settle(store, one, State.VOID, said, clock(), line)
    return Done(one.node, said, held=not free)


def _given_back(store: Store, one: Cordon, line: int, now: Held, kept: bool, trouble: str, clock: Clock) -> Done:
    if kept:
        said = trouble or "it is held all the same"
        settle(store, one, State.HELD, f"not done: {said}", clock(), line)
        return Done(one.node, f"NOT released: {said}", held=True, failed=True)
    settle(store, one, State.RELEASED, "released", clock(), line)
    return Done(one.node, f"muster#{one.id} is released", held=now.holder is not Holder.NOBODY)


def settle_meant(store: Store, backend: Backend, clock: Clock) -> None:
    """Looks at every deed of which nobody knows whether it was done, and writes down which it was."""
    known = open_cordons(store, backend=backend.name)
    cut = {line.node: line.id for line in lines(store)
           if line.outcome is None and (line.action, line.evidence) == ("uncordon", backend.name)}
    doubtful = [one for one in known if one.state is State.MEANT or one.node in cut]
    seen = backend.held([one.node for one in doubtful]) if doubtful else {}
    for one in doubtful:
        held = seen[one.node].number == one.id
        if one.state is State.MEANT:
            settle(store, one, State.HELD if held else State.VOID, f"{'cordoned' if held else 'not done'}; found so later", clock())
        else:
            settle(store, one, State.HELD if held else State.RELEASED, f"{'not done' if held else 'released'}; found so later", clock(),
                   cut[one.node])
