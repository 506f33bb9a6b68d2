"""`muster images`: container images by digest over a fleet."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "status": ("provisioning.cli.imagesstatus:status",
               "Show which nodes have the wanted container images, by digest."),
    "pull": ("provisioning.cli.imagespull:pull",
             "Have nodes pull the wanted container images, by digest.")}


@click.group(cls=LazyGroup, places=COMMANDS)
def images() -> None:
    """See to it that nodes have the container images that jobs will start from, by digest.

    What is wanted stands in images.yaml of the site's rules, or is named with --image. Each node's own
    runtime is asked (Docker, containerd, or what serves its kubelet) and pulls through the mirrors and with
    the credentials that it is configured with; muster sends no credential anywhere. Topic: muster help
    images.

    \b
    muster images status
    muster images pull @rack7 --dry-run
    muster images pull @rack7
    """
