"""`muster demo`: a loopback fleet with planted faults, swept, and compared with what was planted."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from inventory.text import many

if TYPE_CHECKING:
    from healthcheck.sweep.sweep import SweepPlan, SweepResult
    from provisioning.demo.fleet import DemoFleet

# One machine that simulates a whole fleet is slow to log in to; fewer logins at a time keep each quick.
_FANOUT = 16
# The first sweep only has to reach nodes that answer; the second has the usual time limits.
_FIRST_CONNECT_S = 5.0
_FIRST_LOGIN_S = 10.0


@click.command()
@click.option("--nodes", metavar="N", type=click.IntRange(1, 512), default=32, show_default=True,
              help="Size of the fleet.")
@click.option("--seed", metavar="S", type=int, default=1, show_default=True,
              help="Chooses which nodes are sick, and with what.")
@click.option("--keep", is_flag=True, help="Leave the fleet running until Ctrl-C, and print how to check it.")
def demo(nodes: int, seed: int, keep: bool) -> int:
    """Start a fleet of simulated H100 nodes on this machine, plant faults, and see muster find them.

    Every node is a real sshd on 127.0.0.1 with its own host key, file tree, tools and NVML library; only the
    hardware is simulated. Nothing runs as another user, listens beyond loopback, or stays behind: however it
    ends, also by KILL, the processes end and their folder is removed. With 32 nodes or more, every known
    fault is planted once; smaller fleets get some.

    Muster sweeps the fleet twice, because a link that sometimes drops shows only between two snapshots.

    \b
    muster demo
    muster demo --nodes 8 --seed 7
    muster demo --keep                   then, elsewhere: muster check --inventory THE-FILE-IT-NAMES

    Needs OpenSSH's server and a C compiler: apt-get install -y openssh-server gcc libc6-dev

    Exit: 0 found every planted fault and accused no other node, 1 otherwise, 2 something is missing, 130
    interrupted.
    """
    from provisioning.demo.expected import compare
    from provisioning.demo.fleet import DemoFleet

    began = time.monotonic()
    with DemoFleet(nodes, seed) as fleet:
        click.echo(f"{nodes} nodes on 127.0.0.1, up in {time.monotonic() - began:.1f} s; inventory: "
                   f"{fleet.inventory}", err=True)
        first = _sweep(fleet, "first look", only=("port-*",), hurried=True)[1]
        if first.partial:
            return 130
        fleet.advance()
        plan, outcome = _sweep(fleet, "second look")
        _show(plan, outcome)
        if outcome.partial:
            return 130
        wrong = compare(_document(outcome), fleet.planted, later=True)
        click.echo("\n" + verdict(fleet.planted, wrong))
        if keep:
            _wait(fleet)
        return 1 if wrong else 0


def verdict(planted: Mapping[str, tuple[str, ...]], wrong: list[str]) -> str:
    """Compares what was planted with what was found; `wrong` is `expected.compare`'s result."""
    sick = sum(1 for faults in planted.values() if faults)
    head = f"Planted: {many(sick, 'fault')}, one to a node; {many(len(planted) - sick, 'node')} healthy."
    if not wrong:
        return f"{head} Every fault was found, and nothing else was accused."
    return "\n".join(
        [f"{head} Not as expected in {many(len(wrong), 'respect')}:", *(f"  {line}" for line in wrong)])


def _sweep(
    fleet: DemoFleet, what: str, *, only: tuple[str, ...] = (), hurried: bool = False,
) -> tuple[SweepPlan, SweepResult]:
    from dataclasses import replace

    from healthcheck.report.progress import progress
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.sweep import sweep
    from healthcheck.sweep.snapshots import KeptSnapshots
    from inventory.load import load_inventory
    from inventory.transport.ssh import SshTransport

    ruleset = ruleset_of(None)
    inventory = load_inventory(fleet.inventory, ruleset.skus)
    plan = sweep.SweepPlan(tuple(inventory), ruleset.select(only, ()), None, inventory.source, only)
    limits = sweep.limits(None, _FANOUT, plan.nodes)
    if hurried:
        limits = replace(limits, connect_s=_FIRST_CONNECT_S, login_s=_FIRST_LOGIN_S)
    bar = progress(len(plan.nodes), what)
    snapshots = KeptSnapshots(fleet.folder / "state")
    return plan, sweep.live(plan, SshTransport(), limits, bar, snapshots=snapshots)


def _show(plan: SweepPlan, outcome: SweepResult) -> None:
    from healthcheck.cli.check import show

    show(plan, outcome, "table")


def _document(outcome: SweepResult) -> dict[str, Any]:
    from healthcheck.report.document import document

    return document(
        outcome.assessed.reports, started=outcome.started, finished=outcome.finished, partial=outcome.partial)


def _wait(fleet: DemoFleet) -> None:
    # Ctrl-C may come as soon as the first word is printed.
    try:
        click.echo("\n"
                   "The fleet stays up until Ctrl-C. To check it yourself:\n"
                   f"  muster check --inventory {fleet.inventory}", err=True)
        signal.pause()
    except KeyboardInterrupt:
        click.echo("cleaning up", err=True)
