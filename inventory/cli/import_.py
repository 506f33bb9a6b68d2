"""`muster inventory import`: what Slurm, Ansible or a spreadsheet knows, merged into the inventory file."""

from __future__ import annotations

import os
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import click

from inventory.cli.propose import dry_run_option, propose, yes_option
from inventory.cli.show import _file, _known_skus
from inventory.cli.stacked import stacked
from inventory.errors import UsageError
from inventory.importers.base import MAX_BYTES, Imported, columns, decode, read
from inventory.inventoryfile import InventoryFile, write_new
from inventory.locate import needed_inventory
from inventory.merge import merge, new_file
from inventory.model import Node
from inventory.nodeset import did_you_mean
from inventory.text import short


@click.group(name="import", short_help="Take nodes from Slurm, Ansible or CSV.")
def import_() -> None:
    """Take nodes and groups from Slurm, Ansible or a CSV file.

    \b
    muster inventory import slurm -o muster.yaml
    muster inventory import ansible hosts.ini
    muster inventory import csv racks.csv --map 'Rack Position=rack'

    Existing values win: an import adds nodes and values that the file lacks, and reports each value that it
    left as it was ('kept: gpu007 rack r02, slurm says r03'). It does not remember earlier imports, so it
    cannot tell a value that you edited from one that the source changed; --overwrite KEY lets the source win
    for that key. Nodes that the source no longer has are reported, never removed. It shows the difference
    before it writes, and a second import changes nothing.
    """


_common = stacked(
    _file,
    click.option("--output", "-o", metavar="FILE", help="Write a new inventory instead."),
    click.option("--overwrite", metavar="KEY[,KEY]",
                 help="Keys for which the source wins, such as rack,labels.zone or groups."),
    click.option("--missing", type=click.Choice(("keep", "retired")), default="keep", show_default=True,
                 help="What to do with nodes that the source does not have."),
    yes_option, dry_run_option, click.pass_context)


@import_.command(short_help="From scontrol or sinfo, live or saved.")
@click.argument("source", required=False)
@_common
def slurm(ctx: click.Context, source: str | None, **options: Any) -> None:
    """Take the nodes that Slurm knows; partitions become groups.

    SOURCE is the output of `scontrol show node`, `scontrol show nodes --json` or `sinfo --json`; - is
    standard input. Without it, the controller is asked.

    \b
    muster inventory import slurm -o muster.yaml
    ssh login1 scontrol show node | muster inventory import slurm - --yes
    """
    from inventory.importers import slurm as importer

    if source is None:
        found = importer.live()
    elif source == "-":
        found = importer.parse(sys.stdin.buffer.read(MAX_BYTES + 1), "standard input")
    else:
        found = importer.parse(read(source), source)
    _take(ctx, found, **options)


@import_.command(short_help="From an inventory file or folder.")
@click.argument("source")
@_common
def ansible(ctx: click.Context, source: str, **options: Any) -> None:
    """Take the hosts and groups of an Ansible inventory: a file, a folder,
    or the output of `ansible-inventory --list`.

    Runs nothing: scripts, plug-ins, vaults and templates are ignored.

    \b
    muster inventory import ansible inventories/prod -o muster.yaml
    """
    from inventory.importers import ansible as importer

    _take(ctx, importer.load(Path(source)), **options)


@import_.command(short_help="From a table with a header line.")
@click.argument("source")
@click.option("--map", "pairs", multiple=True, metavar="HEADER=KEY",
              help="Which key a column is, such as 'Rack Position=rack' or 'Zone=labels.zone'; HEADER=- "
                   "leaves it out. Repeatable.")
@_common
def csv(ctx: click.Context, source: str, pairs: tuple[str, ...], **options: Any) -> None:
    """Take nodes from a CSV file: a line each, under a header line that names our keys or is mapped to them.

    \b
    muster inventory import csv racks.csv --map 'Rack Position=rack' --map 'Serial=labels.serial'
    """
    from inventory.importers import csv_ as importer

    mapping = columns(pairs)
    data = sys.stdin.buffer.read(MAX_BYTES + 1) if source == "-" else read(source)
    name = "standard input" if source == "-" else source
    _take(ctx, importer.parse(decode(data, name), name, mapping), **options)


def _take(
    ctx: click.Context, found: Imported, *, file: str | None, output: str | None, overwrite: str | None,
    missing: str, yes: bool, dry_run: bool,
) -> None:
    keys = _keys(overwrite)
    skus = _known_skus(ctx)
    if output is not None:
        if file is not None or keys or missing != "keep":
            raise UsageError(
                "--output writes a new file, so --inventory, --overwrite and --missing do not go with it")
        path = Path(output)
        if os.path.lexists(path):
            raise UsageError(f"{output}: exists already; import into it with --inventory {output}")
        made = new_file(found, output, skus)
        if propose(output, "", made.text, lambda: write_new(path, made.text), yes=yes, dry_run=dry_run,
                   remarks=made.remarks):
            click.echo(f"{output}: written")
        return
    place = needed_inventory(file, "no inventory found: make one with --output muster.yaml, or name one "
                             "with --inventory FILE")
    given = InventoryFile.read(place)
    merged = merge(given.text, str(place), found, overwrite=keys, retire=missing == "retired", skus=skus)
    if propose(str(place), given.text, merged.text, lambda: given.write(merged.text), yes=yes,
               dry_run=dry_run, remarks=merged.remarks):
        click.echo(f"{place}: written")


def _keys(overwrite: str | None) -> frozenset[str]:
    if overwrite is None:
        return frozenset()
    known = [*(field.name for field in fields(Node) if field.name != "name"), "groups"]
    keys = frozenset("privilege" if key == "become" else key for key in overwrite.split(","))
    for key in keys:
        if key not in known and not key.startswith(("labels.", "ports.")):
            raise UsageError(f"--overwrite names {short(key)}, which is not a key{did_you_mean(key, known)}")
    return keys
