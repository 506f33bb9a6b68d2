"""A rule that was renamed is still meant by what people wrote before: overlays, policies, profiles, silences,
options and the store.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from healthcheck.config.formernames import renamed, with_current_names
from healthcheck.config.rulesfolder import packaged
from healthcheck.gate.policyload import load_gate_policy, with_todays_names
from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Severity
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.store import history, incidents, migrations, silences
from healthcheck.store.file import opened
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.remediation import RemediationStep
from inventory.errors import RulesError
from tests.command import muster
from tests.packagedrules import RULES
from tests.testbed.olderstore import use_version

PARTS = ("clique", "health", "imex", "manager", "manager-log", "state")
NOTE = "muster: fabric-state is now called nvlink-fabric-state\n"


def site(folder: Path, text: str, name: str = "ours.yaml") -> Ruleset:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return load_ruleset([packaged(), folder])


def judged(ruleset: Ruleset) -> set[str]:
    return {rule.id for rule in ruleset.rules if not rule.left_out}


def test_the_rules_of_the_nvlink_fabric_are_known_by_the_ids_that_they_had() -> None:
    assert RULES.former == {f"fabric-{part}": f"nvlink-fabric-{part}" for part in PARTS}
    assert set(RULES.former.values()) <= {rule.id for rule in RULES.rules}


def test_a_site_overlay_by_the_former_id_changes_the_rule_that_there_is(tmp_path: Path) -> None:
    ruleset = site(tmp_path, "- {id: fabric-state, severity: warning, remedy: Ask us.}\n")
    (rule,) = [rule for rule in ruleset.rules if "fabric-state" in rule.id]
    assert (rule.id, rule.severity, rule.remedy) == ("nvlink-fabric-state", Severity.WARNING, "Ask us.")
    assert rule.origin_file == str(tmp_path / "ours.yaml") and rule.formerly == ("fabric-state",)


def test_a_site_rule_may_name_the_check_as_it_was_called(tmp_path: Path) -> None:
    ruleset = site(tmp_path, "- {id: our-fabric, check: fabric.manager_log, with: {expected: true}, "
                   "severity: info, remedy: Look., source: ours, proven: documented}\n")
    assert {rule.id: rule.checked.name for rule in ruleset.rules}["our-fabric"] == "nvlink_fabric.manager_log"


def test_a_rule_under_both_of_its_ids_in_one_file_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match="id nvlink-fabric-state is defined twice"):
        site(tmp_path, "- {id: fabric-state, severity: info}\n- {id: nvlink-fabric-state, severity: info}\n")


@pytest.mark.parametrize("formerly", ["fabric-x", "[1]", "['']"])
def test_former_names_are_a_list_of_names(formerly: str, tmp_path: Path) -> None:
    with pytest.raises(RulesError,
                       match=r"ours\.yaml:1:\d+: rule gpu-count: formerly: expected a list of names"):
        site(tmp_path, f"- {{id: gpu-count, formerly: {formerly}}}\n")


def test_rules_are_selected_by_former_ids_and_globs_over_them() -> None:
    assert judged(RULES.select(["fabric-state"])) == {"nvlink-fabric-state"}
    assert judged(RULES.select(["fabric-*"])) == set(RULES.former.values())
    assert judged(RULES) - judged(RULES.select(skip=["fabric-m*"])) == {"nvlink-fabric-manager",
                                                                        "nvlink-fabric-manager-log"}


def test_a_profile_takes_former_ids(tmp_path: Path) -> None:
    text = ("profile: ours\nonly: [fabric-*, gpu-count]\nleave_out: [fabric-imex]\nunknown: {rules: "
            "{fabric-state: allow}}\n")
    profile = site(tmp_path, text, "profile/ours.yaml").profiles["ours"]
    kept = {rule.id for rule in RULES.rules if not profile.leaves_out(rule.id)}
    assert kept == {"gpu-count", *RULES.former.values()} - {"nvlink-fabric-imex"}
    assert profile.unknown is not None
    assert "nvlink-fabric-state" in [name for name, _ in profile.unknown.rules]


def test_a_policy_takes_former_ids(tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(
        "faults:\n- {id: ours, why: we know, rules: [fabric-clique], isolation: none}\n"
        "places:\n- {id: ours, why: we know, rules: [fabric-*], kinds: [rack]}\n"
        "remediation: {restart-fabric-manager: {rules: [fabric-manager]}}\n")
    policy = load_policy([packaged(), tmp_path], RULES)
    assert "nvlink-fabric-clique" in {kind.id: kind.rules for kind in policy.kinds}["ours"]
    assert set(RULES.former.values()) <= set({one.id: one.rules for one in policy.incidents.causes}["ours"])
    assert policy.remediation.uses[RemediationStep.RESTART_FABRIC_MANAGER].rules == (
        "fabric-manager", "nvlink-fabric-manager")
    (tmp_path / "policy.yaml").write_text(
        "faults:\n- {id: ours, why: we know, rules: [fabric-nothing], isolation: none}\n")
    with pytest.raises(RulesError, match="no rule matches 'fabric-nothing'"):
        load_policy([packaged(), tmp_path], RULES)


def test_the_packaged_policy_makes_of_the_renamed_rules_what_it_did() -> None:
    kinds = load_policy([packaged()], RULES).kinds

    def fault(rule: str) -> str:
        return next(kind.id for kind in kinds if kind.covers(Of.FAIL, rule, Severity.CRITICAL))

    assert [fault(f"nvlink-fabric-{part}") for part in ("clique", "health", "manager", "state")] == [
        "nvlink", "nvlink", "fabric-manager", "fabric-manager"]


def test_a_gate_policy_takes_former_ids_and_the_first_word_counts(tmp_path: Path) -> None:
    (tmp_path / "gate.yaml").write_text("unknown: {rules: {nvlink-fabric-state: block, fabric-*: allow}}\n")
    rules = dict(with_todays_names(load_gate_policy([packaged(), tmp_path]), RULES.former).rules)
    assert (rules["nvlink-fabric-state"], rules["nvlink-fabric-health"]) == ("block", "allow")


def test_a_glob_that_matches_the_new_id_itself_says_nothing_of_the_former_one() -> None:
    assert with_current_names(["*fabric-state", "fabric-state"], {"fabric-state": "nvlink-fabric-state"}) == (
        "*fabric-state", "fabric-state", "nvlink-fabric-state")
    assert renamed(["*", "*fabric-state"], RULES.former) == []
    assert renamed(["fabric-s*", "fabric-state"],
                   RULES.former) == ["fabric-state is now called nvlink-fabric-state"]


def test_explain_takes_the_former_id_and_says_once_what_the_rule_is_called(tmp_path: Path) -> None:
    output = muster("explain", "fabric-state", home=tmp_path)
    assert (output.returncode, output.stderr) == (0, NOTE)
    assert output.stdout == muster("explain", "nvlink-fabric-state", home=tmp_path).stdout
    shown = muster("rules", "show", "fabric-state", home=tmp_path)
    assert (shown.returncode, shown.stderr) == (0, NOTE)
    assert shown.stdout.startswith("nvlink-fabric-state  (critical")
    listed = muster("rules", "list", "fabric-state", home=tmp_path)
    assert (listed.returncode, listed.stderr) == (0, NOTE)
    assert listed.stdout.splitlines()[1].startswith("nvlink-fabric-state ")
    policy = muster("explain", "policy", "fabric-state", home=tmp_path)
    assert (policy.returncode, policy.stderr) == (0, NOTE) and "nvlink-fabric-state" in policy.stdout


def test_a_check_by_the_former_id_judges_the_rule_and_says_once_what_it_is_called(tmp_path: Path) -> None:
    done = muster("check", "--local", "--only", "fabric-state", "--only", "fabric-s*", "--format",
                  "json", "--full",
                  home=tmp_path)
    results = {result["rule"]: result for node in json.loads(done.stdout)["nodes"]
               for result in node["results"]}
    assert [name for name, one in results.items()
            if one["reason"] != "left out by --only"] == ["nvlink-fabric-state"]
    assert done.stderr.count(NOTE) == 1


def test_a_silence_by_the_former_id_is_of_the_rule_and_ends_by_either(tmp_path: Path) -> None:
    made = muster("silence", "n1", "fabric-state", "--reason", "known", "--for", "2d", home=tmp_path)
    assert made.stderr == NOTE and "silence 1: nvlink-fabric-state on n1" in made.stdout
    several = muster("silence", "n1", "fabric-m*", "--reason", "known", "--for", "2d", "--format", "json",
                     home=tmp_path)
    assert {one["rule"] for one in json.loads(several.stdout)["silences"]} == {"nvlink-fabric-manager",
                                                                               "nvlink-fabric-manager-log"}
    over = muster("unsilence", "n1", "fabric-state", home=tmp_path)
    assert (over.returncode, over.stderr) == (0, NOTE)
    assert "silence 1 (nvlink-fabric-state): has ended" in over.stdout


def test_what_an_older_store_holds_goes_on_under_the_new_id(tmp_path: Path,
                                                            monkeypatch: pytest.MonkeyPatch) -> None:
    (at,) = [number for number, step in enumerate(migrations.MIGRATIONS)
             if any("'fabric-clique'" in statement for statement in step)]
    with monkeypatch.context() as patch:
        use_version(patch, at)
        with opened(tmp_path / "state", make=True) as old, old.writing() as db:
            db.execute("INSERT INTO node (id, name) VALUES (1, 'n1')")
            for rule in ("fabric-state", "fabric-ours", "gpu-count"):
                db.execute("INSERT INTO problem (node, rule, subject, status, severity, observed, expected, "
                           "reason, remedy, began, seen, sweeps) "
                           "VALUES (1, ?, 'GPU 0', 'fail', 'critical', '1', '0', '', '', 1, 1, 1)", (rule,))
                db.execute("INSERT INTO version (kind, name, digest, who, began, seen) VALUES ('rule', ?, "
                           "'x', 'me', 1, 1)", (rule,))
            for rule in ("fabric-state", "fabric-*", "gpu-*"):
                db.execute("INSERT INTO silence (nodes, rule, why, who, began, until) VALUES ('[\"n1\"]', ?, "
                           "'known', 'me', 1, 9)", (rule,))
            db.execute("INSERT INTO look (node, profile, time, state, against, measured) VALUES (1, '', 1, "
                       "'unhealthy', '[]', '[\"fabric-ours\", \"fabric-manager\", \"gpu-count\"]')")
            db.execute("INSERT INTO incident (kind, cause, nodes, why, owner, began, seen, symptoms) "
                       "VALUES ('rack', 'r1', '[\"n1\"]', 'x', 'operator', 1, 1, "
                       "'[\"fabric-state of GPU\", \"fabric-ours\", \"fabric-manager\"]')")
    with opened(tmp_path / "state") as store:
        found = history.problems(store, None, 0)
        assert {one.rule for one in found} == {"fabric-ours", "gpu-count", "nvlink-fabric-state"}
        held = silences.active(store, 5)
        assert [one.rule for one in held] == ["nvlink-fabric-state", "fabric-*", "gpu-*", "nvlink-fabric-*"]
        assert all(silences.silenced(one, held, 5) for one in found)
        assert {row[0] for row in store.rows("SELECT name FROM version WHERE kind = 'rule'")} == {
            "fabric-ours", "gpu-count", "nvlink-fabric-state"}
        assert json.loads(store.rows("SELECT measured FROM snapshot")[0][0]) == [
            "fabric-ours", "nvlink-fabric-manager", "gpu-count"]
        (incident,) = incidents.incidents(store)
        assert incident.symptoms == ("nvlink-fabric-state of GPU", "fabric-ours", "nvlink-fabric-manager")
        assert store.check() == []
        assert store.rows("SELECT name FROM sqlite_master WHERE name = 'renamed'") == []
    output = muster("history", "--since", "3650d", "--rule", "fabric-state", "--state",
                    str(tmp_path / "state"), "--format", "jsonl", home=tmp_path)
    assert output.stderr == NOTE
