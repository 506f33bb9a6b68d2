"""Cached rules are those of the YAML, and no others: whatever changes in a file, or in a check, is read."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from healthcheck.checks import gpu as gpu_checks
from healthcheck.checks.base import CHECKS, Check, Parameter
from healthcheck.config import entrypoints, usercache
from healthcheck.config.rulesfolder import packaged
from healthcheck.facts import gpu
from healthcheck.facts.base import FACTS
from healthcheck.model import probes
from healthcheck.model.probes import Effect
from healthcheck.ruleset import rulesetcache, rulesetload
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.xid import xidtableload
from inventory.errors import RulesError
from tests.healthcheck.baseline.packaged import part

RULE = """\
- id: my-gpus
  check: gpu.count
  with: {expected: 8}
  severity: warning
  remedy: Look.
  source: ours
  proven: documented
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "muster"


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return part(tmp_path_factory.mktemp("shipped"), "gpu.yaml", "xid.yaml", "sxid.yaml", "sku/hgx-h100.yaml")


@pytest.fixture
def site(tmp_path: Path) -> Path:
    folder = tmp_path / "site"
    folder.mkdir()
    (folder / "mine.yaml").write_text(RULE)
    return folder


def values(ruleset: Ruleset) -> list[object]:
    """All but the functions that load more on demand, and what these load."""
    return [*(getattr(ruleset, field.name) for field in fields(ruleset) if not field.name.endswith("_from")),
            ruleset.xids, ruleset.kernel]


def test_what_is_read_the_second_time_is_what_the_files_say(
    site: Path, cache: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    folders = (packaged(), site)
    first, alone = load_ruleset(folders), rulesetload.load(folders)
    assert values(first) == values(alone)
    assert sorted(path.name.partition("-")[0] for path in cache.iterdir()) == ["catalogue", "rules", "xids"]
    for module, name in ((rulesetload, "load"), (xidtableload, "load_xid_table")):
        monkeypatch.setattr(module, name, lambda _: pytest.fail("the files were read again"))
    second = load_ruleset(folders)
    assert values(second) == values(first)
    assert len(second.rules) > 300


def add_a_rule(site: Path) -> None:
    (site / "more.yaml").write_text(RULE.replace("my-gpus", "my-other-gpus"))


def move(site: Path) -> None:
    (site / "mine.yaml").rename(site / "ours.yaml")


def change_a_number(site: Path) -> None:
    (site / "mine.yaml").write_text(RULE.replace("8", "4"))


def add_a_sku(site: Path) -> None:
    (site / "sku").mkdir()
    (site / "sku" / "mine.yaml").write_text("sku: mine\ntitle: Mine\nnumbers: {gpu_count: 3}\n")


def add_a_profile(site: Path) -> None:
    (site / "profile").mkdir()
    (site / "profile" / "mine.yaml").write_text("profile: mine\ntitle: Mine\nonly: [my-gpus]\n")


def count_longer(site: Path) -> None:
    (site / "xid.yaml").write_text("repeats:\n- {id: same-tpc, hours: 25}\n")


@pytest.mark.parametrize("change",
                         [add_a_rule, move, change_a_number, add_a_sku, add_a_profile, count_longer])
def test_whatever_changes_in_the_folders_is_read(
    site: Path, shipped: Path, change: Callable[[Path], None],
) -> None:
    folders = (shipped, site)
    before = values(load_ruleset(folders))
    change(site)
    after = values(load_ruleset(folders))
    assert after == values(rulesetload.load(folders)) != before


def test_a_mistake_is_reported_each_time_and_nothing_is_cached_for_it(site: Path, cache: Path) -> None:
    (site / "mine.yaml").write_text(RULE.replace("expected", "expectd"))
    for _ in range(2):
        with pytest.raises(RulesError, match=r"mine\.yaml.*expectd"):
            load_ruleset((packaged(), site))
    assert not cache.exists()


@pytest.fixture
def plug_in(site: Path, monkeypatch: pytest.MonkeyPatch) -> Check:
    """A check that a plug-in registers, which judges as one of ours does, and a rule of it."""
    (site / "mine.yaml").write_text(RULE.replace("gpu.count", "site.count"))
    check = replace(CHECKS["gpu.count"], name="site.count")
    monkeypatch.setitem(CHECKS, "site.count", check)
    monkeypatch.setattr(entrypoints, "entries", lambda: [SimpleNamespace(load=lambda: None)])
    return check


def test_a_plug_ins_check_that_takes_something_else_now_is_asked_again(
    site: Path, plug_in: Check, monkeypatch: pytest.MonkeyPatch,
) -> None:
    load_ruleset((packaged(), site))
    parameters = {"expected": Parameter("expected", bool, required=True)}
    monkeypatch.setitem(CHECKS, "site.count", replace(plug_in, parameters=parameters))
    with pytest.raises(RulesError, match="expected true or false"):
        load_ruleset((packaged(), site))


def test_a_rule_of_a_plug_in_that_is_gone_is_of_an_unknown_check(
    site: Path, plug_in: Check, monkeypatch: pytest.MonkeyPatch,
) -> None:
    load_ruleset((packaged(), site))
    monkeypatch.delitem(CHECKS, "site.count")
    monkeypatch.setattr(entrypoints, "entries", list)
    with pytest.raises(RulesError, match=r"unknown check 'site\.count'"):
        load_ruleset((packaged(), site))


@pytest.mark.parametrize("held", [
    b"", pytest.param(b"[]", marks=pytest.mark.slow), pytest.param(b"{}", marks=pytest.mark.slow),
    b'{"rules": [{}]}', b"not JSON"])
def test_a_cached_value_that_is_no_ruleset_is_made_again(
    site: Path, shipped: Path, held: bytes, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(usercache, "load", lambda kind, name: held)
    assert values(load_ruleset((shipped, site))) == values(rulesetload.load((shipped, site)))


def test_the_code_that_reads_rules_that_of_checks_and_facts_and_what_plug_ins_take_are_part_of_the_name(
    plug_in: Check, monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = set(rulesetcache._parts((), True))
    for module in (rulesetload, xidtableload, gpu_checks, gpu, probes):
        assert Path(module.__file__ or "").read_bytes() in parts
    read = [("expected", "a whole number", True)]
    assert repr(("site.count", False, read, [])).encode() in parts
    disruptive = next(name for name, fact in FACTS.items()
                      if any(probe.effect is Effect.DISRUPTIVE for probe in (*fact.probes, *fact.besides)))
    monkeypatch.setitem(CHECKS, "site.count", replace(plug_in, arguments=(disruptive,)))
    assert repr(("site.count", False, read, [disruptive])).encode() in set(rulesetcache._parts((), True))


def printed(program: str) -> str:
    """What a Python of its own prints."""
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout


def test_the_name_is_the_same_whether_our_checks_are_loaded_or_not() -> None:
    name = ("from healthcheck.config.usercache import digest\nfrom healthcheck.ruleset import rulesetcache\n"
            "print(digest(rulesetcache._parts((), False)))")
    assert printed(name) == printed(f"import healthcheck.checks.catalogue\n{name}")


def test_who_lists_rules_loads_no_check_and_does_not_search_installed_packages(site: Path) -> None:
    load_ruleset((packaged(), site))
    assert printed(f"""
import sys
from pathlib import Path
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import load_ruleset

(rule,) = (rule for rule in load_ruleset((packaged(), Path({str(site)!r}))).rules if rule.id == "my-gpus")
print(rule.check, {{"healthcheck.checks.catalogue", "importlib.metadata"}} & {{*sys.modules}})
print(rule.checked.name, *rule.fact_names)
""") == "gpu.count set()\ngpu.count gpu_presence\n"
