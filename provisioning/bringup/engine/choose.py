"""Which machines may be brought up, their steps, and which are refused, with what to type. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from healthcheck.store.bringupnotes import DONE
from inventory.model import Node
from provisioning.bringup.engine.model import ORDER
from provisioning.bringup.engine.site import unfit

if TYPE_CHECKING:
    from healthcheck.store.bringups import MachineProgress

# Steps that cannot be checked but through the machine's management controller. Without one, step os waits for
# the machine.
BY_BMC = ("bmc", "credentials", "hardware", "bios", "boot")


@dataclass(frozen=True)
class MachinePlan:
    """One machine that may be brought up: the steps it still has to pass, and those it skips."""

    node: Node
    steps: tuple[str, ...]
    skips: tuple[str, ...]


@dataclass(frozen=True)
class RefusedMachine:
    """One machine that may not: why, and what to type. NODES in `hand` stands for the machines that are
    refused so; `taken_off` is one that is on its way, and may not go on."""

    node: str
    why: str
    hand: str
    taken_off: bool = False


@dataclass(frozen=True)
class MachineSelection:
    """The asked machines, each in one of these, in the order of asking."""

    plans: tuple[MachinePlan, ...]
    through: tuple[str, ...]
    refused: tuple[RefusedMachine, ...]


def chosen(
    nodes: Iterable[Node], progress: Mapping[str, MachineProgress], skips: Mapping[str, Collection[str]],
    without: Collection[str],
) -> MachineSelection:
    """Sorts the machines by lifecycle, by their state in the store, and by whether they can be checked."""
    plans: list[MachinePlan] = []
    through: list[str] = []
    refused: list[RefusedMachine] = []
    for node in nodes:
        past = progress.get(node.name)
        over = {*skips.get(node.name, ()), *without}
        if node.in_service and past is not None and past.stand == DONE:
            through.append(node.name)
            continue
        if unfit(node, past.step if past is not None and past.on_its_way else None, ORDER[-1]):
            refused.append(
                RefusedMachine(node.name,
                               f"its lifecycle is {node.lifecycle.state.value}, and only planned and bringup "
                               "are brought up", "muster inventory lifecycle NODES bringup",
                               past is not None and past.on_its_way))
            continue
        # Whoever was through and is back in bring-up goes the whole way again.
        at = past.step if past is not None and past.on_its_way and past.step in ORDER else ORDER[0]
        ahead = ORDER[ORDER.index(at):]
        steps = tuple(step for step in ahead if step not in over)
        needs = [step for step in steps if step in BY_BMC]
        if needs and node.bmc is None:
            words = " ".join(f"--step {step}" for step in needs)
            refused.append(
                RefusedMachine(
                    node.name, f"the inventory has no bmc entry, by which {', '.join(needs)} are checked",
                    f"give it one (bmc: in the inventory), or: muster bringup skip NODES {words} --reason "
                    "TEXT"))
            continue
        plans.append(MachinePlan(node, steps, tuple(step for step in ahead if step in over)))
    return MachineSelection(tuple(plans), tuple(through), tuple(refused))
