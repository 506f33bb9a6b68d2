"""New nodes that a back end keeps from jobs from their first moment on: given to jobs once they have shown what a repaired one must show.

In Kubernetes the kubelet registers a node with a taint (--register-with-taints=muster.dev/unproven=:NoSchedule). Nobody holds such a node:
it can be cordoned and leased as any other, and what anybody holds beside stays theirs when the taint goes.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.triage.past import Fleet
from healthcheck.triage.plan import Plan
from healthcheck.triage.policy import Isolation, Policy
from healthcheck.triage.requalify import requalified
from provisioning.actions.base import ActionError, Backend, Startup
from provisioning.cordon import Done

Clock = Callable[[], float]
ACTION = "give to jobs"


def admit(
    store: Store, backend: Backend, fleet: Fleet, plan: Plan, policy: Policy, who: str, clock: Clock, *, dry: bool = False,
) -> list[Done]:
    """Ends the probation of new nodes in service that are proven well; gives a line for each that is on probation. Raises ActionError.

    Ledger line before the deed, and its outcome after a look; whoever is killed in between is found by the next run.
    """
    if not isinstance(backend, Startup):
        return []
    waiting = backend.unproven([past.node for past in fleet.nodes])
    if not dry:
        _settle(store, backend, waiting, clock)
    worse = {verdict.node for verdict in plan.verdicts if verdict.isolation is not Isolation.NONE}
    done: list[Done] = []
    asked: dict[str, int] = {}
    troubles: dict[str, str] = {}
    for past in fleet.nodes:
        if past.node not in waiting:
            continue
        well, said = requalified(past, policy, fleet.now)
        if not well or past.node in worse or past.leased:
            done.append(Done(past.node, f"new, and kept from jobs: {past.leased or said}", held=True))
        elif dry:
            done.append(Done(past.node, f"new, and would be given to jobs: {said}", held=True))
        else:
            with store.writing() as db:
                asked[past.node] = ledger.begin(db, clock(), who, ACTION, past.node, said, backend.name)
            try:
                backend.prove(past.node)
            except ActionError as error:
                troubles[past.node] = str(error)
    left = backend.unproven(list(asked)) if asked else frozenset()
    for node, line in asked.items():
        failed = node in left
        why = troubles.get(node) or f"{backend.name} shows it as new still"
        with store.writing() as db:
            ledger.finish(db, line, f"not done: {why}" if failed else "done", clock())
        done.append(Done(node, f"NOT given to jobs: {why}" if failed else "new, and given to jobs", held=failed, failed=failed))
    return done


def _settle(store: Store, backend: Startup, waiting: Collection[str], clock: Clock) -> None:
    """Writes down what became of each deed of which nobody knows the end."""
    cut = [line for line in ledger.lines(store) if line.outcome is None and line.action == ACTION]
    left = backend.unproven([line.node for line in cut if line.node not in waiting])
    with store.writing() as db:
        for line in cut:
            ledger.finish(db, line.id, f"{'not done' if line.node in {*waiting, *left} else 'done'}; found so later", clock())
