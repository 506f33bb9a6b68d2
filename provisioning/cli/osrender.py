"""`muster os render`: writes what dnsmasq and machines would read, for a person to look at and to run."""

from __future__ import annotations

import shlex
import shutil
import sys
from pathlib import Path
from urllib.parse import urlsplit

import click

from healthcheck.cli import completing
from inventory.cli.chosen import needed
from inventory.cli.folded import echo_folded
from inventory.errors import UsageError
from inventory.model import LifecycleState
from inventory.text import many

_PORT = 9850


@click.command()
@click.argument("nodes", default="@all", shell_complete=completing.node_set)
@click.option("--output", "-o", required=True, metavar="DIR", help="Where to write; it is made if need be.")
@click.option("--rules", metavar="DIR", help="A folder of site rules, with pxe.yaml and its templates.")
@click.option("--inventory", "-i", "file", metavar="FILE", help="Default: as for muster check.")
def render(nodes: str, output: str, rules: str | None, file: str | None) -> int:
    """Write the configuration of dnsmasq, units for systemd, and for each machine of NODES (default: all that
    have a boot_mac) what it would fetch. No secret is in it.

    \b
    muster os render --output /etc/muster/pxe --rules site
    systemctl enable --now /etc/muster/pxe/muster-dnsmasq.service

    Exit: 0 written, 2 usage, or a machine cannot be rendered; then nothing is written.
    """
    from healthcheck.config.files import make_folder, write_whole
    from healthcheck.config.rulesfolder import folders
    from provisioning.osinstall.pxe import settings
    from provisioning.osinstall.pxe.machines import machine
    from provisioning.osinstall.pxe.render import files

    named, inventory = needed(nodes, file, "no inventory was found, which says what machines there are: "
                              "--inventory FILE")
    found = [node for node in named if node.lifecycle.state is not LifecycleState.RETIRED]
    echo_folded((node.name, "left out: the inventory has no boot_mac for it") for node in found
                if not node.boot_mac)
    options = settings.load(folders(rules))
    machines = [machine(node, options) for node in found if node.boot_mac]
    if not machines:
        raise UsageError(f"none of these nodes has a boot_mac; add to {inventory.source}: boot_mac: "
                         "HARDWARE-ADDRESS")
    folder = Path(output).absolute()
    muster = shutil.which(sys.argv[0]) or shutil.which("muster") or "muster"
    words = f" --rules {shlex.quote(str(Path(rules).absolute()))}" if rules is not None else ""
    texts = dict(files(options, machines, folder=folder, muster=muster, listen=_listen(options.server),
                       more=words))
    for name, text in texts.items():
        make_folder((folder / name).parent, "--output")
        write_whole(folder / name, text.encode(), 0o644)
    click.echo(f"{folder}: {many(len(texts), 'file')} for {many(len(machines), 'machine')}")
    if options.dhcp is None:
        click.echo("muster: pxe.yaml has no dhcp section, so there is no dnsmasq.conf: another server has to "
                   f"send iPXE to {options.server}/boot.ipxe", err=True)
    return 0


def _listen(server: str) -> str:
    """The address and port of a URL, as --listen takes them; TLS may end before us, at another port."""
    parts = urlsplit(server)
    host = parts.hostname or "127.0.0.1"
    port = parts.port or (80 if parts.scheme == "http" else _PORT)
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
