"""The run of a container with GPUs and RDMA devices, by a real Docker daemon: what it has, what it lacks, and
what it leaves behind.

The daemon's own /dev has two files of RDMA devices, and where NVIDIA's hook would be there is one that makes
a GPU's file in the container.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from healthcheck.facts.container_run import CHECK_IMAGE, RUN
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import findings_of, verdict
from tests.testbed.docker import DOCKERD, Dockerd, busybox, docker, dockerd, led_to
from tests.testbed.require import require

pytestmark = [pytest.mark.root,
              pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start a Docker daemon")]

CLIENT = shutil.which("docker", path="/usr/bin:/usr/local/bin")
DEV = """
mkdir -p {at}; mount -t tmpfs -o dev,mode=755 dev {at}; mkdir {at}/pts {at}/shm {at}/infiniband {at}/mapper
for f in null zero full random urandom tty; do cp -a /dev/$f {at}/; done
ln -s /proc/self/fd {at}/fd
mknod {at}/infiniband/uverbs0 c 1 3; mknod {at}/infiniband/uverbs1 c 1 3; mknod {at}/infiniband/issm0 c 1 3
mount --move {at} /dev
"""
# As a prestart hook it gets the state of the container on standard input, before its root is changed.
HOOK = """#!/bin/sh
state=$(cat)
pid=$(echo "$state" | grep -o '"pid":[0-9]*' | cut -d: -f2)
root=$(sed 's/.*"root":{{"path":"\\([^"]*\\)".*/\\1/' "$(echo "$state" | sed 's/.*"bundle":"\\([^"]*\\)".*/\\1/')/config.json")
mode=$(cat {home}/mode)
if [ "$mode" = broken ]; then echo "nvidia-container-cli: initialization error: nvml error: driver not loaded" >&2; exit 1; fi
nsenter -t "$pid" -m mknod -m 666 "$root/dev/nvidia0" c 1 3
if [ "$mode" = lossy ]; then nsenter -t "$pid" -m rm "$root/dev/infiniband/uverbs1"; fi
"""  # noqa: E501
SMI = """#!/bin/sh
if [ -e /hangs ]; then sleep 1000; fi
[ -c /dev/nvidia0 ] || { echo "Failed to initialize NVML: Unknown Error"; exit 255; }
echo "GPU 0: NVIDIA H100 80GB HBM3 (UUID: GPU-00000000-0000-0000-0000-000000000000)"
"""


@dataclass(frozen=True)
class Bed:
    """A daemon with a hook whose mode tests set, its client's folder, and the image without a program that
    asks GPUs."""

    daemon: Dockerd
    home: Path
    client: Path

    def run(self, seconds: int = 60) -> Capture:
        """The probe as it is sent, in the daemon's own namespace of mounts."""
        argv: Sequence[str] = [*RUN.argv[:3], str(seconds), *RUN.argv[4:]]
        began = time.monotonic()
        done = subprocess.run(
            ["nsenter", f"--mount=/proc/{self.daemon.process.pid}/ns/mnt", *argv], capture_output=True,
            text=True, check=False, timeout=100,
            env={**os.environ, "PATH": f"{self.client}:{self.home / 'tools'}:{os.environ['PATH']}",
                 "LC_ALL": "C"})
        return Capture(Outcome.DONE, exit=done.returncode, seconds=time.monotonic() - began, text=done.stdout,
                       stderr=done.stderr)

    def judged(self, capture: Capture, rule: str = "container-all-gpus") -> Result:
        """A rule of it, on a node of which the driver lists one GPU."""
        return verdict(rule, machine.recording(container_run=capture, gpu_nvml=machine.nvml(1),
                                               gpu_pci=machine.pci(1)))

    def mode(self, word: str) -> None:
        (self.home / "mode").write_text(word)

    def tagged(self, change: str = "") -> None:
        """Tags an image with nvidia-smi as the one to run; `change` is a line of its making."""
        (self.home / "image"
         / "Dockerfile").write_text(f"FROM muster-test:1\nCOPY nvidia-smi /bin/nvidia-smi\n{change}\n")
        docker(self.client, "build", "-q", "-t", CHECK_IMAGE, str(self.home / "image"))


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    require(DOCKERD and CLIENT, "no Docker on this machine: apt-get install -y docker.io")
    home = tmp_path_factory.mktemp("bed")
    for folder in ("tools", "image"):
        (home / folder).mkdir()
    for path, text in (("tools/nvidia-container-runtime-hook", HOOK.format(home=home)),
                       ("image/nvidia-smi", SMI)):
        (home / path).write_text(text)
        (home / path).chmod(0o755)
    with dockerd(before=DEV.format(at=home / "dev"), tools=home / "tools") as daemon:
        client = led_to(daemon, home / "bin", str(Path(CLIENT or "").parent))
        busybox(client, home)
        yield Bed(daemon, home, client)


def test_without_a_tagged_image_nothing_runs_and_the_command_to_type_is_named(bed: Bed) -> None:
    docker(bed.client, "rmi", CHECK_IMAGE, check=False)
    seen = bed.run()
    result = bed.judged(seen)
    assert (result.status is Status.UNKNOWN
            and f"docker tag IMAGE {CHECK_IMAGE}" in result.reason), (result, seen)
    assert docker(bed.client, "ps", "-aq") == ""


def test_a_container_has_the_gpus_and_the_rdma_devices_of_its_node(bed: Bed) -> None:
    bed.mode("fine")
    bed.tagged()
    seen = bed.run()
    assert bed.judged(seen).status is Status.PASS, seen
    assert bed.judged(seen, "container-all-rdma").status is Status.PASS, seen
    assert "inside opens /dev/infiniband/uverbs1" in seen.text and "issm" not in seen.text
    assert docker(bed.client, "ps", "-aq") == ""


@pytest.mark.parametrize(("mode", "rule", "words"), [
    ("broken",
     "container-all-gpus",
     "container: 0 GPUs in a container (docker --gpus all): nvidia-container-cli: initialization error: "
     "nvml error"),
    ("lossy", "container-all-rdma", "/dev/infiniband/uverbs1: cannot be opened in a container"),
])
def test_what_a_container_lacks_is_named(bed: Bed, mode: str, rule: str, words: str) -> None:
    bed.mode(mode)
    bed.tagged()
    seen = bed.run()
    result = bed.judged(seen, rule)
    assert result.status is Status.FAIL and findings_of(result).startswith(words), (result, seen)


def test_a_container_that_hangs_is_ended_and_left_nowhere(bed: Bed) -> None:
    bed.mode("fine")
    bed.tagged("RUN touch /hangs")
    seen = bed.run(seconds=5)
    result = bed.judged(seen)
    assert result.status is Status.UNKNOWN and "did not end within" in result.reason, seen
    assert docker(bed.client, "ps", "-q") == ""
