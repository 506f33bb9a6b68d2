"""What the commands of `muster fabric` share: reading a plan, and a fabric's hosts from the inventory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from inventory.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from healthcheck.ruleset.sku import Sku
    from healthcheck.subnet.cabling import CablingPlan
    from inventory.model import Node

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
