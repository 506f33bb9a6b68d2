"""A virtual machine goes from power-off over own PXE, through an installer, to an installed system that
phones home; it is killed while it loads the installer, while it writes the disk, and in its first boot."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from provisioning.osinstall.base import OsState
from provisioning.osinstall.pxe.record import InstallationStage
from tests.command import muster
from tests.provisioning.osinstall.pxesite import MINUTES, NAME, answers, site
from tests.testbed.sshd import wait_until
from tests.testbed.vm.diskimage import require_installer
from tests.testbed.vm.pxe import require_pxe, require_uefi


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("mode", "firmware"),
                         [("proxy", "bios"), ("full", "uefi"), ("proxy", "uefi"), ("full", "uefi-http")])
def test_every_firmware_reaches_its_script_beside_another_server_too(tmp_path: Path, mode: str,
                                                                     firmware: str) -> None:
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
@pytest.mark.timeout(MINUTES * 60 + 300)
def test_a_machine_is_installed_over_own_pxe_though_it_is_killed_three_times(
        tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
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
        wait_until(lambda: "Run /init as init process" in vm.console().rpartition("testbed: installed")[2]
                   or "systemd[1]" in vm.console().rpartition(
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
        wait_until(lambda: answers(one), 300, "its SSH server")
        assert one.run("cat", "/etc/hostname").strip() == NAME
        assert one.run("cat", "/etc/ssh/ssh_host_ed25519_key.pub").split()[:2] == found.host_keys[0].split()
        wait_until(lambda: one.run("ls -d /etc/muster-firstboot 2>/dev/null || echo gone").strip() == "gone",
                   60, "the end of its token")
        assert "gone" in one.run(
            "ls /etc/systemd/system/multi-user.target.wants/muster-firstboot.service 2>/dev/null || "
            "echo gone")
        one.run("echo kept > /root/kept; sync")

        # However often it boots over the network now, it is not installed again.
        vm.turn(False)
        vm.turn(True, network=True)
        one.until("boots from its disk", 4)
        wait_until(lambda: answers(one), 480, f"its SSH server: {vm.console()[-2000:]}")
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
