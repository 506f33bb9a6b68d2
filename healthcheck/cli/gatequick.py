"""Looks at the nodes themselves, now, by the rules of the gate profile: what `muster gate --quick` adds to the snapshot's word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from healthcheck.gate.decide import Gate, GateDecision, Notice, Why, worst
from healthcheck.model.outcome import NodeReport, Severity, Status, exit_code, unknowns
from inventory.errors import UsageError

PROFILE = "gate"
_TIMEOUT_S = 30.0     # of the whole look: somebody waits for it


@dataclass(frozen=True)
class Quick:
    """How to look: at this machine alone (`local`), or over SSH; the others as `muster check` has them."""

    local: bool
    inventory: str | None
    rules: str | None
    sku: str | None

    def __call__(self, names: Sequence[str]) -> GateDecision:
        """The answer by what these nodes show now; raises UsageError."""
        return _look(names, self.local, self.inventory, self.rules, self.sku)


def _look(names: Sequence[str], local: bool, inventory: str | None, rules: str | None, sku: str | None) -> GateDecision:
    """An UNKNOWN is worth what the profile says, and where it allows one that is told."""
    from healthcheck.cli.check import LiveSweeps, choose
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.sweep import sweep

    ruleset = load_ruleset(rulesfolder.folders(rules))
    ruleset.named(PROFILE)
    if sku is not None and sku not in ruleset.skus:
        raise UsageError(f"--sku {sku}: no such SKU; there are {', '.join(sorted(ruleset.skus))}")
    chosen = choose(None if local else ",".join(names), inventory, local, False, ruleset)
    plan = sweep.SweepPlan(chosen, ruleset, sku, chosen.source, (), (), (PROFILE,))
    live = LiveSweeps(local, _TIMEOUT_S, 256, None, None, None, quiet=True)
    whys: list[Why] = []
    notices: list[Notice] = []
    for report in live(plan).assessed.reports:
        name = names[0] if local else report.node
        code = exit_code([replace(report, in_service=True)], lambda result: ruleset.allows(result, plan.profiles))
        if code:
            whys.append(Why(name, Gate.CLOSED if code == 1 else Gate.UNSURE, _said(report), f"muster check {{}} --profile {PROFILE}"))
        elif passed := unknowns(report):
            first = f"{passed[0].rule}: {passed[0].reason}"
            told = f"looked at now: {len(passed)} rules could not be judged, which profile {PROFILE} allows; {first}"
            notices.append(Notice((name,), told))
    return GateDecision(worst(whys), tuple(whys), tuple(notices))


def _said(report: NodeReport) -> str:
    failed = [result for result in report.results if result.status is Status.FAIL and result.severity is not Severity.INFO]
    if failed:
        finding = failed[0].findings[0] if failed[0].findings else None
        what = f": {finding.subject}: {finding.observed}, expected {finding.expected}" if finding is not None else ""
        more = f", and {len(failed) - 1} more" if len(failed) > 1 else ""
        return f"fails {failed[0].rule} now{what}{more}"
    unknown = unknowns(report)
    why = f"{unknown[0].rule}: {unknown[0].reason}" if unknown and not report.stage else report.reason
    return f"cannot be told now: {why}"
