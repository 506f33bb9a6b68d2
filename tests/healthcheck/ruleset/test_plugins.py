"""Plug-ins complete the registries; a broken one, or a check of a fact that does not exist, is one line."""

from __future__ import annotations

from typing import Any

import pytest

from healthcheck.checks.base import CHECKS, check
from healthcheck.config import entrypoints
from healthcheck.ruleset import plugins
from inventory.errors import UsageError
from tests.healthcheck.rules import Thing


class Entry:
    """An entry point whose module does this when it is loaded."""

    name, value = "site", "site_checks"

    def __init__(self, load: Any) -> None:
        self.load = load


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> list[Entry]:
    """The entry points that are found."""
    found: list[Entry] = []
    monkeypatch.setattr(entrypoints, "entries", lambda: found)
    monkeypatch.setattr(plugins, "CHECKS", dict(CHECKS))
    return found


def test_every_plug_in_is_loaded_once(entries: list[Entry]) -> None:
    loaded = []
    entries += [Entry(lambda: loaded.append("a")), Entry(lambda: loaded.append("b"))]
    plugins.load()
    assert loaded == ["a", "b"]


def test_a_plug_in_that_fails_is_named_with_its_error(entries: list[Entry]) -> None:
    entries.append(Entry(lambda: 1 // 0))
    with pytest.raises(UsageError,
                       match=r"the plug-in site \(site_checks\) cannot be loaded: ZeroDivisionError"):
        plugins.load()


def test_a_check_of_a_fact_that_does_not_exist_is_named_with_it(entries: list[Entry]) -> None:
    def odd(no_such_thing: Thing) -> Any:
        """A check that a plug-in brings."""
        return iter(())

    check("odd.one")(odd)
    plugins.CHECKS["odd.one"] = CHECKS.pop("odd.one")
    with pytest.raises(UsageError,
                       match=r"the check odd\.one asks for the fact no_such_thing, which does not exist"):
        plugins.load()
