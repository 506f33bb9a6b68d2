"""What one machine fetches while it is installed: its boot script, the installer's seed, and what makes the
installed system phone home. Pure but for the templates' files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from provisioning.osinstall.base import OsError
from provisioning.osinstall.pxe.options import ImageKind, OsImage, PxeOptions
from provisioning.osinstall.pxe.record import Installation
from provisioning.osinstall.pxe.templates import Templates

FIRST_BOOT = "firstboot"
SEEDS: Mapping[ImageKind, tuple[str, ...]] = {
    ImageKind.UBUNTU: ("user-data", "meta-data", "vendor-data", FIRST_BOOT),
    ImageKind.DEBIAN: ("preseed.cfg", FIRST_BOOT),
    ImageKind.CUSTOM: ("seed", FIRST_BOOT)}
CHAIN, BOOT, LOCAL = "chain.ipxe", "boot.ipxe", "local.ipxe"


@dataclass(frozen=True)
class SeedAddresses:
    """Where a machine finds what is its own."""

    seed: str       # with a slash at its end
    done: str       # for the phone-home


def addresses(server: str, record: Installation) -> SeedAddresses:
    """Those of an installation; the ticket is in that of the seed."""
    return SeedAddresses(f"{server}/seed/{record.node}/{record.number}/{record.ticket}/",
                         f"{server}/done/{record.node}")


def image_of(options: PxeOptions, record: Installation) -> OsImage:
    """The image that an installation has. Raises OsError where pxe.yaml has it no more."""
    if record.image not in options.images:
        raise OsError(f"{record.node} is armed for the image {record.image}, which pxe.yaml does not have")
    return options.images[record.image]


def chain(options: PxeOptions, templates: Templates) -> str:
    """The script with which every machine begins: it asks for the one of its hardware address."""
    return templates.render([CHAIN], {"server": options.server})


def local(templates: Templates) -> str:
    """The script that boots from the disk."""
    return templates.render([LOCAL], {})


def boot(options: PxeOptions, templates: Templates, record: Installation) -> str:
    """The script that starts the installer. Raises OsError."""
    return _rendered(options, templates, record, BOOT)


def seed(options: PxeOptions, templates: Templates, record: Installation, name: str) -> str:
    """One file of the seed. Raises OsError; KeyError for a name that the image's installer does not fetch."""
    if name not in SEEDS[image_of(options, record).kind]:
        raise KeyError(name)
    return _rendered(options, templates, record, name)


def check(options: PxeOptions, templates: Templates, record: Installation) -> None:
    """Renders all that the machine will fetch, so that a mistake shows before it is armed. Raises OsError."""
    boot(options, templates, record)
    for name in SEEDS[image_of(options, record).kind]:
        seed(options, templates, record, name)
    local(templates)
    chain(options, templates)


def _rendered(options: PxeOptions, templates: Templates, record: Installation, name: str) -> str:
    image = image_of(options, record)
    names = [f"{image.name}/{name}", f"{image.kind.value}/{name}", name]
    return templates.render(names, _values(options, record, image, name))


def _values(options: PxeOptions, record: Installation, image: OsImage, name: str) -> dict[str, Any]:
    places = addresses(options.server, record)
    values: dict[str, Any] = {
        "node": record.node, "number": record.number, "macs": list(record.macs), "server": options.server,
        "seed": places.seed, "user": options.user, "authorized_keys": list(options.authorized_keys),
        "image": {
            "name": image.name, "kernel": _at(options, image.kernel), "initrd": _at(options, image.initrd),
            "iso": _at(options, image.iso), "arguments": list(image.arguments), "disk": image.disk,
            "packages": list(image.packages), "suite": image.suite, "values": dict(image.values),
            **_mirror(image.mirror)}}
    if name == FIRST_BOOT:
        values["agent"] = agent()
        values["unit"] = unit()
        # Its reader is the agent, and whoever has this file may phone home for the machine.
        values["settings"] = {
            "address": places.done, "token": record.token, "node": record.node, "number": record.number,
            "image": record.image, "authority": options.authority}
    return values


def _at(options: PxeOptions, place: str) -> str:
    """The address of a file of the image."""
    return place if not place or "://" in place else f"{options.server}/files/{place}"


def _mirror(address: str) -> dict[str, str]:
    """The parts that debian-installer asks for by themselves."""
    protocol, _, rest = address.partition("://")
    host, _, path = rest.partition("/")
    return {"mirror_protocol": protocol, "mirror_host": host, "mirror_path": f"/{path}"}


@cache
def agent() -> str:
    """The program that phones home from the installed system."""
    return (resources.files("provisioning.osinstall") / "onnode/phonehome.py").read_text(encoding="utf-8")


@cache
def unit() -> str:
    """The systemd unit that runs it."""
    return (resources.files("provisioning.osinstall") / "onnode/phonehome.service").read_text(
        encoding="utf-8")
