"""`muster images status`: which nodes have the wanted images."""

from __future__ import annotations

import json
import time

import click

from healthcheck.cli import completing
from inventory.cli.formatted import as_json as format_option
from provisioning.cli.imagescommon import choice_of, options, wanted_of


@click.command()
@click.argument("nodes", required=False, shell_complete=completing.node_set)
@format_option("json: muster.images/1.")
@options
def status(
    nodes: str | None, as_json: bool, references: tuple[str, ...], rules: str | None, runtime: str,
    address: str | None, namespace: str | None, become: bool, fanout: int, timeout: float | None,
    inventory: str | None,
) -> int:
    """Show on which of NODES (default: all but retired ones) the wanted images are, by digest.

    Each node's runtime is asked now. An image whose digest is not there is absent, or has another digest
    under its tag. A node whose runtime cannot be read is unknown. Nothing changes.

    \b
    muster images status
    muster images status @rack7 --image nvcr.io/nvidia/pytorch:24.10-py3@sha256:...
    muster images status --format json | jq '.groups[] | select(.state != "present")'

    Exit: 0 all have all, 1 some lack one, 2 usage, 3 something is unknown, or nothing is wanted.
    """
    from healthcheck.report.progress import progress
    from inventory.transport.remote import RemoteTransport
    from provisioning.images.model import ImageState
    from provisioning.images.page import ImagesReport, document, lines
    from provisioning.images.send import look

    choice = choice_of(runtime, address, namespace)
    chosen, wanted = wanted_of(nodes, references, rules, inventory, become=become)
    found = {}
    with progress(len(chosen), "images") as bar:
        for one in look(chosen, wanted, RemoteTransport(), choice, fanout=fanout, seconds=timeout):
            found[one.node] = one
            bar.done(one.node, one.state is not ImageState.UNKNOWN)
    report = ImagesReport(wanted, tuple(found[node.name] for node in chosen), time.time())
    if as_json:
        click.echo(json.dumps(document(report)))
    else:
        for line in lines(report):
            click.echo(line)
    return report.code
