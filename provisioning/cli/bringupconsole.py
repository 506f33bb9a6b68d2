"""What machines stuck in a step that starts them wrote to their consoles, for bring-up's pages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from healthcheck.baseline.catalogue import Catalogue
    from provisioning.bringup.pages.progress import BringupStatus

_MOST = 200     # machines of which the files are read


def no_consoles(found: BringupStatus) -> BringupStatus:
    """Where no consoles are captured."""
    return found


def stuck_consoles(folder: Path, rules: Iterable[Path]) -> Callable[[BringupStatus], BringupStatus]:
    """Adds them to a status; `folder` is the state folder. The folders' catalogue is loaded once needed."""
    from provisioning.bringup.steps.console import STEPS
    from provisioning.console.view import view

    folders = tuple(rules)

    @cache
    def catalogue() -> Catalogue | None:
        from healthcheck.ruleset.ruleset import load_ruleset

        kernel = load_ruleset(folders).kernel
        return kernel.catalogue if kernel is not None else None

    def added(found: BringupStatus) -> BringupStatus:
        stuck = [spot for spot in found.stuck if spot.step in STEPS][:_MOST]
        return replace(found, consoles=MappingProxyType({
            spot.node: view(folder, spot.node, spot.began, catalogue) for spot in stuck}))
    return added
