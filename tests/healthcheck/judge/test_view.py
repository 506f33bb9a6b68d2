"""What a profile's rules need is what those of them need that are judged, and of a disruptive one no more
without its lease."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.facts.base import FACTS
from healthcheck.facts.boot import EARLIER_BOOT
from healthcheck.facts.pci import PCI_BUS
from healthcheck.facts.seen_before import CHECKS as UNUSUAL
from healthcheck.judge.view import LOG_FACTS, ProfileRules
from healthcheck.model.lease import NEEDED
from healthcheck.model.outcome import Status
from healthcheck.model.probes import Effect, Needs
from healthcheck.ruleset.rule import Rule
from tests.packagedrules import RULES

BY_ID = {rule.id: rule for rule in RULES.rules}
DISRUPTIVE = [rule for rule in RULES.rules if rule.disruptive]


def of(*rules: Rule) -> ProfileRules:
    """The view of these rules alone."""
    return ProfileRules.of(rules)


def test_a_rule_that_is_left_out_is_skipped_for_its_reason_and_asks_for_nothing() -> None:
    left = replace(BY_ID["disk-smart-pending"], left_out="left out by --skip")
    view = of(left, BY_ID["host-clock-offset"])
    assert view.rules == (left, BY_ID["host-clock-offset"]) and view.judged == (BY_ID["host-clock-offset"],)
    assert {rule: (one.status, one.reason) for rule, one in view.left_out.items()} == {
        "disk-smart-pending": (Status.SKIPPED, "left out by --skip")}
    alone = of(left)
    assert not (alone.facts or alone.passive_facts or alone.judged or alone.single or alone.previous)


def test_a_disruptive_rule_is_skipped_without_its_lease_and_its_facts_are_no_passive_ones() -> None:
    assert DISRUPTIVE
    for rule in DISRUPTIVE:
        view = of(rule, BY_ID["host-clock-offset"])
        assert {name: (one.status, one.reason)
                for name, one in view.unleased.items()} == {rule.id: (Status.SKIPPED, NEEDED)}
        assert view.disruptive_probes == {probe.id for probe in rule.disruptive}
        passive = of(BY_ID["host-clock-offset"])
        assert view.passive_facts == passive.facts == passive.passive_facts
        assert view.facts - view.passive_facts == {name for name in rule.fact_names
                                                   if name in FACTS} - view.passive_facts
        assert view.facts > view.passive_facts


def test_facts_that_sweeps_add_themselves_are_not_built_from_captures() -> None:
    view = ProfileRules.of(RULES.rules)
    asked = {name for rule in RULES.rules if not rule.left_out for name in rule.fact_names}
    assert asked - FACTS.keys(), "no rule takes what a sweep adds, so this shows nothing"
    assert view.facts <= FACTS.keys() and asked & FACTS.keys() <= view.facts


def test_gpus_come_with_the_pci_bus_and_any_reading_of_the_log_with_the_log() -> None:
    gpus = next(rule for rule in RULES.rules if rule.fact_names == ("gpus",) and not rule.disruptive)
    assert PCI_BUS in of(gpus).facts and PCI_BUS in of(gpus).passive_facts
    assert PCI_BUS not in of(BY_ID["host-clock-offset"]).facts
    for rule in RULES.rules:
        if not rule.left_out:
            assert ("kernel_log" in of(rule).facts) is bool(LOG_FACTS & set(rule.fact_names)), rule.id


def test_rules_of_single_nodes_are_those_that_need_no_other_node() -> None:
    view = ProfileRules.of(RULES.rules)
    assert [rule.id for rule in view.single] == [rule.id for rule in view.judged if not rule.checked.fleet]
    assert view.single != view.judged
    assert view.fleet_facts == {name for rule in view.judged if rule.checked.fleet
                                for name in rule.fact_names}
    assert view.previous == {name for rule in view.judged for name in rule.checked.earlier}


def test_what_is_asked_of_a_node_are_the_passive_probes_of_the_judged_rules() -> None:
    view = ProfileRules.of(RULES.rules)
    assert set(view.requested.ids) == {probe.id for rule in view.judged
                                       for probe in rule.probes if probe.effect is Effect.PASSIVE}


def test_rules_of_the_log_are_those_that_read_it_but_for_what_counts_unusual_lines() -> None:
    view = ProfileRules.of(RULES.rules)
    reading = [rule for rule in view.judged if LOG_FACTS & set(rule.fact_names)]
    assert [rule.id for rule in view.log_rules] == [rule.id
                                                    for rule in reading if rule.checked.name not in UNUSUAL]
    assert len(view.log_rules) < len(reading)


def test_of_a_fact_those_fields_are_kept_that_fleet_rules_say_they_read() -> None:
    view = ProfileRules.of(RULES.rules)
    of_gpus = [rule.checked for rule in view.judged if rule.checked.fleet and rule.checked.subject == "gpus"]
    assert of_gpus and view.fleet_fields["gpus"] == frozenset().union(*(check.reads for check in of_gpus))
    # Nodes wait for each other with all of a fact of which a fleet rule does not say what it reads.
    assert all(rule.checked.reads for rule in view.judged if rule.checked.fleet
               and rule.checked.subject in view.fleet_fields)


def test_a_history_is_kept_for_rules_that_take_what_earlier_snapshots_showed() -> None:
    keeping = next(rule for rule in RULES.rules if EARLIER_BOOT in rule.fact_names)
    assert of(keeping).keeps_history and not of(BY_ID["disk-smart-pending"]).keeps_history


def test_of_an_earlier_snapshot_a_fact_needs_its_probes_but_not_those_that_only_stand_in() -> None:
    view = ProfileRules.of(RULES.rules)
    stand_in = {probe.id for name in view.previous
                for probe in FACTS[name].probes if probe.needs is Needs.NVIDIA_UNANSWERED}
    assert stand_in and view.previous_probes.keys() == view.previous
    for name, probes in view.previous_probes.items():
        assert set(probes) == {probe.id for probe in FACTS[name].probes} - stand_in, name
