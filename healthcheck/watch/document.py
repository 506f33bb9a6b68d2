"""What `muster watch --format json` prints: one JSON object a line, of schema muster.watch/1. `kind` is
window (the job in some steps), finding (new, or changed), or end (the last line, with all that is known of
the job)."""

from __future__ import annotations

import math
from typing import Any

from healthcheck.watch.model import JobAttempt, StepWindow, WatchFinding
from healthcheck.watch.watcher import JobWatch

SCHEMA = "muster.watch/1"


def window(job: str, one: StepWindow) -> dict[str, Any]:
    """One window; a figure that was not measured is null."""
    return {"schema": SCHEMA, "kind": "window", "job": job, "attempt": one.attempt, "first_step": one.first,
            "last_step": one.last, "time": round(one.time, 3), "ranks": one.ranks,
            "seconds": _figure(one.seconds), "own_seconds": _figure(one.own_s),
            "worst_seconds": _figure(one.worst_s),
            "phases": {phase.value: _figure(value) for phase, value in one.phases.items()},
            "gc_seconds": _figure(one.gc_s)}


def finding(job: str, one: WatchFinding) -> dict[str, Any]:
    """One finding as it is now."""
    verdict = one.verdict
    return {"schema": SCHEMA, "kind": "finding", "job": job, **finding_body(one),
            "cause": {"name": verdict.cause.name.lower(), "text": verdict.cause.value,
                      "certainty": verdict.certainty.value, "evidence": list(verdict.evidence),
                      "rivals": [rival.name.lower() for rival in verdict.rivals],
                      "hosts": list(verdict.hosts)}}


def finding_body(one: WatchFinding) -> dict[str, Any]:
    """What a finding says without its cause."""
    return {"id": one.id, "level": one.level.value, "subject": one.subject, "ranks": list(one.ranks),
            "hosts": list(one.hosts), "pattern": one.pattern.name.lower(), "text": one.pattern.value,
            "phase": one.phase.value if one.phase is not None else None, "attempt": one.attempt,
            "since_step": one.since_step, "since": round(one.since, 3), "last": round(one.last, 3),
            "windows": one.windows, "lost_seconds": _figure(one.lost_s), "share": _figure(one.share),
            "still": one.still, "evidence": list(one.evidence)}


def end(job: str, watch: JobWatch, caveats: tuple[str, ...], exit_code: int) -> dict[str, Any]:
    """The last line: the attempts, all findings by id, and what was not read."""
    return {"schema": SCHEMA, "kind": "end", "job": job,
            "ranks": sum(rank is not None for rank in watch.ranks),
            "window_steps": watch.input.per, "basis": watch.basis.value if watch.basis is not None else None,
            "expected_false_accusations": _figure(watch.expected_false),
            "attempts": [_attempt(one) for one in watch.attempts],
            "findings": [finding(job, one) for one in watch.findings.values()],
            "caveats": list(caveats), "exit": exit_code}


def _attempt(one: JobAttempt) -> dict[str, Any]:
    return {"number": one.number, "first_step": one.first, "last_step": one.last,
            "began": round(one.began, 3), "ended": round(one.ended, 3), "ranks": one.ranks,
            "lost_steps": one.lost_steps, "idle_seconds": _figure(one.idle_s)}


def _figure(value: float) -> float | None:
    """Six significant digits; None for what was not measured."""
    return float(f"{value:.6g}") if math.isfinite(value) else None
