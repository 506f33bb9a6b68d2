"""`muster images pull`: has nodes pull the wanted images."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

from healthcheck.cli import completing
from healthcheck.cli.options import STATE
from inventory.cli.confirm import YES_MANY, confirm
from inventory.cli.folded import echo_folded
from inventory.cli.formatted import as_json as format_option
from inventory.cli.span import span
from inventory.nodeset import fold
from provisioning.cli.imagescommon import choice_of, options, wanted_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from inventory.model import Node
    from provisioning.images.page import ImagesReport
    from provisioning.images.send import PullBounds, RuntimeChoice
    from provisioning.images.wanted import WantedImage

_SECONDS = 1800.0


@click.command()
@click.argument("nodes", shell_complete=completing.node_set)
@click.option("--in-place", metavar="N", type=click.IntRange(1, 1024), default=4, show_default=True,
              help="Nodes at a time of one rack, and of one leaf.")
@click.option("--image-timeout", metavar="SPAN", callback=span(1, 86400),
              help="Time limit for one image on one node. [30m]")
@click.option("--keep-free", metavar="PERCENT", type=click.IntRange(0, 90), default=10, show_default=True,
              help="So much of the disk with the runtime's images stays free; a pull that takes more is "
                   "ended.")
@click.option("--beside-jobs", is_flag=True, help="Pull also where a job or a test of muster runs.")
@click.option("--dry-run", is_flag=True, help="Show what would be pulled where; ask no node.")
@YES_MANY
@format_option("json: muster.images/1, as status prints it.")
@STATE
@options
def pull(
    nodes: str, in_place: int, image_timeout: float | None, keep_free: int, beside_jobs: bool, dry_run: bool,
    yes: bool, as_json: bool, state: str | None, references: tuple[str, ...], rules: str | None, runtime: str,
    address: str | None, namespace: str | None, become: bool, fanout: int, timeout: float | None,
    inventory: str | None,
) -> int:
    """Have NODES pull the wanted images that they lack, as root, each through its own runtime.

    A pull is by digest only, and counts once the runtime shows that digest afterwards. It goes through the
    mirrors and with the credentials of each node's runtime. Nodes with a job, and those that muster holds for
    a test, are left out. If the line to a node is lost, or the command is interrupted, the pull there is
    ended; type the same again to go on.

    \b
    muster images pull @rack7 --dry-run
    muster images pull @rack7 --image nvcr.io/nvidia/pytorch:24.10-py3@sha256:...
    muster images pull @train --in-place 8 --yes

    Exit: 0 all have all, 1 some lack one, 2 usage, 3 something is unknown, or was left out.
    """
    from provisioning.images.page import document, lines
    from provisioning.images.send import PullBounds

    choice = choice_of(runtime, address, namespace)
    chosen, wanted = wanted_of(nodes, references, rules, inventory, become=become)
    left = {} if beside_jobs else _in_use(chosen, inventory, state)
    asked = [node for node in chosen if node.name not in left]
    bounds = PullBounds(image_timeout or _SECONDS, keep_free, fanout, in_place)
    if dry_run:
        _show(asked, wanted, bounds, left)
        return 0
    confirm("pull images on", [node.name for node in asked], stops=False, yes=yes)
    report = _pulled(chosen, asked, wanted, choice, bounds, left, timeout)
    if as_json:
        click.echo(json.dumps(document(report)))
    else:
        for line in lines(report):
            click.echo(line)
    return report.code


def _in_use(chosen: Sequence[Node], inventory: str | None, state: str | None) -> dict[str, str]:
    from healthcheck.store.reading import reading
    from inventory.load import usual_inventory
    from inventory.locate import state_dir
    from provisioning.images.beside import in_use

    with reading(state_dir(state)) as store:
        return in_use(usual_inventory(inventory), chosen, store)


def _show(
    asked: Sequence[Node], wanted: Sequence[WantedImage], bounds: PullBounds, left: dict[str, str],
) -> None:
    for image in wanted:
        if names := [node.name for node in asked if image.of(node)]:
            click.echo(f"would pull {image.reference} where it is not there: {fold(names)}")
    if idle := [node.name for node in asked if not any(image.of(node) for image in wanted)]:
        click.echo(f"nothing wanted: {fold(idle)}")
    echo_folded((name, f"left out: {why}") for name, why in left.items())
    click.echo(f"at most {bounds.fanout} nodes at a time, {bounds.in_place} of a rack or leaf; no node was "
               "asked")


def _pulled(
    chosen: Sequence[Node], asked: Sequence[Node], wanted: tuple[WantedImage, ...], choice: RuntimeChoice,
    bounds: PullBounds, left: dict[str, str], timeout: float | None,
) -> ImagesReport:
    from inventory.transport.remote import RemoteTransport
    from provisioning.images.model import unknown
    from provisioning.images.page import ImagesReport
    from provisioning.images.progress import PullProgress
    from provisioning.images.send import pull as pull_on
    from provisioning.images.turns import PlaceTurns

    turns = PlaceTurns(asked, bounds.in_place)
    found = {node.name: unknown(node.name, [one.id for one in wanted if one.of(node)],
                                f"not asked: {left[node.name]}", left=left[node.name])
             for node in chosen if node.name in left}
    with PullProgress(len(asked), turns) as progress:
        for one in pull_on(asked, wanted, RemoteTransport(), choice, bounds=bounds, turns=turns,
                           seconds=timeout):
            found[one.node] = one
            progress.done(one)
    return ImagesReport(wanted, tuple(found[node.name] for node in chosen), time.time(), left)
