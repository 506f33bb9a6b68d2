"""`muster lease`: the nodes that muster holds for disruptive work, and giving back what somebody left."""

from __future__ import annotations

import datetime as dt
import time

import click

from inventory.errors import UsageError
from inventory.text import short


@click.group()
def lease() -> None:
    """List the leases of disruptive work, and give back what was left.

    `muster check --disruptive` takes its leases, renews them and gives them back by itself. What it leaves when it is killed, the next run
    that leases gives back, and `muster lease release` does so now.

    \b
    muster lease list
    muster lease release
    """


@lease.command("list")
@click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def list_(state: str | None) -> int:
    """List leases that are not over: who holds which nodes for what, until when, and whether that process lives."""
    from healthcheck.store.file import opened
    from healthcheck.store.leases import open_leases
    from inventory.locate import state_dir
    from inventory.nodeset import fold
    from provisioning.lease.holder import life

    with opened(state_dir(state), make=True) as store:
        for one in open_leases(store):
            until = dt.datetime.fromtimestamp(one.until, dt.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
            over = ", over" if time.time() > one.until else ""
            click.echo(f"{one.name}  {fold(one.nodes)}  {one.kind} in {one.backend}  until {until}{over}  "
                       f"holder {life(one.holder).value}  {one.who}  {one.why}")
    return 0


@lease.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")
@click.option("--inventory", "-i", metavar="FILE", help="For what keeps jobs away (`cordon:`). Default: as for muster check.")
@click.option("--hostfile", metavar="FILE", help="The file of hosts in which a lease is, instead of what the inventory says.")
@click.option("--golden", metavar="FILE", help="The golden set in which a lease is, instead.")
def release(names: tuple[str, ...], state: str | None, inventory: str | None, hostfile: str | None, golden: str | None) -> int:
    """Give leases back whose process died or whose time is over; with NAME also one that is held: its work is stopped.

    What is another's, a reservation or a drain, is never touched.

    \b
    muster lease release
    muster lease release muster-12-3fa9c1d2

    Exit: 0 done, 1 some lease could not be given back, 2 usage.
    """
    from healthcheck.store.file import opened
    from healthcheck.store.leases import open_leases
    from inventory.cli.chosen import who
    from inventory.locate import state_dir
    from provisioning.actions.choose import Options
    from provisioning.lease.check import backend, lessor
    from provisioning.lease.take import give_back, overdue

    code = 0
    base = backend(inventory, Options(hostfile, golden))
    with opened(state_dir(state), make=True) as store:
        held = open_leases(store)
        if unknown := sorted(set(names) - {one.name for one in held}):
            raise UsageError(f"no such lease: {short(unknown[0])}; see: muster lease list")
        for one in held:
            why = "by hand" if one.name in names else "" if names else overdue(one, time.time())
            if why and one.backend == base.name:
                trouble = give_back(lessor(one.kind, base, who())(store), one, why)
                said = f"NOT given back: {trouble}" if trouble else f"given back: {why}"
                code = max(code, int(bool(trouble)))
            elif why:
                said, code = f"NOT given back: it is in {one.backend}, and what keeps jobs away here is {base.name}", 1
            elif not names:
                said = f"is held; to end it all the same: muster lease release {one.name}"
            else:
                continue
            click.echo(f"{one.name}: {said}")
    return code
