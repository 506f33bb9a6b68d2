"""containerd itself, stopped; and the shim of one of its containers, stopped: each a fault of its own, and of
nothing else."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from healthcheck.facts.containerd import KUBELET, NERDCTL, TASKS, VERSION
from healthcheck.model.outcome import Result
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import findings_of, verdict
from tests.testbed.collector import collect
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

pytestmark = [pytest.mark.root,
              pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start containerd")]

CONTAINERD, CTR, BUSYBOX = (shutil.which(name, path="/usr/bin:/usr/sbin:/usr/local/bin:/bin")
                            for name in ("containerd", "ctr", "busybox"))
NAMESPACE = "run/containerd/io.containerd.runtime.v2.task/default"


@dataclass(frozen=True)
class Bed:
    """A containerd with the containers one and two; `node` is the tree of a node whose clients are led to
    it."""

    process: subprocess.Popen[bytes]
    socket: Path
    node: Path

    def ctr(self, *words: str) -> str:
        return subprocess.run([str(CTR), "--address", str(self.socket), *words], check=True,
                              capture_output=True, text=True, timeout=60).stdout

    def shim(self, of: str) -> int:
        """The process that started this container's program."""
        rows = [line.split() for line in self.ctr("tasks", "list").splitlines()[1:]]
        pid = next(int(row[1]) for row in rows if row[0] == of)
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])

    def judged(self, *rules: str) -> list[Result]:
        seen = collect([VERSION, TASKS, KUBELET, NERDCTL], self.node, timeout=60).captures
        recording = machine.recording(**{probe.replace(".", "_", 1): seen[probe] for probe in seen})
        return [verdict(rule, recording) for rule in rules]


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


@pytest.fixture(scope="module")
def bed() -> Iterator[Bed]:
    require(CONTAINERD and CTR and BUSYBOX,
            "no containerd or busybox on this machine: apt-get install -y containerd busybox-static")
    with tempfile.TemporaryDirectory(prefix="muster-containerd-", ignore_cleanup_errors=True) as name:
        home = Path(name)
        for folder in ("rootfs/bin", "node/usr/bin", f"node/{NAMESPACE}"):
            (home / folder).mkdir(parents=True)
        shutil.copy(str(BUSYBOX), home / "rootfs/bin/busybox")
        (home / "config.toml").write_text(
            f'version = 2\nroot = "{home}/root"\nstate = "{home}/state"\ndisabled_plugins = '
            f'["io.containerd.grpc.v1.cri"]\n'
            f'[grpc]\naddress = "{home}/sock"\n[ttrpc]\naddress = "{home}/sock.ttrpc"\n')
        for tool, text in (("ctr", f'shift 2\nexec {CTR} --address {home}/sock "$@"\n'),
                           ("nerdctl", "echo nerdctl version 1.7.6\n")):
            (home / "node/usr/bin" / tool).write_text(f"#!/bin/sh\n{text}")
            (home / "node/usr/bin" / tool).chmod(0o755)
        with (home / "log").open("wb") as log:
            process = subprocess.Popen([str(CONTAINERD), "--config", str(home / "config.toml")],
                                       stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        running = Bed(process, home / "sock", home / "node")
        try:
            wait_until(running.socket.exists, 60, "containerd")
            for container in ("one", "two"):
                running.ctr("run", "--detach", "--rootfs", str(home / "rootfs"), container, "/bin/busybox",
                            "sleep", "1000")
            yield running
        finally:
            for container in ("one", "two"):
                subprocess.run([str(CTR), "--address", str(running.socket), "tasks", "delete",
                                "--force", container],
                               check=False, capture_output=True, timeout=60)
            process.terminate()
            process.wait(20)


def test_a_shim_that_is_stopped_is_named_and_its_neighbour_and_containerd_are_not(bed: Bed) -> None:
    with stopped(bed.shim("one")):
        shims, daemon = bed.judged("container-shim-hangs", "containerd-answers")
    assert ((findings_of(shims), daemon.status.value)
            == ("one of default: its shim does not answer containerd, expected an answer", "pass"))
    assert [one.status.value
            for one in bed.judged("container-shim-hangs", "containerd-answers")] == ["pass", "pass"]


def test_containerd_that_is_stopped_is_a_fault_and_no_shim_is_accused(bed: Bed) -> None:
    with stopped(bed.process.pid):
        daemon, shims = bed.judged("containerd-answers", "container-shim-hangs")
    assert daemon.status.value == "fail" and "deadline exceeded" in findings_of(daemon), daemon
    assert shims.status.value == "unknown", shims
