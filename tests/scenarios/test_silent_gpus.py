"""GPUs that do not answer, through the simulated driver: whatever it says of them, each is one finding and
one line."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from healthcheck.model.cause import causes, is_explained
from healthcheck.model.outcome import NodeReport, NodeState, Status
from tests.scenarios import node
from tests.scenarios.conftest import Room

# What the driver says, and the causes that must be named; operators see 'Unknown Error' of a GPU that died
# (dcgm-exporter issue 604).
SILENT: dict[str, tuple[Mapping[str, str], tuple[str, ...]]] = {
    "lost": ({"gpu.6.error": "15"}, ("GPU 6 is lost (NVML 15)",)),
    "unknown error": ({"gpu.4.error": "999"}, ("GPU 4 does not answer: Unknown Error (NVML 999)",)),
    "two": ({"gpu.1.error": "15", "gpu.7.error": "10"},
            ("GPU 1 is lost (NVML 15)", "GPU 7 does not answer: Timeout (NVML 10)")),
    "all": ({"gpu.*.error": "999"},
            ("driver: the driver lists 8 GPUs, and none answers: Unknown Error (NVML 999)",)),
}


def report(scenario: Mapping[str, str], room: Room) -> NodeReport:
    machine = node.machine()
    machine.scenario |= scenario
    return node.judged(node.look(machine, room.folder), node.earlier(room.healthy), room.peers)


@pytest.mark.parametrize("name", SILENT)
def test_a_gpu_that_does_not_answer_explains_every_rule_that_is_unknown_for_it(name: str, room: Room) -> None:
    scenario, sentences = SILENT[name]
    of = report(scenario, room)
    found = causes(of.results)
    assert [cause.sentence.rpartition("; ")[0] for cause in found] == list(sentences)
    assert all(len(cause.rules) > 17 for cause in found) and of.state is NodeState.UNHEALTHY
    left = [result.rule for result in of.results if result.status is Status.UNKNOWN
            and not is_explained(result)]
    # nvlink-speed compares links, and where not one is left it has nothing to compare: that is no GPU's own
    # answer.
    assert left == ["kernel-baseline", *(["nvlink-speed"] if name == "all" else [])]


def test_a_gpu_that_we_may_not_ask_is_accused_of_nothing(room: Room) -> None:
    of = report({"gpu.4.error": "4"}, room)
    assert (of.state, causes(of.results)) == (NodeState.UNKNOWN, ())
    assert {result.rule: result.status for result in of.results}["gpu-answers"] is Status.UNKNOWN
