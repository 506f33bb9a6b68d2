"""Adopts or forgets marks that no cordon of this store accounts for, and cordons of ours that a person
edited. As in `cordon`: read, change, read again, each change first in the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from healthcheck.store import cordons, ledger
from healthcheck.store.cordons import Cordon, CordonState, mean, open_cordons, settle
from healthcheck.store.file import Store
from healthcheck.store.marks import CordonMark
from healthcheck.store.strays import keep
from inventory.errors import UsageError
from inventory.text import clean
from provisioning.actions.base import (
    ActionError,
    Backend,
    Holder,
    NodeHold,
    SupportsRewrite,
    check_unchanged,
    file_of,
    reason_with_mark,
)
from provisioning.actions.cordon import Clock, CordonResult, identity_of, resolve_pending
from provisioning.actions.ownership import Whose, instead, strays, whose


def adopt(
    store: Store, backend: Backend, nodes: Sequence[str], why: str, who: str, clock: Clock, *,
    dry: bool = False, replace_ours: bool = False,
) -> list[CordonResult]:
    """Puts a mark of ours in place of what stands on these nodes, or with `replace_ours` of ours, too; a line
    for each. Only a person ends such a cordon. Raises UsageError for a back end that cannot, ActionError."""
    able = _able(backend)
    known, seen = _begin(store, backend, nodes, clock, dry)
    done: dict[str, CordonResult] = {}
    made: dict[str, Cordon] = {}
    troubles: dict[str, str] = {}
    for node in dict.fromkeys(nodes):
        held, one = seen[node], known.get(node)
        ours = replace_ours and one is not None and whose(one, held) is Whose.OURS
        if not ours and (left := _nothing_to_do(node, held, one)) is not None:
            done[node] = left
        elif dry:
            done[node] = CordonResult(node, f"would be adopted: {held.reason}", held=True)
        else:
            if one is not None:
                settle(store, one, CordonState.VOID, f"adopted again by {who}", clock())
            new = mean(store, node, backend.name, why, who, clock(), identity=identity_of(store, node, held),
                       file=file_of(backend))
            if new is None:
                done[node] = CordonResult(node, "another muster is cordoning it", held=True, failed=True)
                continue
            made[node] = new
            try:
                check_unchanged(backend, node, held.reason)
                able.rewrite(node, held.reason, reason_with_mark(new.mark, why))
            except ActionError as error:
                troubles[node] = str(error)
    now = backend.held(list(made)) if made else {}
    for node, new in made.items():
        if whose(new, now[node]) is Whose.OURS:
            cordons.held(store, new, f"adopted: {clean(seen[node].reason, 200)}", clock(), now[node].user,
                         now[node].since)
            done[node] = CordonResult(node, f"adopted as {new.mark}; it was {seen[node].reason}", held=True)
        else:
            trouble = troubles.get(
                node) or f"{backend.name} shows {now[node].holder.value}: {now[node].reason}"
            settle(store, new, CordonState.VOID, f"not done: {trouble}", clock())
            done[node] = CordonResult(
                node, f"NOT adopted: {trouble}", held=now[node].holder is not Holder.NO_ONE, failed=True)
    return _end(store, backend, nodes, done, now, clock)


def forget(
    store: Store, backend: Backend, nodes: Sequence[str], why: str, who: str, clock: Clock, *,
    dry: bool = False, mark: CordonMark | None = None,
) -> list[CordonResult]:
    """Takes marks that are no cordon of ours (or only `mark`) away; a line for each node, in order. What no
    one else holds goes back to jobs; a person's words stay, as theirs. Raises as `adopt`."""
    able = _able(backend)
    known, seen = _begin(store, backend, nodes, clock, dry)
    done: dict[str, CordonResult] = {}
    begun: dict[str, int] = {}
    troubles: dict[str, str] = {}
    for node in dict.fromkeys(nodes):
        held, one = seen[node], known.get(node)
        if mark is not None and held.mark != mark:
            done[node] = CordonResult(node, f"left alone, it does not show {mark} any more: "
                                      f"{held.reason or held.holder.value}",
                                      held=held.holder is not Holder.NO_ONE, failed=True)
        elif (left := _nothing_to_do(node, held, one)) is not None:
            done[node] = left
        elif dry:
            done[node] = CordonResult(node, f"would be forgotten: {held.reason}", held=one is not None)
        else:
            with store.writing() as db:
                begun[node] = ledger.begin(db, clock(), who, "forget", node, why, backend.name)
            try:
                check_unchanged(backend, node, held.reason)
                if one is not None:
                    able.rewrite(node, held.reason, without_mark(held.reason))
                else:
                    backend.release(node, held.reason if held.holder is Holder.US else "")
            except ActionError as error:
                troubles[node] = str(error)
    now = backend.held(list(begun)) if begun else {}
    for node, line in begun.items():
        gone = now[node].mark != seen[node].mark
        rest = ("it goes back to jobs" if now[node].holder is Holder.NO_ONE
                else f"others hold it: {now[node].reason}")
        message = (f"{seen[node].mark} is removed; {rest}" if gone
                   else f"NOT forgotten: {troubles.get(node) or 'it is still there'}")
        if gone and (one := known.get(node)) is not None:
            settle(store, one, CordonState.VOID, f"forgotten by {who}", clock())
        with store.writing() as db:
            ledger.finish(db, line, message if gone else f"not done: {message}", clock())
        done[node] = CordonResult(node, message, held=now[node].holder is not Holder.NO_ONE, failed=not gone)
    return _end(store, backend, nodes, done, now, clock)


def without_mark(reason: str) -> str:
    """What a person's hold is to show without our mark."""
    return reason.removeprefix("muster:").partition(":")[2].strip() or "a person holds it"


def _able(backend: Backend) -> SupportsRewrite:
    if not isinstance(backend, SupportsRewrite):
        raise UsageError(f"{backend.name} cannot replace a mark: release the node there by hand")
    return backend


def _begin(
    store: Store, backend: Backend, nodes: Sequence[str], clock: Clock, dry: bool,
) -> tuple[Mapping[str, Cordon], Mapping[str, NodeHold]]:
    if not dry:
        resolve_pending(store, backend, clock)
    ours = open_cordons(store, nodes, backend.name, file_of(backend))
    return {one.node: one for one in ours}, backend.held(nodes)


def _nothing_to_do(node: str, held: NodeHold, one: Cordon | None) -> CordonResult | None:
    """Why there is nothing to resolve on a node; None where there is."""
    if held.holder is Holder.ABSENT:
        return CordonResult(node, "is not known there", held=False, failed=True)
    if held.mark is None:
        message = ("no one holds it" if held.holder is Holder.NO_ONE
                   else f"left alone, others hold it: {held.reason}")
        return CordonResult(node, message, held=held.holder is Holder.OTHERS, failed=True)
    if one is not None and whose(one, held) is Whose.OURS:
        return CordonResult(node, f"is a cordon of ours already, {one.mark}: {one.why}", held=True)
    if one is not None and held.mark != one.mark:
        return CordonResult(node,
                            f"{instead(whose(one, held), one, held)}: run muster triage --apply first, which "
                            "records that", held=True, failed=True)
    return None


def _end(
    store: Store, backend: Backend, nodes: Sequence[str], done: Mapping[str, CordonResult],
    now: Mapping[str, NodeHold], clock: Clock,
) -> list[CordonResult]:
    keep(store, backend.name, now,
         strays(now, open_cordons(store, backend=backend.name, file=file_of(backend)),
                cordons.names(store)), clock())
    return [done[node] for node in nodes]
