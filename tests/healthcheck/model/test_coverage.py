"""What a snapshot reports of itself: how much it requested, captured, and was denied for want of root."""

from __future__ import annotations

import pytest

from healthcheck.model.coverage import Coverage, RequestedProbes, coverage
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.report.document import node
from healthcheck.sweep.assess import Assessed
from inventory.transport.base import Failure, Stage
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed as sweep_of
from tests.healthcheck.assessing import page_of
from tests.packagedrules import RULES

TOOL = Probe("a.tool", ProbeKind.COMMAND, argv=("tool",), root=True)
LOG = Probe("a.log", ProbeKind.FILES, paths=("/log",), root=True)
OPEN = Probe("a.open", ProbeKind.FILES, paths=("/open",))


def of(probe: Probe, capture: Capture | None) -> Coverage:
    held = {} if capture is None else {probe.id: capture}
    return coverage(Recording("n", 1.0, machine.HOST, None, held), RequestedProbes.of([probe]))


@pytest.mark.parametrize(("probe", "capture"), [
    (TOOL, Capture(Outcome.DENIED)),
    (TOOL, Capture(Outcome.DENIED, note="the helper did not run: sudo: a password is required")),
    (TOOL, Capture(Outcome.DONE, exit=1,
                   stderr="permission denied while trying to connect to the Docker daemon socket")),
    (TOOL,
     Capture(Outcome.DONE, exit=0,
             text='{"ID":"","ServerErrors":["Got permission denied while trying to reach \\"x\\""]}\n')),
    (TOOL, Capture(Outcome.DONE, exit=1, text="tool: must be root\n")),
    (TOOL, Capture(Outcome.DONE, exit=0, stderr="/dev/x: Operation not permitted")),
    (LOG, machine.denied("/log")), (LOG, Capture(Outcome.DENIED))])
def test_what_was_refused_for_want_of_root_is_named(probe: Probe, capture: Capture) -> None:
    assert of(probe, capture) == Coverage(1, 0, 1, (probe.id,))


@pytest.mark.parametrize(("probe", "capture", "captured"), [
    (TOOL, Capture(Outcome.DONE, exit=0, text="permission denied 0 times\n"), 1),
    (TOOL, Capture(Outcome.DONE, exit=1, stderr="no such disk"), 1), (TOOL, Capture(Outcome.TRUNCATED), 1),
    (TOOL, Capture(Outcome.TIMEOUT), 0), (TOOL, Capture(Outcome.MISSING), 0), (TOOL, None, 0),
    (LOG, machine.done(**{"/log": "permission denied"}), 1), (OPEN, machine.denied("/open"), 1),
    (OPEN, Capture(Outcome.DENIED), 0)])
def test_what_failed_otherwise_is_not_put_down_to_privilege(probe: Probe, capture: Capture | None,
                                                            captured: int) -> None:
    assert of(probe, capture) == Coverage(1, captured, int(probe.root), ())


def assessed() -> Assessed:
    log = machine.denied("/dev/kmsg")
    return sweep_of(
        *(machine.recording(f"gpu00{n}", kernel_log=log, docker_info=machine.docker_denied())
          for n in (1, 2, 3)),
        machine.recording("gpu004", kernel_log=log),
        Recording("gpu005", 1.0, None, Failure(Stage.CONNECT, "refused")),
        rules=RULES.select(("docker-answers", "kernel-hardware-error", "host-*ap")))


def test_the_document_tells_it_of_each_node_that_was_reached() -> None:
    first, *_, last = [node(report) for report in assessed().reports]
    assert first["probes"] == {"asked": 5, "captured": 3, "need_root": 2,
                               "denied": ["docker.info", "kernel.log"]}
    assert last["probes"] is None


def test_the_table_folds_equal_nodes_into_one_line() -> None:
    page = page_of(assessed())
    assert "2 of 5 probes need root and were not seen: docker.info, kernel.log  gpu[001-003]\n" in page
    assert "1 of 5 probes needs root and was not seen: kernel.log  gpu004\n" in page


def test_a_file_entry_is_enough_for_the_word_denied() -> None:
    mixed = Capture(Outcome.DONE,
                    files={"/a": FileCapture(Outcome.DONE, "x"), "/b": FileCapture(Outcome.DENIED)})
    assert of(LOG, mixed).denied == ("a.log",)
