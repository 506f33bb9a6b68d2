"""`muster baseline review`, `show` and `diff`: show a baseline's proposals and content,
and how two differ."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli.options import CATALOGUE
from healthcheck.config import rulesfolder
from healthcheck.kernellog.masking import nearest
from inventory.cli.formatted import formats
from inventory.text import clean, many

if TYPE_CHECKING:
    from healthcheck.baseline.catalogue import Catalogue
    from healthcheck.kernellog.model import Baseline, KnownTemplate

_FORMAT = formats()
_WIDE = 200     # characters of a template or an example


def loaded(path: str, rules: str | None) -> tuple[Baseline, Catalogue]:
    """A file's baseline and the catalogue; raises RulesError."""
    from healthcheck.baseline.cataloguecache import catalogue as cached_catalogue
    from healthcheck.baseline.fileload import load

    catalogue = cached_catalogue(rulesfolder.folders(rules))
    return load(Path(path), catalogue), catalogue


def today() -> str:
    """The date in UTC, ISO 8601."""
    return dt.datetime.now(dt.timezone.utc).date().isoformat()


@click.command()
@click.argument("baseline", metavar="B")
@click.option("--flagged", is_flag=True, help="Only flagged templates.")
@CATALOGUE
@_FORMAT
def review(baseline: str, flagged: bool, rules: str | None, fmt: str) -> None:
    """Show what baseline B proposes, worst first: flags, nodes and counts, an example,
    the nearest approved template.

    \b
    muster baseline review h100.yaml
    muster baseline review h100.yaml --format json | jq -r '.proposed[] | select(.flags == []) | .id'
    """
    from healthcheck.baseline.document import document
    from healthcheck.baseline.flags import flagged as with_flags
    from healthcheck.baseline.flags import rank
    from healthcheck.baseline.learn import current

    held, catalogue = loaded(baseline, rules)
    held = current(with_flags(held, catalogue), today())
    shown = sorted((one for one in held.proposed.values() if one.flags or not flagged), key=rank)
    near = {one.template: nearest(one.template, held.known) for one in shown if one.flags}
    if fmt == "json":
        whole = document(held)
        keep = {one.template for one in shown}
        whole["proposed"] = [{**entry, "nearest": near.get(entry["template"])} for entry in whole["proposed"]
                             if entry["template"] in keep]
        click.echo(json.dumps(
            {key: value for key, value in whole.items() if key not in ("approved", "expired")}, indent=1))
        return
    click.echo(_heading(held))
    for one in shown:
        click.echo("")
        if one.flags:
            click.echo(_proposal(one, held, near[one.template]))
        else:
            click.echo(_row(one, held))


def _heading(held: Baseline) -> str:
    from healthcheck.baseline.scope import words

    expired = f", {len(held.expired)} expired" if held.expired else ""
    flagged = sum(bool(one.flags) for one in held.proposed.values())
    marked = f" ({flagged} flagged)" if flagged else ""
    learned = f"of {many(held.nodes, 'node')} and {many(held.boots, 'boot')}, {held.first} to {held.last}"
    return (f"{clean(held.name, 80)}, for {clean(words(held.scope), 200)}: {len(held.known)} "
            f"approved{expired}, {len(held.proposed)} proposed{marked}; {learned}")


def _row(one: KnownTemplate, held: Baseline) -> str:
    from healthcheck.baseline.approval import short_id

    return f"{short_id(one.template)}  {_seen(one, held)}\n         {clean(one.template, _WIDE)}"


def _seen(one: KnownTemplate, held: Baseline) -> str:
    """How many nodes and boots had it, how often, and when."""
    where = f" ({clean(one.on, 60)})" if one.on else ""
    times = f"{one.least}" if one.least == one.most else f"{one.least} to {one.most}"
    phases = ", ".join(phase.value for phase in one.phases)
    return (f"on {one.nodes} of {held.nodes} nodes{where}, in {one.boots} of {held.boots} boots, {times} a "
            f"boot, {phases}; {one.first_seen} to {one.last_seen}")


def _proposal(one: KnownTemplate, held: Baseline, near: str | None) -> str:
    rows = [_row(one, held), f"         flags    {clean(', '.join(one.flags), _WIDE)}",
            f"         example  {clean(one.example, _WIDE)}"]
    if near is not None:
        rows.append(f"         nearest  {clean(near, _WIDE)}")
    return "\n".join(rows)


@click.command()
@click.argument("baseline", metavar="B")
@CATALOGUE
@_FORMAT
def show(baseline: str, rules: str | None, fmt: str) -> None:
    """Show the approved templates of baseline B, who approved them and why, and expired and proposed ones.

    \b
    muster baseline show h100.yaml
    muster baseline show h100.yaml --format json | jq '.approved[] | select(.share < 1) | .template'
    """
    from healthcheck.baseline.document import document
    from healthcheck.baseline.flags import flagged
    from healthcheck.baseline.learn import current

    held, catalogue = loaded(baseline, rules)
    held = current(flagged(held, catalogue), today())
    if fmt == "json":
        click.echo(json.dumps(document(held), indent=1))
        return
    click.echo(_heading(held))
    for phase, (least, most) in held.phases.items():
        click.echo(f"  {phase.value:<9} begins at {least:.1f} to {most:.1f} s")
    _approved("approved", held.known.values(), held)
    _approved(f"expired: not seen for {held.expires_days} days, or in {held.expires_boots} boots",
              held.expired.values(), held)
    if held.proposed:
        click.echo(f"\nproposed: {len(held.proposed)}; muster baseline review {clean(baseline)}")


def _approved(title: str, entries: Iterable[KnownTemplate], held: Baseline) -> None:
    listed = list(entries)
    if listed:
        click.echo(f"\n{title}:")
    for one in listed:
        click.echo(f"{_row(one, held)}\n         by {clean(one.by, 80)}: {clean(one.why, _WIDE)}")


@click.command()
@click.argument("first", metavar="A")
@click.argument("second", metavar="B")
@CATALOGUE
@_FORMAT
def diff(first: str, second: str, rules: str | None, fmt: str) -> None:
    """Show how baseline B differs from A: templates that are new, gone, expired, approved since,
    or on over 10% more or fewer nodes.

    \b
    muster baseline diff h100.yaml h100-new-kernel.yaml
    muster baseline diff old.yaml new.yaml --format json | jq '.differences[].template'

    Exit: 0 whether they differ or not, 2 usage or not a baseline.
    """
    from healthcheck.baseline import document
    from healthcheck.baseline.approval import short_id
    from healthcheck.baseline.difference import TemplateChange, differences
    from healthcheck.baseline.learn import current

    one, other = (current(loaded(path, rules)[0], today()) for path in (first, second))
    found = differences(one, other)
    if fmt == "json":
        click.echo(json.dumps(document.differences(found, one, other), indent=1))
        return
    if one.scope != other.scope:
        click.echo(f"scope: {document.scope(one.scope)} and {document.scope(other.scope)}")
    for change in TemplateChange:
        of = [each for each in found if each.change is change]
        if of:
            click.echo(f"{change.value}: {len(of)}")
        for each in of:
            shares = " -> ".join("-" if share is None else f"{share:.0%}" for share in each.shares)
            click.echo(f"  {short_id(each.template)}  {shares:<13}{clean(each.template, _WIDE)}")
    if not found:
        click.echo("no difference")
