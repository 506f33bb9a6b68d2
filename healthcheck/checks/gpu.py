"""GPU checks: they are present, answer, need no recovery, and have the SKU's settings."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from healthcheck.checks.base import GIB, NotJudged, check
from healthcheck.facts.gpu import Gpu, GpuPresence
from healthcheck.facts.persistence import PersistenceMode
from healthcheck.model.outcome import Finding, Owner, Repair


@check("gpu.count")
def gpu_count(gpu_presence: GpuPresence, *, expected: int) -> Iterator[Finding]:
    """The PCI bus holds, and the driver lists, as many GPUs as the SKU has.

    The driver lost a GPU that is on the bus but not listed; one that is not on the bus did not enumerate.
    """
    if gpu_presence.on_pci != expected:
        yield Finding(gpu_presence.on_pci, expected, "GPUs on PCI")
    if gpu_presence.listed != expected:
        yield Finding(gpu_presence.listed, expected, "GPUs listed by the driver")


@check("gpu.listed")
def gpu_listed(gpu_presence: GpuPresence, *, sku_model: str = "", sku_count: int = -1) -> Iterator[Finding]:
    """The driver lists every GPU on the PCI bus, where the SKU names a card but not how many there are; where
    it says that, gpu.count judges."""
    if sku_count >= 0:
        raise NotJudged("the SKU gives gpu_count, so gpu.count judges")
    if not sku_model:
        raise NotJudged("no SKU names this node's GPUs")
    if gpu_presence.listed != gpu_presence.on_pci:
        yield Finding(gpu_presence.listed, f"{gpu_presence.on_pci} {sku_model}, as on PCI",
                      "GPUs listed by the driver")


@check("gpu.answers", answers=True)
def gpu_answers(gpu: Gpu) -> Iterator[Finding]:
    """Every GPU that the driver lists answers it; a lost one is still listed, so counting does not find it.

    A GPU without a handle, or most of whose readings fail, does not answer either, whatever the error, where
    another GPU of the node answers. Where none does, that is no single GPU's fault (driver-loads).
    """
    if not gpu.answers:
        yield Finding(gpu.trouble, "an answer")


# Remedy, owner and repair for each nvmlDeviceGpuRecoveryAction. The driver writes the same request to the log
# (Xid 154): the repairs are those of `recoveries` in xid.yaml.
_RECOVERIES: Mapping[str, tuple[str, Owner, Repair]] = {
    "gpu_reset": (
        "Drain the node, end every process on the GPU, and reset it (nvidia-smi --gpu-reset -i {index}).",
        Owner.OPERATOR, Repair.RESET_GPU),
    "node_reboot": (
        "Drain the node and reboot it: the fault may have harmed the operating system, and a reset is not "
        "enough.", Owner.OPERATOR, Repair.REBOOT),
    "drain_p2p": (
        "Drain the node, end every process that talks between GPUs, and reset the GPU (nvidia-smi "
        "--gpu-reset -i {index}); the driver may ask for less once they have ended.",
        Owner.OPERATOR, Repair.RESET_GPU),
    "drain_and_reset": (
        "Start nothing new on the GPU; when what runs on it has ended, reset it (nvidia-smi --gpu-reset -i "
        "{index}).", Owner.OPERATOR, Repair.RESET_GPU),
    "bus_reset": (
        "Drain the node and reboot it: the GPU needs a reset of its bus, which only a restart of the machine "
        "guarantees.", Owner.OPERATOR, Repair.REBOOT),
    "system_reboot": ("Drain the node and power-cycle it.", Owner.OPERATOR, Repair.REBOOT),
    # More than one node's service: it ends what runs anywhere in the domain.
    "recover_imex_domain": (
        "Drain the NVLink domain and restart nvidia-imex on all of its nodes.",
        Owner.OPERATOR, Repair.INSPECT),
}
_UNKNOWN_RECOVERY = ("Drain the node and look this action up in the nvml.h of its driver.", Owner.OPERATOR,
                     Repair.INSPECT)


@check("gpu.recovery_action")
def gpu_recovery_action(gpu: Gpu) -> Iterator[Finding]:
    """The driver asks for no recovery of any GPU. It knows what happened, so its request goes before every
    other remedy."""
    if gpu.recovery_action != "none":
        remedy, owner, repair = _RECOVERIES.get(gpu.recovery_action, _UNKNOWN_RECOVERY)
        yield Finding(f"the driver asks for {gpu.recovery_action}", "none",
                      remedy=remedy.replace("{index}", str(gpu.index)), owner=owner, repair=repair)


@check("gpu.persistence")
def gpu_persistence(persistence_mode: PersistenceMode) -> Iterator[Finding]:
    """The driver stays loaded for every GPU when its last process ends: loading again takes seconds and loses
    counters and settings."""
    if not persistence_mode.on:
        yield Finding(persistence_mode.observed, "on")


@check("gpu.mig")
def gpu_mig(gpu: Gpu, *, expected: bool) -> Iterator[Finding]:
    """Every GPU is divided (MIG), or not, as the SKU says, and stays so after the next reset."""
    words = ("off", "on")
    if gpu.mig != expected:
        yield Finding(f"MIG is {words[gpu.mig]}", words[expected])
    elif gpu.mig_pending != gpu.mig:
        yield Finding(f"MIG will be {words[gpu.mig_pending]} after the next reset", words[expected])


@check("gpu.compute_mode")
def gpu_compute_mode(gpu: Gpu, *, expected: str) -> Iterator[Finding]:
    """Every GPU takes processes as the rule says (`default`, `exclusive_process`, `prohibited`)."""
    if gpu.compute_mode != expected:
        yield Finding(gpu.compute_mode, expected)


@check("gpu.c2c")
def gpu_c2c(gpu: Gpu) -> Iterator[Finding]:
    """Every link between a GPU and its Grace CPU is on: the GPU reaches the host's memory over them alone.

    A GPU that has no such links is not judged: B200 beside another CPU says that its C2C mode is off.
    """
    if gpu.c2c_links and not gpu.c2c_enabled:
        yield Finding("the links to the CPU (C2C) are off", "on")
    elif gpu.c2c_links_active < gpu.c2c_links:
        yield Finding(f"{gpu.c2c_links_active} of {gpu.c2c_links} links to the CPU (C2C) are active", "all")


@check("gpu.memory_size")
def gpu_memory_size(gpu: Gpu, *, expected_gib: float, tolerance_percent: float) -> Iterator[Finding]:
    """Every GPU has the SKU's memory, give or take what is reserved of it."""
    gib = gpu.memory_bytes / GIB
    if 100 * abs(gib - expected_gib) > tolerance_percent * expected_gib:
        yield Finding(f"{gib:.1f} GiB", f"{expected_gib:g} GiB, within {tolerance_percent:g}%")
