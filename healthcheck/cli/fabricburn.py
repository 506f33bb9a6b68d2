"""`muster fabric burn`: which pairs of host ports load every link of the fabric, and what their rates say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.fabricfiles import joined_adapters
from healthcheck.cli.options import INVENTORY, RULES, STATE
from healthcheck.cli.textfiles import text_of
from inventory.cli.formatted import formats
from inventory.discover import from_names
from inventory.errors import UsageError
from inventory.load import usual_inventory
from inventory.locate import state_dir
from inventory.select import select

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence
    from typing import Any

    from healthcheck.subnet.burnplan import BurnPair
    from healthcheck.subnet.burnplanes import BurnPlane
    from inventory.model import Inventory


@click.command(short_help="Plan traffic that loads every link; judge the rates that were measured.")
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@click.option("--from", "source", metavar="DIR", required=True,
              help="Saved outputs of the fabric's tools; a folder in it for each plane.")
@click.option("--share", type=click.IntRange(1, 100), default=90, show_default=True,
              help="Percent of its rate to which each link is to be loaded, each way.")
@click.option("--adaptive", is_flag=True,
              help="Switches choose the way of each packet: expect an even spread, not the tables.")
@click.option("--results", metavar="FILE",
              help="Judge the rates in this CSV: round, a, b, gigabits each way; and seconds.")
@click.option("--since", metavar="DIR",
              help="Outputs from before the burn, which the plan is of; those in --from are from after it.")
@formats("csv", text="csv: a row for each pair, for a launch script; json: muster.fabric.burn/1.")
@INVENTORY
@RULES
@STATE
def burn(
    nodes: str | None, source: str, share: int, adaptive: bool, results: str | None, since: str | None,
    fmt: str, inventory: str | None, rules: str | None, state: str | None,
) -> int:
    """Plan rounds of pairs of NODES' adapters (default: the inventory's in service) that load every link.

    Changes nothing and sends nothing: run `ib_write_bw` for each pair of a round at the same time, one round
    after the other, on nodes without jobs. Ways are those of the switches' forwarding tables in --from DIR
    (dump_fts, dump_lfts, ibroute, saquery-lftr); with --adaptive they are what a model expects.

    \b
    muster fabric burn --from outputs
    muster fabric burn 'gpu[001-032]' --from outputs --share 80 --format csv > pairs.csv
    muster fabric burn --from outputs --results rates.csv
    muster fabric burn --from after --since outputs --results rates.csv

    With --results, pairs below the share of their rate are slow. A link is named where nothing else explains
    them as well; csv then has the pairs that would tell more.

    Exit: 0 every link is covered, 1 a link is slow, 2 usage or a file that cannot be read, 3 a link is not
    covered, or with --results not proven.
    """
    from healthcheck.subnet import burnpage, burnresultpage, burnresults
    from healthcheck.subnet.burnplanes import planes
    from healthcheck.sweep import fabricoutput

    chosen, known = _nodes(nodes, usual_inventory(inventory))
    if since is not None and results is None:
        raise UsageError("--since goes with --results FILE")
    folder = since if since is not None else source
    subnets = [subnet for output in fabricoutput.saved(Path(folder))
               if not (subnet := output.subnet()).ethernet]
    if not subnets:
        raise UsageError(f"{folder}: LLDP shows no routes, of which a burn is planned")
    try:
        made = planes(subnets, joined_adapters(subnets, known, state_dir(state), rules), chosen,
                      share / 100, adaptive)
    except ValueError as error:
        raise UsageError(f"{folder}: {error}") from None
    code = 3 if any(plane.plan.uncovered or not plane.plan.links for plane in made) else 0
    if results is None:
        _show(fmt, burnpage.document(made, share, code), burnpage.numbered(made), burnpage.lines(made))
        return code
    rows = burnresults.read(text_of("--results", results), results)
    after = ({output.name: output.subnet().counters for output in fabricoutput.saved(Path(source))}
             if since is not None else None)
    judged = burnresults.judge(made, rows, results, after)
    last = max([row.round for row in rows] + [number for _, number, _ in burnpage.numbered(made)], default=0)
    codes = {code, *(one.code for one in judged)}
    code = 1 if 1 in codes else max(codes)
    _show(fmt, burnpage.document(made, share, code, burnresultpage.document(judged, last)),
          burnresultpage.confirming(judged, last), burnresultpage.lines(judged, last))
    return code


def _show(fmt: str, document: Mapping[str, Any],
          rounds: Sequence[tuple[BurnPlane, int, Sequence[BurnPair]]], lines: Iterable[str]) -> None:
    from healthcheck.subnet import burnpage

    if fmt == "json":
        click.echo(json.dumps(document, indent=1))
    elif fmt == "csv":
        click.echo(burnpage.as_csv(rounds), nl=False)
    else:
        for line in lines:
            click.echo(line)


def _nodes(text: str | None, known: Inventory | None) -> tuple[Collection[str], Inventory]:
    """The names of the nodes that take part, and the inventory that knows them."""
    if known is None and text is None:
        raise UsageError("found no inventory: name nodes, or give --inventory FILE")
    among = known if known is not None else from_names(text or "")
    chosen = select(among, text)
    return {node.name for node in chosen if text is not None or node.in_service}, among
