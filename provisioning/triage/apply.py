"""Carries out a triage plan: verdicts, cordons and releases, each with a ledger entry. What the plan says is
what is done, in its order; no one decides here. Whoever is killed between two steps leaves the rest to the
next run, whose plan has what is left. One triage at a time acts on a store (`provisioning.triage.onerun`)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

from healthcheck.store import cordons
from healthcheck.store.cordons import Cordon, CordonState, open_cordons
from healthcheck.store.file import Store
from healthcheck.store.hardware import machine_identity
from healthcheck.store.marks import CordonMark
from healthcheck.store.strays import Stray, StrayKind
from healthcheck.store.verdicts import open_breaker, write
from healthcheck.triage.gather import ANEW
from healthcheck.triage.plan import Act, TriagePlan
from provisioning.actions.authored import words_of
from provisioning.actions.base import (
    AcknowledgedChange,
    ActionError,
    Backend,
    Holder,
    NodeHold,
    SupportsLostChanges,
    SupportsReboot,
    call_each,
    check_unchanged,
    file_of,
    reason_with_mark,
)
from provisioning.actions.cordon import (
    Clock,
    CordonRequest,
    CordonResult,
    cordon_each,
    resolve_pending,
    uncordon_each,
)
from provisioning.actions.ownership import Whose, dropped, instead, whose
from provisioning.actions.ownership import strays as strays_of
from provisioning.actions.reboot import resolve_reboots
from provisioning.lease.check import give_back_abandoned


def shown(store: Store, backend: Backend, nodes: Collection[str]) -> Mapping[str, NodeHold]:
    """Who holds these nodes, and those that we hold by the store. Raises ActionError."""
    ours = open_cordons(store, backend=backend.name, file=file_of(backend))
    nodes_to_read = {one.node for one in ours} | set(nodes)
    return backend.held(sorted(nodes_to_read)) if nodes_to_read else {}


def lost(
    seen: Mapping[str, NodeHold], backend: str, ours: Collection[Cordon] = (),
    forgot: Mapping[str, str] = MappingProxyType({}), machines: Mapping[str, str] = MappingProxyType({}),
) -> Callable[[str, str, CordonMark], str]:
    """For `gather`: who holds a node instead of our cordon. `ours` are our cordons, `forgot` what the
    controller lost of them, which is not over, `machines` what bears each node's name now."""
    known = {(one.node, one.mark): one for one in ours}

    def ask(node: str, where: str, mark: CordonMark) -> str:
        if where != backend or node not in seen or node in forgot:
            return ""
        one = known.get((node, mark))
        if one is None:
            return "" if seen[node].mark == mark else _instead(seen[node])
        what = whose(one, seen[node], machines.get(node, ""))
        return ANEW if what is Whose.ANEW else instead(what, one, seen[node])
    return ask


def others(seen: Mapping[str, NodeHold], strays: Collection[Stray] = ()) -> Callable[[str], str]:
    """For `gather`: who but us keeps jobs from a node; `strays` are marks of none of our cordons."""
    strange = {one.node: one for one in strays}

    def ask(node: str) -> str:
        held = seen.get(node)
        if held is None:
            return ""
        if (stray := strange.get(node)) is not None:
            return (f"a person holds it: {stray.words}" if stray.kind is StrayKind.PERSON
                    else f"{stray.mark} holds it, {KINDS[stray.kind]}")
        if held.holder is Holder.ABSENT:
            return f"it is not known to the back end{f' ({held.reason})' if held.reason else ''}"
        return f"others hold it: {held.reason}" if held.holder is Holder.OTHERS else ""
    return ask


KINDS = {StrayKind.STORE: "a mark of a store that this one does not know",
         StrayKind.NUMBER: "a mark of ours of which this store has no open cordon"}


def _instead(held: NodeHold) -> str:
    if held.holder is Holder.NO_ONE:
        return "someone gave it back"
    return ("it is not known there any more" if held.holder is Holder.ABSENT
            else f"others hold it now: {held.reason}")


@dataclass(frozen=True)
class BackendView:
    """What a snapshot of the back end says beside the store: for `gather`, and what is to be said of it."""

    lost: Callable[[str, str, CordonMark], str]
    others: Callable[[str], str]
    strays: tuple[Stray, ...] = ()
    forgot: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def view(store: Store, backend: Backend, seen: Mapping[str, NodeHold]) -> BackendView:
    """Raises ActionError."""
    ours = open_cordons(store, backend=backend.name, file=file_of(backend))
    found = tuple(strays_of(seen, ours, cordons.names(store)))
    forgot = forgotten(backend, [one for one in ours if one.state is CordonState.HELD], seen)
    machines = {one.node: machine_identity(store, one.node) for one in ours if one.identity}
    return BackendView(lost(seen, backend.name, ours, forgot, machines), others(seen, found), found, forgot)


def forgotten(backend: Backend, ours: Sequence[Cordon], seen: Mapping[str, NodeHold]) -> Mapping[str, str]:
    """Which of our cordons that no one holds the controller ended or lost, by node with how that is known.
    One that an earlier run's snapshot shows was saved: a person ended it. Raises ActionError."""
    ended = {one.node: why for one in ours if one.node in seen and (why := dropped(one, seen[one.node]))}
    gone = {
        one.node: AcknowledgedChange(one.mark, one.stamp if one.stamp is not None else one.began)
        for one in ours
        if one.shown is None and one.node in seen and one.node not in ended
            and (seen[one.node].holder is Holder.NO_ONE or seen[one.node].itself)}
    return {**ended, **(backend.forgot(gone) if gone and isinstance(backend, SupportsLostChanges) else {})}


def resolve_lost(store: Store, backend: Backend, who: str, clock: Clock) -> list[CordonResult]:
    """Writes down which of our cordons people ended or took over, and makes again what the controller lost; a
    line for each of these, and for nodes that are gone or others now. Raises ActionError."""
    over = cordons.last_ended(store, backend.name, file_of(backend))
    ours = [one for one in open_cordons(store, backend=backend.name, file=file_of(backend))
            if one.state is CordonState.HELD]
    nodes_to_read = {one.node for one in (*over, *ours)}
    seen = backend.held(sorted(nodes_to_read)) if nodes_to_read else {}
    forgot = forgotten(backend, ours, seen)
    there: list[Cordon] = []
    again: list[Cordon] = []
    done: list[CordonResult] = []
    for one in ours:
        what = whose(one, seen[one.node], machine_identity(store, one.node))
        if what is Whose.OURS:
            there.append(one)
        elif what is Whose.FREE and one.node in forgot:
            again.append(one)
        # what is down now is cordoned again once it is there
        elif what is not Whose.PERSON and one.node not in forgot:
            # A node that was deleted was given back by no one: it may register again.
            state = CordonState.ANEW if what in (Whose.ANEW, Whose.ABSENT) else CordonState.VOID
            cordons.lost(store, one, instead(what, one, seen[one.node]), who, clock(), state)
            if state is CordonState.ANEW:
                done.append(CordonResult(one.node,
                                         f"{one.mark} is over: {instead(what, one, seen[one.node])}; it was "
                                         f"for: {one.why}", held=False))
    cordons.shown(store, there, clock())
    return done + _again(
        store, backend, again, forgot, who, clock) + _not_over(store, backend, over, seen, who, clock)


def _again(
    store: Store, backend: Backend, ours: Sequence[Cordon], forgot: Mapping[str, str], who: str, clock: Clock,
) -> list[CordonResult]:
    """Makes cordons again, under their marks."""
    begun = {
        one.node: cordons.again(
            store, one, f"{backend.name} lost {one.mark}: {forgot[one.node]}", who, clock()) for one in ours}
    troubles = call_each(
        backend,
        {one.node: partial(backend.isolate, one.node, reason_with_mark(one.mark, one.why)) for one in ours},
        lambda node: check_unchanged(backend, node, ""))
    now = backend.held(list(begun)) if begun else {}
    done = []
    for one in ours:
        held = now[one.node]
        if whose(one, held) is Whose.OURS:
            message = f"cordoned again as {one.mark}: {backend.name} lost it, as {forgot[one.node]}"
            cordons.held(store, one, message, clock(), held.user, held.since, begun[one.node])
            done.append(CordonResult(one.node, message, held=True))
        else:       # the next run looks at it again
            why = troubles.get(one.node) or f"{backend.name} shows {held.holder.value}: {held.reason}"
            cordons.settle(store, one, CordonState.HELD, f"not done: {why}", clock(), begun[one.node])
            done.append(CordonResult(one.node, f"NOT cordoned again: {why}",
                                     held=held.holder is Holder.OTHERS, failed=True))
    return done


def _not_over(
    store: Store, backend: Backend, over: Sequence[Cordon], seen: Mapping[str, NodeHold], who: str,
    clock: Clock,
) -> list[CordonResult]:
    """What was written down as over and is shown as we set it: a change that landed after we had given it up
    is ours; a release that the controller lost is made again."""
    back = [one for one in over if whose(one, seen[one.node]) is Whose.OURS]
    for one in back:
        if one.state is not CordonState.RELEASED:
            cordons.reopen(store, one, "it is there after all", who, clock())
    released = {one.node: one for one in back if one.state is CordonState.RELEASED}
    if not released or not isinstance(backend, SupportsLostChanges):
        return []
    forgot = backend.forgot(
        {node: AcknowledgedChange(one.mark, one.ended or one.began) for node, one in released.items()})
    for node in forgot:
        cordons.reopen(
            store, released[node], f"{backend.name} lost that it was released: {forgot[node]}", who, clock())
    return uncordon_each(
        store, backend, dict.fromkeys(forgot, f"{backend.name} lost the release"), who, clock)


def settle(store: Store, backend: Backend, who: str, clock: Clock) -> list[CordonResult]:
    """Writes down what became of changes of unknown end and what people did, gives back a dead process's
    leases, and makes again what the controller lost, with a line each. Raises ActionError."""
    resolve_pending(store, backend, clock)
    give_back_abandoned(store, backend, who, clock)
    if isinstance(backend, SupportsReboot):
        resolve_reboots(store, backend, clock)
    return resolve_lost(store, backend, who, clock)


def apply(store: Store, backend: Backend, plan: TriagePlan, who: str, clock: Clock,
          on_result: Callable[[CordonResult], None]) -> list[CordonResult]:
    """Writes the plan's verdicts, then does its steps, releases first, and tells of each. A step whose node
    changed hands since is not taken: the back end is checked before each. Raises StoreError."""
    # The breaker opens when all is done: whoever finds it open takes no step that a killed run has left.
    verdicts = write(store, plan, opens=False)
    releases = [step for step in plan.steps if step.act is Act.RELEASE]
    elsewhere = {step.node: step.backend for step in releases if step.backend != backend.name}
    reasons = {step.node: step.why for step in releases if step.node not in elsewhere}
    wants = [CordonRequest(step.node, words_of(step.why, step.verdict), verdicts[step.node])
             for step in plan.steps if step.act is Act.ISOLATE]
    done: list[CordonResult] = []
    try:
        done += uncordon_each(store, backend, reasons, who, clock)
    except ActionError as error:    # no one could look, so nothing was done
        done += [CordonResult(node, f"NOT released: {error}", held=True, failed=True) for node in reasons]
    done += [CordonResult(node, f"NOT released: it is held in {where}, and this is {backend.name}", held=True,
                          failed=True) for node, where in elsewhere.items()]
    for one in done:
        on_result(one)
    try:
        isolated = cordon_each(store, backend, wants, who, clock)
    except ActionError as error:
        isolated = [
            CordonResult(want.node, f"NOT cordoned: {error}", held=False, failed=True) for want in wants]
    for one in isolated:
        on_result(one)
    with store.writing() as db:
        open_breaker(db, plan)
    return done + isolated
