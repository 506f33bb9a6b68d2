"""`muster history`: what was wrong with nodes, and since when."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterable, Mapping
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing, formerids
from healthcheck.cli.historypart import print_part
from healthcheck.cli.historysummary import BY, print_summary
from healthcheck.cli.options import STATE
from healthcheck.cli.wrapping import echo
from healthcheck.store.clock import head_clock
from healthcheck.store.file import opened
from inventory.cli.formatted import formats
from inventory.cli.number import FiniteNumber
from inventory.cli.span import span
from inventory.errors import UsageError
from inventory.locate import state_dir
from inventory.nodeset import expand
from inventory.text import clean
from inventory.times import minute

if TYPE_CHECKING:
    from healthcheck.model.problem import Problem
    from healthcheck.store.file import Store
    from healthcheck.store.history import ComponentLocation, Spell
    from healthcheck.triage.past import VersionChange

_DAY = 86400.0
_LINES_AT_ONCE = 5000


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--since", metavar="SPAN", callback=span(60, 3650 * 86400),
              help="How far back: 24h, 30d.  [default: 30d; 90d with --summary]")
@click.option("--rule", metavar="GLOB", multiple=True, shell_complete=completing.rule,
              help="Only problems of rules whose id matches; repeatable.")
@click.option("--still", is_flag=True, help="Only open problems.")
@click.option("--components", is_flag=True, help="List where components with serial numbers were, instead.")
@click.option("--serial", metavar="NUMBER",
              help="Where the part with this serial number sits and has sat, and its returns, instead.")
@click.option("--changes", "changed", is_flag=True,
              help="List changes of rules, SKUs, policy and muster, instead.")
@click.option("--summary", "summed", is_flag=True, help="A summary: rates, times, repeat offenders.")
@click.option("--by", type=click.Choice(BY),
              help="With --summary: group by this.  [default: by cause, and by component]")
@click.option("--job-nodes", metavar="N", type=click.IntRange(1, 1_000_000),
              help="With --summary: expected interruptions a day of a job of so many nodes.")
@click.option("--checkpoint-seconds", metavar="S", type=FiniteNumber(0.001, 86400),
              help="With --job-nodes: what one checkpoint costs; gives the interval between them.")
@formats("jsonl", "csv", text="json and csv are for the summary, jsonl is for all else.")
@click.option("--rules", metavar="DIR",
              help="With --summary: a folder of site rules and policy, which define a failure.")
@click.option("--inventory", "-i", metavar="FILE",
              help="With --summary: for the nodes in service. Default: as for muster check.")
@STATE
def history(
    nodes: str | None, since: float | None, rule: tuple[str, ...], still: bool, components: bool,
    serial: str | None, changed: bool, summed: bool, by: str | None, job_nodes: int | None,
    checkpoint_seconds: float | None, fmt: str, rules: str | None, inventory: str | None, state: str | None,
) -> None:
    """Show what was wrong with nodes and since when, from the sweeps stored by `muster check --store`.

    \b
    muster history gpu007
    muster history 'gpu[001-064]' --since 7d --rule 'gpu-*'
    muster history --still --format jsonl | jq .rule
    muster history gpu007 --components           a swapped GPU keeps its history
    muster history --serial 1650821647377        one part: its places and its returns to the vendor
    muster history --changes --since 7d          what nodes were judged by, and from when
    muster history --summary --since 90d         failures per 100 nodes and week, times, repeat offenders
    muster history --summary --by rack --format csv > racks.csv
    muster history --summary --job-nodes 512 --checkpoint-seconds 30
    """
    if summed:
        if (nodes is not None or rule or still or components or changed or serial is not None
                or fmt == "jsonl"):
            raise UsageError("--summary covers the whole fleet: it goes only with --since, --by, "
                             "--job-nodes, --checkpoint-seconds, --format json or csv, --rules, -i and "
                             "--state")
        if checkpoint_seconds is not None and job_nodes is None:
            raise UsageError("--checkpoint-seconds goes with --job-nodes")
        if job_nodes is not None and fmt == "csv":
            raise UsageError("--job-nodes goes with --format table or json: a forecast is no row of a table")
        print_summary(by, fmt, since if since is not None else 90 * _DAY, rules, inventory, state, job_nodes,
                      checkpoint_seconds)
        return
    if (by is not None or rules is not None or inventory is not None or job_nodes is not None
            or checkpoint_seconds is not None or fmt in ("json", "csv")):
        raise UsageError("--by, --job-nodes, --checkpoint-seconds, --rules, -i, and the formats json and csv "
                         "are for muster history --summary")
    from healthcheck.store import history as past

    if serial is not None and (nodes is not None or rule or still or components or changed
                               or since is not None):
        raise UsageError("--serial is about one part, wherever it was: it goes only with --format jsonl and "
                         "--state")
    if serial is not None:
        with opened(state_dir(state)) as store:
            print_part(store, clean(serial.strip()), fmt)
        return
    if changed and (nodes is not None or still or components):
        raise UsageError("--changes are of what all nodes are judged by: leave out NODES, --still and "
                         "--components")
    rule = formerids.with_packaged(rule)
    chosen = expand(nodes) if nodes is not None else None
    start = time.time() - (since if since is not None else 30 * _DAY)
    with opened(state_dir(state)) as store:
        if chosen is not None and (strange := sorted(set(chosen) - set(past.known_nodes(store)))):
            raise UsageError(f"{strange[0]}: no stored sweep has seen this node")
        if components:
            _print_seats(past.each_seat(store, chosen, start), fmt)
            return
        changes = [] if still else _changes(store, start, rule)
        if changed:
            _print_changes(changes, fmt)
            return
        found = [problem for problem in (*past.problems(store, chosen, start, still=still),
                                         *_of_subnets(store, chosen, start, still=still))
                 if not rule or any(fnmatchcase(problem.rule, glob) for glob in rule)]
        newest = {node: spell for node, spell in past.newest_spells(store).items()
                  if spell.ended is None or spell.ended >= start}
        if said := head_clock(store, time.time()):
            click.echo(f"note: {said}", err=True)
    if fmt == "jsonl":
        for problem in found:
            click.echo(json.dumps({"schema": "muster.problem/1", **vars(problem)}))
        return
    from healthcheck.triage.changed import lines

    for line in lines(changes):
        echo(clean(line, 600))
    _print(found, newest)


def _of_subnets(
    store: Store, chosen: Collection[str] | None, since: float, *, still: bool,
) -> list[Problem]:
    """What checks of the fabric found at ports and links of these nodes, by node and time."""
    from healthcheck.store.fabricfindings import between, problems

    found = [one for one in between(store, since, time.time()) if one.ended is None or not still]
    return sorted((one for one in problems(found) if chosen is None or one.node in chosen),
                  key=lambda one: (one.node, one.began))


def _changes(store: Store, since: float, rule: tuple[str, ...]) -> list[VersionChange]:
    """What nodes are judged by and is since then not what it was; of rules those that match."""
    from healthcheck.store.versions import OF_NODES
    from healthcheck.triage.gather import every_change

    return [one for one in every_change(store, since, time.time()) if one.kind not in OF_NODES
            and (one.kind != "rule" or not rule or any(fnmatchcase(one.name, glob) for glob in rule))]


def _print_changes(changes: list[VersionChange], fmt: str) -> None:
    from healthcheck.triage.changed import batches, change_document, words

    for began, each in batches(changes):
        for one in each:
            if fmt == "jsonl":
                click.echo(json.dumps({"schema": "muster.change/1", **change_document(one)}))
            else:
                click.echo(f"{minute(began)}  {clean(words(one), 600)}")
    if not changes and fmt != "jsonl":
        echo("nothing that nodes are judged by has changed in that time")


def _print(found: list[Problem], newest: Mapping[str, Spell]) -> None:
    by_node: dict[str, list[Problem]] = {}
    for problem in found:
        by_node.setdefault(problem.node, []).append(problem)
    for node, problems in by_node.items():
        spell = newest.get(node)
        echo(f"{node}  {spell.state} since {minute(spell.began)}" if spell is not None else node)
        lines: dict[tuple[str, str], list[str]] = {}
        for problem in problems:
            span_ = (f"{minute(problem.began)} .. "
                     f"{minute(problem.ended) if problem.ended is not None else 'now':<17}")
            serial = f"  [{problem.kind} {problem.serial}]" if problem.serial else ""
            what = (f"{problem.subject}: {problem.observed}, expected {problem.expected}"
                    if problem.status == "fail" else problem.reason)
            lines.setdefault((f"{span_}  {problem.status.upper():<7}", f"{what}{serial}"),
                             []).append(problem.rule or "not reached")
        for (head, what), rules in lines.items():
            # One failed tool makes many rules UNKNOWN.
            named = (rules[0] if len(rules) == 1
                     else f"{len(rules)} rules ({', '.join(rules[:3])}{', ...' if len(rules) > 3 else ''})")
            echo(f"  {head}  {named}  {what}")
    if not by_node:
        echo("no problems")


def _print_seats(found: Iterable[ComponentLocation], fmt: str) -> None:
    """A line each, many at once: a fleet has some hundred thousand."""
    lines = map(_seat_json if fmt == "jsonl" else _seat_line, found)
    none = True
    while some := list(islice(lines, _LINES_AT_ONCE)):
        click.echo("\n".join(some))
        none = False
    if none and fmt != "jsonl":
        echo("no components with serial numbers")


def _seat_json(seat: ComponentLocation) -> str:
    return json.dumps({"schema": "muster.seat/1", **vars(seat)})


def _seat_line(seat: ComponentLocation) -> str:
    until = _minute(seat.ended) if seat.ended is not None else "now"
    return f"{seat.node}  {seat.slot:<14}  {seat.kind:<5} {seat.serial:<20}  {_minute(seat.began)} .. {until}"


# One sweep finds the parts of a whole fleet at one time.
_minute = lru_cache(maxsize=1024)(minute)
