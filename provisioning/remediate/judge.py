"""Judges the outcome of a step by the check that failed, and by what fails now and did not before. Pure."""

from __future__ import annotations

from healthcheck.triage.remediation import RemediationStep
from provisioning.remediate.record import Before, RemediationOutcome
from provisioning.remediate.send import StepReport
from provisioning.remediate.verify import NodeHealth, passes, worse

_SHOWN = 4


def is_restored(before: Before, seen: NodeHealth) -> bool:
    """Whether all is as it should be, so that no one has to look again."""
    return _restarted(before, seen) and passes(seen, before.rules) and not worse(before.passed, seen)


def judge(before: Before, did: StepReport, seen: NodeHealth) -> tuple[RemediationOutcome, str]:
    """How it ended, and in words. What the node says of itself is reported; what a look shows decides."""
    rules = ", ".join(before.rules)
    if not did.touched and not (before.step is RemediationStep.REBOOT and _restarted(before, seen)):
        return RemediationOutcome.NOT_DONE, did.message + (
            f"; {rules} passes by now" if passes(seen, before.rules) else "")
    if not seen.reached:
        return RemediationOutcome.NOT_BACK, f"{did.message}; since then it is not reached: {seen.message}"
    if bad := worse(before.passed, seen):
        more = f" and {len(bad) - _SHOWN} more" if len(bad) > _SHOWN else ""
        return (RemediationOutcome.WORSE,
                f"{', '.join(bad[:_SHOWN])}{more} passed before and is wrong now: {did.message}")
    if not _restarted(before, seen):
        return RemediationOutcome.NO_USE, f"it has not restarted: {did.message}"
    if did.ok is False:
        return RemediationOutcome.NO_USE, did.message
    if passes(seen, before.rules):
        return RemediationOutcome.DONE, f"{rules} passes: {did.message}"
    return RemediationOutcome.NO_USE, f"{rules} does not pass: {did.message}"


def _restarted(before: Before, seen: NodeHealth) -> bool:
    """Whether it has another boot, where that is what the step was to bring."""
    return before.step is not RemediationStep.REBOOT or (seen.reached and seen.boot not in ("", before.boot))
