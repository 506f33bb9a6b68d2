"""`muster firmware`: wanted firmware versions against those that run."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "status": ("provisioning.cli.firmwarestatus:status",
               "Compare the firmware of machines with what is wanted of it.")}


@click.group(cls=LazyGroup, places=COMMANDS)
def firmware() -> None:
    """Compare the firmware of machines with the versions that `firmware:` of bringup.yaml wants.

    \b
    muster firmware status                       the fleet, from the store
    muster firmware status @rack7 --read         ask the controllers first
    """
