"""`muster incident`: causes that several nodes share, as found by triage, and closing them by hand."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from healthcheck.store.file import opened
from healthcheck.store.marks import CordonMark
from inventory.cli.chosen import who
from inventory.cli.formatted import formats
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.locate import state_dir
from inventory.text import clean

if TYPE_CHECKING:
    from collections.abc import Mapping

    from healthcheck.model.verdict import StoredIncident
    from healthcheck.store.file import Store
    from healthcheck.triage.past import VersionChange

_HOUR = 3600.0
_FORM = formats()


@click.group()
def incident() -> None:
    """Causes that several nodes share: a leaf, a rail, a rack, an NVLink or power domain, a version,
    a moment.

    `muster triage --apply` opens and closes them; the policy decides when,
    and what to do (muster explain policy).

    \b
    muster incident list
    muster incident show 12
    muster incident close 12 --reason 'two bad cables, not the leaf'
    """


@incident.command("list")
@click.option("--since", metavar="SPAN", callback=span(60, 3660 * 86400),
              help="Also those closed within this time: 12h, 7d.")
@_FORM
@STATE
def list_(since: float | None, fmt: str, state: str | None) -> None:
    """List open incidents.

    \b
    muster incident list
    muster incident list --since 7d
    muster incident list --format json | jq '.incidents[] | {id, place, likelihood}'

    Exit: 0 printed, 2 usage.
    """
    from healthcheck.report import incident as report
    from healthcheck.store.incidents import incidents

    now = time.time()
    with opened(state_dir(state)) as store:
        found = incidents(store, now - since if since is not None else float("inf"))
        held = _held(store)
    if fmt == "json":
        click.echo(json.dumps(report.document(found, now, held), indent=1))
        return
    for line in report.lines(found, now):
        click.echo(line)
    if not found:
        click.echo("no open incident" + ("" if since is None else ", and none was closed in that time"))


@incident.command()
@click.argument("number", metavar="ID", type=click.IntRange(1), shell_complete=completing.incident)
@_FORM
@STATE
def show(number: int, fmt: str, state: str | None) -> None:
    """Show an incident: place, symptoms of its nodes and their times, how unlikely chance is,
    who closed it and why.

    \b
    muster incident show 12

    Exit: 0 printed, 2 usage.
    """
    from healthcheck.report import incident as report

    with opened(state_dir(state)) as store:
        one = _one(store, number)
        held = _held(store)
        changes = _changes(store, one)
    if fmt == "json":
        click.echo(json.dumps(report.document([one], time.time(), held, {number: changes}), indent=1))
        return
    for line in report.page(one, held.get(number, {}), changes):
        click.echo(line)


@incident.command()
@click.argument("number", metavar="ID", type=click.IntRange(1), shell_complete=completing.incident)
@click.option("--reason", metavar="TEXT", help="The reason, for the ledger.")
@STATE
def close(number: int, reason: str | None, state: str | None) -> None:
    """Close an incident: it is over, or was wrong. What continues is each node's own fault from then on.

    Healthy nodes return with the next `muster triage --apply`, each after one clean sweep. The same nodes
    become an incident there again only by later problems.

    \b
    muster incident close 12 --reason 'two bad cables, not the leaf'

    Exit: 0 closed, 2 usage, or it is not open.
    """
    from healthcheck.store import incidents

    if reason is None or not reason.strip():
        raise UsageError(
            f"--reason is missing: muster incident close {number} --reason 'the leaf was exchanged'")
    with opened(state_dir(state)) as store:
        one = _one(store, number)
        if not incidents.close(store, number, clean(reason.strip()), who(), time.time()):
            raise UsageError(f"incident {number} is closed already, by {clean(one.by)}: {clean(one.closed)}")
    click.echo(f"incident {number} is closed; next: muster check --store && muster triage --apply")


def _one(store: Store, number: int) -> StoredIncident:
    from healthcheck.store.incidents import incidents

    for one in incidents(store):
        if one.id == number:
            return one
    raise UsageError(f"there is no incident {number}; see: muster incident list --since 30d")


def _changes(store: Store, one: StoredIncident) -> list[VersionChange]:
    """What nodes are judged by and changed in the hour before the incident began, or as it did."""
    from healthcheck.store.versions import OF_NODES
    from healthcheck.triage.gather import every_change

    return [change for change in every_change(store, one.began - _HOUR, time.time())
            if change.kind not in OF_NODES and change.began <= one.began]


def _held(store: Store) -> Mapping[int, Mapping[str, CordonMark]]:
    """By incident and node, the open cordons that belong to it."""
    found: dict[int, dict[str, CordonMark]] = {}
    for incident, node, number, named in store.rows(
            "SELECT verdict.incident, cordon.node, cordon.id, cordon.store FROM cordon "
            "JOIN verdict ON verdict.id = cordon.verdict WHERE cordon.ended IS NULL "
            "AND verdict.incident IS NOT NULL"):
        found.setdefault(incident, {})[node] = CordonMark(named, number)
    return found
