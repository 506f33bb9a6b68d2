"""A simulated NVL72: recordings of the 18 compute trays of a rack, all made from one, with what each tray's
NVML, systemd and nvidia-imex-ctl say of it.

The document of nvidia-imex-ctl has the form that NVIDIA's own tests of it give, seen on machines: by number
each node with its address, host name, state, version and connections. What a link shows of its remote end is
not relied on, and not simulated.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from healthcheck.facts.imex import ADDRESSES, DOMAIN, NODES, PATH
from healthcheck.model.outcome import NodeReport
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.ruleset.ruleset import Ruleset
from inventory.model import Node
from tests import packagedrules
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed

TRAYS, GPUS, LINKS = 18, 4, 18
UUIDS = {"r3": "5cd30dc8-4cb0-4f8a-9c5e-000000000003", "r4": "5cd30dc8-4cb0-4f8a-9c5e-000000000004"}
CHASSIS = {"r3": "1821325191344", "r4": "1821325191345"}
VERSION = "580.95.05"
RULES: Ruleset = packagedrules.RULES.select(only=["nvlink-*", "fleet-nvlink*"],
                                            skip=["nvlink-*errors*", "fleet-nvlink-errors"])


@dataclass(frozen=True)
class Tray:
    """One compute tray: its entry in the inventory, and what is measured there."""

    name: str
    domain: str | None
    address: str
    chassis: str
    tray: int
    cluster: str
    nodes: tuple[str, ...]
    clique: int = 1
    partition: str = ""
    odd_cliques: tuple[tuple[int, int], ...] = ()       # GPU and clique
    down: tuple[tuple[int, int], ...] = ()              # GPU and link
    odd_trays: tuple[tuple[int, int], ...] = ()         # GPU and tray
    imex: str = "active/running"
    state: str = "READY"                                # of the running service by itself
    seen: str = "READY"                                 # and as its peers see it
    absent: bool = False                                # it is not swept
    # GPU 2 does not tell its place, nor the state of a link; the list is hidden
    unread: bool = False
    version: str = VERSION
    silent: bool = False                                # nvidia-imex-ctl does not answer in time
    deaf: frozenset[str] = field(default_factory=frozenset)     # peers with which it is not connected

    @property
    def ready(self) -> bool:
        return self.imex == "active/running"


def rack(name: str = "r3") -> list[Tray]:
    """The healthy rack."""
    addresses = tuple(f"10.0.{name[1:]}.{10 + tray}" for tray in range(TRAYS))
    return [Tray(f"{name}-{tray:02d}", name, addresses[tray], CHASSIS[name], tray, UUIDS[name], addresses)
            for tray in range(TRAYS)]


def sweep(trays: Sequence[Tray], rules: Ruleset = RULES, sku: str = "gb200-nvl72") -> dict[str, NodeReport]:
    """The reports of a sweep of these trays, by node."""
    nodes = [Node(tray.name, sku=sku, rack=tray.domain, nvlink_domain=tray.domain,
                  labels={"nvlink_partition": tray.partition} if tray.partition else {})
             for tray in trays if not tray.absent]
    seen = [recording(tray, trays) for tray in trays if not tray.absent]
    return {report.node: report for report in assessed(*seen, nodes=nodes, rules=rules).reports}


def recording(tray: Tray, trays: Iterable[Tray]) -> Recording:
    """What the collector brings from a tray, while its rack is in this state."""
    listed = [other for other in trays if other.address in tray.nodes]
    listing = machine.done(**{PATH: "# the rack\n" + "".join(f"{node}\n" for node in tray.nodes)})
    return machine.recording(
        tray.name, gpu_nvml=_nvml(tray), gpu_pci=_pci(),
        service_nvidia=machine.services(imex=tray.imex, fabricmanager=""),
        **{NODES.id.replace(".", "_"): machine.denied(PATH) if tray.unread else listing,
           ADDRESSES.id.replace(".", "_"): asked(f"{tray.address} 192.168.7.{tray.tray} fe80::1\n"),
           DOMAIN.id.replace(".", "_"): timeout() if tray.silent else asked(imex(tray, listed))})


def asked(text: str, code: int = 0) -> Capture:
    """A command that ran for the list of nodes."""
    return Capture(Outcome.DONE, seconds=0.2, bytes=len(text),
                   files={PATH: FileCapture(Outcome.DONE, f"exit {code}\n{text}")})


def timeout() -> Capture:
    return Capture(Outcome.DONE, seconds=10.0, bytes=0,
                   files={PATH: FileCapture(Outcome.TIMEOUT, "did not answer")})


def imex(tray: Tray, listed: Sequence[Tray]) -> str:
    """The document of nvidia-imex-ctl -N -j."""
    def linked(one: Tray, other: Tray) -> str:
        if not one.ready or not other.ready:
            return "INVALID"
        differ = one.version != other.version or one.nodes != other.nodes
        return "DISCONNECTED" if differ or other.name in one.deaf or one.name in other.deaf else "CONNECTED"

    nodes = {str(number): {
        "status": _state(tray, one), "host": one.address, "hostName": "N/A",
        "version": one.version if one.ready else "N/A",
        "connections": {str(at): {"host": other.address, "status": linked(one, other), "changed": True}
                        for at, other in enumerate(listed)},
    } for number, one in enumerate(listed)}
    up = all(_state(tray, one) == "READY" for one in listed) and all(linked(one, other) == "CONNECTED"
                                                                     for one in listed for other in listed)
    return json.dumps({"nodes": nodes, "timestamp": "11/27/2026 01:00:00.000",
                       "status": "UP" if up else "DEGRADED"})


def _state(by: Tray, one: Tray) -> str:
    return "UNAVAILABLE" if not one.ready else one.state if by is one else one.seen


def _slot(tray: int) -> int:
    """Nine switch trays are between the upper and the lower compute trays."""
    return tray + 1 + 9 * (tray > 8)


def _nvml(tray: Tray) -> Capture:
    odd, trays = dict(tray.odd_cliques), dict(tray.odd_trays)
    changes = {f"gpu{gpu}": {
        **_gb200(), "nvlinks": _links(frozenset(link for of, link in tray.down if of == gpu)),
        **{key: {"ok": value} for key, value in (
            ("fabric_cluster", tray.cluster), ("fabric_clique", odd.get(gpu, tray.clique)),
            ("chassis_serial", tray.chassis),
            ("slot_number", _slot(trays.get(gpu, tray.tray))), ("tray_index", trays.get(gpu, tray.tray)),
            ("host_id", 1),
            ("peer_type", "switch_connected"), ("module_id", gpu + 1))},
    } for gpu in range(GPUS)}
    if tray.unread:
        links = [list(row) for row in changes["gpu2"]["nvlinks"]["ok"]]
        links[3][0] = -999
        changes["gpu2"] |= {"chassis_serial": {"error": [999, "Unknown Error"]}, "nvlinks": {"ok": links}}
    return machine.nvml(GPUS, **changes)


@cache
def _pci() -> Capture:
    return machine.done(
        **{
            f"/sys/bus/pci/devices/"
            f"{gpu:04x}:01:00.0/"
            f"uevent": f"DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2941\nPCI_SLOT_NAME={gpu:04x}:01:00.0\n"
            for gpu in range(GPUS)})


@cache
def _gb200() -> dict[str, Any]:
    return {"name": {"ok": "NVIDIA GB200"}, "architecture": {"ok": "blackwell"},
            "memory_bytes": {"ok": 189471 << 20}}


@cache
def _links(down: frozenset[int]) -> dict[str, Any]:
    """Eighteen links at 53.125 GB/s; of one that is down nothing else is shown."""
    return {"ok": [[0, 8, 0, -3, -3, *[0] * 5] if link in down else [1, 8, 53125, 2, "0000:00:00.0", *[0] * 5]
                   for link in range(LINKS)]}


def changed(trays: Sequence[Tray], *numbers: int, **changes: Any) -> list[Tray]:
    """The trays, these of them with changes."""
    return [replace(tray, **changes) if at in numbers else tray for at, tray in enumerate(trays)]
