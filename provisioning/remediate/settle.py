"""Finds out how steps ended of which whoever began them was killed. Nothing is done twice, and nothing is taken for done."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.triage.remediation import RemediationStep
from inventory.model import Node
from provisioning.actions.cordon import CordonResult
from provisioning.remediate import record
from provisioning.remediate.carry import RemediationContext, ended, give_back_nodes
from provisioning.remediate.judged import judged, settled
from provisioning.remediate.record import Begun, RemediationOutcome
from provisioning.remediate.send import send
from provisioning.remediate.verify import NodeHealth, await_
from provisioning.triage.apply import settle as settle_triage


def settle(means: RemediationContext) -> list[CordonResult]:
    """Asks each node whether the step began and ended there, looks at it, and writes down what it was; then gives back what was left held.

    Raises ActionError, StoreError.
    """
    settle_triage(means.store, means.backend, means.who, means.clock)
    begun = record.unended(means.store)
    done = _known([one for one in begun if one.node in means.nodes], means)
    for one in begun:
        if one.node not in means.nodes:
            done.append(_ended(means, one, RemediationOutcome.NOT_BACK,
                               "whoever began it was killed, and the node is not in the inventory any more"))
    return done + [one for one in give_back_nodes(means.store, means.backend, None, means.who, means.clock) if one.failed]


def _known(begun: list[Begun], means: RemediationContext) -> list[CordonResult]:
    if not begun:
        return []
    nodes: dict[str, Node] = {one.name: means.nodes[one.node] for one in begun}
    did = {one.node: one for one in send(nodes, None, means.site.transport, means.policy.at_once)}
    of = {one.node: one.before for one in begun}
    patience = means.policy.settle_seconds
    if any(one.before.step is RemediationStep.REBOOT for one in begun):
        patience += means.policy.back_minutes * 60
    waiting = [means.nodes[name] for name in dict.fromkeys(one.node for one in begun)
               if did[name].ok is None or did[name].touched or of[name].step is RemediationStep.REBOOT]
    seen = await_(means.site, waiting, lambda one: settled(of[one.node], one), patience) if waiting else {}
    done = []
    for one in begun:
        # What a node that could not be asked is not known to be untouched.
        told = replace(did[one.node], touched=did[one.node].touched or did[one.node].ok is None)
        how, said = judged(one.before, told, seen.get(one.node, NodeHealth(one.node, True)))
        done.append(_ended(means, one, how, f"{said}; whoever began it was killed, and this was found later"))
    return done


def _ended(means: RemediationContext, one: Begun, how: RemediationOutcome, said: str) -> CordonResult:
    record.end(means.store, one, how, said, means.clock())
    done = ended(one, how, said)
    means.told(done)
    return done
