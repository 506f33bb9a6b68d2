"""SKUs: the numbers that machines of one kind should show, from a file or from what most nodes show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median_low
from types import MappingProxyType
from typing import Any

from healthcheck.facts.port import most_common_kind
from healthcheck.facts.product import is_model, words
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, Unsupported, reading
from inventory.model import NO_LIMITS, PortPlan, StageLimits
from inventory.text import clean

Facts = Mapping[str, Any]


@dataclass(frozen=True)
class BurninEnv:
    """NCCL settings: a profile of rules/burnin.yaml (None: no profile) and what overrides it. `nvls`: the
    GPUs' switches can reduce, so all-reduces within a node run with and without it.
    """

    profile: str | None = None
    env: tuple[tuple[str, str], ...] = ()
    nvls: bool = False


@dataclass(frozen=True)
class Sku:
    """Numbers by name, None for one that this SKU declines to judge. `empty` names the facts that may be
    empty collections, `ports` the role of each port by PCI address, `burnin` the NCCL settings of its
    all-reduces, `limits` how long the stages of reaching such a machine may take.

    `why_unknown` says for a provisional SKU why it lacks a number.
    """

    name: str
    title: str
    numbers: Mapping[str, Any]
    empty: frozenset[str]
    file: str
    provisional: bool = False
    ports: Mapping[str, PortPlan] = field(default_factory=lambda: MappingProxyType({}))
    burnin: BurninEnv = BurninEnv()
    why_unknown: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    source: str = ""
    limits: StageLimits = NO_LIMITS

    def __post_init__(self) -> None:
        for name, number, others in (("gpus", "gpu_count", OF_GPUS), ("ports", "port_count", OF_PORTS)):
            if name not in self.empty:
                continue
            # What a SKU counts may not be missing, whatever it inherits: eight ports that are gone are no
            # machine without ports.
            absent = frozenset((name, *others))
            object.__setattr__(self, "empty",
                               self.empty - absent if self.numbers.get(number) else self.empty | absent)

    def contradicted(self, why: str) -> Sku:
        """This SKU for a node that is another machine: no number but those it declines, and why."""
        declined = {name: None for name, value in self.numbers.items() if value is None}
        return Sku(self.name, self.title, declined, frozenset(), self.file,
                   why_unknown=MappingProxyType(dict.fromkeys(self.numbers, why)))

    def declines(self, number: str) -> bool:
        """Whether the SKU gives null for this number: it is not judged."""
        return number in self.numbers and self.numbers[number] is None


def _count(fact: str, attribute: str) -> Callable[[Facts], Any]:
    def read(facts: Facts) -> Any:
        held = _plain(facts.get(fact))
        return None if held is None else _plain(reading(held, attribute))

    return read


def _port_rate(facts: Facts) -> float | None:
    """The rate of the slowest active port: storage ports that all nodes have are then no fault."""
    ports = _plain(facts.get("ports"))
    if ports is None:
        return None
    rates = [_plain(reading(port, "rate_gbps")) for port in most_common_kind(ports)
             if reading(port, "state") == "ACTIVE"]
    return None if None in rates else min(rates, default=0.0)


def _port_count(facts: Facts) -> int | None:
    ports = _plain(facts.get("ports"))
    return len(most_common_kind(ports)) if ports is not None else None


def _memory_gib(facts: Facts) -> float | None:
    total = _count("memory", "total_bytes")(facts)
    return float(round(total / 2**30)) if total is not None else None


def _numa_nodes(facts: Facts) -> int | None:
    """NUMA nodes with CPUs: the memory of a superchip's GPUs is a NUMA node as well."""
    counts = [_plain(reading(node, "cpus")) for node in _plain(facts.get("numa_nodes")) or ()]
    return sum(count > 0 for count in counts) if counts and None not in counts else None


def _nvme_count(facts: Facts) -> int | None:
    found = _plain(facts.get("nvme_bus"))
    return len(found.on_pci) if found is not None and _plain(reading(found, "on_pci")) is not None else None


def _dimm_count(facts: Facts) -> int | None:
    modules = _count("dimms", "modules")(facts)
    return len(modules) if modules is not None else None


def _docker(facts: Facts) -> bool | None:
    """True where a daemon answers. A dead one does not show that none is wanted."""
    return True if _count("docker", "answers")(facts) is True else None


def _common(field: str, read: Callable[[Any], Any] = lambda value: value, *,
            without: Any = None) -> Callable[[Facts], Any]:
    """What all GPUs have in common; `without` stands for one that does not support it, and for no GPUs."""
    return partial(_in_common, field, read, without)


def _in_common(field: str, read: Callable[[Any], Any], without: Any, facts: Facts) -> Any:
    gpus = _plain(facts.get("gpus"))
    if gpus == ():
        return without
    found = {_value(gpu, field, read, without) for gpu in gpus or ()}
    return found.pop() if len(found) == 1 else None


def _most(field: str, read: Callable[[Any], Any] = lambda value: value) -> Callable[[Facts], Any]:
    """What more than half of the node's GPUs show, so that one odd board does not hide the others' value."""
    return partial(_shown_by_most, field, read)


def _shown_by_most(field: str, read: Callable[[Any], Any], facts: Facts) -> Any:
    return _majority([_value(gpu, field, read, None) for gpu in _plain(facts.get("gpus")) or ()])


def _value(gpu: Any, field: str, read: Callable[[Any], Any], without: Any) -> Any:
    value = reading(gpu, field)
    if isinstance(value, Unsupported):
        return without
    return None if isinstance(value, Unmeasured) else read(value)


def _majority(values: Sequence[Any]) -> Any:
    counts = Counter(values)
    value = max(counts, key=counts.__getitem__, default=None)
    return value if 2 * counts[value] > len(values) else None


def _nvlink_count(facts: Facts) -> Any:
    """Active links on most GPUs of the node; 0 where NVML knows no NVLink."""
    found = _plain(facts.get("gpu_links")) or ()
    return _majority(
        [0 if reading(gpu, "links") is UNSUPPORTED else _plain(reading(gpu, "active")) for gpu in found])


def _nvlink_gigabytes(facts: Facts) -> Any:
    """The speed of most active links."""
    found = _plain(facts.get("nvlinks")) or ()
    return _majority(
        [_plain(reading(link, "gigabytes_per_second")) for link in found if reading(link, "active") is True])


def _gpu_device(facts: Facts) -> Any:
    return _majority(_count("pci_bus", "gpus")(facts) or ())


_fabric = _common("fabric_state", lambda state: None if state == "not_started" else state != "not_supported",
                without=False)
# A cluster UUID of zeros names no cluster (nvml.h, nvmlGpuFabricInfo).
_clustered = _common("fabric_cluster", lambda cluster: bool(cluster.strip("0-")), without=False)
_cluster = _common("fabric_cluster")


def _service(facts: Facts, name: str) -> tuple[Any, Any]:
    """ActiveState and LoadState of one of NVIDIA's services; "" where it was not measured."""
    service = _plain(_count("services", name)(facts))
    return ("", "") if service is None else (reading(service, "active"), reading(service, "load"))


def _imex(facts: Facts) -> bool | None:
    """Whether GPUs of several nodes share memory here, for which IMEX runs: not without a cluster, and not
    where the node runs the fabric itself (its own NVSwitches or Fabric Manager, as HGX does). A cluster alone
    shows neither: then IMEX's unit decides, which only such nodes install. See also `spanning`.
    """
    if not (clustered := _clustered(facts)):
        return None if clustered is None else False
    if _count("pci_bus", "nvswitches")(facts) or _service(facts, "fabric_manager")[0] == "active":
        return False
    return True if _service(facts, "imex")[1] == "loaded" else None


def spanning(facts: Mapping[str, Facts]) -> frozenset[str]:
    """The nodes whose GPUs' cluster has GPUs of another of these nodes as well: their fabric spans nodes."""
    clusters = {node: _cluster(found) for node, found in facts.items() if _clustered(found)}
    counts = Counter(clusters.values())
    return frozenset(node for node, cluster in clusters.items() if cluster and counts[cluster] > 1)


def _fabric_manager(facts: Facts) -> bool | None:
    """Whether the node has its own Fabric Manager: where one runs, or NVSwitches are seen. Those of HGX B200
    are no PCI devices, so a loaded but dead service counts as well, unless the GPUs are in no fabric or in
    one that is managed elsewhere.

    A missing service proves nothing: it may run in a driver's container, or be the node's fault.
    """
    switches = _count("pci_bus", "nvswitches")(facts)
    active, load = _service(facts, "fabric_manager")
    if switches or active == "active":
        return True
    if switches == 0 and (_fabric(facts) is False or _clustered(facts) is True):
        return False
    return True if load == "loaded" else None


# How to learn each number from one node's facts; None where the node does not show it.
LEARNERS: Mapping[str, Callable[[Facts], Any]] = {
    "gpu_count": _count("gpu_presence", "on_pci"),
    "port_count": _port_count,
    "port_rate_gbps": _port_rate,
    "gpu_model": _most("model"),
    "gpu_device": _gpu_device,
    "gpu_memory_gib": _most("memory_bytes", lambda value: value // 2**30),
    "nvlink_count": _nvlink_count,
    "nvlink_gigabytes": _nvlink_gigabytes,
    # The current generation falls when a GPU is idle; the width does not.
    "pcie_generation": _most("pcie_generation_max"),
    "pcie_width": _most("pcie_width"),
    "power_limit_watts": _most("power_limit_watts"),
    "nvswitch_count": _count("pci_bus", "nvswitches"),
    "fabric_manager": _fabric_manager,
    "fabric": _fabric,
    "imex": _imex,
    "mig": _common("mig", without=False),
    "ecc": _common("ecc_enabled"),
    "memory_gib": _memory_gib,
    "docker": _docker,
    "dimm_count": _dimm_count,
    "nvme_count": _nvme_count,
    "cpu_count": _count("cpus", "online"),
    "numa_nodes": _numa_nodes,
}
LEARNED_FROM: Mapping[str, tuple[str, ...]] = {
    "gpu_count": ("gpu_presence",), "port_count": ("ports",), "port_rate_gbps": ("ports",),
    "memory_gib": ("memory",), "docker": ("docker",), "gpu_device": ("pci_bus",),
    "nvswitch_count": ("pci_bus",), "nvlink_count": ("gpu_links",), "nvme_count": ("nvme_bus",),
    "fabric_manager": ("pci_bus", "services", "gpus"), "imex": ("pci_bus", "services", "gpus"),
    "nvlink_gigabytes": ("nvlinks",),
    "dimm_count": ("dimms",), "cpu_count": ("cpus",), "numa_nodes": ("numa_nodes",),
    **dict.fromkeys(("gpu_model", "gpu_memory_gib", "pcie_generation", "pcie_width", "power_limit_watts",
                     "fabric", "mig", "ecc"), ("gpus",))}
# Quantities that differ a little between equal machines: the median is expected, not what most say to the
# digit.
MEASURED = ("memory_gib",)
EMPTY_FACTS = ("gpus", "ports")
# Collections that are empty with the GPUs.
OF_GPUS = ("gpu_links", "nvlinks", "nvlink_errors", "nvlink5_errors", "gpu_pairs", "gpu_loads",
           "persistence_modes")
# Collections that are empty with the RDMA ports.
OF_PORTS = ("port_fatal_counters", "port_rate_counters", "port_job_counters", "narrow_counters", "hcas")
_OF_GPU_FACTS = frozenset(("gpus", "gpu_presence", "pci_bus", *OF_GPUS))
SMALLEST_COHORT = 3


def _plain(value: Any) -> Any:
    return None if isinstance(value, (Unmeasured, Unsupported, Partial)) else value


def learn(facts: Facts) -> dict[str, Any]:
    """The value of each learnable number on one node; None where it was not measured."""
    return {name: learner(facts) for name, learner in LEARNERS.items()}


def emptiness(facts: Facts) -> dict[str, bool]:
    """By collection whether this node was measured to have none."""
    return {name: facts.get(name) == () for name in EMPTY_FACTS}


def contradiction(sku: Sku, facts: Facts) -> str | None:
    """Why a node cannot be of this SKU: most of its readable GPUs are of another model; a single odd one is a
    fault of that board.

    The PCI bus counts as well: NVML may be silent, and another product's name may contain the model's, as
    that of a PCIe board does.
    """
    model, device = sku.numbers.get("gpu_model"), sku.numbers.get("gpu_device")
    advice = "correct `sku:` in the inventory, or --sku"
    gpus = [gpu for gpu in _plain(facts.get("gpus")) or () if isinstance(reading(gpu, "model"), str)]
    if isinstance(model, str) and gpus:
        fits = {name: is_model(name, model) for name in {gpu.model for gpu in gpus}}
        others = [gpu for gpu in gpus if not fits[gpu.model]]
        if 2 * len(others) > len(gpus):
            return (f"the node is to be {sku.name}, but {others[0].name} is "
                    f"{clean(others[0].model, 80)}: {advice}")
    found = _count("pci_bus", "gpus")(facts) or ()
    others = [each for each in found if each != device]
    if isinstance(device, str) and 2 * len(others) > len(found):
        named = f" ({clean(Counter(gpu.model for gpu in gpus).most_common(1)[0][0], 80)})" if gpus else ""
        seen = f"{len(others)} of {len(found)} GPUs on PCI are {others[0]} and not {device}{named}"
        return f"the node is to be {sku.name}, but {seen}: {advice}"
    return None


def must_lack(sku: Sku) -> frozenset[str]:
    """The facts that are empty on every machine of the SKU; others of its `empty` may be so, as ports whose
    number it declines."""
    numbers = {"gpus": "gpu_count", "ports": "port_count"}
    return frozenset(name for name in EMPTY_FACTS if name in sku.empty and not sku.declines(numbers[name]))


def of_gpus_there(
    numbers: Mapping[str, Any], empty: Mapping[str, bool],
) -> tuple[Mapping[str, Any], Mapping[str, bool]]:
    """What one node shows, for a majority to expect: without what it shows by having no GPUs. Hosts whose
    GPUs have all left the bus agree on that as well."""
    if numbers.get("gpu_count") != 0 and not empty.get("gpus", False):
        return numbers, empty
    return ({name: None if _OF_GPU_FACTS.intersection(LEARNED_FROM[name]) else value
             for name, value in numbers.items()}, {**empty, "gpus": False})


def with_ports_of(
    sku: Sku, seen: Sequence[Mapping[str, Any]], empty: Sequence[Mapping[str, bool]],
) -> Sku:
    """A SKU without ports for equal nodes that no one declared: where any of them has ports, all are to have
    what most of them show, and none may lack them, as a lost adapter is no machine without ports."""
    if all(each.get("ports", False) for each in empty):
        return sku
    learned = provisional(seen, ()).numbers
    numbers = {**sku.numbers, **{name: learned.get(name) for name in ("port_count", "port_rate_gbps")}}
    return replace(sku, numbers=numbers, empty=sku.empty - {"ports", *OF_PORTS})


def takes(sku: Sku, model: Any, count: Any) -> bool:
    """Whether a machine with so many GPUs of this product may be of the SKU.

    A SKU that names a model and declines the number of GPUs describes cards, of which servers hold any
    number.
    """
    given = sku.numbers.get("gpu_model")
    if given is not None and not (isinstance(model, str) and is_model(model, given)):
        return False
    any_number = given is not None and sku.declines("gpu_count") and bool(count)
    return any_number or (count is not None and bool(count == sku.numbers.get("gpu_count")))


def closest(learned: Mapping[str, Any], known: Mapping[str, Sku]) -> str | None:
    """The one known SKU that fits best what a node learned; None where none fits, or more than one.

    The numbers of GPUs and ports (unless the SKU of a model declines them), the GPUs' model and their PCI
    device must agree. A SKU that also gives the ports' places describes one maker's machine and comes after
    the general one of its kind. One that names the PCI device of the node's GPUs comes first, then the one
    that says most of their name.
    """
    model, device, ports = (learned.get(name) for name in ("gpu_model", "gpu_device", "port_count"))
    read = isinstance(model, str)
    fits = [sku for sku in known.values()
            if takes(sku, model if read else sku.numbers.get("gpu_model"), learned.get("gpu_count"))
            and _takes_ports(sku, ports) and not (read and sku.numbers.get("gpu_model") is None)]
    fits = [sku for sku in fits if not sku.ports] or fits
    fits = [sku for sku in fits if device is None or sku.numbers.get("gpu_device") in (None, device)]
    fits = [sku for sku in fits if device is not None and sku.numbers.get("gpu_device") == device] or fits
    fits = [sku for sku in fits if not read or _says(sku) == max(map(_says, fits))]
    return fits[0].name if len(fits) == 1 else None


def _takes_ports(sku: Sku, count: Any) -> bool:
    any_number = sku.numbers.get("gpu_model") is not None and sku.declines("port_count")
    return count is not None and (any_number or bool(count == sku.numbers.get("port_count")))


def _says(sku: Sku) -> int:
    """How many words a SKU gives of its GPUs' name."""
    return len(words(sku.numbers.get("gpu_model") or ""))


def provisional(seen: Sequence[Mapping[str, Any]], empty: Sequence[Mapping[str, bool]]) -> Sku:
    """The SKU that over half of at least three nodes agree on, by number; or why there is no majority."""
    numbers: dict[str, Any] = {}
    unknown: dict[str, str] = {}
    for name in LEARNERS:
        counts = Counter(values[name] for values in seen if values.get(name) is not None)
        total = sum(counts.values())
        if total < SMALLEST_COHORT:
            unknown[name] = (
                "no SKU is named for this node, and too few nodes were measured to learn what to expect")
            continue
        if name in MEASURED:
            numbers[name] = median_low(counts.elements())
            continue
        value = max(counts, key=counts.__getitem__)
        if 2 * counts[value] <= total:
            unknown[name] = (
                f"no SKU is named for this node, and the {total} measured nodes agree on no {name}")
        else:
            numbers[name] = value
    without = frozenset(name for name in EMPTY_FACTS if len(empty) >= SMALLEST_COHORT
                        and 2 * sum(e.get(name, False) for e in empty) > len(empty))
    return Sku("provisional", "what most nodes show", numbers, without, "the majority of this sweep", True,
               why_unknown=unknown)
