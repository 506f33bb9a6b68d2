"""A virtual machine goes from power-off over own PXE, through an installer, to an installed system that phones home; it
is killed while it loads the installer, while it writes the disk, and in its first boot.

dnsmasq runs with what `muster os render` wrote, and the machine is served by `muster os serve`.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from inventory.load import load_inventory
from inventory.model import Node
from provisioning.osinstall.base import OsReport, OsState
from provisioning.osinstall.pxe.backend import PxeBackend, pxe_backend
from provisioning.osinstall.pxe.record import InstallationStage
from provisioning.osinstall.pxe.settings import load
from tests.command import MUSTER, environment, muster
from tests.testbed.sshd import make_key, public, wait_until
from tests.testbed.vm.diskimage import installable, require_installer
from tests.testbed.vm.images import releases
from tests.testbed.vm.netimage import netimage
from tests.testbed.vm.pxe import Lab, lab, require_pxe, require_uefi

NAME = "vm1"
_PORT = 9850
_UUID = "5ae1d200-0000-4000-8000-000000000001"
_MAC = "52:54:00:5a:e1:d2"
_MINUTES = 20


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
        wait_until(lambda: self.served().count(text) >= count, seconds, f"{text}: {self.served()}\n{self.vm.console()[-3000:]}\n{self.vm.network()[-2000:]}")

    def run(self, *argv: str) -> str:
        """What a command of the machine prints; only the host keys that were proven are accepted."""
        known = self.home / "proven"
        known.write_text("".join(f"{self.vm.address} {key}\n" for key in self.state().host_keys))
        return subprocess.run(
            ["ssh", "-F", "none", "-i", str(self.home / "key"), "-o", f"UserKnownHostsFile={known}", "-o", "StrictHostKeyChecking=yes", "-o",
             "BatchMode=yes", "-o", "ConnectTimeout=20", f"root@{self.vm.address}", *argv],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=90).stdout


@contextlib.contextmanager
def site(home: Path, mode: str = "full", firmware: str = "bios") -> Iterator[Site]:
    """The machine is off, its disk is empty, and it is not armed. With `mode` proxy another server gives addresses."""
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
            f"version: 1\nnodes:\n  {NAME}: {{boot_mac: '{_MAC}', address: {made.address}, user: root, lifecycle: bringup}}\n")
        (home / "rules").mkdir()
        (home / "rules/pxe.yaml").write_text(
            f"server: http://{subnet}.254:{_PORT}\nimage: small\nuser: root\nminutes: {_MINUTES}\nfiles: {files}\n"
            f"authorized_keys: [{json.dumps(public(key))}]\n"
            "images: {small: {kind: custom, kernel: vmlinuz, initrd: initrd, disk: /dev/vda, arguments: [console=ttyS0, random.trust_cpu=on, "
            "tsc=reliable, lpj=10800000, net.ifnames=0]}}\n"
            f"dhcp: {{mode: {mode}, interface: lan, network: {subnet}.0/24, range: [{subnet}.10, {subnet}.20]}}\n")
        done = muster("os", "render", "--output", "pxe", "--rules", "rules", home=home)
        assert done.returncode == 0, done
        return ["dnsmasq", "--keep-in-foreground", f"--conf-file={home}/pxe/dnsmasq.conf", "--user=root", "--group=root", "--pid-file=",
                f"--dhcp-leasefile={made.folder}/leases", "--log-facility=-"]

    with lab(home / "lab", image, {}, uuid=_UUID, disk_bytes=whole.disk.stat().st_size + (64 << 20), dnsmasq=configured, uefi=firmware != "bios",
             http=firmware == "uefi-http") as vm, _addresses(home, vm if mode == "proxy" else None):
        assert vm.mac == _MAC
        with (home / "serve.log").open("w") as log:
            process = subprocess.Popen([str(MUSTER), "os", "serve", "--listen", f"{vm.subnet}.254:{_PORT}", "--rules", "rules"], cwd=home,
                                       env=environment(home), stdin=subprocess.DEVNULL, stdout=log, stderr=log)
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
    port = next(line.split()[1] for line in subprocess.run(["ip", "-o", "address"], capture_output=True, text=True, check=True).stdout.splitlines()
                if f" {vm.subnet}.254/" in line)
    with (home / "addresses.log").open("w") as log:
        process = subprocess.Popen(
            ["dnsmasq", "--keep-in-foreground", "--conf-file=/dev/null", "--user=root", "--group=root", "--pid-file=", "--port=0", f"--interface={port}",
             "--bind-interfaces", f"--dhcp-range={vm.subnet}.10,{vm.subnet}.20,1h", f"--dhcp-host={vm.mac},{vm.address}", "--no-ping", "--log-dhcp",
             f"--dhcp-leasefile={home}/leases", "--log-facility=-"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mode", "firmware"), [("proxy", "bios"), ("full", "uefi"), ("proxy", "uefi"), ("full", "uefi-http")])
def test_every_firmware_reaches_its_script_beside_another_server_too(tmp_path: Path, mode: str, firmware: str) -> None:
    require_pxe()
    require_installer()
    if firmware != "bios":
        require_uefi()
    with site(tmp_path, mode, firmware) as one:
        one.vm.turn(True, network=True)
        one.until("boots from its disk")
        one.vm.turn(False)
        assert ("ipxe.efi to" in one.vm.network()) == (firmware == "uefi"), one.vm.network()[-3000:]
        one.backend.install(one.node)
        one.vm.turn(True, network=True)
        one.until("boots the installer of small")
        assert one.state().state is OsState.INSTALLING


@pytest.mark.slow
@pytest.mark.timeout(_MINUTES * 60 + 300)
def test_a_machine_is_installed_over_own_pxe_though_it_is_killed_three_times(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    require_pxe()
    require_installer()
    began, times = time.monotonic(), list[str]()

    def passed(what: str) -> None:
        times.append(f"  {time.monotonic() - began:6.1f} s  {what}")

    with site(tmp_path) as one:
        vm = one.vm
        # Not armed: it is sent to its disk, which is empty.
        vm.turn(True, network=True)
        one.until("boots from its disk")
        vm.turn(False)
        assert one.state().state is OsState.PLANNED
        passed("not armed, it was sent to its disk")

        one.backend.install(one.node)
        vm.turn(True, network=True)
        one.until("boots the installer of small")
        vm.turn(False)
        assert (one.state().state, one.stage()) == (OsState.INSTALLING, InstallationStage.BOOT)
        passed("killed while it loaded the installer")

        vm.turn(True, network=True)
        one.until("its installer fetched seed")
        wait_until(lambda: "installs vm1 on /dev/vda" in vm.console(), 240, "the installer")
        vm.turn(False)
        assert (one.state().state, one.stage()) == (OsState.INSTALLING, InstallationStage.SEED)
        passed("killed while it wrote the disk")

        vm.turn(True, network=True)
        one.until("its disk is written")
        assert one.stage() is InstallationStage.WRITTEN
        passed("its disk is written")
        # It reboots by itself, over the network again, and is sent to its disk.
        one.until("boots from its disk", 2)
        wait_until(lambda: "Run /init as init process" in vm.console().rpartition("testbed: installed")[2] or "systemd[1]" in vm.console().rpartition(
            "testbed: installed")[2], 480, f"its first boot: {vm.console()[-3000:]}")
        vm.turn(False)
        assert (one.state().state, one.stage()) == (OsState.INSTALLING, InstallationStage.WRITTEN)
        passed("killed in its first boot")

        vm.turn(True, network=True)
        one.until("is installed with small")
        found = one.state()
        assert (found.state, found.image) == (OsState.INSTALLED, "small") and len(found.host_keys) == 1
        passed("the installed system phoned home")

        # Only the key that came with the proof is accepted: it is the machine itself.
        wait_until(lambda: _answers(one), 300, "its SSH server")
        assert one.run("cat", "/etc/hostname").strip() == NAME
        assert one.run("cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()[:2] == found.host_keys[0].split()
        wait_until(lambda: one.run("ls -d /etc/muster-firstboot 2>/dev/null || echo gone").strip() == "gone", 60, "the end of its token")
        assert "gone" in one.run("ls /etc/systemd/system/multi-user.target.wants/muster-firstboot.service 2>/dev/null || echo gone")
        one.run("echo kept > /root/kept; sync")

        # However often it boots over the network now, it is not installed again.
        vm.turn(False)
        vm.turn(True, network=True)
        one.until("boots from its disk", 4)
        wait_until(lambda: _answers(one), 480, f"its SSH server: {vm.console()[-2000:]}")
        assert one.run("cat", "/root/kept").strip() == "kept"
        record = one.backend.records.read(NAME)
        assert record is not None and record.number == 1 and one.state() == found
        passed("booted again over the network, and not installed again")

        said = one.served()
        assert said.count("boots the installer of small") == 3 and "refused" not in said
        shown = muster("os", "status", "--format", "json", home=one.home)
        assert json.loads(shown.stdout)["nodes"][0]["state"] == "installed"
    with capsys.disabled():
        print(f"\n{NAME}, without hardware virtualisation:", *times, sep="\n")


def _answers(one: Site) -> bool:
    try:
        return one.run("echo", "up").strip() == "up"
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return False
