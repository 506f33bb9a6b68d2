"""Sorts nodes by what they show into kinds of machine, and finds the SKU of each kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from healthcheck.facts.values import Fact, reading
from healthcheck.judge.gpuless import NOT_TAKEN, TAKEN
from healthcheck.model.recording import Recording
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep.judgednode import facts_of
from healthcheck.sweep.skulearn import SkuProposal, propose
from inventory.errors import UsageError
from inventory.text import clean

PLAIN = "cpu-only"      # the SKU of machines without GPUs and RDMA ports
_FACTS = ("pci_bus", "firmware", "ports")


@dataclass(frozen=True)
class MachineKind:
    """Nodes of one kind. `sku` is the known SKU that they are like; where it is None, `proposal` differs from
    all known ones, or, without a proposal, `why` says what is in the way."""

    title: str
    nodes: tuple[str, ...]
    sku: str | None = None
    proposal: SkuProposal | None = None
    why: str = ""


def kinds(
    recordings: Sequence[Recording], ruleset: Ruleset, basis: Mapping[str, str],
) -> list[MachineKind]:
    """The kinds of the nodes that were reached, by the GPUs on their PCI bus. `basis` is by node on what the
    sweep took it for a machine without GPUs, or why it did not (`healthcheck.judge.gpuless`).

    A node without GPUs is of the kind of the GPU nodes with its product's name: its own may have left the
    bus. A kind with a proposal may hold nodes that the proposal was not learned from, as they are faulty.
    """
    reached = {each.node: each for each in recordings if each.host is not None}
    facts = {node: facts_of(each, _FACTS) for node, each in reached.items()}
    devices = {node: _device(found) for node, found in facts.items()}
    of_product: dict[str, Counter[str]] = {}
    for node, device in devices.items():
        if device and (product := _product(facts[node])):
            of_product.setdefault(product, Counter())[device] += 1
    groups: dict[str, list[str]] = {}
    found: list[MachineKind] = []
    lacking: dict[str, list[str]] = {}
    plain: list[str] = []
    for node, device in devices.items():
        if device is None:
            lacking.setdefault("the PCI bus was not wholly read", []).append(node)
        elif not device and (equals := of_product.get(_product(facts[node]))):
            groups.setdefault(equals.most_common(1)[0][0], []).append(node)
        elif device:
            groups.setdefault(device, []).append(node)
        elif why := _not_plain(facts[node], basis.get(node, "")):
            lacking.setdefault(why, []).append(node)
        else:
            plain.append(node)
    if plain and PLAIN in ruleset.skus:
        found.append(MachineKind("no GPU, no RDMA port, no sign of either", tuple(plain), PLAIN))
    for device, nodes in groups.items():
        found.append(_of_gpus(device, [reached[node] for node in nodes], ruleset))
    found += [MachineKind("of no kind", tuple(nodes), why=why) for why, nodes in lacking.items()]
    return found


def _not_plain(facts: Mapping[str, Any], basis: str) -> str:
    """Why a machine that shows no GPU does not get the SKU `PLAIN`; empty where nothing is against it."""
    if not basis.startswith(TAKEN):
        why = basis.removeprefix(NOT_TAKEN) or "nothing proves that none belongs there"
        return f"no GPU is on the PCI bus, but: {why}"
    if facts.get("ports") != ():
        return (f"no GPU belongs in it, but there are RDMA ports, or they were not measured, and {PLAIN} has "
                "none: without a SKU it is judged by what it shows")
    return ""


def _device(facts: Mapping[str, Any]) -> str | None:
    """The PCI device of most GPUs, "" where there is none; None where the bus was not read."""
    bus = facts.get("pci_bus")
    gpus = reading(bus, "gpus") if isinstance(bus, Fact) else None
    if not isinstance(gpus, tuple):
        return None
    return Counter(gpus).most_common(1)[0][0] if gpus else ""


def _product(facts: Mapping[str, Any]) -> str:
    firmware = facts.get("firmware")
    product = reading(firmware, "product") if isinstance(firmware, Fact) else ""
    return product if isinstance(product, str) else ""


def _of_gpus(device: str, recordings: Sequence[Recording], ruleset: Ruleset) -> MachineKind:
    nodes = tuple(each.node for each in recordings)
    title = f"GPUs {clean(device, 20)}"
    try:
        proposal = propose(recordings, ruleset)
    except UsageError as problem:
        return MachineKind(title, nodes, why=str(problem))
    model, count = (proposal.numbers[name].value for name in ("gpu_model", "gpu_count"))
    if isinstance(model, str) and count:
        title = f"{count} x {clean(model, 80)}"
    if proposal.parent is not None and not proposal.differs and not proposal.new_ports:
        return MachineKind(title, nodes, proposal.parent.name)
    return MachineKind(title, nodes, proposal=proposal)
