"""Real containerd and Docker on nspawn nodes, whose mirror for Docker Hub is a registry of the test; and the
inventory of these nodes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

from tests.testbed.nspawn import Machine
from tests.testbed.planted import private
from tests.testbed.registry import Registry
from tests.testbed.sshd import wait_until

_CONTAINERD, _DOCKER = ("containerd", "ctr"), ("dockerd", "docker", "containerd", "containerd-shim-runc-v2",
                                               "runc", "docker-init")
_LIBRARY = re.compile(r"(/\S+\.so\S*) \(0x")


def with_containerd(machine: Machine, mirror: Registry, megabytes: int = 512, header: str = "") -> None:
    """containerd runs there, its data on a disk of this size; it goes to the mirror for Docker Hub, with this
    header."""
    _install(machine, _CONTAINERD)
    mirrored(machine, mirror, header)
    machine.run("mkdir", "-p", "/var/lib/containerd")
    machine.run("mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", "/var/lib/containerd")
    _started(machine, "containerd", "containerd", ("ctr", "version"))


def mirrored(machine: Machine, mirror: Registry, header: str = "") -> None:
    """What its containerd has for a mirror of Docker Hub."""
    folder = machine.root / "etc/containerd/certs.d/docker.io"
    folder.mkdir(parents=True, exist_ok=True)
    auth = f'[host."http://{mirror.host}".header]\nauthorization = "{header}"\n' if header else ""
    private(
        folder / "hosts.toml",
        f'server = "http://{mirror.host}"\n[host."http://{mirror.host}"]\ncapabilities = ["pull", '
        f'"resolve"]\n{auth}')


def with_docker(machine: Machine, mirror: Registry) -> None:
    """dockerd runs there, and goes to the mirror for Docker Hub."""
    _install(machine, _DOCKER)
    (machine.root / "etc/docker").mkdir(parents=True)
    (machine.root / "etc/docker/daemon.json").write_text(
        json.dumps({"registry-mirrors": [f"http://{mirror.host}"]}))
    machine.run("mkdir", "-p", "/var/lib/docker")
    machine.run("mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", "/var/lib/docker")
    _started(machine, "docker", "dockerd --iptables=false --ip6tables=false --bridge=none",
             ("docker", "info"))


def _install(machine: Machine, programs: tuple[str, ...]) -> None:
    """These programs of this machine, and the libraries that they need: both are Debian 12."""
    for name in programs:
        found = shutil.which(name, path="/usr/bin:/usr/sbin")
        if found is None:       # docker-init is not everywhere
            continue
        said = subprocess.run(["ldd", found], capture_output=True, text=True, check=False).stdout
        for path in (found, *_LIBRARY.findall(said)):
            target = machine.root / path.lstrip("/")
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, target)


def _started(machine: Machine, unit: str, command: str, answers: tuple[str, ...]) -> None:
    (machine.root / f"etc/systemd/system/{unit}.service").write_text(
        f"[Service]\nExecStart=/usr/bin/env {command}\nDelegate=yes\n")
    machine.run("systemctl", "daemon-reload")
    machine.run("systemctl", "start", unit)

    def up() -> bool:
        return (bool(machine.run(*answers, check=False).strip())
                and machine.run("systemctl", "is-active", unit, check=False).strip() == "active")

    wait_until(up, 60, f"{unit}: {machine.run('journalctl', '-n', '5', '-u', unit, check=False)}")


def site(home: Path, machines: list[Machine]) -> None:
    one = machines[0]
    (home / "muster.yaml").write_text(
        "version: 1\ncordon: {hostfile: bad}\n"        # which knows nothing of jobs
        f"defaults: {{user: root, sku: cpu-only, identity_file: {one.key}, known_hosts_file: "
        f"{one.known_hosts}}}\n"
        "nodes:\n" + "".join(each.entry() for each in machines))
