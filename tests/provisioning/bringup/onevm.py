"""A site of one virtual machine, whose emulated Redfish controller starts it, also by PXE."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from inventory.load import load_inventory
from inventory.model import LifecycleState
from tests.testbed.bmcs import Bed, Machine, rack
from tests.testbed.planted import private
from tests.testbed.sshd import make_key, public
from tests.testbed.vm.images import releases
from tests.testbed.vm.netimage import netimage
from tests.testbed.vm.pxe import Lab, lab

NAME = "vm1"
_VM = Machine(NAME, gpus=0, cpus=1, dimms=1, drives=1, nics=1, psus=1)

# What the site settings: one BIOS setting, and a boot by PXE. Burn-in needs PyTorch and a GPU or hours, and
# without it there is no certificate.
_BRINGUP = """\
boot: {target: pxe}
os: {marker: {file: /etc/site-image, holds: the lab}}
power: {answer_minutes: 0.05}
bios:
- {id: turbo, vendor: "Contoso", settings: {ProcTurboMode: Enabled}, source: the site}
checks: {between_seconds: 20}
without: [leased, burnin, certificate]
"""
# What the packaged rules leave for each site to say.
_RULES = """\
- {id: service-expected, with: {names: [ssh, chrony]}}
- {id: module-expected, with: {names: [virtio_net]}}
- {id: host-cmdline, with: {expected: ["tsc=reliable"]}}
"""
# It has no Docker, and the BIOS of whatever qemu there is.
_PROFILE = """\
profile: bringup
leave_out: [docker-images, host-bios]
"""


@dataclass(frozen=True)
class Site:
    """Where muster runs, the machine, and its controller."""

    home: Path
    vm: Lab
    bmc: Bed

    def lifecycle(self) -> LifecycleState:
        """The machine's, as the inventory has it."""
        return load_inventory(self.home / "muster.yaml").nodes[NAME].lifecycle.state

    def run(self, *argv: str) -> str:
        """What a command of the machine prints; its host key must be the pinned one."""
        return subprocess.run(
            ["ssh", "-F", "none", "-i", str(self.home / "key"), "-o",
             f"UserKnownHostsFile={self.home}/known_hosts", "-o", "BatchMode=yes", f"root@{self.vm.address}",
             *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True, timeout=60).stdout


@contextlib.contextmanager
def site(home: Path) -> Iterator[Site]:
    """Its inventory is `home`/muster.yaml, its rules are in `home`/rules; the machine is off."""
    key = make_key(home / "key")
    with lab(home / "lab", netimage(releases("6.1.")[0]),
             {"root/.ssh/authorized_keys": f"{public(key)}\n", "etc/site-image": "the lab's\n"},
             serial=_VM.number, uuid=_VM.uuid) as vm:
        def power(name: str, on: bool) -> None:
            vm.turn(on, network=bmc.boots.get(name) == "Pxe")

        with rack(home / "rack", [_VM], on_power=power, power_s=1.0, post_s=2.0) as bmc:
            secret = private(home / "bmc.password", f"{bmc.password}\n")
            (home / "muster.yaml").write_text(
                "version: 1\n"
                "nodes:\n"
                f"  {NAME}:\n"
                "    sku: cpu-only\n"
                "    lifecycle: planned\n"
                "    rack: r1\n"
                f"    address: {vm.address}\n"
                "    user: root\n"
                f"    identity_file: {key}\n"
                f"    known_hosts_file: {home}/known_hosts\n"
                f"    bmc: {{address: {bmc.address(NAME)}, port: {bmc.port}, user: {bmc.user}, tls: pin, "
                f"password: {{file: {secret}}}}}\n")
            for name, text in (("bringup", _BRINGUP), ("site", _RULES), ("profile/bringup", _PROFILE)):
                path = home / "rules" / f"{name}.yaml"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            yield Site(home, vm, bmc)
