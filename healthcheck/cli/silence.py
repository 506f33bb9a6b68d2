"""`muster silence` and `muster unsilence`: what triage is not to act on, on which nodes, until when, and why."""

from __future__ import annotations

import datetime as dt
import json
import time
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

import click

from inventory.cli.chosen import chosen, who
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.text import clean, short

if TYPE_CHECKING:
    from healthcheck.store.silences import Silence

_LONGEST_S = 90 * 86400
_STATE = click.option("--state", metavar="DIR", help="Where the store is. Default: MUSTER_STATE, XDG, /var/lib/muster.")
_INVENTORY = click.option("--inventory", "-i", metavar="FILE", help="For groups in NODES. Default: as for muster check.")


def _date(ctx: click.Context, param: click.Parameter, given: str | None) -> float | None:
    """For an option: a day, which is meant with all of it, or a minute; in UTC."""
    if given is None:
        return None
    for form, more in (("%Y-%m-%d", dt.timedelta(days=1)), ("%Y-%m-%dT%H:%MZ", dt.timedelta())):
        try:
            return (dt.datetime.strptime(given, form).replace(tzinfo=dt.timezone.utc) + more).timestamp()
        except (ValueError, OverflowError):
            continue
    raise click.BadParameter(f"{given!r} is no date, expected one such as 2026-12-01 or 2026-12-01T08:00Z (UTC)", ctx, param)


@click.command()
@click.argument("nodes", required=False)
@click.argument("rule", required=False)
@click.option("--reason", metavar="TEXT", help="Why, for whoever wonders.")
@click.option("--for", "length", metavar="SPAN", callback=span(60, _LONGEST_S), help="How long: 12h, 2d, at most 90d.")
@click.option("--until", metavar="DATE", callback=_date, help="Or until when, in UTC: 2026-12-01 (to its end) or 2026-12-01T08:00Z.")
@click.option("--all-rules", is_flag=True, help="With RULE '*': whatever is wrong there, and that a node is not reached.")
@click.option("--rules", metavar="DIR", help="A folder of site rules and SKUs that override the packaged ones by id.")
@_INVENTORY
@_STATE
@click.option("--format", "form", type=click.Choice(("table", "json")), default="table", show_default=True)
def silence(
    nodes: str | None, rule: str | None, reason: str | None, length: float | None, until: float | None, all_rules: bool,
    rules: str | None, inventory: str | None, state: str | None, form: str,
) -> None:
    """Have triage leave alone what RULE (a glob) finds on NODES, for some time. Without NODES: list what is silenced.

    What `muster check` finds, and how it exits, stays the same; triage does nothing about it, and says how many problems that are.

    \b
    muster silence gpu007 'port-*' --reason 'cable on order' --for 5d
    muster silence '@rack7' bmc-fan --reason 'fans are replaced on Friday' --until 2026-12-04
    muster silence gpu007 '*' --all-rules --reason 'in the lab' --for 12h
    muster silence
    """
    from healthcheck.store import silences
    from healthcheck.store.file import opened
    from inventory.locate import state_dir

    now = time.time()
    if nodes is None:
        if reason is not None or length is not None or until is not None or all_rules:
            raise UsageError("NODES and RULE are missing: muster silence gpu007 'port-*' --reason 'cable on order' --for 5d")
        _list(state, form, now)
        return
    if rule is None:
        raise UsageError(f"RULE is missing: muster silence {nodes} 'port-*' --reason 'cable on order' --for 5d")
    if reason is None or not reason.strip():
        raise UsageError("--reason is missing: whoever wonders why nothing is done wants to know")
    end = _end(length, until, now)
    globs = _known(rule, all_rules, rules)
    names, _ = chosen(nodes, inventory)
    with opened(state_dir(state), make=True) as store:
        made = [silences.silence(store, names, glob, clean(reason.strip()), who(), now, end) for glob in globs]
    _tell(made, {}, form, now)


@click.command()
@click.argument("what", metavar="ID|NODES")
@click.argument("rule", required=False)
@click.option("--reason", metavar="TEXT", default="by hand", show_default=True, help="For the ledger.")
@_INVENTORY
@_STATE
def unsilence(what: str, rule: str | None, reason: str, inventory: str | None, state: str | None) -> None:
    """End silence ID; or take NODES out of all silences, or of those for exactly RULE. `muster silence` lists them.

    \b
    muster unsilence 3
    muster unsilence gpu007
    muster unsilence 'gpu[001-004]' 'port-*'
    """
    from healthcheck.store import silences
    from healthcheck.store.file import opened
    from inventory.locate import state_dir

    number = int(what) if what.isascii() and what.isdigit() and len(what) < 10 else None
    if number is not None and rule is not None:
        raise UsageError(f"silence {number} has a rule already: leave {short(rule)} out")
    names = chosen(what, inventory)[0] if number is None else ()
    now = time.time()
    asked = _asked(rule)
    with opened(state_dir(state)) as store:
        held = silences.active(store, now)
        meant = [one for one in held if (one.id == number if number is not None else not one.nodes.isdisjoint(names))]
        of_rule = [one for one in meant if rule is None or one.rule in asked]
        if not of_rule:
            there = f"; there is {meant[0].id}, for {short(meant[0].rule)}" if meant else "; see: muster silence"
            raise UsageError(f"{what}: no silence" + (f" for {short(rule)}" if rule is not None else "") + f" holds{there}")
        for one in of_rule:
            left = silences.unsilence(store, one.id, None if number is not None else names, clean(reason.strip()), who(), now)
            click.echo(f"silence {one.id} ({clean(one.rule)}): " + (
                "had ended already" if left is None else "is over" if left.ended is not None else f"goes on for {_fold(left)}"))


def _asked(rule: str | None) -> tuple[str, ...]:
    """The rule as it may stand in a silence: as it was typed, or in the names that rules have now."""
    if rule is None:
        return ()
    from healthcheck.cli import formerly
    from healthcheck.config import rulesfolder
    from healthcheck.ruleset.ruleset import load_ruleset

    return formerly.expanded([rule], load_ruleset(rulesfolder.folders(None)).former)


def _end(length: float | None, until: float | None, now: float) -> float:
    if (length is None) == (until is None):
        raise UsageError("how long: expected --for 2d or --until 2026-12-01, and not both: no silence is for ever")
    end = now + length if length is not None else until or 0.0
    if not now < end <= now + _LONGEST_S:
        raise UsageError(f"--until {_when(end)}: expected a time from now on and within 90 days")
    return end


def _known(rule: str, all_rules: bool, folder: str | None) -> tuple[str, ...]:
    """The glob in the names that rules have now, which may be several. Raises UsageError for a glob of no rule, which would silence
    nothing, and for one of all rules that is not meant to be."""
    from healthcheck.cli import formerly
    from healthcheck.config import rulesfolder
    from healthcheck.config.entry import nearest
    from healthcheck.ruleset.ruleset import load_ruleset
    from healthcheck.store.accused import RULES

    ruleset = load_ruleset(rulesfolder.folders(folder))
    known = [*(each.id for each in ruleset.rules), *RULES]
    globs = formerly.expanded([rule], ruleset.former)
    matched = [each for each in known if any(fnmatchcase(each, glob) for glob in globs)]
    if not matched:
        raise UsageError(f"no rule matches {short(rule)}{nearest(rule, known)}; `muster explain` lists them")
    if (len(matched) == len(known)) != all_rules:
        raise UsageError(f"{short(rule)} is all {len(known)} rules; if so it is meant, add --all-rules" if not all_rules else
                         f"--all-rules goes with RULE '*', not with {short(rule)}, which is {len(matched)} of {len(known)} rules")
    return tuple(glob for glob in globs if any(fnmatchcase(each, glob) for each in known))


def _list(state: str | None, form: str, now: float) -> None:
    from healthcheck.store import silences
    from healthcheck.store.file import opened
    from healthcheck.store.history import problems
    from inventory.locate import state_dir

    with opened(state_dir(state), make=True) as store:
        found = silences.active(store, now)
        open_ = problems(store, None, now, still=True) if found else []
    _tell(found, {one.id: sum(map(one.covers, open_)) for one in found}, form, now)


def _tell(found: list[Silence], covers: dict[int, int], form: str, now: float) -> None:
    if form == "json":
        told = [{**vars(one), "nodes": sorted(one.nodes), "problems": covers.get(one.id)} for one in found]
        click.echo(json.dumps({"schema": "muster.silences/1", "silences": told}, indent=1))
        return
    for one in found:
        count = f"  {covers[one.id]} problem{'s' * (covers[one.id] != 1)} now" if one.id in covers else ""
        click.echo(f"silence {one.id}: {clean(one.rule)} on {_fold(one)}  until {_when(one.until)} ({_left(one.until - now)}){count}  "
                   f"{clean(one.who)}  {clean(one.why)}")
    if not found:
        click.echo("nothing is silenced")


def _fold(one: Silence) -> str:
    from inventory.nodeset import fold

    return fold(one.nodes)


def _left(seconds: float) -> str:
    """How long that is, in its two largest units."""
    minutes = round(seconds / 60)
    days, hours = divmod(minutes // 60, 24)
    return f"{days}d {hours}h" if days else f"{hours}h {minutes % 60}m" if hours else f"{minutes}m"


def _when(seconds: float) -> str:
    return dt.datetime.fromtimestamp(seconds, dt.timezone.utc).strftime("%Y-%m-%dT%H:%MZ")
