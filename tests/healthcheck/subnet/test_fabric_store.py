"""What checks of a fabric keep: a finding begins, goes on, is over once it was measured, and stays open where
it was not."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.model.outcome import Severity
from healthcheck.store import fabricfindings, history, renaming
from healthcheck.store.fabricfindings import FabricTrouble, between, lasting, rule_id
from healthcheck.store.file import opened
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.check.seen import FabricWanted
from healthcheck.subnet.hands import HANDS
from healthcheck.subnet.measured import _HOW
from tests.healthcheck.subnet.faulty import FaultyFabric
from tests.healthcheck.triage.made import NOW

HOST = ("leaf001", "2")     # its cable leads to gpu02 mlx5_0


def still(folder: Path) -> list[FabricTrouble]:
    with opened(folder) as store:
        return lasting(store)


def rules(folder: Path) -> list[tuple[str, str]]:
    return sorted((one.finding.rule.value, one.finding.place) for one in still(folder))


@pytest.fixture
def fabric() -> FaultyFabric:
    return FaultyFabric()


def test_a_sound_fabric_keeps_nothing(tmp_path: Path, fabric: FaultyFabric) -> None:
    fabric.store(tmp_path, NOW)
    assert still(tmp_path) == []


def test_a_link_that_is_down_is_kept_once_with_both_ends_the_node_its_adapter_and_where_it_is(
        tmp_path: Path, fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable(*HOST))
    fabric.store(tmp_path, NOW - 60)
    fabric.store(tmp_path, NOW)
    (one,) = [each for each in still(tmp_path) if each.finding.rule is FabricRule.LINK]
    found = one.finding
    assert (one.began, one.seen, one.checks, one.missed) == (NOW - 60, NOW, 2, None)
    assert (found.kind, found.place, found.nodes,
            found.leaf) == (PlaceKind.LINK, "leaf001 port 2 to gpu02 mlx5_0", ("gpu02",), "leaf001")
    assert "mlx5_0" in found.parts and found.severity is Severity.CRITICAL
    assert found.where == "gpu02: rack r1"
    assert {(each.kind, each.links, each.up) for each in found.touched} == {("leaf", 8, 7), ("node", 2, 1)}


def test_what_a_later_check_measured_and_did_not_show_is_over(tmp_path: Path, fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable(*HOST))
    fabric.store(tmp_path, NOW - 60)
    fabric.down.clear()
    fabric.store(tmp_path, NOW)
    assert still(tmp_path) == []
    with opened(tmp_path) as store:
        (one, *_) = between(store, NOW - 100, NOW)
        assert one.ended == NOW and between(store, NOW + 1, NOW + 2) == []


@pytest.mark.parametrize(("how", "why"),
                         [("no plan", "no plan of it was given"), ("in part", "the subnet was read in part")])
def test_a_missing_switch_that_was_not_measured_again_stays_open_and_says_since_when(
    tmp_path: Path, fabric: FaultyFabric, how: str, why: str,
) -> None:
    fabric.gone.add("spine001")
    fabric.store(tmp_path, NOW - 60)
    fabric.gone.clear()
    fabric.partial = how == "in part"
    fabric.store(tmp_path, NOW, planned=how != "no plan")
    (one,) = [each for each in still(tmp_path) if each.finding.rule is FabricRule.SWITCH]
    assert (one.seen, one.missed, one.unmeasured) == (NOW - 60, NOW, why)
    fabric.partial = False
    fabric.store(tmp_path, NOW + 60)
    assert still(tmp_path) == []


@pytest.mark.parametrize("how", ["no sample", "no counters"])
def test_errors_are_not_over_where_counters_were_not_compared(tmp_path: Path, fabric: FaultyFabric,
                                                              how: str) -> None:
    fabric.errors[fabric.cable(*HOST)] = 5000
    fabric.store(tmp_path, NOW - 60)
    assert rules(tmp_path) == [("link-errors", "leaf001 port 2 to gpu02 mlx5_0")]
    fabric.errors.clear()
    fabric.counted = how != "no counters"
    fabric.store(tmp_path, NOW, earlier=how != "no sample")
    (one,) = still(tmp_path)
    assert one.missed == NOW and "counters" in one.unmeasured
    fabric.counted = True
    fabric.store(tmp_path, NOW + 60)
    assert still(tmp_path) == []


def test_errors_of_a_link_that_went_down_are_not_over(tmp_path: Path, fabric: FaultyFabric) -> None:
    number = fabric.cable(*HOST)
    fabric.errors[number] = 5000
    fabric.store(tmp_path, NOW - 60)
    fabric.errors.clear()
    fabric.down.add(number)
    fabric.store(tmp_path, NOW)
    assert {rule for rule, _ in rules(tmp_path)} >= {"link-errors", "link-down"}


def test_a_narrow_link_is_over_where_something_says_its_width_and_not_before(tmp_path: Path,
                                                                             fabric: FaultyFabric) -> None:
    fabric.narrow.add(fabric.cable(*HOST))
    fabric.store(tmp_path, NOW - 60)
    assert [rule for rule, _ in rules(tmp_path)] == ["link-width"]
    # another check asks for one lane
    fabric.store(tmp_path, NOW, planned=False, wanted=FabricWanted(1, "NDR"))
    fabric.narrow.clear()
    fabric.store(tmp_path, NOW + 60)
    assert still(tmp_path) == []


def test_a_link_that_only_an_earlier_sample_had_stays_open_until_it_is_up(tmp_path: Path,
                                                                          fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable(*HOST))
    fabric.store(tmp_path, NOW - 60, planned=False)
    (one,) = [each for each in still(tmp_path) if each.finding.rule is FabricRule.LINK]
    assert one.finding.nodes == ("gpu02",)      # by the adapter's GUID, which no output shows any more
    fabric.store(tmp_path, NOW, planned=False, earlier=False)
    assert [each.missed for each in still(tmp_path) if each.finding.rule is FabricRule.LINK] == [NOW]
    fabric.down.clear()
    fabric.store(tmp_path, NOW + 60, planned=False)
    assert [each for each in still(tmp_path) if each.finding.rule is FabricRule.LINK] == []


def test_another_subnet_ends_nothing_whatever_it_is_called(tmp_path: Path, fabric: FaultyFabric) -> None:
    from tests.healthcheck.subnet.made import rails

    fabric.down.add(fabric.cable(*HOST))
    fabric.store(tmp_path, NOW - 60)
    plan = rails(hosts=8, ports=2, per_leaf=4, radix=8)
    other = FaultyFabric(plan)
    other.end = lambda end: type(fabric.end(end))("e" * 8 + fabric.end(end).guid[8:], fabric.end(end).number
                                                  )  # type: ignore[method-assign]
    other.store(tmp_path, NOW)
    assert [one.seen for one in still(tmp_path) if one.finding.rule is FabricRule.LINK] == [NOW - 60]


def test_an_older_check_changes_nothing_and_the_same_one_twice_is_one(
    tmp_path: Path, fabric: FaultyFabric, capsys: pytest.CaptureFixture[str],
) -> None:
    fabric.down.add(fabric.cable(*HOST))
    fabric.store(tmp_path, NOW)
    fabric.store(tmp_path, NOW)
    before = still(tmp_path)
    assert {one.checks for one in before} == {1}
    fabric.down.clear()
    fabric.store(tmp_path, NOW - 60)
    assert still(tmp_path) == before and "a newer check is stored" in capsys.readouterr().err


def test_two_faults_of_a_place_by_one_rule_are_one_finding(tmp_path: Path, fabric: FaultyFabric) -> None:
    fabric.gone |= {"spine001"}
    fabric.store(tmp_path, NOW)
    found = rules(tmp_path)
    assert len(found) == len(set(found))
    with opened(tmp_path) as store:
        (one,) = [each for each in lasting(store) if each.finding.rule is FabricRule.SWITCH]
    assert one.finding.place == "spine001"


def test_a_node_by_another_name_keeps_its_finding(tmp_path: Path, fabric: FaultyFabric) -> None:
    fabric.gone.add("gpu02")
    fabric.store(tmp_path, NOW - 60)
    with opened(tmp_path) as store:
        renaming.rename(store, "gpu02", "gpu99", "ann", NOW)
        (one,) = [each for each in lasting(store) if each.finding.rule is FabricRule.HOST]
        assert one.finding.nodes == ("gpu99",)
        assert [problem.node for problem in fabricfindings.problems([one])] == ["gpu99"]


def test_what_was_not_seen_for_long_is_pruned_with_all_that_was_over_before(tmp_path: Path,
                                                                            fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable(*HOST))
    fabric.store(tmp_path, NOW)
    with opened(tmp_path) as store:
        history.prune(store, NOW - 10)
        assert lasting(store)
        history.prune(store, NOW + 10)
        assert lasting(store) == [] and store.rows("SELECT count(*) FROM fabric_subnet")[0][0] == 0


def test_nodes_are_reported_of_their_links_as_warnings_and_of_no_hot_spots(tmp_path: Path,
                                                                           fabric: FaultyFabric) -> None:
    fabric.down.add(fabric.cable(*HOST))
    fabric.store(tmp_path, NOW)
    (one,) = [each for each in fabricfindings.problems(still(tmp_path)) if each.rule == "subnet-link-down"]
    assert (one.node, one.severity, one.owner) == ("gpu02", "warning",
                                                   "datacentre") and "reseat" in one.remedy


@pytest.mark.parametrize("rule", FabricRule)
def test_of_every_rule_it_is_known_how_it_is_measured_and_what_a_person_does(rule: FabricRule) -> None:
    assert (rule in _HOW and HANDS[rule]
            and (rule is FabricRule.SOURCE or rule_id(rule) in fabricfindings.RULES))
