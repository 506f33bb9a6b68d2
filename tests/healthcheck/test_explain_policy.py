"""`muster explain policy`: what holds and who said so, one fault, one rule, and what is neither."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.report.policy import fault_text, rule_text, text
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.triage.policyload import load_with_origins
from tests.command import muster

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
BASE = """
faults:
- {id: lost, why: a job that starts there fails, rules: [gpu-count, gpu-answers], isolation: evict, repair: reboot, reserve: true, decides: true}
- {id: worn, why: no reset brings it back, rules: [gpu-row-remap-*], isolation: no-new-jobs, repair: replace, lasting: true, owner: vendor}
- {id: gpu-count, why: called as a rule is, rules: ["gpu-*"], severities: [critical], isolation: no-new-jobs, repair: reset-gpu, confirm: 2}
- {id: gone, why: taken out, rules: ["port-*"], isolation: no-new-jobs}
- {id: critical, why: the rest, rules: ["*"], severities: [critical], isolation: no-new-jobs, repair: inspect}
- {id: unreachable, why: nobody can look, of: unreached, isolation: no-new-jobs, repair: inspect}
- {id: wedged, why: no answer, of: unknown, rules: ["*"], severities: [critical], isolation: no-new-jobs, repair: reboot}
wedged: {sweeps: 3}
fresh: {hours: 24}
ours: {percent: 5, nodes: 2}
climb: {failures: 2, days: 30}
repeat: {score: 3, half_life_days: 14, days: 60, apart_hours: 6}
flap: {times: 3, hours: 24, calm_hours: 12}
requalify: {profile: bringup, sweeps: 2, apart_minutes: 10}
incidents:
  {at_least: 3, share: 50, window_minutes: 15, likelihood: 1000, whole: 10, calm_hours: 1, reopen_days: 7, as_one: 16,
   nvlink_domain: {owner: operator, isolates: true}, rack: {owner: datacentre, isolates: true}, leaf: {owner: network, isolates: true},
   rail: {owner: network, isolates: true}, power: {owner: datacentre, isolates: true}, driver: {owner: operator, isolates: false},
   kernel: {owner: operator, isolates: false}, firmware: {owner: vendor, isolates: false}, moment: {owner: operator, isolates: false}}
breaker: {number: 8, percent: 3, least: 2, hours: 1, domains: {rack: 4, leaf: 4}, reserve: 2, close_hours: null}
"""  # noqa: E501
SITE = """
faults:
- {id: cable, why: ours to look at, rules: [port-link-layer], isolation: none}
- {id: worn, confirm: 3, reserve: true}
- {id: gone, enabled: false}
breaker: {percent: 0.5, domains: {power: 6}}
incidents: {at_least: 4, leaf: {isolates: false}}
"""


def test_the_page_of_a_policy_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (("base", BASE), ("site", SITE)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(said)
    monkeypatch.chdir(tmp_path)
    ruleset = load_ruleset([packaged()])
    loaded = load_with_origins([tmp_path / "base", tmp_path / "site"], ruleset)
    kinds = {kind.id: kind for kind in loaded.policy.kinds}
    rules = [rule for rule in ruleset.rules
             if rule.id.startswith(("gpu-count", "gpu-answers", "gpu-row", "gpu-ecc", "port-l", "raid-"))]
    pages = [text(loaded, rules),
             *(fault_text(loaded, kinds[name], rules)
               for name in ("worn", "critical", "unreachable", "cable")),
             *(rule_text(loaded, rule) for rule in rules if rule.id in ("gpu-count", "raid-rebuilding"))]
    page = f"\n\n{'-' * 20}\n\n".join(pages) + "\n"
    path = GOLDEN / "policy.txt"
    if os.environ.get("MUSTER_GOLDEN") == "update":
        path.write_text(page)
    assert page == path.read_text()


def explained(tmp_path: Path, *words: str) -> str:
    told = muster("explain", "policy", *words, home=tmp_path)
    assert (told.returncode, told.stderr) == (0, ""), told.stderr
    return told.stdout


def document(tmp_path: Path, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(explained(tmp_path, *words, "--format", "json"))
    return found


def test_a_fault_a_rule_and_what_is_called_like_both_are_explained(tmp_path: Path) -> None:
    assert "covers     4: gpu-ecc-uncorrected, kernel-sxid, kernel-xid, kernel-xid-nvlink" in explained(
        tmp_path, "gpu-error")
    assert "isolation  evict: no new jobs start; running ones should end: muster ends none," in explained(
        tmp_path, "gpu-lost")
    rule = explained(tmp_path, "gpu-count")
    assert (rule.startswith("gpu-count  (critical)")
            and "fails      gpu-lost: isolation evict, repair reboot, after 1 sweep\n" in rule)
    both = explained(tmp_path, "fabric-manager")
    assert (both.startswith("fabric-manager\n")
            and "The rule of that name:\n\nnvlink-fabric-manager  (critical)\n" in both)


def test_programs_get_all_of_it_with_the_place_of_every_key(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "faults:\n- {id: storage, confirm: 4}\n- {id: warning, enabled: false}\nwedged: {sweeps: 5}\n")
    whole = document(tmp_path, "--rules", str(tmp_path))
    assert (whole["schema"] == "muster.policy/1" and len(whole["digest"]) == 12
            and whole["files"][-1] == f"{tmp_path}/policy.yaml")
    (storage,) = [fault for fault in whole["faults"] if fault["fault"] == "storage"]
    assert ((storage["confirm"], storage["from"]["confirm"]) == (4, f"{tmp_path}/policy.yaml:2")
            and "raid-state" in storage["covers"])
    assert storage["from"]["rules"].startswith(str(packaged()))
    assert whole["numbers"]["wedged.sweeps"] == {"value": 5, "from": f"{tmp_path}/policy.yaml:4"}
    assert (whole["numbers"]["breaker.close_hours"]["value"] is None
            and whole["out"] == {"warning": f"{tmp_path}/policy.yaml:3:26"})
    (wedged,) = [fault for fault in whole["faults"] if fault["fault"] == "probe-wedged"]
    assert wedged["confirm"] == 5
    one = document(tmp_path, "fabric-manager")
    assert (one["fault"] == "fabric-manager"
            and one["as_rule"] == {"rule": "nvlink-fabric-manager", "severity": "critical",
                                   "fail": "fabric-manager", "unknown": "probe-wedged"})
    assert document(tmp_path, "critical")["taken"]["gpu-lost"] == ["gpu-answers", "gpu-count"]


@pytest.mark.parametrize(("words", "said"), [
    (["gpu-eror"], "muster: no such fault or rule: 'gpu-eror'; did you mean 'gpu-error'?\n"),
    (["zzz"], "muster: no such fault or rule: 'zzz'; `muster explain policy` lists the faults\n"),
    (["warning", "--rules", "site"], "muster: warning is disabled by site/policy.yaml:1:33\n"),
    (["--rules", "wrong"], "muster: wrong/policy.yaml:1:10: wedged: unknown key 'sweep'; did you mean "
                           "'sweeps'?\n"),
])
def test_what_is_not_there_is_one_line_and_exit_2(words: list[str], said: str, tmp_path: Path) -> None:
    for name, policy in (("site", "faults: [{id: warning, enabled: false}]\n"),
                         ("wrong", "wedged: {sweep: 3}\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "policy.yaml").write_text(policy)
    told = muster("explain", "policy", *words, home=tmp_path)
    assert (told.returncode, told.stdout, told.stderr) == (2, "", said)
