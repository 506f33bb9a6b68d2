"""A bring-up plan: which steps each machine still has, how many at a time, for how long at most; as text
and as JSON (muster.bringup-plan/1). Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from math import ceil
from typing import Any

from healthcheck.report.findings import Fold
from inventory.model import Node
from inventory.text import clean, many
from provisioning.bringup.engine.choose import MachinePlan, MachineSelection, RefusedMachine
from provisioning.bringup.engine.model import ORDER, BringupStep, StepEffect
from provisioning.bringup.engine.site import domain_of
from provisioning.bringup.pages.masked import word

_HEAD = ("STEP", "MACHINES", "AT ONCE", "PER DOMAIN", "ROUNDS", "AT MOST", "EFFECT", "OWNER", "WHAT")
_RIGHT = range(1, 6)


def lines(
    chosen: MachineSelection, steps: Mapping[str, BringupStep], without: Collection[str],
    why: Mapping[tuple[str, str], str], fold: Fold,
) -> Iterator[str]:
    """The plan; `why` is by machine and step what someone said when they had it skipped."""
    for names, ahead in _equal(chosen.plans):
        yield f"{fold(names)}: {_span(ahead, without)}"
    if chosen.plans:
        yield ""
        yield from table(chosen.plans, steps)
        yield ""
        yield from _sums(chosen.plans, steps)
    out = [step for step in ORDER if step in without]
    if out and chosen.plans:
        yield f"left out by the policy, and never passed: {', '.join(out)}"
    yield from _skipped(chosen.plans, without, why, fold)
    if chosen.through:
        yield f"{fold(chosen.through)}: through already, in service"
    yield from refusals(chosen.refused, fold)


def document(
    chosen: MachineSelection, steps: Mapping[str, BringupStep], without: Collection[str],
    why: Mapping[tuple[str, str], str],
) -> dict[str, Any]:
    """The plan as muster.bringup-plan/1; `why` as for `lines`."""
    ahead = _ahead(chosen.plans)
    return {
        "schema": "muster.bringup-plan/1", "seconds": _seconds(chosen.plans, steps),
        "machines": [{
            "node": plan.node.name, "steps": list(plan.steps),
            "skipped": [{"step": step, "why": "left out by the policy" if step in without
                         else why.get((plan.node.name, step), "")} for step in plan.skips],
        } for plan in chosen.plans],
        "steps": [{
            "step": name, "title": step.title, "machines": len(there), "at_once": step.in_parallel,
            "domain_at_once": step.domain_at_once, "rounds": rounds(step, there), "seconds": step.seconds,
            "effect": step.effect.value, "owner": step.owner.value,
        } for name in ahead for step, there in ((steps[name], _those(chosen.plans, name)),)],
        "through": list(chosen.through),
        "refused": [{"node": one.node, "why": one.why, "type": one.hand.replace("NODES", word(one.node))}
                    for one in chosen.refused]}


def refusals(refused: Sequence[RefusedMachine], fold: Fold) -> Iterator[str]:
    """A line for all that are refused for one reason, with what to type."""
    groups: dict[tuple[str, str], list[str]] = {}
    for one in refused:
        groups.setdefault((one.why, one.hand), []).append(one.node)
    for (why, hand), names in groups.items():
        folded = fold(names)
        yield f"{clean(folded, 200)}: refused: {why}; type: {hand.replace('NODES', word(folded))}"


def table(plans: Sequence[MachinePlan], steps: Mapping[str, BringupStep]) -> Iterator[str]:
    """A line for each step that anybody has still to go."""
    rows = [_HEAD]
    for name in _ahead(plans):
        step, there = steps[name], _those(plans, name)
        per_domain = str(step.domain_at_once) if step.domain_at_once is not None else "-"
        rows.append((name, str(len(there)), str(step.in_parallel), per_domain, str(rounds(step, there)),
                     _long(step.seconds), step.effect.value, step.owner.value, step.title))
    widths = [max(len(row[at]) for row in rows) for at in range(len(_HEAD))]
    for row in rows:
        yield "  ".join(cell.rjust(widths[at]) if at in _RIGHT else cell.ljust(widths[at])
                        for at, cell in enumerate(row)).rstrip()


def rounds(step: BringupStep, nodes: Sequence[Node]) -> int:
    """How many times one machine's time all take, with so many at a time in all and in a power domain."""
    in_all = ceil(len(nodes) / step.in_parallel)
    if step.domain_at_once is None:
        return in_all
    domains = Counter(map(domain_of, nodes))
    return max([in_all, *(ceil(number / step.domain_at_once) for number in domains.values())])


def _sums(plans: Sequence[MachinePlan], steps: Mapping[str, BringupStep]) -> Iterator[str]:
    ahead = _ahead(plans)
    yield (f"{many(len(plans), 'machine')}, {many(len(ahead), 'step')}, at most "
           f"{_long(_seconds(plans, steps))} if every step takes its full time")
    if disruptive := [name for name in ahead if steps[name].effect is StepEffect.DISRUPTIVE]:
        yield f"disruptive, so only on machines proven idle: {', '.join(disruptive)}"
    unnamed = [plan.node for plan in plans if plan.node.power is None]
    if unnamed and any(steps[name].domain_at_once is not None for name in ahead):
        yield (f"note: the inventory has no power domain (power:) for {many(len(unnamed), 'machine')}: "
               "each rack counts as one, and machines without a rack together")


def _ahead(plans: Sequence[MachinePlan]) -> list[str]:
    """The steps that anybody has still to go, in their order."""
    return [name for name in ORDER if any(name in plan.steps for plan in plans)]


def _those(plans: Sequence[MachinePlan], step: str) -> list[Node]:
    """The machines that have this step still to go."""
    return [plan.node for plan in plans if step in plan.steps]


def _seconds(plans: Sequence[MachinePlan], steps: Mapping[str, BringupStep]) -> float:
    """How long all of it takes at most."""
    return sum(rounds(steps[name], _those(plans, name)) * steps[name].seconds + steps[name].gather_s
               for name in _ahead(plans))


def _skipped(
    plans: Sequence[MachinePlan], without: Collection[str], why: Mapping[tuple[str, str], str], fold: Fold,
) -> Iterator[str]:
    groups: dict[tuple[str, str], list[str]] = {}
    for plan in plans:
        for step in plan.skips:
            if step not in without:
                groups.setdefault((step, why.get((plan.node.name, step), "")), []).append(plan.node.name)
    for (step, message), names in groups.items():
        yield f"{fold(names)}: {step} is skipped{f': {message}' if message else ''}"


def _equal(plans: Sequence[MachinePlan]) -> Iterator[tuple[list[str], tuple[str, ...]]]:
    found: dict[tuple[str, ...], list[str]] = {}
    for plan in plans:
        found.setdefault(plan.steps, []).append(plan.node.name)
    for ahead, names in found.items():
        yield names, ahead


def _span(ahead: Sequence[str], without: Collection[str]) -> str:
    """Steps in words: a range where the policy alone leaves any out between the first and the last."""
    if not ahead:
        return "no step left"
    between = ORDER[ORDER.index(ahead[0]):ORDER.index(ahead[-1]) + 1]
    if len(ahead) > 2 and list(ahead) == [step for step in between if step not in without]:
        return f"{ahead[0]} to {ahead[-1]}, {len(ahead)} steps"
    return f"{', '.join(ahead)}"


def _long(seconds: float) -> str:
    """A span of time in one unit, never less than it is."""
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{ceil(seconds / size * 10) / 10:g} {unit}"
    return f"{ceil(seconds)} s"
