"""The ticket of an RMA: a person's decision, with what the store remembers of the part."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from healthcheck.model.faultkind import FaultKind, Isolation
from healthcheck.model.outcome import Owner, Repair
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import Fault, Verdict
from healthcheck.store.file import Store
from healthcheck.store.history import problems, trails
from healthcheck.store.ledger import lines
from healthcheck.store.rmas import Rma
from healthcheck.sweep.evidence import newest_bundle
from healthcheck.triage.past import NodeHistory
from healthcheck.triage.ticket import markdown, ticket
from inventory.model import Node

_RECENT_S = 60 * 86400.0      # how far back it tells of the part


def text_of(store: Store, rma: Rma, node: Node, now: float) -> str:
    """The ticket in Markdown: what was lately wrong with the part wherever it sat, or with the node."""
    where = trails(store, rma.node)
    on_result = [each for each in problems(store, {seat.node for seat in where} | {rma.node}, now - _RECENT_S)
                 if concerns(rma, each)]
    boots = store.rows(
        "SELECT began FROM boot JOIN node ON node.id = boot.node WHERE name = ? ORDER BY began", rma.node)
    past = NodeHistory(rma.node, moved=tuple(each for each in on_result if each.node != rma.node),
                       boots=tuple(row[0] for row in boots))
    verdict = case(rma, [each for each in on_result if each.node == rma.node])
    return markdown(ticket(verdict, past, where, lines(store, [rma.node]), node, bundle=rma.evidence))


def bundle(store: Store, folder: Path, node: str) -> str:
    """The newest evidence that is as young as what is wrong with the node now; empty where there is none."""
    began = [problem.began for problem in problems(store, [node], 0, still=True)]
    return newest_bundle(folder, node, min(began, default=0.0))


def case(rma: Rma, problems: Sequence[Problem]) -> Verdict:
    """A person's decision as a verdict, for the ticket: this part goes, for these problems of it."""
    own = tuple(problem for problem in problems if concerns(rma, problem))
    kind = FaultKind(
        "rma", rma.why, ("*",), isolation=Isolation.NO_NEW_JOBS, repair=Repair.REPLACE, owner=Owner.VENDOR)
    began = min((one.began for one in own), default=rma.opened)
    fault = Fault(kind, rma.part, own, Isolation.NO_NEW_JOBS, Repair.REPLACE, Owner.VENDOR, began)
    name = f"RMA {rma.id}{f' ({rma.reference})' if rma.reference else ''}"
    return Verdict(rma.node, Isolation.NO_NEW_JOBS, Repair.REPLACE, Owner.VENDOR, name, rma.why, (fault,))


def concerns(rma: Rma, problem: Problem) -> bool:
    """Whether a problem is of what goes: of the part wherever it sat, or, of a whole node, any of it."""
    if not rma.slot:
        return problem.node == rma.node
    if rma.serial and problem.serial is not None:
        return (problem.kind, problem.serial) == (rma.kind, rma.serial)
    return problem.node == rma.node and rma.slot in problem.subject
