"""The hosts of a fabric in the groups that its switches make of them; pure.

A group are the hosts cabled to the same leaves: of a tree one leaf, of a rail-optimised fabric a leaf for
each rail. A pod are the groups whose leaves share spines. All planes count together.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from healthcheck.subnet.cabling import CablingPlan, Tier
from healthcheck.subnet.portlabel import number_of
from inventory.nodeset import natural

_FAR = 1 << 20  # behind every port: a label without a number


@dataclass(frozen=True)
class HostGroup:
    """Hosts of the same leaves, in the order of their ports there."""

    name: str
    hosts: tuple[str, ...]
    leaves: tuple[str, ...]


@dataclass(frozen=True)
class FabricPod:
    """Groups whose leaves share spines; `spines` is empty where leaves have no uplinks."""

    name: str
    groups: tuple[HostGroup, ...]
    spines: tuple[str, ...]


@dataclass(frozen=True)
class FabricHierarchy:
    """All pods in the order of their leaves, the switches above spines, and hosts without a leaf."""

    pods: tuple[FabricPod, ...]
    cores: tuple[str, ...]
    alone: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """Hosts in an order in which neighbours share leaves: pod by pod, group by group, port by port.
        NCCL's rings of ranks in this order leave a leaf, and a pod, as seldom as can be."""
        return tuple(host for pod in self.pods for group in pod.groups for host in group.hosts)


def hierarchy(plan: CablingPlan) -> FabricHierarchy:
    """The hierarchy of a plan, which may be one made of what is there. A name that a group or pod is given
    counts from 1 in the order of leaves, the same each time."""
    tiers = {name: device.tier for name, device in plan.devices.items()}
    leaves: dict[str, dict[str, int]] = defaultdict(dict)  # host -> leaf -> its lowest port there
    spines: dict[str, set[str]] = defaultdict(set)
    for cable in plan.cables:
        lower, upper = tiers[cable.a.device], tiers[cable.b.device]
        if lower is Tier.HOST and upper is Tier.LEAF:
            held = leaves[cable.a.device]
            number = number_of(cable.b.port) or _FAR
            held[cable.b.device] = min(number, held.get(cable.b.device, number))
        elif lower is Tier.LEAF and upper is Tier.SPINE:
            spines[cable.a.device].add(cable.b.device)
    together: dict[frozenset[str], list[str]] = defaultdict(list)
    for host, at in leaves.items():
        together[frozenset(at)].append(host)
    groups = _groups(together, leaves)
    hosts = [name for name, tier in tiers.items() if tier is Tier.HOST and name not in leaves]
    cores = tuple(sorted((name for name, tier in tiers.items() if tier is Tier.CORE), key=natural))
    return FabricHierarchy(_pods(groups, spines), cores, tuple(sorted(hosts, key=natural)))


def _groups(together: Mapping[frozenset[str], Sequence[str]],
            leaves: Mapping[str, Mapping[str, int]]) -> list[HostGroup]:
    ordered = sorted((tuple(sorted(at, key=natural)), hosts) for at, hosts in together.items())
    ordered.sort(key=lambda item: [natural(leaf) for leaf in item[0]])
    found = []
    for number, (at, hosts) in enumerate(ordered, 1):
        inside = sorted(hosts, key=lambda host: (leaves[host][at[0]], natural(host)))
        found.append(HostGroup(at[0] if len(at) == 1 else f"group{number:03d}", tuple(inside), at))
    return found


def _pods(groups: Sequence[HostGroup], spines: Mapping[str, set[str]]) -> tuple[FabricPod, ...]:
    """Groups that a chain of common spines connects; groups without spines stand in one pod each."""
    pods: list[tuple[list[HostGroup], set[str]]] = []
    for group in groups:
        above = set().union(*(spines.get(leaf, set()) for leaf in group.leaves))
        touching = [pod for pod in pods if pod[1] & above]
        merged = ([*(each for pod in touching for each in pod[0]), group],
                  above.union(*(pod[1] for pod in touching)))
        first = min((pods.index(pod) for pod in touching), default=len(pods))
        pods = [pod for pod in pods if pod not in touching]
        pods.insert(first, merged)
    return tuple(FabricPod(f"pod{number:02d}", tuple(inside), tuple(sorted(above, key=natural)))
                 for number, (inside, above) in enumerate(pods, 1))
