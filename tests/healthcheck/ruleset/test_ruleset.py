"""Rules files: every mistake is one line with its place, sites override by id, and rules are data that run
nothing.
"""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.checks.base import CHECKS
from healthcheck.config.rulesfolder import folders, packaged
from healthcheck.model.outcome import Owner, Severity
from healthcheck.ruleset.rule import Rule, UnsupportedPolicy
from healthcheck.ruleset.ruleplain import rule_from_plain, rule_to_plain
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from inventory.errors import MusterError, RulesError, UsageError
from tests.tries import tries

GOOD = """\
- id: gpu-ecc-uncorrected
  check: gpu.ecc_uncorrected
  with: {allow: 0}
  severity: critical
  remedy: Reset it.
  source: a test
  proven: documented
"""


def load(folder: Path, text: str, name: str = "site.yaml", *, over_packaged: bool = False) -> Ruleset:
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return load_ruleset([packaged(), folder] if over_packaged else [folder])


@pytest.mark.parametrize(("change", "line", "words"), [
    (("check: gpu.ecc_uncorrected", "check: gpu.ecc_uncorected"), 2,
     "unknown check 'gpu.ecc_uncorected'; did you mean 'gpu.ecc_uncorrected'?"),
    (("severity: critical", "severity: fatal"), 4,
     "severity: expected one of info, warning, critical; got 'fatal'"),
    (("allow: 0", "alow: 0"), 3,
     "the check gpu.ecc_uncorrected has no parameter 'alow'; did you mean 'allow'?"),
    (("allow: 0", "allow: none"), 3, "allow: expected a whole number, got 'none'"),
    (("allow: 0", "allow: true"), 3, "allow: expected a whole number, got True"),
    (("allow: 0", "allow: $gpu_cont"), 3, "no SKU gives the number $gpu_cont"),
    (("  with: {allow: 0}\n", ""), 1, "with: allow is missing (a whole number)"),
    (("with: {allow: 0}", "with: [allow]"), 3, "with: expected a map, got a list"),
    (("proven: documented", "proven: simulated"), 4,
     "proven by simulation only, so severity can be warning at most"),
    (("proven: documented", "prove: documented"), 7, "unknown key 'prove'; did you mean 'proven'?"),
    (("  source: a test\n", ""), 1, "source is missing"),
    (("remedy: Reset it.", "remedy: ''"), 5, "remedy: expected a sentence, got ''"),
    (("- id: gpu-ecc-uncorrected\n  check", "- check"), 1, "id: expected a name, got nothing")])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, change: tuple[str, str], line: int,
                                              words: str) -> None:
    assert change[0] in GOOD
    with pytest.raises(RulesError) as error:
        load(tmp_path, GOOD.replace(*change))
    assert str(error.value).startswith(f"{tmp_path}/site.yaml:{line}:"), error.value
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_rule_defined_twice_in_a_file_names_both_lines(tmp_path: Path) -> None:
    with pytest.raises(RulesError, match=r"site\.yaml:8:.*defined twice; the first is at line 1"):
        load(tmp_path, GOOD + GOOD)


@pytest.mark.parametrize("text",
                         ["", "id: x\n", "- 3\n", "- [a]\n", "- !!python/object/apply:os.system ['id']\n"])
def test_a_file_that_is_no_list_of_rules_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(RulesError):
        load(tmp_path, text)


def test_a_site_changes_the_keys_it_gives_and_keeps_the_others(tmp_path: Path) -> None:
    site = load(tmp_path, "- id: filesystem-space\n  with: {at_most_percent: 90}\n  severity: warning\n",
                over_packaged=True)
    rule = {r.id: r for r in site.rules}["filesystem-space"]
    assert (rule.severity, rule.parameters["at_most_percent"]) == (Severity.WARNING, 90)
    assert "ext4" in rule.parameters["types"]
    assert rule.origin_file == str(tmp_path / "site.yaml")
    assert rule.overridden == (str(packaged() / "filesystem.yaml"),)


def test_a_site_disables_a_rule_and_it_stays_visible(tmp_path: Path) -> None:
    site = load(tmp_path, "- id: host-swap\n  enabled: false\n", over_packaged=True)
    rule = {r.id: r for r in site.rules}["host-swap"]
    assert rule.left_out == f"disabled in {tmp_path}/site.yaml"


@pytest.mark.parametrize(("text", "words"), [
    ("sku: a\ninherit: b\n", "no such SKU: 'b'"), ("sku: a\ninherit: a\n", "inherits from itself"),
    ("sku: a\nnumbers: [1]\n", "numbers: expected a map"),
    ("sku: a\nnumbers: {x: [1]}\n", "x: expected a number"),
    ("sku: a\nempty: [disks]\n", "empty: expected a list of gpus, ports"),
    ("sku: a\ncolour: red\n", "unknown key 'colour'"), ("sku: a\nports: [1]\n", "ports: expected a map"),
    ("sku: a\nports: {mlx5_0: {}}\n", "no PCI address"),
    ("sku: a\nports: {'18:00.0': {role: cmopute}}\n", "role: expected one of compute, storage, mgmt, dpu"),
    ("sku: a\nports: {'18:00.0': {leaf: l1}}\n", "expected a map with role and rail"),
    ("sku: a\nports: {'18:00.0': {rail: x}}\n", "rail: expected a number"),
    ("sku: a\nports: {'18:00.0': {}, '0000:18:00.0': {}}\n", "0000:18:00.0 is given twice"),
    ("sku: a\nnumbers: {gpu_conut: 4}\n", "numbers: no rule asks for 'gpu_conut'; did you mean 'gpu_count'?"),
    ("sku: a\nnumbers: {gpu_count: -8}\n", "gpu_count: expected 0 or more, got -8"),
    ("sku: a\nnumbers: {gpu_device: 2330}\n",
     "a.yaml:2:23: gpu_device: expected the PCI vendor and device, such as '10de:2330', got 2330"),
    ("sku: a\nnumbers: {memory_gib: .nan}\n", "memory_gib: expected 0 or more, got nan"),
    ("sku: a\nnumbers: {gpu_count: eight}\n",
     "a.yaml:2:22: gpu_count: expected a whole number, got 'eight' (rule gpu-count takes it for expected)"),
    ("[]\n", "expected a map")])
def test_a_mistake_in_a_sku_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(RulesError) as error:
        load(tmp_path, text, "sku/a.yaml", over_packaged=True)
    assert words in str(error.value) and "\n" not in str(error.value)


WRONG = [
    # the first folder's SKUs, those of the second over them, and where the mistake is reported
    ({"a": "numbers:\n  gpu_count: 8\n  memory_gib: much"}, {},
     "one/sku/a.yaml:4:15: memory_gib: expected a number, got 'much' (rule host-memory takes"),
    ({"a": "numbers: {docker: 1}", "b": "inherit: a"}, {},
     "one/sku/a.yaml:2:19: docker: expected true or false, got 1 (rule docker-answers takes"),
    ({"a": "numbers: {gpu_count: 8}", "b": "inherit: a\nnumbers: {gpu_count: 8.5}"}, {},
     "one/sku/b.yaml:3:22: gpu_count: expected a whole number, got 8.5"),
    ({"a": "numbers: {gpu_count: x}"}, {"a": "numbers: {mig: false}"},
     "one/sku/a.yaml:2:22: gpu_count: expected a whole number, got 'x'"),
    ({"a": "numbers: {gpu_count: 8}"}, {"a": "numbers: {mig: 0, gpu_count: 7}"},
     "two/sku/a.yaml:2:16: mig: expected true or false, got 0"),
]


@pytest.mark.parametrize(("first", "second", "words"), WRONG)
def test_a_number_of_a_wrong_type_is_reported_where_its_sku_gives_it(
    tmp_path: Path, first: dict[str, str], second: dict[str, str], words: str,
) -> None:
    for folder, files in (("one", first), ("two", second)):
        (tmp_path / folder / "sku").mkdir(parents=True)
        for name, text in files.items():
            (tmp_path / folder / "sku" / f"{name}.yaml").write_text(f"sku: {name}\n{text}\n")
    with pytest.raises(RulesError) as error:
        load_ruleset([packaged(), tmp_path / "one", tmp_path / "two"])
    assert f"{tmp_path}/{words}" in str(error.value) and "\n" not in str(error.value)


def test_a_rule_that_asks_for_the_wrong_number_is_reported_at_its_own_line(tmp_path: Path) -> None:
    with pytest.raises(RulesError) as error:
        load(tmp_path, "- id: gpu-count\n  with: {expected: $gpu_model}\n", over_packaged=True)
    expected = ("rule gpu-count: expected: expected a whole number, got $gpu_model, which is 'NVIDIA "
                "A10' in SKU")
    assert f"site.yaml:2:20: {expected}" in str(error.value)


def test_a_sku_inherits_numbers_and_may_decline_one(tmp_path: Path) -> None:
    site = load(tmp_path, "sku: h100-small\ninherit: dgx-h100\nnumbers: {memory_gib: 1024, docker: null}\n",
                "sku/a.yaml", over_packaged=True)
    sku = site.skus["h100-small"]
    assert (sku.numbers["gpu_count"], sku.numbers["memory_gib"], sku.declines("docker")) == (8, 1024, True)


def test_every_packaged_rule_says_how_it_is_proven_and_every_check_has_a_rule() -> None:
    ruleset = load_ruleset([packaged()])
    ours = {name for name, check in CHECKS.items() if check.function.__module__.startswith("healthcheck.")}
    assert {rule.checked.name for rule in ruleset.rules} == ours
    assert all(rule.id == rule.checked.name.replace(".", "-").replace("_", "-") for rule in ruleset.rules)
    assert all(len(rule.source) > 10 and len(rule.remedy) > 10 for rule in ruleset.rules)


def test_only_and_skip_leave_rules_visible_and_a_glob_that_matches_nothing_is_an_error() -> None:
    ruleset = load_ruleset([packaged()])
    only = ruleset.select(only=["gpu-*"], skip=["gpu-count"])
    assert {r.id for r in only.rules
            if not r.left_out} == {r.id for r in ruleset.rules
                                   if r.id.startswith("gpu-")} - {"gpu-count", "gpu-idle"}
    assert len(only.rules) == len(ruleset.rules)
    assert {p.id for p in only.probe_set(10).probes} == {"gpu.nvml", "gpu.pci", "gpu.smi", "service.nvidia"}
    with pytest.raises(UsageError, match="no rule matches 'gpu-ecc-enable'; did you mean 'gpu-ecc-enabled'"):
        ruleset.select(only=["gpu-ecc-enable"])
    with pytest.raises(UsageError, match="leave no rule"):
        ruleset.select(skip=["*"])


def test_a_rules_folder_that_does_not_exist_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no such folder"):
        folders(str(tmp_path / "none"))


@settings(deadline=None, max_examples=tries(100), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.one_of(st.text(max_size=200),
                      st.lists(st.sampled_from([*GOOD.splitlines(), "  with: {allow: [}", "\t", "- - -",
                                                "  ? a"])).map("\n".join)))
def test_any_text_is_rules_or_one_line_of_error(tmp_path: Path, text: str) -> None:
    (tmp_path / "site.yaml").write_bytes(text.encode())
    try:
        load_ruleset([tmp_path])
    except MusterError as error:
        assert "\n" not in str(error)


def test_a_sku_inherits_ports_and_refines_them_one_by_one(tmp_path: Path) -> None:
    site = load(tmp_path, "sku: ours\ninherit: dgx-h100\nports: {'dc:00.0': {role: storage}}\n", "sku/a.yaml",
                over_packaged=True)
    ports = site.skus["ours"].ports
    assert (ports["0000:dc:00.0"].role, ports["0000:ce:00.0"].rail, len(ports)) == ("storage", 6, 12)


def test_a_rule_that_is_disabled_names_a_packaged_file_by_its_name_alone() -> None:
    idle = next(rule for rule in load_ruleset([packaged()]).rules if rule.id == "gpu-idle")
    assert idle.left_out == "disabled in the packaged gpu-process.yaml"


@pytest.mark.parametrize("name", [
    "kernel/a.yaml", "baseline/a.yaml", "site.yaml", "sku/a.yaml", "profile/a.yaml",
    pytest.param("emitter/a.yaml", marks=pytest.mark.slow)])
def test_the_digest_changes_with_every_file_that_is_read(tmp_path: Path, name: str) -> None:
    # What they hold is read later, or wrong; the digest is of their bytes, before anything else is looked at.
    text = {"sku/a.yaml": "sku: a\n", "profile/a.yaml": "profile: a\nonly: [gpu-*]\n",
            "site.yaml": GOOD}.get(name, "[]\n")
    (tmp_path / "rules").mkdir()
    first = load(tmp_path / "rules", text, name, over_packaged=True).digest
    second = load(tmp_path / "rules", f"# by hand\n{text}", name, over_packaged=True).digest
    assert len({load_ruleset([packaged()]).digest, first, second}) == 3


def test_the_digest_of_a_baseline_is_of_its_own_file_in_every_folder(tmp_path: Path) -> None:
    first = load(tmp_path, "[]\n", "baseline/a.yaml", over_packaged=True).baselines["baseline/a.yaml"]
    assert re.fullmatch("[0-9a-f]{16}", first)
    assert load(tmp_path, "{}\n", "baseline/a.yaml", over_packaged=True).baselines["baseline/a.yaml"] != first


@pytest.mark.parametrize(("number", "taken"),
                         [("0", True), ("-1", False), (".inf", False), (".nan", False), ("1.0e+300", True)])
def test_a_number_of_a_sku_is_finite_and_not_negative(tmp_path: Path, number: str, taken: bool) -> None:
    text = f"sku: a\nnumbers: {{memory_gib: {number}}}\n"
    if taken:
        assert load(tmp_path, text, "sku/a.yaml",
                    over_packaged=True).skus["a"].numbers["memory_gib"] == float(number)
    else:
        with pytest.raises(RulesError, match=r"sku/a\.yaml:2:\d+: memory_gib: expected 0 or more, got"):
            load(tmp_path, text, "sku/a.yaml", over_packaged=True)


def test_a_rule_that_says_no_more_is_the_operators_and_unknown_where_the_device_lacks_the_thing(
        tmp_path: Path) -> None:
    (rule,) = load(tmp_path, GOOD).rules
    assert (rule.owner, rule.unsupported, rule.left_out) == (Owner.OPERATOR, UnsupportedPolicy.UNKNOWN, "")


def test_a_number_that_one_file_gives_to_two_skus_is_reported_there(tmp_path: Path) -> None:
    (tmp_path / "sku").mkdir()
    (tmp_path / "sku/a.yaml").write_text("sku: a\nnumbers: {gpu_count: 8, my_number: x}\n")
    (tmp_path / "sku/b.yaml").write_text("sku: b\ninherit: a\n")
    with pytest.raises(RulesError,
                       match=r"sku/a\.yaml:2:\d+: my_number: expected a whole number, got 'x' \(rule "
                             r"gpu-count takes it for expected\)"):
        load(tmp_path, "- id: gpu-count\n  with: {expected: $my_number}\n", over_packaged=True)


def test_a_number_that_two_files_give_and_no_rule_can_take_is_the_rules_mistake(tmp_path: Path) -> None:
    (tmp_path / "sku").mkdir()
    for name in ("a", "b"):
        (tmp_path / f"sku/{name}.yaml").write_text(f"sku: {name}\nnumbers: {{my_number: x}}\n")
    with pytest.raises(RulesError,
                       match=r"site\.yaml:2:\d+: rule gpu-count: expected: expected a whole number, got "
                             r"\$my_number, which is 'x' in SKU a"):
        load(tmp_path, "- id: gpu-count\n  with: {expected: $my_number}\n", over_packaged=True)


@pytest.mark.parametrize("name", ["xid.yaml", "sxid.yaml"])
def test_a_table_of_xids_has_a_digest_and_a_file_of_rules_has_none(tmp_path: Path, name: str) -> None:
    assert load(tmp_path, "[]\n").baselines == {}
    found = [load(tmp_path, f"# {by}\n", name).baselines for by in ("one", "other")]
    assert [list(each) for each in found] == [[name], [name]] and found[0] != found[1]


def test_a_rule_travels_without_the_check_that_it_was_made_with() -> None:
    (rule,) = (rule for rule in load_ruleset([packaged()]).rules if rule.id == "host-swap")
    plain = rule_to_plain(replace(rule, own=rule.checked))
    assert plain.keys() == {"fleet", *(field.name for field in fields(Rule) if field.name != "own")}
    assert rule_from_plain(plain) == rule
