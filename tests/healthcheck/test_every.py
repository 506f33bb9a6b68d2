"""`muster check --every` as it is typed: sweep after sweep on connections that live on,
and told only when something changed."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import IO

import pytest

from healthcheck.cli.every import Shown, _visible
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Severity, Status
from provisioning.demo.fleet import DemoFleet
from tests.command import MUSTER, environment, muster
from tests.testbed.memory import base_in_memory
from tests.testbed.require import require_fleet
from tests.testbed.sshd import wait_until

# By itself a sweep has no more time than lies between two, and one second is little on a busy machine. The
# rule is that of gpu002's fault.
PATIENT = ("--timeout", "20s", "--only", "gpu-count")
PLANTED = {"gpu001": (), "gpu002": ("gpu-missing",), "gpu003": ("refused",)}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoFleet]:
    require_fleet()
    with DemoFleet(base=base_in_memory(tmp_path_factory.mktemp("base")), planted=PLANTED) as fleet:
        yield fleet


@pytest.fixture
def fleet(running: DemoFleet) -> Iterator[DemoFleet]:
    """The fleet to which no one has logged in; its inventory may be edited."""
    written = running.inventory.read_text()
    for log in running.folder.glob("gpu*/sshd.log"):
        log.unlink()
    yield running
    running.inventory.write_text(written)


@contextmanager
def watch(fleet: DemoFleet, home: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    """`muster check` at work; each line of its output can be awaited."""
    process = subprocess.Popen([str(MUSTER), "check", "-i", str(fleet.inventory), *words], cwd=home,
                               env=environment(home), text=True, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait(10)
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def until(stream: IO[str] | None, wanted: str, lines: int = 400) -> list[str]:
    """The lines up to the first that holds what is wanted."""
    assert stream is not None
    seen: list[str] = []
    for _ in range(lines):
        line = stream.readline()
        assert line, f"{wanted!r} never came: {seen}"
        seen.append(line)
        if wanted in line:
            return seen
    raise AssertionError(f"{wanted!r} is not among {lines} lines: {seen[-5:]}")


def logins(fleet: DemoFleet) -> list[int]:
    return [log.read_text().count("Accepted publickey") for log in sorted(fleet.folder.glob("gpu*/sshd.log"))]


def connected(port: int) -> bool:
    """Whether a connection to this port of 127.0.0.1 is established (proc(5), /proc/net/tcp: state 01)."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return any(row[2] == f"0100007F:{port:04X}" and row[3] == "01" for row in rows)


def test_each_node_is_logged_in_to_once_and_what_did_not_change_is_one_line(
    fleet: DemoFleet, tmp_path: Path,
) -> None:
    done = muster("check", "-i", str(fleet.inventory), "--every", "1s", *PATIENT,
                  "--only", "port-link-downed", "--count", "3", home=tmp_path)
    assert done.returncode == 1, done.stderr
    assert logins(fleet) == [1, 1]
    # The first page says that there is no earlier look to compare with; from the second on there is.
    assert done.stdout.count("unhealthy      1  gpu002") == 2
    lines = [line for line in done.stdout.splitlines() if line.endswith("(unchanged)")]
    assert len(lines) == 1
    assert all("1 unhealthy, 1 unknown, 1 healthy" in line for line in lines)


def test_json_lines_come_for_every_sweep(fleet: DemoFleet, tmp_path: Path) -> None:
    done = muster("check", "gpu001", "-i", str(fleet.inventory), "--every", "1", *PATIENT, "--count", "2",
                  "--format", "jsonl", home=tmp_path)
    documents = [json.loads(line) for line in done.stdout.splitlines()]
    assert [document.get("node", document.get("schema")) for document in documents] == [
        "gpu001", "muster.check/2"] * 2
    assert documents[1]["started"] < documents[3]["started"]
    assert done.returncode == 0


def test_an_edit_of_the_inventory_counts_from_the_next_sweep_and_ctrl_c_leaves_no_connection(
    fleet: DemoFleet, tmp_path: Path,
) -> None:
    with watch(fleet, tmp_path, "--every", "1s", *PATIENT) as watching:
        until(watching.stdout, "(unchanged)")
        written = fleet.inventory.read_text()
        fleet.inventory.write_text(written.replace("  gpu002: {", "  gpu002: {rack: r9, rack: r9, "))
        told = until(watching.stderr, "using the previous plan")
        assert "muster.yaml:" in told[-1]
        assert "duplicate" in told[-1]
        fleet.inventory.write_text(written.replace("  gpu003: {", "  gpu004: {"))
        until(watching.stdout, "gpu004")
        assert connected(fleet.nodes["gpu001"].port)
        watching.send_signal(signal.SIGINT)
        assert watching.wait(10) == 130
    wait_until(lambda: not connected(fleet.nodes["gpu001"].port), what="the end of the connection")


@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
def test_its_end_leaves_no_connection_of_the_systems_ssh(
    fleet: DemoFleet, tmp_path: Path, number: signal.Signals,
) -> None:
    written = fleet.inventory.read_text()
    fleet.inventory.write_text(written.replace("  gpu001: {", "  gpu001: {transport: openssh, "))
    with watch(fleet, tmp_path, "gpu001", "--every", "1h", *PATIENT) as process:
        until(process.stdout, "gpu001")
        wait_until(lambda: connected(fleet.nodes["gpu001"].port), what="the connection")
        process.send_signal(number)
        assert process.wait(40) == 130
    wait_until(lambda: not connected(fleet.nodes["gpu001"].port), what="the end of the connection")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_an_interrupt_that_arrives_in_a_finalizer_is_not_lost(number: signal.Signals) -> None:
    code = f"""
import signal, time
from healthcheck.cli.main import handle_signals
class Held:
    def __del__(self):
        signal.raise_signal({int(number)})
        for _ in range(1000):
            pass
handle_signals()
try:
    Held()
    while True:     # pause() would wait for ever if the alarm came just before it
        time.sleep(0.01)
except KeyboardInterrupt:
    print("interrupted")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60,
                          check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "interrupted\n", "")


@pytest.mark.parametrize("form", ["table", "jsonl"])
def test_it_ends_when_no_one_reads_any_more(fleet: DemoFleet, tmp_path: Path, form: str) -> None:
    with watch(fleet, tmp_path, "gpu001", "--every", "1s", *PATIENT, "--format", form) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(20) in (0, 1)


def test_a_page_differs_when_the_same_rule_fails_on_something_else_and_when_a_node_ceases_to_count() -> None:
    def page(subject: str, *, in_service: bool = True) -> Shown:
        result = Result("gpu-ecc-uncorrected", "gpu.ecc_uncorrected", Status.FAIL, Severity.CRITICAL,
                        (Finding(2, 0, subject),))
        report = NodeReport("gpu001", NodeState.UNHEALTHY, "", (result,), in_service=in_service)
        return _visible(
            SimpleNamespace(assessed=SimpleNamespace(reports=(report,))))  # type: ignore[arg-type]

    assert page("gpu 0") == page("gpu 0")
    assert page("gpu 0") != page("gpu 5")
    assert page("gpu 0") != page("gpu 0", in_service=False)


@pytest.mark.parametrize(("words", "reason"), [
    (("--every", "soon"), "expected one such as 30s"),
    (("--every", "0s"), "out of bounds"),
    (("--every", "30s", "--save", "here"), "--save keeps one sweep"),
    (("--count", "2"), "--count goes with --every"),
    (("--every", "30s", "--replay", "here"), "--every does not go with --replay"),
])
def test_what_makes_no_sense_is_one_line_and_exit_2(
    words: tuple[str, ...], reason: str, tmp_path: Path,
) -> None:
    done = muster("check", *words, home=tmp_path)
    assert done.returncode == 2
    assert reason in done.stderr
    assert "Traceback" not in done.stderr
