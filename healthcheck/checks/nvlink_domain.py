"""Fleet checks of NVLink domains: the nodes that share memory over NVLinks and switch trays, such as the 18
compute trays of an NVL72.

A domain is what the inventory calls `nvlink_domain`. Nodes of which it says nothing are grouped by the
cluster UUID of their GPUs; what is seen of them is reported, and no one's place is called wrong.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from healthcheck.checks.base import fleet_check, listed
from healthcheck.checks.fleet import Comparison, Uncompared, Undecided
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.nvlink import GpuLinks
from healthcheck.facts.nvlink_place import NO_CLUSTER, PARTITION_LABEL, NvlinkPlace
from healthcheck.facts.values import Fact, readable
from healthcheck.model.outcome import Finding
from inventory.text import many

F = TypeVar("F", bound=Fact)
Row = tuple[str, str, str]      # node, subject, value
Places = Mapping[str, NvlinkPlace]
_NOWHERE = ("there are no NVLinks between nodes: the inventory gives no nvlink_domain, and the GPUs are in "
            "no cluster that spans nodes")
# Where more than a quarter would be outliers, there are two populations and no outliers.
_MOST_OUTLIERS = 4


@dataclass(frozen=True)
class Domain:
    """Nodes that share NVLinks. `known`: the inventory says so, and not only their cluster UUID."""

    name: str
    known: bool
    nodes: tuple[str, ...]


def domains(places: Places) -> list[Domain]:
    """The domains of these nodes. A node of which neither the inventory nor a cluster UUID says anything is
    in none."""
    groups: defaultdict[tuple[bool, str], list[str]] = defaultdict(list)
    for node, place in places.items():
        if place.domain or place.cluster:
            groups[bool(place.domain), place.domain or place.cluster].append(node)
    return [Domain(f"NVLink domain {name}" if known else f"cluster {name}", known, tuple(nodes))
            for (known, name), nodes in groups.items()]


def partitions(domain: Domain, places: Places) -> list[Domain]:
    """A domain as the partitions that the inventory declares in it by a label; without any, itself."""
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for node in domain.nodes:
        groups[places[node].partition].append(node)
    return [Domain(f"partition {name} of {domain.name}" if name else domain.name, domain.known, tuple(nodes))
            for name, nodes in groups.items()]


def nowhere(facts: Mapping[str, object], places: Places) -> Comparison:
    """What is in no domain, visibly not judged."""
    for node in facts:
        if not places[node].domain and not places[node].cluster:
            yield from _unjudged(facts, node, _NOWHERE)


def _unjudged(facts: Mapping[str, object], node: str, why: str) -> Comparison:
    found = facts[node]
    for member in found if isinstance(found, tuple) else (found,):
        if isinstance(member, Fact):
            yield node, Uncompared(member.name, why)


def odd_in(domain: Domain, values: Iterable[Row], what: str, things: str, *, few: str = "",
           known_as: Mapping[str, str] | None = None) -> Comparison:
    """A finding for each (node, subject, value) that differs from more than half of its domain's.

    Where no value has a majority, the domain is `Undecided`. With `few`, which says what else it may be, more
    than a quarter of outliers are none, and only not compared. `known_as` adds words to a value.
    """
    rows = list(values)
    counts = Counter(value for _, _, value in rows)
    if len({node for node, _, _ in rows}) == 1:
        yield from ((node, Uncompared(subject, f"no other node of {domain.name} was measured"))
                    for node, subject, _ in rows)
        return
    if len(counts) < 2:
        return
    (usual, number), *_ = counts.most_common(1)
    outliers = len(rows) - number
    if 2 * number <= len(rows) or (few and _MOST_OUTLIERS * outliers > len(rows)):
        shares = ", ".join(f"{count} have {value}" for value, count in sorted(
            counts.items(), key=lambda item: (-item[1], item[0]))[:3])
        why = f"of the {len(rows)} {things} of {domain.name}, {shares}"
        if few:
            yield from ((node, Uncompared(subject, f"{why}; {few}")) for node, subject, _ in rows)
        else:
            for node in dict.fromkeys(node for node, _, _ in rows):
                yield node, Undecided(domain.name, f"{why}: no {what} has a majority")
        return
    odd: dict[tuple[str, str], list[str]] = {}
    for node, subject, value in rows:
        if value != usual:
            odd.setdefault((node, value), []).append(subject)
    for (node, value), subjects in odd.items():
        words = (known_as or {}).get(value, "")
        expected = f"{usual}, as {number} of {len(rows)} {things} of {domain.name}"
        yield node, Finding(f"{value}{words}", expected, ", ".join(subjects))


@dataclass(frozen=True)
class _Joined:
    """One GPU's place in a cluster that spans nodes."""

    node: str
    gpu: str
    cluster: str
    clique: int


def _joined(
    nodes: Collection[str], gpus: Mapping[str, tuple[Gpu, ...]],
) -> Iterator[_Joined | tuple[str, str]]:
    """The GPUs that have joined a cluster; (node, GPU) of those that have not, which rules of single nodes
    name.

    A GPU in another place than most of its node is left out: nvlink-fabric-clique names it.
    """
    for node in nodes:
        read = list(readable(gpus[node], lambda gpu: (gpu.fabric_state, gpu.fabric_cluster,
                                                      gpu.fabric_clique)))
        found = [_Joined(node, gpu.name, cluster, clique) for gpu, (state, cluster, clique) in read
                 if state == "completed" and cluster != NO_CLUSTER]
        joined = {one.gpu for one in found}
        yield from ((node, gpu.name) for gpu, _ in read if gpu.name not in joined)
        counts = Counter((one.cluster, one.clique) for one in found)
        for place, number in counts.most_common(1):
            whole = 2 * number > len(found)
            yield from (one for one in found if not whole or (one.cluster, one.clique) == place)


@fleet_check("fleet.nvlink_cluster", reads=("fabric_state", "fabric_cluster", "fabric_clique"))
def fleet_nvlink_cluster(gpus: Mapping[str, tuple[Gpu, ...]], nvlink_place: Places) -> Comparison:
    """All GPUs of an NVLink domain are in one cluster, and those of one partition of it in one clique.

    A node of another cluster shares no NVLinks with the others, and one of another clique may not use them. A
    domain in which more than a quarter of the GPUs are in another clique may be divided on purpose: the label
    `nvlink_partition` of its nodes says so, and their cliques are then compared within each partition.
    """
    yield from nowhere(gpus, nvlink_place)
    owners = {f"cluster {cluster}": names for cluster, names in _clusters(nvlink_place).items()}
    for domain in domains(nvlink_place):
        found: list[_Joined] = []
        for one in _joined(domain.nodes, gpus):
            if isinstance(one, _Joined):
                found.append(one)
            else:
                yield one[0], Uncompared(one[1], "it has joined no NVLink cluster that spans nodes")
        if not domain.known:
            cliques = Counter(one.clique for one in found)
            seen = ", ".join(f"{many(number, 'GPU')} in clique {clique}" for clique, number in sorted(
                cliques.items()))
            why = f"the inventory gives no nvlink_domain; seen in {domain.name}: {seen}"
            yield from ((one.node, Uncompared(one.gpu, why)) for one in found)
            continue
        rows = [(one.node, one.gpu, f"cluster {one.cluster}") for one in found]
        others = {cluster: f", that of {listed([name for name in names if name != domain.name])}"
                  for cluster, names in owners.items() if set(names) - {domain.name}}
        yield from odd_in(domain, rows, "cluster", "GPUs", known_as=others)
        usual = Counter(one.cluster for one in found).most_common(1)
        for part in partitions(domain, nvlink_place):
            cliques_of = [(one.node, one.gpu, f"clique {one.clique}") for one in found
                          if one.node in part.nodes and one.cluster == usual[0][0]]
            declared = part.name != domain.name
            yield from odd_in(part, cliques_of, "clique", "GPUs", few="" if declared else (
                f"if it is divided on purpose, declare it: labels: {{{PARTITION_LABEL}: NAME}}"))


def _clusters(places: Places) -> dict[str, list[str]]:
    """By cluster UUID the known domains in which most nodes are in that cluster."""
    found: defaultdict[str, list[str]] = defaultdict(list)
    for domain in domains(places):
        counts = Counter(filter(None, (places[node].cluster for node in domain.nodes)))
        for cluster, number in counts.most_common(1) if domain.known else ():
            if 2 * number > counts.total():
                found[cluster].append(domain.name)
    return found


@fleet_check("fleet.nvlink_domains")
def fleet_nvlink_domains(nvlink_place: Places) -> Comparison:
    """No two NVLink domains of the inventory are one cluster: then it takes one machine for two, or the
    domains' nodes are mixed up."""
    yield from nowhere(nvlink_place, nvlink_place)
    shared = _clusters(nvlink_place)
    for domain in domains(nvlink_place):
        for node in domain.nodes:
            cluster = nvlink_place[node].cluster
            others = [name for name in shared.get(cluster, ()) if name != domain.name]
            if not cluster:
                yield node, Uncompared(nvlink_place[node].name,
                                       "no GPU was seen that has joined a cluster that spans nodes")
            elif not domain.known:
                seen = f", which is that of {listed(others)}" if others else ""
                yield node, Uncompared(nvlink_place[node].name, "the inventory gives no nvlink_domain; its "
                                       f"GPUs are in cluster {cluster}{seen}")
            elif others and domain.name in shared[cluster]:
                yield node, Finding(f"cluster {cluster}, as {listed(others)}",
                                    "one cluster for each NVLink domain", domain.name)


_WHERE = ("chassis_serial", "slot_number", "tray_index", "host_id")


@fleet_check("fleet.nvlink_place", reads=_WHERE)
def fleet_nvlink_place(gpus: Mapping[str, tuple[Gpu, ...]], nvlink_place: Places) -> Comparison:
    """Each node of an NVLink domain is in the chassis of the domain's others, in a tray of its own, with all
    its GPUs.

    GPUs know their chassis' serial number, slot and tray from the platform (nvmlPlatformInfo_v2_t). A node in
    another chassis was swapped with one of another rack, or the inventory names the wrong one.
    """
    yield from nowhere(gpus, nvlink_place)
    sitting: dict[str, tuple[str, int, int, int]] = {}
    for domain in domains(nvlink_place):
        rows: list[Row] = []
        for node in domain.nodes:
            read = list(readable(gpus[node], lambda gpu: (
                gpu.chassis_serial, gpu.slot_number, gpu.tray_index, gpu.host_id)))
            for place, number in Counter(place for _, place in read).most_common(1):
                sitting[node] = place
                rows.append((node, "chassis", f"chassis {place[0]}"))
                expected = f"{_words(place)}, as {number} of the node's {len(read)} GPUs"
                yield from ((node, Finding(_words(other), expected, gpu.name))
                            for gpu, other in read if other != place)
        if domain.known:
            yield from odd_in(domain, rows, "chassis", "nodes",
                              few="a domain of several chassis is not compared")
    together: defaultdict[tuple[str, int, int, int], list[str]] = defaultdict(list)
    for node, place in sitting.items():
        together[place].append(node)
    for place, nodes in together.items():
        for node in nodes if len(nodes) > 1 else ():
            others = listed([other for other in nodes if other != node])
            yield node, Finding(f"{others} as well", "one node in one place", _words(place))


def _words(place: tuple[str, int, int, int]) -> str:
    chassis, slot, tray, host = place
    return f"chassis {chassis}, slot {slot}, tray {tray}, host {host}"


@fleet_check("fleet.nvlink_switch")
def fleet_nvlink_switch(gpu_links: Mapping[str, tuple[GpuLinks, ...]], nvlink_place: Places, *,
                        trays: int) -> Comparison:
    """No NVLink of one number is down on GPUs of several trays of a domain.

    Every GPU of a rack has one link to each switch chip of its switch trays, and NVML does not say which.
    Links of one number that are down in several trays have one cause in common, which is no GPU: a switch
    tray, its power or its cable cartridge. It counts where such links are at least half of those that are
    down in the domain; a GPU that has lost half of its own links is a fault of its own and is left out.
    """
    yield from nowhere(gpu_links, nvlink_place)
    for domain in domains(nvlink_place):
        down: defaultdict[int, list[tuple[str, str]]] = defaultdict(list)
        total = 0
        for node in domain.nodes:
            for gpu, (links, lost) in readable(gpu_links[node], lambda gpu: (gpu.links, gpu.down)):
                if 2 * len(lost) < links:
                    total += len(lost)
                    for link in lost:
                        down[link].append((node, gpu.name))
        common = {number: ends for number, ends in sorted(down.items())
                  if len({node for node, _ in ends}) >= trays}
        if 2 * sum(map(len, common.values())) < total:
            continue
        for links_down, ends in _by_ends(common):
            nodes = list(dict.fromkeys(node for node, _ in ends))
            subject = f"{_LINKS}{', '.join(map(str, links_down))} of {domain.name}"
            observed = f"down on {many(len(ends), 'GPU')} of {many(len(nodes), 'tray')}: {listed(nodes)}"
            yield from ((node, Finding(observed, "up, or down on a single tray", subject)) for node in nodes)


_LINKS = "NVLink "


def common_links(finding: Finding) -> frozenset[int]:
    """The numbers of the links that a finding of fleet.nvlink_switch is about."""
    numbers, _, _ = finding.subject.removeprefix(_LINKS).partition(" of ")
    return frozenset(int(number) for number in numbers.split(", ") if number.isdigit())


def _by_ends(
    common: Mapping[int, Sequence[tuple[str, str]]],
) -> Iterator[tuple[list[int], Sequence[tuple[str, str]]]]:
    """Links that are down on the same GPUs together: a switch tray holds more than one switch."""
    held: defaultdict[tuple[tuple[str, str], ...], list[int]] = defaultdict(list)
    for number, ends in common.items():
        held[tuple(ends)].append(number)
    for ends, numbers in held.items():
        yield numbers, ends
