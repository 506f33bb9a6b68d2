"""Virtual machines with soft RoCE (rdma_rxe) and perftest on one bridge, each reached over SSH. Needs root.

What they send is software in an emulated processor: 0.1 Gb/s, so that rates say nothing; devices, tools and
their output are real.
"""

from __future__ import annotations

import contextlib
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed.sshd import wait_until
from tests.testbed.vm.hardware import Hardware
from tests.testbed.vm.images import images, releases, require_vm
from tests.testbed.vm.machine import BOOT_SECONDS, Machine, machine

PACKAGES = ("perftest", "ibverbs-providers", "rdma-core", "openssh-server")
DEVICE = "rxe0"
# Half a minute each for an emulated processor, and nothing here needs them.
# Beside other work an emulated timer ticks too late for the kernel's test of it, which then panics ("IO-APIC
# + timer doesn't work!") and waits; and a machine that panics is to end, rather than to be waited for.
_WORDS = ("no_timer_check", "panic=1")
_MASKED = ("e2scrub_reap.service", "systemd-logind.service", "rdma-ndd.service",
           "rdma-load-modules@rdma.service", "rdma-load-modules@roce.service")


@dataclass(frozen=True)
class OnBridge(Hardware):
    """A machine with a disk and a port, the end of this tap: each device more takes an emulated processor
    seconds to find."""

    tap: str = ""

    def argv(self, folder: Path, root: Path) -> list[str]:
        mac = f"52:54:00:aa:{self.seed % 256:02x}:01"
        return ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", self.processor, "-smp",
                str(self.cpus), "-m", str(self.memory),
                "-nodefaults", "-no-user-config", "-drive",
                f"if=none,id=root,file={root},format=raw,snapshot=on,cache=unsafe",
                "-device", "virtio-blk-pci,drive=root", "-device", "virtio-rng-pci",
                "-netdev", f"tap,id=fabric,ifname={self.tap},script=no,downscript=no", "-device",
                f"virtio-net-pci,netdev=fabric,mac={mac}"]


@dataclass(frozen=True)
class RoceNode:
    """One of them: its machine, its address, and how SSH reaches it."""

    up: Machine
    address: str
    key: Path
    known: Path

    def entry(self) -> dict[str, Any]:
        """Its entry of an inventory."""
        return {"address": self.address, "user": "root", "identity_file": str(self.key),
                "known_hosts_file": str(self.known),
                "python": "/usr/bin/python3"}


@contextlib.contextmanager
def rxe(folder: Path, count: int) -> Iterator[dict[str, RoceNode]]:
    """So many, n1 and on."""
    require_vm()
    made = images(releases("6.1.")[0], PACKAGES)
    tag, net = f"mr{secrets.token_hex(3)}", f"10.216.{secrets.randbelow(254)}"
    key = folder / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
    with contextlib.ExitStack() as stack:
        _run("ip", "link", "add", tag, "type", "bridge")
        stack.callback(_run, "ip", "link", "delete", tag)
        _run("ip", "address", "add", f"{net}.254/24", "dev", tag)
        _run("ip", "link", "set", tag, "up")
        found: dict[str, RoceNode] = {}
        for number in range(1, count + 1):
            tap, own = f"{tag}{number}", folder / f"n{number}"
            own.mkdir()
            _run("ip", "tuntap", "add", "dev", tap, "mode", "tap")
            stack.callback(_run, "ip", "link", "delete", tap)
            _run("ip", "link", "set", tap, "master", tag, "up")
            hardware = OnBridge(seed=20 + number, memory=768, cpus=1, tap=tap)
            up = stack.enter_context(machine(own, made, hardware, *_WORDS,
                                             *(f"systemd.mask={unit}" for unit in _MASKED)))
            found[f"n{number}"] = _joined(up, f"{net}.{number}", number, key, own / "known")
        yield found


def _joined(up: Machine, address: str, number: int, key: Path, known: Path) -> RoceNode:
    name = up.run(f"grep -l 52:54:00:aa:{20 + number:02x}:01 /sys/class/net/*/address").split("/")[4]
    up.run(
        f"ip link set lo up; ip address add {address}/24 dev {name}; ip link set {name} up; hostname "
        f"n{number}")
    up.run(f"modprobe rdma_rxe; modprobe ib_uverbs; rdma link add {DEVICE} type rxe netdev {name}",
           BOOT_SECONDS)
    up.run(
        f"mkdir -p /root/.ssh /run/sshd; echo '{key.with_suffix('.pub').read_text().strip()}' "
        f">/root/.ssh/authorized_keys; "
        "ssh-keygen -A; systemctl start ssh", BOOT_SECONDS)
    known.write_text(f"{address} {up.run('cat /etc/ssh/ssh_host_ed25519_key.pub').strip()}\n")
    wait_until(lambda: "ACTIVE" in up.run("cat /sys/class/infiniband/*/ports/1/state"), 60, "an active port")
    return RoceNode(up, address, key, known)


def _run(*words: str) -> None:
    subprocess.run(words, check=True, capture_output=True)
