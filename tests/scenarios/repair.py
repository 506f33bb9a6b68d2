"""What people do to a sick node, and what that undoes, as hardware, driver and kernel do it: no more than
that.

NVML's volatile counters begin at 0 when the driver is loaded (nvml.h); a pending row remapping is carried out
by a reset of the GPU (NVIDIA GPU Memory Error Management); what stands in the board's InfoROM goes with the
board; the kernel's log begins anew with a boot.
"""

from __future__ import annotations

import random
import uuid

from provisioning.demo import h100
from provisioning.demo.machine import DemoMachine
from tests.scenarios.node import machine

HOUR_S = 3600

# What the driver keeps in its own memory, by the beginning of the scenario's key after `gpu.N.`.
_VOLATILE = ("slowdown.", "ecc.volatile.", "error", "rows.pending", "memory.used", "clocks.reasons",
             "pcie.replays", "nvlink.", "field.", "fabric.",
             "violation.", "recovery", "temperature.", "power.usage", "utilization", "clocks.current",
             "process", "pages.pending")
_OF_DRIVER = ("init", "fail.", "delay.")
_FORGOTTEN_BY_BOOT = ("persistence_mode", "power.limit", "compute_mode")
# Wear and defects that stay with the board.
_OF_BOARD = ("ecc.aggregate.", "ecc.sram.", "rows.", "sram.", "pages.")


def operate(node: DemoMachine, *keys: str) -> None:
    """An operator sets it right with a command of nvidia-smi, and nothing else changes."""
    _clear(node, keys)


def restart_fabric_manager(node: DemoMachine) -> None:
    """The Fabric Manager runs again, and every GPU registers with it once more."""
    healthy = machine(node.name)
    node.files |= {path: text for path, text in healthy.files.items() if path.startswith("/.muster/")}
    _clear(node, ("fabric.",))


def cool(node: DemoMachine) -> None:
    """Air, water or power is back: nothing slows down any more; for how long it did, the counters still
    say."""
    _clear(node, ("clocks.reasons", "temperature.", "power.usage", "utilization", "clocks.current"))


def wait(node: DemoMachine, hours: float) -> None:
    """So much time passes, and the kernel says something harmless at the end of it."""
    node.say(
        "perf: interrupt took too long (2511 > 2500), lowering kernel.perf_event_max_sample_rate to 79500")
    head, _, text = node.log.pop().partition(b";")
    priority, sequence, stamp, flags = head.split(b",", 3)
    node.log.append(b",".join((priority, sequence, b"%d" % (int(stamp) + int(hours * HOUR_S * 1e6)), flags))
                    + b";" + text)


def reset_gpu(node: DemoMachine) -> None:
    """Drained, and every GPU reset, as on an NVSwitch board: what is pending is done, what is volatile begins
    anew. The log stays."""
    for gpu in range(len(h100.GPUS)):
        key = f"gpu.{gpu}.rows.pending"
        if node.scenario.get(key, "0") != "0":
            rows = f"gpu.{gpu}.rows.uncorrected"
            node.scenario[rows] = str(int(node.scenario.get(rows, "0")) or 1)
    _clear(node, _VOLATILE)


def reload_driver(node: DemoMachine) -> None:
    """The driver that is installed is the one that is loaded again, and persistence is as its service sets
    it."""
    reset_gpu(node)
    for key in [key for key in node.scenario if key.startswith(_OF_DRIVER)]:
        del node.scenario[key]
    fresh = machine(node.name)
    for path in fresh.files:
        if "nvidia" in path or path.endswith("/uevent"):
            node.files[path] = fresh.files[path]
    node.scenario |= {key: value for key, value in fresh.scenario.items() if key.endswith(".version")}


def reboot(node: DemoMachine) -> None:
    """A new boot: another boot_id, a log from its start, the driver loaded anew, settings as the boot makes
    them."""
    reload_driver(node)
    _clear(node, _FORGOTTEN_BY_BOOT)
    healthy = machine(node.name)
    node.log[:] = healthy.log
    release = "/proc/sys/kernel/osrelease"
    node.files[release] = healthy.files[release]
    boot = uuid.UUID(int=random.Random("another boot").getrandbits(128), version=4)
    node.files["/proc/sys/kernel/random/boot_id"] = f"{boot}\n"
    node.files["/proc/uptime"] = "312.40 60104.77\n"
    node.files |= {path: text for path, text in healthy.files.items() if path.startswith("/.muster/")}


def reseat(node: DemoMachine) -> None:
    """Powered off, boards and cables seated again, powered on: links train as they should."""
    healthy = machine(node.name)
    node.links.update(healthy.links)
    for path, text in healthy.files.items():
        if path.endswith("/uevent") or (path.startswith("/sys/devices/") and path not in node.files):
            node.files[path] = text
    node.blobs = {**healthy.blobs, **node.blobs}
    kept = {key: value for key, value in node.scenario.items() if not key.startswith("gpu.")}
    node.scenario = kept | {key: value for key, value in healthy.scenario.items() if key.startswith("gpu.")}
    reboot(node)


def replace_gpu(node: DemoMachine, gpu: int) -> None:
    """Another board in the same place: another serial number and UUID, no wear."""
    for key in [key for key in node.scenario if key.startswith(f"gpu.{gpu}.")
                and key.split(".", 2)[2].startswith(_OF_BOARD)]:
        del node.scenario[key]
    rng = random.Random(f"spare {gpu}")
    node.scenario[f"gpu.{gpu}.serial"] = str(1_659_000_000_000 + rng.randrange(10**9))
    node.scenario[f"gpu.{gpu}.uuid"] = f"GPU-{uuid.UUID(int=rng.getrandbits(128), version=4)}"
    reboot(node)


def _clear(node: DemoMachine, beginnings: tuple[str, ...]) -> None:
    """Takes what the node was given beyond the healthy one out of the driver's scenario, by the beginning of
    the GPU's key."""
    healthy = machine(node.name).scenario
    for key in list(node.scenario):
        words = key.split(".", 2)
        if words[0] == "gpu" and len(words) == 3 and words[2].startswith(beginnings):
            if key in healthy:
                node.scenario[key] = healthy[key]
            else:
                del node.scenario[key]
