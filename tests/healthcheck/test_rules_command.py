"""`muster rules`: what is listed is what is judged, and what is shown is what it is judged by."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.command import MUSTER, environment, muster, unread
from tests.packagedrules import RULES


def listed(*words: str, home: Path) -> list[dict[str, object]]:
    done = muster("rules", "list", *words, "--format", "json", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    found: list[dict[str, object]] = json.loads(done.stdout)
    return found


def test_all_rules_are_listed_and_a_disabled_one_says_so(tmp_path: Path) -> None:
    assert [rule["rule"] for rule in listed(home=tmp_path)] == [rule.id for rule in RULES.rules]
    done = muster("rules", "list", home=tmp_path)
    lines = done.stdout.splitlines()
    assert lines[0].split() == ["rule", "severity", "owner", "effect", "proven", "source"]
    assert len(lines) == 1 + len(RULES.rules) and max(map(len, lines)) <= 140
    marked = {line.split()[0] for line in lines[1:] if "(disabled)" in line}
    assert marked == {rule.id for rule in RULES.rules if rule.disabled}
    assert "\x1b" not in done.stdout


@pytest.mark.parametrize(("words", "key", "value"), [
    (("--severity", "critical"), "severity", "critical"), (("--owner", "vendor"), "owner", "vendor"),
    (("--proven", "simulated"), "proven", "simulated"),
])
def test_each_filter_keeps_what_it_names_and_nothing_else(
    tmp_path: Path, words: tuple[str, ...], key: str, value: str,
) -> None:
    found = listed(*words, home=tmp_path)
    assert found == [rule for rule in listed(home=tmp_path) if rule[key] == value] and found


def test_a_profiles_list_is_what_it_judges_and_of_several_what_all_take(tmp_path: Path) -> None:
    for names in (("gate",), ("timer", "unprivileged")):
        found = listed(*(word for name in names for word in ("--profile", name)), home=tmp_path)
        assert [rule["rule"] for rule in found] == [rule.id for rule in RULES.under(*names)
                                                    if not rule.left_out]


def test_a_sku_without_gpus_has_no_rules_about_them(tmp_path: Path) -> None:
    found = {str(rule["rule"]) for rule in listed("--sku", "cpu-only", home=tmp_path)}
    assert not {"gpu-ecc-uncorrected", "gpu-answers"} & found
    assert {"filesystem-space", "host-swap"} <= found


def test_show_is_explain_with_profiles_and_the_skus_numbers(tmp_path: Path) -> None:
    explained = muster("explain", "gpu-count", home=tmp_path).stdout
    shown = muster("rules", "show", "gpu-count", "--sku", "hgx-h100", home=tmp_path).stdout
    assert shown.startswith(explained)
    assert "profiles    bringup, gate, timer, unprivileged" in shown and "on hgx-h100 expected: 8" in shown
    document = json.loads(muster("rules", "show", "gpu-count", "--sku", "hgx-h100", "--format", "json",
                                 home=tmp_path).stdout)
    assert (document["values"], document["with"], document["sku"]) == (
        {"expected": 8}, {"expected": "$gpu_count"}, "hgx-h100")
    assert "gate" in document["profiles"]
    assert "not judged: there are no gpus" in muster("rules", "show", "gpu-answers", "--sku", "cpu-only",
                                                     home=tmp_path).stdout


@pytest.mark.parametrize(("words", "said"), [
    (("show", "gpu-cuont"), "no such rule: 'gpu-cuont'; did you mean 'gpu-count'?"),
    (("show", "\x1b[31m"), "no such rule: '\\x1b[31m'; `muster rules list` names them"),
    (("show", "gpu-count", "--sku", "x"), "--sku x: no such SKU"),
    (("list", "--profile", "gaet"), "no such profile: 'gaet'; did you mean 'gate'?"),
])
def test_a_mistake_is_one_line(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    done = muster("rules", *words, home=tmp_path)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1 and not done.stdout


def test_no_match_is_said_and_is_no_failure(tmp_path: Path) -> None:
    done = muster("rules", "list", "nothing-*", home=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "muster: no rule matches\n")


def test_a_reader_that_goes_away_is_no_failure(tmp_path: Path) -> None:
    assert unread("rules", "list", home=tmp_path) == 0


@pytest.mark.parametrize(("line", "offered"), [
    ("muster rules show gpu-cou", "gpu-count"), ("muster rules list --profile ga", "gate"),
    ("muster check --profile bri", "bringup"), ("muster rules list --sku hgx-h10", "hgx-h100"),
])
def test_the_shell_completes_names(tmp_path: Path, line: str, offered: str) -> None:
    words = {**environment(tmp_path), "_MUSTER_COMPLETE": "bash_complete", "COMP_WORDS": line,
             "COMP_CWORD": str(len(line.split()) - 1)}
    done = subprocess.run([str(MUSTER)], env={**os.environ, **words}, capture_output=True, text=True,
                          timeout=60, check=False)
    assert f"plain,{offered}" in done.stdout.splitlines()
