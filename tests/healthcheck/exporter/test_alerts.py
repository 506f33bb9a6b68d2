"""The alert rules: promtool takes them, its tests of them pass, and each says what to do and who does it."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from healthcheck.burnin import metrics as burnin
from healthcheck.config.rulesfolder import packaged
from healthcheck.exporter import fleet, nodes
from healthcheck.exporter.alerts import folder, together
from healthcheck.model.outcome import Owner
from healthcheck.ruleset.ruleset import load_ruleset
from tests.command import muster
from tests.testbed.require import require

FILES = sorted(folder().glob("*.yaml"))
TESTS = sorted((Path(__file__).parent / "alerts").glob("*.yaml"))
RULES: list[dict[str, Any]] = [rule for path in FILES for group in yaml.safe_load(path.read_text())["groups"]
                               for rule in group["rules"]]
ALERTS = {rule["alert"]: rule for rule in RULES if "alert" in rule}


def promtool(*words: str) -> str:
    """What it prints; fails when it does."""
    require(shutil.which("promtool"), "no promtool on this machine: apt-get install -y prometheus")
    done = subprocess.run(["promtool", *words], text=True, capture_output=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_promtool_takes_all_rules_each_file_and_as_one(tmp_path: Path) -> None:
    whole = tmp_path / "muster.yaml"
    whole.write_text(together())
    assert f"{len(RULES)} rules found" in promtool("check", "rules", str(whole))
    promtool("check", "rules", *map(str, FILES))


@pytest.mark.parametrize("path", TESTS, ids=lambda path: path.stem)
def test_what_fires_and_when_is_as_promtools_tests_say(path: Path) -> None:
    assert "SUCCESS" in promtool("test", "rules", str(path))


def test_every_alert_has_a_test() -> None:
    tested = "".join(path.read_text() for path in TESTS)
    assert not [name for name in ALERTS if name not in tested] and len(ALERTS) > 15


@pytest.mark.parametrize("name", ALERTS)
def test_every_alert_says_what_it_is_what_to_do_and_who_does_it(name: str) -> None:
    alert = ALERTS[name]
    for key in ("summary", "description", "runbook"):
        assert len(alert["annotations"][key]) > 20
    given = alert["labels"].get("owner", "")
    assert given in {owner.value for owner in Owner} or "$labels.owner" in given
    assert (alert["labels"].get("severity") in ("critical", "warning")
            or 'severity="critical"' in alert["expr"])
    assert not name.startswith(("ALERT", "muster")) and name.startswith("Muster")


def test_the_rules_ask_for_no_metric_that_the_exporter_does_not_have() -> None:
    # of a node's own agent
    known = {family.name for family in (*nodes.FAMILIES, *fleet.FAMILIES, *burnin.FAMILIES)} | {
        "muster_agent_period_seconds"}
    asked = {name for rule in RULES for name in re.findall(r"(?<![:\w])muster_\w+(?![:\w])", rule["expr"])}
    assert asked <= known and len(asked) > 15
    told = {name for rule in RULES
            for name in re.findall(r"(?<![:\w])muster_\w+(?![:\w])", str(rule.get("annotations")))}
    assert told <= known


def test_names_of_recorded_series_are_level_metric_operation_as_prometheus_asks() -> None:
    recorded = [rule["record"] for rule in RULES if "record" in rule]
    assert recorded and all(re.fullmatch(r"[a-z_]+:muster_[a-z_]+(:[a-z0-9]+)?", name) for name in recorded)


def test_the_folder_is_printed_and_no_rule_of_a_sweep_is_read_from_it(tmp_path: Path) -> None:
    assert muster("exporter", "--rules-dir", home=tmp_path).stdout == f"{folder()}\n"
    assert muster("exporter", "--print-rules", home=tmp_path).stdout == together()
    assert folder().parent == packaged() and load_ruleset([packaged()]).rules
