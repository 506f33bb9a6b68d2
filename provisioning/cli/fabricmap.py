"""`muster fabric map`: what follows from how a fabric is cabled: Slurm's topology, an order of hosts, a
drawing, and leaves for the inventory."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli.fabricfiles import PLAN, looked, read_plan, seen_cabling, sources
from healthcheck.cli.options import STATE
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.load import usual_inventory

if TYPE_CHECKING:

    from healthcheck.cli.ufmoptions import UfmAsked
    from healthcheck.subnet.cabling import CablingPlan
    from healthcheck.subnet.hierarchy import FabricHierarchy


@click.command(short_help="Write what follows from the fabric: Slurm's topology, host order, a drawing.")
@PLAN
@sources
@formats(
    "slurm",
    "slurm-block",
    "hosts",
    "dot",
    "labels",
    text="slurm, slurm-block: topology.conf; hosts: an order of ranks; dot: Graphviz; json: "
    "muster.fabric.map/1; labels: leaves proposed to the inventory.",
)
@click.option(
    "--apply",
    "apply",
    is_flag=True,
    help="With --format labels, write the new values. Without this, nothing changes.",
)
@click.option(
    "--store",
    "store",
    is_flag=True,
    help="Keep the links' states for the status page (muster report --html).",
)
@click.option("--rules", metavar="DIR", help="Site rules, as for muster check; SKUs say what ports are for.")
@click.option("--inventory", "-i", "file", metavar="FILE", help="Default: as for muster check.")
@STATE
def map_(
    plan: str | None,
    node: str | None,
    devices: tuple[str, ...],
    ufm: UfmAsked,
    lldp: str | None,
    source: str | None,
    fmt: str,
    apply: bool,
    rules: str | None,
    file: str | None,
    state: str | None,
    store: bool,
) -> int:
    """Show the groups of hosts that the leaves and spines of --plan FILE make, or write them for others.
    Links have the states that NODE's subnet, UFM (--ufm), lldpd on nodes (--lldp) or saved outputs (--from)
    show.

    Hosts of the same leaves are a group, groups whose leaves share spines a pod. In the order of --format
    hosts, neighbours share leaves: give it to a launcher, so that NCCL's ring leaves a leaf seldom. With
    --format labels, leaf, the leaf of each port and pod are proposed to the inventory as by muster inventory
    labels: a value that it has is never changed.

    \b
    muster fabric map --plan cabling.csv
    muster fabric map --plan cabling.csv --format slurm > topology.conf
    muster fabric map --plan cabling.csv --from outputs --format dot > fabric.dot
    muster fabric map gpu001 --plan cabling.csv --store
    muster fabric map --plan cabling.csv --format labels --apply

    Exit: 0 printed, 1 with labels: something is new or differs, 2 usage, 3 with labels: something is unclear.
    """
    from healthcheck.subnet import drawing, mapdocument, slurmtopology
    from healthcheck.subnet.hierarchy import hierarchy
    from healthcheck.subnet.linkstates import link_states

    if plan is None:
        raise UsageError("give --plan FILE")
    if apply and fmt != "labels":
        raise UsageError("--apply needs --format labels")
    planned = read_plan(plan)
    found = hierarchy(planned)
    if fmt == "labels":
        return _labels(planned, found, plan, apply, rules, file)
    shown = (looked(node, devices, ufm, lldp, source, usual_inventory(file))
             if node or ufm or lldp or source else ())
    states = link_states(planned, seen_cabling(planned, shown, state) if shown else None)
    if store:
        _keep(mapdocument.document(found, planned, states), state)
    if fmt == "json":
        click.echo(json.dumps(mapdocument.document(found, planned, states), indent=1))
    elif fmt == "dot":
        click.echo(drawing.dot(planned, states), nl=False)
    elif fmt == "table":
        for line in mapdocument.text(found, states):
            click.echo(line)
    elif fmt == "hosts":
        for host in found.hosts:
            click.echo(host)
    else:
        click.echo(slurmtopology.tree(found) if fmt == "slurm" else slurmtopology.blocks(found), nl=False)
    return 0


def _keep(document: dict[str, Any], state: str | None) -> None:
    from healthcheck.config.files import make_folder, write_whole
    from healthcheck.subnet.mapdocument import FILE
    from inventory.locate import state_dir

    folder = state_dir(state)
    make_folder(folder, "the state folder")
    write_whole(folder / FILE, json.dumps(document, separators=(",", ":")).encode())


def _labels(
    planned: CablingPlan, found: FabricHierarchy, plan: str, apply: bool, rules: str | None, file: str | None
) -> int:
    from healthcheck.ruleset.ruleset import ruleset_of
    from inventory.inventoryfile import InventoryFile
    from inventory.load import parse_with_origins
    from inventory.locate import needed_inventory
    from provisioning.discover import fabriclabels
    from provisioning.discover.labelspage import FoundLabels, text

    place = needed_inventory(file, "found no inventory to propose values for: give --inventory FILE")
    skus = ruleset_of(rules).skus
    given = InventoryFile.read(place)
    inventory = parse_with_origins(given.text, str(place), skus).inventory
    usual = {
        node.name: skus[node.sku].ports for node in inventory if node.sku is not None and node.sku in skus
    }
    source = f"the cabling plan {plan}"
    labels = FoundLabels(
        str(place),
        fabriclabels.evidence(planned, inventory, source),
        fabriclabels.propose(planned, found, inventory, usual, source),
    )
    for line in text(labels):
        click.echo(line)
    if apply:
        from provisioning.cli.labels import applied

        labels = applied(labels, given, quiet=False)
    elif any(one.state.value == "new" for one in labels.proposals):
        click.echo("Nothing changed. Run again with --apply to write what is new (+).")
    return labels.exit_code
