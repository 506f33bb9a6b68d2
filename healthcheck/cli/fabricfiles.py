"""What the commands of `muster fabric` share: reading a plan, and a fabric's hosts from the inventory."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.textfiles import text_of
from healthcheck.cli.ufmoptions import UfmAsked, ufm_options
from healthcheck.store.file import NAME, opened
from healthcheck.store.hardware import newest_hardware
from healthcheck.subnet.join import join, known_adapters
from healthcheck.subnet.plannednames import names_of
from inventory.discover import from_names
from inventory.errors import UsageError
from inventory.locate import state_dir
from inventory.nodeset import natural
from inventory.select import select
from inventory.text import clean

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from healthcheck.model.hardware import Now
    from healthcheck.ruleset.sku import Sku
    from healthcheck.subnet.cabled import CabledFabric
    from healthcheck.subnet.cabling import CablingPlan
    from healthcheck.subnet.join import FabricJoin
    from healthcheck.subnet.model import Subnet
    from healthcheck.sweep.fabricoutput import FabricOutput
    from inventory.model import Inventory, Node, PortPlan

PLAN: Callable[[Callable[..., Any]], Callable[..., Any]] = click.option(
    "--plan",
    "plan",
    metavar="FILE",
    help="The cabling plan: CSV, or a muster.fabric.plan/1; - for standard input.",
)


def read_plan(name: str) -> CablingPlan:
    """The plan in a file, CSV or JSON by how it begins; `-` reads standard input. Raises UsageError for a
    file that cannot be read, InventoryError with its place for a wrong one."""
    from healthcheck.subnet import plancsv, plandocument

    source = "standard input" if name == "-" else name
    text = text_of("--plan", name, piped=True)
    return plandocument.read(text, source) if text.lstrip()[:1] == "{" else plancsv.parse(text, source)


def sources(command: Callable[..., Any]) -> Callable[..., Any]:
    """Where a command reads the fabric: NODE (`node`), --via (`devices`), --ufm (`ufm`), --lldp (`lldp`),
    --from (`source`)."""
    for add in reversed((
        click.argument("node", required=False, shell_complete=completing.node_set),
        click.option("--via", "devices", metavar="DEVICE", multiple=True,
                     help="Ask through this RDMA device of NODE (mlx5_0); repeatable, one for each plane."),
        ufm_options,
        click.option("--lldp", "lldp", metavar="NODES", shell_complete=completing.node_set,
                     help="Ask lldpd on these nodes for their neighbours (Ethernet, RoCE)."),
        click.option("--from", "source", metavar="FOLDER",
                     help="Saved outputs of the fabric's tools instead; a folder in it for each plane."),
    )):
        command = add(command)
    return command


def looked(
    node: str | None, devices: Sequence[str], ufm: UfmAsked, lldp: str | None, source: str | None,
    known: Inventory | None, tables: bool = False,
) -> tuple[FabricOutput, ...]:
    """The outputs that these options name, with `tables` NODE's forwarding tables, too. Raises UsageError
    where they do not go together, or a node is not reached, UfmError where a UFM does not answer."""
    from healthcheck.sweep import fabricoutput, ufmoutput

    live = node is not None or lldp is not None or bool(ufm)
    if live == (source is not None):
        raise UsageError("give NODE, --ufm URL, --lldp NODES, or --from FOLDER")
    if node is not None and ufm:
        raise UsageError("give NODE or --ufm URL: both show the same subnet")
    if devices and node is None:
        raise UsageError("--via goes with NODE")
    if source is not None:
        return fabricoutput.saved(Path(source))
    found = (asked(node, known, devices, tables) if node is not None
             else ufmoutput.ask(ufm.rests()) if ufm else ())
    return (*found, _neighbours(lldp, known, beside=bool(found))) if lldp is not None else found


def asked(name: str, known: Inventory | None, devices: Sequence[str],
          tables: bool = False) -> tuple[FabricOutput, ...]:
    """The outputs on one node, with `tables` the forwarding tables, too; without an inventory, by its name in
    ssh_config."""
    from healthcheck.sweep import fabricoutput
    from inventory.transport.remote import RemoteTransport

    for device in devices:
        if not device.isascii() or not device.replace("_", "").replace("-", "").isalnum():
            raise UsageError(f"--via {clean(device, 60)}: no name of a device, such as mlx5_0")
    chosen = _chosen(name, known)
    if len(chosen) != 1:
        raise UsageError(f"{clean(name, 60)}: names {len(chosen)} nodes, expected one that sees the fabric")
    through = tuple(devices) or ("",)
    outputs = tuple(fabricoutput.ask(chosen[0], RemoteTransport(), through))
    return fabricoutput.ask_tables(outputs, chosen[0], RemoteTransport(), through) if tables else outputs


def _neighbours(names: str, known: Inventory | None, *, beside: bool) -> FabricOutput:
    """What lldpd on these nodes says; `beside` another fabric it has a name of its own."""
    from healthcheck.sweep import fabricoutput
    from inventory.transport.remote import RemoteTransport

    found = fabricoutput.ask_neighbours(_chosen(names, known), RemoteTransport())
    if not found.outputs:
        more = f" ({len(found.missing)} nodes)" if len(found.missing) > 1 else ""
        raise UsageError(f"--lldp {clean(names, 60)}: no node tells its neighbours: {found.missing[0]}{more}"
                         if found.missing else f"--lldp {clean(names, 60)}: names no node")
    return replace(found, name=fabricoutput.ETHERNET) if beside else found


def _chosen(names: str, known: Inventory | None) -> list[Node]:
    return list(select(known if known is not None else from_names(names), names))


def seen_cabling(plan: CablingPlan, outputs: Sequence[FabricOutput], state: str | None) -> CabledFabric:
    """What outputs show, by the names of the plan: adapters by the node GUIDs that nodes in the store state,
    else by what they call themselves."""
    from healthcheck.subnet.seencabling import cabled

    subnets = [output.subnet() for output in outputs]
    hardware = {name: seen.hardware for name, seen in stored_hardware(state_dir(state), None).items()}
    joined = join(subnets, known_adapters(hardware))
    return cabled(plan, [(subnet, names_of(plan, subnet, joined)) for subnet in subnets])


def stored_hardware(folder: Path, known: Inventory | None) -> Mapping[str, Now]:
    """By node of the inventory, or every one, the components in its newest stored snapshot."""
    if not (folder / NAME).exists():
        return {}
    with opened(folder) as store:
        return {name: seen for name, (_, seen) in newest_hardware(store).items()
                if known is None or name in known.nodes}


def joined_adapters(
    subnets: Sequence[Subnet], known: Inventory | None, folder: Path, rules: str | None
) -> FabricJoin:
    """Whose each adapter is, by what sweeps stored of nodes, the inventory and its SKUs."""
    from healthcheck.ruleset.ruleset import ruleset_of

    hardware = {name: seen.hardware for name, seen in stored_hardware(folder, known).items()}
    usual: dict[str, Mapping[str, PortPlan]] = {}
    if known is not None and any(node.sku is not None for node in known):
        skus = ruleset_of(rules).skus
        usual = {node.name: skus[node.sku].ports for node in known
                 if node.sku is not None and node.sku in skus}
    return join(subnets, known_adapters(hardware), known.nodes if known is not None else None, usual)


def compute_ports(node: Node, skus: Mapping[str, Sku]) -> tuple[str, ...]:
    """The compute ports of a node by PCI address, in the order of their rails: what its SKU says, and over
    it what the inventory does. () where neither names one."""
    known = skus.get(node.sku) if node.sku is not None else None
    usual = known.ports if known is not None else {}
    found = []
    for pci in sorted({*usual, *node.ports}, key=natural):
        plans = [plan for plan in (node.ports.get(pci), usual.get(pci)) if plan is not None]
        role = next((plan.role for plan in plans if plan.role is not None), "compute")
        rail = next((plan.rail for plan in plans if plan.rail is not None), None)
        if role == "compute":
            found.append((len(usual) + len(node.ports) if rail is None else rail, natural(pci), pci))
    return tuple(pci for _, _, pci in sorted(found))


def number_of_sku(node: Node, skus: Mapping[str, Sku], number: str) -> float | None:
    """A number of the node's SKU, None where it says none."""
    known = skus.get(node.sku) if node.sku is not None else None
    value = known.numbers.get(number) if known is not None else None
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
