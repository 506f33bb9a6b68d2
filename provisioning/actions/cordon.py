"""Cordons nodes and gives them back, through one back end and with the store as memory.

Each change enters the ledger before it is made, and its outcome after the node was read again. A process that
is killed in between leaves a cordon in state `meant`; the next run reads the node and records the outcome.
Nodes that others hold are never touched: all nodes are read once before, each again just before its change
(by the back end), and all once more afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from healthcheck.store import cordons
from healthcheck.store.cordons import Cordon, CordonState, mean, open_cordons, releasing, settle
from healthcheck.store.file import Store
from healthcheck.store.hardware import machine_identity
from healthcheck.store.ledger import lines
from healthcheck.store.marks import mark_of
from provisioning.actions.base import (
    ActionError,
    Backend,
    Holder,
    NodeHold,
    SupportsTakeover,
    call_each,
    check_unchanged,
    file_of,
    reason_with_mark,
)
from provisioning.actions.ownership import Whose, instead, whose, words

Clock = Callable[[], float]
NONE_OF_OURS = "there is no cordon of ours"


@dataclass(frozen=True)
class CordonResult:
    """The outcome for one node. `held`: no new job starts on it now, whoever holds it."""

    node: str
    message: str
    held: bool
    failed: bool = False


def document(done: Iterable[CordonResult]) -> dict[str, Any]:
    """What became of each node, as muster.outcomes/1."""
    return {"schema": "muster.outcomes/1", "nodes": [asdict(one) for one in done]}


@dataclass(frozen=True)
class CordonRequest:
    """A node to cordon, why, and the triage verdict behind it, if there is one."""

    node: str
    why: str
    verdict: int | None = None


def cordon(
    store: Store, backend: Backend, nodes: Sequence[str], why: str, who: str, clock: Clock, *,
    dry: bool = False, verdict: int | None = None,
) -> list[CordonResult]:
    """Keeps new jobs away from these nodes; a result for each, in order. Raises ActionError. `verdict` is
    triage's behind it: triage never releases what a person cordoned."""
    if not dry:
        resolve_pending(store, backend, clock)
    return cordon_each(
        store, backend, [CordonRequest(node, why, verdict) for node in nodes], who, clock, dry=dry)


def cordon_each(store: Store, backend: Backend, wants: Sequence[CordonRequest], who: str, clock: Clock, *,
                dry: bool = False) -> list[CordonResult]:
    """As `cordon`, each for a reason of its own."""
    nodes = [want.node for want in wants]
    known = {one.node: one for one in open_cordons(store, nodes, backend.name, file_of(backend))}
    seen = backend.held(nodes) if nodes else {}
    done: dict[str, CordonResult] = {}
    free: dict[str, CordonRequest] = {}
    for want in {want.node: want for want in wants}.values():
        node, held = want.node, seen[want.node]
        if held.holder is not Holder.NO_ONE:
            done[node] = _not_free(node, held, known.get(node))
        elif dry:
            done[node] = CordonResult(node, f"would be cordoned in {backend.name}: {want.why}", held=False)
        else:
            free[node] = want
    made: dict[str, Cordon] = {}

    def begin(node: str) -> None:
        want, stale = free[node], known.get(node)
        if stale is not None:
            settle(store, stale, CordonState.VOID, "someone gave the node back", clock())
        one = mean(store, node, backend.name, want.why, who, clock(), want.verdict,
                   identity_of(store, node, seen[node]), file_of(backend))
        if one is None:
            raise ActionError("another muster is cordoning it")
        made[node] = one
        check_unchanged(backend, node, "")
        cordons.asked(store, one)

    def put(node: str) -> None:
        backend.isolate(node, reason_with_mark(made[node].mark, free[node].why))

    troubles = call_each(backend, {node: partial(put, node) for node in free}, begin)
    # For cordons that were made, reading the nodes again gives the outcome.
    done |= {node: CordonResult(node, why, held=False, failed=True) for node, why in troubles.items()}
    done.update(_verify(store, backend, list(made.values()), troubles, clock))
    return [done[node] for node in nodes]


def identity_of(store: Store, node: str, held: NodeHold) -> str:
    """The machine of this name, by the back end, else by the newest sweep that read it; "" if unknown."""
    return held.identity or machine_identity(store, node)


def _verify(
    store: Store, backend: Backend, made: Sequence[Cordon], troubles: Mapping[str, str], clock: Clock,
) -> dict[str, CordonResult]:
    """Reads nodes again and records what became of new cordons; this outranks the back end's answer."""
    done: dict[str, CordonResult] = {}
    try:
        seen = backend.held([one.node for one in made]) if made else {}
    except ActionError as error:    # they stay `meant`: the next run reads them
        return {
            one.node: CordonResult(
                one.node, f"it is not known whether it is cordoned: {troubles.get(one.node) or error}",
                held=False, failed=True) for one in made}
    for one in made:
        held, trouble = seen[one.node], troubles.get(one.node, "")
        what = whose(one, held)
        if what is Whose.OURS:
            cordons.held(store, one, "cordoned", clock(), held.user, held.since)
            done[one.node] = CordonResult(one.node, f"cordoned in {backend.name} as {one.mark}", held=True)
        elif what is Whose.PERSON:
            message = f"cordoned in {backend.name} as {one.mark}, and {words(one, held)}"
            cordons.held(store, one, message, clock())
            done[one.node] = CordonResult(one.node, f"{message}: it is theirs", held=True)
        elif what is Whose.TAKEN:
            # Where nothing refused ours, someone wrote over it.
            message = instead(what, one, held)
            settle(store, one, CordonState.VOID,
                   f"not done: {message}" if trouble else f"cordoned, and {message}", clock())
            done[one.node] = CordonResult(one.node, f"left alone, {message}", held=True)
        else:
            why = trouble or f"{backend.name} shows {held.holder.value}: {held.reason}"
            settle(store, one, CordonState.VOID, f"not done: {why}", clock())
            done[one.node] = CordonResult(one.node, f"NOT cordoned: {why}", held=False, failed=True)
    return done


def _not_free(node: str, held: NodeHold, cordon: Cordon | None) -> CordonResult:
    if held.holder is Holder.ABSENT:
        return CordonResult(
            node, f"is not known there{f' ({held.reason})' if held.reason else ''}", held=False, failed=True)
    if cordon is not None and cordon.mark == held.mark:
        if whose(cordon, held) is Whose.PERSON:
            return CordonResult(node, f"left alone, {instead(Whose.PERSON, cordon, held)}", held=True)
        return CordonResult(node, f"cordoned already as {cordon.mark}: {cordon.why}", held=True)
    if held.holder is Holder.OTHERS:
        return CordonResult(node, f"left alone, others hold it: {held.reason}", held=True)
    return CordonResult(node, f"left alone, a mark that this store does not know: {held.reason}", held=True)


def uncordon(
    store: Store, backend: Backend, nodes: Collection[str] | None, why: str, who: str, clock: Clock, *,
    dry: bool = False, containing: str = "",
) -> list[CordonResult]:
    """Releases what we hold among these nodes, or all; what others hold stays theirs. Raises ActionError. A
    hold is ours by our mark and reason, `containing` this text: an older mark names no store."""
    if not dry:
        resolve_pending(store, backend, clock)
    reasons = dict.fromkeys(nodes, why) if nodes is not None else None
    return uncordon_each(store, backend, reasons, who, clock, why=why, dry=dry, containing=containing)


def uncordon_each(
    store: Store, backend: Backend, reasons: Mapping[str, str] | None, who: str, clock: Clock, *,
    why: str = "", dry: bool = False, containing: str = "",
) -> list[CordonResult]:
    """As `uncordon`, each for a reason of its own; with None all, because of `why`."""
    known = open_cordons(store, reasons, backend.name, file_of(backend))
    done = [CordonResult(node, NONE_OF_OURS, held=False) for node in reasons or ()
            if node not in {one.node for one in known}]
    seen = backend.held([one.node for one in known]) if known else {}
    states = {one.node: _ownership(store, one, seen[one.node], containing) for one in known}
    if dry:
        return done + [_would_release(one, seen[one.node], states[one.node]) for one in known]
    ours = {one.node: one for one in known if states[one.node] is Whose.OURS}
    begun: dict[str, int] = {}

    def begin(node: str) -> None:
        begun[node] = releasing(store, ours[node], (reasons or {}).get(node, why), who, clock())
        check_unchanged(backend, node, seen[node].reason)

    # In the order given: triage's is that of its plan. Next to another's hold the reason shown is theirs.
    order = [node for node in reasons if node in ours] if reasons is not None else list(ours)
    shown_by = {node: seen[node].reason if seen[node].holder is Holder.US else "" for node in order}
    troubles = call_each(
        backend, {node: partial(backend.release, node, shown_by[node]) for node in order}, begin)
    # One read for all: with a thousand nodes it takes long.
    trouble, now = "", dict[str, NodeHold]()
    try:
        now.update(backend.held(list(begun)) if begun else {})
    except ActionError as error:    # the ledger entries stay open: the next run reads the nodes
        trouble = str(error)
    repaired = _repaired(backend, {node: (seen[node], held) for node, held in now.items()})
    now |= repaired
    for one in known:
        state = states[one.node]
        if trouble and one.node in begun:
            message = f"it is not known whether it is released: {troubles.get(one.node) or trouble}"
            done.append(CordonResult(one.node, message, held=True, failed=True))
        elif one.node in now:
            done.append(_after_release(store, one, begun[one.node], now[one.node], containing,
                                       troubles.get(one.node, ""), clock, back=one.node in repaired))
        elif state is Whose.PERSON:
            done.append(_refused(one, seen[one.node]))
        else:
            line = releasing(store, one, (reasons or {}).get(one.node, why), who, clock())
            done.append(_record_lost(store, one, line, state, seen[one.node], clock))
    return done


def _repaired(backend: Backend, snapshots: Mapping[str, tuple[NodeHold, NodeHold]]) -> Mapping[str, NodeHold]:
    """Gives nodes back to whom our release took them from; returns what they then show."""
    if not isinstance(backend, SupportsTakeover):
        return {}
    theirs = {
        node: message for node, (before, after) in snapshots.items()
            if (message := backend.taken_from(before, after))}
    for node, message in theirs.items():
        with suppress(ActionError):     # the read below shows the outcome
            backend.isolate(node, message)
    return backend.held(list(theirs)) if theirs else {}


def _ownership(store: Store, one: Cordon, held: NodeHold, containing: str) -> Whose:
    """What became of a cordon, also where the back end lost the reason and kept the mark."""
    what = whose(one, held, machine_identity(store, one.node))
    if what is Whose.OURS and containing not in held.reason and held.reason.removeprefix(
        f"{one.mark}:").strip():
        return Whose.TAKEN
    return what


def _would_release(one: Cordon, held: NodeHold, what: Whose) -> CordonResult:
    ours = what is Whose.OURS
    return CordonResult(
        one.node,
        f"{one.mark} would be released" if ours
            else "would be left alone: "
                 f"{words(one, held) if what is Whose.PERSON else held.reason or held.holder.value}",
        held=ours)


def _refused(one: Cordon, held: NodeHold) -> CordonResult:
    node = one.node
    return CordonResult(node,
                        f"NOT released, {instead(Whose.PERSON, one, held)}; if they agree: muster cordon "
                        f"adopt {node} --reason TEXT, then muster uncordon {node}; to leave it to them: "
                        f"muster cordon forget {node} --reason TEXT", held=True, failed=True)


def _record_lost(
    store: Store, one: Cordon, line: int, what: Whose, held: NodeHold, clock: Clock,
) -> CordonResult:
    """Only records the outcome of a cordon that is not ours any more."""
    message = {
        Whose.FREE: "someone had given it back",
        Whose.TAKEN: f"left alone, {instead(Whose.TAKEN, one, held)}"}.get(what, instead(what, one, held))
    settle(store, one, CordonState.ANEW if what in (Whose.ANEW, Whose.ABSENT) else CordonState.VOID, message,
           clock(), line)
    return CordonResult(one.node, message, held=held.holder not in (Holder.NO_ONE, Holder.ABSENT))


def _after_release(
    store: Store, one: Cordon, line: int, now: NodeHold, containing: str, trouble: str, clock: Clock, *,
    back: bool = False,
) -> CordonResult:
    what = _ownership(store, one, now, containing)
    if what is Whose.PERSON:
        settle(store, one, CordonState.HELD, f"not done: {instead(what, one, now)}", clock(), line)
        return _refused(one, now)
    if what is Whose.OURS:
        message = trouble or "it is still held"
        settle(store, one, CordonState.HELD, f"not done: {message}", clock(), line)
        return CordonResult(one.node, f"NOT released: {message}", held=True, failed=True)
    if what is Whose.TAKEN and (trouble or back):
        return _record_lost(store, one, line, what, now, clock)
    settle(store, one, CordonState.RELEASED, "released", clock(), line)
    # A node that is down keeps the reason of its old drain.
    taken = what is Whose.TAKEN and mark_of(now.reason) != one.mark
    return CordonResult(
        one.node, f"{one.mark} is released" + (f"; {instead(what, one, now)}" if taken else ""),
        held=now.holder is not Holder.NO_ONE)


def resolve_pending(store: Store, backend: Backend, clock: Clock) -> None:
    """Reads every node whose change has an unknown outcome, and records the outcome."""
    known = open_cordons(store, backend=backend.name, file=file_of(backend))
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
            # It may have been done and undone since: nothing certain is recorded.
            message = ("not done; found so later" if one.asked
                       else f"not done: it was cut short before {backend.name} was asked")
            settle(store, one, CordonState.VOID, message, clock())
        else:
            settle(store, one, CordonState.HELD if held else CordonState.RELEASED,
                   f"{'not done' if held else 'released'}; found so later", clock(), cut[one.node])
