"""`muster silence` and `muster unsilence`: what triage must ignore, on which nodes, until when, and why."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Collection
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli import completing, formerids
from healthcheck.cli.options import GROUPS, RULES, STATE
from healthcheck.config.entry import nearest
from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from healthcheck.store.history import problems
from healthcheck.store.reading import reading
from inventory.cli.chosen import chosen, who
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.formatted import formats
from inventory.cli.span import span
from inventory.discover import from_names
from inventory.errors import MusterError, UsageError
from inventory.locate import state_dir
from inventory.nodeset import fold
from inventory.text import clean, many, short
from inventory.times import minute

if TYPE_CHECKING:
    from healthcheck.store.silences import Silence

_LONGEST_S = 90 * 86400
_ENDED_SHOWN_S = 7 * 86400


def _date(ctx: click.Context, param: click.Parameter, given: str | None) -> float | None:
    """For an option: a day, to its end, or a minute; in UTC."""
    if given is None:
        return None
    for fmt, more in (("%Y-%m-%d", dt.timedelta(days=1)), ("%Y-%m-%dT%H:%MZ", dt.timedelta())):
        try:
            return (dt.datetime.strptime(given, fmt).replace(tzinfo=dt.timezone.utc) + more).timestamp()
        except (ValueError, OverflowError):
            continue
    raise click.BadParameter(
        f"{given!r} is not a date, expected one such as 2026-12-01 or 2026-12-01T08:00Z (UTC)", ctx, param)


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.argument("rule", required=False, shell_complete=completing.rule)
@click.option("--reason", metavar="TEXT", help="The reason; kept in the ledger.")
@click.option("--for", "length", metavar="SPAN", callback=span(60, _LONGEST_S),
              help="How long: 12h, 2d, at most 90d.")
@click.option("--until", metavar="DATE", callback=_date,
              help="Or the end, in UTC: 2026-12-01 (to its end) or 2026-12-01T08:00Z.")
@click.option("--all-rules", is_flag=True, help="With RULE '*': any problem, and an unreachable node.")
@click.option("--all", "every", is_flag=True, help="List also what ended more than 7 days ago.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES_MANY
@RULES
@GROUPS
@STATE
@formats()
def silence(
    nodes: str | None, rule: str | None, reason: str | None, length: float | None, until: float | None,
    all_rules: bool, every: bool, dry_run: bool, yes: bool, rules: str | None, inventory: str | None,
    state: str | None, fmt: str,
) -> None:
    """Have triage ignore what RULE (a glob) finds on NODES, for some time. Without NODES: list silences, what
    each holds back, which end soon, and which ended lately.

    `muster check` still reports it, with the same exit code. Triage isolates no node for it, and lists it. A
    node that we hold stays held, though only silenced problems are left: a person gives it back (muster
    uncordon).

    \b
    muster silence gpu007 'port-*' --reason 'cable on order' --for 5d
    muster silence '@rack7' bmc-fan --reason 'fans are replaced on Friday' --until 2026-12-04
    muster silence gpu007 '*' --all-rules --reason 'in the lab' --for 12h
    muster silence
    """
    from healthcheck.report import silences as report
    from healthcheck.store import silences

    now = time.time()
    if nodes is None or (nodes == "list" and rule is None):
        if reason is not None or length is not None or until is not None or all_rules:
            raise UsageError("NODES and RULE are missing: muster silence gpu007 'port-*' --reason 'cable on "
                             "order' --for 5d")
        _list(state, fmt, now, every=every)
        return
    if every:
        raise UsageError("--all goes with a list: leave out NODES, or see --all-rules")
    if rule is None:
        raise UsageError(
            f"RULE is missing: muster silence {nodes} 'port-*' --reason 'cable on order' --for 5d")
    if reason is None or not reason.strip():
        raise UsageError("--reason is missing: say why, for the ledger")
    end = _end(length, until, now)
    globs = _known(rule, all_rules, rules)
    names, _ = chosen(nodes, inventory)
    if dry_run:
        click.echo(f"would silence {', '.join(globs)} on {fold(names)} until {minute(end)}")
        return
    confirm(f"silence {', '.join(globs)} on", names, stops=False, yes=yes)
    with opened(state_dir(state), make=True) as store:
        made = [silences.silence(store, names, glob, clean(reason.strip()), who(), now, end)
                for glob in globs]
        held = frozenset(one.node for one in open_cordons(store, names))
    if fmt == "json":
        document = _document([report.json_of(one, now, None, held) for one in made], [])
        click.echo(json.dumps(document, indent=1))
        return
    for one in made:
        click.echo(report.line(one, now, None, held))


@click.command()
@click.argument("what", metavar="ID|NODES", shell_complete=completing.node_set)
@click.argument("rule", required=False, shell_complete=completing.rule)
@click.option("--reason", metavar="TEXT", default="by hand", show_default=True, help="For the ledger.")
@click.option("--dry-run", is_flag=True, help="Show what would be done and change nothing.")
@YES_MANY
@GROUPS
@STATE
def unsilence(
    what: str, rule: str | None, reason: str, dry_run: bool, yes: bool, inventory: str | None,
    state: str | None,
) -> None:
    """End silence ID; or remove NODES from all silences, or from those for exactly RULE.
    `muster silence` lists them.

    \b
    muster unsilence 3
    muster unsilence gpu007
    muster unsilence 'gpu[001-004]' 'port-*'
    """
    from healthcheck.store import silences

    number = int(what) if what.isascii() and what.isdigit() and len(what) < 10 else None
    if number is not None and rule is not None:
        raise UsageError(f"silence {number} already names its rule: leave {short(rule)} out")
    now = time.time()
    asked = formerids.with_packaged([rule] if rule is not None else ())
    with opened(state_dir(state)) as store:
        held = [one for one in silences.since(store, now) if one.over > now]
        names = _names(what, inventory, held) if number is None else ()
        selected = [one for one in held
                    if (one.id == number if number is not None else not one.nodes.isdisjoint(names))]
        of_rule = [one for one in selected if rule is None or one.rule in asked]
        if not of_rule:
            there = (f"; there is {selected[0].id}, for {short(selected[0].rule)}" if selected
                     else "; see: muster silence")
            raise UsageError(f"{what}: no silence" + (f" for {short(rule)}" if rule is not None else "")
                             + f" is active{there}")
        if dry_run:
            for one in of_rule:
                ending = one.nodes if number is not None else one.nodes & frozenset(names)
                click.echo(f"silence {one.id} ({clean(one.rule)}): would end for {fold(ending)}")
            return
        confirm("unsilence", sorted(names), stops=False, yes=yes)
        for one in of_rule:
            left = silences.unsilence(store, one.id, None if number is not None else names,
                                      clean(reason.strip()), who(), now)
            click.echo(f"silence {one.id} ({clean(one.rule)}): "
                       + ("had ended already" if left is None else "has ended" if left.ended is not None
                          else f"continues for {fold(left.nodes)}"))
        others = silences.active(store, now)
        again = [problem for problem in problems(store, None, now, still=True)
                 if silences.silenced(problem, of_rule, now) is not None
                 and silences.silenced(problem, others, now) is None]
    if again:
        click.echo(f"{many(len(again), 'problem')} on {fold({one.node for one in again})} "
                   f"count{'s' * (len(again) == 1)} again; next: muster triage")


def _names(what: str, inventory: str | None, held: Collection[Silence]) -> Collection[str]:
    """The nodes that are meant; one that is silenced may be in no inventory any more."""
    silenced = {name for one in held for name in one.nodes}
    try:
        return chosen(what, inventory)[0]
    except MusterError:
        with suppress(MusterError):
            typed = {node.name for node in from_names(what)}
            if typed <= silenced:
                return typed
        raise


def _end(length: float | None, until: float | None, now: float) -> float:
    if (length is None) == (until is None):
        raise UsageError("expected either --for 2d or --until 2026-12-01: a silence must end")
    end = now + length if length is not None else until or 0.0
    if not now < end <= now + _LONGEST_S:
        raise UsageError(f"--until {minute(end)}: expected a time from now to in 90 days")
    return end


def _known(rule: str, all_rules: bool, folder: str | None) -> tuple[str, ...]:
    """The glob in current rule ids, which may be several. Raises UsageError for a glob without a rule, which
    would silence nothing, and for one of all rules without --all-rules."""
    from healthcheck.ruleset.ruleset import ruleset_of
    from healthcheck.store import fabricfindings, watched
    from healthcheck.store.accused import RULES

    ruleset = ruleset_of(folder)
    known = [*(each.id for each in ruleset.rules), *RULES, *watched.RULES, *fabricfindings.RULES]
    globs = formerids.expanded([rule], ruleset.former)
    matched = [each for each in known if any(fnmatchcase(each, glob) for glob in globs)]
    if not matched:
        raise UsageError(f"no rule matches {short(rule)}{nearest(rule, known)}; `muster explain` lists them")
    if (len(matched) == len(known)) != all_rules:
        raise UsageError(f"{short(rule)} is all {len(known)} rules; to silence all, add --all-rules"
                         if not all_rules else f"--all-rules goes with RULE '*', not with {short(rule)}, "
                                               f"which is {len(matched)} of {len(known)} rules")
    return tuple(glob for glob in globs if any(fnmatchcase(each, glob) for each in known))


def _list(state: str | None, fmt: str, now: float, *, every: bool) -> None:
    from healthcheck.report import silences as report
    from healthcheck.store import silences

    with reading(state_dir(state)) as store:
        found = silences.since(store, 0 if every else now - _ENDED_SHOWN_S) if store is not None else []
        current = [one for one in found if one.over > now]
        ended = [(one, silences.ended_by(store, one)) for one in found if one.over <= now] if store else []
        there = problems(store, None, now, still=True) if store is not None and current else []
        held = frozenset(one.node for one in open_cordons(store)) if store is not None else frozenset()
    if fmt == "json":
        click.echo(json.dumps(_document([report.json_of(one, now, there, held) for one in current],
                                        [report.json_of(one, now, None, (), by) for one, by in ended]),
                              indent=1))
        return
    for one in current:
        click.echo(report.line(one, now, there, held))
    if not current:
        click.echo("no silences" if not ended else "no silences; ended:")
    for one, by in ended:
        click.echo(report.ended_line(one, now, by))


def _document(current: list[dict[str, Any]], ended: list[dict[str, Any]]) -> dict[str, Any]:
    return {"schema": "muster.silences/1", "silences": current, "ended": ended}
