"""`muster burnin screen`: tests idle nodes in service for some minutes, and gives way to jobs."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import check_sku
from inventory.cli.chosen import who
from inventory.cli.formatted import formats
from inventory.cli.limits import LIMIT, given
from inventory.errors import MusterError, UsageError
from provisioning.cli.burninrun import carried_out, options
from provisioning.cli.burninshow import show as show_page

if TYPE_CHECKING:
    from healthcheck.burnin.document import Burnin
    from healthcheck.model.lease import Granted
    from inventory.model import Node
    from inventory.transport.base import Transport
    from provisioning.actions.base import Backend
    from provisioning.burnin.run import BurnInRequest
    from provisioning.burnin.screenpage import Screening
    from provisioning.cli.burninrun import Under

_HOURS = 24.0
# No reservation of others may begin sooner on a node: to confirm a suspect takes longer than all else.
_LONGEST_S = 900.0
# Once the head is gone what was sent ends by itself within that (NO_ANSWER_S of onnode/agent.py). The lease
# lasts MARGIN_S more, and is renewed, so that nodes of a head that was killed are soon free again.
_TERM_S = 60.0


@click.command(short_help="Test idle nodes in service for some minutes, and give way to jobs.")
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--apply", "act", is_flag=True, help="Screen them. Without this, show which would be screened.")
@click.option("--at-most", metavar="N", type=click.IntRange(1, 100_000),
              help="Nodes at a time.  [burnin.yaml, screen: {nodes: 16}]")
@click.option("--node-hours", metavar="H", type=click.FloatRange(0, min_open=True),
              help="Limit for all screenings in any 24 hours.  [burnin.yaml, screen: {node_hours: 24}]")
@click.option("--max-kw", metavar="KW", type=click.FloatRange(0, min_open=True),
              help="Power limit of all screened nodes together.  [burnin: {max_kw: ...} of the inventory]")
@click.option("--launcher", type=click.Choice(("ssh", "slurm", "local")), default="ssh", show_default=True,
              help="As for muster burnin run.")
@click.option("--head", metavar="ADDRESS", multiple=True,
              help="The address at which nodes reach this machine. Repeatable.  [as sshd there sees it]")
@click.option("--port", type=click.IntRange(0, 65535), default=0,
              help="The port on which it listens for nodes.  [a free port]")
@formats()
@LIMIT
@click.option("--quiet", is_flag=True, help="Show no progress.")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="SKU of nodes that name none, such as hgx-h100.")
@click.option("--rules", metavar="DIR",
              help="A folder of site rules, SKUs and floors that override the packaged ones.")
@click.option("--state", metavar="DIR",
              help="Folder of the store and the documents. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def screen(
    nodes: str | None, act: bool, at_most: int | None, node_hours: float | None, max_kw: float | None,
    launcher: str, head: tuple[str, ...], port: int, fmt: str, quiet: bool, inventory: str | None,
    sku: str | None, rules: str | None, state: str | None,
) -> int:
    """Choose which idle nodes in service (of NODES, or of all) are due for a screening; with --apply screen
    them.

    A screening takes two to three minutes: products whose every bit is known, random products, all-reduces
    in each node and between two idle neighbours. Nodes whose last certificate or screening is oldest go
    first; those proven within 7 days are left out. Nodes with a job, cordoned and leased nodes are never
    chosen, nor, under a power limit, nodes of unknown power draw.

    Nodes are leased as for a burn-in, and muster reads the queue every 5 s. As soon as a waiting job could
    use the nodes, it ends the ranks and gives the nodes back. Unfinished tests neither pass nor fail a node,
    and those nodes come first the next time; finished tests stand. This needs Slurm, or Kubernetes, where
    any pod counts that asks for GPUs and cannot be placed.

    A screening accuses with the consequences of a burn-in. Nodes accused for certain are cordoned before the
    lease ends, so no job gets them. Cordoned nodes count as nodes at a time. A finding ends with a burn-in of
    the quick length or longer, and the cordon with muster uncordon. A screening neither makes nor renews
    certificates.

    \b
    muster burnin screen
    muster burnin screen --apply
    muster burnin screen @rack4 --at-most 8 --node-hours 6 --max-kw 60 --apply
    muster burnin screen --format json | jq '.chosen[].node'

    Exit: 0 a plan, nothing to screen, or every node passes, 1 a node or link is accused, 2 usage, 3 nothing
    is accused but not all was measured, as when it gave way to a job, 130 interrupted.
    """
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.ruleset.skulimits import limited_inventory
    from healthcheck.store.file import opened
    from healthcheck.store.leases import left
    from inventory.load import load_inventory
    from inventory.locate import needed_inventory, state_dir
    from inventory.nodeset import fold
    from inventory.select import select
    from provisioning.actions.base import SupportsQueue
    from provisioning.actions.choose import backend as backend_of
    from provisioning.burnin.request import SCREEN, request
    from provisioning.burnin.screenpage import document, lines
    from provisioning.lease.check import give_back_abandoned
    from provisioning.lease.runlock import alone
    from provisioning.lease.take import overdue

    path = needed_inventory(inventory, "no inventory was found, and only it says which nodes are in "
                            "service: see muster inventory --help")
    folders = rulesfolder.folders(rules)
    ruleset = load_ruleset(folders)
    check_sku(sku, ruleset)
    there = limited_inventory(load_inventory(path, ruleset.skus, ruleset.profiles), ruleset.skus, sku,
                              given())
    of = list(select(there, nodes)) if nodes is not None else list(there)
    if not of:
        raise UsageError(f"{nodes or path} names no node")
    base = backend_of(there)
    if not isinstance(base, SupportsQueue):
        raise UsageError("screening needs a scheduler that knows idle nodes and waiting jobs, Slurm or "
                         f"Kubernetes; {base.name} does not (cordon: in the inventory)")
    if launcher == "slurm" and base.name != "slurm":
        raise UsageError("--launcher slurm needs `cordon: slurm` in the inventory")
    hosts = head or ((there.burnin.head,) if there.burnin.head is not None else ())

    def desired(chosen: Sequence[Node]) -> BurnInRequest:
        one = request(chosen, there, ruleset, folders, SCREEN, None, sku, max_kw)
        return replace(one, hosts=tuple(hosts), port=port, slurm=launcher == "slurm")

    folder = state_dir(state)
    if not act:
        one = _chosen(desired(()), of, base, folder, at_most, node_hours)
        with opened(folder, make=True) as store:
            for line in left(store, time.time(), overdue):
                click.echo(f"note: {line}", err=True)
        _print(one, fmt)
        if fmt == "table":
            more = " Run again with --apply to do this." if one.choice.chosen else ""
            click.echo(f"Nothing changed.{more}")
        return 0
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with alone(folder, "screen.lock", "burnin screen"):
        # Leases of a killed run would keep their nodes from being chosen, and from jobs.
        with opened(folder, make=True) as store:
            for line in give_back_abandoned(store, base, who()):
                click.echo(f"muster: lease {line}", err=True)
        one = _chosen(desired(()), of, base, folder, at_most, node_hours)
        if not one.choice.chosen:
            _print(one, fmt)
            return 0
        for line in lines(one, fold):
            click.echo(line, err=fmt == "json")
        names = frozenset(one.choice.chosen)
        ready = desired([node for node in of if node.name in names])
        burnt, gave_way, code = _screened(ready, one, base, folder, launcher, quiet=quiet)
    if fmt == "json":
        click.echo(json.dumps(document(one, burnt, gave_way), ensure_ascii=False, indent=1))
        return code
    _show(burnt)
    if gave_way:
        click.echo(f"\nit gave way: {gave_way}. Unfinished nodes neither pass nor fail; "
                   "they come first the next time.")
    return code


def _chosen(desired: BurnInRequest, of: Sequence[Node], base: Backend, folder: Path, at_most: int | None,
            node_hours: float | None) -> Screening:
    """Who is to be screened now; changes nothing."""
    from healthcheck.store import screened
    from healthcheck.store.cordons import open_cordons
    from healthcheck.store.file import opened
    from provisioning.actions.base import SupportsQueue
    from provisioning.burnin.candidates import candidates
    from provisioning.burnin.screening import ScreeningBudget, choose, seconds
    from provisioning.burnin.screenpage import Screening
    from provisioning.lease.check import manager

    policy = desired.floors.rules.screen
    now = time.time()
    with opened(folder, make=True) as store:
        used = screened.node_hours(store, now - _HOURS * screened.HOUR, now)
        ours = manager(None, base, who())(store)
        found = candidates(of, desired.skus, desired.default_sku, ours, folder, _LONGEST_S)
        held = sum(one.why.startswith(screened.FOUND) for one in open_cordons(store, backend=base.name))
    idle = [one for one in found if not one.refused]
    waits = base.waiting([one.node for one in idle]) if idle and isinstance(base, SupportsQueue) else ""
    hours = max(0.0, (node_hours if node_hours is not None else policy.node_hours) - used)
    long = seconds((one.place for one in idle if one.place is not None), desired.work)
    budget = ScreeningBudget(at_most or policy.nodes, hours, desired.power, long, held)
    choice = choose(found, budget, now, policy.days, waits)
    return Screening(now, {one.node: one for one in found}, choice, budget, used, waits)


def _screened(desired: BurnInRequest, one: Screening, base: Backend, folder: Path, launcher: str, *,
              quiet: bool) -> tuple[Burnin, str, int]:
    """Screens the chosen nodes; returns the burn-in, why it gave way if it did, and the exit code."""
    from healthcheck.burnin.document import SCREENING
    from healthcheck.burnin.judgement import BurnInOutcome
    from healthcheck.store import screened
    from healthcheck.store.file import opened
    from inventory.nodeset import fold
    from inventory.transport.base import Limits
    from provisioning.burnin import run as running
    from provisioning.burnin.consequences import carry_out, certain
    from provisioning.burnin.record import BurnInRecord, run_id
    from provisioning.burnin.request import SCREEN
    from provisioning.lease.check import leased, manager
    from provisioning.lease.giveway import BEAT_S, GiveWay

    began = time.time()
    record = BurnInRecord(folder, SCREEN, options(desired, launcher), run=f"{run_id(began)}{SCREENING}")
    gives_way = GiveWay(began + one.budget.node_hours * screened.HOUR / len(one.choice.chosen))

    granted: list[Granted] = []

    @contextmanager
    def lease(transport: Transport, under: Under) -> Iterator[Granted]:
        with leased(
            running.as_plan(desired), transport, Limits(sweep_s=_TERM_S), folder, manager(None, base, who()),
            beat=BEAT_S, why=screened.WHY, under=under, gives_way=gives_way) as one:
            granted.append(one)
            yield one

    def act(burnin: Burnin, withheld: Mapping[str, str]) -> None:
        if reasons := certain(burnin, withheld):
            try:
                kept = granted[0].lease.isolate(reasons)
            except MusterError as error:
                kept = [f"jobs are NOT kept from {fold(reasons)}: {error}"]
            for line in kept:
                click.echo(f"muster: {line}", err=True)
        # Nodes not reached before it gave way were not tried.
        finished = not granted[0].lease.gave_way()
        with opened(folder, make=True) as store:
            screened.write(store, burnin.run, burnin.ended, {
                each.node: each.outcome is not BurnInOutcome.UNKNOWN for each in burnin.judgement.outcomes
                if each.node not in withheld and (finished or each.outcome is BurnInOutcome.FAIL)})
        for line in carry_out(
            folder, burnin, withheld, f"screening ({who()})", time.time(), given_back=False):
            click.echo(f"muster: {line}", err=True)

    burnt, code = carried_out(desired, record, launcher, lease, act, quiet=quiet)
    return burnt, gives_way.why, code


def _print(one: Screening, fmt: str) -> None:
    from inventory.nodeset import fold
    from provisioning.burnin.screenpage import document, lines

    if fmt == "json":
        click.echo(json.dumps(document(one), ensure_ascii=False, indent=1))
        return
    for line in lines(one, fold):
        click.echo(line)


def _show(burnt: Burnin) -> None:
    """Its page, as `muster burnin show` prints it of what is kept."""
    from healthcheck.burnin.document import as_bytes
    from healthcheck.burnin.documentread import read

    data = as_bytes(burnt)
    click.echo("")
    show_page(read(data, f"screening {burnt.run}"), data, False, None, None)
