"""How the steps of a killed run ended. Nothing runs twice, and nothing counts without proof."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.triage.remediation import RemediationStep
from inventory.model import Node
from provisioning.actions.cordon import CordonResult
from provisioning.remediate import record
from provisioning.remediate.execute import RemediationContext, ended, give_back_nodes
from provisioning.remediate.judge import is_restored, judge
from provisioning.remediate.record import RemediationOutcome, StartedStep
from provisioning.remediate.send import send
from provisioning.remediate.verify import NodeHealth, await_
from provisioning.triage.apply import settle as settle_triage


def resume(context: RemediationContext) -> list[CordonResult]:
    """Asks each node whether the step began and ended, looks at it, and writes that down; then gives back
    what was left held. Raises ActionError, StoreError."""
    settle_triage(context.store, context.backend, context.who, context.clock)
    begun = record.unended(context.store)
    done = _known([one for one in begun if one.node in context.nodes], context)
    for one in begun:
        if one.node not in context.nodes:
            done.append(_ended(context, one, RemediationOutcome.NOT_BACK,
                               "its run was killed, and the node is not in the inventory any more"))
    return (done + [one for one in give_back_nodes(
        context.store, context.backend, None, context.who, context.clock) if one.failed])


def _known(begun: list[StartedStep], context: RemediationContext) -> list[CordonResult]:
    if not begun:
        return []
    nodes: dict[str, Node] = {one.name: context.nodes[one.node] for one in begun}
    did = {one.node: one for one in send(nodes, None, context.site.transport, context.policy.at_once)}
    of = {one.node: one.before for one in begun}
    patience = context.policy.settle_seconds
    if any(one.before.step is RemediationStep.REBOOT for one in begun):
        patience += context.policy.back_minutes * 60
    waiting = [context.nodes[name] for name in dict.fromkeys(one.node for one in begun)
               if did[name].ok is None or did[name].touched or of[name].step is RemediationStep.REBOOT]
    seen = await_(
        context.site, waiting, lambda one: is_restored(of[one.node], one), patience) if waiting else {}
    done = []
    for one in begun:
        # What a node that could not be asked is not known to be untouched.
        on_result = replace(did[one.node], touched=did[one.node].touched or did[one.node].ok is None)
        how, message = judge(one.before, on_result, seen.get(one.node, NodeHealth(one.node, True)))
        done.append(_ended(context, one, how, f"{message}; its run was killed, and this was found later"))
    return done


def _ended(
    context: RemediationContext, one: StartedStep, how: RemediationOutcome, message: str,
) -> CordonResult:
    record.end(context.store, one, how, message, context.clock())
    done = ended(one, how, message)
    context.on_result(done)
    return done
