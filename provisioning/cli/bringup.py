"""`muster bringup`: takes machines from power-off to service, step by step, resumable anywhere."""

from __future__ import annotations

import json
import shlex
import time

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.chosen import chosen as chosen_names
from inventory.cli.chosen import who
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.folded import echo_folded
from inventory.cli.formatted import as_json as format_option
from inventory.cli.limits import FANOUT, LIMIT
from inventory.cli.stacked import stacked
from inventory.errors import UsageError
from provisioning.bringup.engine.model import ORDER
from provisioning.cli.base import base
from provisioning.cli.bringupshow import report, status

_INVENTORY = click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check.")
_RULES = click.option("--rules", metavar="DIR",
                      help="A folder of site rules; its bringup.yaml overrides the packaged one.")
_WORK = stacked(
    click.option("--until", metavar="STEP", type=click.Choice(ORDER),
                 help="Stop when each machine has passed this step."),
    click.option("--sku", metavar="NAME", shell_complete=completing.sku,
                 help="SKU of machines that name none, such as hgx-h100."),
    LIMIT, FANOUT,
    click.option("--quiet", is_flag=True, help="Show no progress."),
    _INVENTORY, _RULES, STATE)


@click.group()
def bringup() -> None:
    """Take machines from power-off to service: proven, in parallel, resumable anywhere.

    Each goes through the steps bmc, credentials, hardware, bios, boot, os, ssh, base, agent, checks, kernel,
    burnin, certificate and service. Muster checks each step until it passes. It repairs what it can.
    Otherwise it reports what is wrong, who owns it and the next action. The store has the state of each
    machine, so an interrupted run continues where it stopped.

    \b
    muster inventory lifecycle @rack4 bringup
    muster bringup plan @rack4          which steps, how many at a time, for how long; touches nothing
    muster bringup run @rack4           a dry run: only checks, and shows what would change
    muster bringup run @rack4 --apply
    muster bringup status --watch       from another terminal
    muster bringup report               who has to repair what, and where
    muster bringup retry gpu007         once it is repaired
    muster bringup resume
    """


bringup.add_command(status)
bringup.add_command(report)
bringup.add_command(base)


@bringup.command(short_help="Show which steps machines still have to pass; touches nothing.")
@click.argument("nodes", shell_complete=completing.node_set)
@_INVENTORY
@_RULES
@STATE
@format_option("json: the document (muster.bringup-plan/1), with every machine.")
def plan(
    nodes: str, inventory: str | None, rules: str | None, state: str | None, as_json: bool,
) -> int:
    """Show which steps each of NODES still has to pass, how many run at a time in all and per power domain,
    and for how long at most.

    This reads only the inventory, the policy (bringup.yaml) and the store. It lists machines that may not be
    brought up, with the command that changes it.

    \b
    muster bringup plan @rack4
    muster bringup plan 'gpu[001-064]' --rules site-rules

    Exit: 0 printed, 2 usage, 3 some machines are refused.
    """
    from inventory.nodeset import fold
    from provisioning.bringup.pages.plan import document, lines
    from provisioning.cli.bringupsite import sorted_out, surroundings

    site = surroundings(inventory, rules, state, None)
    found, why = sorted_out(site, nodes)
    if as_json:
        click.echo(json.dumps(document(found, site.policy.steps, site.policy.without, why), indent=1))
    else:
        for line in lines(found, site.policy.steps, site.policy.without, why, fold):
            click.echo(line)
    return 3 if found.refused else 0


@bringup.command(short_help="Bring machines up; without --apply only check.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--apply", "act", is_flag=True,
              help="Change what differs, and go on until all are through or in trouble.")
@_WORK
def run(
    nodes: str, act: bool, until: str | None, sku: str | None, fanout: int, quiet: bool,
    inventory: str | None, rules: str | None, state: str | None,
) -> int:
    """Bring NODES up. Without --apply this is a dry run: it checks each machine, step by step, up to the
    first step that fails, and shows what would change there. It changes and writes nothing.

    With --apply each machine goes on as far as it can. A machine in trouble is listed with the owner and the
    next action, and does not hold up the others. If many meet the same trouble, the step is halted for the
    rest. An interrupted run continues where it stopped.

    \b
    muster bringup run @rack4
    muster bringup run @rack4 --apply
    muster bringup run 'gpu[001-064]' --apply --until os
    nohup muster bringup run @train --apply > bringup.log 2>&1 &     and: muster bringup status --watch

    Exit: 0 all are through (or the dry run found nothing wrong), 1 some are in trouble, 2 usage, 3 some were
    not measured, refused or not ended, 4 a step is halted, 130 interrupted: running operations have ended and
    are recorded.
    """
    from provisioning.cli.bringuprun import carried_out
    from provisioning.cli.bringupsite import sorted_out, surroundings

    site = surroundings(inventory, rules, state, sku)
    return carried_out(site, sorted_out(site, nodes)[0], act=act, until=until, fanout=fanout, quiet=quiet)


@bringup.command(short_help="Continue with all machines in bring-up.")
@_WORK
def resume(
    until: str | None, sku: str | None, fanout: int, quiet: bool, inventory: str | None, rules: str | None,
    state: str | None,
) -> int:
    """Continue with all machines that the store has in bring-up, as `muster bringup run --apply` does; those
    in trouble are checked again.

    \b
    muster bringup resume
    muster bringup resume --until ssh

    Exit: as for `muster bringup run`.
    """
    from provisioning.cli.bringuprun import carried_out
    from provisioning.cli.bringupsite import on_their_way, sorted_out, surroundings

    site = surroundings(inventory, rules, state, sku)
    there, more = on_their_way(site)
    code = carried_out(site, sorted_out(site, there)[0], act=True, until=until, fanout=fanout, quiet=quiet)
    return code or (3 if more else 0)


@bringup.command(short_help="Start the step again in which machines are in trouble.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES_MANY
@_INVENTORY
@click.option(
    "--rules", metavar="DIR", help="A folder of site rules; it is checked, and named for `resume`.")
@STATE
def retry(
    nodes: str, dry_run: bool, yes: bool, inventory: str | None, rules: str | None, state: str | None,
) -> int:
    """Tell muster that someone has checked NODES in trouble: their step starts again, and one-time operations
    may run again.

    \b
    muster bringup retry gpu007
    muster bringup resume

    Exit: 0 done, 2 usage, 3 none of them is in trouble.
    """
    from healthcheck.config.rulesfolder import folders
    from healthcheck.store import bringups
    from inventory.locate import state_dir
    from provisioning.bringup.engine.site import LOCK
    from provisioning.bringup.policy.load import load
    from provisioning.cli.bringupsite import begun
    from provisioning.lease.runlock import locked

    load(folders(rules))
    names, _ = chosen_names(nodes, inventory)
    folder = state_dir(state)
    with begun(folder) as store:
        troubled = {one.node for one in bringups.progress(store, names) if one.stand == "trouble"}
        if dry_run:
            echo_folded((name, "would start its step again" if name in troubled else "is not in trouble")
                        for name in names)
            return 0 if troubled else 3
        confirm("bringup retry", names, stops=False, yes=yes)
        results = bringups.retry(store, names, who(), time.time())
    echo_folded(results.items())
    if troubled and not locked(folder / LOCK):
        given_rules = f" --rules {shlex.quote(rules)}" if rules is not None else ""
        click.echo(f"then: muster bringup resume{given_rules}", err=True)
    return 0 if troubled else 3


@bringup.command(short_help="Have machines skip a step, which never counts as passed.")
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--step", "steps", type=click.Choice(ORDER[:-1]), multiple=True, required=True,
              help="The step to skip. Repeatable.")
@click.option("--reason", required=True, metavar="TEXT", help="Why, for the ledger and the plan.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES_MANY
@_INVENTORY
@STATE
def skip(
    nodes: str, steps: tuple[str, ...], reason: str, dry_run: bool, yes: bool, inventory: str | None,
    state: str | None,
) -> None:
    """Have NODES skip a step. It shows as skipped, with who decided it and why, and never counts as passed.

    \b
    muster bringup skip gpu007 --step bios --reason 'no Redfish, settings read off the screen'
    muster bringup skip @old --step bmc --step credentials --step hardware --step bios --step boot \\
        --reason 'no BMC'
    """
    from healthcheck.store import bringups
    from healthcheck.store.file import opened
    from inventory.locate import state_dir

    if not reason.strip():
        raise UsageError("--reason is empty: the ledger keeps why the step may be skipped")
    names, _ = chosen_names(nodes, inventory)
    if dry_run:
        echo_folded((name, f"would skip {', '.join(dict.fromkeys(steps))}") for name in names)
        return
    confirm(f"skip {', '.join(dict.fromkeys(steps))} on", names, stops=False, yes=yes)
    with opened(state_dir(state), make=True) as store:
        for step in steps:
            skipped = bringups.skip(store, names, step, who(), reason.strip(), time.time(), order=ORDER)
            echo_folded(skipped.items())
