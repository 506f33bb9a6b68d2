"""What the commands of `muster fabric` share: reading a plan, and a fabric's hosts from the inventory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inventory.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from healthcheck.model.hardware import Hardware
    from healthcheck.ruleset.sku import Sku
    from healthcheck.subnet.cabled import CabledFabric
    from healthcheck.subnet.cabling import CablingPlan
    from healthcheck.subnet.join import FabricJoin
    from healthcheck.subnet.model import Subnet
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
    try:
        data = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(f"--plan {name}: {error.strerror}") from None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{source}: is no UTF-8 text, at byte {error.start}") from None
    return plandocument.read(text, source) if text.lstrip()[:1] == "{" else plancsv.parse(text, source)


def saved_subnets(name: str) -> list[Subnet]:
    """The subnets whose tools' outputs lie in a folder: one, or one for each folder in it, which has the
    plane's name. Raises UsageError where there is none."""
    from healthcheck.subnet.merge import merge
    from healthcheck.subnet.readers.every import SOURCES, source_of

    folder = Path(name)
    try:
        inside = sorted(folder.iterdir())
    except OSError as error:
        raise UsageError(f"--from {name}: {error.strerror}") from None
    planes = [path for path in inside if path.is_dir()]
    subnets = []
    for plane, files in [("", inside), *((path.name, sorted(path.iterdir())) for path in planes)]:
        readings = []
        for source in SOURCES:
            for file in files:
                if file.is_file() and source_of(file.name) is source:
                    readings.append(source.read(_output(file), False))
        if readings:
            subnets.append(merge(plane, readings))
    if not subnets:
        known = ", ".join(source.name for source in SOURCES)
        raise UsageError(
            f"--from {name}: holds no output that is known by the beginning of its name: {known}"
        )
    return subnets


def seen_cabling(plan: CablingPlan, source: str, state: str | None) -> CabledFabric:
    """What the outputs in a folder show, by the names of the plan: adapters by the node GUIDs that nodes in
    the store state, else by what they call themselves."""
    from healthcheck.subnet.join import join, known_adapters, planned_names
    from healthcheck.subnet.seencabling import cabled

    subnets = saved_subnets(source)
    joined = join(subnets, known_adapters(_hardware(state)))
    return cabled(plan, subnets, planned_names(plan, subnets, joined))


def _hardware(state: str | None) -> Mapping[str, Hardware]:
    """The newest hardware of every node in the store; nothing where there is none."""
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.hardware import newest_hardware
    from inventory.locate import state_dir

    folder = state_dir(state)
    if not (folder / NAME).exists():
        return {}
    with opened(folder) as store:
        return {node: seen.hardware for node, (_, seen) in newest_hardware(store).items()}


def inventory_of(file: str | None) -> Inventory | None:
    """The inventory, None where there is none."""
    from inventory.load import load_inventory
    from inventory.locate import find_inventory

    path = find_inventory(file)
    return load_inventory(path) if path is not None else None


def joined_adapters(
    subnets: Sequence[Subnet], known: Inventory | None, folder: Path, rules: str | None
) -> FabricJoin:
    """Whose each adapter is, by what sweeps stored of nodes, the inventory and its SKUs."""
    from healthcheck.config.rulesfolder import folders
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.store.file import NAME, opened
    from healthcheck.store.hardware import newest_hardware
    from healthcheck.subnet.join import join, known_adapters

    hardware = {}
    if (folder / NAME).exists():
        with opened(folder) as store:
            hardware = {name: seen.hardware for name, (_, seen) in newest_hardware(store).items()
                        if known is None or name in known.nodes}
    usual: dict[str, Mapping[str, PortPlan]] = {}
    if known is not None and any(node.sku is not None for node in known):
        skus = load_ruleset(folders(rules)).skus
        usual = {node.name: skus[node.sku].ports for node in known
                 if node.sku is not None and node.sku in skus}
    return join(subnets, known_adapters(hardware), known.nodes if known is not None else None, usual)


def _output(file: Path) -> str:
    try:
        return file.read_text(errors="replace")
    except OSError as error:
        raise UsageError(f"{file}: {error.strerror}") from None


def compute_ports(node: Node, skus: Mapping[str, Sku]) -> tuple[str, ...]:
    """The compute ports of a node by PCI address, in the order of their rails: what its SKU says, and over
    it what the inventory does. () where neither names one."""
    from inventory.nodeset import natural

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
