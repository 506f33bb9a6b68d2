"""The image of the DaemonSet, built by scripts/image and run by a real Docker as its two containers."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.command import MUSTER, environment
from tests.testbed.docker import DOCKERD, dockerd
from tests.testbed.nspawn import require_nspawn, rootfs
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]
ROOT = Path(__file__).resolve().parents[3]
NAME = "knode1"
# Docker of Debian 12 knows no capability that is newer than these.
NEWER = ("perfmon", "bpf", "checkpoint_restore")
STATE = "/var/lib/muster/agent"


def results(state: Path) -> dict[str, Any]:
    found = json.loads((state / "result.json").read_text())
    return {"node": found["node"], "words": found["words"],
            **{one["rule"]: one["status"] for one in found["report"]["results"]}}


def test_the_images_agent_gives_the_results_of_the_host_and_its_exporter_serves_them_without_a_right(
        tmp_path: Path) -> None:
    require_nspawn()
    require(DOCKERD and shutil.which("docker") and shutil.which("setpriv"),
            "no docker here: apt-get install -y docker.io util-linux")
    inventory = tmp_path / "muster.yaml"
    inventory.write_text(f"version: 1\ndefaults: {{sku: cpu-only}}\nnodes:\n  {NAME}: {{rack: r7}}\n")
    kept = subprocess.run(["setpriv", "-d"], capture_output=True, text=True, check=True).stdout
    bounding = next(line for line in kept.splitlines()
                    if line.startswith("Capability bounding set:")).split(":")[1].strip()
    rights = [word for name in bounding.split(",") if name not in NEWER for word in ("--cap-add", name)]
    # Stands for the host's first process; this machine's own may have more rights than can be had here.
    host = subprocess.Popen(["setpriv", "--bounding-set", ",".join(f"-{name}" for name in NEWER), "unshare",
                             "--mount", "--uts", "--propagation", "private", "sh", "-ec",
                             f"hostname {NAME}; mkdir {tmp_path}/own; mount -t tmpfs -o size=1m theirs "
                             f"{tmp_path}/own; touch {tmp_path}/ready; exec sleep 1200"])
    try:
        wait_until((tmp_path / "ready").exists, 60, "the host")
        with dockerd() as daemon:
            env = {**os.environ, "DOCKER_HOST": daemon.host}

            def run(*words: str) -> subprocess.CompletedProcess[str]:
                return subprocess.run(["docker", "run", "--rm", "--network", "none", "--env",
                                       f"MUSTER_NODE={NAME}", *words], env=env, capture_output=True,
                                      text=True, timeout=300, check=False)

            with subprocess.Popen(["tar", "-C", str(rootfs()), "--exclude=./var/cache", "-c", "."],
                                  stdout=subprocess.PIPE) as tar:
                subprocess.run(["docker", "import", "-", "base:1"], stdin=tar.stdout, env=env, check=True,
                               capture_output=True, timeout=300)
            built = subprocess.run([ROOT / "scripts/image", "base:1", "muster:1", "3.11"], env=env,
                                   capture_output=True, text=True, timeout=600, check=False)
            assert built.returncode == 0, built.stderr
            (tmp_path / "pod").mkdir()
            looked = run("--pid", "host", *rights, "--security-opt", "seccomp=unconfined", "--security-opt",
                         "apparmor=unconfined", "--device-cgroup-rule", "a *:* rwm",
                         "--volume", f"{tmp_path}/pod:{STATE}", "--volume",
                         f"{inventory}:/etc/muster/muster.yaml:ro",
                         "muster:1", "muster", "agent", "run", "--enter", str(host.pid), "--inventory",
                         "/etc/muster/muster.yaml", "--state", STATE)
            assert looked.returncode in (0, 1, 3), looked.stderr
            there = ["nsenter", "--mount", "--uts", "--target", str(host.pid), str(MUSTER), "agent", "run",
                     "--inventory", str(inventory), "--state", str(tmp_path / "host")]
            subprocess.run(there, env=environment(tmp_path), capture_output=True, timeout=300, check=False)
            pod, own = results(tmp_path / "pod"), results(tmp_path / "host")
            assert (pod["node"] == NAME and {key: (value, own.get(key)) for key, value in pod.items()
                                             if own.get(key) != value} == {}), looked.stdout
            served = run("--cap-drop", "ALL", "--read-only", "--volume", f"{tmp_path}/pod:{STATE}:ro",
                         "muster:1", "muster", "exporter", "--agent", "--once", "--state", STATE)
            assert served.returncode == 0, served.stderr
            assert "muster_agent_run_info{" in served.stdout and f'node="{NAME}"' in served.stdout
    finally:
        host.kill()
        host.wait()
