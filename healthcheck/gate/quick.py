"""Looks at the nodes themselves, now, by the rules of the gate profile: what `muster gate --quick` adds to the snapshot's word."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from healthcheck.gate.decide import Gate, Why
from healthcheck.outcome import NodeReport, Severity, Status, exit_code, unknowns

PROFILE = "gate"


def look(names: Sequence[str], *, local: bool, inventory: str | None, rules: str | None, timeout: float) -> list[Why]:
    """Why not, by what the nodes show now; nothing where all of them pass. An UNKNOWN is worth what the profile says."""
    from healthcheck import rulesfolder, sweep
    from healthcheck.cli.check import Live, choose
    from healthcheck.ruleset import load_ruleset

    ruleset = load_ruleset(rulesfolder.folders(rules))
    ruleset.named(PROFILE)
    chosen = choose(None if local else ",".join(names), inventory, local, False, ruleset)
    plan = sweep.Plan(chosen, ruleset, None, chosen.source, (), (), (PROFILE,))
    live = Live(local, timeout, 256, None, None, None, quiet=True)
    found: list[Why] = []
    for report in live(plan).assessed.reports:
        code = exit_code([replace(report, in_service=True)], lambda result: ruleset.allows(result, plan.profiles))
        if code:
            name = names[0] if local else report.node
            found.append(Why(name, Gate.CLOSED if code == 1 else Gate.UNSURE, _said(report), f"muster check {{}} --profile {PROFILE}"))
    return found


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
