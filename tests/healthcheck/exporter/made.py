"""Fleets made by hand, for tests and the benchmark of the exporter."""

from __future__ import annotations

from typing import Any

from healthcheck.exporter.fleet import Process
from healthcheck.exporter.source import FleetStatus, HeadStatus, NodeNow
from healthcheck.store.newest import Newest, NotPassed
from healthcheck.store.telemetry import GpuTelemetry, PortTelemetry, Telemetry
from inventory.model import Node

NOW = 1_800_000_000.0
PROCESS = Process("0.1", "3.11", 1.5, 1e7, NOW - 60, 9)
FAILED = NotPassed("gpu-ecc-uncorrected", "fail", "critical", "vendor", 1)
DARK = NotPassed("nvlink-active", "unknown", "critical", "", 0)
PROBES = tuple((f"probe.{number:02}", "done", 0.01 * number) for number in range(60))


def gpu(index: int, serial: str = "1650123", **changes: Any) -> GpuTelemetry:
    """One H100."""
    values: dict[str, Any] = {
        "pci": f"0000:{0x18 + index:02x}:00.0", "index": index, "id": f"GPU-5f3c9a8e-{serial}-{index}",
        "serial": f"{serial}{index}", "model": "NVIDIA H100 80GB HBM3", "vbios": "96.00.74.00.01",
        "temperature": 31.0 + index, "watts": 72.5, "ecc_corrected_lifetime": 0.0,
        "counts": {}, **changes}
    return GpuTelemetry(**values)


def shown(gpus: int = 8, ports: int = 10, **changes: Any) -> Telemetry:
    """A node of so many GPUs and ports."""
    values: dict[str, Any] = {
        "probes": PROBES, "gpus": tuple(gpu(index) for index in range(gpus)),
        "ports": tuple(PortTelemetry(f"mlx5_{n}/1", f"0000:{0x40 + n:02x}:00.0", 0.0) for n in range(ports)),
        "driver": "550.54.15", "kernel": "5.15.0-105-generic", "boot": "b00t", **changes}
    return Telemetry(**values)


TOTALS = {"ecc_uncorrected": 0.0, "rows_corrected": 0.0, "rows_uncorrected": 0.0, "slow_thermal": 0.0,
          "slow_power_brake": 0.0}


def newest(
    node: str = "gpu001", *not_passed: NotPassed, age: float = 60.0, state: str = "healthy", **changes: Any,
) -> Newest:
    """A look so many seconds ago."""
    values: dict[str, Any] = {
        "node": node, "time": NOW - age, "rules": "d" * 64, "state": state, "reason": "", "stage": None,
        "sku": "hgx-h100", "statuses": {"pass": 180, "fail": 0, "unknown": 0, "skipped": 40},
        "not_passed": not_passed, "probes_unseen": 0, "shown": shown(),
        "totals": TOTALS, "xids": {}, **changes}
    return Newest(**values)


def node(name: str = "gpu001", **changes: Any) -> Node:
    return Node(name, **{"rack": "r1", "leaf": ("leaf1",), "sku": "hgx-h100", **changes})


def at(
    name: str = "gpu001", *not_passed: NotPassed, cordons: tuple[tuple[str, str], ...] = (), **changes: Any,
) -> NodeNow:
    """A node of the inventory with its newest look."""
    return NodeNow(name, node(name), newest(name, *not_passed, **changes), cordons)


def fleet(*nodes: NodeNow, **changes: Any) -> FleetStatus:
    """A fleet with a head that has swept."""
    values: dict[str, Any] = {"head": HeadStatus(sweeps=3, sweep_started=NOW - 60, sweep_finished=NOW - 55,
                                                 sweep_nodes=len(nodes)),
                              **changes}
    return FleetStatus(nodes, **values)
