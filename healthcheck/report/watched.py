"""The page of a watched job for its team: goodput, utilisation, what slowed it, and what to expect. As text,
and as a document of schema muster.watch.report/1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from healthcheck.accounting.forecast import InterruptionForecast
from healthcheck.report import forecast, watchkept
from healthcheck.report.watchkept import KeptCause
from healthcheck.store.watched import OF_PROGRAM
from healthcheck.watch import document as watched
from healthcheck.watch.goodput import JobGoodput
from healthcheck.watch.mfu import Utilisation
from healthcheck.watch.model import Certainty, SlowPattern, WatchFinding
from inventory.text import clean
from inventory.times import ago, minute

SCHEMA = "muster.watch.report/1"
_MOST = 20          # restarts that are listed
_BARS = "▁▂▃▄▅▆▇█"
DEFINITIONS = (
    "goodput: time in steps that were kept, at the job's usual speed, by the time from its first step to its "
    "last; the usual speed is that of the fastest quarter of its windows, without what findings, data and "
    "checkpoints cost; what is not known is not useful",
    "mfu: model operations by what the GPUs' data sheet allows (dense), 6 N + 12 L H S a token: Chowdhery et "
    "al., PaLM, 2022, appendix B",
)


@dataclass(frozen=True)
class JobReport:
    """All that the page says. `no_mfu`, `no_forecast` say why there is none, `notes` what to know of the
    figures, `caveats` what could not be read; `spares` is the command that proposes other nodes. `kept` is
    what was kept while the job ran and its logs do not show."""

    job: str
    goodput: JobGoodput | None
    mfu: Utilisation | None
    no_mfu: str
    findings: tuple[WatchFinding, ...]
    forecast: InterruptionForecast | None
    no_forecast: str
    notes: tuple[str, ...] = ()
    caveats: tuple[str, ...] = ()
    suspects: tuple[str, ...] = ()
    spares: str = ""
    kept: tuple[KeptCause, ...] = ()


def suspects(findings: Sequence[WatchFinding]) -> tuple[str, ...]:
    """The hosts to start without: those a finding that lasts names, with a likely cause that is not the
    program's, or in a hang."""
    ours = [one for one in findings if one.still and one.verdict.cause.name.lower() not in OF_PROGRAM]
    named = [host for one in ours for host in one.hosts if one.verdict.certainty is Certainty.LIKELY
             or (one.pattern is SlowPattern.HANG and one.ranks)]
    return tuple(dict.fromkeys(named))


def parts(found: JobGoodput) -> list[tuple[str, float | None]]:
    """Where the time went, each with its seconds, None where not measured; the most first."""
    lost: list[tuple[str, float | None]] = [
        ("restarts: no steps", found.idle_s), ("restarts: steps done again", found.again_s),
        ("hang", found.hang_s), ("checkpoints", found.checkpoint_s), ("waiting for data", found.data_s),
        ("slow steps, no finding", found.slow_s), ("between steps", found.between_s),
        ("no line speaks of", found.unknown_s),
        *((f"slowed by {'an unknown cause' if cause.name == 'UNKNOWN' else cause.value}", seconds)
          for cause, seconds in found.by_cause.items())]
    return sorted(lost, key=lambda pair: (pair[1] is None, -(pair[1] or 0.0), pair[0]))


def text(page: JobReport, sentences: Sequence[str]) -> Iterator[str]:
    """The page, line by line; `sentences` are its findings in words."""
    yield f"job {clean(page.job, 80) or '?'}"
    yield ""
    if page.goodput is None:
        yield "goodput: not measured: no step times"
    else:
        yield from _goodput(page.goodput)
    yield ""
    yield from _mfu(page)
    yield ""
    yield ("what slowed it:" if sentences else "nothing is found that slows it" if page.goodput is not None
           else "what slows it: not measured: no step times")
    yield from (f"- {line}" for line in sentences)
    if page.kept:
        yield "kept by muster watch --store while it ran, and not in its logs:"
        yield from (f"- {clean(one.row.said, 600)}" for one in page.kept)
    if page.spares:
        yield f"to start without {clean(', '.join(page.suspects[:8]), 200)}: {page.spares}"
    yield ""
    if page.forecast is None:
        yield f"interruptions to expect: not measured: {page.no_forecast}"
    else:
        yield from forecast.text(page.forecast)
    for line in (*page.notes, *page.caveats):
        yield f"note: {clean(line, 300)}"
    yield ""
    yield from DEFINITIONS


def _goodput(found: JobGoodput) -> Iterator[str]:
    yield (f"goodput: {found.goodput:.1%} of {ago(found.wall_s)}; the usual step takes {found.usual_s:.3g} s "
           "without the rest")
    for name, seconds in parts(found):
        if seconds is None:
            yield f"  {name:<44} not measured"
        elif seconds >= 0.5 or seconds >= 0.001 * found.wall_s:
            yield f"  {name:<44} {seconds / found.wall_s:6.1%}  {ago(seconds)}"
    dear = sorted(found.restarts, key=lambda one: -one.cost_s)[:_MOST]
    for one in sorted(dear, key=lambda one: one.attempt):
        yield (f"  restart {one.attempt} cost {ago(one.cost_s)}: {ago(one.idle_s)} without steps"
               + (f", {ago(one.hang_s)} hanging" if one.hang_s >= 1 else "")
               + f", {one.lost_steps} step{'s' * (one.lost_steps != 1)} done again ({ago(one.again_s)})")
    if len(found.restarts) > _MOST:
        yield f"  and {len(found.restarts) - _MOST} other restarts that cost less"
    if not found.restarts:
        yield "  no restart is seen"


def _mfu(page: JobReport) -> Iterator[str]:
    found = page.mfu
    if found is None or found.mfu is None:
        yield f"mfu: not measured: {page.no_mfu or 'no step times'}"
        return
    yield (f"mfu: {found.mfu:.1%} of {found.gpus:,} GPU{'s' * (found.gpus != 1)} x {found.peak_tflops:g} "
           f"TFLOPS in steps ({found.flops:.3g} operations a step)")
    if page.goodput is not None and found.over_time:
        top = max(one.mfu for one in found.over_time)
        drawn = "".join(_BARS[min(7, int(8 * one.mfu / top))] for one in found.over_time)
        first, last = found.over_time[0], found.over_time[-1]
        yield f"  {drawn}  {first.mfu:.1%} at {minute(first.time)} to {last.mfu:.1%} at {minute(last.time)}"
    if found.mfu > 1:
        yield "  more than the GPUs can do: the model's shape, the number of GPUs or the peak is wrong"


def document(page: JobReport) -> dict[str, Any]:
    """The page as a document; times in seconds, null where not measured."""
    found, mfu = page.goodput, page.mfu
    return {
        "schema": SCHEMA, "job": page.job,
        "goodput": None if found is None else {
            "share": found.goodput, "wall_seconds": found.wall_s, "useful_seconds": found.useful_s,
            "usual_step_seconds": found.usual_s,
            "lost_seconds": {"restarts": found.idle_s, "steps_done_again": found.again_s,
                             "hang": found.hang_s, "checkpoint": found.checkpoint_s, "data": found.data_s,
                             "slow_steps": found.slow_s, "between_steps": found.between_s,
                             "unknown": found.unknown_s},
            "lost_seconds_by_cause": {cause.name.lower(): seconds for cause, seconds in
                                      sorted(found.by_cause.items(), key=lambda pair: pair[0].name)},
            "restarts": [{"attempt": one.attempt, "idle_seconds": one.idle_s, "hang_seconds": one.hang_s,
                          "lost_steps": one.lost_steps, "again_seconds": one.again_s,
                          "cost_seconds": one.cost_s} for one in found.restarts]},
        "mfu": None if mfu is None or mfu.mfu is None else {
            "share": mfu.mfu, "flops_per_step": mfu.flops, "gpus": mfu.gpus, "peak_tflops": mfu.peak_tflops,
            "over_time": [{"time": one.time, "step": one.step, "share": one.mfu} for one in mfu.over_time]},
        "mfu_missing": page.no_mfu or None,
        "findings": [watched.finding(page.job, one) for one in page.findings],
        "kept": [watchkept.document(one) for one in page.kept],
        "suspect_hosts": list(page.suspects), "propose_spares": page.spares or None,
        "forecast": forecast.document(page.forecast) if page.forecast is not None else None,
        "forecast_missing": page.no_forecast or None,
        "notes": list(page.notes), "caveats": list(page.caveats), "definitions": list(DEFINITIONS),
    }
