"""What a check of the site's subnet keeps: the hosts' cables that are sick, as the function that `muster
fabric check --store` uses writes it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from healthcheck.model.outcome import Owner, Severity
from healthcheck.store.fabricfindings import SubnetChecked, write
from healthcheck.store.file import opened
from healthcheck.subnet.check.findings import FabricRule, PlaceKind
from healthcheck.subnet.kept import KeptFinding, TouchedDevice
from healthcheck.subnet.model import FabricEnd

DEVICE = "mlx5_0"       # the adapter of each node
_HOSTS = 16             # of a leaf


def looked(state: Path, sick: Mapping[str, FabricRule], leaves: Mapping[str, str], now: float) -> None:
    """A check at this time, which finds these nodes' cables sick, each as this rule, and every other sound.
    `leaves` are those of nodes."""
    found = [_of(node, rule, leaves) for node, rule in sorted(sick.items())]
    guids = frozenset(_guid(leaf) for leaf in leaves.values())
    with opened(state, make=True) as store:
        write(store, [SubnetChecked("", guids, now, found, lambda one: "")], now)


def _of(node: str, rule: FabricRule, leaves: Mapping[str, str]) -> KeptFinding:
    leaf = leaves[node]
    port = 1 + sorted(name for name, other in leaves.items() if other == leaf).index(node)
    down = rule is FabricRule.LINK
    ends = FabricEnd(_guid(leaf), port), FabricEnd(f"a088c203{int(leaf[1:]):04x}{port:04x}", 1)
    return KeptFinding(
        rule, PlaceKind.LINK, f"{leaf} port {port} to {node} {DEVICE}", "", Severity.CRITICAL,
        Owner.DATACENTRE, "down (polling)" if down else "bit errors",
        "up" if down else "none", ends, (node,), (DEVICE,), leaf=leaf,
        touched=(TouchedDevice("leaf", leaf, _HOSTS, _HOSTS - down),
                 TouchedDevice("node", "", 1, int(not down))))


def _guid(leaf: str) -> str:
    return f"b8cef600000000{int(leaf[1:]):02x}"
