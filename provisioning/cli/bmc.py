"""`muster bmc`: commands for nodes' management controllers, out of band."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "show": ("provisioning.cli.bmcshow:show", "Show each machine's identity, power state and boot device."),
    "hardware": (
        "provisioning.cli.bmcshow:hardware", "Show the parts of each machine, and which are faulty."),
    "firmware": ("provisioning.cli.bmcshow:firmware", "Show the firmware versions in use."),
    "bios": ("provisioning.cli.bmcshow:bios", "Show the settings, and those pending until the next reset."),
    "log": ("provisioning.cli.bmcshow:log", "Show the events that are still active."),
    "sensors": ("provisioning.cli.bmcshow:sensors", "Show temperatures, fans, voltages and power."),
    "console": (
        "provisioning.cli.bmcconsole:console", "Show what a machine wrote to its serial console."),
    "check": ("provisioning.cli.bmcshow:check", "Judge event log and sensors by the rules."),
    "power": ("provisioning.cli.bmcchange:power", "Turn machines on or off."),
    "boot": ("provisioning.cli.bmcchange:boot", "Set what machines boot from next."),
    "media": (
        "provisioning.cli.bmcchange:media", "Insert an image into machines' virtual drives, or eject it."),
    "accounts": (
        "provisioning.cli.bmcaccounts:accounts", "Give controllers passwords of their own."),
    "enroll": ("provisioning.cli.bmcenroll:enroll", "Read controllers' certificates and pin them.")}


@click.group(cls=LazyGroup, places=COMMANDS)
def bmc() -> None:
    """Use the management controllers of machines: over Redfish, or over IPMI where the inventory says so.

    The inventory says where they are and where to find the password. It never holds the password itself:

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
    muster bmc power gpu007 on

    Commands that change a machine act as typed; --dry-run shows what they would do. What powers off asks
    first, and so does anything for more than 32 nodes; --yes answers. Each change enters the ledger first.
    """
