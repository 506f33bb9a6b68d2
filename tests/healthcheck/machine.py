"""A healthy 8-GPU node as a recording, made by hand from the documented formats; tests change one capture at
a time."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from healthcheck.facts.counter import TABLE
from healthcheck.facts.firmware import DMI
from healthcheck.facts.host import SOURCE
from healthcheck.facts.kernel import KernelLog
from healthcheck.facts.module import MODULES
from healthcheck.facts.resolver import RESOLV
from healthcheck.facts.system import BACKEND, CMDLINE, OS_RELEASE, SYSCTL
from healthcheck.kernellog.carried import NO_RECORDS
from healthcheck.model.probes import Probe
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording
from provisioning.demo import host as demo_host
from provisioning.demo.machine import DemoMachine
from tests.healthcheck import network

KMSG = "".join(
    f"6,{n},{n * 1000},-;{text}\n" for n, text in enumerate((
        "Linux version 6.5.0-1019 (gcc) #20 SMP", "Command line: BOOT_IMAGE=/vmlinuz root=UUID=1 ro",
        "Memory: 2113000000K/2147483648K",
        "mlx5_core 0000:18:00.0: firmware version: 28.39.1002",
        "nvidia: loading out-of-tree module taints kernel.",
        "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode.",
    ))
)
MOUNTINFO = (
    "22 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro\n"
    "23 22 0:21 / /proc rw,nosuid - proc proc rw\n"
    "30 22 259:3 / /raid rw,relatime - xfs /dev/md0 rw,attr2\n"
    "31 22 0:40 / /home rw,relatime - nfs4 files:/home rw,vers=4.2\n"
)
FSTAB = ("# <file system> <mount point> <type> <options> <dump> <pass>\nUUID=5a1e / ext4 errors=remount-ro 0 "
         "1\n/dev/md0 /raid xfs nofail 0 2\n")
STATVFS = "4096 4096 1000000 700000 650000 500000 400000 400000 4096 255"
LARGE = "4096 4096 100000000 70000000 65000000 500000 400000 400000 4096 255"


def done(**files: str) -> Capture:
    return Capture(Outcome.DONE, seconds=0.01, bytes=1,
                   files={path: FileCapture(Outcome.DONE, text) for path, text in files.items()})


def kernel_log(text: str, earlier: str = "") -> KernelLog:
    """The fact of a log of these records, of which the kernel has lost none."""
    return KernelLog("kernel log", text, caveat="", uptime=0.0, first=0, carried=NO_RECORDS,
                     earlier=earlier, whole=True)


def denied(*paths: str) -> Capture:
    """Files that only root may read."""
    return Capture(Outcome.DONE, seconds=0.01, bytes=0,
                   files={path: FileCapture(Outcome.DENIED) for path in paths})


def docker_denied() -> Capture:
    """What the client says to a user outside the docker group."""
    said = ("permission denied while trying to connect to the Docker daemon socket at "
            "unix:///var/run/docker.sock\n")
    return Capture(Outcome.DONE, exit=1, seconds=0.1, bytes=0, stderr=said)


def reading(value: Any) -> dict[str, Any]:
    return {"ok": value}


# What a healthy idle H100 SXM5 says beside what identifies it. Memory clocks, limits and thresholds are those
# of public nvidia-smi -q.
HEALTHY_GPU: dict[str, Any] = {
    "architecture": "hopper", "part_number": "692-2G520-0200-000", "vbios": "96.00.74.00.01",
    "inforom": "G520.0200.00.05",
    "gsp_firmware": "550.54.15", "recovery_action": "none", "persistence": 1, "mig": 0, "mig_pending": 0,
    "compute_mode": "default",
    "memory_used_bytes": 0, "ecc_pending": 1, "ecc_corrected_lifetime": 0, "ecc_uncorrected_lifetime": 0,
    "sram_uncorrected_lifetime": 0,
    "sram_threshold_exceeded": 0, "sram_corrected": 0, "sram_uncorrected": 0, "sram_corrected_lifetime": 0,
    "dram_corrected": 0,
    "dram_uncorrected": 0, "dram_corrected_lifetime": 0, "dram_uncorrected_lifetime": 0,
    "channel_repair_pending": 0,
    "tpc_repair_pending": 0, "rows_corrected": 0, "rows_uncorrected": 0, "rows_pending": 0, "rows_failed": 0,
    "banks_max": 2560,
    "banks_high": 0, "banks_partial": 0, "banks_low": 0, "banks_none": 0, "pcie_generation": 5,
    "pcie_generation_max": 5, "pcie_width": 16,
    "pcie_width_max": 16, "pcie_replays": 0, "temperature_c": 31, "temperature_memory_c": 40,
    "temperature_slowdown_c": 92,
    "temperature_shutdown_c": 95, "temperature_memory_max_c": 95, "temperature_gpu_max_c": 87,
    "temperature_margin_c": 56,
    "tlimit_shutdown_c": -8, "tlimit_slowdown_c": -2, "tlimit_memory_max_c": 0, "tlimit_gpu_max_c": 0,
    "power_mw": 72000, "power_limit_mw": 700000, "power_limit_default_mw": 700000, "clock_sm_mhz": 1980,
    "clock_sm_max_mhz": 1980,
    "clock_memory_mhz": 2619, "clock_memory_max_mhz": 2619, "clock_reasons": 1, "slowdown_power_ns": 0,
    "slowdown_thermal_ns": 0,
    "slowdown_hw_thermal_ns": 0, "slowdown_hw_power_brake_ns": 0, "slowdown_sw_thermal_ns": 0,
    "utilization_percent": 0,
    "fabric_state": "completed", "fabric_status": 0, "fabric_clique": 0,
    "fabric_cluster": "00000000-0000-0000-0000-000000000000",
    # Full bandwidth, healthy routes, nothing to recover from, configured as it should be.
    "fabric_health": 0x1AA,
    "fabric_summary": "healthy",
}
# Hopper remaps rows instead of pages, not banks, and sits neither in a rack nor beside a Grace.
UNSUPPORTED_HERE = (
    "pages_retired_corrected", "pages_retired_uncorrected", "pages_pending", "rows_corrected_inactive",
    "rows_uncorrected_inactive",
    "banks_remapped", "bank_remap_none", "bank_remap_pending", "chassis_serial", "slot_number", "tray_index",
    "host_id", "peer_type",
    "module_id", "c2c_enabled", "c2c_links", "c2c_links_active", "c2c_crc_errors", "c2c_replays",
)


def nvlinks(links: int = 18, **changes: list[Any]) -> dict[str, Any]:
    """The links of one H100, to NVSwitches: state, version, MB/s, kind and address of the remote end, and
    five counters of errors."""
    return reading([changes.get(f"link{n}", [1, 7, 26562, 2, f"0000:{5 + n % 4:02x}:00.0", 0, 0, 0, 0, 0])
                    for n in range(links)])


def _gpu(index: int) -> dict[str, Any]:
    return {
        "index": index, "name": reading("NVIDIA H100 80GB HBM3"), "uuid": reading(f"GPU-{index}"),
        "serial": reading(f"16{index}"),
        "pci": reading(f"0000:{0x18 + index:02x}:00.0"), "memory_bytes": reading(85520809984),
        "ecc_mode": reading(1),
        "ecc_uncorrected": reading(0), "ecc_corrected": reading(0),
        **{key: reading(value) for key, value in HEALTHY_GPU.items()},
        "minor": reading(index), **{key: {"na": True} for key in UNSUPPORTED_HERE},
        "nvlinks": nvlinks(), "processes": reading([]), "p2p": reading([[0] * 6 for _ in range(index)]),
    }


@cache
def _gpu_line(index: int) -> str:
    return json.dumps(_gpu(index))


def nvml(gpus: int = 8, **changes: dict[str, Any]) -> Capture:
    """NVML's answer; `changes` by "gpuN" replace readings of one GPU."""
    lines = [json.dumps({"driver": reading("550.54.15"), "nvml": reading("12.550.54.15"),
                         "count": reading(gpus)})]
    for index in range(gpus):
        change = changes.get(f"gpu{index}")
        lines.append(json.dumps({**_gpu(index), **change}) if change else _gpu_line(index))
    return Capture(Outcome.DONE, seconds=0.3, bytes=1, text="\n".join(lines) + "\n")


def lost_gpus(*indexes: int, error: Sequence[Any] = (15, "GPU is lost"), gpus: int = 8) -> Capture:
    """NVML's answer in which these GPUs give no handle."""
    lines = [json.loads(line) for line in nvml(gpus).text.splitlines()]
    for index in indexes:
        lines[index + 1] = {"index": index, "error": list(error)}
    for line in lines[1:]:
        for index in indexes:
            if index < line["index"] and "p2p" in line:
                line["p2p"]["ok"][index] = None
    return replace(nvml(), text="\n".join(map(json.dumps, lines)) + "\n")


def ports(count: int = 8, **changes: str) -> Capture:
    """Files of /sys/class/infiniband; `changes` by "mlx5_3.state" replace one file's text."""
    files = {}
    for n in range(count):
        base = f"/sys/class/infiniband/mlx5_{n}"
        texts = {"ports/1/state": "4: ACTIVE\n", "ports/1/phys_state": "5: LinkUp\n",
                 "ports/1/rate": "400 Gb/sec (4X NDR)\n",
                 "ports/1/link_layer": "InfiniBand\n", "ports/1/counters/link_downed": "0\n",
                 "ports/1/counters/symbol_error": "0\n",
                 "device/uevent": f"DRIVER=mlx5_core\nPCI_SLOT_NAME=0000:{0x40 + n:02x}:00.0\n",
                 "fw_ver": "28.39.1002\n",
                 "ports/1/lid": f"{n + 1:#x}\n", "ports/1/sm_lid": "0x1\n", "board_id": "MT_0000000838\n",
                 **{f"ports/1/gids/{m}": "0000:0000:0000:0000:0000:0000:0000:0000\n" for m in (1, 2, 3)},
                 "ports/1/gids/0": f"fe80:0000:0000:0000:a088:c203:0000:{n:04x}\n",
                 **{f"ports/1/pkeys/{m}": "0x0000\n" for m in (1, 2, 3)}, "ports/1/pkeys/0": "0xffff\n"}
        for name, text in texts.items():
            files[f"{base}/{name}"] = changes.get(f"mlx5_{n}.{name.rpartition('/')[2]}", text)
    return done(**files)


def counters(count: int = 8, **changes: str) -> Capture:
    """The ports' error counters, of other drivers' those in `changes`: by "mlx5_3.symbol_error" they replace
    one file's text."""
    named = {name.partition(".")[2] for name in changes}
    names = {counter.name: counter.folder for counter in TABLE if counter.devices == "*"
             or counter.name in named}
    return done(**{
        f"/sys/class/infiniband/mlx5_{n}/ports/1/{folder}/{name}": changes.get(f"mlx5_{n}.{name}", "0\n")
        for n in range(count) for name, folder in names.items()
    })


def hcas(count: int = 8, **changes: str) -> Capture:
    """The adapters; `changes` by "mlx5_3.fw_ver", "mlx5_3.slot/max_link_speed" or "mlx5_3.ibdev" replace one
    file's text."""
    files = {}
    for n in range(count):
        base = f"/sys/class/infiniband/mlx5_{n}"
        texts = {
            "fw_ver": "28.39.1002\n", "board_id": "MT_0000000838\n", "node_guid": f"a088:c203:0000:{n:04x}\n",
            "sys_image_guid": f"a088:c203:0000:{n:04x}\n",
            "device/uevent": f"DRIVER=mlx5_core\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=0000:{0x40 + n:02x}:00.0\n"}
        for which in ("current", "max"):
            texts |= {f"device/{which}_link_width": "16\n", f"device/{which}_link_speed": "32.0 GT/s PCIe\n"}
        texts |= {"device/../max_link_width": "16\n", "device/../max_link_speed": "32.0 GT/s PCIe\n"}
        for name, text in texts.items():
            key = f"slot/{name.rpartition('/')[2]}" if ".." in name else name.rpartition("/")[2]
            files[f"{base}/{name}"] = changes.get(f"mlx5_{n}.{key}", text)
        files[f"/sys/class/infiniband_verbs/uverbs{n}/ibdev"] = changes.get(f"mlx5_{n}.uverbs", f"mlx5_{n}\n")
        files[f"/sys/class/infiniband_mad/umad{n}/ibdev"] = changes.get(f"mlx5_{n}.umad", f"mlx5_{n}\n")
    return done(**files)


def pci(gpus: int = 8) -> Capture:
    """The PCI bus: GPUs, and a network card."""
    files = {
        f"/sys/bus/pci/devices/0000:{0x18 + n:02x}:00.0/uevent":
        f"DRIVER=nvidia\nPCI_CLASS=30200\nPCI_ID=10DE:2330\nPCI_SLOT_NAME=0000:{0x18 + n:02x}:00.0\n"
        for n in range(gpus)
    }
    files["/sys/bus/pci/devices/0000:40:00.0/uevent"] = (
        "PCI_CLASS=20700\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=0000:40:00.0\n")
    return done(**files)


DOCKER_INFO: dict[str, Any] = {
    "ServerVersion": "24.0.7", "Driver": "overlay2", "CgroupDriver": "systemd", "CgroupVersion": "2",
    "DockerRootDir": "/raid/docker",
    "Runtimes": {"io.containerd.runc.v2": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"},
                 "runc": {"path": "runc"}},
    "Warnings": None, "LiveRestoreEnabled": False, "DefaultRuntime": "runc", "LoggingDriver": "json-file",
    "ContainerdCommit": {"ID": "7c3aca7a610df76212171d200ca3811ff6096eb8"},
    "RuncCommit": {"ID": "v1.1.12-0-g51d5e94"},
}
DOCKER = json.dumps(DOCKER_INFO) + "\n"
DIGEST, IMAGE_ID = "sha256:" + "d1" * 32, "sha256:" + "1d" * 32
CDI = (
    "---\ncdiVersion: 0.5.0\ncontainerEdits:\n  mounts:\n  - containerPath: "
    "/usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15\n"
    "    hostPath: /usr/lib/x86_64-linux-gnu/libcuda.so.550.54.15\ndevices:\n"
    + "".join(f'- containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia{n}\n  name: "{n}"\n'
              for n in range(8)) + "kind: nvidia.com/gpu\n"
)


TOOLKIT = ("nvidia-container-cli", "nvidia-container-runtime", "nvidia-container-runtime-hook",
           "nvidia-container-toolkit", "nvidia-ctk")


def container_config(*programs: str, **files: dict[str, Any]) -> Capture:
    """What the reader says of configurations of containers, by path, and which programs of NVIDIA's toolkit
    are there."""
    held = {"/etc/cdi/nvidia.yaml": {"gone": [], "unseen": []},
            "/etc/docker/daemon.json": {"keys": {"log-driver": "json-file"},
                                        "programs": [["nvidia", "nvidia-container-runtime", True]]},
            **files, "toolkit": {name: name in programs for name in TOOLKIT}}
    return done(**{path: json.dumps(found) for path, found in held.items()})


def docker(**changes: Any) -> Capture:
    """docker info, with some of its fields changed; None takes a field away."""
    info = {key: value for key, value in {**DOCKER_INFO, **changes}.items() if value is not None
            or key == "Warnings"}
    return lines(info)


def lines(*rows: dict[str, Any], exit_status: int = 0, stderr: str = "") -> Capture:
    """A client of Docker that prints these objects, one a line."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    return Capture(Outcome.DONE, exit=exit_status, seconds=0.1, bytes=len(text), text=text, stderr=stderr)


def container(
    name: str = "dcgm-exporter", state: str = "running", status: str = "Up 5 weeks",
    image: str = "dcgm-exporter:3.3.5",
) -> dict[str, Any]:
    """A row of docker ps."""
    return {"id": name.encode().hex()[:12], "container": name, "image": image, "state": state,
            "status": status}


def image(name: str = "nvcr.io/nvidia/pytorch:24.03-py3", digest: str = DIGEST,
          key: str = IMAGE_ID) -> dict[str, Any]:
    """A row of docker images."""
    repository, _, tag = name.rpartition(":")
    return {"repository": repository, "tag": tag, "digest": digest, "id": key}


CLOCK = json.dumps({"state": 0, "status": 0x2001, "maxerror": 1500, "esterror": 10})


OPEN_VERSION = (
    "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build  "
    "(dvs-builder@U16-I2-C03-12-4)  Tue Mar  5 22:23:56 UTC 2024\n"
    "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n"
)


def module() -> Capture:
    """What the kernel says of the driver's modules."""
    return Capture(Outcome.DONE, seconds=0.01, bytes=1, files={
        **done(**{
            "/sys/module/nvidia/version": "550.54.15\n", "/proc/driver/nvidia/version": OPEN_VERSION,
            "/proc/driver/nvidia/params": "EnableMSI: 1\nEnableGpuFirmware: 18\nEnableGpuFirmwareLogs: 2\n",
            "/sys/module/nvidia_peermem/initstate": "live\n", "/sys/module/nvidia_uvm/initstate": "live\n",
            "/proc/sys/kernel/osrelease": "6.5.0-1019\n",
        }).files, "/sys/module/nv_peer_mem/initstate": FileCapture(Outcome.MISSING),
    })


def services(**states: str) -> Capture:
    """systemctl show of NVIDIA's services; `states` by unit without prefix and suffix: "active/running",
    "failed/failed", "" not installed."""
    held = {"fabricmanager": "active/running", "persistenced": "active/running", "imex": "",
            "dcgm": "active/running", **states}
    blocks = []
    for name, state in held.items():
        active, _, sub = (state or "inactive/dead").partition("/")
        blocks.append(
            f"Id=nvidia-{name}.service\nLoadState={'loaded' if state else 'not-found'}\n"
            f"ActiveState={active}\nSubState={sub}\n"
            f"ActiveEnterTimestampMonotonic={21000000 if active == 'active' else 0}\nNRestarts=0\n")
    text = "\n".join(blocks)
    return Capture(Outcome.DONE, exit=0, seconds=0.02, bytes=len(text), text=text)


def journal(*more: str) -> Capture:
    """The Fabric Manager's journal of this boot, with more lines."""
    lines = ("systemd[1]: Starting NVIDIA fabric manager service...",
             "nv-fabricmanager[2211]: Connected to 1 node.",
             "nv-fabricmanager[2211]: Successfully configured all the available NVSwitches to route GPU "
             "NVLink traffic.",
             "systemd[1]: Started NVIDIA fabric manager service.", *more)
    text = "".join(f"2026-11-21T06:00:0{min(n, 9)}+0000 gpu001 {line}\n" for n, line in enumerate(lines))
    return Capture(Outcome.DONE, exit=0, seconds=0.05, bytes=len(text), text=text)


MEMINFO = (
    "MemTotal:       2113000000 kB\nMemFree:        1900000000 kB\nMemAvailable:   2040000000 kB\n"
    "HardwareCorrupted:     0 kB\n"
    "HugePages_Total:       0\nHugePages_Free:        0\nHugepagesize:       2048 kB\n"
)
# Half of the free memory on each node, most of it in the largest blocks, of 4 MiB.
BUDDYINFO = "".join(f"Node {node}, zone   Normal" + "".join(f" {count:6d}"
                                                            for count in (900, 450, 210, 90, 40, 20, 11, 6, 3,
                                                                          2, 231900)) + " \n"
                    for node in range(2))
CPU = "/sys/devices/system/cpu"
NUMA = "/sys/devices/system/node"
EDAC = "/sys/devices/system/edac/mc"
DRIVERS = "/sys/bus/pci/drivers"
LIMITS = (
    "Limit                     Soft Limit           Hard Limit           Units     \n"
    "Max open files            131072               131072               files     \n"
    "Max locked memory         unlimited            unlimited            bytes     \n"
)


def aer(kind: str, count: int = 0) -> str:
    """A file of AER counters in the kernel's form."""
    return (f"Undefined 0\nData Link Protocol {count}\n"
            f"TOTAL_ERR_{ {'correctable': 'COR'}.get(kind, kind.upper()) } {count}\n")


PCIE = "/sys/devices/pci0000:15/0000:15:01.0"


def pcie_settings(**texts: str | None) -> Capture:
    """A GPU and an adapter below two ports of one switch; `texts` by "p17:01.0" are in place of a function's
    words, None for none."""
    switch = f"{PCIE}/0000:16:00.0"
    held = {
        PCIE: "flags 0042\ndevcap 00008022\ndevctl 215f\nacs 005f 001d\n",
        switch: "flags 0052\ndevcap 00008022\ndevctl 215f\n",
        **{f"{switch}/0000:17:{port}": "flags 0062\ndevcap 00008022\ndevctl 215f\nacs 005f 0000\n"
           for port in ("00.0", "01.0")},
        f"{switch}/0000:17:00.0/0000:18:00.0": "driver mlx5_core\nflags 0002\ndevcap 00008022\ndevctl 515f\n",
        f"{switch}/0000:17:01.0/0000:1b:00.0": "driver nvidia\nflags 0002\ndevcap 00008022\ndevctl 515f\n",
    }
    said = {f"{path}/config": texts.get(f"p{path[-7:]}", text) for path, text in held.items()}
    return done(**{path: text for path, text in said.items() if text is not None})


def tasks(*kept: list[Any], states: dict[str, int] | None = None, waits: dict[str, str] | None = None,
          **limits: str) -> Capture:
    """What the reader says of processes; `kept` are rows of pid, state, start, switches, name; `limits` texts
    by daemon."""
    held = limits or {"slurmd": LIMITS}
    text = json.dumps({
        "states": states or {"S": 300, "I": 1200, **{row[1]: 1 for row in kept}}, "processes": list(kept),
        "waits": waits or {},
        "limits": [[2000 + n, name, text] for n, (name, text) in enumerate(held.items())], "hidden": False,
    })
    return Capture(Outcome.DONE, seconds=0.05, bytes=len(text), text=text)


OWNED = [[1, 0, 0, 1, 0, 0, 0], [1204, 1, 0, 1204, 0, 1, 0], [2210, 1, 0, 2210, 0, 2, 0]]


def owners(*rows: list[Any], names: tuple[str, ...] = (), cgroups: tuple[str, ...] = (),
           **more: Any) -> Capture:
    """What the reader says of who has which process: beside root's three, rows of pid, parent, user, start in
    ticks, kB of huge pages, name and control group (indices of `names` and `cgroups`)."""
    text = json.dumps({
        "processes": [*OWNED, *([*row[:5], 3 + row[5], 1 + row[6]] for row in rows)],
        "names": ["systemd", "sshd", "slurmd", *names],
        "cgroups": ["", *cgroups], "more": 0, "own": [], "uptime": "90000.25 15120.11\n", "hidden": False,
        "strange": False, **more,
    })
    return Capture(Outcome.DONE, seconds=0.05, bytes=len(text), text=text)


def _host_depths() -> dict[str, Capture]:
    """CPUs, NUMA nodes, memory controllers, processes and PCI Express links."""
    devices = [("nvidia", "0000:1b:00.0", 27), ("mlx5_core", "0000:9a:00.0", 154)]
    links = {f"{DRIVERS}/{driver}/{address}/aer_dev_{kind}": aer(kind)
             for driver, address, _ in devices for kind in ("fatal", "nonfatal", "correctable")}
    for _, _, bus in devices:
        port = f"{DRIVERS}/pcieport/0000:{bus - 1:02x}:01.0"
        links |= {f"{port}/aer_dev_{kind}": aer(kind) for kind in ("fatal", "nonfatal", "correctable")}
        links[f"{port}/secondary_bus_number"] = f"{bus}\n"
    meminfo = {"/proc/meminfo": MEMINFO}
    return {
        "cpu.topology": done(**{f"{CPU}/present": "0-223\n", f"{CPU}/online": "0-223\n",
                                f"{CPU}/smt/control": "on\n"}),
        "cpu.governor": done(**{f"{CPU}/cpufreq/policy{n}/scaling_governor": "performance\n"
                                for n in range(2)},
                             **{f"{CPU}/cpufreq/policy0/scaling_driver": "amd-pstate-epp\n"}),
        "cpu.cores": done(**{f"{CPU}/online": "0-223\n", **{
            f"{CPU}/cpu{cpu}/{name}": text for cpu, package in ((0, 0), (1, 0), (5, 0), (60, 1), (61, 1))
            for name, text in (("topology/physical_package_id", f"{package}\n"),
                               ("thermal_throttle/core_throttle_count", f"{2 * package}\n"))
        }}),
        "cpu.throttle": done(**{f"{CPU}/online": "0-223\n", **{
            f"{CPU}/cpu{cpu}/{name}": text for cpu, package in ((0, 0), (5, 0), (60, 1))
            for name, text in (("topology/physical_package_id", f"{package}\n"),
                               ("thermal_throttle/package_throttle_count", f"{7 * package}\n"))
        }, **{
            f"/sys/bus/pci/drivers/k10temp/0000:00:{0x18 + package:x}.3/hwmon/hwmon{4 + package}/"
            f"temp1_input": f"{61125 + package * 1000}\n"
            for package in range(2)
        }, "/proc/loadavg": "12.20 0.18 0.12 1/2931 11206\n", f"{CPU}/cpu0/acpi_cppc/nominal_freq": "2400\n",
            f"{CPU}/cpufreq/boost": "1\n", f"{CPU}/cpufreq/policy0/scaling_driver": "amd-pstate-epp\n", **{
            f"{CPU}/cpufreq/policy{policy}/{name}": text for policy in (0, 5, 10)
            for name, text in (("scaling_max_freq", "3700000\n"), ("bios_limit", "2400000\n"),
                               ("scaling_cur_freq", f"{3000000 + policy}\n"),
                               ("cpuinfo_max_freq", "3700000\n"))
            if not (policy == 5 and name == "scaling_cur_freq")
        }}),
        "cpu.quota": done(**{"/proc/loadavg": "12.20 0.18 0.12 1/2931 11206\n", **{
            f"/sys/fs/cgroup/{group}/cpu.stat": f"usage_usec 81310450\n{more}" for group, more in (
                ("user.slice", ""),
                ("system.slice", "nr_periods 8000\nnr_throttled 12\nthrottled_usec 900123\n"),
                ("system.slice/slurmd.service", "nr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"))}}),
        "cpu.microcode": done(**{f"{CPU}/online": "0-223\n",
                                 f"{CPU}/cpu0/microcode/version": "0x2b000571\n"}),
        "numa.nodes": done(**{f"{NUMA}/online": "0-1\n", **{
            f"{NUMA}/node{n}/{name}": text for n in range(2)
            for name,
            text in (("cpulist", f"{56 * n}-{56 * n + 55}\n"),
                     ("meminfo",
                      f"Node {n} MemTotal:       1056000000 kB\nNode {n} MemFree:        950000000 kB\n"
    f"Node {n} Active(file):     9000000 kB\nNode {n} Inactive(file):  40000000 kB\nNode {n} "
    f"SReclaimable:     "
    f"900000 kB\n"))
        }}),
        "numa.devices": done(**{f"{NUMA}/online": "0-1\n", **{
            f"{DRIVERS}/{driver}/0000:{first + n:02x}:00.0/numa_node": f"{n // 4}\n"
            for driver, first in (("nvidia", 0x18), ("mlx5_core", 0x40)) for n in range(8)
        }}),
        "memory.edac": done(**meminfo, **{
            f"{EDAC}/mc0/{name}": text for name, text in (
                ("ue_count", "0\n"), ("ce_count", "3\n"), ("dimm0/dimm_label", "P1-DIMMA1\n"),
                ("dimm0/dimm_ce_count", "3\n"),
                ("dimm0/dimm_ue_count", "0\n"), ("dimm1/dimm_label", "P1-DIMMB1\n"),
                ("dimm1/dimm_ce_count", "0\n"), ("dimm1/dimm_ue_count", "0\n"))
        }),
        "process.tasks": tasks(), "process.owners": owners(),
        "process.tables": done(**{
            "/proc/loadavg": "0.20 0.18 0.12 1/2931 11206\n", "/proc/sys/kernel/pid_max": "4194304\n",
            "/proc/sys/kernel/threads-max": "16506944\n",
            "/proc/sys/fs/file-nr": "7200\t0\t9223372036854775807\n",
        }),
        "pcie.aer": done(**meminfo, **links),
        "pcie.config": pcie_settings(),
        "pcie.iommu": done(**meminfo, **{f"{DRIVERS}/{driver}/{address}/iommu_group/type": "identity\n"
                                         for driver, address, _ in devices}),
    }


def smart(count: int = 8, **changes: Any) -> Capture:
    """smartctl's word on each NVMe drive; `changes` by "nvme3" merge members into its health log, or are what
    it said instead (text)."""
    files = {}
    for n in range(count):
        log = {"critical_warning": 0, "temperature": 39, "available_spare": 100,
               "available_spare_threshold": 10, "percentage_used": 2,
               "data_units_read": 918273645, "data_units_written": 123456789, "power_cycles": 41,
               "power_on_hours": 12010,
               "unsafe_shutdowns": 17, "media_errors": 0, "num_err_log_entries": 0, "warning_temp_time": 0,
               "critical_comp_time": 0}
        change = changes.get(f"nvme{n}", {})
        if isinstance(change, str):
            text, code = change, 1
        else:
            text, code = json.dumps({
                "json_format_version": [1, 0],
                "smartctl": {"version": [7, 2], "exit_status": change.pop("exit", 0)},
                "device": {"name": f"/dev/nvme{n}", "type": "nvme", "protocol": "NVMe"},
                "model_name": "SAMSUNG MZWLJ3T8HBLS-00007",
                "serial_number": f"S64FNE0R9036{n:02d}",
                "smart_status": {"passed": change.pop("passed", True), "nvme": {"value": 0}},
                "nvme_smart_health_information_log": {**log, **change},
            }), 0
        files[f"/sys/class/nvme/nvme{n}"] = FileCapture(Outcome.DONE, f"exit {code}\n{text}")
    return Capture(Outcome.DONE, seconds=0.2, bytes=1, files=files)


def disks(count: int = 8, **changes: str) -> dict[str, Capture]:
    """NVMe drives (the PCI bus of `pci` has none of them) with a mirror of two; `changes` by "nvme3.state"
    replace one file's text."""
    files, heat, spaces = {}, {}, {}
    for n in range(count):
        base = f"/sys/class/nvme/nvme{n}"
        texts = {"state": "live\n", "model": "SAMSUNG MZWLJ3T8HBLS-00007\n",
                 "serial": f"S64FNE0R9036{n:02d}\n", "firmware_rev": "EPK9CB5Q\n",
                 "transport": "pcie\n", "address": f"0000:{0x80 + n:02x}:00.0\n",
                 "device/current_link_speed": "16.0 GT/s PCIe\n",
                 "device/current_link_width": "4\n", "device/max_link_speed": "16.0 GT/s PCIe\n",
                 "device/max_link_width": "4\n",
                 "device/../max_link_speed": "32.0 GT/s PCIe\n", "device/../max_link_width": "4\n"}
        for name, text in texts.items():
            files[f"{base}/{name}"] = changes.get(f"nvme{n}.{name.removeprefix('device/')}", text)
        for name, text in (("ro", "0\n"), ("size", "7501476528\n")):
            spaces[f"{base}/nvme{n}n1/{name}"] = changes.get(f"nvme{n}n1.{name}", text)
        for name, text in (("input", "38850\n"), ("max", "81850\n"), ("alarm", "0\n")):
            heat[f"{base}/hwmon{n}/temp1_{name}"] = changes.get(f"nvme{n}.temp1_{name}", text)
    md = {"level": "raid1\n", "metadata_version": "1.2\n", "raid_disks": "2\n",
          "array_state": "clean\n", "degraded": "0\n", "sync_action": "idle\n",
          "sync_completed": "none\n", "mismatch_cnt": "0\n", "dev-nvme0n1p2/state": "in_sync\n",
          "dev-nvme1n1p2/state": "in_sync\n"}
    return {
        "nvme.sysfs": done(**files), "nvme.temperature": done(**heat), "nvme.namespaces": done(**spaces),
        "raid.zfs": done(**{"/proc/spl/kstat/zfs/tank/state": "ONLINE\n"}),
        "raid.md": done(**{f"/sys/block/md0/md/{name}": changes.get(f"md0.{name}", text)
                           for name, text in md.items()}),
        "filesystem.plan": done(**{"/etc/fstab": FSTAB}),
        "filesystem.lustre": done(**{"/sys/fs/lustre/health_check": "healthy\n"}),
        "disk.smart": smart(count), "disk.scsi": done(), "disk.multipath": done(), "disk.raid-smart": done(),
        **{f"raid.{tool}": done()
           for tool in ("storcli", "storcli-drives", "storcli2", "storcli2-drives", "mvcli", "mnvcli")},
    }


def captures() -> dict[str, Capture]:
    """What a healthy node's probes bring. A dictionary of its own for each caller; what it holds is frozen
    and made once."""
    return dict(_healthy())


@cache
def _healthy() -> dict[str, Capture]:
    return {
        **host_captures(),
        **network.captures(),
        **disks(),
        **_host_depths(),
        "driver.module": module(), "service.nvidia": services(), "fabric.journal": journal(),
        "gpu.smi": Capture(Outcome.MISSING, note="not needed: NVML answered"),
        "gpu.nvml": nvml(), "gpu.pci": pci(), "port.sysfs": ports(),
        "port.counters": counters(), "hca.sysfs": hcas(),
        "filesystem.mounts": done(**{"/proc/self/mountinfo": MOUNTINFO, "/": STATVFS, "/raid": LARGE,
                                     "/home": STATVFS}),
        "docker.info": Capture(Outcome.DONE, exit=0, seconds=0.1, bytes=len(DOCKER), text=DOCKER),
        "containerd.version": Capture(Outcome.MISSING), "containerd.cri": Capture(Outcome.MISSING),
        "containerd.tasks": done(), "containerd.kubelet": done(),
        "containerd.nerdctl": Capture(Outcome.MISSING),
        "docker.ps": lines(container()), "docker.images": lines(image()),
        "container.cdi": done(**{"/etc/cdi/nvidia.yaml": CDI,
                                 "/etc/nvidia-container-runtime/config.toml": "[nvidia-container-cli]\n"}),
        "container.config": container_config(*TOOLKIT),
        "container.toolkit": Capture(Outcome.DONE, exit=0, seconds=0.02, bytes=50,
                                     text="NVIDIA Container Toolkit CLI version 1.14.6\ncommit: "
                                          "5605d191332d\n"),
        "container.slurm": done(
            **{"/etc/slurm/plugstack.conf": "required /usr/local/lib/slurm/spank_pyxis.so\n",
               "/etc/enroot/enroot.conf": "#\n"}),
        "kernel.log": done(**{"/dev/kmsg": KMSG}),
        "host.memory": done(**{"/proc/meminfo": MEMINFO, "/proc/buddyinfo": BUDDYINFO, **{
            f"/sys/kernel/mm/hugepages/hugepages-{kib}kB/{name}_hugepages": "0\n" for kib in (1048576, 2048)
            for name in ("nr", "free", "resv")}}),
        "host.swap": done(**{"/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n"}),
        "host.versions": done(**{"/proc/sys/kernel/osrelease": "6.5.0-1019\n",
                                 "/sys/module/nvidia/version": "550.54.15\n"}),
        "host.clock-source": done(**{f"{SOURCE}/current_clocksource": "tsc\n",
                                     f"{SOURCE}/available_clocksource": "tsc hpet acpi_pm \n"}),
        "host.uptime": done(**{"/proc/uptime": "120.25 15120.11\n"}),
        "host.clock": Capture(Outcome.DONE, seconds=0.0, bytes=len(CLOCK), text=CLOCK),
    }


def host_captures() -> dict[str, Capture]:
    """Installation, firmware, services and management controller, as the demo's healthy node has them."""
    made = DemoMachine("gpu001")
    demo_host.install(made, random.Random(1))
    files = made.files

    def said(path: str) -> Capture:
        return Capture(Outcome.DONE, exit=0, seconds=0.02, bytes=1, text=files[path])

    def held(probe: Probe) -> Capture:
        return done(**{path: files[path] for path in probe.paths if path in files})

    return {
        "module.loaded": held(MODULES), "host.resolver": held(RESOLV), "host.firmware": held(DMI),
        "host.sysctl": held(SYSCTL),
        "host.system": done(**{OS_RELEASE: 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\nID=ubuntu\n',
                               CMDLINE: files[CMDLINE]}),
        "host.own-name": said(demo_host.OWN_NAME), "host.dimms": said(demo_host.DIMMS),
        "service.units": said(demo_host.UNITS),
        "bmc.log": said(demo_host.SEL), "bmc.log-info": said(demo_host.SEL_INFO),
        "bmc.sensors": said(demo_host.SENSORS),
        "host.crash": done(**{BACKEND: files[BACKEND]}),
    }


HOST = Host(hostname="gpu001", boot_id="b00t", time=1000.0, uid=0, python="3.11",
            machine="x86_64", cpu_s=0.05)


def recording(node: str = "gpu001", **changes: Capture) -> Recording:
    """A healthy recording; `changes` by probe id with "_" for "." replace captures."""
    held = captures()
    for name, capture in changes.items():
        held[name.replace("_", ".", 1)] = capture
    return Recording(node, 1000.5, replace(HOST, hostname=node), None, held)


def on_host(seen: Recording, **changes: Any) -> Recording:
    """The same of a host that is otherwise."""
    assert seen.host is not None
    return replace(seen, host=replace(seen.host, **changes))
