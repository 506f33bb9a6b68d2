"""The faults of an NVL72 that no single tray can know of, and states that only look like faults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tests.healthcheck.nvl72.rack import CHASSIS, UUIDS, Tray, changed, rack

NAMES = frozenset(tray.name for tray in rack())
ZERO = "00000000-0000-0000-0000-000000000000"


def swapped() -> list[Tray]:
    trays = [*rack("r3"), *rack("r4")]
    one, other = trays[2], trays[18 + 5]
    trays[2] = replace(one, chassis=other.chassis, tray=other.tray, cluster=other.cluster)
    trays[18 + 5] = replace(other, chassis=one.chassis, tray=one.tray, cluster=one.cluster)
    return trays


def divided() -> list[Tray]:
    trays = changed(rack(), *range(6), clique=2, partition="tenant-a")
    return changed(trays, *range(6, 18), partition="tenant-b")


def on(*trays: int, **fields: Any) -> Callable[[], list[Tray]]:
    """One rack with these fields of some of its trays."""
    return lambda: changed(rack(), *trays, **fields)


PLANTS: Mapping[str, Callable[[], list[Tray]]] = {
    # A tray's NVLink controller never took it into the rack's cluster: it is one of its own.
    "odd-uuid": on(7, cluster="5cd30dc8-4cb0-4f8a-9c5e-0000000000ff"),
    # A tray has joined its fabric without a cluster.
    "zero-uuid": on(7, cluster=ZERO, clique=0),
    # The partition was set up without one tray.
    "odd-clique": on(7, clique=4026),
    # One GPU of a tray is in another partition; the tray itself shows it.
    "odd-clique-of-one-gpu": on(7, odd_cliques=((2, 4026),)),
    # The service failed on one tray.
    "imex-down-on-one-node": on(7, imex="failed/failed"),
    # One tray missed the upgrade.
    "imex-versions-differ": on(7, version="570.172.08"),
    # One tray has a list that was made before the last tray was delivered.
    "nodes-config-differs": on(7, nodes=rack()[0].nodes[:-1]),
    # One tray's list was sorted by name: the numbers differ.
    "nodes-config-in-another-order": on(7, nodes=tuple(reversed(rack()[0].nodes))),
    # The service runs on one tray, and a firewall lets none of its peers in.
    "imex-firewalled": on(7, deaf=NAMES),
    # One tray's peers cannot ask its service, which is ready.
    "imex-seen-away": on(7, seen="UNAVAILABLE"),
    # One tray's service runs and is not ready.
    "imex-waits-for-peers": on(7, state="WAITING_FOR_PEERS", seen="WAITING_FOR_PEERS"),
    # One tray is off, and the others know why the domain is degraded.
    "imex-member-in-no-sweep": on(7, imex="failed/failed", absent=True),
    # nvidia-imex-ctl hangs on one tray.
    "imex-cannot-be-asked": on(7, silent=True),
    # One of nine switch trays lost its power: every GPU has lost its links to both of its switches.
    "switch-tray-fault": on(*range(18), down=tuple((gpu, link) for gpu in range(4) for link in (4, 5))),
    # A damaged cable cartridge of one switch: the same link is down on one GPU each of four trays.
    "switch-port-faults": on(3, 5, 7, 11, down=((1, 4),)),
    # Three GPUs are out of the fabric, each with all its links: no link has more to do with it than another.
    "three-gpus-lost-all-links": on(3, 5, 7, down=tuple((2, link) for link in range(18))),
    # One GPU's connector is loose: this is no switch's fault.
    "one-gpu-lost-links": on(7, down=((2, 4), (2, 5), (2, 11))),
    # After a repair tray 2 of r3 and tray 5 of r4 went back into the other's rack; the inventory does not
    # know.
    "swapped-trays": swapped,
    # A baseboard brought its old tray's platform data along.
    "one-place-twice": on(7, tray=8),
    # A GPU board came from another tray and remembers it.
    "board-of-another-tray": on(7, odd_trays=((2, 9),)),
    # The inventory takes one rack for two.
    "two-domains-in-one-cluster": lambda: [tray if at < 9 else replace(tray, domain="r4")
                                           for at, tray in enumerate(rack())],
    # Half of the domain is in another cluster: no majority.
    "halves-of-two-uuids": on(*range(9), cluster=UUIDS["r4"], chassis=CHASSIS["r4"]),
    # Two partitions, of which the inventory says nothing.
    "divided-undeclared": on(*range(6), clique=2),
    # Two partitions, declared.
    "divided-on-purpose": divided,
    # Two partitions, declared, and one tray is in the other one's clique.
    "divided-on-purpose-with-an-odd-tray": lambda: changed(divided(), 3, clique=1),
    # The inventory gives no nvlink_domain; the same odd tray accuses no one.
    "no-domain-in-the-inventory": lambda: [replace(tray, domain=None)
                                           for tray in changed(rack(), 7, clique=4026)],
    # The inventory forgot one tray's domain.
    "one-node-left-out-of-the-inventory": on(7, domain=None),
    # On one tray nothing is wrong, and some of it cannot be read.
    "unread": on(7, unread=True),
    "all-healthy": rack,
    "two-healthy-racks": lambda: [*rack("r3"), *rack("r4")],
    # A sweep of one rack, and of a single node of another.
    "one-node-of-another-domain": lambda: [*rack("r3"), rack("r4")[0]],
}
