"""The back ends by the name that `os: {by: ...}` gives them. A new one is a line in `FACTORIES`: a function
that reads its keys and gives what makes it for a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from healthcheck.config.valuetypes import FLAG, ValueType, number, parse_value
from inventory.errors import RulesError
from inventory.model import Node
from provisioning.bmc.base import Controller
from provisioning.osinstall.base import OsBackend, OsError, OsReport
from provisioning.osinstall.command import ByCommand
from provisioning.osinstall.evidence import WantedSigns
from provisioning.osinstall.maas.backend import maas_backend
from provisioning.osinstall.maas.options import MaasOptions, check_options
from provisioning.osinstall.others import ByOthers
from provisioning.osinstall.pxe import settings
from provisioning.osinstall.pxe.backend import pxe_backend
from provisioning.osinstall.section import ANY, LINE, WORDS, OsSection
from provisioning.osinstall.virtualmedia import virtual_media_backend

_SECONDS = 60.0


@dataclass(frozen=True)
class OsTools:
    """What a back end works with: `look` asks a machine over SSH for signs, `controllers` opens its
    controller; `folder` is where state is kept, `rules` are the rules folders in order."""

    look: Callable[[Node], OsReport]
    controllers: Callable[[Node], Controller]
    folder: Path
    rules: tuple[Path, ...] = ()


Maker: TypeAlias = Callable[[OsTools], OsBackend]
Factory: TypeAlias = Callable[[OsSection], Maker]


@dataclass(frozen=True)
class OsChoice:
    """Who installs, with the site's signs of an installed system; `make` gives the back end."""

    by: str
    wanted: WantedSigns
    make: Maker


def _none(section: OsSection) -> Maker:
    section.read({})
    return lambda tools: ByOthers(tools.look)


def _command(section: OsSection) -> Maker:
    own = section.read(
        {"argv": WORDS, "seconds": number(0.1, 3600), "drives_power": FLAG}, required=("argv",))
    made = ByCommand(own["argv"], own.get("seconds", _SECONDS), own.get("drives_power", False))
    return lambda tools: made


_MAAS: Mapping[str, ValueType] = {
    "url": LINE, "osystem": LINE, "distro_series": LINE, "hwe_kernel": LINE, "user_data": LINE,
    "commissioning_scripts": WORDS, "testing_scripts": WORDS, "tested": FLAG, "tags": WORDS, "tls": LINE,
    "cleartext": FLAG, "seconds": number(1, 3600)}


def _maas(section: OsSection) -> Maker:
    own = section.read({**_MAAS, "key": ANY}, required=("url", "key"))
    own |= {name: tuple(own[name]) for name in ("commissioning_scripts", "testing_scripts", "tags")
            if name in own}
    if "user_data" in own:
        own["user_data"] = section.path("user_data")
    options = MaasOptions(**{**own, "key": section.secret("key")})
    try:
        check_options(options)
    except OsError as error:
        raise RulesError(f"os: {error}", section.given.mark) from None
    return lambda tools: maas_backend(options)


def _pxe(section: OsSection) -> Maker:
    section.read({})
    return lambda tools: pxe_backend(settings.load(tools.rules), tools.folder)


def _virtual_media(section: OsSection) -> Maker:
    section.read({})

    def make(tools: OsTools) -> OsBackend:
        options = settings.load(tools.rules)
        try:
            return virtual_media_backend(options, tools.folder)
        except OsError as error:
            raise RulesError(f"os: {error}", section.given.mark) from None

    return make


FACTORIES: Mapping[str, Factory] = {
    "none": _none,
    "command": _command,
    "maas": _maas,
    "pxe": _pxe,
    "virtual-media": _virtual_media,
}


OTHERS = OsChoice("none", WantedSigns(), lambda tools: ByOthers(tools.look))


def _known() -> ValueType:
    def read(given: object) -> str:
        if not isinstance(given, str) or given not in FACTORIES:
            raise ValueError
        return given

    return ValueType(f"one of {', '.join(FACTORIES)}", read, tuple(FACTORIES))


def chosen(section: OsSection) -> OsChoice:
    """The back end that a section names; raises RulesError with the place of what is wrong."""
    given = section.given
    if "by" not in given:
        raise RulesError(f"os: by is missing: expected one of {', '.join(FACTORIES)}", given.mark)
    by = parse_value("os: by", given["by"], given.value_marks["by"], _known())
    return OsChoice(by, section.wanted(), FACTORIES[by](section))
