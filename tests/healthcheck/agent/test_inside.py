"""From a container the agent sees the host, as it would there: `--enter` another process's namespaces."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from healthcheck.agent.exporting import board_of
from tests.command import MUSTER, environment
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

NAME = "knode1"
pytestmark = pytest.mark.timeout(300)


@dataclass(frozen=True)
class Host:
    """A host on a machine of its own: of other tests' processes, whose daemons come and go, it sees none."""

    machine: int  # its first process, as we number it
    pid: int      # what stands for the host's first process, as the machine numbers it

    def there(self, *argv: str) -> list[str]:
        """The command, on that machine."""
        return ["nsenter", "--pid", "--mount", "--target", str(self.machine), *argv]


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    """A process that stands for the first one of a host of another name, with a file system that we do not
    see."""
    require(os.geteuid() == 0 and shutil.which("unshare"),
            "only root can make a mount namespace, with unshare of util-linux")
    (tmp_path / "own").mkdir()
    ready = tmp_path / "ready"
    theirs = (f"hostname {NAME}; mount -t tmpfs -o size=1m,nr_inodes=99 theirs {tmp_path}/own; echo $$ > "
              f"{ready}.new; mv {ready}.new {ready}; exec sleep 600")
    first = f"unshare --mount --uts --propagation private sh -ec '{theirs}' & wait"
    process = subprocess.Popen(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                                "sh", "-c", first])
    try:
        wait_until(ready.exists, 30, "the host")
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text()
        yield Host(int(children), int(ready.read_text()))
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path
     / "muster.yaml").write_text(f"version: 1\ndefaults: {{sku: cpu-only}}\nnodes:\n  {NAME}: {{rack: r7}}\n")
    return tmp_path


def results(state: Path) -> dict[str, Any]:
    """The newest; what differs from one second to the next is none of a rule's status."""
    found = json.loads((state / "result.json").read_text())
    return {"node": found["node"], "words": found["words"], "state": found["state"],
            **{one["rule"]: one["status"] for one in found["report"]["results"]}}


def test_from_other_namespaces_it_gives_the_results_of_the_host_under_the_inventorys_name(host: Host,
                                                                                          home: Path) -> None:
    inventory = str(home / "muster.yaml")
    run = [str(MUSTER), "agent", "run", "--inventory", inventory, "--state"]
    there = host.there("nsenter", "--mount", "--uts", "--target", str(host.pid), *run, str(home / "there"))
    here = host.there(*run, str(home / "here"), "--enter", str(host.pid), "--node", NAME)
    # what other tests do to disks and network may change in between
    for last in (False, False, True):
        for argv in (there, here):
            done = subprocess.run(argv, env=environment(home), cwd=home, capture_output=True, text=True,
                                  timeout=140, check=False)
            assert done.returncode in (0, 1, 3), done.stderr
        if results(home / "here") == results(home / "there"):
            break
        assert not last or results(home / "here") == results(home / "there")
    assert results(home / "here")["node"] == NAME
    # Its files are those of the host.
    look = json.loads(gzip.decompress((home / "here/recording.json.gz").read_bytes()))["recording"]
    assert look["host"]["hostname"] == NAME and f"{home}/own" in json.dumps(look["captures"])
    # What Prometheus scrapes from the pod is under this name, too.
    board = board_of(home / "here", home / "nothing", [0])
    board.refresh()
    assert 'muster_agent_run_info{boot_id="' in board.text() and f'node="{NAME}"' in board.text()


@pytest.mark.parametrize("pid", [4194303, pytest.param(None, marks=pytest.mark.slow)])
def test_namespaces_that_cannot_be_entered_make_the_node_unknown_with_the_reason(pid: int | None,
                                                                                 home: Path) -> None:
    if pid is None:
        require(os.geteuid() == 0, "only root can give up its rights")
        words = ["setpriv", "--bounding-set", "-all", "--inh-caps", "-all"]
    else:
        words = []
    argv = [*words, str(MUSTER), "agent", "run", "--enter", str(pid or 1), "--node", NAME, "-i",
            str(home / "muster.yaml"), "--state", str(home / "state")]
    done = subprocess.run(argv, env=environment(home), cwd=home, capture_output=True, text=True,
                          timeout=140, check=False)
    assert done.returncode == 3, done.stderr
    assert (f"{NAME}: unknown: " in done.stdout
            and f"the namespaces of process {pid or 1} cannot be entered" in done.stdout)


def test_in_a_loop_it_runs_again_and_ends_on_sigterm(home: Path) -> None:
    argv = [str(MUSTER), "agent", "run", "--loop", "--period", "10s", "--profile", "gate", "--node", NAME,
            "-i", str(home / "muster.yaml"), "--state", str(home / "state")]
    with subprocess.Popen(argv, env=environment(home), cwd=home, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as process:
        try:
            wait_until((home / "state/result.json").exists, 100, "a first result")
            first = (home / "state/result.json").stat().st_ino
            wait_until(lambda: (home / "state/result.json").stat().st_ino != first, 100, "a second result")
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
