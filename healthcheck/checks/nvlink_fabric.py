"""Checks of the NVLink fabric: every GPU's place in it, and the services that run it.

nvml.h defines the states and the health mask's parts (nvmlGpuFabricInfo_v3_t, NVML_GPU_FABRIC_HEALTH_MASK_*).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from healthcheck.checks.base import NotJudged, NotMeasured, Peers, check
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.nvlink_fabric import NvlinkFabricLog
from healthcheck.facts.nvlink_place import NO_CLUSTER
from healthcheck.facts.service import Services
from healthcheck.model.outcome import Finding, Owner

_RESTART = ("Drain, stop the jobs, restart nvidia-fabricmanager, then reset the GPUs or reboot; read its log "
            "if it fails again.")
# The values of nvmlReturn_t in which a fabric probe ends.
_STATUS = {3: "not supported", 10: "timeout", 15: "GPU is lost", 16: "GPU requires reset",
           23: "insufficient resources", 27: "not ready", 29: "invalid state", 999: "unknown error"}


@check("nvlink_fabric.state")
def nvlink_fabric_state(gpu: Gpu, *, expected: bool) -> Iterator[Finding]:
    """Every GPU of a machine with an NVLink fabric has joined it: its probe is completed with success.

    A GPU that never joins runs, and hangs or fails in the first job that uses NVLink.
    """
    if not expected:
        return
    if gpu.fabric_state != "completed":
        yield Finding(f"fabric probe {gpu.fabric_state.replace('_', ' ')}", "completed")
    elif gpu.fabric_status:
        status = _STATUS.get(gpu.fabric_status, "error")
        yield Finding(f"fabric probe completed with {status} ({gpu.fabric_status})", "success")


# Each part of the mask with the values 1 (yes) and 2 (no): where it begins, what yes means, and the remedy.
_WAIT = "Wait some minutes and check again; if it is still in progress, drain the node and reset the GPU."
_QUESTIONS = (
    (0, "bandwidth degraded", ""),
    (2, "route recovery in progress", _WAIT),
    (4, "route unhealthy", ""),
    (6, "access timeout recovery in progress", _WAIT),
)
_CONFIGURATION = {2: "system GUID", 3: "chassis serial number", 4: "no partition", 5: "insufficient NVLinks",
                  6: "incompatible GPU firmware", 7: "invalid location", 8: "GPU state invalid"}
_CORRECT = ("Drain. Compare the fabric's configuration (partition, chassis, firmware) with that of its "
            "neighbours "
            "and correct it.")


@check("nvlink_fabric.health")
def nvlink_fabric_health(gpu: Gpu) -> Iterator[Finding]:
    """No part of a GPU's fabric health mask reports a fault: bandwidth, routes, recoveries, configuration.

    Parts that the driver does not support are not judged; a GPU without any is not supported. Partition and
    global manager have nvlink_fabric.partition.
    """
    for shift, wrong, remedy in _QUESTIONS:
        if gpu.fabric_health >> shift & 0x3 == 1:
            yield Finding(wrong, "a healthy fabric", remedy=remedy)
    if (number := gpu.fabric_health >> 8 & 0xF) > 1:
        observed = f"incorrect configuration: {_CONFIGURATION.get(number, f'number {number}')}"
        yield Finding(observed, "a correct configuration", remedy=_CORRECT, owner=Owner.OPERATOR)


_SUMMARIES = {"unhealthy": "unhealthy", "limited_capacity": "limited capacity"}


@check("nvlink_fabric.summary")
def nvlink_fabric_summary(gpu: Gpu) -> Iterator[Finding]:
    """The driver's own summary of a GPU's fabric is healthy; nvlink_fabric.health names the part at fault,
    where the driver does."""
    if gpu.fabric_summary != "healthy":
        observed = _SUMMARIES.get(gpu.fabric_summary, gpu.fabric_summary)
        yield Finding(f"the fabric's health: {observed}", "healthy")


@check("nvlink_fabric.partition")
def nvlink_fabric_partition(gpu: Gpu) -> Iterator[Finding]:
    """Every GPU in a fabric has its partition, and the fabric's global manager is connected: else no new work
    spans nodes."""
    if gpu.fabric_health >> 12 & 0x3 == 2:
        yield Finding("no partition is assigned", "a partition")
    if gpu.fabric_health >> 14 & 0x3 == 2:
        yield Finding("the global fabric manager is disconnected", "connected")


@check("nvlink_fabric.clique")
def nvlink_fabric_clique(gpus: Peers[Gpu]) -> Iterator[Finding]:
    """All GPUs of a node are in one NVLink cluster and clique; GPUs of two cliques do not reach each other
    over NVLink.

    Only GPUs whose probe is completed have a place; where none has one, nvlink_fabric.state says why.
    """
    placed = gpus.read(_place)
    places = {gpu.name: place for gpu, place in placed if place is not None}
    if placed and not places:
        raise NotMeasured(None, "no GPU's fabric probe is completed")
    for (cluster, clique), _ in Counter(places.values()).most_common(1):
        for name, place in places.items():
            if place != (cluster, clique):
                expected = f"clique {clique} of cluster {cluster}, as most of the node's GPUs"
                yield Finding(f"clique {place[1]} of cluster {place[0]}", expected, name)


@check("nvlink_fabric.cluster")
def nvlink_fabric_cluster(gpu: Gpu, *, expected: bool) -> Iterator[Finding]:
    """Where NVLinks span nodes, every GPU that has joined its fabric has the UUID of a cluster; one of zeros
    shares no memory with other nodes."""
    if not expected:
        raise NotJudged("there are no NVLinks between nodes, as the SKU says: not judged")
    if gpu.fabric_state == "completed" and gpu.fabric_cluster == NO_CLUSTER:
        yield Finding("no cluster UUID (all zeros)", "the UUID of its NVLink domain's cluster")


def _place(gpu: Gpu) -> tuple[str, int] | None:
    return (gpu.fabric_cluster, gpu.fabric_clique) if gpu.fabric_state == "completed" else None


def _in_fabric(gpu: Gpu) -> bool:
    """Whether the GPU has joined its fabric; one whose state is not supported has not."""
    return gpu.fabric_state == "completed" and not gpu.fabric_status


@check("nvlink_fabric.manager")
def nvlink_fabric_manager(services: Services, gpus: Peers[Gpu], *, expected: bool) -> Iterator[Finding]:
    """On a machine with its own NVSwitches the Fabric Manager runs. Only the SKU says whether it has any: not
    all are PCI devices.

    Where its unit is not installed, it may run in a driver's container: then the GPUs' completed fabric
    probes show that it worked. Beside these, a GPU that was not read shows nothing.
    """
    manager = services.fabric_manager if expected else None
    if manager is None or manager.active == "active":
        return
    joined = gpus.where(_in_fabric) if manager.load == "not-found" else Peers(())
    if len(joined) and not len(gpus.where(lambda gpu: not _in_fabric(gpu))):
        return
    yield Finding(manager.description, "active", manager.name, remedy=_RESTART)


@check("nvlink_fabric.manager_log")
def nvlink_fabric_manager_log(nvlink_fabric_log: NvlinkFabricLog, *, expected: bool) -> Iterator[Finding]:
    """The Fabric Manager logged no error in this boot, on a machine with its own NVSwitches. Equal errors are
    one finding, counted."""
    counts: Counter[str] = Counter()
    first: dict[str, str] = {}
    for line in nvlink_fabric_log.errors() if expected else ():
        counts[line.what] += 1
        first.setdefault(line.what, line.text)
    for what, number in counts.items():
        observed = f"{number} lines, the first: {first[what]}" if number > 1 else first[what]
        yield Finding(observed, "no such line in this boot", what)


@check("nvlink_fabric.imex")
def nvlink_fabric_imex(services: Services, *, expected: bool) -> Iterator[Finding]:
    """Where GPUs of several nodes share memory over NVLink, the IMEX service that exports and imports it
    runs."""
    if not expected:
        raise NotJudged("there are no NVLinks between nodes, as the SKU says")
    if services.imex.active != "active":
        yield Finding(services.imex.description, "active", services.imex.name)
