"""The back ends by the name that `os: {by: ...}` gives them. A new one is a line in `FACTORIES`: a function
that reads its own keys of the section, when the policy is read, and gives what makes the back end for a run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from healthcheck.config.valuetypes import FLAG, ValueType, number, parse_value
from inventory.errors import RulesError
from inventory.model import Node
from provisioning.bmc.base import Controller
from provisioning.osinstall.base import OsBackend, OsReport
from provisioning.osinstall.command import ByCommand
from provisioning.osinstall.evidence import WantedSigns
from provisioning.osinstall.others import ByOthers
from provisioning.osinstall.section import WORDS, OsSection

_SECONDS = 60.0


@dataclass(frozen=True)
class OsTools:
    """What a back end may work with: `look` asks a machine over SSH for signs, `controllers` opens its
    management controller, `folder` is where state is kept."""

    look: Callable[[Node], OsReport]
    controllers: Callable[[Node], Controller]
    folder: Path


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


FACTORIES: Mapping[str, Factory] = {
    "none": _none,
    "command": _command,
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
