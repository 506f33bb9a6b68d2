"""What the ledger keeps of a step: a line before, its outcome, and what follows from both."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from enum import Enum

from healthcheck.store import ledger
from healthcheck.store.file import Store
from healthcheck.triage.remediation import Remediation, RemediationStep
from provisioning.remediate.choose import PlannedStep
from provisioning.remediate.steps import SPECS
from provisioning.remediate.verify import NodeHealth

_EVIDENCE = re.compile(r"step=([a-z0-9-]+) rules=([^ ]*) boot=([0-9a-f-]*) passed=([^ ]*)")
_BOOT = re.compile(r"[0-9a-f-]{1,40}")


class RemediationOutcome(Enum):
    """How a step ended; the value is how its outcome begins. Triage takes DONE for a repair."""

    DONE = "done"                   # the check that failed passes
    NOT_DONE = "not done"           # nothing was touched
    NO_USE = "no use"               # it was taken, and the check fails still
    WORSE = "worse"                 # something fails that did not before
    NOT_BACK = "not back"           # the node does not answer any more

    @property
    def stops(self) -> bool:
        """Whether no other node is touched after this."""
        return self in (RemediationOutcome.WORSE, RemediationOutcome.NOT_BACK)


@dataclass(frozen=True)
class Before:
    """What was so before a step was taken, as its line says."""

    step: RemediationStep
    rules: tuple[str, ...]
    boot: str
    passed: frozenset[str]


@dataclass(frozen=True)
class StartedStep:
    """A step of which it is not known the end."""

    line: int
    node: str
    before: Before
    time: float

    @property
    def name(self) -> str:
        """What the node knows it by: another store may have a line of this number."""
        return f"{self.line}-{self.time:.6f}"


def begin(store: Store, work: PlannedStep, seen: NodeHealth, who: str, now: float) -> StartedStep:
    """Writes down that a step is about to be taken."""
    boot = seen.boot if _BOOT.fullmatch(seen.boot) else ""
    before = Before(work.step, work.rules, boot, seen.passed)
    with store.writing() as db:
        line = ledger.begin(
            db, now, who, SPECS[work.step].rung.value, work.node, f"{work.step.value}: {work.why}",
            f"step={work.step.value} rules={','.join(work.rules)} boot={boot} "
            f"passed={','.join(sorted(seen.passed))}")
    return StartedStep(line, work.node, before, now)


def end(store: Store, begun: StartedStep, how: RemediationOutcome, message: str, now: float) -> None:
    """Writes down what became of it."""
    with store.writing() as db:
        ledger.finish(db, begun.line, f"{how.value}: {message}", now)


def unended(store: Store) -> list[StartedStep]:
    """Steps that were begun and of which it is not known the end."""
    return [StartedStep(line.id, line.node, before, line.time) for line in ledger.lines(store)
            if line.outcome is None and (before := parsed(line.evidence)) is not None]


def tries(store: Store, policy: Remediation, now: float) -> dict[tuple[str, RemediationStep], int]:
    """How often each step touched each node within the policy's days."""
    return Counter(
        (line.node, before.step) for line in ledger.lines(store, since=now - policy.days * 86400)
        if (before := parsed(line.evidence)) is not None and not _is(line, RemediationOutcome.NOT_DONE))


def kept(store: Store, node: str, since: float) -> bool:
    """Whether the newest step on a node since then made it worse, or may be at work still."""
    of_node = [line for line in ledger.lines(store, {node}, since) if parsed(line.evidence) is not None]
    return bool(of_node) and (
        of_node[-1].outcome is None or any(_is(of_node[-1], how) for how in RemediationOutcome if how.stops))


def parsed(evidence: str) -> Before | None:
    """What a line's evidence says; None where the line is of something else."""
    match = _EVIDENCE.fullmatch(evidence)
    if match is None or match[1] not in {step.value for step in RemediationStep}:
        return None
    return Before(RemediationStep(match[1]), _listed(match[2]), match[3], frozenset(_listed(match[4])))


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, text.split(",")))


def _is(line: ledger.LedgerEntry, how: RemediationOutcome) -> bool:
    return line.outcome is not None and line.outcome.startswith(f"{how.value}:")

