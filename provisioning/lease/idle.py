"""Checks passively that no process computes on the GPUs of a node; unknown is no proof."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from healthcheck.collector import program, reply
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.gpu_process import GpuLoad
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, reading
from healthcheck.model.probes import ProbeSet
from healthcheck.model.recording import Recording
from healthcheck.ruleset import plugins
from healthcheck.ruleset.sku import Sku
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Limits, Transport

SECONDS = 45.0      # of the collector; the NVML reader has 40 s at most


@dataclass(frozen=True)
class IdleReport:
    """By node why it is not proven idle, and nodes without a GPU, on which only the scheduler has a word."""

    refused: dict[str, str]
    without: frozenset[str]


def idle(
    nodes: Sequence[Node], transport: Transport, skus: Mapping[str, Sku], default_sku: str | None,
    bounds: Limits,
) -> IdleReport:
    """One look at each node. Afterwards every node is refused, or is without GPUs, or has idle ones."""
    plugins.load()
    probes = ProbeSet.of(
        [probe for name in ("gpu_loads", "gpu_presence") for probe in FACTS[name].probes], SECONDS)
    named = {node.name: node for node in nodes}
    refused = dict.fromkeys(named, "it was not checked")
    without = set()
    for answer in transport.run(nodes, program.build(probes), bounds):
        node = named[answer.node]
        sku = skus.get(node.sku or default_sku or "")
        why = _why(reply.within(reply.decode(answer, limit=bounds.reply_bytes), probes), sku)
        if why is None:
            refused.pop(node.name, None)
        elif why is _NO_GPU:
            refused.pop(node.name, None)
            without.add(node.name)
        else:
            refused[node.name] = clean(why, 300)
    return IdleReport(refused, frozenset(without))


_NO_GPU = "it has no GPU"


def _why(recording: Recording, sku: Sku | None) -> str | None:
    if recording.host is None or recording.failure is not None:
        failure = recording.failure
        return (f"it was not reached: {failure.stage.value}: {failure.reason}" if failure is not None
                else "it was not reached")
    captures = Captures(recording)
    return proof(build_fact(FACTS["gpu_loads"], captures), build_fact(FACTS["gpu_presence"], captures), sku)


def proof(loads: Any, presence: Any, sku: Sku | None) -> str | None:
    """Why these facts do not prove that no process computes; None if they do, `_NO_GPU` without a GPU."""
    none = sku is not None and "gpus" in sku.empty
    if isinstance(loads, (Unmeasured, Partial)):
        return _NO_GPU if none and isinstance(
            loads, Unmeasured) else f"what runs on its GPUs is not known: {loads.reason}"
    if isinstance(presence, (Unmeasured, Partial)):
        return f"how many GPUs it has is not known: {presence.reason}"
    listed, on_pci = reading(presence, "listed"), reading(presence, "on_pci")
    if type(listed) is not int or type(on_pci) is not int:
        return "how many GPUs it has is not known"
    # One that the driver does not list may have been given to a virtual machine.
    if len(loads) != listed or listed < on_pci:
        return f"the driver reports {len(loads)} GPUs, and there are {max(listed, on_pci)}"
    if not loads:
        return _NO_GPU if none or sku is None else f"no GPU was seen, and its SKU {sku.name} has some"
    for load in loads:
        if why := _load(load):
            return why
    return None


def _load(load: GpuLoad) -> str:
    found = reading(load, "processes")
    if isinstance(found, Unmeasured) or found is UNSUPPORTED or not isinstance(found, tuple):
        return (f"what runs on {load.name} is not "
                f"known{': ' + found.reason if isinstance(found, Unmeasured) else ''}")
    if not found:
        return ""
    names = reading(load, "commands")
    named = f" ({names[0]})" if isinstance(names, tuple) and names and names[0] else ""
    return (f"process {found[0]}{named}{f' and {len(found) - 1} more' if len(found) > 1 else ''} runs on "
            f"{load.name}")
