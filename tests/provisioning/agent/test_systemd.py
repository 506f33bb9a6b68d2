"""The agent under a real systemd: two nodes, from the first installation to nothing left."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from healthcheck.sweep.agentseries import QUERY, claims
from healthcheck.sweep.prometheus import ask, url_of
from provisioning.agent.units import EXPORTER_EXPOSURE, EXPOSURE
from tests.command import muster, running
from tests.testbed import fuse
from tests.testbed.nspawn import Machine, nodes, require_nspawn
from tests.testbed.ports import free_port
from tests.testbed.prometheus import monitoring, require_prometheus
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

pytestmark = pytest.mark.timeout(600)      # the first test makes the root file system, if there is none yet
STATE = "var/lib/muster/agent"
TEXTFILE = "var/lib/prometheus/node-exporter/muster.prom"


@pytest.fixture(scope="module")
def n1(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    require_nspawn()
    with nodes(tmp_path_factory.mktemp("nspawn"), "n1") as (started,):
        yield started


@pytest.fixture(scope="module")
def n2(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    require_nspawn()
    with nodes(tmp_path_factory.mktemp("nspawn"), "n2") as (started,):
        yield started


@pytest.fixture
def home(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """With those nodes that the test has."""
    inventory(tmp_path, *(request.getfixturevalue(name) for name in ("n1", "n2")
                          if name in request.fixturenames))
    return tmp_path


def inventory(folder: Path, *machines: Machine) -> None:
    """Its muster.yaml, with these nodes."""
    (folder / "muster.yaml").write_text(
        "version: 1\ndefaults: {user: root, sku: cpu-only}\nnodes:\n" + "".join(
            f"  {one.name}: {{address: 127.0.0.1, port: {one.port}, identity_file: {one.key}, "
            f"known_hosts_file: {one.known_hosts}}}\n" for one in machines))


def agent(home: Path, *words: str, code: int = 0) -> str:
    done = muster("agent", *words, home=home, timeout=120, code=code)
    return done.stdout


def result(machine: Machine) -> dict[str, object]:
    """Its newest; empty before the first. It is never seen in part."""
    try:
        text = (machine.root / STATE / "result.json").read_text()
    except FileNotFoundError:
        return {}
    found: dict[str, object] = json.loads(text)
    return found


def looked(machine: Machine, after: float, bundle: str | None = None) -> bool:
    found = result(machine)
    return float(str(found.get("time", 0))) > after and bundle in (None, found["bundle"])


def in_use(machine: Machine) -> str:
    return (machine.root / "opt/muster/current").readlink().name


def paths(machine: Machine) -> set[str]:
    """All that lies there and stays, but for logs."""
    found = machine.run("find", "/", "-xdev", "-not", "-path", "/var/log/*", "-not", "-path", "/root/*",
                        "-printf", "%p %y %l\\n")
    run = machine.run("find", "/run/muster", "/run/systemd/transient", check=False)
    return {*found.splitlines(), *run.splitlines()}


def test_from_installation_over_prometheus_upgrade_and_rollback_to_nothing_left(
    n1: Machine, home: Path,
) -> None:
    require_prometheus()
    before = paths(n1)
    began = time.time()
    there = f"127.0.0.1:{free_port()}"
    assert " in use" in agent(home, "install", "n1", "--period", "10s", "--exporter", there)
    first = in_use(n1)
    scrape = [{"job_name": "node", "static_configs": [{"targets": [f"127.0.0.1:{n1.exporter}"]}]},
              {"job_name": "muster", "static_configs": [{"targets": [there]}]}]
    (home / "prometheus").mkdir()
    with monitoring(home / "prometheus", scrape, []) as bed:
        def judged_by(version: str, job: str) -> bool:
            return bool(bed.query(f'muster_agent_info{{node="n1",job="{job}",bundle="{version}"}}'))

        wait_until(lambda: looked(n1, began, first), 60, "that the timer starts a look")
        for job in ("node", "muster"):
            wait_until(lambda job=job: judged_by(first, job), 60,
                       f"that Prometheus has it through {job}")  # type: ignore[misc]
            states = {
                one["metric"]["state"]: one["value"][1]
                for one in bed.query(f'muster_node_state{{node="n1",job="{job}"}}')}
            assert states == {state: str(int(state == result(n1)["state"])) for state in states}
            assert len(states) == 4
        assert bed.query('muster_source_up{job="muster"}')[0]["value"][1] == "1"
        # Through a real node_exporter, and through the agent's own: each brings all that a sweep leaves nodes
        # out by.
        (claim,) = claims(ask(url_of(bed.url), QUERY, None), {"n1"}).values()
        assert claim.twice and not claim.lacks and {job for job, _ in claim.targets} == {"node", "muster"}
        (through,) = claims(ask(url_of(bed.url), QUERY.replace("}", ', job="node"}'), None), {"n1"}).values()
        assert (not through.twice and through.basis is not None and through.basis.boot_id
                and through.basis.sku == "cpu-only")
        assert through.time == pytest.approx(float(str(result(n1)["time"])), abs=30) and through.period == 10

        # The timer goes on, and no one has started it: the next look is by the new version, and the one after
        # that by the old one again. An upgrade keeps what it is not told.
        assert f"before it {first}" in agent(home, "upgrade", "n1", "--profile", "gate", "--wait", "0s")
        second = in_use(n1)
        assert second != first
        wait_until(lambda: looked(n1, began, second), 60, "a look by the new version")
        wait_until(lambda: judged_by(second, "muster"), 60, "that the exporter serves it")
        wait_until(lambda: serves(n1, second), 60, "that the exporter itself is of the new version")
        assert f"{first} in use again" in agent(home, "rollback", "n1")
        newest = float(str(result(n1)["time"]))
        wait_until(lambda: looked(n1, newest, first), 60, "a look by the version before")
        wait_until(lambda: judged_by(first, "muster"), 60, "that the exporter serves it")
        wait_until(lambda: serves(n1, first), 60, "that the exporter itself is of the version before")
        (report,) = json.loads(agent(home, "status", "n1", "--json"))["nodes"]
        assert (report["installed"], report["previous"], report["timer"], report["trouble"]) == (
            first, second, "active, enabled", "")
        assert (report["exporter"], report["period"]) == ("active, enabled", 10)

        # A dead agent is seen, though nothing has told so.
        n1.run("systemctl", "stop", "muster-agent.timer")
        wait_until(lambda: "over two periods of 10 s old" in unready(there), 60,
                   "that it is not ready, and says why")
        wait_until(
            lambda: bed.query('muster_node_stale{job="muster"} == 1'), 30, "that its result is too old")
        assert bed.query('muster_node_state{job="muster",state="unknown"} == 1')

    assert "nothing is left" in agent(home, "uninstall", "n1")
    assert paths(n1) == before
    # systemd forgets a unit whose file has gone when it next clears up.
    wait_until(lambda: "muster" not in n1.run("systemctl", "list-units", "--all", "--no-legend", "muster*"),
               30, "that systemd knows no unit of ours")


def serves(machine: Machine, version: str) -> bool:
    """Whether the exporter that runs there was loaded from this version: its code is open, or was."""
    pid = machine.run("systemctl", "show", "--property=MainPID", "--value", "muster-exporter.service").strip()
    began = machine.run("stat", "--format=%Z", f"/proc/{pid}", check=False).strip()
    switched = (machine.root / "opt/muster/current").lstat().st_mtime
    return in_use(machine) == version and pid != "0" and began.isdigit() and int(began) >= int(switched)


def unready(address: str) -> str:
    """Why it is not ready; empty where it is."""
    try:
        with urllib.request.urlopen(f"http://{address}/readyz", timeout=10):
            return ""
    except urllib.error.HTTPError as error:
        return str(error.read().decode())


def text(address: str) -> str:
    """The page of an exporter."""
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as answer:
        return str(answer.read().decode())


def answers(address: str) -> bool:
    """Whether anything serves there."""
    try:
        return text(address) != ""
    except OSError:
        return False


def test_its_units_are_sound_and_shut_in_and_it_sees_what_everybody_and_a_look_over_ssh_sees(
    n1: Machine, home: Path,
) -> None:
    there = f"127.0.0.1:{free_port()}"
    agent(home, "install", "n1", "--period", "1h", "--exporter", there)
    for unit, most in (("muster-agent", EXPOSURE), ("muster-exporter", EXPORTER_EXPOSURE)):
        report = n1.run("systemd-analyze", "security", "--no-pager", f"{unit}.service", check=False)
        score = re.search(rf"exposure level for {unit}.service: ([0-9.]+)", report)
        assert score is not None, report
        assert float(score[1]) <= most
    units = ("muster-agent.timer", "muster-agent.service", "muster-exporter.service")
    assert n1.run("systemd-analyze", "verify", *(f"/etc/systemd/system/{unit}" for unit in units)) == ""
    wait_until(lambda: answers(there), 30, "that it serves")
    # A mount namespace of its own would show it other mounts than jobs have.
    script = n1.root / "etc/systemd/system/muster-agent.service.d/see.conf"
    script.parent.mkdir()
    script.write_text("[Service]\nExecStartPre=/bin/sh -c 'readlink /proc/self/ns/mnt > /var/lib/seen'\n")
    n1.run("systemctl", "daemon-reload")
    n1.run("systemctl", "start", "muster-agent.service")
    assert (n1.root / "var/lib/seen").read_text() == n1.run("readlink", "/proc/1/ns/mnt")
    script.unlink()
    script.parent.rmdir()
    (n1.root / "var/lib/seen").unlink()
    report = result(n1)["report"]
    assert isinstance(report, dict)
    own = {one["rule"]: (one["status"], one["reason"]) for one in report["results"]}
    (swept,) = json.loads(muster("check", "n1", "--profile", "timer", "--format", "json", "--full", home=home,
                                 timeout=120).stdout)["nodes"]
    far = {
        one["rule"]: (one["status"], one["reason"]) for one in swept["results"]
        if not one["rule"].startswith("fleet-")}
    # Both are first looks, and nothing that the unit may not do has cost it an answer.
    assert {rule: report for rule, report in far.items() if own.get(rule) != report} == {}
    wait_until(lambda: "muster_source_up 1.0" in text(there), 30, "that it serves the result")
    if promtool := shutil.which("promtool"):
        done = subprocess.run(
            [promtool, "check", "metrics"], input=text(there), capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")

    # Whatever ends it, the exporter comes back; and the version before had none.
    pid = n1.run("systemctl", "show", "--property=MainPID", "--value", "muster-exporter.service")
    n1.run("systemctl", "kill", "--signal=KILL", "muster-exporter.service")
    wait_until(lambda: n1.run("systemctl", "show", "--property=MainPID", "--value", "muster-exporter.service")
                   not in (pid, "0\n"), 30, "another")
    agent(home, "upgrade", "n1", "--exporter", "none", "--wait", "0s")
    assert not (n1.root / "etc/systemd/system/muster-exporter.service").exists()
    assert not answers(there)
    agent(home, "rollback", "n1")
    wait_until(lambda: answers(there), 30, "that it serves again")
    agent(home, "uninstall", "n1")
    assert not answers(there)


@pytest.mark.slow
def test_a_look_that_is_killed_leaves_whole_files_and_the_next_one_comes(
    n2: Machine, home: Path,
) -> None:
    agent(home, "install", "n2", "--period", "10s")
    began = time.time()
    wait_until(lambda: looked(n2, began - 60), 60, "a look")
    lock, recording = n2.root / STATE / "lock", n2.root / STATE / "recording.json.gz"
    # Killed somewhere else each time: when it has been started, when it looks, and when it has written the
    # first of its files.
    for begun in (lambda kept: main_pid(n2) > 0, lambda kept: lock.read_text() == f"{main_pid(n2)}\n",
                  lambda kept: recording.stat().st_ino != kept):
        wait_until(lambda: not main_pid(n2), 60, "that none runs")
        kept = recording.stat().st_ino
        n2.run("systemctl", "start", "--no-block", "muster-agent.service")
        wait_until(lambda begun=begun, kept=kept: begun(kept), 30, "that it is so far")  # type: ignore[misc]
        n2.run("systemctl", "kill", "--kill-who=main", "--signal=KILL", "muster-agent.service", check=False)
        assert result(n2)["node"] == "n2"
        assert (n2.root / TEXTFILE).read_text().endswith("\n")
    after = time.time()
    wait_until(lambda: looked(n2, after), 60, "that the timer goes on")
    agent(home, "uninstall", "n2")


@pytest.mark.slow
def test_a_look_that_goes_on_while_its_version_is_replaced_ends_by_the_version_that_it_began_with(
    n2: Machine, home: Path,
) -> None:
    agent(home, "install", "n2", "--period", "1h")
    first, began = in_use(n2), time.time()
    n2.run("systemctl", "start", "--no-block", "muster-agent.service")
    lock = n2.root / STATE / "lock"
    wait_until(lambda: lock.exists() and lock.read_text() == f"{main_pid(n2)}\n", 30, "that it looks")
    n2.run("systemctl", "kill", "--kill-who=main", "--signal=STOP", "muster-agent.service")
    assert not looked(n2, began)
    agent(home, "upgrade", "n2", "--period", "2h", "--wait", "0s")
    assert in_use(n2) != first
    n2.run("systemctl", "kill", "--kill-who=main", "--signal=CONT", "muster-agent.service")
    wait_until(lambda: looked(n2, began), 30, "that it ends")
    assert result(n2)["bundle"] == first
    wait_until(lambda: not main_pid(n2), 30, "that it ends")
    assert n2.run(
        "systemctl", "show", "--property=Result", "--value", "muster-agent.service").strip() == "success"
    agent(home, "uninstall", "n2")


def main_pid(machine: Machine) -> int:
    return int(machine.run("systemctl", "show", "--property=MainPID", "--value", "muster-agent.service"))


@pytest.mark.slow
def test_a_wedged_probe_leaves_one_process_and_the_unit_ends(tmp_path: Path) -> None:
    require_nspawn()
    missing = fuse.available()
    require(missing is None, str(missing))
    (tmp_path / "home").mkdir()
    with nodes(tmp_path, "n3", hung=("n3",)) as (n3,):
        inventory(tmp_path / "home", n3)
        wedged(tmp_path / "home", n3)


def wedged(home: Path, n3: Machine) -> None:
    agent(home, "install", "n3", "--period", "1h")
    for _ in range(3):
        began = time.time()
        n3.run("systemctl", "start", "muster-agent.service")
        state = n3.run(
            "systemctl", "show", "--property=ActiveState,Result", "--value", "muster-agent.service").split()
        assert sorted(state) == ["inactive", "success"]
        assert looked(n3, began - 1)
        assert len(hanging(n3)) == 1
    assert "/mnt: no answer: an earlier reader still waits for it" in str(result(n3)["reason"])
    agent(home, "uninstall", "n3")
    assert not (n3.root / "opt/muster").exists()


def processes(machine: Machine) -> Iterator[Path]:
    """Its processes, as folders of our own /proc."""
    space = Path(f"/proc/{machine.leader}/ns/pid").readlink()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (path / "ns/pid").readlink() == space:
                yield path


def hanging(machine: Machine) -> list[str]:
    """Those that wait in the kernel where no signal reaches them."""
    return [path.name for path in processes(machine)
            if (path / "stat").read_text().rpartition(")")[2].split()[0] == "D"]


@pytest.mark.slow
def test_an_upgrade_in_rings_stops_at_a_worse_ring_goes_on_after_a_kill_and_leaves_every_agent_running(
    n1: Machine, n2: Machine, home: Path,
) -> None:
    """Period 1h, so that only the upgrade itself can have had the agents run."""
    pair = (n1, n2)
    agent(home, "install", "n[1-2]", "--period", "1h")
    for one in pair:
        one.run("systemctl", "start", "muster-agent.service")
    old = {one.name: in_use(one) for one in pair}
    # Killed while the first ring's results are awaited: one node has the new version, whole, and runs.
    n1.run("systemctl", "mask", "--runtime", "muster-agent.service")
    head = running("agent", "upgrade", "n[1-2]", "--period", "2h", "--rings", "1,rest", home=home)
    wait_until(lambda: in_use(n1) != old["n1"], 60, "that the first ring is upgraded")
    head.kill()
    head.wait()
    assert in_use(n2) == old["n2"]
    n1.run("systemctl", "unmask", "--runtime", "muster-agent.service")
    # Gone on with: n1 has it, and n2 is the first ring now.
    done = agent(home, "upgrade", "n[1-2]", "--period", "2h", "--rings", "1,rest")
    assert "ring 1 of 1: no node got worse" in done
    assert result(n2)["bundle"] == in_use(n2) != old["n2"]
    # A version whose agents do not run: its first node is named, and the next keeps what it has.
    kept = in_use(n2)
    n1.run("sh", "-c", "cd /var/lib/muster && mount --bind agent agent && mount -o remount,bind,ro agent")
    stopped = muster("agent", "upgrade", "n[1-2]", "--period", "3h", "--rings", "1,rest", "--wait", "8s",
                     home=home, timeout=120)
    assert stopped.returncode == 4, stopped.stdout + stopped.stderr
    assert "n1: worse: " in stopped.stdout and "n2 keeps the version before" in stopped.stderr
    assert in_use(n2) == kept
    n1.run("umount", "/var/lib/muster/agent")
    agent(home, "uninstall", "n[1-2]")
