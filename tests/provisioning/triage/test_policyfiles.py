"""The ledger names who changed which file of the policy since the last run of triage, once."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from healthcheck.store.file import opened
from healthcheck.store.ledger import LedgerEntry, lines
from healthcheck.store.policyfiles import PolicyFile, note
from inventory.cli.chosen import who
from provisioning.triage.policyfiles import PACKAGED, files_of, policy_changes
from tests.command import muster

NOW = 1_795_000_000.0
AT = 1_794_990_000.0


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A site's rules, of yesterday."""
    rules = tmp_path / "rules"
    (rules / "sku").mkdir(parents=True)
    (rules / "policy.yaml").write_text("breaker: {number: 5}\n")
    (rules / "sku" / "ours.yaml").write_text("sku: ours\ninherit: hgx-h100\n")
    return rules


def dated(path: Path) -> None:
    os.utime(path, (AT, AT))


def told(tmp_path: Path, *folders: Path) -> list[str]:
    with opened(tmp_path / "state", make=True) as store:
        return [said.replace(f"{tmp_path}/", "")
                for said in policy_changes(store, [packaged(), *folders], "triage (me)", NOW)]


def changes(tmp_path: Path) -> list[LedgerEntry]:
    with opened(tmp_path / "state") as store:
        return [line for line in lines(store) if line.action == "policy changed"]


def test_what_changed_is_reported_once_with_its_owner_and_its_time(tmp_path: Path, site: Path) -> None:
    assert told(tmp_path, site) == [] and changes(tmp_path) == []
    assert told(tmp_path, site) == []
    (site / "policy.yaml").write_text("breaker: {number: 500}\n")
    (site / "sku" / "new.yaml").write_text("sku: new\n")
    (site / "sku" / "ours.yaml").unlink()
    for path in (site / "policy.yaml", site / "sku" / "new.yaml"):
        dated(path)
    assert told(tmp_path, site) == [
        f"policy: rules/policy.yaml changed, modified 2026-11-18T08:20Z by {who()}",
        f"policy: rules/sku/new.yaml was added, modified 2026-11-18T08:20Z by {who()}",
        "policy: rules/sku/ours.yaml is not there any more"]
    assert [(line.who, line.node, line.outcome) for line in changes(tmp_path)] == [
        (who(), "", "found by triage (me)"), (who(), "", "found by triage (me)"),
        ("", "", "found by triage (me)")]
    assert told(tmp_path, site) == [] and len(changes(tmp_path)) == 3


def test_a_touched_file_has_not_changed_and_one_that_is_changed_back_has(tmp_path: Path, site: Path) -> None:
    told(tmp_path, site)
    dated(site / "policy.yaml")
    assert told(tmp_path, site) == []
    was = (site / "policy.yaml").read_text()
    for text in ("breaker: {number: 6}\n", was):
        (site / "policy.yaml").write_text(text)
        assert len(told(tmp_path, site)) == 1


def test_another_folder_decides_by_other_files(tmp_path: Path, site: Path) -> None:
    told(tmp_path, site)
    assert [said.partition("ml ")[2] for said in told(tmp_path)] == ["is not there any more"] * 2


def test_packaged_files_are_one_and_hidden_or_unreadable_ones_none(tmp_path: Path, site: Path) -> None:
    (site / ".policy.yaml.swp").write_text("x")
    (site / "..2026_11_23").mkdir()
    (site / "..2026_11_23" / "policy.yaml").write_text("x")
    (site / "dangling.yaml").symlink_to("nowhere")
    found = {file.name.replace(f"{tmp_path}/", ""): file for file in files_of([packaged(), site])}
    assert list(found) == [PACKAGED, "rules/policy.yaml", "rules/sku/ours.yaml"]
    assert found["rules/policy.yaml"].owner == who() and len(found[PACKAGED].digest) == 64


def test_hostile_names_of_files_cannot_move_the_cursor(tmp_path: Path) -> None:
    with opened(tmp_path, make=True) as store:
        note(store, [PolicyFile("a", "1", "ann", AT)], "me", NOW)
        (said, gone) = note(store, [PolicyFile("\x1b[2J\n" + "x" * 1000, "2", "b\x07ob", AT)], "me", NOW)
    assert "\x1b" not in said + gone and "\n" not in said and "\x07" not in said and len(said) < 400


def test_as_it_is_typed(tmp_path: Path, site: Path) -> None:
    (tmp_path / "muster.yaml").write_text("version: 1\ncordon: {hostfile: bad}\nnodes:\n  n1:\n")
    (tmp_path / "bad").write_text("")
    with opened(tmp_path / "state", make=True):
        pass
    (site / "sku" / "ours.yaml").unlink()
    words = ("triage", "--apply", "--rules", "rules")
    assert "policy:" not in muster(*words, home=tmp_path).stdout
    (site / "policy.yaml").write_text("breaker: {number: 6}\n")
    assert "policy:" not in muster(*words[:1], *words[2:], home=tmp_path).stdout and changes(tmp_path) == []
    done = muster(*words, "--format", "json", home=tmp_path)
    assert json.loads(done.stdout) and f"policy: {site}/policy.yaml changed, modified 20" in done.stderr
    (site / "policy.yaml").write_text("breaker: {number: 7}\n")
    assert f"policy: {site}/policy.yaml changed, modified 20" in muster(*words, home=tmp_path).stdout
    assert len(changes(tmp_path)) == 2
