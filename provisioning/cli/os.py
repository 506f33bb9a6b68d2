"""`muster os`: commands for installing operating systems over our own PXE."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "render": ("provisioning.cli.osrender:render",
               "Write dnsmasq's configuration, and what each machine would fetch."),
    "serve": ("provisioning.cli.osserve:serve",
              "Serve boot scripts and seeds to armed machines; take their phone-home."),
    "status": ("provisioning.cli.osstatus:status", "Show how far each installation is."),
    "release": ("provisioning.cli.osrelease:release", "Have MAAS take a machine back."),
    "disarm": ("provisioning.cli.osstatus:disarm", "End installations: machines boot from their disks."),
}


@click.group("os", cls=LazyGroup, places=COMMANDS)
def os_() -> None:
    """Install operating systems over the network, from pxe.yaml of the site's rules (muster help pxe).

    The inventory says from which port a machine boots:

    \b
    nodes:
      gpu007: {boot_mac: 52:54:00:12:34:56}

    \b
    muster os render --output /etc/muster/pxe --rules site      what dnsmasq and machines would read
    muster os serve --listen 10.1.0.1:9850 --rules site         while machines are installed
    muster os status
    muster os disarm gpu007

    A machine is armed by step os of `muster bringup`, where its policy says pxe.
    """
