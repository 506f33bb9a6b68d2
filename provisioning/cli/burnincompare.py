"""`muster burnin compare`: compares two burn-ins, before and after a change."""

from __future__ import annotations

import click

from inventory.cli.formatted import formats


@click.command(short_help="Compare two burn-ins, before and after a change.")
@click.argument("before", metavar="BEFORE")
@click.argument("after", metavar="AFTER")
@click.option("--least", metavar="SHARE", type=click.FloatRange(0, 0.5), default=0.01, show_default=True,
              help="The smallest change to report, as a share.")
@formats()
@click.option(
    "--state", metavar="DIR", help="Where documents are kept. Default: MUSTER_STATE, XDG, /var/lib/muster.")
def compare(before: str, after: str, least: float, fmt: str, state: str | None) -> int:
    """Compare two burn-ins of the same nodes, such as before and after a driver, firmware or kernel was
    changed.

    Every GPU, node, rail and pair is compared with itself, by figure, size and stage. A change is one when a
    99 % confidence interval of the median leaves out "no change" and it is at least --least; eight nodes or
    pairs are the fewest that can show one. It names what got slower than the others did, and what differs
    between the runs: versions, options, variables, and what NCCL chose at which size.

    \b
    muster burnin compare 20261122T031500Z-3fa9 20261123T021000Z-77b0
    muster burnin compare pilot-570.burnin.json pilot-575.burnin.json --least 0.02

    Exit: 0 nothing got slower by more than noise, 1 something did, 2 usage, 3 nothing could be compared.
    """
    import json

    from healthcheck.burnin.compare import compare as compared
    from healthcheck.burnin.comparepage import document, lines
    from healthcheck.burnin.document import chosen
    from healthcheck.burnin.documentread import load
    from inventory.locate import state_dir
    from inventory.nodeset import fold

    folder = state_dir(state)
    found = compared(load(chosen(before, folder)), load(chosen(after, folder)), least)
    if fmt == "json":
        click.echo(json.dumps(document(found), ensure_ascii=False))
    else:
        for line in lines(found, fold):
            click.echo(line)
    return 1 if found.slower else 0 if found.comparable else 3
