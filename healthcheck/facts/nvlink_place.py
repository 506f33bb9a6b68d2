"""A node's place among those that share NVLinks: what the inventory says, and the cluster its GPUs are in.

The sweep passes it in; beside the GPUs no machine is read for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from healthcheck.facts.gpu import Gpu
from healthcheck.facts.values import Fact, Partial, reading
from inventory.model import Node

NVLINK_PLACE = "nvlink_place"
# The label of the inventory that says which partition of its NVLink domain a node is in, where there are
# several on purpose.
PARTITION_LABEL = "nvlink_partition"
# A cluster UUID of zeros: the GPU is in the fabric of its own board, and not in one that spans nodes (nvml.h,
# nvmlGpuFabricInfo).
NO_CLUSTER = "00000000-0000-0000-0000-000000000000"


class NvlinkPlace(Fact):
    """`domain`, `partition` and `rack` are the inventory's words, empty where it gives none. `cluster` is the
    UUID of the NVLink cluster that most of the node's GPUs are in, empty where they are in none that spans
    nodes, or it was not read."""

    name: str
    domain: str
    partition: str
    rack: str
    cluster: str


def place_of(node: Node, gpus: Any) -> NvlinkPlace:
    """The place of a node with these GPUs, which may be the reason why there are none."""
    clusters = Counter(filter(None, map(cluster_of, _members(gpus))))
    cluster = max(clusters, key=clusters.__getitem__, default="")
    return NvlinkPlace(NVLINK_PLACE, domain=node.nvlink_domain or "",
                       partition=node.labels.get(PARTITION_LABEL, ""), rack=node.rack or "", cluster=cluster)


def cluster_of(gpu: Gpu) -> str:
    """The UUID of the cluster that a GPU has joined; empty for none, and where it was not read."""
    cluster = reading(gpu, "fabric_cluster")
    joined = reading(gpu, "fabric_state") == "completed" and isinstance(cluster, str)
    return cluster if joined and cluster != NO_CLUSTER else ""


def _members(gpus: Any) -> Iterable[Gpu]:
    found = gpus.value if isinstance(gpus, Partial) else gpus
    return found if isinstance(found, tuple) else ()


class Whereabouts(NamedTuple):
    """Where a person with a spare part in hand finds a GPU: "rack r3, tray 7 of chassis 1821325191344", and
    the module's number there."""

    place: str
    module: int | None


def whereabouts(node: Node, gpus: Any) -> Mapping[int, Whereabouts]:
    """Where each GPU is, by its number, without those that do not know their tray. The rack is the
    inventory's, the rest is what the GPU knows."""
    found = {}
    for gpu in _members(gpus):
        tray = reading(gpu, "tray_index")
        if isinstance(tray, int):
            chassis, module = reading(gpu, "chassis_serial"), reading(gpu, "module_id")
            of = f" of chassis {chassis}" if isinstance(chassis, str) else ""
            found[gpu.index] = Whereabouts((f"rack {node.rack}, " if node.rack else "") + f"tray {tray}{of}",
                                           module if isinstance(module, int) else None)
    return MappingProxyType(found)
