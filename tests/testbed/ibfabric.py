"""A simulated InfiniBand fabric: ibsim with the topology of a cabling plan, opensm and infiniband-diags on
it, without any hardware.

ibsim 0.10 reads ibnetdiscover's own form, with traps of which the form below keeps clear: GUIDs must be given
(`switchguid=`, `caguid=`), as it takes none from the node's id; the library makes a folder `sys-<pid>` where
a tool runs, which stays if the tool is killed; and a line's width and rate are read only after a description
and a LID (`# "x" lid 0 4xHDR`): SDR, DDR, QDR, FDR10, FDR, EDR and HDR; NDR comes up as SDR.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, PlannedDevice, PlannedEnd, Tier
from tests.testbed.processes import stop
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

_LIBRARY = "umad2sim/libumad2sim.so"
_PROGRAMS = ("ibsim", "opensm", "ibnetdiscover", "iblinkinfo", "ibqueryerrors", "saquery", "sminfo",
             "perfquery", "smpquery")
# What a look at a fabric takes, by the name of the file that it is saved in.
LOOK: Mapping[str, tuple[str, ...]] = {
    "ibnetdiscover": ("ibnetdiscover",),
    "ibnetdiscover-p": ("ibnetdiscover", "-p"),
    "iblinkinfo": ("iblinkinfo", "--line"),
    "ibqueryerrors": ("ibqueryerrors",),
    "ibqueryerrors-data": ("ibqueryerrors", "--counters"),
    "saquery-smir": ("saquery", "SMIR"),
    "saquery-issm": ("saquery", "-s"),
    "sminfo": ("sminfo",),
}


def library() -> Path | None:
    """The library that leads the tools to ibsim."""
    return next(Path("/usr/lib").glob(f"*/{_LIBRARY}"), None)


def require_fabric() -> None:
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    require(not missing
            and library(),
            f"no {', '.join(missing) or _LIBRARY} here: apt-get install -y ibsim-utils "
            f"infiniband-diags opensm")


_ATTEMPTS = 3
_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def two_tiers(hosts: int = 32, per_leaf: int = 8, spines: int = 2, uplinks: int = 1,
              rails: int = 1) -> CablingPlan:
    """A fat tree of two tiers: leaf01.. with `per_leaf` hosts each (with rails, a leaf for each rail), and
    `uplinks` cables from each leaf to each spine. Hosts are gpu001.., their ports mlx5_0.."""
    devices: dict[str, PlannedDevice] = {}
    cables: list[PlannedCable] = []
    groups = -(-hosts // per_leaf)
    for spine in range(spines):
        devices[f"spine{spine + 1:02d}"] = PlannedDevice(f"spine{spine + 1:02d}", Tier.SPINE,
                                                         f"n{spine // 4 + 1:02d}")
    for group in range(groups):
        for rail in range(rails):
            leaf = f"leaf{group * rails + rail + 1:02d}"
            devices[leaf] = PlannedDevice(leaf, Tier.LEAF, f"r{group + 1:02d}")
            for spine in range(spines):
                for uplink in range(uplinks):
                    cables.append(_cable(leaf, per_leaf + spine * uplinks + uplink + 1,
                                         f"spine{spine + 1:02d}",
                                         (group * rails + rail) * uplinks + uplink + 1))
    for host in range(hosts):
        name, group = f"gpu{host + 1:03d}", host // per_leaf
        devices[name] = PlannedDevice(name, Tier.HOST, f"r{group + 1:02d}")
        for rail in range(rails):
            cables.append(_cable(name, f"mlx5_{rail}", f"leaf{group * rails + rail + 1:02d}",
                                 host % per_leaf + 1))
    return CablingPlan(devices, tuple(cables))


def _cable(lower: str, port: object, upper: str, number: int) -> PlannedCable:
    return PlannedCable(PlannedEnd(lower, str(port)), PlannedEnd(upper, str(number)), width=4, speed="HDR")


@dataclass(frozen=True)
class NetPort:
    """One end of a cable as ibsim names it."""

    node: str
    number: int

    def __str__(self) -> str:
        return f'"{self.node}"[{self.number}]'


def net_ports(plan: CablingPlan) -> dict[PlannedEnd, NetPort]:
    """Each planned end in the simulator: a host's ports are an adapter each, a switch's are its numbers."""
    guids = node_guids(plan)
    return {end: NetPort(f"H-{guids[end.device, end.port]}", 1) if plan.devices[end.device].tier is Tier.HOST
            else NetPort(f"S-{guids[end.device, '']}", int(end.port)) for cable in plan.cables
            for end in (cable.a, cable.b)}


def node_guids(plan: CablingPlan) -> dict[tuple[str, str], str]:
    """Node GUIDs: of a switch by (name, ""), of an adapter by (host, port). A port's own GUID is one more."""
    found: dict[tuple[str, str], str] = {}
    for at, device in enumerate(plan.devices.values()):
        if device.tier is not Tier.HOST:
            found[device.name, ""] = f"{0xB8CEF60000000000 + at * 0x100:016x}"
    for at, end in enumerate(sorted({end for cable in plan.cables for end in (cable.a, cable.b)
                                     if plan.devices[end.device].tier is Tier.HOST})):
        found[end.device, end.port] = f"{0xA088C20300000000 + at * 0x10:016x}"
    return found


def topology(plan: CablingPlan, rates: Mapping[PlannedCable, str] | None = None,
             descriptions: Mapping[tuple[str, str], str] | None = None) -> str:
    """The plan in the form that ibsim reads. `rates` are those of cables that are not as planned ("1xHDR"),
    `descriptions` those of devices (by the keys of `node_guids`) that call themselves otherwise than "leaf01"
    and "gpu001 mlx5_0"."""
    rates, descriptions = rates or {}, descriptions or {}
    there = net_ports(plan)
    ports = max(40, *(port.number for port in there.values()))
    lines: dict[str, list[str]] = {}
    for cable in plan.cables:
        words = '# "x" lid 0 ' + rates.get(cable, f"{cable.width or 4}x{cable.speed or 'HDR'}")
        for end, other in ((cable.a, cable.b), (cable.b, cable.a)):
            lines.setdefault(there[end].node, []).append(f"[{there[end].number}] {there[other]} {words}")
    made: list[str] = []
    for (name, port), guid in node_guids(plan).items():
        node, kind = (f"H-{guid}", "Ca 1") if port else (f"S-{guid}", f"Switch {ports}")
        own = descriptions.get((name, port), f"{name} {port}".strip())
        made += [f"{'ca' if port else 'switch'}guid=0x{guid}", f'{kind} "{node}"  # "{own}"',
                 *lines.get(node, ()), ""]
    return "\n".join(made)


@dataclass
class Fabric:
    """A running one. `there` is where each planned end is in the simulator."""

    folder: Path
    plan: CablingPlan
    there: Mapping[PlannedEnd, NetPort]
    socket: str
    _console: IO[str]
    _stack: contextlib.ExitStack
    _managers: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def environment(self, host: str | None = None) -> dict[str, str]:
        """In which the tools meet this fabric; on `host`'s first adapter, or the first in the topology."""
        return {**os.environ, "PATH": _PATH, "LD_PRELOAD": str(library()), "IBSIM_SOCKNAME": self.socket,
                "LC_ALL": "C",
                **({"SIM_HOST": self.adapter(host).node} if host else {})}

    def adapter(self, host: str) -> NetPort:
        """A host's first adapter."""
        return next(port for end, port in sorted(self.there.items()) if end.device == host)

    def tell(self, *commands: str) -> None:
        """Commands of the simulator's console; they are carried out in order, before whatever a tool asks
        afterwards."""
        for command in commands:
            self._console.write(f"{command}\n")
        self._console.flush()
        marker = secrets.token_hex(8)
        self._console.write(f"#{marker}\n")
        self._console.flush()
        wait_until(lambda: marker in (self.folder / "ibsim.log").read_text(errors="replace"),
                   what="the simulator's console")

    def run(self, *words: str, host: str | None = None) -> subprocess.CompletedProcess[str]:
        """One tool's output, on the host that looks at the fabric."""
        return subprocess.run(words, capture_output=True, text=True, errors="surrogateescape", timeout=120,
                              check=False, cwd=self.folder,
                              env=self.environment(host or self.observer))

    @property
    def observer(self) -> str:
        """The host that has no subnet manager and asks: the last."""
        return max(end.device for end in self.there if self.plan.devices[end.device].tier is Tier.HOST)

    def look(self, folder: Path, without: Sequence[str] = (), host: str | None = None) -> Path:
        """Saves what the tools print now on a host, or the observer: one file each, in a folder as `muster
        fabric check --from` reads it."""
        folder.mkdir(parents=True)
        for name, words in LOOK.items():
            if name not in without:
                (folder / f"{name}.txt").write_text(self.run(*words, host=host).stdout,
                                                    errors="surrogateescape")
        return folder

    def manager(self, host: str, priority: int, *more: str, state: str = "SUBNET UP") -> None:
        """Starts opensm on a host's first adapter and waits until it says that it is master, or `state`."""
        folder = self.folder / f"opensm-{host}"
        folder.mkdir()
        log, config = folder / "log", folder / "opensm.conf"
        config.write_text("force_log_flush TRUE\n")     # otherwise it keeps its lines until it ends
        guid = f"0x{int(self.adapter(host).node.removeprefix('H-'), 16) + 1:x}"
        process = subprocess.Popen(
            ["opensm", "-g", guid, "-p", str(priority), "-F", str(config), "-f", str(log), "-s", "1", *more],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, cwd=folder,
            env={**self.environment(host), "OSM_CACHE_DIR": f"{folder}/", "OSM_TMP_DIR": f"{folder}/"})
        self._managers[host] = process
        self._stack.callback(stop, process)
        wait_until(lambda: process.poll() is not None
                   or (log.exists() and state in log.read_text(errors="replace")), seconds=60,
                   what=f"opensm on {host}")
        assert (process.poll() is None), (log.read_text(errors="replace") if log.exists()
                                          else "opensm ended at once")

    def stop(self, host: str) -> None:
        """Ends the manager of a host."""
        stop(self._managers.pop(host))

    def settled(self, seconds: float = 60.0) -> None:
        """Waits until the manager has brought up every port that has a cable, and knows who else is a
        manager."""
        def up() -> bool:
            shown = self.run("iblinkinfo", "--line").stdout
            states = [line.rpartition(".")[2]
                      for line in self.run("saquery", "SMIR").stdout.splitlines() if "SMState" in line]
            return ("LinkUp" in shown and "Initialize/" not in shown and "Armed/" not in shown
                    and sorted(states) == [
                        *["2"] * (len(states) - 1), "3"] and len(states) >= len(self._managers))

        wait_until(up, seconds=seconds, what="the subnet")


@contextlib.contextmanager
def fabric(folder: Path, plan: CablingPlan, text: str | None = None,
           managers: Sequence[str] = ()) -> Iterator[Fabric]:
    """The plan's fabric, or the one of `text`, with opensm on these hosts, of which the first becomes master;
    gone afterwards."""
    # Beside much other work the simulator's packets are lost to a manager now and then, and it never learns
    # of another: begun anew then.
    for attempt in range(_ATTEMPTS):
        with contextlib.ExitStack() as stack:
            made = _started(stack, folder / f"try{attempt}", plan, text)
            try:
                for at, host in enumerate(managers):
                    made.manager(host, 10 - at, state="STANDBY" if at else "SUBNET UP")
                if managers:
                    made.settled(60.0 if attempt == _ATTEMPTS - 1 else 20.0)
            except AssertionError:
                if attempt < _ATTEMPTS - 1:
                    continue
                raise
            yield made
            return


def _started(stack: contextlib.ExitStack, folder: Path, plan: CablingPlan, text: str | None) -> Fabric:
    """The simulator, without a manager; it ends with the stack."""
    folder.mkdir(parents=True, exist_ok=True)
    net = folder / "fabric.net"
    net.write_text(topology(plan) if text is None else text)
    devices = 2 * len(plan.cables) + len(plan.devices)
    log = stack.enter_context((folder / "ibsim.log").open("wb"))
    socket = f"muster-{os.getpid()}-{secrets.token_hex(4)}"
    process = subprocess.Popen(
        ["ibsim", "-s", "-N", str(devices), "-S", str(len(plan.devices)), "-P",
         str(64 * len(plan.devices) + devices), str(net)],
        stdin=subprocess.PIPE, stdout=log, stderr=log,
        env={**os.environ, "IBSIM_SOCKNAME": socket}, text=True)
    stack.callback(process.wait, 10)
    stack.callback(process.kill)
    assert process.stdin is not None
    made = Fabric(folder, plan, net_ports(plan), socket, stack.enter_context(process.stdin), stack)
    wait_until(lambda: process.poll() is not None or b"ready" in (folder / "ibsim.log").read_bytes(),
               what="ibsim")
    assert process.poll() is None, (folder / "ibsim.log").read_text(errors="replace")
    return made
