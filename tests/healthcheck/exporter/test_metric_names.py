"""Names, units, types, help and labels of all metrics are as Prometheus asks
(https://prometheus.io/docs/practices/naming/ and
https://prometheus.io/docs/instrumenting/writing_exporters/)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from healthcheck.agent import metrics as agent
from healthcheck.burnin import metrics as burnin
from healthcheck.exporter import fabric, fleet, jobs, nodes
from healthcheck.model.exposition import COUNTER, MetricFamily
from tests.healthcheck import machine
from tests.healthcheck.exporter import plants
from tests.healthcheck.exporter.test_alerts import promtool
from tests.testbed.scrapes import Head

FAMILIES = {family.name: family for family in (*nodes.FAMILIES, *fleet.FAMILIES, *burnin.FAMILIES,
                                               *jobs.FAMILIES, *fabric.FAMILIES,
                                           *agent.FAMILIES)}
UNITS = ("seconds", "bytes", "celsius", "watts", "per_second")
OTHER_UNITS = re.compile(
    r"_(ms|us|ns|milli\w*|micro\w*|minutes|hours|days|k|m|g)?(b|bits|kb|mb|gb|mib|gib|mhz|ghz|kw|mw|percent|"
    r"gbps)?(_|$)")
# What holds down how many values each label has.
BOUNDED = {
    "a word of ours": {"backend", "by", "cause", "fault", "isolation", "kind", "lifecycle", "metric",
                       "outcome", "owner", "place", "precision",
                       "profile", "reason", "repair", "severity", "stage", "state", "status"},
    "the rules and probes, at most 512": {"probe", "rule"},
    "the inventory": {"entry", "leaf", "node", "nvlink_domain", "power", "rack", "sku"},
    "the hardware, at most 64 of a kind on a node": {"gpu", "model", "pci", "port", "serial",
                                                     "uuid", "vbios"},
    "one value of a node at a time": {"boot_id", "bundle", "driver", "kernel", "python", "rules", "version"},
    "64 numbers on a node": {"xid"},
    "256 findings of watched jobs": {"certainty", "jobid", "rank"},
    "256 findings of fabrics": {"where"},
    "64 subnets": {"subnet"},
}


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_metric_is_named_as_prometheus_asks(family: MetricFamily) -> None:
    base = family.name.removesuffix("_total")
    assert family.name.startswith(("muster_", "process_")) and family.name == family.name.lower()
    assert (family.kind == COUNTER) is family.name.endswith("_total")
    assert not any(match[1] or match[2] for match in OTHER_UNITS.finditer(base)), "base units only"
    # A unit is the name's last word, and labels are not repeated in the name's unit.
    for unit in UNITS:
        assert f"_{unit}" not in base or base.endswith(unit) or "per_second" in base
    assert "timestamp" not in base or base.endswith("_timestamp_seconds")
    assert ("always 1." in family.help) >= base.endswith("_info")
    assert re.fullmatch(r"[A-Z].{5,}\.", family.help) and "\n" not in family.help, "help is a sentence"


@pytest.mark.parametrize("family", FAMILIES.values(), ids=lambda family: family.name)
def test_a_label_has_few_values_and_none_that_prometheus_sets(family: MetricFamily) -> None:
    known = set().union(*BOUNDED.values())
    assert set(family.labels) <= known - {"instance", "job", "le", "quantile"}


def test_promtool_finds_nothing_wrong_with_a_page_with_burn_ins_and_an_agents_file(tmp_path: Path) -> None:
    promtool("--version")
    head = Head(tmp_path)
    for _ in plants.a_burn_in_finds_a_gpu_that_computes_wrongly_and_a_slow_pair(head):
        pass
    head.agent_ran(machine.recording("gpu001"))
    head.answers, head.minute = True, 20
    for text in head.pages().values():
        assert text is not None and len(text) > 5000
        done = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, capture_output=True,
                              timeout=100, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    head.close()
