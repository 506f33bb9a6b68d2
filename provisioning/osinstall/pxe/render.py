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
_DNSMASQ, _SERVE = "muster-dnsmasq.service", "muster-os-serve.service"


def _unit(name: str) -> str:
    return Path(__file__).with_name(name).read_text()


def files(
    options: PxeOptions, machines: Sequence[PxeMachine], *, folder: Path, muster: str, listen: str, more: str,
) -> Iterator[tuple[str, str]]:
    """Path and text of each; they will be in `folder`; `more` words for `muster os serve`. OsError."""
    templates = Templates(options.templates)
    if options.dhcp is not None:
        yield CONFIGURATION, dnsmasq.configuration(options, machines)
        yield _DNSMASQ, _unit(_DNSMASQ).format(folder=folder)
    yield _SERVE, _unit(_SERVE).format(muster=muster, listen=listen, more=more)
    yield "boot.ipxe", seed.chain(options, templates)
    yield "local.ipxe", seed.local(templates)
    for machine in machines:
        shown = Installation(machine.name, 0, machine.image.name, machine.macs, InstallationStage.ARMED, 0.0,
                             0.0, 0.0, TICKET, TOKEN)
        yield f"machines/{machine.name}/boot.ipxe", seed.boot(options, templates, shown)
        for name in seed.SEEDS[machine.image.kind]:
            yield f"machines/{machine.name}/{name}", seed.seed(options, templates, shown, name)
