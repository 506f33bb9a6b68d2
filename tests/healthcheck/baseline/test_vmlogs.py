"""The recorded logs of virtual machines are what they say they are, and a machine of today still says the
like."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.healthcheck.baseline.vmlogs import VmLog, load, names


def holds(log: VmLog) -> None:
    """Records without a gap, as many as stated; each fault's lines say what the fault is, and planted ones
    are there to the letter."""
    texts = log.texts()
    assert list(texts) == list(range(log.about["first"], log.about["last"] + 1))
    assert len(texts) == log.about["records"]
    for fault in log.faults:
        said = log.console if fault.console else "\n".join(texts[number] for number in sorted(fault.lines))
        assert all(re.search(text, said) for text in fault.says), fault.name
        for planted in fault.planted:
            assert all(line in said for line in planted.split("\n")), fault.name


@pytest.mark.parametrize("name", names())
def test_a_recording_is_whole_and_holds_the_faults_that_it_names(name: str) -> None:
    holds(load(name))


def test_there_are_clean_boots_of_two_builds_with_different_devices() -> None:
    first, second = ([load(name) for name in names(prefix)] for prefix in ("clean-", "build2-"))
    assert len(first) >= 6
    assert len(second) >= 3
    assert {log.kernel for log in first}.isdisjoint(log.kernel for log in second)
    assert all(not log.faults for log in (*first, *second))
    assert len({str(log.about["devices"]) for log in first}) == len(first)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_machine_of_today_can_be_recorded_with_a_fault(tmp_path: Path) -> None:
    from tests.testbed.vm.images import require_vm
    from tests.testbed.vm.record import PLANS, record
    require_vm()
    record(next(plan for plan in PLANS if plan.name == "processes"), tmp_path)
    log = load("processes", tmp_path)
    holds(log)
    assert {fault.name for fault in log.faults} >= {"oom", "process-segfault"}
