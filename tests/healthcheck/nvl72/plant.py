"""Plants the faults of an NVL72 that no single tray can know of, and states that only look like faults."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.healthcheck.nvl72.rack import CHASSIS, UUIDS, Tray, changed, rack

PLANTS: dict[str, Callable[[], list[Tray]]] = {}
ZERO = "00000000-0000-0000-0000-000000000000"


def planted(make: Callable[[], list[Tray]]) -> Callable[[], list[Tray]]:
    PLANTS[make.__name__.replace("_", "-")] = make
    return make


@planted
def odd_uuid() -> list[Tray]:
    """A tray's NVLink controller never took it into the rack's cluster: it is one of its own."""
    return changed(rack(), 7, cluster="5cd30dc8-4cb0-4f8a-9c5e-0000000000ff")


@planted
def zero_uuid() -> list[Tray]:
    """A tray has joined its fabric without a cluster."""
    return changed(rack(), 7, cluster=ZERO, clique=0)


@planted
def odd_clique() -> list[Tray]:
    """The partition was set up without one tray."""
    return changed(rack(), 7, clique=4026)


@planted
def odd_clique_of_one_gpu() -> list[Tray]:
    """One GPU of a tray is in another partition; the tray itself shows it."""
    return changed(rack(), 7, odd_cliques=((2, 4026),))


@planted
def imex_down_on_one_node() -> list[Tray]:
    """The service failed on one tray."""
    return changed(rack(), 7, imex="failed/failed")


@planted
def imex_versions_differ() -> list[Tray]:
    """One tray missed the upgrade."""
    return changed(rack(), 7, version="570.172.08")


@planted
def nodes_config_differs() -> list[Tray]:
    """One tray has a list that was made before the last tray was delivered."""
    trays = rack()
    return changed(trays, 7, nodes=trays[0].nodes[:-1])


@planted
def nodes_config_in_another_order() -> list[Tray]:
    """One tray's list was sorted by name: the numbers differ."""
    trays = rack()
    return changed(trays, 7, nodes=tuple(reversed(trays[0].nodes)))


@planted
def imex_firewalled() -> list[Tray]:
    """The service runs on one tray, and a firewall lets none of its peers in."""
    trays = rack()
    return changed(trays, 7, deaf=frozenset(tray.name for tray in trays))


@planted
def imex_seen_away() -> list[Tray]:
    """One tray's peers cannot ask its service, which is ready."""
    return changed(rack(), 7, seen="UNAVAILABLE")


@planted
def imex_waits_for_peers() -> list[Tray]:
    """One tray's service runs and is not ready."""
    return changed(rack(), 7, state="WAITING_FOR_PEERS", seen="WAITING_FOR_PEERS")


@planted
def imex_member_in_no_sweep() -> list[Tray]:
    """One tray is off, and the others know why the domain is degraded."""
    return changed(rack(), 7, imex="failed/failed", absent=True)


@planted
def imex_cannot_be_asked() -> list[Tray]:
    """nvidia-imex-ctl hangs on one tray."""
    return changed(rack(), 7, silent=True)


@planted
def switch_tray_fault() -> list[Tray]:
    """One of nine switch trays lost its power: every GPU has lost its links to both of its switches."""
    return changed(rack(), *range(18), down=tuple((gpu, link) for gpu in range(4) for link in (4, 5)))


@planted
def switch_port_faults() -> list[Tray]:
    """A damaged cable cartridge of one switch: the same link is down on one GPU each of four trays."""
    return changed(rack(), 3, 5, 7, 11, down=((1, 4),))


@planted
def three_gpus_lost_all_links() -> list[Tray]:
    """Three GPUs are out of the fabric, each with all its links: no link has more to do with it than another."""
    return changed(rack(), 3, 5, 7, down=tuple((2, link) for link in range(18)))


@planted
def one_gpu_lost_links() -> list[Tray]:
    """One GPU's connector is loose: this is no switch's fault."""
    return changed(rack(), 7, down=((2, 4), (2, 5), (2, 11)))


@planted
def swapped_trays() -> list[Tray]:
    """After a repair tray 2 of r3 and tray 5 of r4 went back into the other's rack; the inventory does not know."""
    trays = [*rack("r3"), *rack("r4")]
    one, other = trays[2], trays[18 + 5]
    trays[2] = replace(one, chassis=other.chassis, tray=other.tray, cluster=other.cluster)
    trays[18 + 5] = replace(other, chassis=one.chassis, tray=one.tray, cluster=one.cluster)
    return trays


@planted
def one_place_twice() -> list[Tray]:
    """A baseboard brought its old tray's platform data along."""
    return changed(rack(), 7, tray=8)


@planted
def board_of_another_tray() -> list[Tray]:
    """A GPU board came from another tray and remembers it."""
    return changed(rack(), 7, odd_trays=((2, 9),))


@planted
def two_domains_in_one_cluster() -> list[Tray]:
    """The inventory takes one rack for two."""
    return [tray if at < 9 else replace(tray, domain="r4") for at, tray in enumerate(rack())]


@planted
def halves_of_two_uuids() -> list[Tray]:
    """Half of the domain is in another cluster: no majority."""
    return changed(rack(), *range(9), cluster=UUIDS["r4"], chassis=CHASSIS["r4"])


@planted
def divided_undeclared() -> list[Tray]:
    """Two partitions, of which the inventory says nothing."""
    return changed(rack(), *range(6), clique=2)


@planted
def divided_on_purpose() -> list[Tray]:
    """Two partitions, declared."""
    trays = changed(rack(), *range(6), clique=2, partition="tenant-a")
    return changed(trays, *range(6, 18), partition="tenant-b")


@planted
def divided_on_purpose_with_an_odd_tray() -> list[Tray]:
    """Two partitions, declared, and one tray is in the other one's clique."""
    return changed(divided_on_purpose(), 3, clique=1)


@planted
def no_domain_in_the_inventory() -> list[Tray]:
    """The inventory gives no nvlink_domain; the same odd tray accuses no one."""
    return [replace(tray, domain=None) for tray in odd_clique()]


@planted
def one_node_left_out_of_the_inventory() -> list[Tray]:
    """The inventory forgot one tray's domain."""
    return changed(rack(), 7, domain=None)


@planted
def unread() -> list[Tray]:
    """On one tray nothing is wrong, and some of it cannot be read."""
    return changed(rack(), 7, unread=True)


@planted
def all_healthy() -> list[Tray]:
    return rack()


@planted
def two_healthy_racks() -> list[Tray]:
    return [*rack("r3"), *rack("r4")]


@planted
def one_node_of_another_domain() -> list[Tray]:
    """A sweep of one rack, and of a single node of another."""
    return [*rack("r3"), rack("r4")[0]]
