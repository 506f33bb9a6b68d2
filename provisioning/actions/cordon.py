"""Cordons nodes and gives them back, through one back end and with the store as memory.

Each change is written into the ledger before it is made, and its outcome after somebody looked. Whoever is killed in between leaves a
cordon that is `meant`; the next run looks at the node and writes down which it was. What others hold is left alone, always: all nodes are
read once before, each again just before its change (by the back end), and all once more afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from healthcheck.store import cordons
from healthcheck.store.cordons import Cordon, CordonState, mean, open_cordons, releasing, settle
from healthcheck.store.file import Store
from healthcheck.store.hardware import machine_identity
from healthcheck.store.ledger import lines
from healthcheck.store.marks import mark_of
from provisioning.actions.base import ActionError, Backend, Holder, NodeHold, Tracks, each, marked, still
from provisioning.actions.ownership import Whose, instead, whose, words

Clock = Callable[[], float]


@dataclass(frozen=True)
class CordonResult:
    """What became of one node. `held`: no new job of the back end starts on it now, whoever saw to that."""

    node: str
    said: str
    held: bool
    failed: bool = False


@dataclass(frozen=True)
class CordonRequest:
    """A node to be cordoned, why, and the verdict of triage in whose name, if it is triage that wants it."""

    node: str
    why: str
    verdict: int | None = None


def cordon(
    store: Store, backend: Backend, nodes: Sequence[str], why: str, who: str, clock: Clock, *, dry: bool = False,
    verdict: int | None = None,
) -> list[CordonResult]:
    """Keeps new jobs away from these nodes; gives a line for each, in order. Raises ActionError where the back end cannot be asked.

    `verdict` is the one of triage in whose name it is done; what a person cordons, triage leaves to people.
    """
    if not dry:
        settle_meant(store, backend, clock)
    return cordon_each(store, backend, [CordonRequest(node, why, verdict) for node in nodes], who, clock, dry=dry)


def cordon_each(store: Store, backend: Backend, wants: Sequence[CordonRequest], who: str, clock: Clock, *,
                dry: bool = False) -> list[CordonResult]:
    """As `cordon`, each for a reason of its own."""
    nodes = [want.node for want in wants]
    known = {one.node: one for one in open_cordons(store, nodes, backend.name)}
    seen = backend.held(nodes) if nodes else {}
    done: dict[str, CordonResult] = {}
    free: dict[str, CordonRequest] = {}
    for want in {want.node: want for want in wants}.values():
        node, held = want.node, seen[want.node]
        if held.holder is not Holder.NOBODY:
            done[node] = _left(node, held, known.get(node))
        elif dry:
            done[node] = CordonResult(node, f"would be cordoned in {backend.name}: {want.why}", held=False)
        else:
            free[node] = want
    made: dict[str, Cordon] = {}

    def begin(node: str) -> None:
        want, stale = free[node], known.get(node)
        if stale is not None:
            settle(store, stale, CordonState.VOID, "somebody gave the node back", clock())
        one = mean(store, node, backend.name, want.why, who, clock(), want.verdict, identity_of(store, node, seen[node]))
        if one is None:
            raise ActionError("another muster is cordoning it")
        made[node] = one
        still(backend, node, "")
        cordons.asked(store, one)

    def put(node: str) -> None:
        backend.isolate(node, marked(made[node].mark, free[node].why))

    troubles = each(backend, {node: partial(put, node) for node in free}, begin)
    # Of what was made a look says what became of it.
    done |= {node: CordonResult(node, why, held=False, failed=True) for node, why in troubles.items()}
    done.update(_looked_at(store, backend, list(made.values()), troubles, clock))
    return [done[node] for node in nodes]


def identity_of(store: Store, node: str, held: NodeHold) -> str:
    """What bears the node's name: as the back end says, else as the newest sweep that read it does; empty where nobody knows."""
    return held.identity or machine_identity(store, node)


def _looked_at(store: Store, backend: Backend, made: Sequence[Cordon], troubles: Mapping[str, str], clock: Clock) -> dict[str,
                                                                                                                          CordonResult]:
    """What the back end shows of cordons that were just made, written down; it is believed more than what it said."""
    done: dict[str, CordonResult] = {}
    try:
        seen = backend.held([one.node for one in made]) if made else {}
    except ActionError as error:    # they stay meant: the next run looks
        return {one.node: CordonResult(one.node, f"nobody knows whether it is cordoned: {troubles.get(one.node) or error}", held=False,
                                       failed=True)
                for one in made}
    for one in made:
        held, trouble = seen[one.node], troubles.get(one.node, "")
        what = whose(one, held)
        if what is Whose.OURS:
            cordons.held(store, one, "cordoned", clock(), held.user, held.since)
            done[one.node] = CordonResult(one.node, f"cordoned in {backend.name} as {one.mark}", held=True)
        elif what is Whose.PERSON:
            said = f"cordoned in {backend.name} as {one.mark}, and {words(one, held)}"
            cordons.held(store, one, said, clock())
            done[one.node] = CordonResult(one.node, f"{said}: it is theirs", held=True)
        elif what is Whose.TAKEN:
            # Where nothing refused ours, somebody wrote over it.
            said = instead(what, one, held)
            settle(store, one, CordonState.VOID, f"not done: {said}" if trouble else f"cordoned, and {said}", clock())
            done[one.node] = CordonResult(one.node, f"left alone, {said}", held=True)
        else:
            why = trouble or f"{backend.name} shows {held.holder.value}: {held.reason}"
            settle(store, one, CordonState.VOID, f"not done: {why}", clock())
            done[one.node] = CordonResult(one.node, f"NOT cordoned: {why}", held=False, failed=True)
    return done


def _left(node: str, held: NodeHold, cordon: Cordon | None) -> CordonResult:
    if held.holder is Holder.ABSENT:
        return CordonResult(node, f"is not known there{f' ({held.reason})' if held.reason else ''}", held=False, failed=True)
    if cordon is not None and cordon.mark == held.mark:
        if whose(cordon, held) is Whose.PERSON:
            return CordonResult(node, f"left alone, {instead(Whose.PERSON, cordon, held)}", held=True)
        return CordonResult(node, f"cordoned already as {cordon.mark}: {cordon.why}", held=True)
    if held.holder is Holder.OTHERS:
        return CordonResult(node, f"left alone, others hold it: {held.reason}", held=True)
    return CordonResult(node, f"left alone, a mark that this store does not know: {held.reason}", held=True)


def uncordon(
    store: Store, backend: Backend, nodes: Collection[str] | None, why: str, who: str, clock: Clock, *, dry: bool = False,
    saying: str = "",
) -> list[CordonResult]:
    """Gives back what we hold among these nodes, or everything; what others hold by now stays theirs. Raises ActionError.

    Ours is what bears our cordon's mark and words as we set them, and is `saying` this: an older mark names no store.
    """
    if not dry:
        settle_meant(store, backend, clock)
    whys = dict.fromkeys(nodes, why) if nodes is not None else None
    return uncordon_each(store, backend, whys, who, clock, why=why, dry=dry, saying=saying)


def uncordon_each(
    store: Store, backend: Backend, whys: Mapping[str, str] | None, who: str, clock: Clock, *, why: str = "", dry: bool = False,
    saying: str = "",
) -> list[CordonResult]:
    """As `uncordon`, each for a reason of its own; with None all, because of `why`."""
    known = open_cordons(store, whys, backend.name)
    done = [CordonResult(node, "there is no cordon of ours", held=False) for node in whys or () if node not in {one.node for one in known}]
    seen = backend.held([one.node for one in known]) if known else {}
    states = {one.node: _what(store, one, seen[one.node], saying) for one in known}
    if dry:
        return done + [_would_be_given_back(one, seen[one.node], states[one.node]) for one in known]
    ours = {one.node: one for one in known if states[one.node] is Whose.OURS}
    begun: dict[str, int] = {}

    def begin(node: str) -> None:
        begun[node] = releasing(store, ours[node], (whys or {}).get(node, why), who, clock())
        still(backend, node, seen[node].reason)

    # In the order in which they were named: triage's is that of its plan. Beside another's hold the words that are shown are theirs.
    order = [node for node in whys if node in ours] if whys is not None else list(ours)
    words_of = {node: seen[node].reason if seen[node].holder is Holder.US else "" for node in order}
    troubles = each(backend, {node: partial(backend.release, node, words_of[node]) for node in order}, begin)
    # One look for all: where there are a thousand nodes it is a long one.
    trouble, now = "", dict[str, NodeHold]()
    try:
        now.update(backend.held(list(begun)) if begun else {})
    except ActionError as error:    # the lines of the ledger stay open: the next run looks
        trouble = str(error)
    repaired = _repaired(backend, {node: (seen[node], held) for node, held in now.items()})
    now |= repaired
    for one in known:
        state = states[one.node]
        if trouble and one.node in begun:
            said = f"nobody knows whether it is released: {troubles.get(one.node) or trouble}"
            done.append(CordonResult(one.node, said, held=True, failed=True))
        elif one.node in now:
            done.append(_given_back(store, one, begun[one.node], now[one.node], saying, troubles.get(one.node, ""), clock,
                                    back=one.node in repaired))
        elif state is Whose.PERSON:
            done.append(_refused(one, seen[one.node]))
        else:
            line = releasing(store, one, (whys or {}).get(one.node, why), who, clock())
            done.append(_lost(store, one, line, state, seen[one.node], clock))
    return done


def _repaired(backend: Backend, looks: Mapping[str, tuple[NodeHold, NodeHold]]) -> Mapping[str, NodeHold]:
    """Gives nodes back to whoever had taken them over just before our release; what they show afterwards. `looks`: before and after it."""
    if not isinstance(backend, Tracks):
        return {}
    theirs = {node: said for node, (before, after) in looks.items() if (said := backend.taken_from(before, after))}
    for node, said in theirs.items():
        with suppress(ActionError):     # what came of it is looked at
            backend.isolate(node, said)
    return backend.held(list(theirs)) if theirs else {}


def _what(store: Store, one: Cordon, held: NodeHold, saying: str) -> Whose:
    """What became of a cordon; a back end that lost the words and kept the mark shows it, too."""
    what = whose(one, held, machine_identity(store, one.node))
    if what is Whose.OURS and saying not in held.reason and held.reason.removeprefix(f"{one.mark}:").strip():
        return Whose.TAKEN
    return what


def _would_be_given_back(one: Cordon, held: NodeHold, what: Whose) -> CordonResult:
    ours = what is Whose.OURS
    return CordonResult(one.node, f"{one.mark} would be released" if ours
                        else f"would be left alone: {words(one, held) if what is Whose.PERSON else held.reason or held.holder.value}",
                        held=ours)


def _refused(one: Cordon, held: NodeHold) -> CordonResult:
    node = one.node
    return CordonResult(node,
                        f"NOT released, {instead(Whose.PERSON, one, held)}; where they agree: muster cordon adopt {node} --reason TEXT, "
                        f"then "
                      f"muster uncordon {node}; to leave it to them: muster cordon forget {node} --reason TEXT", held=True, failed=True)


def _lost(store: Store, one: Cordon, line: int, what: Whose, held: NodeHold, clock: Clock) -> CordonResult:
    """What is not ours any more is only written down."""
    said = {Whose.FREE: "somebody had given it back", Whose.TAKEN: f"left alone, {instead(Whose.TAKEN, one, held)}"}.get(
        what, instead(what, one, held))
    settle(store, one, CordonState.ANEW if what in (Whose.ANEW, Whose.ABSENT) else CordonState.VOID, said, clock(), line)
    return CordonResult(one.node, said, held=held.holder not in (Holder.NOBODY, Holder.ABSENT))


def _given_back(store: Store, one: Cordon, line: int, now: NodeHold, saying: str, trouble: str, clock: Clock, *,
                back: bool = False) -> CordonResult:
    what = _what(store, one, now, saying)
    if what is Whose.PERSON:
        settle(store, one, CordonState.HELD, f"not done: {instead(what, one, now)}", clock(), line)
        return _refused(one, now)
    if what is Whose.OURS:
        said = trouble or "it is held all the same"
        settle(store, one, CordonState.HELD, f"not done: {said}", clock(), line)
        return CordonResult(one.node, f"NOT released: {said}", held=True, failed=True)
    if what is Whose.TAKEN and (trouble or back):
        return _lost(store, one, line, what, now, clock)
    settle(store, one, CordonState.RELEASED, "released", clock(), line)
    # What is down keeps the reason of the drain that it had.
    taken = what is Whose.TAKEN and mark_of(now.reason) != one.mark
    return CordonResult(one.node, f"{one.mark} is released" + (f"; {instead(what, one, now)}" if taken else ""),
                        held=now.holder is not Holder.NOBODY)


def settle_meant(store: Store, backend: Backend, clock: Clock) -> None:
    """Looks at every change of which nobody knows whether it was made, and writes down which it was."""
    known = open_cordons(store, backend=backend.name)
    cut = {line.node: line.id for line in lines(store)
           if line.outcome is None and (line.action, line.evidence) == ("uncordon", backend.name)}
    doubtful = [one for one in known if one.state is CordonState.MEANT or one.node in cut]
    seen = backend.held([one.node for one in doubtful]) if doubtful else {}
    for one in doubtful:
        now = seen[one.node]
        held = now.mark == one.mark
        if one.state is CordonState.MEANT and held:
            ours = whose(one, now) is Whose.OURS
            cordons.held(store, one, "cordoned; found so later", clock(), now.user if ours else "", now.since)
        elif one.state is CordonState.MEANT:
            # What may have been done, and undone since, is not taken for certain.
            said = "not done; found so later" if one.asked else f"not done: it was cut short before {backend.name} was asked"
            settle(store, one, CordonState.VOID, said, clock())
        else:
            settle(store, one, CordonState.HELD if held else CordonState.RELEASED, f"{'not done' if held else 'released'}; found so later",
                   clock(),
                   cut[one.node])
