"""The page of a job for its team, as text and as a document, and the live table: as their golden files have
them."""

from __future__ import annotations

import io
import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from healthcheck.accounting.forecast import forecast
from healthcheck.accounting.summary import rate
from healthcheck.cli.gate import gate
from healthcheck.cli.watchpage import _Table, closing, sentence
from healthcheck.cli.watchreport import _spares
from healthcheck.report.watched import JobReport, document, suspects, text
from healthcheck.report.watchkept import KeptCause
from healthcheck.store.watched import WatchedNode
from healthcheck.watch.goodput import goodput
from healthcheck.watch.mfu import utilisation
from healthcheck.watch.model import (
    CauseVerdict,
    Certainty,
    JobAttempt,
    SlowPattern,
    StepPhase,
    StepWindow,
    WatchCause,
    WatchFinding,
    WatchLevel,
)
from healthcheck.watch.watcher import JobWatch
from tests.documents import validate
from tests.healthcheck.watch.simulated import Planted, SimulatedJob

GOLDEN = Path(__file__).parents[2] / "golden"
BEGAN = 1_800_000_000.0


def window(first: int, at: float, seconds: float = 1.0, attempt: int = 0,
           checkpoint: float = 0.0) -> StepWindow:
    """Ten steps, of which the last ended so many seconds after the job began."""
    return StepWindow(attempt, first, first + 9, BEGAN + at, 4, seconds, {StepPhase.CHECKPOINT: checkpoint})


def found(subject: str, level: WatchLevel, pattern: SlowPattern, since: int, last: float, lost: float,
          verdict: CauseVerdict,
          ranks: tuple[int, ...] = (), hosts: tuple[str, ...] = (), phase: StepPhase | None = None,
          still: bool = True,
          attempt: int = 0) -> WatchFinding:
    return WatchFinding(f"{attempt}-{subject.replace(' ', '-')}-{since}", level, subject, ranks, hosts,
                        pattern, phase, attempt, since,
                        BEGAN + since, BEGAN + last, 6, lost, lost, still, verdict,
                        ("0.5 s a step beyond the median of its peers",))


FINDINGS = (
    found("rank 1", WatchLevel.RANK, SlowPattern.STEP_DOWN, 51, 126.0, 0.5,
          CauseVerdict(WatchCause.THERMAL, Certainty.LIKELY,
                       ("gpu1 (GPU 3): time in thermal slowdown: 34 %",), (), ("gpu1",)), (1,),
          ("gpu1",), StepPhase.BACKWARD),
    found("the job", WatchLevel.JOB, SlowPattern.OSCILLATION, 51, 90.0, 0.1,
          CauseVerdict(evidence=("nothing is measured of the node",),
                       rivals=(WatchCause.LINK, WatchCause.STORAGE)), still=False),
    found("rank 3", WatchLevel.RANK, SlowPattern.HANG, 200, 336.0, 30.0, CauseVerdict(), (3,), ("gpu4",),
          StepPhase.COMMUNICATION,
          attempt=1),
)
KEPT = KeptCause(("gpu2", "gpu3"), WatchedNode(
    "4711", "1-place-7", "gpu3", (), "step_down", "power", "likely", 0.2,
    "2027-01-15T08:04Z place rack 2; a step down that stays since step 90; costs 0.2 s a step (20 %); cause: "
    "power throttling (likely)",
    BEGAN + 250, BEGAN + 300))


def page() -> JobReport:
    """A job with a straggler, a restart and a hang at its end."""
    windows = [*(window(first, first + 9 if first < 51 else 50 + 1.5 * (first - 41),
                        1.0 if first < 51 else 1.5, checkpoint=0.05)
                 for first in range(1, 101, 10)),
               *(window(first, 185.5 + first - 71, attempt=1) for first in range(81, 201, 10))]
    attempts = [JobAttempt(0, 1, 100, BEGAN, BEGAN + 125.5, 4),
                JobAttempt(1, 81, 200, BEGAN + 185.5, BEGAN + 305.5, 4, 20, 60.0)]
    bad = suspects(FINDINGS)
    return JobReport("4711", goodput(attempts, windows, FINDINGS),
                     utilisation(windows, 1e15, 4, 989), "", FINDINGS,
                     forecast(rate(2, 40), 64, 30), "", ("4 ranks report, taken for as many GPUs",),
                     ("rank_2.jsonl: 3 lines of step times could not be read; the first: it is cut, "
                      "or no JSON",), bad,
                     "muster gate 'gpu[2-3]' --write-hostfile hosts.open --need 4 --spares @spares", (KEPT,))


def test_the_page_is_as_its_golden() -> None:
    said = "\n".join(text(page(), [sentence(one) for one in FINDINGS])) + "\n"
    assert said == (GOLDEN / "watch-report.txt").read_text()


def test_the_command_that_proposes_spares_is_one_that_the_gate_takes() -> None:
    words = shlex.split(_spares(("gpu1", "gpu2", "gpu3", "gpu4"), ("gpu1",)))
    assert words[:2] == ["muster", "gate"]
    took = gate.make_context("gate", words[2:]).params
    assert (took["write_hostfile"], took["need"], took["spares"]) == ("hosts.open", 4, "@spares")


def test_the_document_is_as_its_golden() -> None:
    made = document(page())
    validate(made, "watch.report-1")
    assert json.dumps(made, indent=1, ensure_ascii=False) + "\n" == (GOLDEN / "watch-report.json").read_text()


def watched() -> JobWatch:
    """A job of 32 ranks, two of which are slow, and a rack that is."""
    job = SimulatedJob(32, 300, 1, (Planted("compute", (5,), 1.4, since=80),
                                    Planted("data", (20,), 1.3, since=120, until=200)), every=5)
    watch = JobWatch(places=job.places())
    for now, lines in job.passes():
        watch.add_all(lines)
        watch.settle(now)
    return watch


def drawn(watch: JobWatch, width: int) -> str:
    out = io.StringIO()
    Console(file=out, width=width, highlight=False, color_system=None).print(
        _Table.drawn("4711", watch, width))
    return "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())


def test_the_live_table_is_as_its_golden_in_a_wide_and_a_narrow_terminal() -> None:
    watch = watched()
    for width in (120, 80):
        assert drawn(watch, width) == (GOLDEN / f"watch-table-{width}.txt").read_text()


@pytest.mark.parametrize("width", [20, 40, 70])
def test_a_terminal_that_is_too_narrow_for_the_table_cuts_no_word_of_a_finding(width: int) -> None:
    watch = watched()
    shown = " ".join(drawn(watch, width).split())
    assert "…" not in shown and all(sentence(one) in shown for one in watch.findings.values())


def test_a_table_without_step_times_says_that_nothing_is_known_and_one_of_many_findings_how_many_more(
) -> None:
    watch = JobWatch()
    assert drawn(watch, 80) == "job 4711: no step times yet\nnothing is known of it\n"
    for number in range(25):
        watch.findings[str(number)] = replace(FINDINGS[0], id=str(number))
    assert drawn(watch, 120).endswith("and 5 more\n")


def test_the_last_lines_are_as_their_golden() -> None:
    assert "\n".join(closing("4711", watched())) + "\n" == (GOLDEN / "watch-closing.txt").read_text()
