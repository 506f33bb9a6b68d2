"""The agent as a node runs it: a zip file, this machine's own Python,
and an environment that holds nothing."""

from __future__ import annotations

import fcntl
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.agent import metrics, unjudged
from healthcheck.exporter import nodes as exported
from healthcheck.model.exposition import text_of
from inventory.model import Lifecycle, LifecycleState, Node
from provisioning.agent.bundle import Bundle
from provisioning.demo import h100
from tests import forked
from tests.command import MUSTER, environment
from tests.healthcheck.agent import world as worlds
from tests.healthcheck.agent.world import World, world
from tests.testbed import fuse
from tests.testbed.collector import MARK, await_none_with, processes_with
from tests.testbed.require import require

HERE = socket.gethostname().partition(".")[0]
FLEET = "judged at home"
TREE = Path(__file__).resolve().parents[3]


@pytest.fixture
def fresh(tmp_path: Path, made: Bundle) -> World:
    return world(tmp_path, made, Node(HERE, sku="hgx-h100"))


@pytest.fixture
def node(fresh: World, earlier: World) -> World:
    """One that has run before, a moment ago."""
    shutil.copytree(earlier.state, fresh.state)
    return fresh


def sick_node(folder: Path, made: Bundle, earlier: World, lifecycle: Lifecycle | None = None) -> World:
    """One whose GPU has met memory errors."""
    machine = h100.healthy(HERE, random.Random(1))
    machine.scenario["gpu.3.ecc.volatile.uncorrected"] = "4"
    return world(folder, made, Node(HERE, sku="hgx-h100", lifecycle=lifecycle or Lifecycle()),
                 machine).compiled(earlier)


def said(results: list[dict[str, Any]]) -> dict[str, Any]:
    return {one["rule"]: (one["status"], one["findings"], one["reason"]) for one in results}


def without_fleet(results: dict[str, Any]) -> dict[str, Any]:
    return {rule: told for rule, told in results.items() if not rule.startswith("fleet-")}


def test_an_agent_says_of_each_rule_what_muster_check_says_of_the_same_tree(
    fresh: World, earlier: World, tmp_path: Path,
) -> None:
    (tmp_path / "home").mkdir()
    done = fresh.compiled(earlier).run()
    there = fresh.check(tmp_path / "home", "--sku", "hgx-h100", "--profile", "timer")
    here = fresh.result["report"]
    mine, theirs = said(here["results"]), said(there["results"])
    assert mine.keys() == theirs.keys()
    # What moves between two looks is said in none of these on a healthy node.
    assert without_fleet(mine) == without_fleet(theirs)
    fleet = {rule: told for rule, told in mine.items() if rule.startswith("fleet-")}
    assert fleet and {told[0] for told in fleet.values()} == {"skipped"}
    assert any(told[2] == FLEET for told in fleet.values())
    assert (done.returncode, fresh.result["state"]) == (there["code"], there["state"])
    assert sum(told[0] == "pass" for told in mine.values()) > 80


def test_a_sick_gpu_is_found_by_the_agent_and_by_home_from_what_it_recorded(
    tmp_path: Path, made: Bundle, earlier: World,
) -> None:
    node = sick_node(tmp_path, made, earlier)
    (tmp_path / "home").mkdir()
    done = node.run("--nagios")
    home = node.check(tmp_path / "home", "--sku", "hgx-h100", "--from-agent")
    failed = {rule for rule, told in said(node.result["report"]["results"]).items() if told[0] == "fail"}
    assert "gpu-ecc-uncorrected" in failed
    assert (done.returncode == 2 and done.stdout.startswith("MUSTER CRITICAL - unhealthy: ")
            and done.stdout.count("|") == 1)
    assert home["state"] == node.result["state"] == "unhealthy" and home["code"] == 1
    assert without_fleet(said(home["results"])) == without_fleet(said(node.result["report"]["results"]))
    assert node.run("--slurm").returncode == 0 and node.result["state"] == "unhealthy"


def test_the_second_run_compares_with_the_first_and_home_with_the_same(node: World, tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    first = said(node.result["report"]["results"])
    assert node.look["previous"] is None
    node.run()
    second = said(node.result["report"]["results"])
    earlier = {rule
               for rule, told in first.items()
               if told[2].startswith(("no earlier snapshot", "no earlier look"))}
    assert (earlier and not {rule for rule in earlier
                             if second[rule][2].startswith(("no earlier snapshot", "no earlier look"))})
    home = node.check(tmp_path / "home", "--sku", "hgx-h100", "--from-agent")
    assert without_fleet(said(home["results"])) == without_fleet(second)


@pytest.mark.parametrize("version", ["3.8", pytest.param("3.9", marks=pytest.mark.slow)])
def test_a_python_that_is_too_old_records_and_home_judges(fresh: World, tmp_path: Path, version: str) -> None:
    old = worlds.python(version)
    require(old is not None, f"no Python {version} here: pyenv install {version}")
    (tmp_path / "home").mkdir()
    assert old is not None
    for _ in range(2):
        done = fresh.run("--textfile", str(tmp_path), interpreter=old)
        assert done.returncode == 3 and "judged at home" in done.stdout
    assert (fresh.result["state"], fresh.result["origin"], fresh.result["judged"]) == (
        "unknown", "muster", False)
    told = (tmp_path / "muster.prom").read_text()
    assert (f'muster_node_state{{node="{HERE}",state="unknown"}} 1.0' in told
            and 'state="healthy"} 1.0' not in told)
    home = fresh.check(tmp_path / "home", "--sku", "hgx-h100", "--from-agent")
    assert sum(told[0] == "pass" for told in said(home["results"]).values()) > 80
    assert not [rule for rule, told in said(home["results"]).items()
                if told[2].startswith(("no earlier snapshot", "no earlier look"))]


@pytest.mark.parametrize("version", ["3.10", pytest.param("3.13", marks=pytest.mark.slow)])
def test_every_newer_python_judges_alike(fresh: World, earlier: World, version: str) -> None:
    other = worlds.python(version)
    require(other is not None, f"no Python {version} here: pyenv install {version}")
    assert other is not None
    fresh.run(interpreter=other)
    assert said(fresh.result["report"]["results"]) == said(earlier.result["report"]["results"])


def test_a_python_before_3_8_is_reported_in_one_line(node: World) -> None:
    old = worlds.python("3.7")
    require(old is not None, "no Python 3.7 here: pyenv install 3.7")
    assert old is not None
    done = node.run(interpreter=old)
    assert done.returncode == 1 and done.stderr == "muster: needs Python 3.8 or newer; this is 3.7\n"


def test_nagios_reads_one_line_with_numbers_and_its_own_codes(node: World) -> None:
    done = node.run("--nagios")
    code = node.result["nagios"]
    word = ("OK", "WARNING", "CRITICAL", "UNKNOWN")[code]
    assert (done.returncode == code and done.stdout.count("\n") == 1
            and done.stdout.startswith(f"MUSTER {word} - "))
    numbers = dict(part.split("=") for part in done.stdout.partition("|")[2].split())
    assert ({name: int(numbers[name]) for name in ("pass", "fail", "unknown", "skipped")}
            == node.result["counts"])
    assert float(numbers["seconds"].rstrip("s")) > 0


def test_a_node_out_of_service_troubles_no_one(tmp_path: Path, made: Bundle, earlier: World) -> None:
    node = sick_node(tmp_path, made, earlier, Lifecycle(LifecycleState.MAINTENANCE))
    done = node.run("--nagios")
    assert done.returncode == 0 and done.stdout.startswith("MUSTER OK - maintenance: unhealthy: ")


def test_for_slurm_the_exit_code_is_0_even_where_the_installation_is_damaged(node: World) -> None:
    (node.at / "rules.json").write_text("{")
    done = node.run("--slurm")
    assert done.returncode == 0 and done.stderr.count("\n") == 1 and "install the agent again" in done.stderr


@pytest.mark.parametrize(("file", "text"), [
    ("rules.json", "{"), ("node.json", '{"node": {}}'), ("rules.json", None),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (("rules.json", "[]"), ("node.json", "\0"))),
])
def test_what_is_damaged_is_reported_in_one_line_and_is_unknown(node: World, file: str,
                                                                text: str | None) -> None:
    if text is None:
        (node.at / file).unlink()
    else:
        (node.at / file).write_text(text)
    done = node.run("--nagios")
    assert (done.returncode == 3 and done.stdout.startswith("MUSTER UNKNOWN - ")
            and done.stdout.count("\n") == 1 and done.stderr == "")


def test_rules_of_another_version_make_the_node_unknown_and_recording_and_counters_go_on(
    node: World, tmp_path: Path,
) -> None:
    kept = node.result["kept"]
    assert "totals" in kept
    good = (node.at / "rules.json").read_bytes()
    (node.at / "rules.json").write_text(json.dumps(dict(json.loads(good), schema="muster.rules/9")))
    done = node.run()
    assert done.returncode == 3 and (node.result["state"], node.result["origin"]) == ("unknown", "muster")
    assert node.result["kept"] == kept
    (tmp_path / "home").mkdir()
    assert node.check(tmp_path / "home", "--sku", "hgx-h100", "--from-agent")["probes"]["captured"] > 30
    (node.at / "rules.json").write_bytes(good)
    node.run()
    assert (node.result["state"] != "unknown" and json.loads(node.result["kept"])["gpus"].keys()
            == json.loads(kept)["gpus"].keys())


def test_of_two_runs_at_once_the_second_leaves_and_says_so(fresh: World, earlier: World) -> None:
    fresh.compiled(earlier)
    with open(fresh.state / "lock", "w+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        lock.write("4711\n")
        lock.flush()
        for words, code in (((), 3), (("--nagios",), 3), (("--slurm",), 0)):
            done = fresh.run(*words)
            assert done.returncode == code and "another run is active (pid 4711)" in done.stdout + done.stderr
    assert not (fresh.state / "result.json").exists()
    assert fresh.run().returncode in (0, 1, 3) and (fresh.state / "result.json").exists()


@pytest.mark.parametrize("at", [0.4, *(pytest.param(at, marks=pytest.mark.slow) for at in (0.1, 0.8))])
def test_a_run_that_is_killed_at_any_moment_leaves_whole_files(
    node: World, tmp_path: Path, at: float,
) -> None:
    node.run("--textfile", str(tmp_path))
    process = node.start("--textfile", str(tmp_path))
    try:
        process.wait(at)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert node.result["schema"] == node.look["schema"] == "muster.agent/1"
    assert (tmp_path / "muster.prom").read_text().rstrip("\n").splitlines()[-1].startswith(
        "muster_build_info{")
    for look in (node.state / "snapshots").glob("*.json"):
        json.loads(look.read_bytes())
    (node.state / "result.json.new").write_text("half")
    (node.state / "snapshots" / f".{HERE}.json.abc").write_text("half")
    node.run("--textfile", str(tmp_path))
    left = {path.name for path in node.state.rglob("*") if path.is_file()}
    assert left == {"lock", "result.json", "recording.json.gz", f"{HERE}.json",
                    next(iter((node.state / "code").iterdir())).name}


@pytest.mark.usefixtures("needs_fuse")
def test_a_wedged_probe_leaves_one_process_and_not_one_per_run(node: World) -> None:
    node.env[MARK] = mark = str(node.tree)
    point = node.tree / "sys/fs/lustre"
    point.mkdir(parents=True)
    with fuse.hung(point) as swallowed:
        counts = []
        for _ in range(2):
            began = time.monotonic()
            node.run("--slurm", timeout=60)
            assert time.monotonic() - began < 50
            counts.append(len(processes_with(mark)))
        assert swallowed.is_set() and counts == [1, 1]
        wedged = [name for name, made in node.look["recording"]["captures"].items()
                  if "wedged since" in made.get("note", "")]
        assert wedged
    await_none_with(mark)


def test_what_node_exporter_reads_passes_promtool_and_speaks_the_exporters_words(
    fresh: World, earlier: World, tmp_path: Path,
) -> None:
    require(shutil.which("promtool"), "no promtool on this machine: apt-get install -y prometheus")
    fresh.compiled(earlier).run("--textfile", str(tmp_path))
    text = (tmp_path / "muster.prom").read_text()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True,
                             check=False)
    assert checked.returncode == 0 and not checked.stderr, checked.stderr
    heads = {text_of([(family, ())]) for family in (*exported.FAMILIES, *metrics.FAMILIES)}
    for part in unjudged.page("n", 1.0, 300.0).split("# HELP ")[1:]:
        assert any(f"# HELP {part}".startswith(head) for head in heads), part
    assert "muster_node_stale" not in text      # a text file outlives its writer
    assert text.count('muster_gpu_info{gpu=') == 8
    assert (tmp_path / "muster.prom").stat().st_mode & 0o777 == 0o644
    assert (fresh.state / "result.json").stat().st_mode & 0o777 == 0o600


def test_a_run_needs_less_than_60_mb(node: World) -> None:
    # By a small process between: until exec a child is as large as whoever starts it, and that counts.
    script = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:]); "
              "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
    done = subprocess.run(["/usr/bin/python3", "-c", script, "/usr/bin/python3", *node.argv], env=node.env,
                          capture_output=True, text=True, check=True, timeout=90)
    assert 10 << 10 < int(done.stdout.split()[-1]) < 60 << 10


def test_a_compiled_copy_that_is_damaged_costs_time_and_nothing_else(node: World) -> None:
    (copy,) = (node.state / "code").iterdir()
    expected = said(node.result["report"]["results"])
    copy.write_bytes(b"PK no zip")
    shutil.rmtree(node.state / "snapshots")
    assert node.run().returncode in (0, 1, 3)
    assert said(node.result["report"]["results"]) == expected


def test_a_run_compares_with_the_snapshot_that_an_earlier_version_kept(node: World) -> None:
    newest = node.look["recording"]["received"]
    (node.state / "snapshots").rename(node.state / "looks")
    (node.state / "looks" / f".{HERE}.json.abc").write_text("half")
    node.run()
    assert node.look["previous"]["received"] == newest
    assert not (node.state / "looks").exists()
    assert [path.name for path in (node.state / "snapshots").iterdir()] == [f"{HERE}.json"]


def test_an_unknown_profile_names_those_that_there_are(node: World) -> None:
    done = node.run("--profile", "nightly")
    assert (done.returncode == 2 and "no such profile: 'nightly'; there are bringup, gate, timer"
            in done.stderr)


def test_muster_agent_run_is_the_same_code_where_muster_is_installed(fresh: World, earlier: World,
                                                                     tmp_path: Path) -> None:
    env = environment(tmp_path, **fresh.env, MUSTER_ROOT=str(fresh.tree))
    words = ("agent", "run", "--nagios", "--sku", "hgx-h100", "--state", str(fresh.state))
    done = forked.run([str(MUSTER), *words], env=env, cwd=tmp_path, timeout=90)
    assert done.stdout.startswith("MUSTER ") and done.returncode == fresh.result["nagios"]
    assert said(fresh.result["report"]["results"]) == said(earlier.result["report"]["results"])
    done = forked.run([str(MUSTER), *words, "--sku", "none"], env=env, cwd=tmp_path, timeout=90)
    assert done.returncode == 3 and done.stdout.startswith("MUSTER UNKNOWN - --sku none: no such SKU")


def test_muster_agent_run_needs_no_sqlite(tmp_path: Path) -> None:
    """A distribution may ship Python without it, and an agent keeps no store."""
    (tmp_path / "sqlite3.py").write_text("raise ImportError('there is no SQLite')\n")
    done = subprocess.run([str(MUSTER), "agent", "run", "--nagios", "--sku", "none", "--state",
                           str(tmp_path / "state")],
                          env=environment(tmp_path, PYTHONPATH=str(tmp_path)), cwd=tmp_path,
                          capture_output=True, text=True, check=False, timeout=90)
    assert done.stdout.startswith("MUSTER UNKNOWN - --sku none: no such SKU") and done.returncode == 3, done


@pytest.mark.parametrize(("owner", "mode", "words", "code"), [
    (None, 0o702, (), 2), pytest.param(None, 0o720, ("--slurm",), 0, marks=pytest.mark.slow),
    pytest.param(65534, 0o700, (), 2, marks=[
        pytest.mark.slow, pytest.mark.skipif(os.geteuid() != 0, reason="needs root")])])
def test_a_state_folder_to_which_others_may_write_is_not_used(
    fresh: World, owner: int | None, mode: int, words: tuple[str, ...], code: int,
) -> None:
    fresh.state.mkdir(parents=True)
    fresh.state.chmod(mode)
    if owner is not None:
        os.chown(fresh.state, owner, owner)
    done = fresh.run(*words)
    assert (done.returncode == code and "no one else may write to it" in done.stderr
            and not list(fresh.state.iterdir()))


# The agent's own code with a limit that a test can wait for, on a machine where a probe never ends.
_SLOW = """
import sys, time
from pathlib import Path
from healthcheck.agent import main
main.LIMIT_S = 1.5
main.recorder.look = lambda *_: time.sleep(60)
at = Path(sys.argv[1])
sys.exit(main.main(sys.argv[2:], main.beside(at / "muster.pyz", lambda name: b"")))
"""


def test_a_run_that_meets_its_limit_leaves_a_result_that_says_so(node: World, tmp_path: Path) -> None:
    healthy = node.result
    begin = node.argv.index("run")
    for words, code in (("--nagios", 3), ("--slurm", 0)):
        done = subprocess.run(
            [sys.executable, "-c", _SLOW, str(node.at), *node.argv[begin:], words, "--textfile",
             str(tmp_path)],
            env=node.env, cwd=TREE, capture_output=True, text=True, timeout=60, check=False)
        assert (done.returncode == code
                and "the run took longer than 1.5 s and was stopped" in done.stdout + done.stderr)
        result = node.result
        assert result["time"] > healthy["time"] and result["kept"] == healthy["kept"]
        assert (result["state"], result["origin"], result["judged"],
                result["code"]) == ("unknown", "node", False, 3)
        assert result["reason"] == "deadline: the run took longer than 1.5 s and was stopped"
        assert f'muster_node_state{{node="{HERE}",state="unknown"}} 1.0' in (
            tmp_path / "muster.prom").read_text()
        healthy["time"] = result["time"]
    home = tmp_path / "home"
    home.mkdir()
    seen = node.check(home, "--sku", "hgx-h100", "--from-agent")
    assert seen["state"] == "unknown" and "took longer than 1.5 s" in seen["reason"] and seen["code"] == 3


def test_a_message_in_any_script_is_printed_where_the_locale_lacks_it(node: World) -> None:
    script = _SLOW.replace("time.sleep(60)", r"dict()['\u0394']")
    begin = node.argv.index("run")
    done = subprocess.run(
        [sys.executable, "-X", "utf8=0", "-c", script, str(node.at), *node.argv[begin:], "--nagios"],
        env={**node.env, "LC_ALL": "C"}, cwd=TREE, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (3, "")
    assert done.stdout.startswith(r"MUSTER UNKNOWN - this installation cannot be used (KeyError: '\u0394')")
