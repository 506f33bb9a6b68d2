"""The options of a link burn within a burn-in: the plan's fabric, and a node that reads its counters."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from inventory.cli.stacked import stacked
from inventory.errors import UsageError
from inventory.text import clean

if TYPE_CHECKING:
    from healthcheck.burnin.fabricwork import FabricMeans, FabricWork
    from healthcheck.subnet.model import PortCounters
    from inventory.model import Inventory, Node

STAGE = "fabric"
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")


planning = stacked(
    click.option("--fabric", "fabric", metavar="DIR",
                 help="For the stage fabric: saved outputs of the fabric's tools and its forwarding tables, "
                      "a folder in it for each plane."),
    click.option("--share", type=click.IntRange(1, 100), default=90, show_default=True,
                 help="Percent of its rate to which the stage fabric is to load each link, each way."),
    click.option("--adaptive", is_flag=True,
                 help="Switches choose the way of each packet: expect an even spread, not the tables."))
reading = stacked(      # who reads the fabric's counters
    click.option("--fabric-node", metavar="NODE", shell_complete=completing.node_set,
                 help="A node with infiniband-diags: it reads the counters of the fabric before and after "
                      "the stage fabric."),
    click.option("--via", "devices", metavar="DEVICE", multiple=True,
                 help="Through this RDMA device of it (mlx5_0); repeatable, one for each plane."))


def work(source: str | None, share: int, adaptive: bool, means: FabricMeans, stages: str | None,
         known: Inventory | None, state: Path, rules: str | None) -> FabricWork | None:
    """What a link burn is planned from; None without --fabric. Raises UsageError."""
    from healthcheck.burnin.fabricwork import FabricWork
    from healthcheck.cli.fabricfiles import joined_adapters
    from healthcheck.sweep import fabricoutput

    wanted = stages is not None and STAGE in [name.strip() for name in stages.split(",")]
    if wanted != (source is not None):
        raise UsageError("--stages fabric is planned from saved outputs of the fabric's tools: give --fabric "
                         "DIR" if wanted else "--fabric goes with --stages fabric")
    if source is None:
        return None
    subnets = [output.subnet() for output in fabricoutput.saved(Path(source))]
    made = FabricWork(subnets, joined_adapters(subnets, known, state, rules), share / 100, adaptive, means)
    try:
        made.planes(())
    except ValueError as error:
        raise UsageError(f"{source}: {error}") from None
    return made


def counters(name: str | None, devices: Sequence[str], known: Inventory | None,
             launcher: str) -> Callable[[], Mapping[str, PortCounters | None]] | None:
    """What reads the counters of all ports, by subnet; None where no node is named. Raises UsageError."""
    from healthcheck.sweep import fabricoutput
    from inventory.discover import from_names
    from inventory.select import select
    from inventory.transport.choose import transport_of

    if name is None:
        if devices:
            raise UsageError("--via goes with --fabric-node NODE")
        return None
    for device in devices:
        if not _DEVICE.fullmatch(device):
            raise UsageError(f"--via {clean(device, 60)}: no name of a device, such as mlx5_0")
    chosen: list[Node] = list(select(known if known is not None else from_names(name), name))
    if len(chosen) != 1:
        raise UsageError(f"--fabric-node {clean(name, 60)}: names {len(chosen)} nodes, expected one")
    way = transport_of("local" if launcher == "local" else "ssh")
    return lambda: fabricoutput.counters(chosen[0], way, devices or ("",))
