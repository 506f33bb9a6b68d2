"""A sound node of any SKU, made from the SKU's own numbers, and with what a test changes of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from healthcheck.model.outcome import NodeReport
from healthcheck.model.recording import Capture, Recording
from healthcheck.ruleset.sku import Sku
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.nvl72 import rack
from tests.packagedrules import RULES

CLUSTER = "0e8b1c1e-0000-0000-0000-000000000001"
NOT_SUPPORTED = {"na": True}
ANY_NUMBER = 4      # of GPUs, where the SKU leaves it open


def product(sku: Sku) -> str:
    """A product name that the SKU's model stands for."""
    model = str(sku.numbers["gpu_model"])
    return model if model.split()[0] in ("NVIDIA", "Tesla") else f"NVIDIA {model}"


def readings(sku: Sku, **changes: Any) -> dict[str, Any]:
    """What NVML gives of one GPU where it differs from an H100's; `changes` are plain values, or whole
    readings."""
    numbers = sku.numbers
    watts = numbers["power_limit_watts"] or 300
    found: dict[str, Any] = {
        "name": product(sku), "memory_bytes": int((numbers["gpu_memory_gib"] or 24) * 2**30),
        "power_limit_mw": int(watts * 1000), "power_limit_default_mw": int(watts * 1000),
        "power_mw": int(watts * 100),
        "ecc_mode": int(numbers["ecc"] is not False), "ecc_pending": int(numbers["ecc"] is not False),
        "mig": NOT_SUPPORTED if numbers["mig"] is None else int(numbers["mig"]),
        "mig_pending": NOT_SUPPORTED if numbers["mig"] is None else int(numbers["mig"]),
    }
    for which in ("generation", "width"):
        found |= {f"pcie_{which}{most}": numbers[f"pcie_{which}"] or 4 for most in ("", "_max")}
    if not numbers["fabric"]:
        found |= dict.fromkeys(("fabric_state", "fabric_status", "fabric_clique", "fabric_cluster",
                                "fabric_health"), NOT_SUPPORTED)
    elif numbers["imex"]:
        found |= {"fabric_cluster": CLUSTER}
    links = numbers["nvlink_count"]
    speed = int((numbers["nvlink_gigabytes"] or 0) * 1000)
    found["nvlinks"] = machine.nvlinks(links, **{
        f"link{n}": [1, 7, speed, 2, f"0000:{5 + n % 4:02x}:00.0", 0, 0, 0, 0, 0] for n in range(links)
    }) if links else NOT_SUPPORTED
    found |= changes
    return {key: value if isinstance(value, dict) else {"ok": value} for key, value in found.items()}


def bus(device: str, gpus: int, switches: int) -> Capture:
    """The PCI bus with so many GPUs of a device, and NVSwitches, and a network card."""
    kinds = [("30200", device.upper())] * gpus + [("68000",
                                                   "10DE:22A3")] * switches + [("20000", "8086:1563")]
    return machine.done(**{
        f"/sys/bus/pci/devices/0000:{0x18 + n:02x}:00.0/uevent":
            f"DRIVER=nvidia\nPCI_CLASS={kind}\nPCI_ID={ident}\nPCI_SLOT_NAME=0000:{0x18 + n:02x}:00.0\n"
        for n, (kind, ident) in enumerate(kinds)})


def sound(
    sku: Sku, *, gpus: int | None = None, on_pci: int | None = None, device: str | None = None,
    services: Mapping[str, str] | None = None, one: Mapping[str, Any] | None = None, **every: Any,
) -> Recording:
    """The node: `one` changes readings of GPU 0, `every` of all of them."""
    numbers = sku.numbers
    count = gpus if gpus is not None else numbers["gpu_count"] or ANY_NUMBER
    ident = device or numbers["gpu_device"] or "10de:20b0"
    changed = {f"gpu{n}": readings(sku, **every, **(one or {} if n == 0 else {})) for n in range(count)}
    running = {unit: "active/running" if numbers[number] else ""
               for unit, number in (("fabricmanager", "fabric_manager"), ("imex", "imex"))}
    in_domain = _IMEX if numbers["imex"] else {}
    ports, rate = numbers["port_count"] or 8, numbers["port_rate_gbps"] or 400
    return machine.recording(
        gpu_nvml=machine.nvml(count, **changed),
        gpu_pci=bus(ident, count if on_pci is None else on_pci, numbers["nvswitch_count"] or 0),
        service_nvidia=machine.services(**{**running, **(services or {})}),
        container_cdi=_cdi(count), **in_domain,
        port_sysfs=machine.ports(ports,
                                 **{f"mlx5_{n}.rate": f"{rate} Gb/sec (4X NDR)\n" for n in range(ports)}))


_TRAY = rack.Tray("gpu001", "r1", "10.0.1.1", "18", 0, "c", ("10.0.1.1",))
# A node that is the only one of its IMEX domain.
_IMEX = {name: rack.recording(_TRAY, [_TRAY]).captures[name.replace("_", ".", 1)]
         for name in ("imex_nodes", "imex_addresses", "imex_domain")}


def _cdi(gpus: int) -> Capture:
    devices = "".join(f'- containerEdits:\n    deviceNodes:\n    - path: /dev/nvidia{n}\n  name: "{n}"\n'
                      for n in range(gpus))
    return machine.done(
        **{"/etc/cdi/nvidia.yaml": f"---\ncdiVersion: 0.5.0\ndevices:\n{devices}kind: nvidia.com/gpu\n",
           "/etc/nvidia-container-runtime/config.toml": "[nvidia-container-cli]\n"})


# What the server around the GPUs has, and where one maker puts the adapters: not what these nodes are for.
_OF_THE_SERVER = ("memory_gib", "docker", "cpu_count", "numa_nodes", "dimm_count", "nvme_count")


def judged(recording: Recording, sku: Sku) -> NodeReport:
    """The report of a node whose inventory names the SKU, by all that this one says of GPUs."""
    board = replace(sku, numbers={**sku.numbers, **dict.fromkeys(_OF_THE_SERVER)}, ports={})
    rules = replace(RULES, skus={**RULES.skus, sku.name: board})
    return assessed(recording, sku=sku.name, rules=rules).reports[0]
