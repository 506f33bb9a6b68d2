"""A judged node's facts are let go at once: in a cycle they would stay until Python's collector comes by, and
that costs a sweep of 512 nodes a tenth of its time (scripts/bench/judge)."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator

import pytest

from healthcheck.model.recording import Recording
from healthcheck.sweep.assess import Assessment
from inventory.model import Node
from tests.corpus.test_cached import recorded
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import after
from tests.packagedrules import RULES

HALF = {key: {"error": [999, "Unknown Error"]} for key in sorted(machine.HEALTHY_GPU)[::2]}
LOOKS: dict[str, Callable[[], list[Recording]]] = {
    "healthy": lambda: [machine.recording("n1")],
    "sick": lambda: [machine.recording("n1", gpu_nvml=machine.nvml(gpu3={"ecc_uncorrected": {"ok": 7}}))],
    "mute": lambda: [machine.recording("n1", gpu_nvml=machine.nvml(gpu2=HALF, gpu5=HALF))],
    "recorded": lambda: [look for look in recorded() if look.host is not None],
}


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Nothing is collected before the test asks for it."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("sku", ["hgx-h100", None])
@pytest.mark.parametrize("kind", LOOKS)
def test_nothing_of_a_judged_node_waits_for_the_garbage_collector(kind: str, sku: str | None) -> None:
    looks = LOOKS[kind]()
    assessment = Assessment([Node(look.node, sku=sku) for look in looks], RULES)
    for look in looks:      # what is kept for all nodes is made by now
        assessment.judged(look, after(look, -3600))
    gc.collect()
    for look in looks:
        assessment.judged(look, after(look, -3600))
        assert not gc.collect(), look.node
