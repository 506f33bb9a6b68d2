"""What `muster privilege` prints: a helper that every supported Python reads, sudoers lines that sudo takes,
and ids only."""

from __future__ import annotations

import ast
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.collector import helper
from healthcheck.collector.onnode.helper import MOST_IDS, parse_ids
from healthcheck.model.probes import Effect, Probe, ProbeKind
from healthcheck.sweep.rootprobes import root_probes
from inventory.errors import UsageError
from tests.command import muster
from tests.testbed.require import require

HOSTILE = Probe("site.odd", ProbeKind.COMMAND, argv=('a"""b', "c\\", "'''", "\\x41", "é\n"), root=True)


def test_the_helper_is_valid_for_python_3_8_and_the_same_each_time() -> None:
    text = helper.program(root_probes())
    ast.parse(text, feature_version=(3, 8))
    assert text == helper.program(reversed(root_probes()))
    assert text.splitlines()[0] == "#!/usr/bin/python3 -IS"


def test_the_table_holds_the_probes_that_need_root_and_no_other() -> None:
    ids = [probe.id for probe in root_probes()]
    assert {"docker.info", "kernel.log"} <= set(ids) and ids == sorted(ids)
    assert all(probe.root and probe.effect is Effect.PASSIVE for probe in root_probes())


def test_whatever_a_plug_in_names_stays_data_in_the_helper() -> None:
    last = ast.parse(helper.program([HOSTILE])).body[-1]
    assert isinstance(last, ast.Expr) and isinstance(last.value, ast.Call)
    table = ast.literal_eval(last.value.args[1])
    assert table["probes"] == [HOSTILE.to_json()]


@given(st.lists(st.one_of(st.text(max_size=80), st.from_regex(r"[a-z0-9][a-z0-9_.-]{0,62}", fullmatch=True)),
                max_size=6))
def test_arguments_are_ids_of_probes_each_once_or_refused(words: list[str]) -> None:
    try:
        ids = parse_ids(words)
    except ValueError as error:
        assert "\n" not in str(error) and not any(word in str(error) for word in words if len(word) > 12)
    else:
        assert ids == words and 1 <= len(ids) <= MOST_IDS and len(set(ids)) == len(ids)
        assert all(set(word) <= set("abcdefghijklmnopqrstuvwxyz0123456789_.-") and word[0] not in "-._"
                   for word in ids)


@given(st.lists(st.from_regex(r"[a-z]{1,4}\.[a-z]{1,4}", fullmatch=True), min_size=1, max_size=20,
                unique=True))
def test_good_ids_are_taken_in_their_order(words: list[str]) -> None:
    assert parse_ids(words) == words


def test_every_probe_that_needs_root_has_an_id_that_the_helper_takes() -> None:
    ids = [probe.id for probe in root_probes()]
    assert parse_ids(ids) == ids


@pytest.mark.parametrize("path", [helper.PATH, "/usr/local/libexec/muster-probe", "/opt/a+b_c-1.2/x"])
def test_the_lines_for_sudoers_are_right_in_sudos_own_eyes(path: str, tmp_path: Path) -> None:
    require(shutil.which("visudo"), "no visudo on this machine: apt-get install -y sudo")
    (tmp_path / "muster").write_text(helper.sudoers("muster", path) + helper.by_hand("muster", path))
    done = subprocess.run(["visudo", "-cf", str(tmp_path / "muster")], capture_output=True, text=True,
                          check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", ["muster-probe", "/", "/a b", "/a,b", "/a/../b", "/a\nALL", "/a*", "/a=b",
                                  "//a", "/a/", "/a\\b", "/ALL:b", "/\u00e9"])
def test_a_path_that_could_mean_more_in_sudoers_is_refused(path: str) -> None:
    with pytest.raises(UsageError, match="expected an absolute path"):
        helper.sudoers("muster", path)


@pytest.mark.parametrize("user", ["", "a b", "ALL,x", "%wheel", "a\nb", "#0", "-u", "a=b"])
def test_a_user_that_could_mean_more_in_sudoers_is_refused(user: str) -> None:
    with pytest.raises(UsageError, match="expected a user name"):
        helper.sudoers(user, helper.PATH)


def test_the_user_all_is_everyone_and_refused() -> None:
    with pytest.raises(UsageError):
        helper.sudoers("ALL", helper.PATH)


def test_the_commands_print_both(tmp_path: Path) -> None:
    printed = muster("privilege", "helper", home=tmp_path)
    assert printed.returncode == 0 and printed.stdout == helper.program(root_probes())
    lines = muster("privilege", "sudoers", "--user", "muster", home=tmp_path)
    assert "muster ALL=(root) NOPASSWD: /opt/muster/libexec/muster-probe\n" in lines.stdout
    assert "Defaults!/opt/muster/libexec/muster-probe !requiretty" in lines.stdout
    elsewhere = muster("privilege", "sudoers", "--user", "muster", home=tmp_path, MUSTER_HELPER="/srv/probe")
    assert "NOPASSWD: /srv/probe\n" in elsewhere.stdout


def test_a_place_that_is_none_is_one_line(tmp_path: Path) -> None:
    refused = muster("check", "--local", home=tmp_path, MUSTER_HELPER="probe;id")
    assert refused.returncode == 2 and refused.stdout == ""
    assert refused.stderr.splitlines()[-1].startswith(
        "muster: MUSTER_HELPER is 'probe;id', expected an absolute path")
