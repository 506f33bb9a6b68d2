"""The dashboard: Grafana's form, and each of its queries answers in a real Prometheus that scrapes a real
exporter."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from healthcheck.burnin.document import write
from healthcheck.exporter import dashboard
from healthcheck.exporter.alerts import folder
from tests.command import muster
from tests.healthcheck import machine
from tests.healthcheck.burnin.faulty import faulty
from tests.healthcheck.exporter.test_alerts import promtool
from tests.testbed.exporting import exporting, swept
from tests.testbed.prometheus import monitoring, require_prometheus
from tests.testbed.sshd import wait_until

WHOLE: dict[str, Any] = json.loads(dashboard.file().read_text())
QUERIES = [(panel["title"], target["expr"]) for panel in WHOLE["panels"] for target in panel["targets"]]
(RECURRING,) = [expression for title, expression in QUERIES if title == "Top recurring faults, 7 days"]
SICK = machine.recording("gpu001", gpu_nvml=machine.nvml(gpu3={"ecc_uncorrected": {"ok": 7}}))


def test_the_command_prints_it(tmp_path: Path) -> None:
    done = muster("exporter", "--print-dashboard", home=tmp_path)
    assert (done.returncode, json.loads(done.stdout)) == (0, WHOLE)


def test_it_has_few_panels_each_with_a_title_a_place_and_words_for_whoever_reads_it() -> None:
    panels = WHOLE["panels"]
    assert 4 <= len(panels) <= 6
    assert len({panel["id"] for panel in panels}) == len(panels) == len({panel["title"] for panel in panels})
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        own = {(x, y) for x in range(place["x"], place["x"] + place["w"])
               for y in range(place["y"], place["y"] + place["h"])}
        assert not own & taken and place["x"] + place["w"] <= 24
        taken |= own
        assert len(panel["description"]) > 40
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel["targets"])
    assert WHOLE["templating"]["list"][0]["query"] == "prometheus"


def test_each_query_is_promql_and_gives_what_its_panel_is_for(tmp_path: Path) -> None:
    require_prometheus()
    promtool("--version")
    (tmp_path
     / "muster.yaml").write_text("version: 1\ndefaults: {sku: hgx-h100}\nnodes:\n  gpu[001-002]: {}\n")
    state = tmp_path / "state"
    swept(state, SICK, machine.recording("gpu002"))
    write(state, replace(faulty(), run="20260101T002000-1", options={"finished": True}))
    with exporting(tmp_path, "-i", "muster.yaml") as exporter:
        scrape: list[dict[str, Any]] = [{"job_name": "muster",
                                         "static_configs": [{"targets": [exporter.address]}]}]
        with monitoring(tmp_path, scrape, sorted(folder().glob("*.yaml"))) as there:
            # its steps are minutes, so that it has no answer yet
            assert there.query(RECURRING) is not None
            for title, expression in (one for one in QUERIES if one[1] != RECURRING):
                wait_until(partial(there.query, expression), 60, f"an answer for {title}: {expression}")
            found = {title: there.query(expression) for title, expression in QUERIES}
            assert {one["metric"]["state"]: one["value"][1]
                    for one in found["Nodes in service by state"] if one["value"][1] != "0"} == {
                        "healthy": "1", "unhealthy": "1"}
            assert {one["metric"]["owner"]: one["value"][1]
                    for one in found["Open work by owner"]} == {"operator": "1"}
            shares = [float(one["value"][1]) for one in found["Burn-in: worst share of the floor"]]
            assert shares == sorted(shares) and 0 < shares[0] < 1


def test_the_faults_that_came_back_most_are_counted_by_how_often_they_began(tmp_path: Path) -> None:
    """Port-state of gpu001 fails three times, a long failure of gpu002 began once, and a gap of a scrape is
    none."""
    often = " ".join(["1x11 stale _x59"] * 3)
    series = [('{node="gpu001", rule="port-state", owner="network", severity="critical", status="fail"}',
               often),
              ('{node="gpu002", rule="host-memory", owner="vendor", severity="critical", status="fail"}',
               "1x100 _x2 1x120"),
              ('{node="gpu003", rule="fan", owner="vendor", severity="info", status="fail"}', "1x220")]
    test = tmp_path / "test.yaml"
    test.write_text(json.dumps({"tests": [{
        "interval": "1m", "input_series": [{"series": f"muster_node_rule_not_passed{labels}",
                                            "values": values} for labels, values in series],
        "promql_expr_test": [{"expr": RECURRING, "eval_time": "220m", "exp_samples": [
            {"labels": '{rule="port-state", owner="network"}', "value": 3},
            {"labels": '{rule="host-memory", owner="vendor"}', "value": 1}]}]}]}))
    assert "SUCCESS" in promtool("test", "rules", str(test))
