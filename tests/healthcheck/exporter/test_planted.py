"""Every alert fires from a fault that is planted where it arises, and is over when that is mended: store,
inventory, agent's file and burn-in are real, the pages are the exporter's own, and promtool evaluates the
rules over what was scraped of them."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from healthcheck.exporter.alerts import folder
from tests.healthcheck.exporter.plants import PLANTS
from tests.healthcheck.exporter.test_alerts import ALERTS, promtool
from tests.testbed.scrapes import Plant, Series, input_series, scraped

EXPECTED = {path.stem: yaml.safe_load(path.read_text())
            for path in sorted((Path(__file__).parent / "planted").glob("*.yaml"))}
ASKED = {path.stem: set(re.findall(r"\b(?:up|muster_\w+)\b", path.read_text()))
         for path in folder().glob("*.yaml")}
# A plant that two alerts expect is scraped once, for the longer.
END = {(case["plant"], case.get("step", 1)): max(max(other["quiet"]) for cases in EXPECTED.values()
                                                 for other in cases
                                                 if other["plant"] == case["plant"])
       for cases in EXPECTED.values() for case in cases}


@pytest.fixture(scope="module")
def series(tmp_path_factory: pytest.TempPathFactory) -> Any:
    plants: dict[str, Plant] = {plant.__name__: plant for several in PLANTS.values() for plant in several}

    @cache
    def of(name: str, step: int) -> Series:
        return scraped(plants[name], tmp_path_factory.mktemp("head"), END[name, step], step,
                       frozenset().union(*ASKED.values()))

    return of


def test_every_alert_has_a_plant_and_every_plant_an_expectation() -> None:
    planted = {(alert, plant.__name__) for alert, plants in PLANTS.items() for plant in plants}
    assert planted == {(case["alert"], case["plant"]) for cases in EXPECTED.values() for case in cases}
    assert {alert for alert, _ in planted} == set(ALERTS)


# test_alerts.py shows that each fires from its series; that faults give them, these files, and in the slow
# tier all.
FAST = {"gpu", "muster", "fabric", "network", "watch"}
SUBJECTS = [pytest.param(path.stem, marks=[] if path.stem in FAST else pytest.mark.slow)
            for path in sorted(folder().glob("*.yaml"))]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_each_alert_of_a_file_fires_from_its_planted_fault_and_is_over_with_it(subject: str, series: Any,
                                                                               tmp_path: Path) -> None:
    groups = yaml.safe_load((folder() / f"{subject}.yaml").read_text())["groups"]
    own = {rule.get("alert") for group in groups for rule in group["rules"]}
    by_step: dict[int, list[dict[str, Any]]] = {}
    for case in EXPECTED[subject]:
        assert case["alert"] in own
        # It is silent before its first minute, and after its last.
        assert min(case["quiet"]) < min(case["fires"]) and max(case["quiet"]) > max(case["fires"])
        step = case.get("step", 1)
        taken = {key: values
                 for key, values in series(case["plant"], step).items()
                 if key[0] in ASKED[subject] | ASKED["node"]}
        by_step.setdefault(step, []).append({
            "name": f"{case['alert']}: {case['plant']}", "interval": f"{step}m",
            "input_series": input_series(taken),
            "promql_expr_test": [
                {"expr": f'ALERTS{{alertname="{case["alert"]}", alertstate="firing"}}',
                 "eval_time": f"{minute}m",
                 "exp_samples": [{"labels": _firing(case["alert"], labels), "value": 1}
                                 for labels in case["labels"]]
                 if minute in case["fires"] else []} for minute in sorted((*case["quiet"], *case["fires"]))]})
    for step, tests in by_step.items():
        # What others join comes first: where steps are long, the last one is too long ago.
        (tmp_path / f"every-{step}m.yaml").write_text(json.dumps({
            "rule_files": [str(folder() / f"{name}.yaml") for name in sorted({subject, "node"})],
            "group_eval_order": list(dict.fromkeys(("muster-node", *(group["name"] for group in groups)))),
            "evaluation_interval": f"{step}m", "tests": tests}))
    assert promtool("test", "rules",
                    *map(str, tmp_path.glob("every-*.yaml"))).count("SUCCESS") == len(by_step)


def _firing(alert: str, labels: dict[str, str]) -> str:
    whole = {"alertname": alert, "alertstate": "firing", **labels}
    return "ALERTS{" + ", ".join(f"{name}={json.dumps(value)}" for name, value in whole.items()) + "}"
