"""An nhc.conf is read as NHC reads it, nothing of it is run, and no line is said to be covered by a rule that
judges less without saying so."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.explain.nhcconf import NhcLine, read_nhc_conf
from healthcheck.explain.nhcrules import KNOWN, Cover, NhcMatch, match, settings
from tests.command import muster
from tests.documents import validate
from tests.healthcheck.help.test_other_checkers import NHC
from tests.packagedrules import RULES

CONF = r"""# of the site
  * || export TIMEOUT=30
  * || check_hw_cpuinfo 2 112 224
  {gpu[001-064]} || check_hw_physmem 2000gb 2100gb 5%
  * || check_hw_ib 400
  * || check_fs_mount_rw -t ext4 -f /
  * || check_fs_mount -s "nas1:/home" -t nfs \
       -f /home
  * || check_fs_free / 10%
  * || check_fs_used /tmp 92%
  * || check_ps_service -u root -S sshd
  !/^login/ || check_ps_service -r slurmd
  * || check_file_test -r -w -x -d -k /tmp
  * || check_cmd_output -m '/on/' touch ran
  gpu* || touch ran; check_hw_ib 400
  * || check_dmi_data_match "BIOS Information: Version: 1.6.7"
"""
OWN = {rule.id: rule.parameters for rule in RULES.rules}
WITH = {rule.id: rule for rule in RULES.rules}


def lines(text: str) -> list[tuple[int, str, str]]:
    return [(line.number, line.target, line.command) for line in read_nhc_conf(text.encode())]


def one(check: str, target: str = "*") -> NhcMatch:
    (line,) = read_nhc_conf(f"{target} || {check}\n".encode())
    return match(line)


def test_targets_and_checks_are_split_at_the_first_bars_and_comments_are_left_out() -> None:
    assert lines(" # a || b\n\n *  || check_x 'a || b'\n\t{n[1-3]}||check_y # why\n#* || check_z\n") == [
        (3, "*", "check_x 'a || b'"), (4, "{n[1-3]}", "check_y # why")]


def test_a_backslash_joins_lines_and_is_else_taken_away_as_read_does() -> None:
    assert lines("* || check_x a \\\n  b\n* || check_y '/a\\.b/'\n") == [(1, "*", "check_x a   b"),
                                                                         (3, "*", "check_y '/a.b/'")]


@pytest.mark.parametrize("text", [CONF, "*||a\\\\b\n", "a\\\n||b c\n", "  *\t|| x\t\n\n# y\n",
                                  "* || a \\# b\n", "x || y"])
def test_bash_splits_the_lines_in_the_same_way(text: str, tmp_path: Path) -> None:
    """The loop is NHC's in its form: `read` without -r, and || found by bash's patterns."""
    assert shutil.which("bash")
    (tmp_path / "conf").write_text(text)
    loop = r'''while read LINE; do case "$LINE" in \#*|"") continue;; *"||"*) ;; *) continue;; esac
        T="${LINE%%||*}"; C="${LINE#*||}"; read -r T <<< "$T"; read -r C <<< "$C"; [ -n "$T" ] && [ -n "$C" ] && printf '%s\t%s\n' "$T" "$C"; done < conf'''  # noqa: E501
    done = subprocess.run(["bash", "-c", loop], cwd=tmp_path, capture_output=True, text=True, check=False)
    ours = [f"{line.target}\t{line.command}" for line in read_nhc_conf(text.encode())
            if "||" not in line.trouble and "no line end" not in line.note]
    assert done.stdout.splitlines() == ours


def test_a_last_line_without_line_end_is_shown_as_one_that_nhc_never_reads() -> None:
    (line,) = read_nhc_conf(b"* || check_hw_ib 400")
    assert "no line end" in line.note


@pytest.mark.parametrize(("target", "bad"), [("{n[1-3],m5}", False), ("{n[1-3,7]}", True),
                                             ("!{n[1-3]x[4-5]}", True), ("/n[1-3,7]/", False)])
def test_a_range_that_nhc_does_not_take_is_said_to_match_no_node(target: str, bad: bool) -> None:
    (line,) = read_nhc_conf(f"{target} || check_hw_ib\n".encode())
    assert bool(line.note) is bad


@pytest.mark.parametrize("check", ["check_hw_ib 400 | tee x", "check_hw_ib `x`", "check_hw_ib $(x)",
                                   "check_hw_ib 'a", "a && b", "# only this"])
def test_what_only_a_shell_can_read_is_no_match_and_says_why(check: str) -> None:
    found = one(check)
    assert found.cover is Cover.NONE and found.note and not found.numbers and not found.parameters


def test_every_check_of_nhc_has_its_answer_and_names_rules_that_there_are() -> None:
    for name in NHC.split():
        found = one(f"check_{name}")
        assert "not one of NHC's own" not in found.note, name
        assert found.cover is Cover.NONE or found.rules, name
        assert set(found.rules) <= set(WITH), name
    for name in KNOWN:
        assert set(one(name).rules) <= set(WITH), name


def test_what_is_not_wholly_covered_says_what_is_missing() -> None:
    for name in KNOWN:
        for words in ("", "/", "1", "/ 10%", "400 mlx5_0", "1gb 2gb 5%", "-f / -t nfs", "$X"):
            found = one(f"{name} {words}")
            assert found.cover is Cover.WHOLE or found.note, (name, words)


def test_a_rule_that_is_off_is_never_claimed_without_saying_so() -> None:
    for name in KNOWN:
        for words in ("", "sshd", '"BIOS Information: Version: 1"'):
            found = one(f"{name} {words}")
            if any(WITH[rule].left_out for rule in found.rules if rule not in ("host-dimm-alike",)):
                assert "off until a site enables it" in found.note, (name, words)


@pytest.mark.parametrize(("check", "numbers"), [
    ("check_hw_cpuinfo 2 112 224", {"cpu_count": 224}),
    ("check_hw_physmem 1536GB 1600GB 5%", {"memory_gib": 1536}),
    ("check_hw_physmem 2113409204 2113409204 5%", {"memory_gib": 2016}),
    ("check_hw_ib 200 mlx5_0", {"port_rate_gbps": 200}),
    ("check_gpu_count 8", {"gpu_count": 8}), ("check_hw_cpuinfo 2 $CORES $THREADS", {}),
    ("check_hw_ib fast", {}),
])
def test_numbers_are_those_of_the_line(check: str, numbers: dict[str, int]) -> None:
    assert one(check).numbers == numbers


def test_the_strictest_limit_counts_and_none_gets_looser_than_it_is() -> None:
    def of(*checks: str) -> dict[str, dict[str, object]]:
        return settings([one(check) for check in checks], OWN)[1]

    assert of("check_fs_free / 10%",
              "check_fs_used /tmp 92%") == {"filesystem-space": {"at_most_percent": 90}}
    assert of("check_fs_used /tmp 90%") == {"filesystem-space": {"at_most_percent": 89}}
    assert of("check_fs_free / 1%") == {}
    assert (of("check_fs_mount -f /home /scratch")
            == {"filesystem-expected": {"expected": ["/", "/home", "/scratch"]}})


def test_two_values_of_one_number_are_left_out_with_a_remark() -> None:
    numbers, _, remarks = settings([one("check_hw_ib 400", "gpu*"), one("check_hw_ib 200", "old*")], OWN)
    assert numbers == {} and any("port_rate_gbps differs: 400 (line 1); 200 (line 1)" in remark
                                 for remark in remarks)
    assert any("different nodes (gpu*, old*)" in remark for remark in remarks)


def test_a_service_that_must_not_run_has_no_match() -> None:
    assert one("check_ps_service -k wulfd").cover is Cover.NONE
    assert one("check_ps_service -u root -r slurmd").parameters == {"service-expected": {"names": ["slurmd"]}}


def test_the_command_shows_covers_and_lists_what_has_none_and_runs_nothing(tmp_path: Path) -> None:
    (tmp_path / "nhc.conf").write_text(CONF)
    done = muster("rules", "import-nhc", "nhc.conf", home=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No match: check_file_test (line 13), check_cmd_output (line 14), touch (line 15)" in done.stdout
    assert ("line 7  *  check_fs_mount" in done.stdout
            and "Settings of NHC itself, which muster does not need: line 2" in done.stdout)
    assert not (tmp_path / "ran").exists()


def test_the_document_follows_its_schema(tmp_path: Path) -> None:
    (tmp_path / "nhc.conf").write_text(CONF)
    document = json.loads(muster("rules", "import-nhc", "nhc.conf", "--format", "json", home=tmp_path).stdout)
    validate(document, "nhc-1")
    assert document["sku_numbers"] == {"cpu_count": 224, "memory_gib": 2000, "port_rate_gbps": 400}
    assert [each["cover"] for each in document["checks"]].count("no match") == 3


def test_what_is_written_is_a_folder_of_rules_that_judges_by_the_files_numbers(tmp_path: Path) -> None:
    (tmp_path / "nhc.conf").write_text(CONF)
    refused = muster("rules", "import-nhc", "nhc.conf", "--out", "site", home=tmp_path)
    assert refused.returncode == 2 and "--sku" in refused.stderr and not (tmp_path / "site").exists()
    done = muster("rules", "import-nhc", "nhc.conf", "--sku", "hgx-h100", "--out", "site", home=tmp_path)
    assert done.returncode == 0, done.stderr
    rules = {entry["id"]: entry for entry in yaml.safe_load((tmp_path / "site" / "nhc.yaml").read_text())}
    assert rules["filesystem-space"] == {"id": "filesystem-space", "with": {"at_most_percent": 90}}
    assert rules["service-expected"] == {"id": "service-expected", "enabled": True,
                                         "with": {"names": ["sshd", "slurmd"]}}
    shown = muster("sku", "show", "hgx-h100-nhc", "--rules", "site", "--format", "json", home=tmp_path)
    assert json.loads(shown.stdout)["numbers"]["cpu_count"] == 224
    again = muster("rules", "import-nhc", "nhc.conf", "--sku", "hgx-h100", "--out", "site", home=tmp_path)
    assert again.returncode == 2 and "exists already" in again.stderr
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".site")] == []


@pytest.mark.parametrize("words", [("none.conf",), (".",), ("nhc.conf", "--sku", "no-such"),
                                   ("nhc.conf", "--out", "no/such/folder")])
def test_bad_input_is_one_line(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "nhc.conf").write_text("* || check_fs_mount -f /home\n")
    done = muster("rules", "import-nhc", *words, home=tmp_path)
    assert done.returncode == 2 and done.stderr.startswith("muster: ") and done.stderr.count("\n") == 1


WORDS = st.sampled_from([*sorted(KNOWN), "||", "*", "{n[1-3]}", "-f", "-t", "/", "/home", "10%", "400", "2gb",
                         "'", '"', "\\", "\n", "#", "$X", ";", "`"])


@pytest.mark.parametrize("data", [b"\x1c\n", b"* || \x1c\n", "\u2003\n".encode(), b"\x1f"])
def test_a_line_of_nothing_but_other_blanks_has_a_name(data: bytes) -> None:
    (line,) = read_nhc_conf(data)
    assert (line.name and line.trouble) or line.words


@given(st.binary(max_size=400))
def test_no_bytes_break_the_reader(data: bytes) -> None:
    for line in read_nhc_conf(data):
        assert isinstance(line, NhcLine) and line.command and line.name and match(line).line is line


@given(st.lists(WORDS, max_size=40))
def test_no_line_of_known_words_breaks_the_mapping_or_loosens_a_limit(words: list[str]) -> None:
    found = [match(line) for line in read_nhc_conf(" ".join(words).encode())]
    _, parameters, _ = settings(found, OWN)
    for rule, values in parameters.items():
        for name, value in values.items():
            had = OWN[rule][name]
            assert value < had if isinstance(value,
                                             int) else rule == "service-expected" or set(had) <= set(value)
    assert all(re.fullmatch(r"[a-z0-9-]+", rule) for one_ in found for rule in one_.rules)
