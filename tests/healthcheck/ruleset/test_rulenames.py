"""What a policy asks of rules is the same with and without their checks, and what stands in the rules'
files."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.config import entrypoints
from healthcheck.config.rulesfolder import NOT_RULES, packaged
from healthcheck.model.outcome import Repair
from healthcheck.ruleset import plugins
from healthcheck.ruleset.rulenames import read_rule_names
from healthcheck.ruleset.ruleset import load_ruleset
from inventory.errors import RulesError, UsageError
from tests.packagedrules import RULES

DISRUPTIVE = [rule.id for rule in RULES.rules if rule.disruptive]


def test_names_repairs_and_profiles_are_those_of_the_rules_with_their_checks() -> None:
    names = read_rule_names([packaged()])
    assert (dict(names.repairs) == dict(RULES.repairs) and any(names.repairs.values())
            and None in names.repairs.values())
    assert dict(names.former) == dict(RULES.former) and names.former
    assert names.profiles == RULES.profiles.keys() and names.profiles


def test_a_later_folder_changes_a_repair_and_adds_a_profile(tmp_path: Path) -> None:
    (tmp_path / "profile").mkdir()
    (tmp_path / "site.yaml").write_text("- id: gpu-count\n  repair: reset-gpu\n")
    (tmp_path / NOT_RULES[0]).write_text("this is: no file of rules\n")
    (tmp_path / "profile" / "mine.yaml").write_text("profile: mine\nonly: [gpu-*]\n")
    names = read_rule_names([packaged(), tmp_path])
    assert names.repairs["gpu-count"] is Repair.RESET_GPU and "mine" in names.profiles


def test_a_file_of_one_entry_that_is_no_map_is_reported_at_its_beginning(tmp_path: Path) -> None:
    (tmp_path / "profile").mkdir()
    (tmp_path / "profile" / "mine.yaml").write_text("[]\n")
    with pytest.raises(RulesError, match=r"mine\.yaml:1:1:|mine\.yaml:1: "):
        read_rule_names([packaged(), tmp_path])


def test_only_disruptive_rules_by_name_are_refused_without_a_lease() -> None:
    RULES.refuse_disruptive(["*", "gpu-count", "no-such-*"])
    with pytest.raises(UsageError,
                       match=f"{DISRUPTIVE[0]} is disruptive and needs a lease: muster check --disruptive "
                             f"takes one"):
        RULES.refuse_disruptive(["gpu-count", DISRUPTIVE[0]])
    several = [name for name in DISRUPTIVE if name.startswith("dcgm-diag-")]
    with pytest.raises(UsageError, match=f"{', '.join(several)} are disruptive and need a lease"):
        RULES.refuse_disruptive(["dcgm-diag-*"])


def test_rules_are_read_with_the_checks_of_plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded = []
    monkeypatch.setattr(plugins, "load", lambda: loaded.append(True))
    load_ruleset([packaged()])
    assert loaded == []
    monkeypatch.setattr(entrypoints, "entries", lambda: ["a plug-in"])
    load_ruleset([packaged()])
    assert loaded == [True]
