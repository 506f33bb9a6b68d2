"""The files that `muster os render` writes: dnsmasq's configuration, units for systemd, and for each machine
what it would fetch, with placeholders for the secrets of an installation. Pure but for templates' files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from provisioning.osinstall.pxe import dnsmasq, seed
from provisioning.osinstall.pxe.machines import PxeMachine
from provisioning.osinstall.pxe.options import PxeOptions
from provisioning.osinstall.pxe.record import Installation, InstallationStage
from provisioning.osinstall.pxe.templates import Templates

TICKET, TOKEN = "TICKET-OF-THE-INSTALLATION", "TOKEN-OF-THE-INSTALLATION"
CONFIGURATION = "dnsmasq.conf"

_DNSMASQ_UNIT = """\
[Unit]
Description=DHCP and TFTP for machines that muster installs
Wants=network-online.target
After=network-online.target
[Service]
ExecStartPre=/usr/sbin/dnsmasq --test --conf-file={folder}/dnsmasq.conf
ExecStart=/usr/sbin/dnsmasq --keep-in-foreground --conf-file={folder}/dnsmasq.conf --pid-file= \
--dhcp-leasefile=/var/lib/misc/muster-dnsmasq.leases
Restart=on-failure
[Install]
WantedBy=multi-user.target
"""
_SERVE_UNIT = """\
[Unit]
Description=Boot scripts and seeds for machines that muster installs
Wants=network-online.target
After=network-online.target
[Service]
ExecStart={muster} os serve --listen {listen}{more}
Restart=on-failure
NoNewPrivileges=yes
ProtectSystem=full
PrivateTmp=yes
[Install]
WantedBy=multi-user.target
"""


def files(
    options: PxeOptions, machines: Sequence[PxeMachine], *, folder: Path, muster: str, listen: str, more: str,
) -> Iterator[tuple[str, str]]:
    """Path and text of each; they will be in `folder`; `more` words for `muster os serve`. OsError."""
    templates = Templates(options.templates)
    if options.dhcp is not None:
        yield CONFIGURATION, dnsmasq.configuration(options, machines)
        yield "muster-dnsmasq.service", _DNSMASQ_UNIT.format(folder=folder)
    yield "muster-os-serve.service", _SERVE_UNIT.format(muster=muster, listen=listen, more=more)
    yield "boot.ipxe", seed.chain(options, templates)
    yield "local.ipxe", seed.local(templates)
    for machine in machines:
        shown = Installation(machine.name, 0, machine.image.name, machine.macs, InstallationStage.ARMED, 0.0,
                             0.0, 0.0, TICKET, TOKEN)
        yield f"machines/{machine.name}/boot.ipxe", seed.boot(options, templates, shown)
        for name in seed.SEEDS[machine.image.kind]:
            yield f"machines/{machine.name}/{name}", seed.seed(options, templates, shown, name)
