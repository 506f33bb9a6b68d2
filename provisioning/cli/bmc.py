"""`muster bmc`: the group of commands that ask nodes' management controllers, out of band."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "show": ("provisioning.cli.bmcshow:show", "Who each machine is, whether it has power, and from what it boots."),
    "hardware": ("provisioning.cli.bmcshow:hardware", "What is in each machine, and what of it is not well."),
    "firmware": ("provisioning.cli.bmcshow:firmware", "The versions that run."),
    "bios": ("provisioning.cli.bmcshow:bios", "The settings, and those that wait for the next reset."),
    "log": ("provisioning.cli.bmcshow:log", "The events that still hold."),
    "sensors": ("provisioning.cli.bmcshow:sensors", "Temperatures, fans, voltages and power."),
    "check": ("provisioning.cli.bmcshow:check", "Judge event log and sensors by the rules."),
    "power": ("provisioning.cli.bmcchange:power", "Turn machines on or off."),
    "boot": ("provisioning.cli.bmcchange:boot", "Say from what machines boot next."),
    "media": ("provisioning.cli.bmcchange:media", "Put an image into machines' virtual drives, or take it out."),
    "enroll": ("provisioning.cli.bmcenroll:enroll", "Look at controllers' certificates and pin them."),
}


@click.group(cls=LazyGroup, places=COMMANDS)
def bmc() -> None:
    """Ask the controllers that sit beside machines: over Redfish, or over IPMI where the inventory says so.

    The inventory says where they are, and where the password is; it never stands there itself:

    \b
    defaults: {bmc: {user: admin, password: {file: /etc/muster/bmc.password}}}
    nodes:
      gpu007: {bmc: 10.1.2.7}
      gpu008: {bmc: {address: 10.1.2.8, password: {command: [pass, show, "bmc/{node}"]}, tls: verify}}
      gpu009: {bmc: {address: 10.1.2.9, protocol: ipmi, password: {env: BMC_PASSWORD}}}

    \b
    muster bmc enroll @rack7 --fingerprints delivered.txt     pin the certificates, once
    muster bmc show @rack7
    muster bmc check @rack7
    muster bmc power gpu007 on --apply

    What changes a machine only says what it would do until --apply, and is written into the ledger before it is done.
    """
