"""Plants the commonest GPU faults, as raw values: what driver, kernel and tools say then. What muster must say of them is in expect.py,
and knows nothing of this.

Which are common: of 419 unplanned stops of a training run on 16,384 H100 in 54 days, 148 were a faulty GPU, 72 its memory (HBM3), 19
its SRAM, 17 its firmware's processor (GSP), 6 heat (The Llama 3 Herd of Models, table 5); on Delta (1,056 A100 and H100, 2.5 years) GSP,
memory, NVLink and PCIe errors lead (arXiv 2503.11901). Below that nobody has published an order: the rest is what NVIDIA's catalogues
of Xids and operators' issues name. A plant's name with dashes is the fault's; its docstring says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from provisioning.demo import containers, services
from provisioning.demo.h100 import GPUS, remove_pci
from provisioning.demo.machine import DemoMachine
from tests.scenarios import repair

Change = Callable[[DemoMachine], None]


@dataclass(frozen=True)
class Plant:
    """A fault: how it breaks a healthy node, and what is done about it. `before` makes the node what it was at the earlier look."""

    name: str
    what: str
    break_it: Change
    mend_it: Change
    before: Change


PLANTS: dict[str, Plant] = {}


def _plant(mend: Change, before: Change = lambda node: None) -> Callable[[Change], Change]:
    def register(change: Change) -> Change:
        name = change.__name__.replace("_", "-")
        PLANTS[name] = Plant(name, (change.__doc__ or "").strip(), change, mend, before)
        return change

    return register


planted = _plant    # what the files of other subjects (plant_*.py) call it


def _both(*steps: Change) -> Change:
    def all_of_them(node: DemoMachine) -> None:
        for step in steps:
            step(node)

    return all_of_them


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


def _xid(node: DemoMachine, gpu: int, number: int, text: str, *, by: str = "pid=30417, name=python3") -> None:
    node.say(f"NVRM: Xid (PCI:{GPUS[gpu][:-2]}): {number}, {by}, {text}", 4)


# ---- gone


@_plant(repair.reboot)
def off_the_bus(node: DemoMachine) -> None:
    """GPU 3 fell off the bus (Xid 79), and whoever asks it is told that it is lost."""
    _xid(node, 3, 79, "GPU has fallen off the bus.", by="pid='<unknown>', name=<unknown>")
    node.say(f"NVRM: GPU {GPUS[3]}: GPU has fallen off the bus.", 4)
    node.scenario["gpu.3.error"] = "15"


@_plant(repair.reboot)
def gpu_lost(node: DemoMachine) -> None:
    """NVML_ERROR_GPU_IS_LOST for GPU 6; the kernel's words are overwritten already."""
    node.scenario["gpu.6.error"] = "15"


@_plant(repair.reseat)
def gpu_missing(node: DemoMachine) -> None:
    """GPU 5 did not enumerate at the last boot: seven on the PCI bus, seven in the driver."""
    repair.reboot(node)
    remove_pci(node, GPUS[5])
    kept = {key: value for key, value in node.scenario.items() if not key.startswith("gpu.")}
    for new, old in enumerate(index for index in range(len(GPUS)) if index != 5):
        head = f"gpu.{old}."
        kept |= {f"gpu.{new}.{key[len(head):]}": value for key, value in node.scenario.items() if key.startswith(head)}
    node.scenario = kept | {"gpu.count": "7"}


# ---- memory


@_plant(_reset_and_said)
def uncorrectable_memory_error(node: DemoMachine) -> None:
    """GPU 2 met an uncorrectable error (Xid 48), which its volatile counter holds."""
    _xid(node, 2, 48, "DBE (double bit error) has occurred on framebuffer at partition 7, subpartition 1.")
    node.scenario["gpu.2.ecc.volatile.uncorrected"] = "1"


@_plant(_reset_and_said)
def row_remap_pending(node: DemoMachine) -> None:
    """GPU 0 marked a row for remapping (Xid 63): done at the next reset."""
    _xid(node, 0, 63, "Row Remapper: New row (0x0000000002e3b1c7) marked for remapping, reset gpu to activate.")
    node.scenario["gpu.0.rows.pending"] = "1"


@_plant(_replace(4))
def row_remap_failed(node: DemoMachine) -> None:
    """GPU 4 could not remap a row (Xid 64): there is none left in that bank."""
    _xid(node, 4, 64, "Row Remapper: Failed to remap row (0x00000000012bf0c2).")
    node.scenario["gpu.4.rows.failed"] = "1"


@_plant(_replace(6))
def sram_threshold(node: DemoMachine) -> None:
    """GPU 6 has met more uncorrectable SRAM errors in its life than NVIDIA tolerates; its volatile counters are at 0."""
    node.scenario |= {"gpu.6.ecc.sram.threshold_exceeded": "1", "gpu.6.ecc.aggregate.uncorrected.sram": "4"}


@_plant(_reset)
def contained_memory_error(node: DemoMachine) -> None:
    """GPU 1 met an uncorrectable error that cost only the process that met it (Xid 94)."""
    _xid(node, 1, 94, "Contained: DRAM (0x0,0x0). RST: No, D-RST: Yes")


@_plant(_reset_and_said)
def uncontained_memory_error(node: DemoMachine) -> None:
    """GPU 7 met an uncorrectable error whose reach is not known (Xid 95), and counts it."""
    _xid(node, 7, 95, "Uncontained: LTC TAG (0x2,0x0). RST: Yes, D-RST: No")
    node.scenario["gpu.7.ecc.volatile.uncorrected"] = "1"


@_plant(_replace(3), before=lambda node: node.scenario.update({"gpu.3.ecc.volatile.corrected": "120"}))
def corrected_memory_errors_storm(node: DemoMachine) -> None:
    """One memory of GPU 3 corrects 5,000 errors a second: between the two figures of NVSentinel's issue 1748."""
    node.scenario["gpu.3.ecc.volatile.corrected"] = "3000120"


@_plant(_both(_set("ecc.mode"), repair.reboot))
def ecc_off(node: DemoMachine) -> None:
    """ECC is off on GPU 6: its counters do not exist then."""
    node.scenario["gpu.6.ecc.mode"] = "0"


@_plant(_reset)
def memory_left_over(node: DemoMachine) -> None:
    """20 GiB of GPU 2 are in use, and no process is on it."""
    node.scenario["gpu.2.memory.used"] = str(20 << 30)


# ---- links


@_plant(_reset)
def nvlink_down(node: DemoMachine) -> None:
    """One of the 18 NVLinks of GPU 4 is down; the other 17 work."""
    node.scenario["gpu.4.nvlink.7.state"] = "0"


@_plant(repair.reboot)
def nvlink_errors(node: DemoMachine) -> None:
    """Link 4 of GPU 1 repeats 200 flits a second for failed checksums."""
    node.scenario["gpu.1.nvlink.4.crc_flit"] = "120000"


@_plant(repair.reboot)
def nvlink_fatal(node: DemoMachine) -> None:
    """GPU 6 reported a fatal error on an NVLink (Xid 74)."""
    _xid(node, 6, 74, "NVLink: fatal error detected on link 6(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)", by="pid='<unknown>', name=<unknown>")


@_plant(repair.reboot)
def nvswitch_fatal(node: DemoMachine) -> None:
    """An NVSwitch reported a fatal error (SXid 20034) of one port."""
    node.say("nvidia-nvswitch0: SXid (PCI:0000:05:00.0): 20034, Fatal, Link 30 LTSSM Fault Up", 3)


@_plant(repair.restart_fabric_manager)
def fabric_manager_dead(node: DemoMachine) -> None:
    """The Fabric Manager failed before it had set up the NVSwitches: no GPU is through with its registration."""
    services.service(node, "nvidia-fabricmanager", "failed", "failed")
    node.scenario["gpu.*.fabric.state"] = "2"


@_plant(repair.reseat)
def pcie_narrow(node: DemoMachine) -> None:
    """GPU 5's PCI Express link came up with 8 lanes of 16."""
    node.scenario["gpu.5.pcie.width"] = "8"


@_plant(repair.reseat)
def pcie_slow(node: DemoMachine) -> None:
    """GPU 0's slot allows generation 4 and not 5."""
    node.scenario |= {"gpu.0.pcie.generation": "4", "gpu.0.pcie.generation.max": "4"}


@_plant(repair.reseat, before=lambda node: node.scenario.update({"gpu.7.pcie.replays": "40"}))
def pcie_replays(node: DemoMachine) -> None:
    """GPU 7's PCI Express link repeats 600 packets a minute."""
    node.scenario["gpu.7.pcie.replays"] = "6040"


@_plant(_a_day_later)
def nvswitch_corrected_an_error(node: DemoMachine) -> None:
    """An NVSwitch corrected a single-bit error (SXid 11021)."""
    node.say("nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 11021, Non-fatal, Link 12 ingress header ECC single-bit error", 4)


# ---- heat, power, settings


@_plant(repair.cool)
def thermal_slowdown(node: DemoMachine) -> None:
    """GPU 1 is at 93 C, and its hardware slows it down for that."""
    node.scenario |= {"gpu.1.clocks.reasons": "0x48", "gpu.1.temperature.0": "93"}


@_plant(repair.cool)
def beyond_its_highest_temperature(node: DemoMachine) -> None:
    """GPU 6 is 1 C above its highest operating temperature and not slowed down yet: that begins at 2 C above."""
    node.scenario |= {"gpu.6.temperature.margin": "-1", "gpu.6.temperature.0": "88"}


@_plant(repair.cool)
def power_brake(node: DemoMachine) -> None:
    """The power supply pulls GPU 4's brake."""
    node.scenario["gpu.4.clocks.reasons"] = "0x88"


@_plant(repair.cool)
def memory_too_hot(node: DemoMachine) -> None:
    """The memory of GPU 0 is at 97 C, 2 above its limit; its core is not."""
    node.scenario["gpu.0.temperature.memory"] = "97"


@_plant(_set("power.limit"))
def power_limit_lowered(node: DemoMachine) -> None:
    """Somebody has set GPU 2 to 500 W."""
    node.scenario |= {"gpu.2.power.limit": "500000", "gpu.2.power.limit.enforced": "500000"}


@_plant(_set("power.limit.enforced"))
def power_capped_out_of_band(node: DemoMachine) -> None:
    """The BMC caps GPU 2 at 500 W; what nvidia-smi was told stands as it was."""
    node.scenario["gpu.2.power.limit.enforced"] = "500000"


@_plant(_set("persistence_mode"))
def persistence_off(node: DemoMachine) -> None:
    """Persistence mode is off on every GPU."""
    node.scenario["gpu.*.persistence_mode"] = "0"


@_plant(_set("mig."))
def mig_on(node: DemoMachine) -> None:
    """Somebody left GPU 3 in MIG mode."""
    node.scenario |= {"gpu.3.mig.mode": "1", "gpu.3.mig.pending": "1"}


# ---- driver and firmware


@_plant(_reset_and_said)
def firmware_timeout(node: DemoMachine) -> None:
    """The firmware on GPU 4 (GSP) did not answer the driver (Xid 119)."""
    _xid(node, 4, 119, "Timeout after 6s of waiting for RPC response from GPU4 GSP! Expected function 76 (GSP_RM_CONTROL) (0x2080014b 0x5).")


@_plant(repair.reboot)
def driver_and_library_differ(node: DemoMachine) -> None:
    """The library was updated under the loaded driver: NVML answers that the two differ, the kernel says so too."""
    node.scenario["init"] = "18"
    node.say("NVRM: API mismatch: the client has the version 550.54.15, but\nNVRM: this kernel module has the version 535.161.08.", 3)


@_plant(repair.reboot)
def driver_not_loaded(node: DemoMachine) -> None:
    """The driver's module is not loaded: nothing of it is in /proc and /sys."""
    node.scenario["init"] = "9"
    for path in [path for path in node.files if path.startswith(("/sys/module/nvidia", "/proc/driver/nvidia"))]:
        del node.files[path]
    for path in [path for path in node.files if path.endswith("/uevent")]:
        node.files[path] = node.files[path].replace("DRIVER=nvidia\n", "")


@_plant(repair.reset_gpu)
def reset_wanted(node: DemoMachine) -> None:
    """The driver itself wants GPU 1 reset: field 230, and Xid 154 in the log."""
    node.scenario["gpu.1.field.230"] = "1"
    _xid(node, 1, 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)", by="pid='<unknown>', name=<unknown>")


@_plant(repair.reboot)
def other_kernel(node: DemoMachine) -> None:
    """The node came up with another kernel than its peers."""
    node.files["/proc/sys/kernel/osrelease"] = "6.5.0-1014-nvidia\n"


@_plant(repair.reboot)
def other_driver(node: DemoMachine) -> None:
    """The node has an older driver than its peers, and with it an older firmware."""
    node.files["/sys/module/nvidia/version"] = "535.129.03\n"
    node.files["/proc/driver/nvidia/version"] = node.files["/proc/driver/nvidia/version"].replace("535.161.08", "535.129.03")
    node.scenario |= {"driver.version": "535.129.03", "nvml.version": "12.535.129.03"}
    node.files[containers.CDI] = containers.cdi(len(GPUS), "535.129.03")
    node.files |= dict.fromkeys(containers.needed(len(GPUS), "535.129.03"), "")


# ---- what jobs do


@_plant(_a_day_later)
def users_fault(node: DemoMachine) -> None:
    """A job's process read where nothing is mapped (Xid 31), once."""
    _xid(node, 5, 31, "Ch 00000007, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_3 faulted @ 0x7f2c_a0000000. "
                      "Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ")


@_plant(_replace(3))
def same_processor_again(node: DemoMachine) -> None:
    """Two jobs met an exception on the same processor cluster (TPC) of GPU 3, hours apart: Xid 13."""
    _xid(node, 3, 13, "Graphics SM Warp Exception on (GPC 2, TPC 3, SM 1): Illegal Instruction Encoding", by="pid=8801, name=train")
    repair.wait(node, 3)
    _xid(node, 3, 13, "Graphics SM Warp Exception on (GPC 2, TPC 3, SM 0): Illegal Instruction Encoding", by="pid=9912, name=other")
