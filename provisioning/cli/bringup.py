"""`muster bringup`: takes machines from power-off to service, step by step, hundreds at once; killed anywhere, it goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, TypeVar

import click

from inventory.cli.chosen import chosen as chosen_names
from inventory.cli.chosen import who
from inventory.cli.completing import nodes as node_sets
from inventory.errors import UsageError
from provisioning.bringup.engine.model import ORDER
from provisioning.cli.base import base
from provisioning.cli.bringupshow import report, status

_F = TypeVar("_F", bound=Callable[..., Any])


def work(function: _F) -> _F:
    """The options of what brings machines up."""
    for option in reversed((
        click.option("--until", metavar="STEP", type=click.Choice(ORDER), help="End when each machine is through this step."),
        click.option("--sku", metavar="NAME", help="SKU of machines that name none, such as hgx-h100."),
        click.option("--fanout", metavar="N", type=click.IntRange(1, 1024), default=64, show_default=True,
                     help="Machines looked at over SSH at a time; how many in each step is the policy's."),
        click.option("--quiet", is_flag=True, help="Say nothing of progress."),
        click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check."),
        click.option("--rules", metavar="DIR", help="A folder of site rules, whose bringup.yaml is laid over the packaged one."),
        click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster."),
    )):
        function = option(function)
    return function


@click.group()
def bringup() -> None:
    """Take machines from power-off to service: proven, in parallel, resumable anywhere.

    Each goes through the steps bmc, credentials, hardware, bios, boot, os, ssh, base, agent, checks, kernel, burnin, certificate and
    service. A step is looked at until it is so; what is not so is mended where muster can, or told: what is wrong, whose it is, and the
    next hand to lend. Where each machine stands is in the store, so whatever is killed goes on where it was.

    \b
    muster inventory lifecycle @rack4 bringup
    muster bringup plan @rack4          which steps, how many at a time, for how long; touches nothing
    muster bringup run @rack4           a dry run: only looks, and says what would change
    muster bringup run @rack4 --apply
    muster bringup status --watch       from another terminal
    muster bringup report               who has to mend what, and where
    muster bringup retry gpu007         when it was mended
    muster bringup resume
    """


bringup.add_command(status)
bringup.add_command(report)
bringup.add_command(base)


@bringup.command(short_help="Say which steps machines have still to go; touches nothing.")
@click.argument("nodes", shell_complete=node_sets)
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@click.option("--rules", metavar="DIR", help="A folder of site rules, whose bringup.yaml is laid over the packaged one.")
@click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def plan(nodes: str, inventory: str | None, rules: str | None, state: str | None) -> int:
    """Say which steps each of NODES has still to go, how many at a time in all and per power domain, and for how long at most.

    Nothing is asked or changed: it is from the inventory, the policy (bringup.yaml) and the store. Who may not be brought up is told, with
    what to type.

    \b
    muster bringup plan @rack4
    muster bringup plan 'gpu[001-064]' --rules site-rules

    Exit: 0 printed, 2 usage, 3 somebody is refused.
    """
    from inventory.nodeset import fold
    from provisioning.bringup.pages.plan import lines
    from provisioning.cli.bringupsite import sorted_out, surroundings

    site = surroundings(inventory, rules, state, None)
    found, why = sorted_out(site, nodes)
    for line in lines(found, site.policy.steps, site.policy.without, why, fold):
        click.echo(line)
    return 3 if found.refused else 0


@bringup.command(short_help="Bring machines up; without --apply only look.")
@click.argument("nodes", shell_complete=node_sets)
@click.option("--apply", "act", is_flag=True, help="Change what is not so, and go on until all are through or in trouble.")
@work
def run(nodes: str, act: bool, until: str | None, sku: str | None, fanout: int, quiet: bool, inventory: str | None, rules: str | None,
        state: str | None) -> int:
    """Bring NODES up. Without --apply it is a dry run: each is looked at, step by step, until the first that is not so, and what would
    change there is told; nothing is changed or written.

    With --apply each goes on by itself as far as it can; who is in trouble is told with whose it is and the next hand to lend, and does not
    hold up the others. Where many meet the same trouble the step is halted for the rest. What was cut short goes on where it was.

    \b
    muster bringup run @rack4
    muster bringup run @rack4 --apply
    muster bringup run 'gpu[001-064]' --apply --until os
    nohup muster bringup run @train --apply > bringup.log 2>&1 &     and: muster bringup status --watch

    Exit: 0 all are through (or the dry run found nothing wrong), 1 some are in trouble, 2 usage, 3 some were not measured, refused or not
    ended, 4 a step is halted, 130 interrupted: deeds under way have ended, and are written down.
    """
    from provisioning.cli.bringuprun import carried_out
    from provisioning.cli.bringupsite import sorted_out, surroundings

    site = surroundings(inventory, rules, state, sku)
    return carried_out(site, sorted_out(site, nodes)[0], act=act, until=until, fanout=fanout, quiet=quiet)


@bringup.command(short_help="Go on with all machines that are on their way.")
@work
def resume(until: str | None, sku: str | None, fanout: int, quiet: bool, inventory: str | None, rules: str | None,
           state: str | None) -> int:
    """Go on with all machines that the store has on their way, as `muster bringup run --apply` does; those in trouble are looked at again.

    \b
    muster bringup resume
    muster bringup resume --until ssh

    Exit: as that of `muster bringup run`.
    """
    from provisioning.cli.bringuprun import carried_out
    from provisioning.cli.bringupsite import on_their_way, sorted_out, surroundings

    site = surroundings(inventory, rules, state, sku)
    there, more = on_their_way(site)
    code = carried_out(site, sorted_out(site, there)[0], act=True, until=until, fanout=fanout, quiet=quiet)
    return code or (3 if more else 0)


@bringup.command(short_help="Have the step begin anew in which machines are in trouble.")
@click.argument("nodes", shell_complete=node_sets)
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def retry(nodes: str, inventory: str | None, state: str | None) -> int:
    """Say of NODES in trouble that somebody looked: their step begins anew, and what must be done only once may be done again.

    \b
    muster bringup retry gpu007
    muster bringup resume

    Exit: 0 done, 2 usage, 3 none of them is in trouble.
    """
    from healthcheck.store import bringups
    from inventory.locate import state_dir
    from provisioning.bringup.engine.site import LOCK
    from provisioning.cli.bringupsite import begun
    from provisioning.lease.runlock import locked

    names, _ = chosen_names(nodes, inventory)
    folder = state_dir(state)
    with begun(folder) as store:
        troubled = {one.node for one in bringups.progress(store, names) if one.stand == "trouble"}
        told = bringups.retry(store, names, who(), time.time())
    _tell(told)
    if troubled and not locked(folder / LOCK):
        click.echo("then: muster bringup resume", err=True)
    return 0 if troubled else 3


@bringup.command(short_help="Have machines pass over a step, which never counts as passed.")
@click.argument("nodes", shell_complete=node_sets)
@click.option("--step", "steps", type=click.Choice(ORDER[:-1]), multiple=True, required=True, help="Which; may be repeated.")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for the ledger and whoever reads the plan.")
@click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
@click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def skip(nodes: str, steps: tuple[str, ...], reason: str, inventory: str | None, state: str | None) -> None:
    """Have NODES pass over a step on their way. It is shown as skipped, with who said so and why, and never counts as passed.

    \b
    muster bringup skip gpu007 --step bios --reason 'no Redfish in this firmware, settings read off the screen'
    muster bringup skip @old --step bmc --step credentials --step hardware --step bios --step boot --reason 'no BMC'
    """
    from healthcheck.store import bringups
    from healthcheck.store.file import opened
    from inventory.locate import state_dir

    if not reason.strip():
        raise UsageError("--reason is empty: whoever reads the ledger wants to know why the step may be skipped")
    names, _ = chosen_names(nodes, inventory)
    with opened(state_dir(state), make=True) as store:
        for step in steps:
            _tell(bringups.skip(store, names, step, who(), reason.strip(), time.time(), order=ORDER))


def _tell(told: dict[str, str]) -> None:
    """What became of each machine, alike ones on one line."""
    from inventory.nodeset import fold

    alike: dict[str, list[str]] = {}
    for node, said in told.items():
        alike.setdefault(said, []).append(node)
    for said, names in alike.items():
        click.echo(f"{fold(names)}: {said}")
