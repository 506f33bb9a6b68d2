"""`muster fabric plan`: checks a cabling plan, or generates one, and prints it in several forms."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.fabricfiles import compute_ports, number_of_sku, read_plan
from healthcheck.subnet.cabling import Tier
from healthcheck.subnet.generate import FabricLayout, FabricShape, HostPorts, generate
from healthcheck.subnet.plancells import SPEEDS, WIDTHS
from healthcheck.subnet.plancheck import faults
from healthcheck.subnet.plandocument import document
from healthcheck.subnet.topologyfile import topology
from inventory.cli.formatted import formats
from inventory.discover import from_names
from inventory.errors import UsageError
from inventory.load import load_inventory
from inventory.locate import find_inventory
from inventory.select import select
from inventory.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from healthcheck.ruleset.sku import Sku
    from healthcheck.subnet.cabling import CablingPlan
    from healthcheck.subnet.plancheck import PlanFault
    from inventory.model import Node

_MOST_PORTS = 64


@click.command(short_help="Check a cabling plan, or generate one from counts.")
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option(
    "--from", "source", metavar="FILE", help="Take the plan in this file: CSV, or JSON as printed here."
)
@click.option(
    "--layout",
    type=click.Choice(("rails", "tree")),
    default="rails",
    show_default=True,
    help="rails: a leaf per rail for a group of hosts; tree: all ports of a host at one leaf.",
)
@click.option("--tiers", type=int, default=2, show_default=True, help="Tiers of switches, 1 to 3.")
@click.option("--radix", type=int, default=64, show_default=True, help="Ports of a switch.")
@click.option("--hosts-per-leaf", type=int, help="Default: as many as leave room for the uplinks.")
@click.option(
    "--uplinks", type=int, help="Ports of a leaf that go up. Default: what --oversubscription asks for."
)
@click.option(
    "--oversubscription", type=float, default=1.0, show_default=True, help="Ports down by ports up."
)
@click.option("--leaves-per-pod", type=int, help="With --tiers 3. Default: half the radix.")
@click.option(
    "--planes",
    type=int,
    default=1,
    show_default=True,
    help="Networks beside each other; port n of an adapter belongs to plane n.",
)
@click.option(
    "--ports", type=int, help="Ports of a host, named mlx5_0 and on. Default: those of the inventory or SKU."
)
@click.option("--sku", metavar="SKU", help="What the hosts are, where the inventory does not say.")
@click.option("--cages", is_flag=True, help="Name switch ports by cage and port in it: 1/12/2.")
@click.option("--speed", metavar="RATE", help="Of a lane: HDR, NDR, XDR.")
@click.option("--width", type=int, help="Lanes of a link.")
@click.option("--plane", metavar="NAME", help="With --format topology: the plane to write.")
@formats(
    "csv",
    "topology",
    text="csv: the plan; json: muster.fabric.plan/1; topology: as ibnetdiscover and ibsim have it.",
)
@click.option(
    "--rules", metavar="DIR", help="Site rules, as for muster check; SKUs say what ports hosts have."
)
@click.option("--inventory", "-i", "inventory", metavar="FILE", help="Default: as for muster check.")
def plan(
    nodes: str | None,
    source: str | None,
    layout: str,
    tiers: int,
    radix: int,
    hosts_per_leaf: int | None,
    uplinks: int | None,
    oversubscription: float,
    leaves_per_pod: int | None,
    planes: int,
    ports: int | None,
    sku: str | None,
    cages: bool,
    speed: str | None,
    width: int | None,
    plane: str | None,
    fmt: str,
    rules: str | None,
    inventory: str | None,
) -> int:
    """Check the cabling plan in --from FILE, or generate one for NODES (default: all of the inventory).

    The table has a row for each cable: device, port, device, port, and where it is known plane, speed, width,
    gigabits, metres, serial, part, and for each end tier, rack, unit and guid. A generated plan depends on
    the counts alone: the same counts give the same plan.

    \b
    muster fabric plan --from cabling.csv
    muster fabric plan 'gpu[001-032]' --layout rails --hosts-per-leaf 16 --ports 8 --format csv > plan.csv
    muster fabric plan @train --tiers 3 --speed NDR --width 4 --cages --format json
    muster fabric plan --from cabling.csv --format topology > fabric.net

    Exit: 0 the plan is possible, 1 it has faults, 2 usage or a table that cannot be read.
    """
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.subnet import plancsv

    if source is not None and nodes is not None:
        raise UsageError("--from names the plan: give nodes to generate one, not both")
    if plane is not None and fmt != "topology":
        raise UsageError("--plane needs --format topology")
    skus = ruleset_of(rules).skus
    if sku is not None and sku not in skus:
        raise UsageError(f"--sku {sku}: no such SKU; muster sku list shows them")
    hosts = _nodes(nodes, inventory, sku, skus, needed=source is None)
    if source is not None:
        made = read_plan(source)
    else:
        shape = FabricShape(
            FabricLayout(layout),
            tiers,
            radix,
            hosts_per_leaf,
            uplinks,
            oversubscription,
            planes,
            leaves_per_pod,
            cages,
            _speed(speed),
            _width(width),
        )
        made = generate(_ports(hosts, ports, skus), shape)
    rates = {
        node.name: rate for node in hosts if (rate := number_of_sku(node, skus, "port_rate_gbps")) is not None
    }
    wrong = faults(made, rates)
    if fmt == "table":
        for line in _text(made, wrong):
            click.echo(line)
        return 1 if wrong else 0
    networks = sorted({cable.plane for cable in made.cables})
    if plane is not None and plane not in networks:
        there = ", ".join(one or "one without a name" for one in networks)
        raise UsageError(f"--plane {plane}: the plan has {there}")
    for one in wrong:
        click.echo(f"note: {one.subject}: {one.what}", err=True)
    if fmt == "json":
        click.echo(json.dumps(document(made, wrong), indent=1))
    elif fmt == "csv":
        click.echo(plancsv.write(made), nl=False)
    else:
        click.echo(topology(made, radix if source is None else None, plane), nl=False)
    return 1 if wrong else 0


def _nodes(
    text: str | None, inventory: str | None, sku: str | None, skus: Mapping[str, Sku], *, needed: bool
) -> list[Node]:
    """The nodes that are meant: of the inventory, or names alone."""
    path = find_inventory(inventory)
    if path is not None:
        found = list(select(load_inventory(path, skus), text))
    elif text is not None:
        found = list(from_names(text))
    elif needed:
        raise UsageError("found no inventory: name nodes, give --inventory FILE, or --from FILE for a plan")
    else:
        return []
    return [replace(node, sku=sku) if node.sku is None and sku is not None else node for node in found]


def _ports(nodes: Sequence[Node], count: int | None, skus: Mapping[str, Sku]) -> list[HostPorts]:
    if count is not None and not 1 <= count <= _MOST_PORTS:
        raise UsageError(f"--ports {count}: expected 1 to {_MOST_PORTS}")
    made = []
    for node in nodes:
        named = compute_ports(node, skus) if count is None else ()
        many = count if count is not None else number_of_sku(node, skus, "port_count")
        if not named and not many:
            raise UsageError(
                f"{node.name}: neither inventory nor SKU says what ports it has: give --ports or --sku"
            )
        made.append(
            HostPorts(node.name, named or tuple(f"mlx5_{at}" for at in range(int(many or 0))), node.rack)
        )
    return made


def _speed(text: str | None) -> str | None:
    if text is not None and text.upper() not in SPEEDS:
        raise UsageError(f"--speed {text}: expected one of {', '.join(SPEEDS)}")
    return text.upper() if text is not None else None


def _width(lanes: int | None) -> int | None:
    if lanes is not None and lanes not in WIDTHS:
        raise UsageError(f"--width {lanes}: expected one of {', '.join(map(str, WIDTHS))}")
    return lanes


def _text(made: CablingPlan, wrong: Sequence[PlanFault]) -> list[str]:
    from inventory.text import many

    plural = {Tier.HOST: "hosts", Tier.LEAF: "leaves", Tier.SPINE: "spines", Tier.CORE: "cores"}
    tiers = Counter(device.tier for device in made.devices.values())
    counts = [
        f"{tiers[tier]} {plural[tier] if tiers[tier] != 1 else tier.value}" for tier in Tier if tiers[tier]
    ]
    lines = [f"{', '.join(counts)}; {many(len(made.cables), 'cable')}"]
    planes = sorted({cable.plane for cable in made.cables} - {""})
    if planes:
        lines.append(f"planes: {', '.join(map(clean, planes))}")
    between = Counter(
        (made.devices[cable.a.device].tier, made.devices[cable.b.device].tier) for cable in made.cables
    )
    for (lower, upper), count in between.items():
        lines.append(f"{lower.value} to {upper.value}: {many(count, 'cable')}, {_each(made, lower, upper)}")
    lines += [f"{one.kind.value}: {clean(one.subject)}: {clean(one.what)}" for one in wrong]
    lines.append(f"{many(len(wrong), 'fault')} in the plan" if wrong else "no fault found in the plan")
    return lines


def _each(made: CablingPlan, lower: object, upper: object) -> str:
    """How many of such cables a device of the lower tier has: "8 each" or "4 to 8 each"."""
    each = Counter(
        cable.a.device
        for cable in made.cables
        if made.devices[cable.a.device].tier is lower and made.devices[cable.b.device].tier is upper
    )
    least, most = min(each.values()), max(each.values())
    return f"{most} each" if least == most else f"{least} to {most} each"
