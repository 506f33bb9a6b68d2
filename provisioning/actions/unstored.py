"""Cordons nodes without the store: each under a mark of its own, which the store takes in later
(`healthcheck.store.waiting`). As there: read, write down, read, change, read again."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from healthcheck.store import waiting
from healthcheck.store.marks import CordonMark
from healthcheck.store.waiting import WaitingCordon
from inventory.errors import StoreError
from provisioning.actions.base import (
    ActionError,
    Backend,
    Holder,
    NodeHold,
    check_unchanged,
    file_of,
    reason_with_mark,
)
from provisioning.actions.cordon import Clock, CordonResult


def cordon_unstored(
    folder: Path, backend: Backend, nodes: Sequence[str], why: str, who: str, clock: Clock, *,
    dry: bool = False,
) -> list[CordonResult]:
    """Keeps new jobs away from these nodes; a result for each, in order. Raises ActionError. Where even the
    file for what waits cannot be written, the line says what to type once the store works."""
    seen = backend.held(nodes)
    done: dict[str, CordonResult] = {}
    for node in dict.fromkeys(nodes):
        held = seen[node]
        if held.holder is not Holder.NO_ONE:
            done[node] = _not_free(node, held)
        elif dry:
            done[node] = CordonResult(node, f"would be cordoned in {backend.name}: {why}", held=False)
        else:
            mark = CordonMark(secrets.token_hex(4), 1)
            done[node] = _one(folder, backend, held, clock,
                              WaitingCordon(mark, node, backend.name, why, who, clock(), held.identity,
                                            file=file_of(backend)))
    return [done[node] for node in nodes]


def _one(
    folder: Path, backend: Backend, before: NodeHold, clock: Clock, cordon: WaitingCordon,
) -> CordonResult:
    node, lost = cordon.node, ""
    try:
        waiting.begin(folder, cordon)
    except StoreError as error:
        lost = f"; {error}: once the store works, type muster cordon adopt {node} --reason TEXT"
    trouble = ""
    try:
        check_unchanged(backend, node, "")
        backend.isolate(node, reason_with_mark(cordon.mark, cordon.why))
    except ActionError as error:
        trouble = str(error)
    try:
        now = backend.held([node])[node]
    except ActionError as error:
        return CordonResult(node, f"it is not known whether it is cordoned: {trouble or error}{lost}",
                            held=False, failed=True)
    ours = now.mark == cordon.mark
    message = (f"cordoned in {backend.name} as {cordon.mark}" if ours else
               f"NOT cordoned: {trouble or f'{backend.name} shows {now.holder.value}: {now.reason}'}")
    if not lost:
        with suppress(StoreError):      # whoever takes it in reads the node
            waiting.finish(folder, replace(cordon, held=ours, message=message, user=now.user,
                                           since=now.since))
    return CordonResult(node, f"{message}{lost if ours else ''}", held=now.holder is not Holder.NO_ONE,
                        failed=not ours and now.holder is Holder.NO_ONE)


def _not_free(node: str, held: NodeHold) -> CordonResult:
    if held.holder is Holder.ABSENT:
        return CordonResult(
            node, f"is not known there{f' ({held.reason})' if held.reason else ''}", held=False, failed=True)
    return CordonResult(node, f"left alone, it is held already: {held.reason}", held=True)
