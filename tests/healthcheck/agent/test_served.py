"""A node serves its own agent's result: as the head would, and only while that says how the node is now."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import shutil
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import CollectorRegistry

from healthcheck.agent.served import AgentSource
from healthcheck.exporter.page import Page
from healthcheck.exporter.source import FleetStatus
from healthcheck.model.exposition import text_of
from healthcheck.model.recording import from_json
from healthcheck.store import newest
from inventory.model import Lifecycle, LifecycleState, Node
from provisioning.agent.bundle import Bundle
from provisioning.demo import h100
from tests.command import muster
from tests.healthcheck.agent.world import World, python, world
from tests.healthcheck.exporter.made import gpu
from tests.healthcheck.model.test_exposition import Held
from tests.testbed.exporting import exporting, swept
from tests.testbed.prometheus import require_prometheus
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

HERE = socket.gethostname().partition(".")[0]
SICK = 'muster_node_state{node="%s",state="%s"} 1.0\n'
NOW, UP = 1_800_000_000.0, 5000.0


@pytest.fixture(scope="module")
def looked(tmp_path_factory: pytest.TempPathFactory, made: Bundle, earlier: World) -> World:
    """A node with a sick GPU at which its agent has looked."""
    sick = h100.healthy(HERE, random.Random(1))
    sick.scenario["gpu.3.ecc.volatile.uncorrected"] = "4"
    node = world(tmp_path_factory.mktemp("node"), made, Node(HERE, sku="hgx-h100", rack="r1"),
                 sick).compiled(earlier)
    assert node.run("--textfile", str(node.at)).returncode == 1
    return node


@dataclass
class Served:
    url: str
    process: subprocess.Popen[str]

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=10) as answer:  # noqa: S310  (our own)
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()


@contextlib.contextmanager
def serving(node: World, *words: str, archive: Path | None = None) -> Iterator[Served]:
    """The exporter as a unit starts it, on a port that is free."""
    process = subprocess.Popen(["/usr/bin/python3", "-I", "-S", str(archive or node.at / "muster.pyz"),
                                "exporter", "--listen", "127.0.0.1:0", "--state", str(node.state), *words],
                               env={}, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        line = process.stderr.readline()
        assert "serving http" in line, line + process.stderr.read()
        yield Served(line.split()[-1].removesuffix("/metrics"), process)
    finally:
        process.terminate()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.wait()
            process.stderr.close()


def once(node: World, *words: str) -> str:
    done = subprocess.run(["/usr/bin/python3", "-I", "-S", str(node.at / "muster.pyz"), "exporter", "--once",
                           "--state", str(node.state), *words], env={}, capture_output=True, text=True,
                          check=False, stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def families(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            found.setdefault(line.partition(" ")[0].partition("{")[0], []).append(line)
    return found


def test_a_node_serves_its_result_ready_and_ends_well(looked: World) -> None:
    with serving(looked) as there:
        status, text = there.get("/metrics")
        assert (status == 200 and SICK % (HERE, "unhealthy") in text and 'rule="gpu-ecc-uncorrected"' in text
                and 'rack="r1"' in text)
        assert (f'muster_agent_period_seconds{{node="{HERE}"}} 300.0\n' in text
                and "muster_stale_after_seconds 600.0\n" in text)
        assert there.get("/readyz") == (200, "ok\n") == there.get("/healthz")
        there.process.send_signal(signal.SIGTERM)
        assert there.process.wait(30) == 0


def test_its_page_gives_the_evidence_for_leaving_it_out_as_its_text_file_does(looked: World) -> None:
    page, text = (set(said.splitlines()) for said in (once(looked), (looked.at / "muster.prom").read_text()))
    evidence = {line for line in text if line.startswith(("muster_agent_run_", "muster_agent_healthy"))
                and not line.startswith("muster_agent_run_seconds")}
    assert (len(evidence) == 3 and evidence <= page
            and f'muster_agent_healthy{{node="{HERE}"}} 0.0' in evidence)


def test_its_page_is_what_the_head_says_of_the_same_look(looked: World, tmp_path: Path) -> None:
    swept(tmp_path / "state", from_json(looked.look["recording"]))
    (tmp_path / "muster.yaml").write_text(f"version: 1\nnodes:\n  {HERE}: {{sku: hgx-h100, rack: r1}}\n")
    head = families(muster("exporter", "--once", home=tmp_path).stdout)
    own = families(once(looked))
    assert {name for name in own if name.startswith("muster_agent")} == own.keys() - head.keys() \
        == {"muster_agent_period_seconds", "muster_agent_run_seconds", "muster_agent_info",
            "muster_agent_healthy",
            "muster_agent_run_info", "muster_agent_run_timestamp_seconds", "muster_agent_writable"}

    about = ("muster_node_state", "muster_node_info", "muster_node_lifecycle", "muster_node_probe_seconds",
             "muster_gpu_info", "muster_gpu_temperature_celsius", "muster_node_gpu_power_watts",
             "muster_node_software_info", "muster_node_xids_total", "muster_probes")
    for name in about:
        assert own[name] == head[name]
    # A fleet's rules are skipped on a node, and the head was told of no occasion.
    failed = [line for line in own["muster_node_rule_not_passed"] if 'status="fail"' in line]
    assert failed == [line for line in head["muster_node_rule_not_passed"] if 'status="fail"' in line]


def test_its_text_is_prometheus_clients_own_and_passes_promtool(looked: World) -> None:
    require_prometheus()
    text = once(looked)
    registry = CollectorRegistry()
    registry.register(Held(*text_string_to_metric_families(text)))
    assert generate_latest(registry).decode() == text
    promtool = subprocess.run([str(shutil.which("promtool")), "check", "metrics"], input=text,
                              capture_output=True, text=True, check=False)
    assert (promtool.returncode, promtool.stderr) == (0, "")


def test_muster_exporter_agent_serves_the_same_where_muster_is_installed(
    looked: World, tmp_path: Path,
) -> None:
    done = muster("exporter", "--agent", "--once", "--state", str(looked.state), home=tmp_path)
    assert done.returncode == 0, done.stderr
    mine, theirs = families(done.stdout), families(once(looked))
    assert {name: lines for name, lines in mine.items() if name.startswith(("muster_node", "muster_gpu"))} \
        == {name: lines for name, lines in theirs.items() if name.startswith(("muster_node", "muster_gpu"))}
    assert "do not go with it" in muster("exporter", "--agent", "--every", "5m", home=tmp_path).stderr
    with exporting(tmp_path, "--agent", "--state", str(tmp_path / "none")) as there, \
            pytest.raises(urllib.error.HTTPError, match="503") as error:
        urllib.request.urlopen(f"{there.url}/readyz", timeout=10)  # noqa: S310  (our own)
    assert b"has the agent run yet?" in error.value.read()


def test_it_serves_the_next_result_and_without_one_the_node_is_unknown(tmp_path: Path, made: Bundle,
                                                                       earlier: World) -> None:
    node = world(tmp_path, made, Node(HERE, sku="hgx-h100")).compiled(earlier)
    with serving(node) as there:
        assert SICK % (HERE, "unknown") in there.get("/metrics")[1]
        assert (there.get("/readyz")[0] == 503 and "No such file" in there.get("/readyz")[1]
                and there.get("/healthz")[0] == 200)
        node.run()
        wait_until(lambda: SICK % (HERE, node.result["state"]) in there.get("/metrics")[1], 30, "the result")
        assert there.get("/readyz")[0] == 200
        (node.state / "result.json").write_bytes((node.state / "result.json").read_bytes()[:-100])
        wait_until(lambda: SICK % (HERE, "unknown") in there.get("/metrics")[1], 30, "that it is cut")
        assert "cannot be read" in there.get("/readyz")[1]


def test_it_ends_when_another_version_is_in_use_so_that_its_unit_starts_that(
    looked: World, tmp_path: Path,
) -> None:
    for version in ("one", "two"):
        shutil.copytree(looked.at, tmp_path / version)
    (tmp_path / "current").symlink_to("one")
    with serving(looked, archive=tmp_path / "current/muster.pyz") as there:
        assert there.get("/healthz")[0] == 200
        (tmp_path / "new").symlink_to("two")
        (tmp_path / "new").rename(tmp_path / "current")
        assert there.process.wait(30) == 0


def test_a_python_that_only_records_says_that_it_cannot_serve(looked: World) -> None:
    older = python("3.8")
    require(older is not None, "no Python 3.8 here: pyenv install 3.8")
    done = subprocess.run([str(older), "-I", "-S", str(looked.at / "muster.pyz"), "exporter"],
                          capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("muster: the exporter needs Python 3.10") and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("words", "said"), [
    (("--bundle", "/nowhere"), "install the agent again"),
    *(pytest.param(*one, marks=pytest.mark.slow) for one in (
        (("--listen", "9847"), "expected HOST:PORT"), (("--tls-cert", "x"), "TLS needs"))),
])
def test_what_cannot_be_served_is_reported_in_a_line(looked: World, words: tuple[str, ...],
                                                     said: str) -> None:
    done = subprocess.run(["/usr/bin/python3", "-I", "-S", str(looked.at / "muster.pyz"), "exporter", *words],
                          env={}, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and said in done.stderr and done.stderr.count("\n") == 1


# What the source believes, of results made by hand.


def result(**changes: Any) -> dict[str, Any]:
    """A result of a healthy node, of just now."""
    look = {"state": "healthy", "reason": "", "stage": None, "sku": None, "statuses": {"pass": 3},
            "not_passed": [], "probes_unseen": 0,
            "shown": {"probes": [], "gpus": [gpu(0).to_document()], "ports": [], "driver": "", "kernel": "",
                      "boot": "b"}}
    return {"schema": "muster.agent/1", "node": "n1", "time": NOW, "period": 300, "rules": "d" * 64,
            "bundle": "abc", "judged": True, "state": "healthy", "uptime": UP, "words": {"name": "n1"},
            "seconds": 1.5, "kept": json.dumps({"totals": {"ecc_uncorrected": 3.0}, "xids": {}}),
            "snapshot": base64.b64encode(zlib.compress(json.dumps(look).encode())).decode(), **changes}


def page(
    folder: Path, written: Any, *, now: float = NOW + 1, up: float = UP + 1, node: Node | None = None,
) -> tuple[str, str]:
    """The page of what was written, and the trouble."""
    (folder / "result.json").write_bytes(written if isinstance(written, bytes)
                                         else json.dumps(written).encode())
    fleet = AgentSource(folder, node, uptime=lambda: up).read(now)
    assert isinstance(fleet, FleetStatus)
    return text_of(Page(600).make(fleet, now)), fleet.trouble


def test_a_fresh_result_is_served(tmp_path: Path) -> None:
    text, trouble = page(tmp_path, result())
    assert SICK % ("n1", "healthy") in text and trouble == "" and "muster_source_up 1.0" in text


def test_a_result_of_an_earlier_version_is_served_alike(tmp_path: Path) -> None:
    written = {"look" if key == "snapshot" else key: value for key, value in result().items()}
    assert "look" in written and page(tmp_path, written) == page(tmp_path, result())


@pytest.mark.parametrize(("how", "said"), [
    ({"now": NOW + 700, "up": UP + 700}, "over two periods"),
    ({"now": NOW + 10, "up": UP + 700}, "its clock was set"),           # it was set back, or stands still
    ({"now": NOW - 86400, "up": UP + 10}, "its clock was set"),
    ({"now": NOW + 86400, "up": UP + 10}, "its clock was set"),
    ({"now": NOW + 200, "up": 40.0}, "booted since"), ({"now": NOW + 9000, "up": UP + 300}, "has booted, or"),
    ({"node": Node("n2")}, "of another node"),
])
def test_a_result_that_says_nothing_of_now_makes_the_node_unknown(
    tmp_path: Path, how: dict[str, Any], said: str,
) -> None:
    text, trouble = page(tmp_path, result(), **how)
    assert 'state="healthy"} 0.0' in text and 'state="unknown"} 1.0' in text and said in trouble
    assert "muster_source_up 0.0" in text and "muster_gpu_temperature_celsius{" not in text


def test_counters_go_on_while_the_agent_is_dead(tmp_path: Path) -> None:
    text, _ = page(tmp_path, result(), now=NOW + 700, up=UP + 700)
    assert 'muster_node_gpu_ecc_uncorrected_errors_total{node="n1"} 3.0' in text


def test_a_result_ages_without_anybody_writing(tmp_path: Path) -> None:
    up = [UP + 1]
    (tmp_path / "result.json").write_text(json.dumps(result()))
    source = AgentSource(tmp_path, uptime=lambda: up[0])
    first = source.read(NOW + 1)
    assert first is not None and not first.trouble and source.read(NOW + 2) is None
    up[0] = UP + 601
    old = source.read(NOW + 601)
    assert old is not None and "over two periods" in old.trouble and source.read(NOW + 602) is None
    # The page that was made of it at first would have been made anew by itself, too.
    assert Page(600).until(first, NOW + 1) == NOW + 600


def test_what_the_node_is_by_now_counts_and_not_what_it_was(tmp_path: Path) -> None:
    text, _ = page(tmp_path, result(), node=Node("n1", lifecycle=Lifecycle(LifecycleState.MAINTENANCE)))
    assert 'muster_node_lifecycle{lifecycle="maintenance",node="n1"} 1.0' in text


def test_a_look_that_could_not_be_judged_is_unknown_and_keeps_its_counters(tmp_path: Path) -> None:
    said = result(judged=False, state="unknown", reason="the rules cannot be read")
    text, trouble = page(tmp_path, {key: value for key, value in said.items() if key != "snapshot"})
    assert SICK % ("n1", "unknown") in text and 'errors_total{node="n1"} 3.0' in text and trouble == ""


@settings(deadline=None)
@given(st.integers(0, 10**6))
def test_a_file_that_is_cut_anywhere_is_unknown(tmp_path_factory: pytest.TempPathFactory, at: int) -> None:
    whole = json.dumps(result()).encode()
    text, trouble = page(tmp_path_factory.getbasetemp(), whole[:at % len(whole)])
    assert 'state="unknown"} 1.0' in text and trouble


ODD = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=9),
                st.lists(st.integers(), max_size=2))


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(sorted(result())), ODD, min_size=1))
def test_whatever_stands_in_it_the_exporter_goes_on_and_no_node_is_well_by_it(
    tmp_path_factory: pytest.TempPathFactory, said: dict[str, Any],
) -> None:
    text, trouble = page(tmp_path_factory.getbasetemp(), result(**said))
    states = [line for line in text.splitlines() if line.startswith("muster_node_state{")]
    assert len(states) == 4 and sum(line.endswith(" 1.0") for line in states) == 1
    changed = {key for key, value in said.items() if not (key == "judged" and value is True)}      # it was so
    if not changed <= {"bundle", "rules", "seconds", "reason", "kept", "words", "period", "time", "uptime"}:
        assert 'state="healthy"} 0.0' in text and (trouble or said.get("judged", True) is not True)


@settings(deadline=None)
@given(st.binary(max_size=200))
def test_bytes_that_are_no_result_are_unknown(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    assert page(tmp_path_factory.getbasetemp(), data)[1]


def test_a_look_that_unpacks_without_end_is_not_unpacked(tmp_path: Path) -> None:
    bomb = base64.b64encode(zlib.compress(b" " * (64 << 20), 9)).decode()
    assert "cut, or too long" in page(tmp_path, result(snapshot=bomb))[1]


def test_a_run_tells_the_time_since_boot_and_keeps_what_it_saw(looked: World) -> None:
    assert 0 <= time.clock_gettime(time.CLOCK_BOOTTIME) - looked.result["uptime"] < 3600
    assert newest.decoded(HERE, 0, "", base64.b64decode(looked.result["snapshot"]),
                          looked.result["kept"]).state == "unhealthy"
