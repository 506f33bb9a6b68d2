"""The page: what is said of which node, when, and within how many series."""

from __future__ import annotations

import math
import shutil
import subprocess
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from healthcheck.exporter import fleet as whole
from healthcheck.exporter import nodes
from healthcheck.exporter.page import MOST_SERIES, Page
from healthcheck.exporter.source import FleetStatus, HeadStatus, NodeNow
from healthcheck.model.exposition import MetricFamily, grouped, text_of
from healthcheck.model.outcome import NodeReport, NodeState
from healthcheck.store import newest
from healthcheck.store.newest import NotPassed
from healthcheck.store.telemetry import Telemetry
from tests.healthcheck.exporter import made
from tests.healthcheck.model.test_exposition import theirs
from tests.testbed.require import require
from tests.tries import tries

HOUR = 3600.0


def page(
    *there: NodeNow, fleet: FleetStatus | None = None, now: float = made.NOW, most: int = MOST_SERIES,
) -> str:
    """The first page of a fleet; a result is stale after an hour."""
    return text_of([*Page(HOUR, most).make(fleet or made.fleet(*there), now),
                    *grouped(whole.process(made.PROCESS, 0.0, 1)).items()])


def samples(text: str, name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """The values of a metric, by these labels."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == name:
                found[tuple(sample.labels[label] for label in labels)] = sample.value
    return found


def state(text: str, node: str = "gpu001") -> str:
    """The one state that a node is in."""
    held = [state for (name, state), value in samples(text, "muster_node_state", "node", "state").items()
            if value and name == node]
    assert len(held) == 1
    return held[0]


def names(text: str, node: str = "gpu001") -> set[str]:
    """The metrics that say something of a node."""
    return {line.partition("{")[0] for line in text.splitlines() if f'node="{node}"' in line}


def test_a_fresh_look_gives_the_state_that_it_found() -> None:
    for held in NodeState:
        assert state(page(made.at(state=held.value))) == held.value


NOW_ONLY = {"muster_node_results", "muster_node_probes_unseen", "muster_node_probe_seconds",
            "muster_node_software_info", "muster_gpu_info", "muster_node_gpu_power_watts",
            "muster_gpu_temperature_celsius", "muster_gpu_ecc_corrected_errors_total",
            "muster_port_link_downed_total", "muster_node_rule_not_passed"}


def test_a_look_that_is_too_old_says_unknown_and_nothing_that_it_saw_is_said_as_if_it_were_now() -> None:
    there = made.at("gpu001", made.FAILED, age=HOUR + 1)
    text = page(there)
    assert state(text) == "unknown" and samples(text, "muster_node_stale", "node") == {("gpu001",): 1}
    assert samples(text, "muster_node_newest_result_timestamp_seconds",
                   "node") == {("gpu001",): made.NOW - HOUR - 1}
    assert names(page(made.at("gpu001", made.FAILED))) - names(text) == NOW_ONLY
    # what was counted was counted
    assert samples(text, "muster_node_xids_total", "node") == {("gpu001",): 0}


def test_a_look_from_the_future_is_no_more_fresh_than_one_from_as_long_ago() -> None:
    assert (state(page(made.at(age=-HOUR + 1))) == "healthy"
            and state(page(made.at(age=-HOUR - 1))) == "unknown")


def test_a_node_that_was_never_seen_is_unknown_with_a_time_of_nought() -> None:
    text = page(NodeNow("gpu001", made.node(), None))
    assert (state(text) == "unknown" and samples(text, "muster_node_newest_result_timestamp_seconds", "node")
            == {("gpu001",): 0})
    assert names(text) == {"muster_node_info", "muster_node_lifecycle", "muster_node_state",
                           "muster_node_stale", "muster_node_newest_result_timestamp_seconds"}


def test_a_node_that_was_not_reached_is_unknown_and_shows_nothing_of_its_last_good_look() -> None:
    text = page(made.at(state="unknown", stage="connect", shown=Telemetry(), probes_unseen=None, statuses={}))
    assert state(text) == "unknown" and samples(text, "muster_node_stale", "node") == {("gpu001",): 0}
    assert not names(text) & NOW_ONLY


def test_a_page_that_was_made_when_a_look_was_fresh_is_not_held_to_when_it_has_aged() -> None:
    pages = Page(HOUR)
    there = made.fleet(made.at())
    assert [state(text_of(pages.make(there, made.NOW + later))) for later in (0, HOUR, -60)] == [
        "healthy", "unknown", "healthy"]


def test_a_page_says_until_when_it_holds() -> None:
    pages = Page(HOUR)
    there = made.fleet(made.at("n1", age=60), made.at("n2", age=9 * HOUR), NodeNow("n3", None, None),
                       made.at("n4", age=-2 * HOUR))
    assert pages.until(there, made.NOW) == made.NOW + HOUR - 60
    # n4 has become fresh, for an hour after its own time
    assert pages.until(there, made.NOW + HOUR) == made.NOW + 3 * HOUR
    assert pages.until(made.fleet(NodeNow("n3", None, None)), made.NOW) == math.inf
    early = made.fleet(made.at(age=-2 * HOUR))
    assert pages.until(early, made.NOW) == made.NOW + HOUR


def test_a_look_as_the_store_keeps_it_gives_the_lines_of_the_look() -> None:
    report = NodeReport("gpu001", NodeState.HEALTHY, "", ())
    look, kept = newest.packed(None, report, made.shown())
    stored = newest.Packed("gpu001", made.NOW, "d", look, kept)
    assert page(NodeNow("gpu001", made.node(), stored)) == page(
        NodeNow("gpu001", made.node(), stored.opened()))


def test_while_nothing_can_be_read_no_node_is_well_and_the_page_says_why_it_is_so() -> None:
    text = page(fleet=FleetStatus((NodeNow("gpu001", made.node(), None),), None, "the store is gone"))
    assert state(text) == "unknown" and samples(text, "muster_source_up") == {(): 0}
    assert samples(page(made.at()), "muster_source_up") == {(): 1}


def test_rules_that_did_not_pass_are_named_and_those_that_did_are_counted() -> None:
    text = page(made.at("gpu001", made.DARK, made.FAILED))
    found = samples(text, "muster_node_rule_not_passed", "rule", "status", "severity", "owner")
    assert found == {("gpu-ecc-uncorrected", "fail", "critical", "vendor"): 1,
                     ("nvlink-active", "unknown", "critical", ""): 0}
    assert samples(text, "muster_node_results", "status")[("pass",)] == 180


def test_uuids_and_serial_numbers_stand_in_info_metrics_alone() -> None:
    text = page(made.at("gpu001", made.FAILED))
    lines = [line for line in text.splitlines() if "1650123" in line]
    assert len(lines) == 8 and all(line.startswith("muster_gpu_info{") for line in lines)


def test_what_could_not_be_read_has_no_value_and_never_nought() -> None:
    gpus = (made.gpu(0, temperature=None, watts=None, ecc_corrected_lifetime=None), made.gpu(1))
    text = page(made.at(shown=Telemetry(gpus=gpus), xids=None, totals={}))
    assert samples(text, "muster_gpu_temperature_celsius", "pci") == {("0000:19:00.0",): 32}
    # Half of a node's power is not its power.
    assert not {"muster_node_gpu_power_watts", "muster_node_xids_total",
                "muster_node_gpu_ecc_uncorrected_errors_total"} & names(text)


def test_two_gpus_that_claim_one_address_make_no_series_twice() -> None:
    text = page(made.at(shown=Telemetry(gpus=(made.gpu(0), made.gpu(0, temperature=99.0)))))
    lines = [line.rpartition(" ")[0] for line in text.splitlines() if not line.startswith("#")]
    assert len(lines) == len(set(lines))


def test_cordons_the_breaker_and_what_triage_decided_are_there() -> None:
    head = HeadStatus(breaker=made.NOW - 5, verdicts={("evict", "reboot"): 2},
                      incidents={("leaf", "network"): 1}, silences=3, leases=1)
    text = page(fleet=made.fleet(made.at(cordons=(("slurm", "triage"), ("golden", "person"))), head=head))
    assert samples(text, "muster_node_cordoned", "backend",
                   "by") == {("slurm", "triage"): 1, ("golden", "person"): 1}
    assert samples(text, "muster_breaker_open") == {(): 1} and samples(text, "muster_silences") == {(): 3}
    assert samples(text, "muster_verdicts", "isolation", "repair") == {("evict", "reboot"): 2}
    assert samples(text, "muster_incidents", "kind", "owner") == {("leaf", "network"): 1}


def test_of_each_probe_the_page_says_how_it_ended_and_what_it_took_on_nodes_that_are_fresh() -> None:
    there = [made.at(f"n{number}", shown=made.shown(probes=(("gpu.nvml", outcome, took),)), age=age)
             for number, (outcome, took, age) in enumerate(
                 (("done", 1.0, 1), ("done", 2.0, 1), ("timeout", 15.0, 1), ("done", 99.0, 9 * HOUR)))]
    text = page(*there)
    outcomes = samples(text, "muster_probes", "outcome")
    assert (outcomes[("done",)], outcomes[("timeout",)], outcomes[("wedged",)]) == (2, 1, 0)
    assert samples(text, "muster_probe_median_seconds", "probe") == {("gpu.nvml",): 2}
    assert samples(text, "muster_probe_longest_seconds", "probe") == {("gpu.nvml",): 15}


def count(text: str) -> int:
    return sum(1 for line in text.splitlines() if not line.startswith("#"))


@pytest.mark.slow
def test_a_fleet_of_4096_nodes_of_8_gpus_stays_within_a_quarter_of_a_million_series_whatever_is_wrong(
) -> None:
    all_wrong = tuple(NotPassed(f"rule-{number:03}", "unknown", "critical", "", 0) for number in range(190))
    healthy = page(*(made.at(f"n{number}") for number in range(4096)))
    assert 225_000 < count(healthy) <= MOST_SERIES
    assert not any(samples(healthy, "muster_exporter_series_left_out", "metric").values())
    text = page(*(made.at(f"n{number}", made.FAILED, *all_wrong, xids={str(xid): 1 for xid in range(5)})
                  for number in range(4096)))
    assert count(text) <= MOST_SERIES + 40      # what is said of the exporter itself stands beside
    # The worst of each node is there all the same, and what is not is told.
    assert text.count('rule="gpu-ecc-uncorrected"') == 4096
    left = samples(text, "muster_exporter_series_left_out", "metric")
    assert left[("muster_node_rule_not_passed",)] + text.count("muster_node_rule_not_passed{") == 4096 * 191
    assert (text.count('state="healthy"} ') == 4096 and text.count("muster_gpu_temperature_celsius{") == 8
            * 4096)


def test_where_there_are_too_many_series_the_worst_rules_stay_and_what_is_left_out_is_reported() -> None:
    many = [NotPassed(f"r{number:02}", "unknown", "warning", "", 0) for number in range(50)]
    there = [made.at(f"n{number}", *many, made.FAILED, made.DARK) for number in range(4)]
    full = count(page(*there))
    text = page(*there, most=full - 200)
    found = samples(text, "muster_node_rule_not_passed", "node", "rule")
    assert {("n0", "gpu-ecc-uncorrected"), ("n3", "nvlink-active")} <= set(found) and len(found) < 4 * 52
    assert samples(text, "muster_exporter_series_left_out",
                   "metric")[("muster_node_rule_not_passed",)] == 4 * 52 - len(found)
    least = page(*there, most=1000)
    assert count(least) <= 1000 + 40 and samples(least, "muster_node_state", "node", "state")


@settings(max_examples=tries(40), deadline=None)
@given(st.data())
def test_a_whole_page_is_what_prometheus_client_writes_of_it(data: st.DataObject) -> None:
    text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)

    def nodes_of() -> Iterator[NodeNow]:
        for number in range(data.draw(st.integers(0, 3))):
            name = f"n{number}"
            gpus = tuple(made.gpu(index, model=data.draw(text), vbios=data.draw(text),
                                  temperature=data.draw(st.floats())) for index in range(2))
            wrong = tuple(NotPassed(rule, "fail", "info", data.draw(text), 1)
                          for rule in data.draw(st.lists(text, max_size=3, unique=True)))
            yield made.at(name, *wrong, age=data.draw(st.sampled_from([1.0, 1e9])),
                          xids={"79": data.draw(st.integers(0, 10**12))},
                          shown=Telemetry(gpus=gpus, driver=data.draw(text)))

    ours = page(*nodes_of())
    assert theirs(*text_string_to_metric_families(ours)) == ours


def test_promtool_has_nothing_to_say_against_the_page() -> None:
    require(shutil.which("promtool"), "no promtool on this machine: apt-get install -y prometheus")
    head = HeadStatus(verdicts={("evict", "reboot"): 2}, incidents={("leaf", "network"): 1})
    text = page(fleet=made.fleet(made.at("gpu001", made.FAILED, cordons=(("slurm", "triage"),),
                                         xids={"79": 1}), head=head))
    done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True,
                          timeout=60, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# HELP")}
    optional = {"muster_exporter_sweeper_up", "muster_exporter_sweeper_starts_total"}
    assert families | optional == {family.name for family in (*nodes.FAMILIES, *whole.FAMILIES)}


@pytest.mark.parametrize("family", [*nodes.FAMILIES, *whole.FAMILIES], ids=lambda family: family.name)
def test_a_metric_says_its_unit_in_its_name_and_in_base_units(family: MetricFamily) -> None:
    assert not any(word in family.name
                   for word in ("_ms", "_milli", "_minutes", "_hours", "_kb", "_mb", "_percent"))
    assert family.help.endswith(".") and (family.name.startswith(("muster_", "process_")))
