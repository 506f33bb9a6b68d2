"""`muster firmware`: wanted firmware versions against those that run."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "status": ("provisioning.cli.firmwarestatus:status",
               "Compare the firmware of machines with what is wanted of it."),
    "update": ("provisioning.cli.firmwareupdate:update",
               "Bring machines to the wanted firmware, over Redfish or by their own tools.")}


@click.group(cls=LazyGroup, places=COMMANDS)
def firmware() -> None:
    """Compare the firmware of machines with the versions that `firmware:` of bringup.yaml wants, and bring
    them there.

    \b
    muster firmware status                       the fleet, from the store
    muster firmware status @rack7 --read         ask the controllers first
    muster firmware update @rack7                show what would be sent where
    muster firmware update @rack7 --apply        send it, a machine first, then by domain
    """
