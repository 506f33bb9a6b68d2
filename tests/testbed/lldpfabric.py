"""An Ethernet fabric of network namespaces: nodes and switches with lldpd, cabled by veth pairs as a plan
says. Needs root and lldpd."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedEnd, Tier
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
# How many neighbours of an interface count as heard of: each has one.
_SECONDS = 30.0


def require_lldp() -> None:
    require(os.geteuid() == 0, "needs root for network namespaces")
    missing = [name
               for name in ("ip", "lldpd", "lldpctl", "lldpcli") if shutil.which(name, path=_PATH) is None]
    require(not missing, f"no {', '.join(missing)} here: apt-get install -y lldpd iproute2")


@dataclass(frozen=True)
class LldpFabric:
    """A running one: `spaces` are the namespaces by device. Interfaces are called as the plan's ports."""

    folder: Path
    plan: CablingPlan
    spaces: dict[str, str]
    sockets: Path

    def socket(self, device: str) -> str:
        return str(self.sockets / f"{device}.sock")

    def lldpctl(self, device: str, *words: str) -> str:
        """What lldpctl prints on a device."""
        return subprocess.run(["lldpctl", "-u", self.socket(device), *words], capture_output=True, text=True,
                              timeout=20, check=True,
                              env={**os.environ, "PATH": _PATH}).stdout

    def look(self, folder: Path, devices: Sequence[str] | None = None, form: str = "json0") -> Path:
        """Saves what lldpctl prints on these devices, or all hosts."""
        folder.mkdir(parents=True)
        hosts = [name for name, device in self.plan.devices.items() if device.tier is Tier.HOST]
        for name in hosts if devices is None else devices:
            (folder / f"lldp-{name}.{form}").write_text(self.lldpctl(name, "-f", form))
        return folder

    def heard(self) -> None:
        """Waits until every device has heard of each of its neighbours."""
        for device in self.spaces:
            ports = {end.port for cable in self.plan.cables
                     for end in (cable.a, cable.b) if end.device == device}
            wait_until(lambda device=device, ports=ports: all(
                f'"name": "{port}"' in self.lldpctl(device, "-f", "json0") for port in ports),
                       seconds=_SECONDS, what=f"LLDP of {device}")


@contextlib.contextmanager
def cabled(folder: Path, plan: CablingPlan,
           there: Sequence[PlannedCable] | None = None) -> Iterator[LldpFabric]:
    """The plan's devices, with these cables between them, or the plan's; gone afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    tag = f"ml{secrets.token_hex(3)}"
    with contextlib.ExitStack() as stack:
        # lldpcli is of the user _lldpd, who cannot enter a folder of a test.
        sockets = Path(stack.enter_context(tempfile.TemporaryDirectory(dir="/run")))
        sockets.chmod(0o755)
        made = LldpFabric(folder, CablingPlan(plan.devices, tuple(plan.cables if there is None else there)),
                          {name: f"{tag}-{at}" for at, name in enumerate(plan.devices)}, sockets)
        for name, space in made.spaces.items():
            _run("ip", "netns", "add", space)
            stack.callback(subprocess.run, ["ip", "netns", "del", space], check=False,
                           env={**os.environ, "PATH": _PATH})
            host = plan.devices[name].tier is Tier.HOST
            # lldpd tells that it is a router where it forwards.
            for path in ("/proc/sys/net/ipv4/conf/all/forwarding", "/proc/sys/net/ipv6/conf/all/forwarding"):
                _run("ip", "netns", "exec", space, "sh", "-c", f"echo {0 if host else 1} > {path}")
        for at, cable in enumerate(made.plan.cables):
            one, other = f"{tag}a{at}", f"{tag}b{at}"
            _run("ip", "link", "add", one, "type", "veth", "peer", "name", other)
            for end, temporary in ((cable.a, one), (cable.b, other)):
                _into(made, end, temporary)
        for name, space in made.spaces.items():
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            process = subprocess.Popen(["ip", "netns", "exec", space, "lldpd", "-d", "-u", made.socket(name),
                                        "-I", "*"], stdin=subprocess.DEVNULL, stdout=log,
                                       stderr=log, env={**os.environ, "PATH": _PATH})
            stack.callback(process.wait, 10)
            stack.callback(process.terminate)
            # It reads its configuration by a lldpcli of its own, and sends nothing before; what comes between
            # stops it from sending at all.
            wait_until(lambda name=name: "resume operations" in (folder / f"{name}.log").read_text(
                errors="replace"), what=f"lldpd of {name}")
            _run("lldpcli", "-u", made.socket(name), "configure", "system", "hostname", name)
            _run("lldpcli", "-u", made.socket(name), "configure", "lldp", "tx-interval", "1")
        made.heard()
        yield made


def _into(made: LldpFabric, end: PlannedEnd, temporary: str) -> None:
    space = made.spaces[end.device]
    _run("ip", "link", "set", temporary, "netns", space, "name", end.port, "up")


def _run(*words: str) -> None:
    done = subprocess.run(words, capture_output=True, text=True, timeout=30, check=False,
                          env={**os.environ, "PATH": _PATH})
    assert done.returncode == 0, (words, done.stderr)
