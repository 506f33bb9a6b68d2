"""The choices of `muster change start`: canary, controls, rings, and what is not judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from healthcheck.change.model import KINDS
from inventory.errors import UsageError
from inventory.load import load_inventory
from inventory.locate import needed_inventory
from inventory.select import select
from inventory.text import clean, short

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inventory.model import Inventory, Node

_MOST_NODES, _MOST_RINGS = 1000, 64


def inventory(option: str | None) -> Inventory:
    """The inventory, which a change needs; raises UsageError where there is none."""
    path = needed_inventory(option, "no inventory found, which says which nodes are of one kind: "
                            "--inventory FILE, or muster init")
    return load_inventory(path)


def selected(known: Inventory, nodes: str, option: str) -> list[Node]:
    """The nodes that an option names; raises InventoryError for unknown ones, UsageError for too many."""
    found = select(known, nodes)
    if len(found) > _MOST_NODES and option != "--ring":
        raise UsageError(f"{option} names {len(found)} nodes, expected at most {_MOST_NODES}")
    return found


def controls(name: str, canary: Sequence[Node], known: Inventory, given: str | None,
             ) -> tuple[Sequence[Node], str]:
    """The controls, given or chosen, and how they were chosen; raises UsageError where there are none."""
    from healthcheck.change import choose

    if given is not None:
        found = selected(known, given, "--controls")
        if (both := choose.twice([[node.name for node in group] for group in (canary, found)])) is not None:
            raise UsageError(f"--controls: {both} is in the canary")
        return found, "as given"
    chosen = choose.controls(name, canary, known)
    if not chosen:
        raise UsageError("no node in service is of the canary's SKUs and not in it, to compare with: name "
                         "--controls")
    few = "" if len(chosen) >= len(canary) else ", fewer than the canary"
    return chosen, f"chosen by SKU and rack{few}"


def rings(canary: Sequence[Node], known: Inventory, given: tuple[str, ...]) -> tuple[tuple[str, ...], ...]:
    """The rings, given or doubling in size; raises UsageError for a node that is in two."""
    from healthcheck.change import choose

    if not given:
        return choose.rings(canary, known)
    if len(given) > _MOST_RINGS:
        raise UsageError(f"--ring: {len(given)} rings, expected at most {_MOST_RINGS}")
    found = tuple(tuple(node.name for node in selected(known, each, "--ring")) for each in given)
    if (both := choose.twice([[node.name for node in canary], *found])) is not None:
        raise UsageError(f"--ring: {both} is named twice, in the canary or another ring")
    return found


def left_out(text: str) -> str:
    """A --without as it was typed; raises UsageError for one that can name nothing."""
    if text.partition("/")[0] not in KINDS or len(text) > 200 or clean(text) != text:
        raise UsageError(f"--without {short(text)}: expected {', '.join(KINDS)}, or one of a kind, such as "
                         "results/gpu-count")
    return text
