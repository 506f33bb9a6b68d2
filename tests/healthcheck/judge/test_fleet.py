"""Fleet checks: they name the outlier and its peers' value, accuse no one without grounds, and report what
they could not compare.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.checks.fleet import (
    Comparison,
    FleetReadings,
    NoMajority,
    Uncompared,
    far_off,
    odd_ones,
    rows,
)
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.nvlink import GpuLinks, NvLinkErrors
from healthcheck.facts.snapshot_time import SnapshotTime
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, changed, reading
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Finding, Origin, Result, Status
from healthcheck.model.recording import Capture, Outcome
from healthcheck.ruleset.rule import Rule
from healthcheck.sweep.assess import Assessed
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed as sweep_of
from tests.healthcheck.rules import Thing, rule, thing
from tests.packagedrules import RULES
from tests.tries import tries

BY_ID = {known.id: known for known in RULES.rules}
FLEET = [known for known in RULES.rules if known.checked.fleet]
HEALTHY: tuple[Gpu, ...] = build_fact(FACTS["gpus"], Captures(machine.recording()))


def gpus(**changes: Any) -> tuple[Gpu, ...]:
    """Eight healthy GPUs, all with these changes."""
    return tuple(changed(gpu, **changes) for gpu in HEALTHY)


def one(index: int, **changes: Any) -> tuple[Gpu, ...]:
    """Eight healthy GPUs, one of them changed."""
    return tuple(changed(gpu, **changes) if gpu.index == index else gpu for gpu in HEALTHY)


def judged(rule_id: str, fact: str, cohort: Mapping[str, Any]) -> dict[str, Result]:
    return judge_fleet(BY_ID[rule_id], {node: NodeFacts({fact: value}) for node, value in cohort.items()},
                       RULES.skus["hgx-h100"])


def message(result: Result) -> str:
    return "; ".join(f"{f.subject}: {f.observed}, expected {f.expected}" for f in result.findings)


def fleet(odd: Any = None, number: int = 16, usual: tuple[Gpu, ...] = HEALTHY) -> dict[str, Any]:
    """So many nodes with equal GPUs, the last of them with others."""
    return {f"n{i:02d}": usual for i in range(number)} | ({} if odd is None else {f"n{number - 1:02d}": odd})


MAJORITIES = [
    ("fleet-gpu-model", {"model": "NVIDIA H200"}, "NVIDIA H200, expected NVIDIA H100 80GB HBM3"),
    ("fleet-vbios", {"vbios": "96.00.61.00.01"}, "96.00.61.00.01, expected 96.00.74.00.01"),
    ("fleet-gsp", {"gsp_firmware": "535.1"}, "535.1, expected 550.54.15"),
    ("fleet-inforom", {"inforom": "G520.0200.00.01"}, "G520.0200.00.01, expected G520.0200.00.05"),
    ("fleet-board", {"part_number": "692-2G520-0205-000"}, "692-2G520-0205-000, expected 692-2G520-0200-000"),
    ("fleet-pcie", {"pcie_width": 8}, "x8, up to generation 5, expected x16, up to generation 5"),
    ("fleet-pcie", {"pcie_generation_max": 4}, "x16, up to generation 4, expected x16, up to generation 5"),
]


@pytest.mark.parametrize(("rule_id", "changes", "words"), MAJORITIES)
def test_a_gpu_unlike_the_majority_is_named_with_the_majoritys_value(
    rule_id: str, changes: dict[str, Any], words: str,
) -> None:
    results = judged(rule_id, "gpus", fleet(one(3, **changes)))
    assert message(results["n15"]) == f"GPU 3: {words}, as on 127 of 128 GPUs"
    assert {results[f"n{i:02d}"].status for i in range(15)} == {Status.PASS}


@pytest.mark.parametrize(("rule_id", "changes"), [(rule_id, changes) for rule_id, changes, _ in MAJORITIES])
def test_a_gpu_that_cannot_be_read_leaves_the_majority_and_makes_its_own_node_unknown(
    rule_id: str, changes: dict[str, Any],
) -> None:
    field = next(iter(changes))
    results = judged(rule_id, "gpus",
                     {**fleet(one(3, **changes)), "dumb": one(5, **{field: Unmeasured("hung")}),
                      "none": one(1, **{field: UNSUPPORTED})})
    assert (results["dumb"].status, results["dumb"].reason) == (Status.UNKNOWN, "GPU 5: hung")
    assert (results["n15"].status, results["n00"].status) == (Status.FAIL, Status.PASS)
    assert results["none"].status is Status.PASS and "not supported" in results["none"].reason
    assert "of 142 GPUs" in message(results["n15"])


@pytest.mark.parametrize("rule_id", ["fleet-vbios", "fleet-temperature", "fleet-power", "fleet-gsp"])
def test_where_no_gpu_has_the_thing_the_node_is_skipped(rule_id: str) -> None:
    nothing = gpus(vbios=UNSUPPORTED, temperature_c=UNSUPPORTED, power_watts=UNSUPPORTED,
                   gsp_firmware=UNSUPPORTED)
    results = judged(rule_id, "gpus", {**fleet(), "old": nothing})
    assert (results["old"].status, results["n00"].status) == (Status.SKIPPED, Status.PASS)


def test_equal_odd_gpus_of_one_node_are_one_finding() -> None:
    (finding,) = judged("fleet-vbios", "gpus", fleet(gpus(vbios="96.1")))["n15"].findings
    assert finding.subject.startswith("GPU 0, GPU 1, ") and finding.subject.endswith("GPU 7")


def test_a_fleet_of_two_firmwares_accuses_no_one_and_passes_no_one() -> None:
    half = {f"n{i:02d}": gpus(vbios="a" if i % 2 else "b") for i in range(16)}
    results = judged("fleet-vbios", "gpus", half)
    assert {(r.status, r.origin) for r in results.values()} == {(Status.UNKNOWN, Origin.MUSTER)}
    assert results["n00"].reason.endswith("no VBIOS holds a majority of 128 GPUs: 64 say a, 64 say b")


def test_a_gpu_far_hotter_than_its_slots_peers_is_named_with_their_median() -> None:
    results = judged("fleet-temperature", "gpus", fleet(one(3, temperature_c=62)))
    assert message(results["n15"]) == (
        "GPU 3: 62 C, 31 C above the median, expected about 31 C, the median of 16 GPUs in slot 3, idle")
    assert {results[f"n{i:02d}"].status for i in range(15)} == {Status.PASS}


@pytest.mark.parametrize(("rule_id", "changes", "usual"), [
    ("fleet-temperature", {"temperature_c": 31 + 15}, {}),
    ("fleet-temperature", {"temperature_c": 5}, {}), ("fleet-power", {"power_watts": 72.0 + 50}, {}),
    ("fleet-clocks", {"clock_sm_mhz": 1980 - 150}, {"utilization_percent": 100})])
def test_at_the_very_limit_and_on_the_harmless_side_no_one_is_accused(
    rule_id: str, changes: dict[str, Any], usual: dict[str, Any],
) -> None:
    alike = gpus(**usual)
    odd = tuple(changed(gpu, **changes) if gpu.index == 3 else gpu for gpu in alike)
    assert judged(rule_id, "gpus", fleet(odd, usual=alike))["n15"].status is Status.PASS


def test_a_gpu_that_draws_far_more_or_less_power_than_its_peers_is_named() -> None:
    assert "99 W above the median" in message(judged("fleet-power", "gpus",
                                                     fleet(one(0, power_watts=171.0)))["n15"])
    assert "52 W below the median" in message(judged("fleet-power", "gpus",
                                                     fleet(one(0, power_watts=20.0)))["n15"])


def test_a_slow_clock_is_reported_under_load_and_an_idle_one_is_not_compared() -> None:
    busy = gpus(utilization_percent=99)
    slow = tuple(changed(gpu, clock_sm_mhz=1200) if gpu.index == 6 else gpu for gpu in busy)
    assert message(judged("fleet-clocks", "gpus", fleet(slow, usual=busy))["n15"]) == (
        "GPU 6: 1200 MHz, 780 MHz below the median, expected about 1980 MHz, the median of 16 GPUs in "
        "slot 6, busy")
    idle = judged("fleet-clocks", "gpus", fleet(one(6, clock_sm_mhz=345)))["n15"]
    assert (idle.status, idle.reason) == (Status.SKIPPED, "not busy, and clocks are compared under load")


def test_a_busy_gpu_among_idle_ones_is_not_compared_with_them_and_says_so() -> None:
    working = one(2, temperature_c=70, utilization_percent=100)
    result = judged("fleet-temperature", "gpus", fleet(working))["n15"]
    assert (result.status, result.reason) == (Status.PASS, "GPU 2: fewer than 8 peers to compare with")
    alone = judged("fleet-temperature", "gpus", fleet(gpus(utilization_percent=100, temperature_c=70)))["n15"]
    assert (alone.status, alone.reason) == (Status.SKIPPED, "fewer than 8 peers to compare with")


def test_a_fleet_of_a_hot_and_a_cold_half_accuses_no_one_and_says_so() -> None:
    for share in (8, 9):
        half = {f"n{i:02d}": gpus(temperature_c=75 if i < share else 30) for i in range(16)}
        results = judged("fleet-temperature", "gpus", half)
        assert {(r.status, r.reason) for r in results.values()} == {
            (Status.SKIPPED, "the peers differ too widely to say who is the outlier")}


# Rates

def counted(value: Any) -> tuple[Gpu, ...]:
    return one(4, ecc_corrected=value, pcie_replays=value)


def snapshots(growth: int, *, hours: float = 1.0, before: Any = 0) -> NodeFacts:
    began = SnapshotTime("snapshot_time", 10_000.0 - hours * 3600, 0.0)
    now = counted(before + growth if isinstance(before, int) else growth)
    return NodeFacts({"gpus": now, "snapshot_time": SnapshotTime("snapshot_time", 10_000.0, 0.0)},
                     {"gpus": counted(before), "snapshot_time": began})


RATES = [("fleet-ecc-corrected", 1000), ("fleet-pcie-replays", 100)]


@pytest.mark.parametrize(("rule_id", "limit"), RATES)
def test_a_gpu_whose_counter_grows_far_faster_than_its_peers_is_named(rule_id: str, limit: int) -> None:
    cohort = {f"n{i}": snapshots(0) for i in range(8)}
    assert judge_fleet(BY_ID[rule_id], {**cohort, "odd": snapshots(limit)})["odd"].status is Status.PASS
    results = judge_fleet(BY_ID[rule_id], {**cohort, "odd": snapshots(limit + 1)})
    assert message(results["odd"]).startswith(f"GPU 4: {limit + 1} an hour")
    assert results["n0"].status is Status.PASS
    assert judge_fleet(BY_ID[rule_id],
                       {**cohort, "slow": snapshots(limit + 1, hours=2)})["slow"].status is Status.PASS


@pytest.mark.parametrize(("rule_id", "limit"), RATES)
def test_a_rate_without_an_earlier_snapshot_is_skipped_and_one_of_a_reset_counter_unknown(
    rule_id: str, limit: int,
) -> None:
    first = NodeFacts(snapshots(0).facts)
    cohort = {f"n{i}": snapshots(0) for i in range(8)}
    results = judge_fleet(BY_ID[rule_id], {**cohort, "new": first, "reset": snapshots(-5, before=9),
                                           "clock": snapshots(3, hours=-1)})
    assert (results["new"].status, results["new"].reason) == (Status.SKIPPED,
                                                              "no earlier snapshot of this node in this boot")
    assert results["reset"].status is Status.UNKNOWN and "went from 9 to 4" in results["reset"].reason
    assert results["clock"].status is Status.UNKNOWN
    assert results["n0"].status is Status.PASS
    strange = snapshots(0, before=Unmeasured("lost"))
    assert judge_fleet(BY_ID[rule_id], {**cohort, "odd": strange})["odd"].status is Status.UNKNOWN


def test_what_one_node_refuses_of_a_reading_that_others_have_in_common_costs_them_nothing() -> None:
    cohort = {f"n{i}": snapshots(0) for i in range(8)}
    began_anew = NodeFacts(cohort["n0"].facts,
                           {"gpus": counted(5), "snapshot_time": SnapshotTime("snapshot_time", 6400.0, 0.0)})
    results = judge_fleet(BY_ID["fleet-pcie-replays"], {**cohort, "anew": began_anew})
    assert (results["anew"].status, results["n0"].status) == (Status.UNKNOWN, Status.PASS)
    assert results["anew"].reason.startswith("GPU 4: pcie_replays went from 5 to 0")


def test_a_counter_not_measured_before_is_unknown_and_one_not_supported_is_reported() -> None:
    cohort = {f"n{i}": snapshots(0) for i in range(8)}
    hung, old = snapshots(0, before=Unmeasured("hung")), snapshots(0, before=UNSUPPORTED)
    results = judge_fleet(BY_ID["fleet-pcie-replays"], {**cohort, "hung": hung, "old": old})
    assert (results["hung"].status, results["hung"].reason) == (Status.UNKNOWN, "GPU 4: hung")
    assert "not supported: PCI Express replays of GPU 4" in results["old"].reason


def links(active: Any = 18) -> tuple[GpuLinks, ...]:
    return tuple(GpuLinks(f"GPU {n} NVLinks", n, 18, active if n == 2 else 18, ()) for n in range(8))


def test_a_gpu_with_fewer_nvlinks_than_most_is_named() -> None:
    results = judged("fleet-nvlink", "gpu_links", {**{f"n{i}": links() for i in range(5)}, "odd": links(17),
                                                   "dumb": links(Unmeasured("x"))})
    assert message(results["odd"]) == (
        "GPU 2 NVLinks: 17 of 18 links up, expected 18 of 18 links up, as on 54 of 55 GPUs")
    assert (results["dumb"].status, results["n0"].status) == (Status.UNKNOWN, Status.PASS)
    alone = tuple(changed(link, links=UNSUPPORTED, active=UNSUPPORTED) for link in links())
    assert judged("fleet-nvlink", "gpu_links",
                  {**{f"n{i}": links() for i in range(5)}, "pcie": alone})["pcie"].status is Status.SKIPPED


def replays(number: Any, before: Any = 0) -> NodeFacts:
    def at(count: Any) -> tuple[NvLinkErrors, ...]:
        return tuple(NvLinkErrors(f"GPU 1 NVLink {n}", 1, n, count if n == 7 else 0, 0, 0, 0, 0)
                     for n in range(18))

    return NodeFacts({"nvlink_errors": at(number),
                      "snapshot_time": SnapshotTime("snapshot_time", 7200.0, 0.0)},
                    {"nvlink_errors": at(before),
                     "snapshot_time": SnapshotTime("snapshot_time", 3600.0, 0.0)})


def test_an_nvlink_that_repeats_far_more_than_the_others_is_named() -> None:
    cohort = {f"n{i}": replays(0) for i in range(4)}
    results = judge_fleet(BY_ID["fleet-nvlink-errors"],
                          {**cohort, "odd": replays(101), "dumb": replays(Unmeasured("x"))})
    assert message(results["odd"]).startswith("GPU 1 NVLink 7: 101 an hour, 101 an hour above the median")
    assert (results["dumb"].status, results["n0"].status) == (Status.UNKNOWN, Status.PASS)
    blackwell = replays(0)
    links_of = tuple(changed(link, replay=UNSUPPORTED) for link in blackwell.facts["nvlink_errors"])
    blackwell = NodeFacts({**blackwell.facts, "nvlink_errors": links_of}, blackwell.previous)
    assert judge_fleet(BY_ID["fleet-nvlink-errors"],
                       {**cohort, "new": blackwell})["new"].status is Status.SKIPPED


# Boot times

def assessed(uptimes: Mapping[str, float | None]) -> dict[str, Result]:
    seen = [machine.recording(name, host_uptime=Capture(Outcome.MISSING) if hours is None else up_for(hours))
            for name, hours in uptimes.items()]
    return boot_times(sweep_of(*seen))


def up_for(hours: float) -> Capture:
    return machine.done(**{"/proc/uptime": f"{hours * 3600:.2f} 99.0\n"})


def boot_times(of: Assessed) -> dict[str, Result]:
    return {report.node: next(r for r in report.results if r.rule == "fleet-boot-time")
            for report in of.reports}


def test_a_node_that_booted_lately_among_established_peers_is_named() -> None:
    results = assessed({**{f"n{i}": 960.0 for i in range(7)}, "odd": 3.5, "dumb": None})
    assert message(results["odd"]) == (
        "boot: 3.5 hours ago, expected as long ago as its peers': 40 days, the median of 8 nodes")
    assert (results["n0"].status, results["dumb"].status) == (Status.PASS, Status.UNKNOWN)


def test_a_node_whose_earlier_snapshot_shows_the_reboot_is_not_accused_twice() -> None:
    seen = [machine.recording(f"n{i}", host_uptime=up_for(3.5 if i > 5 else 960.0)) for i in range(8)]
    before = replace(machine.on_host(seen[7], boot_id="an earlier one"),
                     received=seen[7].received - 960 * 3600)
    results = boot_times(sweep_of(*seen, before={"n7": before}))
    assert (results["n6"].status, results["n7"].status) == (Status.FAIL, Status.SKIPPED)
    assert results["n7"].reason == "an earlier snapshot shows this reboot, which host-rebooted judges"


def test_a_wave_of_reboots_and_a_young_fleet_accuse_no_one() -> None:
    wave = assessed({f"n{i}": 2.0 if i < 3 else 960.0 for i in range(9)})
    assert (wave["n0"].status, wave["n8"].status) == (Status.SKIPPED, Status.PASS)
    assert {r.status
            for r in assessed({f"n{i}": 2.0 if i else 90.0 for i in range(4)}).values()} == {Status.PASS}


@pytest.mark.parametrize("text", ["", "up", "-3.0 1", "nan 1", "1e9 1", "9" * 40])
def test_an_uptime_that_is_none_is_not_measured(text: str) -> None:
    fact = build_fact(FACTS["uptime"],
                      Captures(machine.recording(host_uptime=machine.done(**{"/proc/uptime": text}))))
    assert isinstance(reading(fact, "hours"), Unmeasured)


# The engine

def test_a_node_with_a_part_of_its_gpus_is_compared_by_these_and_does_not_pass() -> None:
    results = judged("fleet-vbios", "gpus", {**fleet(), "part": Partial(HEALTHY[:4], "hung"),
                                             "gone": Unmeasured("denied"), "none": ()})
    assert {results[node].status for node in ("part", "gone", "none")} == {Status.UNKNOWN}
    assert judged("fleet-vbios", "gpus",
                  {**fleet(), "part": Partial(one(1, vbios="x")[:4], "hung")})["part"].status is Status.FAIL


def test_nodes_whose_sku_has_no_gpus_are_skipped() -> None:
    results = judge_fleet(BY_ID["fleet-vbios"], {f"n{i}": NodeFacts({"gpus": ()}) for i in range(4)},
                          RULES.skus["cpu-only"])
    assert {(r.status, r.reason)
            for r in results.values()} == {(Status.SKIPPED, "there are no gpus, as the SKU says")}


def test_readings_of_one_subject_that_are_refused_leave_the_others_of_its_node_compared() -> None:
    def hot(things: Mapping[str, tuple[Thing, ...]]) -> Comparison:
        for node, subject, value in rows(things, lambda thing: str(thing.heat + thing.weight)):
            if int(value) > 100:
                yield node, Finding(value, 100, subject)

    cohort = {f"n{i}": NodeFacts({"things": (thing("a", 1), thing("b", 99, 9))}) for i in range(4)}
    cohort["x"] = NodeFacts(
        {"things": (thing("a", Unmeasured("p")), thing("b", 1, Unmeasured("q")), thing("c", 99, 9))})
    results = judge_fleet(rule(hot, fleet=True), cohort)
    assert (results["n0"].status, results["x"].status) == (Status.FAIL, Status.FAIL)
    assert [found.subject for found in results["x"].findings] == ["c"]
    assert "p" in results["x"].reason and "q" in results["x"].reason


def test_every_fleet_rule_can_be_given_by_a_site_and_says_why_its_limits_are_what_they_are() -> None:
    assert len(FLEET) >= 16
    assert all(known.severity.value in ("info", "warning") for known in FLEET)


# Properties

VALUES = st.lists(st.floats(0, 1000, allow_nan=False, width=32), min_size=8, max_size=40)


def compared(values: list[float]) -> list[tuple[str, Finding | Uncompared]]:
    readings = [FleetReadings(f"n{i}", ("GPU 0",), (value,)) for i, value in enumerate(values)]
    return list(far_off(readings, " C", spreads=5, floor=3, at_least=8))


@given(st.floats(-100, 5000, allow_nan=False), st.integers(8, 64))
def test_equals_accuse_no_one(value: float, number: int) -> None:
    assert compared([value] * number) == []


@given(VALUES)
def test_whoever_is_accused_is_far_off_and_in_a_minority(values: list[float]) -> None:
    accused = [node for node, message in compared(values) if isinstance(message, Finding)]
    assert len(accused) * 4 <= len(values)
    middle = sorted(values)[len(values) // 2]
    assert all(abs(values[int(node[1:])] - middle) > 3 for node in accused)


@pytest.mark.parametrize("at", [0, 5, 9])
def test_a_reading_that_is_no_number_accuses_no_one(at: int) -> None:
    values = [50.0] * 10
    values[at] = float("nan")
    assert not [node for node, message in compared(values) if isinstance(message, Finding)]


@given(st.integers(8, 40), st.integers(0, 39), st.floats(16, 500))
def test_one_outlier_is_named_and_alone(number: int, at: int, off: float) -> None:
    values = [50.0] * number
    values[at % number] += off
    assert [node for node, message in compared(values) if isinstance(message, Finding)] == [f"n{at % number}"]


@given(st.integers(4, 20), st.integers(4, 20), st.floats(40, 500))
def test_two_populations_accuse_no_one_and_are_reported(left: int, right: int, off: float) -> None:
    if 4 * min(left, right) <= left + right:
        return
    outcome = compared([30.0] * left + [30.0 + off] * right)
    assert outcome and all(isinstance(message, Uncompared) for _, message in outcome)


@given(VALUES, st.randoms())
def test_the_order_of_the_nodes_does_not_matter(values: list[float], random: Any) -> None:
    readings = [FleetReadings(f"n{i}", ("GPU 0",), (value,)) for i, value in enumerate(values)]
    mixed = readings[:]
    random.shuffle(mixed)
    limits = {"spreads": 5, "floor": 3, "at_least": 8}
    given, shuffled = (sorted(map(str, far_off(each, "", **limits)))  # type: ignore[arg-type]
                       for each in (readings, mixed))
    assert given == shuffled


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=30))
def test_a_majority_accuses_exactly_those_that_differ(values: list[str]) -> None:
    most = max(values, key=values.count)
    given_values = [(f"n{i}", "x", value) for i, value in enumerate(values)]
    if 2 * values.count(most) <= len(values):
        with pytest.raises(NoMajority):
            list(odd_ones(given_values, "x", "nodes"))
    else:
        assert {node for node, _ in odd_ones(given_values, "x", "nodes")} == {
            f"n{i}" for i, v in enumerate(values) if v != most}


@settings(max_examples=tries(25))
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(20, 90)), min_size=3, max_size=12), st.randoms())
def test_whatever_is_unmeasured_no_node_passes_on_what_was_not_read(
    marks: list[tuple[int, int]], random: Any,
) -> None:
    cohort = {}
    for number, (kind, heat) in enumerate(marks):
        value: Any = (heat, Unmeasured("x"), UNSUPPORTED)[kind]
        cohort[f"n{number}"] = NodeFacts({"gpus": one(random.randrange(8), temperature_c=value)})
    results = judge_fleet(BY_ID["fleet-temperature"], cohort)
    for number, (kind, _) in enumerate(marks):
        assert kind != 1 or results[f"n{number}"].status is not Status.PASS


def test_the_packaged_fleet_rules_are_typed_as_their_checks_ask() -> None:
    assert all(isinstance(known, Rule) and not known.numbers for known in FLEET)


def test_a_check_does_not_see_a_cohort_that_is_too_small_to_compare() -> None:
    seen = []

    def counted(things: Mapping[str, Thing]) -> Any:
        seen.append(len(things))
        return iter(())

    known, one_thing = rule(counted, fleet=True), NodeFacts({"things": thing("thing", 20)})
    small = judge_fleet(known, {"n0": one_thing, "n1": one_thing})
    assert {result.status for result in small.values()} == {Status.SKIPPED}
    assert seen == []
    judge_fleet(known, {f"n{at}": one_thing for at in range(4)})
    assert seen == [4]
