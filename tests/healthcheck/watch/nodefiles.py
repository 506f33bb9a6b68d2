"""What nodes hold in their files and say by NVML while a fault goes on: samples of a healthy busy machine of
8 GPUs, changed by one fault.

A fault is a function of the seconds since it began; it says what is other than on a healthy machine, which
counters only grow.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine, network

GPU = 3     # the GPU that has a fault, by its number
IB = "/sys/class/infiniband/mlx5_3"
GROUP = "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_4711/cpu.stat"
NA = {"na": True}
TIMES = ("slowdown_power_ns", "slowdown_thermal_ns", "slowdown_hw_thermal_ns", "slowdown_hw_power_brake_ns",
         "slowdown_sw_thermal_ns")
# What a node does anyway in a second.
USUAL: Mapping[str, float] = {"out": 5000, "requests": 100}

Change = Mapping[str, Any]


def gpu(**readings: Any) -> Change:
    """These readings of GPU 3."""
    return {"gpu": {name: value if value is NA else machine.reading(value)
                    for name, value in readings.items()}}


def load(**values: float) -> Change:
    """What the kernel has counted more than on a healthy node, by name of `_load`."""
    return {"load": values}


def files(probe: str, **texts: str) -> Change:
    """Files of a probe, by what their path ends with ("__" for "/")."""
    return {"files": (probe, {name.replace("__", "/"): text for name, text in texts.items()})}


def _throttled(name: str, share: float, **readings: Any) -> Callable[[float], Change]:
    return lambda seconds: gpu(**{name: int(share * seconds * 1e9), "clock_sm_mhz": 1200, **readings})


def _without_times(reasons: int) -> Callable[[float], Change]:
    return lambda seconds: gpu(**dict.fromkeys(TIMES, NA), clock_reasons=reasons, clock_sm_mhz=1200)


FAULTS: Mapping[str, Callable[[float], Change]] = {
    "heat": _throttled("slowdown_thermal_ns", 0.4, clock_reasons=0x20, temperature_c=91),
    "heat, by hardware": _throttled("slowdown_hw_thermal_ns", 0.4, clock_reasons=0x48, temperature_c=94),
    "heat, a driver without times": _without_times(0x40),
    "power brake": _throttled("slowdown_hw_power_brake_ns", 0.5, clock_reasons=0x88),
    "power cap": _throttled("slowdown_power_ns", 0.7, clock_reasons=0x4),
    "power, a driver without times": _without_times(0x80),
    "locked clocks": lambda _: gpu(clock_sm_mhz=1200, clock_reasons=0x2),
    "corrected errors of a GPU": lambda seconds: gpu(ecc_corrected=int(40 * seconds)),
    "corrected errors of a DIMM": lambda seconds: files("memory.edac",
                                                        dimm1__dimm_ce_count=f"{int(30 * seconds)}\n"),
    "PCIe lanes": lambda _: gpu(pcie_width=4),
    "PCIe generation": lambda _: gpu(pcie_generation=1),
    "PCIe replays": lambda seconds: gpu(pcie_replays=int(20 * seconds)),
    "memory pressure": lambda seconds: load(memory=0.3 * seconds, io=0.2 * seconds),
    "swapping": lambda seconds: load(swapped=2000 * seconds),
    "steal": lambda seconds: load(steal=3.2 * seconds),
    "a neighbour": lambda seconds: load(cpu=0.6 * seconds),
    "a quota": lambda seconds: load(quota=0.5 * seconds),
    "disk pressure": lambda seconds: load(io=0.6 * seconds),
    "slow requests": lambda seconds: load(spent=20 * seconds),
    "a port that flaps": lambda seconds: files("port.sysfs", link_downed=f"{int(seconds // 40)}\n"),
    "a port with errors": lambda seconds: files("port.counters", link_error_recovery=f"{int(2 * seconds)}\n"),
    "a port with timeouts": lambda seconds: files("port.counters",
                                                  local_ack_timeout_err=f"{int(4 * seconds)}\n"),
    "a port at half speed": lambda _: files("port.sysfs", rate="200 Gb/sec (4X HDR)\n"),
    "a port with one lane": lambda _: files("port.sysfs", rate="100 Gb/sec (1X NDR)\n"),
    "a port that is down": lambda _: files("port.sysfs", state="1: DOWN\n", phys_state="2: Polling\n"),
    "an interface that flaps": lambda seconds: files("netdev.sysfs",
                                                     eno3__carrier_down_count=f"{2 + int(seconds // 40)}\n"),
    "an interface at a tenth": lambda _: files("netdev.sysfs", eno3__speed="1000\n"),
    "an interface without a link": lambda _: files("netdev.sysfs", eno3__operstate="down\n"),
    "an interface with errors": lambda seconds: {
        "rows": f"1000 1000 {int(5 * seconds)} 0 0 0 0 0 1000 1000 0 0 0 0 0 0"},
    "segments sent again": lambda seconds: load(again=100 * seconds),
    "an NVLink that recovers": lambda seconds: {"gpu": {"nvlinks": machine.nvlinks(
        link5=[1, 7, 26562, 2, "0000:06:00.0", int(seconds), int(seconds / 3), 0, 0, 0])}},
    "an adapter's PCIe lanes": lambda _: files("hca.sysfs", device__current_link_width="4\n"),
}


def sample(host: str, time: float, fault: str = "", since: float = float("inf")) -> Recording:
    """What the node says at this time; the fault began at `since`."""
    change = FAULTS[fault](time - since) if fault and time > since else {}
    held = {**machine.captures(), "gpu.nvml": _gpus(change.get("gpu", {})),
            "watch.load": _load(time, change.get("load", {}))}
    if "rows" in change:
        held["netdev.sysfs"] = network.netdev(rows={"eno3": change["rows"]})
    if "files" in change:
        probe, texts = change["files"]
        held[probe] = _replaced(held[probe], texts)
    return Recording(host, time, replace(machine.HOST, hostname=host, time=time), None, held)


def _replaced(capture: Capture, texts: Mapping[str, str]) -> Capture:
    """Files of the first device of several: of an RDMA device those of mlx5_3."""
    found = dict(capture.files)
    for end, text in texts.items():
        (path,) = [one for one in found if one.endswith(f"/{end}") and (IB in one or "infiniband" not in one)]
        found[path] = FileCapture(Outcome.DONE, text)
    return replace(capture, files=found)


def _gpus(readings: Mapping[str, Any]) -> Capture:
    """NVML's answer on a machine that computes."""
    lines = []
    first, *rest = [json.loads(line) for line in machine.nvml().text.splitlines()]
    for line in rest:
        line |= {"utilization_percent": machine.reading(97), "clock_reasons": machine.reading(0),
                 "temperature_c": machine.reading(66)}
        lines.append({**line, **readings} if line["index"] == GPU else line)
    return replace(machine.nvml(), text="".join(json.dumps(line) + "\n" for line in (first, *lines)))


def _load(time: float, more: Mapping[str, float]) -> Capture:
    """The kernel's counters since boot. `memory`, `cpu`, `io`, `quota`, `spent` and `steal` (of all CPUs) are
    seconds, `swapped` pages, `again` segments."""
    def pressure(name: str) -> str:
        return (f"some avg10=0.00 avg60=0.00 avg300=0.00 "
                f"total={int(1e6 * (0.01 * time + more.get(name, 0)))}\n")

    ticks, stolen = int(100 * 16 * time), int(100 * more.get("steal", 0))
    requests = int(USUAL["requests"] * time)
    texts = {
        **{f"/proc/pressure/{name}": pressure(name) for name in ("cpu", "memory", "io")
           }, "/proc/stat": f"cpu  {ticks // 2} 0 0 {ticks // 2 - stolen} 0 0 0 {stolen} 0 0\n",
        "/proc/vmstat": f"nr_free_pages 5\npswpin {int(more.get('swapped', 0))}\n",
        "/proc/diskstats": f"   259       0 nvme0n1 {requests} 0 800 "
        f"{int(requests + 1000 * more.get('spent', 0))} 0 0 0 0 0 60 100\n",
        "/proc/net/snmp": f"Tcp: OutSegs RetransSegs\nTcp: {int(USUAL['out'] * time)} "
                          f"{int(more.get('again', 0))}\n",
        GROUP: f"usage_usec 5\nthrottled_usec {int(1e6 * more.get('quota', 0))}\n",}
    return machine.done(**texts)
