"""A site whose one machine, a virtual one, is installed over own PXE: dnsmasq runs with what `muster os
render` wrote, and the machine is served by `muster os serve`."""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from healthcheck.config.rulesfolder import packaged
from inventory.load import load_inventory
from inventory.model import Node
from provisioning.osinstall.base import OsReport
from provisioning.osinstall.pxe.backend import PxeBackend, pxe_backend
from provisioning.osinstall.pxe.record import InstallationStage
from provisioning.osinstall.pxe.settings import load
from tests.command import muster, running
from tests.testbed.sshd import make_key, public, wait_until
from tests.testbed.vm.diskimage import installable
from tests.testbed.vm.images import releases
from tests.testbed.vm.netimage import netimage
from tests.testbed.vm.pxe import Lab, lab

NAME = "vm1"
_PORT = 9850
UUID = "5ae1d200-0000-4000-8000-000000000001"
MINUTES = 20


@dataclass
class Site:
    """Where muster runs, the machine, and the back end."""

    home: Path
    vm: Lab
    backend: PxeBackend
    node: Node

    def state(self) -> OsReport:
        return self.backend.state(self.node)

    def stage(self) -> InstallationStage:
        found = self.backend.records.read(NAME)
        assert found is not None
        return found.stage

    def served(self) -> str:
        """What `muster os serve` has logged."""
        return (self.home / "serve.log").read_text()

    def until(self, text: str, count: int = 1, seconds: float = 480) -> None:
        """Returns when the server has logged it so often."""
        wait_until(lambda: self.served().count(text) >= count, seconds,
                   f"{text}: {self.served()}\n{self.vm.console()[-3000:]}\n{self.vm.network()[-2000:]}")

    def run(self, *argv: str) -> str:
        """What a command of the machine prints; only the host keys that were proven are accepted."""
        known = self.home / "proven"
        known.write_text("".join(f"{self.vm.address} {key}\n" for key in self.state().host_keys))
        return subprocess.run(
            ["ssh", "-F", "none", "-i", str(self.home / "key"), "-o", f"UserKnownHostsFile={known}", "-o",
             "StrictHostKeyChecking=yes", "-o",
             "BatchMode=yes", "-o", "ConnectTimeout=20", f"root@{self.vm.address}", *argv],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=90).stdout


@contextlib.contextmanager
def site(
    home: Path, mode: str = "full", firmware: str = "bios", *, uuid: str = UUID, serial: str = "",
    more: str = "lifecycle: bringup",
) -> Iterator[Site]:
    """The machine is off, its disk is empty, and it is not armed. With `mode` proxy another server gives
    addresses. `more` is what the inventory says of it besides."""
    image = netimage(releases("6.1.")[0])
    whole = installable(image)
    key = make_key(home / "key")
    files = home / "files"
    files.mkdir()
    for name, source in (("vmlinuz", whole.kernel), ("initrd", whole.initrd), ("disk", whole.disk)):
        shutil.copy(source, files / name)

    def configured(made: Lab) -> list[str]:
        """Renders what this network needs, and starts dnsmasq with it."""
        subnet = made.subnet
        (home / "muster.yaml").write_text(
            f"version: 1\nnodes:\n  {NAME}: {{boot_mac: '{made.mac}', address: {made.address}, user: root, "
            f"{more}}}\n")
        (home / "rules").mkdir(exist_ok=True)
        (home / "rules/pxe.yaml").write_text(
            f"server: http://{subnet}.254:{_PORT}\nimage: small\nuser: root\nminutes: {MINUTES}\nfiles: "
            f"{files}\n"
            f"authorized_keys: [{json.dumps(public(key))}]\n"
            "images: {small: {kind: custom, kernel: vmlinuz, initrd: initrd, disk: /dev/vda, arguments: "
            "[console=ttyS0, random.trust_cpu=on, "
            "tsc=reliable, lpj=10800000, net.ifnames=0]}}\n"
            f"dhcp: {{mode: {mode}, interface: lan, network: {subnet}.0/24, range: [{subnet}.10, "
            f"{subnet}.20]}}\n")
        done = muster("os", "render", "--output", "pxe", "--rules", "rules", home=home)
        assert done.returncode == 0, done
        return ["dnsmasq", "--keep-in-foreground", f"--conf-file={home}/pxe/dnsmasq.conf", "--user=root",
                "--group=root", "--pid-file=",
                f"--dhcp-leasefile={made.folder}/leases", "--log-facility=-"]

    with lab(home / "lab", image, {}, uuid=uuid, serial=serial,
             disk_bytes=whole.disk.stat().st_size + (64 << 20), dnsmasq=configured, uefi=firmware != "bios",
             http=firmware == "uefi-http") as vm, _addresses(home, vm if mode == "proxy" else None):
        with (home / "serve.log").open("w") as log:
            process = running("os", "serve", "--listen", f"{vm.subnet}.254:{_PORT}", "--rules", "rules",
                              home=home, out=log, err=log)
        try:
            node = load_inventory(home / "muster.yaml").nodes[NAME]
            yield Site(home, vm, pxe_backend(load([packaged(), home / "rules"]), home / "state"), node)
        finally:
            process.kill()
            process.wait()


@contextlib.contextmanager
def _addresses(home: Path, vm: Lab | None) -> Iterator[None]:
    """Another DHCP server of the network, on this side of its cable, which knows nothing of booting."""
    if vm is None:
        yield
        return
    port = next(line.split()[1] for line in subprocess.run(["ip", "-o", "address"], capture_output=True,
                                                           text=True, check=True).stdout.splitlines()
                if f" {vm.subnet}.254/" in line)
    with (home / "addresses.log").open("w") as log:
        process = subprocess.Popen(
            ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root",
             "--pid-file=", "--port=0", f"--interface={port}",
             "--bind-interfaces", f"--dhcp-range={vm.subnet}.10,{vm.subnet}.20,1h",
             f"--dhcp-host={vm.mac},{vm.address}", "--no-ping", "--log-dhcp",
             f"--dhcp-leasefile={home}/leases", "--log-facility=-"], stdin=subprocess.DEVNULL,
            stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def answers(one: Site) -> bool:
    """Whether its SSH server does, with the proven key."""
    try:
        return one.run("echo", "up").strip() == "up"
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
