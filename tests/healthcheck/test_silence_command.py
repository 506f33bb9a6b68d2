"""`muster silence` and `muster unsilence`, as they are typed."""

from __future__ import annotations

import datetime as dt
import json
import re
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status
from healthcheck.store.file import opened
from healthcheck.store.ledger import lines
from healthcheck.store.sweeps import SweepRecord, record
from tests.command import muster
from tests.documents import schema

RECORDINGS = Path(__file__).resolve().parent.parent / "recordings"
CABLE = ("--reason", "cable on order")


def typed(home: Path, *words: str) -> str:
    done = muster(*words, home=home)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return re.sub(r"20\d\d-\d\d-\d\dT\d\d:\d\dZ", "THEN", done.stdout)


def listed(home: Path) -> list[dict[str, Any]]:
    found = json.loads(typed(home, "silence", "--format", "json"))
    assert found["schema"] == "muster.silences/1"
    return list(found["silences"])


def test_a_silence_is_made_listed_narrowed_and_ended(tmp_path: Path) -> None:
    assert typed(tmp_path, "silence") == "no silences\n"
    made = typed(tmp_path, "silence", "gpu[001-003]", "port-*", *CABLE, "--for", "5d")
    assert (made.startswith("silence 1: port-* on gpu[001-003]  until THEN (5d 0h)  ")
            and made.endswith("  cable on order\n"))
    (one,) = listed(tmp_path)
    assert (one["id"], one["nodes"], one["rule"], one["why"], one["problems"]) == (
        1, ["gpu001", "gpu002", "gpu003"], "port-*", "cable on order", 0)
    assert abs(one["until"] - time.time() - 5 * 86400) < 60
    assert typed(tmp_path, "unsilence", "gpu002") == "silence 1 (port-*): continues for gpu[001,003]\n"
    assert " port-* on gpu[001,003]  until THEN (5d 0h)  0 problems now  " in typed(tmp_path, "silence")
    assert typed(tmp_path, "unsilence", "1", "--reason",
                 "cable is there") == "silence 1 (port-*): has ended\n"
    assert listed(tmp_path) == []
    with opened(tmp_path / "state") as store:
        assert [(line.action, line.node, line.why)
                for line in lines(store)] == [*(("silence", f"gpu00{n}", "cable on order")
                                                for n in (1, 2, 3)), ("unsilence", "gpu002", "by hand"),
                                              *(("unsilence", f"gpu00{n}", "cable is there") for n in (1, 3))]


def test_all_silences_of_nodes_are_ended_or_those_of_one_rule(tmp_path: Path) -> None:
    for nodes, rule in (("gpu[001-002]", "port-*"), ("gpu001", "bmc-fan"), ("gpu002", "bmc-fan")):
        typed(tmp_path, "silence", nodes, rule, *CABLE, "--for", "2h")
    assert typed(tmp_path, "unsilence", "gpu[001-002]",
                 "bmc-fan") == "silence 2 (bmc-fan): has ended\nsilence 3 (bmc-fan): has ended\n"
    typed(tmp_path, "silence", "gpu001", "bmc-fan", *CABLE, "--for", "2h")
    assert typed(tmp_path, "unsilence",
                 "gpu001") == "silence 1 (port-*): continues for gpu002\nsilence 4 (bmc-fan): has ended\n"


def test_groups_are_of_the_inventory_and_unknown_nodes_are_reported(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text(
        'version: 1\ngroups: {rack7: "gpu[001-002]"}\nnodes:\n  "gpu[001-003]": {}\n')
    assert " on gpu[001-002] " in typed(tmp_path, "silence", "@rack7", "port-*", *CABLE, "--for", "2h")
    done = muster("silence", "gpu004", "port-*", *CABLE, "--for", "2h", home=tmp_path)
    assert done.returncode == 2 and "has no node gpu004" in done.stderr and len(listed(tmp_path)) == 1


def test_until_takes_a_day_with_all_of_it_or_a_minute(tmp_path: Path) -> None:
    day = dt.datetime.now(dt.timezone.utc).replace(hour=0, minute=0, second=0, microsecond=0) + dt.timedelta(
        days=3)
    typed(tmp_path, "silence", "gpu001", "port-*", *CABLE, "--until", day.strftime("%Y-%m-%d"))
    typed(tmp_path, "silence", "gpu001", "port-*", *CABLE, "--until", day.strftime("%Y-%m-%dT08:30Z"))
    assert [one["until"] for one in listed(tmp_path)] == [(day + dt.timedelta(days=1)).timestamp(),
                                                          (day + dt.timedelta(hours=8.5)).timestamp()]


def test_all_rules_are_silenced_only_where_that_is_said(tmp_path: Path) -> None:
    for glob in ("*", "?*"):
        done = muster("silence", "gpu001", glob, *CABLE, "--for", "2h", home=tmp_path)
        assert ((done.returncode, done.stdout) == (2, "")
                and re.search(r"is all \d+ rules; to silence all, add --all-rules\n$", done.stderr))
    done = muster("silence", "gpu001", "port-*", *CABLE, "--for", "2h", "--all-rules", home=tmp_path)
    assert (done.returncode == 2 and re.search(r"--all-rules goes with RULE '\*', not with 'port-\*', which "
                                               r"is \d+ of \d+ rules\n$", done.stderr))
    assert typed(tmp_path, "silence", "gpu001", "*", *CABLE, "--for", "2h", "--all-rules").startswith(
        "silence 1: * on gpu001  ")


@pytest.mark.parametrize(("words", "said"), [
    (("gpu001",), "RULE is missing: muster silence gpu001 'port-*' --reason 'cable on order' --for 5d"),
    (("--for", "2d"), "NODES and RULE are missing: muster silence gpu007 'port-*' --reason 'cable on order' "
                      "--for 5d"),
    (("gpu001", "port-*", "--for", "2d"), "--reason is missing: say why, for the ledger"),
    (("gpu001", "port-*", "--for", "2d", "--reason", " "), "--reason is missing: say why, for the ledger"),
    (("gpu001", "port-*", *CABLE), "expected either --for 2d or --until 2026-12-01: a silence must end"),
    (("gpu001", "port-*", *CABLE, "--for", "2d", "--until", "2026-12-01"),
     "expected either --for 2d or --until 2026-12-01"),
    (("gpu001", "port-*", *CABLE, "--until", "2020-01-01"),
     "--until 2020-01-02T00:00Z: expected a time from now to in 90 days"),
    (("gpu001", "port-*", *CABLE, "--until", "9999-01-01"),
     "--until 9999-01-02T00:00Z: expected a time from now to in 90 days"),
    (("gpu001", "port-*", *CABLE, "--until", "9999-12-31"),
     "'9999-12-31' is not a date, expected one such as 2026-12-01 or 2026-12-01T08:00Z (UTC)"),
    (("gpu001", "port-*", *CABLE, "--until", "friday"),
     "'friday' is not a date, expected one such as 2026-12-01 or 2026-12-01T08:00Z (UTC)"),
    (("gpu001", "port-*", *CABLE, "--for", "91d"), "'91d' is out of bounds, expected 1m to 90d"),
    (("gpu001", "prt-state", *CABLE, "--for", "2d"),
     "no rule matches 'prt-state'; did you mean 'port-state'?"),
    (("gpu[1", "port-*", *CABLE, "--for", "2d"), "a bracket is not closed"),
])
def test_what_is_missing_or_wrong_is_reported_and_nothing_is_silenced(
    tmp_path: Path, words: tuple[str, ...], said: str,
) -> None:
    done = muster("silence", *words, home=tmp_path)
    assert ((done.returncode, done.stdout) == (2, "") and said in done.stderr
            and not (tmp_path / "state").exists())


@pytest.mark.parametrize(("words", "said"), [
    (("7",), "7: no silence is active; see: muster silence"),
    (("gpu009",), "gpu009: no silence is active; see: muster silence"),
    (("gpu001", "bmc-fan"), "gpu001: no silence for 'bmc-fan' is active; there is 1, for 'port-*'"),
    (("1", "port-*"), "silence 1 already names its rule"),
])
def test_what_is_not_silenced_cannot_be_ended(tmp_path: Path, words: tuple[str, ...], said: str) -> None:
    typed(tmp_path, "silence", "gpu001", "port-*", *CABLE, "--for", "2h")
    done = muster("unsilence", *words, home=tmp_path)
    assert (done.returncode, done.stdout) == (2, "") and said in done.stderr and len(listed(tmp_path)) == 1


def test_the_list_says_how_much_each_silence_keeps_quiet_and_shows_hostile_text_as_data(
    tmp_path: Path,
) -> None:
    with opened(tmp_path / "state", make=True) as store:
        now = time.time() - 60
        record(store, SweepRecord(now, now + 5, False, "test", "digest"), [
            NodeReport("gpu001", NodeState.UNHEALTHY, "",
                       (failed("port-state", "mlx5_0", "mlx5_1"), failed("gpu-count", "GPU"))),
            NodeReport("gpu002", NodeState.UNKNOWN, "connect: refused", (), True, "connect"),
        ])
    typed(tmp_path, "silence", "gpu[001-002]", "port-*", "--reason", "a\x1b[31m\nb", "--for", "2h")
    typed(tmp_path, "silence", "gpu[001-002]", "*", *CABLE, "--for", "2h", "--all-rules")
    told = typed(tmp_path, "silence").splitlines()
    assert (len(told) == 2 and "  2 problems now  " in told[0] and "  4 problems now  " in told[1]
            and told[0].endswith("a\\x1b[31m\\nb"))


def test_what_a_check_finds_and_how_it_exits_stays_as_it_is(tmp_path: Path) -> None:
    words = ("check", "--replay", str(RECORDINGS / "demo-sweep"), "--format", "json")
    before = muster(*words, home=tmp_path)
    nodes = {node["node"] for node in json.loads(before.stdout)["nodes"]}
    assert before.returncode == 1
    typed(tmp_path, "silence", ",".join(sorted(nodes)), "*", *CABLE, "--for", "2h", "--all-rules")
    after = muster(*words, home=tmp_path)
    assert (after.returncode, after.stdout) == (1, before.stdout)


def test_triage_leaves_out_what_is_silenced_and_says_how_much_that_is(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text('version: 1\nnodes:\n  "gpu[001-004]": {}\n')
    (tmp_path / "bad").touch()
    down = Result("port-state", "port.state", Status.FAIL, Severity.CRITICAL,
                  (Finding("DOWN", "ACTIVE", "mlx5_0"),))
    up = Result("port-state", "port.state", Status.PASS, Severity.CRITICAL)
    with opened(tmp_path / "state", make=True) as store:
        for ago in (300, 120):
            now = time.time() - ago
            record(store, SweepRecord(now, now + 5, False, "test", "digest"),
                   [NodeReport(f"gpu00{n}", NodeState.UNHEALTHY if n == 2 else NodeState.HEALTHY, "",
                               (down if n == 2 else up,)) for n in range(1, 5)])

    def triage() -> tuple[int, str]:
        done = muster("triage", "--hostfile", "bad", home=tmp_path)
        return done.returncode, done.stdout

    code, told = triage()
    assert code == 1 and "isolate" in told and "gpu002" in told and "silenced" not in told
    typed(tmp_path, "silence", "gpu002", "port-*", *CABLE, "--for", "5d")
    code, told = triage()
    assert code == 0 and "isolate  " not in told and "1 problem silenced" in told
    assert re.search(
        r"^silenced  gpu002: 1 problem, port-state, would isolate for network-port; silence 1 of "
        r"\S+ until \S+Z \(5d 0h\): cable on order$", told, re.MULTILINE), told
    whole = json.loads(muster("triage", "--hostfile", "bad", "--format", "json", home=tmp_path).stdout)
    assert [(one["node"], one["rule"], one["silence"], one["fault"], one["isolation"])
            for one in whole["silenced"]] == [("gpu002", "port-state", 1, "network-port", "no-new-jobs")]
    jsonschema.validate(whole, schema("triage-1"))
    (row,) = (line for line in muster("nodes", home=tmp_path).stdout.splitlines()
              if line.startswith("gpu002 "))
    assert re.search(r"  silence 1 until 20\d\d-\d\d-\d\dT\d\d:\d\dZ \(5d 0h\) hides port-state", row)
    typed(tmp_path, "unsilence", "gpu002")
    assert triage()[0] == 1


def failed(rule: str, *subjects: str) -> Result:
    return Result(rule, rule, Status.FAIL, Severity.CRITICAL,
                  tuple(Finding("down", "up", subject) for subject in subjects))


def swept(home: Path, **nodes: Result) -> None:
    """A sweep of a minute ago; all but what is given is well."""
    with opened(home / "state", make=True) as store:
        now = time.time() - 60
        record(store, SweepRecord(now, now + 5, False, "test", "digest"),
               [NodeReport(node, NodeState.UNHEALTHY, "", (result,)) for node, result in nodes.items()])


def moved(home: Path, seconds: float) -> None:
    """The silences as if they had been made so much earlier."""
    with opened(home / "state") as store, store.writing() as db:
        db.execute("UPDATE silence SET began = began - ?, until = until - ?, ended = ended - ?",
                   (seconds,) * 3)


def test_a_silence_that_expired_is_listed_as_ended_and_so_is_one_that_a_person_ended_for_a_week(
    tmp_path: Path,
) -> None:
    for node in ("gpu001", "gpu002"):
        typed(tmp_path, "silence", node, "port-*", *CABLE, "--for", "2h")
    typed(tmp_path, "unsilence", "gpu002", "--reason", "cable is there")
    moved(tmp_path, 3 * 3600)
    told = typed(tmp_path, "silence").splitlines()
    assert told[0] == "no silences; ended:" and len(told) == 3
    assert told[1].startswith("silence 1: port-* on gpu001  expired at THEN, 60 min ago  ")
    assert re.match(r"silence 2: port-\* on gpu002  ended by \S+ \(cable is there\) at THEN, 3 h ago  ",
                    told[2])
    whole = json.loads(typed(tmp_path, "silence", "--format", "json"))
    assert whole["silences"] == [] and [(one["id"], one["ended_why"]) for one in whole["ended"]] == [
        (1, None), (2, "cable is there")]
    moved(tmp_path, 8 * 86400)
    assert typed(tmp_path, "silence") == "no silences\n"
    assert len(typed(tmp_path, "silence", "--all").splitlines()) == 3


def test_what_ends_within_a_day_and_what_expired_since_yesterday_is_noted_where_it_holds_something_back(
    tmp_path: Path,
) -> None:
    (tmp_path / "muster.yaml").write_text('version: 1\nnodes:\n  "gpu[001-003]": {}\n')
    swept(tmp_path, gpu001=failed("port-state", "mlx5_0"), gpu002=failed("gpu-count"))
    typed(tmp_path, "silence", "gpu[001-002]", "port-*", *CABLE, "--for", "20h")
    typed(tmp_path, "silence", "gpu003", "port-*", *CABLE, "--for", "20h")
    assert "(20h 0m: soon)  1 problem now  port-state of mlx5_0 on gpu001  " in typed(tmp_path, "silence")

    def notes(*words: str) -> list[str]:
        done = muster(*words, home=tmp_path)
        return [line for line in done.stderr.splitlines() if "silence" in line]

    soon = ("note: silence 1 (port-* on gpu001) ends in 20 h: then 1 problem counts again; or: "
            "muster silence gpu001 'port-*' --for 5d --reason TEXT")
    assert notes("triage", "--hostfile", "bad") == [soon]
    moved(tmp_path, 23 * 3600)
    assert notes("triage", "--hostfile", "bad", "--format", "json") == [
        "note: silence 1 (port-* on gpu001) expired 3 h ago: 1 problem counts again"]
    typed(tmp_path, "silence", "gpu001", "*", *CABLE, "--for", "5d", "--all-rules")
    assert notes("triage", "--hostfile", "bad") == []       # another holds it back


def test_whoever_silences_a_held_node_reads_that_it_stays_held(tmp_path: Path) -> None:
    (tmp_path / "muster.yaml").write_text('version: 1\nnodes:\n  "gpu[001-003]": {}\n')
    assert muster("cordon", "gpu[001-002]", "--reason", "port", "--hostfile", "bad",
                  home=tmp_path).returncode == 0
    for words in (("silence", "gpu[001-003]", "port-*", *CABLE, "--for", "5d"), ("silence",)):
        assert "  gpu[001-002] stay held: muster uncordon gpu[001-002]  " in typed(tmp_path, *words)
    assert listed(tmp_path)[0]["held"] == ["gpu001", "gpu002"]


def test_lists_make_no_store_and_the_word_list_is_no_node(tmp_path: Path) -> None:
    for words, said in ((("silence",), "no silences\n"), (("silence", "list"), "no silences\n"),
                        (("lease", "list"), "no leases\n"),
                        (("lease", "release", "--hostfile", "bad"), "no leases\n")):
        assert typed(tmp_path, *words) == said
    assert not (tmp_path / "state").exists()
    done = muster("silence", "gpu001", "port-*", "--all", *CABLE, "--for", "5d", home=tmp_path)
    assert done.returncode == 2 and "--all goes with a list" in done.stderr


def test_a_node_that_was_removed_from_the_inventory_is_taken_out_of_its_silences_by_name(
    tmp_path: Path,
) -> None:
    (tmp_path / "muster.yaml").write_text('version: 1\nnodes:\n  "gpu[001-003]": {}\n')
    typed(tmp_path, "silence", "gpu[001-003]", "port-*", *CABLE, "--for", "2h")
    (tmp_path / "muster.yaml").write_text('version: 1\nnodes:\n  "gpu[001-002]": {}\n')
    assert typed(tmp_path, "unsilence", "gpu003") == "silence 1 (port-*): continues for gpu[001-002]\n"
    done = muster("unsilence", "gpu003", home=tmp_path)
    assert done.returncode == 2 and "has no node gpu003" in done.stderr


def test_whoever_ends_a_silence_reads_what_counts_again(tmp_path: Path) -> None:
    swept(tmp_path, gpu001=failed("port-state", "mlx5_0", "mlx5_1"), gpu002=failed("port-state", "mlx5_0"))
    typed(tmp_path, "silence", "gpu[001-002]", "port-*", *CABLE, "--for", "2h")
    typed(tmp_path, "silence", "gpu002", "port-state", *CABLE, "--for", "2h")
    assert typed(tmp_path, "unsilence", "1") == (
        "silence 1 (port-*): has ended\n2 problems on gpu001 count again; next: muster triage\n")


def test_a_silence_that_was_made_while_the_clock_was_ahead_is_listed_and_can_be_ended(tmp_path: Path) -> None:
    typed(tmp_path, "silence", "gpu001", "port-*", *CABLE, "--for", "2h")
    moved(tmp_path, -86400)
    assert " on gpu001  from THEN until THEN  0 problems now  " in typed(tmp_path, "silence")
    assert typed(tmp_path, "unsilence", "gpu001") == "silence 1 (port-*): has ended\n"
    assert listed(tmp_path) == []
