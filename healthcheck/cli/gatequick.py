"""Checks the nodes now by the gate profile's rules, for `muster gate --quick`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from healthcheck.cli.check import LiveSweeps, choose
from healthcheck.cli.options import check_sku
from healthcheck.gate.decide import Gate, GateDecision, Notice, Why, worst
from healthcheck.judge.nodereport import reasons, worst_first
from healthcheck.model.cause import causes
from healthcheck.model.outcome import NodeReport, Severity, Status, exit_code, unknowns
from inventory.text import fit

PROFILE = "gate"
_MOST = 400           # bytes of a reason, which are all shown
_TIMEOUT_S = 30.0     # of the whole check: a job waits for it


@dataclass(frozen=True)
class Quick:
    """How to check: only this machine (`local`), or over SSH; the rest as for `muster check`."""

    local: bool
    inventory: str | None
    rules: str | None
    sku: str | None

    def __call__(self, names: Sequence[str]) -> GateDecision:
        """The decision by the nodes' current state; raises UsageError."""
        return _check_nodes(names, self.local, self.inventory, self.rules, self.sku)


def _check_nodes(
    names: Sequence[str], local: bool, inventory: str | None, rules: str | None, sku: str | None,
) -> GateDecision:
    """The profile decides on UNKNOWN; an allowed one is reported."""
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.sweep import sweep

    ruleset = ruleset_of(rules)
    ruleset.named(PROFILE)
    check_sku(sku, ruleset)
    chosen = choose(None if local else ",".join(names), inventory, local, False, ruleset)
    plan = sweep.SweepPlan(chosen, ruleset, sku, chosen.source, (), (), (PROFILE,))
    live = LiveSweeps(local, _TIMEOUT_S, 256, None, None, None, quiet=True)
    whys: list[Why] = []
    notices: list[Notice] = []
    for report in live(plan).assessed.reports:
        name = names[0] if local else report.node
        code = exit_code([replace(report, in_service=True)],
                         lambda result: ruleset.allows(result, plan.profiles))
        if code:
            whys.append(Why(name, Gate.CLOSED if code == 1 else Gate.UNSURE, _reason(report),
                            f"muster check {{}} --profile {PROFILE}"))
        elif passed := unknowns(report):
            first = f"{passed[0].rule}: {passed[0].reason}"
            text = (f"checked now: {len(passed)} rules could not be judged, which profile {PROFILE} allows; "
                    f"{first}")
            notices.append(Notice((name,), text))
    return GateDecision(worst(whys), tuple(whys), tuple(notices))


def _reason(report: NodeReport) -> str:
    wrong = worst_first(result for result in report.results if result.severity is not Severity.INFO)
    failed = [result for result in wrong if result.status is Status.FAIL]
    if failed:
        first, *others = failed
        found = causes(report.results)
        what = f": {'; '.join(reasons(first, found))}" if first.findings else ""
        return fit([f"{first.rule} now{what}",
                    *(f"{one.rule}: {words}" for one in others for words in reasons(one, found))],
                   _MOST, "fails ")
    why = f"{wrong[0].rule}: {wrong[0].reason}" if wrong and not report.stage else report.reason
    return f"unknown now: {why}"
