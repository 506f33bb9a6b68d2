"""Consoles beside the steps of a run, and on its page: begun with a step that starts machines, ended with it,
shown where one is stuck."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import Owner
from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.model import Node
from inventory.nodeset import fold
from provisioning.bringup.engine.model import Executor, Machine, Observation, StepState
from provisioning.bringup.engine.run import run
from provisioning.bringup.engine.site import RunContext
from provisioning.bringup.pages.progress import document, progress
from provisioning.bringup.pages.status import lines
from provisioning.bringup.steps.console import ending_with_steps, with_consoles
from provisioning.cli.bringupconsole import stuck_consoles
from provisioning.console.capture import ConsoleCapture, ConsoleCaptures
from provisioning.console.log import CaptureMark, ConsoleLog, tail
from provisioning.console.source import ConsoleSource
from tests.documents import validate
from tests.provisioning.bringup.scripted import SO, Acts, Plan, node, step, trouble
from tests.testbed.sshd import wait_until

PANIC = b"[    3.000000] Kernel panic - not syncing: VFS: Unable to mount root fs on unknown-block(0,0)\r\n"


class Written:
    """A console on which the same stands always."""

    way = "a test"

    def __init__(self) -> None:
        self._left = [PANIC]

    def read(self, seconds: float) -> bytes:
        if self._left:
            return self._left.pop()
        time.sleep(0.02)
        return b""

    def close(self) -> None:
        pass


def opens(node: Node, folder: Path) -> ConsoleSource:
    return Written()


def ran(folder: Path, os_seen: Callable[[Machine], Observation]) -> None:
    """A run of step os and one after it, at which the capture has to be over."""
    def passed(machine: Machine) -> Observation:
        wait_until(lambda: [one for one in tail(folder, machine.name) if one.mark is CaptureMark.ENDED],
                   what="the end of the capture")
        return SO

    executors: dict[str, Executor] = {"os": Acts(step("os"), os_seen),
                                      "service": Acts(step("service"), passed)}
    captures = ConsoleCaptures(folder, 4, open_source=opens)
    try:
        run(RunContext(folder, "ada"), [node("n1")], with_consoles(executors, captures),
            Plan({name: one.step for name, one in executors.items()}),
            ending_with_steps(captures, lambda event: None))
    finally:
        captures.close()


def written(folder: Path) -> Callable[[Machine], Observation]:
    def observe(machine: Machine) -> Observation:
        wait_until(lambda: [one for one in tail(folder, "n1") if one.mark is None], what="a captured line")
        return SO
    return observe


def test_a_capture_begins_with_the_step_and_is_over_at_the_next(tmp_path: Path) -> None:
    ran(tmp_path, written(tmp_path))
    with opened(tmp_path) as store:
        assert [one.stand for one in bringups.progress(store)] == ["done"]
    assert [one.mark for one in tail(tmp_path, "n1")] == [CaptureMark.BEGUN, None, CaptureMark.ENDED]


def test_a_machine_that_is_stuck_is_shown_with_its_last_lines_and_what_is_known_of_them(
        tmp_path: Path) -> None:
    seen = written(tmp_path)
    ran(tmp_path, lambda machine: seen(machine) and trouble("its system does not answer", Owner.OPERATOR))
    with opened(tmp_path) as store:
        found = progress(bringups.progress(store), bringups.troubles(store), (), bringups.steps(store),
                         time.time(), owners={})
    shown = stuck_consoles(tmp_path, [packaged()])(found)
    page = list(lines(shown, fold, lambda text, kind: text))
    at = page.index("    console:")
    assert "panic-root, 1x" in page[at + 1] and page[at + 2] == f"      | {PANIC.decode().strip()}"
    made = document(shown)
    validate(made, "bringup-1")
    (machine,) = made["machines"]
    assert machine["console"]["captured"] and machine["console"]["findings"][0]["entry"] == "panic-root"
    assert document(replace(found))["machines"][0]["console"] is None


def test_a_stuck_machine_of_which_nothing_was_captured_says_so(tmp_path: Path) -> None:
    ran_without = Observation(StepState.TROUBLE, "no")
    run(RunContext(tmp_path, "ada"), [node("n1")], {"os": Acts(step("os"), lambda machine: ran_without)},
        Plan({"os": step("os")}),
        lambda event: None)
    with opened(tmp_path) as store:
        found = progress(bringups.progress(store), bringups.troubles(store), (), (), time.time(), owners={})
    assert "    console: not captured" in list(lines(stuck_consoles(tmp_path, [packaged()])(found), fold,
                                                     lambda text, kind: text))


def test_a_capture_waits_for_whoever_has_the_log_and_then_begins(tmp_path: Path) -> None:
    other = ConsoleLog(tmp_path, "n1")
    capture = ConsoleCapture(Node("n1"), tmp_path, open_source=opens)
    capture.start()
    try:
        capture.join(0.3)
        assert capture.running
        other.close()
        wait_until(lambda: any(one.mark is CaptureMark.BEGUN for one in tail(tmp_path, "n1")), 20,
                   "it never began")
    finally:
        capture.end()
        capture.join(20)
    assert not capture.running
