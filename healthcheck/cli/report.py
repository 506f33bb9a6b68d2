"""`muster report`: the fleet's status as one HTML page, or as its JSON document."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from shutil import get_terminal_size

import click

from healthcheck.cli.options import POLICY, STATE
from healthcheck.config.files import write_named
from healthcheck.store.file import opened
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.load import usual_inventory
from inventory.locate import state_dir


@click.command()
@click.option("--html", "html", metavar="FILE", help="Write the page to FILE; - prints it.")
@formats(text="Without --html: the three answers as text, or the page's document.")
@POLICY
@click.option("--inventory", "-i", metavar="FILE",
              help="Default: as for muster check; without one, the nodes in the store.")
@STATE
def report(html: str | None, fmt: str, rules: str | None, inventory: str | None, state: str | None) -> int:
    """Show whether a job can start, what changed in 24 hours and whose turn it is;
    with --html as one page with the whole fleet.

    The page is one file without external parts: open it in a browser, mail it, or print it. It holds
    incidents, each node with its findings, history and next command, the newest burn-in, and what is new in
    kernel logs. All data is from the store of `muster check --store`; no node and no scheduler is asked. The
    exporter serves the same page at /.

    \b
    muster report
    muster report --html status.html
    muster report --format json | jq '.work[] | {owner, nodes}'

    Exit: 0 printed or written, 2 usage.
    """
    from healthcheck.statuspage.gather import document
    from healthcheck.statuspage.html import page
    from healthcheck.statuspage.text import lines, wrapped

    if html is not None and fmt != "table":
        raise UsageError("--html has a format of its own; give it or --format")
    there, folder = usual_inventory(inventory), state_dir(state)
    with opened(folder) as store:
        found = document(store, there, folder, time.time(), rules=rules)
    if html is None:
        # Who reads from a pipe wants whole lines.
        text = wrapped(lines(found), get_terminal_size().columns) if sys.stdout.isatty() else lines(found)
        click.echo(json.dumps(found, indent=1) if fmt == "json" else "\n".join(text))
        return 0
    made = page(found)
    if html == "-":
        click.echo(made.data.decode(), nl=False)
        return 0
    write_named(Path(html), made.data, f"--html {html}", 0o644)
    click.echo(f"{html}: {len(found['nodes'])} nodes, {len(made.data):,} bytes")
    return 0
