"""What is unusual in a kernel log, on recorded boots: a healthy boot is quiet, and what is new is reported
all the same."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from healthcheck.kernellog.masking import template
from healthcheck.kernellog.model import Baseline, BootLog
from tests.healthcheck.baseline.novelty import boots, judged, learned, planted

CLEAN = sorted(boots("clean-"))
LINES = planted()


@cache
def clean(name: str) -> BootLog:
    return boots("clean-")[name]


@cache
def of_the_others(name: str) -> Baseline:
    return learned((other, clean(other)) for other in CLEAN if other != name)


def test_there_are_six_boots_and_forty_planted_lines_that_none_of_them_says() -> None:
    said = {template(line.text) for name in CLEAN for line in clean(name).lines}
    assert len(CLEAN) == 6 and len(LINES) == 40
    assert said.isdisjoint(template(line.text) for line in LINES)


@pytest.mark.parametrize("snapshots", [1, 2])
@pytest.mark.parametrize("name", CLEAN)
def test_a_healthy_boot_warns_of_nothing_by_a_baseline_of_five_others(name: str, snapshots: int) -> None:
    assert judged(clean(name), of_the_others(name), snapshots).warns == ()


@pytest.mark.parametrize("name", CLEAN)
def test_a_healthy_boot_of_a_second_machine_is_quiet_by_a_baseline_of_one_first_boot(name: str) -> None:
    first = learned([(other, clean(other)) for other in CLEAN if other != name][:1])
    assert len(judged(clean(name), first).warns) == 0


@pytest.mark.parametrize("name", CLEAN)
def test_every_planted_line_is_reported(name: str) -> None:
    with_them = replace(clean(name), lines=(*clean(name).lines, *LINES),
                        raw=(*clean(name).raw, *(line.text for line in LINES)))
    found = judged(with_them, of_the_others(name))
    reported = {*found.informs, *found.warns, *(line for result in found.report.results
                                                for finding in result.findings for line in finding.lines)}
    missed = [line.text for line in LINES if template(line.text)[:200] not in reported
              and not any(line.text in one for one in reported)]
    assert missed == []


def test_what_is_new_and_says_trouble_warns_in_a_second_snapshot_and_the_rest_goes_on_informing() -> None:
    name = CLEAN[0]
    with_them = replace(clean(name), lines=(*clean(name).lines, *LINES),
                        raw=(*clean(name).raw, *(line.text for line in LINES)))
    once, twice = (judged(with_them, of_the_others(name), snapshots) for snapshots in (1, 2))
    assert once.warns == ()
    errors = {template(line.text)[:200] for line in LINES if line.priority is not None and line.priority <= 3}
    assert len(errors) > 10 and errors <= set(twice.warns)
    assert template("coldplate: inlet temperature 48 C, setpoint 32 C") in twice.informs
