"""`muster lease`: lists the nodes that muster holds for disruptive work, and releases abandoned leases."""

from __future__ import annotations

import json
import time

import click

from healthcheck.cli.options import STATE
from inventory.cli.formatted import as_json as format_option
from inventory.errors import UsageError
from inventory.text import short
from inventory.times import minute, second

_NONE = "no leases"


@click.group()
def lease() -> None:
    """List the leases of disruptive work, and release abandoned ones.

    `muster check --disruptive` takes, renews and releases its leases by itself. If it is killed, the next run
    that takes a lease releases them, or `muster lease release` does so now.

    \b
    muster lease list
    muster lease release
    """


@lease.command("list")
@STATE
@format_option("json: muster.leases/1.")
def list_(state: str | None, as_json: bool) -> int:
    """List open leases: who holds which nodes for what, until when, and whether that process is alive.

    \b
    muster lease list --format json | jq -r '.leases[] | select(.holder == "dead") | .name'
    """
    from healthcheck.store.leases import open_leases
    from healthcheck.store.reading import reading
    from inventory.locate import state_dir
    from inventory.nodeset import fold
    from provisioning.lease.holder import life

    with reading(state_dir(state)) as store:
        found = open_leases(store) if store is not None else []
    if as_json:
        click.echo(json.dumps({"schema": "muster.leases/1", "leases": [
            {"name": one.name, "nodes": list(one.nodes), "kind": one.kind, "backend": one.backend,
             "began": second(one.began), "until": second(one.until), "over": time.time() > one.until,
             "holder": life(one.holder).value, "who": one.who, "why": one.why} for one in found]}, indent=1))
        return 0
    for one in found:
        until = minute(one.until)
        over = ", over" if time.time() > one.until else ""
        click.echo(f"{one.name}  {fold(one.nodes)}  {one.kind} in {one.backend}  until {until}{over}  "
                   f"holder {life(one.holder).value}  {one.who}  {one.why}")
    if not found:
        click.echo(_NONE)
    return 0


@lease.command()
@click.argument("names", metavar="[NAME]...", nargs=-1)
@STATE
@click.option(
    "--inventory", "-i", metavar="FILE", help="Names the back end (`cordon:`). Default: as for muster check.")
@click.option("--hostfile", metavar="FILE",
              help="The file of hosts that has the lease, instead of what the inventory says.")
@click.option("--golden", metavar="FILE", help="The golden set that has the lease, instead.")
def release(
    names: tuple[str, ...], state: str | None, inventory: str | None, hostfile: str | None,
    golden: str | None,
) -> int:
    """Release leases whose process died or whose time is over. With NAME also a held one: its work stops.

    Reservations and drains of others are never touched.

    \b
    muster lease release
    muster lease release muster-12-3fa9c1d2

    Exit: 0 done, 1 some lease could not be released, 2 usage.
    """
    from healthcheck.store.leases import open_leases
    from healthcheck.store.reading import reading
    from inventory.cli.chosen import who
    from inventory.locate import state_dir
    from provisioning.actions.choose import Options
    from provisioning.lease.check import backend, manager
    from provisioning.lease.take import give_back, overdue

    code = 0
    base = backend(inventory, Options(hostfile, golden))
    with reading(state_dir(state)) as store:
        held = open_leases(store) if store is not None else []
        if unknown := sorted(set(names) - {one.name for one in held}):
            raise UsageError(f"no such lease: {short(unknown[0])}; see: muster lease list")
        if store is None or not held:
            click.echo(_NONE)
            return 0
        for one in held:
            why = "by hand" if one.name in names else "" if names else overdue(one, time.time())
            if why and one.backend == base.name:
                trouble = give_back(manager(one.kind, base, who())(store), one, why)
                message = f"NOT given back: {trouble}" if trouble else f"given back: {why}"
                code = max(code, int(bool(trouble)))
            elif why:
                message = f"NOT given back: it is in {one.backend}, and the back end here is {base.name}"
                code = 1
            elif not names:
                message = f"is held; to end it anyway: muster lease release {one.name}"
            else:
                continue
            click.echo(f"{one.name}: {message}")
    return code
