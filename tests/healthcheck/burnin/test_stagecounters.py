"""Counters by stage: growth on the accused component is named with it, and unread counters are not zero."""

from __future__ import annotations

import pytest

from healthcheck.burnin import faults
from healthcheck.burnin.model import Accusation, BurnInStage, Object
from healthcheck.burnin.stagecounters import StageCounters, between, with_causes
from tests.healthcheck.burnin.made import FLOORS, burnt, changed, places, sound

EIGHT = places(8)
RESULTS = sound(EIGHT)


def causes(one: Accusation, *stages: StageCounters) -> tuple[str, ...]:
    [found] = with_causes([one], stages, RESULTS)
    return found.counted


def slow(object_: Object, name: str, *tests: str, fault: str = faults.SLOW) -> Accusation:
    return Accusation(object_, name, fault, "slow", tests or ("node-rate-gpu003",))


def test_what_grew_is_reported_and_what_was_not_read_or_was_reset_is_unknown() -> None:
    before = {("gpu0", "pcie_replays"): 3, ("gpu0", "ecc_corrected"): 5, ("gpu1", "pcie_replays"): None,
              ("rail0", "symbol_error"): 9, ("rail1", "link_downed"): 255, ("rail2", "link_downed"): 0}
    after = {("gpu0", "pcie_replays"): 415, ("gpu0", "ecc_corrected"): 5, ("gpu1", "pcie_replays"): 0,
             ("rail0", "symbol_error"): 2, ("rail1", "link_downed"): 255}
    found = between(BurnInStage.NODE, "gpu003", before, after)
    assert found.read == {"gpu0": 2} and found.grew == (("gpu0", "pcie_replays", 412),)
    assert {(subject, name): why for subject, name, why in found.unknown} == {
        ("gpu1", "pcie_replays"): "not read before", ("rail0", "symbol_error"): "was reset",
        ("rail1", "link_downed"): "stood at 255, its maximum",
        ("rail2", "link_downed"): "not read after"}


def test_a_slow_gpu_is_reported_what_its_own_counters_did_in_the_stage_of_the_test_and_no_others() -> None:
    own = StageCounters(BurnInStage.NODE, "gpu003", {"gpu5": 11, "gpu4": 11},
                        (("gpu4", "pcie_replays", 7), ("gpu5", "pcie_replays", 412)))
    elsewhere = (StageCounters(BurnInStage.ALL, "gpu003", {"gpu5": 11}, (("gpu5", "ecc_corrected", 9),)),
                 StageCounters(BurnInStage.NODE, "gpu004", {"gpu5": 11}, (("gpu5", "ecc_corrected", 9),)))
    assert causes(slow(Object.GPU,
                       "gpu003:5"), own, *elsewhere) == ("its PCIe replays grew by 412 in the stage node",)


@pytest.mark.parametrize(("one", "said"), [
    (slow(Object.RAIL, "gpu003/rail2", "leaf1-gpu003-gpu004: gpu003 - gpu004 slow"),
     ("its symbol errors grew by 8 in the stage leaf-pairs",)),
    (slow(Object.NODE, "gpu003", "leaf1-gpu003-gpu004", fault=faults.LATE),
     ("gpu003/rail2's symbol errors grew by 8 in the stage leaf-pairs",
      "gpu003/gpu0's time under its power cap grew by 2.5 s in the stage leaf-pairs")),
    (slow(Object.PAIR, "gpu003 - gpu004", "leaf1-gpu003-gpu004", fault=faults.JITTER),
     ("gpu003/rail2's symbol errors grew by 8 in the stage leaf-pairs",
      "gpu004's counters in the stage leaf-pairs are not known: connect: refused")),
    (slow(Object.GPU, "gpu003:1", "leaf1-gpu003-gpu004"),
     ("none of its 11 counters that were read grew in the stage leaf-pairs",)),
    (slow(Object.GPU, "gpu003:2", "leaf1-gpu003-gpu004"),
     ("not known in the stage leaf-pairs: its PCIe replays (not read after)",)),
    (slow(Object.GPU, "gpu003:1", "leaf1-gpu003-gpu004", fault=faults.DEAD), ()),
    (slow(Object.GPU, "gpu005:1", "leaf1-gpu005-gpu006"), ()),
    (slow(Object.UNEXPLAINED, "all-1", "all-1"), ()),
])
def test_each_object_is_reported_for_what_it_consists_of(one: Accusation, said: tuple[str, ...]) -> None:
    looks = (StageCounters(BurnInStage.LEAF_PAIRS, "gpu003", {"gpu0": 11, "gpu1": 11, "rail2": 9},
                           (("gpu0", "slowdown_power_ns", 2_500_000_000), ("rail2", "symbol_error", 8)),
                           (("gpu2", "pcie_replays", "not read after"),)),
             StageCounters(BurnInStage.LEAF_PAIRS, "gpu004", {}, why="connect: refused"))
    assert causes(one, *looks)[:len(said) or None] == said


def test_a_node_s_gpus_that_a_look_did_not_see_are_not_reported_to_stand_still() -> None:
    look = StageCounters(BurnInStage.NODE, "gpu003", {}, (), (("GPUs", "ecc_uncorrected", "not read after"),))
    [line] = causes(slow(Object.GPU, "gpu003:5"), look)
    assert line == "not known in the stage node: its uncorrected ECC errors (not read after)"


def test_a_stage_that_was_gone_through_twice_is_reported_as_one_and_many_counters_in_few_lines() -> None:
    many = tuple(("gpu5", f"counter_{at}", 1) for at in range(9))
    looks = [StageCounters(BurnInStage.NODE, "gpu003", {"gpu5": 12}, (("gpu5", "a_pcie", 2), *many))
             for _ in range(2)]
    lines = causes(slow(Object.GPU, "gpu003:5"), *looks)
    assert (lines[0] == "its a_pcie grew by 4 in the stage node"
            and lines[-1] == "4 more of its counters grew in the stage node: the document has all")
    assert len(lines) == 7


def test_counters_name_a_cause_and_accuse_no_one() -> None:
    from healthcheck.burnin.judge import judge

    grew = tuple(StageCounters(BurnInStage.NODE, at.node, {"gpu5": 11}, (("gpu5", "pcie_replays", 10**6),))
                 for at in EIGHT)
    assert judge(burnt(EIGHT, RESULTS, stage_counters=grew), FLOORS).accusations == ()
    slower = changed(RESULTS, "node-rate-gpu003", "gpu003:5", figures={"tflops_bf16": 400.0})
    [one] = judge(burnt(EIGHT, slower, stage_counters=grew), FLOORS).accusations
    assert ((one.name, one.fault) == ("gpu003:5", faults.SLOW)
            and one.counted == ("its PCIe replays grew by 1000000 in the stage node",))
