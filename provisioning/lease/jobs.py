"""Whether a job runs on a node: what Slurm shows of the node and of jobs must both say no. A back end that
says what runs (`SupportsRunning`) is believed. squeue may hide jobs (PrivateData)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from inventory.discover import Run, output
from inventory.errors import InventoryError, MusterError
from inventory.jobnodes import OVER, SQUEUE
from inventory.nodeset import expand
from inventory.text import clean
from provisioning.actions.base import ActionError, Backend, SupportsRunning


@dataclass(frozen=True)
class Jobs:
    """By node why it is busy; and the nodes of which the back end cannot say whether a job runs there."""

    busy: dict[str, str]
    unknown: frozenset[str]


def jobs(base: Backend, nodes: Collection[str], run: Run | None = None, ours: str = "") -> Jobs:
    """What the back end says of jobs on these nodes now; raises ActionError. `ours` is a lease's name: a job
    of that name in a reservation of that name is our own."""
    if isinstance(base, SupportsRunning):
        return Jobs(dict(base.running(nodes)), frozenset())
    own: set[str] = set()
    if ours and base.name == "slurm":
        # Before and after: a job of ours may end, or begin, while the state of nodes is asked for.
        by_node(run, ours, own)
    held = base.held(nodes)
    running = by_node(run, ours, own) if base.name == "slurm" else {}
    # A node that our own job has is as busy by its state as with another's; then only the list of jobs can
    # tell.
    busy = {node: f"job {running[node]} is on it" if node in running else "a job is on it"
            for node in nodes if node in running or (held[node].busy and node not in own)}
    return Jobs(busy, frozenset(node for node in nodes if node not in busy and held[node].busy is None))


def by_node(run: Run | None = None, ours: str = "", own: set[str] | None = None) -> dict[str, str]:
    """The nodes of jobs, each with the number and state of one; raises ActionError. Those of jobs called
    `ours`, in a reservation called so, go into `own`."""
    try:
        text = output((*SQUEUE[:-1], f"{SQUEUE[-1]}|%v|%j") if ours else SQUEUE, run).decode(
            "utf-8", "backslashreplace")
    except MusterError as error:
        raise ActionError(str(error)) from None
    found: dict[str, str] = {}
    for line in text.splitlines():
        number, _, rest = line.strip().partition("|")
        state, bar, nodes = rest.partition("|")
        called = ""
        if ours:
            nodes, _, called = nodes.partition("|")
        if not line.strip() or state in OVER or (bar and not nodes):
            continue
        try:
            if not number.isdigit() or not bar:
                raise InventoryError("three fields were asked for")
            for node in expand(nodes):
                if ours and own is not None and called == f"{ours}|{ours}":
                    own.add(node)
                else:
                    found.setdefault(node, f"{number} ({clean(state, 40)})")
        except InventoryError as error:
            raise ActionError(f"squeue printed {clean(line, 100)!r}, which cannot be read ({error}); see: "
                              "squeue --all") from None
    return found
