"""What the commands of `muster images` have in common: their options, and what is wanted of which nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import click

from inventory.cli.limits import FANOUT, LIMIT
from inventory.cli.span import span
from inventory.cli.stacked import stacked
from inventory.errors import UsageError

if TYPE_CHECKING:
    from inventory.model import Node
    from provisioning.images.send import RuntimeChoice
    from provisioning.images.wanted import WantedImage


options = stacked(      # which images, which runtime, and how nodes are reached
    click.option("--image", "references", metavar="NAME@DIGEST", multiple=True,
                 help="An image that the nodes are to have, in place of images.yaml; repeatable."),
    click.option("--rules", metavar="DIR",
                 help="A folder of site rules whose images.yaml says what is wanted."),
    click.option("--runtime", type=click.Choice(("auto", "docker", "containerd", "cri")), default="auto",
                 show_default=True, help="The runtime to ask; auto: the one that each node uses."),
    click.option("--address", metavar="PATH", help="The socket of the runtime's daemon. [the usual ones]"),
    click.option("--namespace", metavar="NAME",
                 help="containerd's namespace. [k8s.io where it is there, else default]"),
    click.option("--become", is_flag=True, help="Go through sudo, whatever the inventory says."),
    LIMIT, FANOUT,
    click.option("--timeout", metavar="SPAN", callback=span(1, 7 * 86400),
                 help="Time limit for the whole command. [by nodes and limits]"),
    click.option("--inventory", "-i", metavar="FILE", help="Default: as for muster check."))


def wanted_of(
    nodes: str | None, references: tuple[str, ...], rules: str | None, inventory: str | None, *, become: bool,
) -> tuple[list[Node], tuple[WantedImage, ...]]:
    """The nodes, and what is wanted of them; raises UsageError where nothing is said to be wanted."""
    from healthcheck.cli.check import choose
    from healthcheck.config.rulesfolder import folders
    from healthcheck.ruleset.ruleset import load_ruleset
    from inventory.model import LifecycleState, Privilege
    from provisioning.images.wanted import FILE, from_words, load

    places = folders(rules)
    wanted = from_words(references) if references else load(places)
    if not wanted:
        raise UsageError(f"no image is wanted: no {FILE} in a folder of rules has one (muster help images); "
                         "or name one with --image NAME@sha256:DIGEST")
    chosen: list[Node] = list(choose(nodes, inventory, False, False, load_ruleset(places)))
    if nodes is None:
        chosen = [one for one in chosen if one.lifecycle.state is not LifecycleState.RETIRED]
    if become:
        chosen = [one if one.become else replace(one, privilege=Privilege.BECOME) for one in chosen]
    return chosen, wanted


def choice_of(runtime: str, address: str | None, namespace: str | None) -> RuntimeChoice:
    """The runtime of the options; raises UsageError for an address without one, and for no path or name."""
    import re

    from inventory.text import short
    from provisioning.images.send import RuntimeChoice

    if address is not None and (not re.fullmatch(r"/[\x21-\x7e]{1,100}", address) or runtime == "auto"):
        raise UsageError(f"--address {short(address)}: expected the absolute path of a socket, with "
                         "--runtime docker, containerd or cri")
    if namespace is not None and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,75}", namespace):
        raise UsageError(f"--namespace {short(namespace)}: expected a name such as k8s.io or default")
    return RuntimeChoice(runtime, address or "", namespace or "")
