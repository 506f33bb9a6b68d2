"""Restores removed parts of a cordon of ours, such as a taint that `kubectl taint` took."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from healthcheck.store import ledger
from healthcheck.store.cordons import CordonState, open_cordons
from healthcheck.store.file import Store
from provisioning.actions.base import Backend, SupportsMend, call_each, file_of, reason_with_mark
from provisioning.actions.cordon import CordonResult

Clock = Callable[[], float]
ACTION = "mend"


def mend(store: Store, backend: Backend, who: str, clock: Clock, *, dry: bool = False) -> list[CordonResult]:
    """Afterwards each mark of ours that held in part is whole; a line for each that was not. What the back
    end shows last is believed, also of a ledger line of unknown end. Raises ActionError."""
    if not isinstance(backend, SupportsMend):
        return []
    known = {
        one.node: one for one in open_cordons(store, backend=backend.name, file=file_of(backend))
        if one.state is CordonState.HELD}
    seen = backend.held(sorted(known)) if known else {}
    part = {node: one for node, one in known.items() if seen[node].mark == one.mark and seen[node].lacks}
    if dry:
        return [CordonResult(node, f"{one.mark} has lost {seen[node].lacks}, which would be put back",
                             held=True) for node, one in part.items()]
    cut = [line for line in ledger.lines(store) if line.outcome is None and line.action == ACTION]
    with store.writing() as db:
        for line in cut:
            ledger.finish(
                db, line.id, f"{'not done' if line.node in part else 'done'}; found so later", clock())
        begun = {
            node: ledger.begin(db, clock(), who, ACTION, node, f"{one.mark} has lost {seen[node].lacks}",
                               backend.name) for node, one in part.items()}
    troubles = call_each(backend,
                         {
                             node: partial(backend.mend, node, reason_with_mark(one.mark, one.why))
                                 for node, one in part.items()})
    now = backend.held(list(part)) if part else {}
    done = []
    for node, one in part.items():
        whole = now[node].mark == one.mark and not now[node].lacks
        why = "" if whole else troubles.get(
            node) or f"{backend.name} shows {now[node].holder.value}: {now[node].reason}"
        with store.writing() as db:
            ledger.finish(db, begun[node], f"not done: {why}" if why else "done", clock())
        message = (f"{one.mark} had lost {seen[node].lacks}, which {'was NOT' if why else 'was'} put "
                   f"back{f': {why}' if why else ''}")
        done.append(CordonResult(node, message, held=True, failed=bool(why)))
    return done
