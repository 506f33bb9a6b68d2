"""Plants the commonest GPU faults, as raw values: what driver, kernel and tools say then. What muster must
say of them is in expect.py, and knows nothing of this.

Which are common: of 419 unplanned stops of a training run on 16,384 H100 in 54 days, 148 were a faulty GPU,
72 its memory (HBM3), 19 its SRAM, 17 its firmware's processor (GSP), 6 heat (The Llama 3 Herd of Models,
table 5); on Delta (1,056 A100 and H100, 2.5 years) GSP, memory, NVLink and PCIe errors lead (arXiv
2503.11901). Below that no one has published an order: the rest is what NVIDIA's catalogues of Xids and
operators' issues name. A plant has the fault's name, what is wrong, what mends it, and the steps that break a
healthy node; a function that breaks one has the name with underscores, and says in its docstring what is
wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from provisioning.demo import containers, services
from provisioning.demo.h100 import GPUS, remove_pci
from provisioning.demo.machine import DemoMachine
from tests.scenarios import repair

Change = Callable[[DemoMachine], None]


@dataclass(frozen=True)
class Plant:
    """A fault: how it breaks a healthy node, and what is done about it. `before` makes the node what it was
    at the earlier look."""

    name: str
    what: str
    break_it: Change
    mend_it: Change
    before: Change


PLANTS: dict[str, Plant] = {}


def _nothing(node: DemoMachine) -> None:
    pass


def plant(name: str, what: str, mend: Change, *steps: Change, before: Change = _nothing) -> None:
    PLANTS[name] = Plant(name, what, _both(*steps), mend, before)


def planted(mend: Change, before: Change = _nothing) -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        plant(change.__name__.replace("_", "-"), (change.__doc__ or "").strip(), mend, change, before=before)
        return change

    return register


def _both(*steps: Change) -> Change:
    def all_of_them(node: DemoMachine) -> None:
        for step in steps:
            step(node)

    return all_of_them


def reads(values: Mapping[str, str]) -> Change:
    """The driver's library reads these values."""
    return lambda node: node.scenario.update(values)


def files(texts: Mapping[str, str]) -> Change:
    """Files hold these texts."""
    return lambda node: node.files.update(texts)


def without(path: str) -> Change:
    def take_away(node: DemoMachine) -> None:
        del node.files[path]

    return take_away


def says(text: str, priority: int = 6) -> Change:
    """The kernel says so."""
    return lambda node: node.say(text, priority)


def _a_day_later(node: DemoMachine) -> None:
    repair.wait(node, 25)


_reset = _both(repair.reset_gpu, _a_day_later)


def _reset_and_said(node: DemoMachine) -> None:
    repair.reset_gpu(node)
    node.say("muster: all GPUs were reset", 4)


def _replace(gpu: int) -> Change:
    return lambda node: repair.replace_gpu(node, gpu)


def _set(*keys: str) -> Change:
    return lambda node: repair.operate(node, *keys)


def _xid(gpu: int, number: int, text: str, *, by: str = "pid=30417, name=python3") -> Change:
    return says(f"NVRM: Xid (PCI:{GPUS[gpu][:-2]}): {number}, {by}, {text}", 4)


# ---- gone

plant("off-the-bus", "GPU 3 fell off the bus (Xid 79), and whoever asks it is told that it is lost.",
      repair.reboot,
      _xid(3, 79, "GPU has fallen off the bus.", by="pid='<unknown>', name=<unknown>"),
      says(f"NVRM: GPU {GPUS[3]}: GPU has fallen off the bus.", 4),
      reads({"gpu.3.error": "15"}))
plant("gpu-lost", "NVML_ERROR_GPU_IS_LOST for GPU 6; the kernel's words are overwritten already.",
      repair.reboot, reads({"gpu.6.error": "15"}))


@planted(repair.reseat)
def gpu_missing(node: DemoMachine) -> None:
    """GPU 5 did not enumerate at the last boot: seven on the PCI bus, seven in the driver."""
    repair.reboot(node)
    remove_pci(node, GPUS[5])
    kept = {key: value for key, value in node.scenario.items() if not key.startswith("gpu.")}
    for new, old in enumerate(index for index in range(len(GPUS)) if index != 5):
        head = f"gpu.{old}."
        kept |= {f"gpu.{new}.{key[len(head):]}": value
                 for key, value in node.scenario.items() if key.startswith(head)}
    node.scenario = kept | {"gpu.count": "7"}


# ---- memory

plant("uncorrectable-memory-error",
      "GPU 2 met an uncorrectable error (Xid 48), which its volatile counter holds.", _reset_and_said,
      _xid(2, 48, "DBE (double bit error) has occurred on framebuffer at partition 7, subpartition 1."),
      reads({"gpu.2.ecc.volatile.uncorrected": "1"}))
plant("row-remap-pending", "GPU 0 marked a row for remapping (Xid 63): done at the next reset.",
      _reset_and_said,
      _xid(0, 63, "Row Remapper: New row (0x0000000002e3b1c7) marked for remapping, reset gpu to activate."),
      reads({"gpu.0.rows.pending": "1"}))
plant("row-remap-failed",
      "GPU 4 could not remap a row (Xid 64): there is none left in that bank.", _replace(4),
      _xid(4, 64, "Row Remapper: Failed to remap row (0x00000000012bf0c2)."),
      reads({"gpu.4.rows.failed": "1"}))
plant("sram-threshold",
      "GPU 6 has met more uncorrectable SRAM errors in its life than NVIDIA tolerates; its volatile counters "
      "are at 0.", _replace(6),
      reads({"gpu.6.ecc.sram.threshold_exceeded": "1", "gpu.6.ecc.aggregate.uncorrected.sram": "4"}))
plant("contained-memory-error",
      "GPU 1 met an uncorrectable error that cost only the process that met it (Xid 94).", _reset,
      _xid(1, 94, "Contained: DRAM (0x0,0x0). RST: No, D-RST: Yes"))
plant("uncontained-memory-error",
      "GPU 7 met an uncorrectable error whose reach is not known (Xid 95), and counts it.", _reset_and_said,
      _xid(7, 95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No"),
      reads({"gpu.7.ecc.volatile.uncorrected": "1"}))
plant("corrected-memory-errors-storm",
      "One memory of GPU 3 corrects 5,000 errors a second: between the two figures of NVSentinel's "
      "issue 1748.", _replace(3),
      reads({"gpu.3.ecc.volatile.corrected": "3000120"}),
      before=reads({"gpu.3.ecc.volatile.corrected": "120"}))
plant("ecc-off", "ECC is off on GPU 6: its counters do not exist then.",
      _both(_set("ecc.mode"), repair.reboot), reads({"gpu.6.ecc.mode": "0"}))
plant("memory-left-over", "20 GiB of GPU 2 are in use, and no process is on it.", _reset,
      reads({"gpu.2.memory.used": str(20 << 30)}))


# ---- links

plant("nvlink-down", "One of the 18 NVLinks of GPU 4 is down; the other 17 work.", _reset,
      reads({"gpu.4.nvlink.7.state": "0"}))
plant("nvlink-errors", "Link 4 of GPU 1 repeats 200 flits a second for failed checksums.", repair.reboot,
      reads({"gpu.1.nvlink.4.crc_flit": "120000"}))
plant("nvlink-fatal", "GPU 6 reported a fatal error on an NVLink (Xid 74).", repair.reboot,
      _xid(6, 74, "NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
           by="pid='<unknown>', name=<unknown>"))
plant("nvswitch-fatal", "An NVSwitch reported a fatal error (SXid 20034) of one port.", repair.reboot,
      says("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", 3))
plant("fabric-manager-dead",
      "The Fabric Manager failed before it had set up the NVSwitches: no GPU is through with its "
      "registration.", repair.restart_fabric_manager,
      lambda node: services.service(node, "nvidia-fabricmanager", "failed", "failed"),
      reads({"gpu.*.fabric.state": "2"}))
plant("pcie-narrow", "GPU 5's PCI Express link came up with 8 lanes of 16.", repair.reseat,
      reads({"gpu.5.pcie.width": "8"}))
plant("pcie-slow", "GPU 0's slot allows generation 4 and not 5.", repair.reseat,
      reads({"gpu.0.pcie.generation": "4", "gpu.0.pcie.generation.max": "4"}))
plant("pcie-replays", "GPU 7's PCI Express link repeats 600 packets a minute.", repair.reseat,
      reads({"gpu.7.pcie.replays": "6040"}), before=reads({"gpu.7.pcie.replays": "40"}))
plant("nvswitch-corrected-an-error", "An NVSwitch corrected a single-bit error (SXid 11021).", _a_day_later,
      says(
          "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 11021, Non-fatal, Link 12 ingress header ECC "
          "single-bit error", 4))


# ---- heat, power, settings

plant("thermal-slowdown", "GPU 1 is at 93 C, and its hardware slows it down for that.", repair.cool,
      reads({"gpu.1.clocks.reasons": "0x48", "gpu.1.temperature.0": "93"}))
plant("beyond-its-highest-temperature",
      "GPU 6 is 1 C above its highest operating temperature and not slowed down yet: that begins at 2 "
      "C above.", repair.cool,
      reads({"gpu.6.temperature.margin": "-1", "gpu.6.temperature.0": "88"}))
plant("power-brake", "The power supply pulls GPU 4's brake.", repair.cool,
      reads({"gpu.4.clocks.reasons": "0x88"}))
plant("memory-too-hot", "The memory of GPU 0 is at 97 C, 2 above its limit; its core is not.", repair.cool,
      reads({"gpu.0.temperature.memory": "97"}))
plant("power-limit-lowered", "Somebody has set GPU 2 to 500 W.", _set("power.limit"),
      reads({"gpu.2.power.limit": "500000", "gpu.2.power.limit.enforced": "500000"}))
plant("power-capped-out-of-band", "The BMC caps GPU 2 at 500 W; what nvidia-smi was told stands as it was.",
      _set("power.limit.enforced"),
      reads({"gpu.2.power.limit.enforced": "500000"}))
plant("persistence-off", "Persistence mode is off on every GPU.", _set("persistence_mode"),
      reads({"gpu.*.persistence_mode": "0"}))
plant("mig-on", "Somebody left GPU 3 in MIG mode.", _set("mig."),
      reads({"gpu.3.mig.mode": "1", "gpu.3.mig.pending": "1"}))


# ---- driver and firmware

plant("firmware-timeout", "The firmware on GPU 4 (GSP) did not answer the driver (Xid 119).", _reset_and_said,
      _xid(4,
           119,
           "Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 76 "
           "(GSP_RM_CONTROL) (0x2080014b 0x5)."))
plant("driver-and-library-differ",
      "The library was updated under the loaded driver: NVML answers that the two differ, the kernel "
      "says so too.", repair.reboot,
      reads({"init": "18"}),
      says(
          "NVRM: API mismatch: the client has the version 550.54.15, but\nNVRM: this kernel module has the "
          "version 535.161.08.", 3))


@planted(repair.reboot)
def driver_not_loaded(node: DemoMachine) -> None:
    """The driver's module is not loaded: nothing of it is in /proc and /sys."""
    node.scenario["init"] = "9"
    for path in [path
                 for path in node.files if path.startswith(("/sys/module/nvidia", "/proc/driver/nvidia"))]:
        del node.files[path]
    for path in [path for path in node.files if path.endswith("/uevent")]:
        node.files[path] = node.files[path].replace("DRIVER=nvidia\n", "")


plant("reset-wanted", "The driver itself wants GPU 1 reset: field 230, and Xid 154 in the log.",
      repair.reset_gpu,
      reads({"gpu.1.field.230": "1"}),
      _xid(1, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
           by="pid='<unknown>', name=<unknown>"))
plant("other-kernel", "The node came up with another kernel than its peers.", repair.reboot,
      files({"/proc/sys/kernel/osrelease": "6.5.0-1014-nvidia\n"}))


@planted(repair.reboot)
def other_driver(node: DemoMachine) -> None:
    """The node has an older driver than its peers, and with it an older firmware."""
    node.files["/sys/module/nvidia/version"] = "535.129.03\n"
    node.files["/proc/driver/nvidia/version"] = node.files["/proc/driver/nvidia/version"].replace(
        "535.161.08", "535.129.03")
    node.scenario |= {"driver.version": "535.129.03", "nvml.version": "12.535.129.03"}
    node.files[containers.CDI] = containers.cdi(len(GPUS), "535.129.03")
    node.files |= dict.fromkeys(containers.needed(len(GPUS), "535.129.03"), "")


# ---- what jobs do

plant("users-fault", "A job's process read where nothing is mapped (Xid 31), once.", _a_day_later,
      _xid(5, 31,
           "Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f2c_a0000000. "
                  "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ"))
plant("same-processor-again",
      "Two jobs met an exception on the same processor cluster (TPC) of GPU 3, hours apart: Xid 13.",
      _replace(3),
      _xid(3, 13, "Graphics SM Warp Exception on (GPC 2, TPC 3, SM 1): Illegal Instruction Encoding",
           by="pid=8801, name=train"),
      lambda node: repair.wait(node, 3),
      _xid(3, 13, "Graphics SM Warp Exception on (GPC 2, TPC 3, SM 0): Illegal Instruction Encoding",
           by="pid=9912, name=other"))
