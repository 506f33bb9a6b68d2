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
from healthcheck.cli.help import FOLDER
from healthcheck.config.rulesfolder import packaged
from healthcheck.exporter import fabric, fleet, jobs, nodes
from healthcheck.exporter.alerts import folder, together
from healthcheck.model.outcome import Owner
from healthcheck.ruleset.ruleset import load_ruleset
from tests.command import muster
from tests.testbed.require import require

FILES = sorted(folder().glob("*.yaml"))
TOPIC = re.compile(r"muster help ([a-z-]+)")
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


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_alert_says_what_it_is_what_to_do_and_who_does_it(path: Path) -> None:
    assert not lacks(path)
    assert path.stem in {tested.stem for tested in TESTS}


def lacks(path: Path) -> list[str]:
    """What the alerts of a rule file do not say, each with file and name."""
    found = []
    for rule in (rule for group in yaml.safe_load(path.read_text())["groups"] for rule in group["rules"]):
        if "record" in rule:
            continue
        labels, notes = rule.get("labels", {}), rule.get("annotations", {})
        owner, topic = labels.get("owner", ""), TOPIC.search(notes.get("runbook", ""))
        page = FOLDER / f"{topic[1]}.md" if topic is not None else None
        for wrong, what in (
            (not re.fullmatch(r"Muster[A-Z][A-Za-z]+", rule["alert"]), "is no name of ours"),
            (any(len(notes.get(key, "")) <= 20 for key in ("summary", "description", "runbook")),
             "has no summary, description or runbook"),
            (owner not in {each.value for each in Owner} and "{{ $labels.owner }}" not in owner,
             f"has the owner {owner!r}"),
            (labels.get("severity") not in ("critical", "warning"),
             f"has the severity {labels.get('severity')!r}"),
            (page is None or not page.exists(), "has a runbook that names no topic (muster help TOPIC)"),
            (page is not None and page.exists() and f"\n## {rule['alert']}\n" not in page.read_text(),
             f"has no heading in {page}"),
        ):
            if wrong:
                found.append(f"{path.name}: {rule['alert']} {what}")
    return found


def test_a_rule_file_that_says_less_is_named_with_the_alert(tmp_path: Path) -> None:
    path = tmp_path / "site.yaml"
    path.write_text(
        "groups: [{name: g, rules: [{alert: MusterNew, expr: up == 0, labels: {owner: someone}, annotations: "
        "{runbook: "
        "look at muster help nowhere and think again}}]}]")
    assert lacks(path) == ["site.yaml: MusterNew has no summary, description or runbook",
                           "site.yaml: MusterNew has the owner 'someone'",
                           "site.yaml: MusterNew has the severity None",
                           "site.yaml: MusterNew has a runbook that names no topic (muster help TOPIC)"]
    path.write_text(
        "groups: [{name: g, rules: [{alert: MusterNew, expr: up == 0, labels: {owner: network, severity: "
        "warning}, "
        "annotations: {summary: &text a text that is long enough, description: *text, runbook: More is in "
        "muster help alerts.}}]}]")
    assert lacks(path) == [f"site.yaml: MusterNew has no heading in {FOLDER / 'alerts.md'}"]


def test_the_topic_has_no_alert_that_there_is_not() -> None:
    headings = re.findall(r"^## (\w+)$", (FOLDER / "alerts.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(ALERTS)


def test_the_rules_ask_for_no_metric_that_the_exporter_does_not_have() -> None:
    # of a node's own agent
    known = {family.name for family in (*nodes.FAMILIES, *fleet.FAMILIES, *burnin.FAMILIES, *jobs.FAMILIES,
                                        *fabric.FAMILIES)} | {
                                            "muster_agent_period_seconds", "muster_agent_writable"}
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
