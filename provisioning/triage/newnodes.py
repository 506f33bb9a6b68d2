"""Admits new nodes that a back end keeps from jobs: they get jobs once they have passed what a repaired node
must pass.

In Kubernetes the kubelet registers a node with a taint
(--register-with-taints=muster.dev/unproven=:NoSchedule). No one holds such a node: it can be cordoned and
leased as any other, and what anybody holds beside stays theirs when the taint goes. A node that registers
again is a new one: what was seen before that does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial

from healthcheck.model.faultkind import Isolation
from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.triage.past import FleetHistory, Repaired
from healthcheck.triage.plan import TriagePlan
from healthcheck.triage.policy import TriagePolicy
from healthcheck.triage.requalify import requalified
from provisioning.actions.base import Backend, Holder, NodeHold, ProbationNode, SupportsProbation, call_each
from provisioning.actions.cordon import CordonResult

Clock = Callable[[], float]
ACTION = "give to jobs"
_LONG_S = 2 * 86400.0       # a node that is new for longer is so for another reason than its sweeps


def admit(
    store: Store, backend: Backend, fleet: FleetHistory, plan: TriagePlan, policy: TriagePolicy, who: str,
    clock: Clock, *, dry: bool = False,
) -> list[CordonResult]:
    """Ends the probation of new nodes in service that are proven well; a line for each on probation. Raises
    ActionError. The ledger has a line before, and the outcome after a look."""
    if not isinstance(backend, SupportsProbation):
        return []
    waiting = backend.unproven([past.node for past in fleet.nodes])
    if not dry:
        _settle(store, backend, waiting, clock)
    worse = {verdict.node for verdict in plan.verdicts if verdict.isolation is not Isolation.NONE}
    done: list[CordonResult] = []
    requested: dict[str, int] = {}
    for past in fleet.nodes:
        new = waiting.get(past.node)
        if new is None:
            continue
        well, message = False, f"{backend.name} does not say since when it is there"
        if new.registered is not None:
            well, message = requalified(
                replace(past, repaired=(*past.repaired, Repaired(new.registered, "registered"))), policy,
                fleet.now)
        if not well or past.node in worse or past.leased:
            hint = ""
            if not well and new.registered is not None and fleet.now - new.registered > _LONG_S:
                hint = ("; new for days: do its DaemonSets tolerate the taint? See: muster privilege "
                        "kubernetes")
            done.append(CordonResult(
                past.node, f"new, and kept from jobs: {past.leased or message}{hint}", held=True))
        elif dry:
            done.append(CordonResult(past.node, f"new, and would be given to jobs: {message}", held=True))
        else:
            with store.writing() as db:
                requested[past.node] = ledger.begin(db, clock(), who, ACTION, past.node, message,
                                                    backend.name)
    troubles = call_each(
        backend, {node: partial(backend.prove, node, waiting[node].identity) for node in requested})
    left, held = (backend.unproven(list(requested)), backend.held(list(requested))) if requested else ({}, {})
    for node, line in requested.items():
        why = _kept_back(waiting[node], left.get(node), held[node], troubles.get(node, ""), backend.name)
        with store.writing() as db:
            ledger.finish(db, line, f"not done: {why}" if why else "done", clock())
        kept = bool(why) and held[node].holder is not Holder.ABSENT
        done.append(CordonResult(node, f"NOT given to jobs: {why}" if why else "new, and given to jobs",
                                 held=kept, failed=bool(why)))
    return done


def _kept_back(
    was: ProbationNode, new: ProbationNode | None, held: NodeHold, trouble: str, where: str,
) -> str:
    """Why a node was not given to jobs, by what the back end shows of it now; empty where it was."""
    if held.holder is Holder.ABSENT:
        return f"it is not known in {where} any more"
    if held.identity != was.identity:
        return f"another node of its name has registered in {where} meanwhile"
    return (trouble or f"{where} still shows it as new") if new is not None else ""


def _settle(store: Store, backend: Backend, waiting: Mapping[str, ProbationNode], clock: Clock) -> None:
    """Writes down what became of each change of unknown end; of a gone node no one ever will."""
    cut = [line for line in ledger.lines(store) if line.outcome is None and line.action == ACTION]
    if not cut or not isinstance(backend, SupportsProbation):
        return
    nodes = sorted({line.node for line in cut})
    left, held = backend.unproven([node for node in nodes if node not in waiting]), backend.held(nodes)
    with store.writing() as db:
        for line in cut:
            if held[line.node].holder is Holder.ABSENT:
                message = f"it is not known: it is not known in {backend.name} any more"
            else:
                message = f"{'not done' if line.node in {*waiting, *left} else 'done'}; found so later"
            ledger.finish(db, line.id, message, clock())
