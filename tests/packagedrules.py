"""The packaged rules, read once for all tests and commands of a process: each command reads them, which takes
a tenth of a second."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from healthcheck.config import entrypoints
from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset import rulesetcache
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from inventory import located
from inventory.errors import ConfigError, RulesError

_FOLDER = packaged()
RULES: Ruleset = load_ruleset([_FOLDER])

_load, _parse = rulesetcache.load, located.parse_yaml
_documents: dict[tuple[str, str], Any] = {}


def keep() -> None:
    """From now on this process parses each packaged file once, for whatever folders of a site are laid over
    it, and loads the packaged rules alone no more. Nobody changes a document that was read
    (tests/test_packagedrules.py)."""
    rulesetcache.load, located.parse_yaml = _known_or_loaded, _known_or_parsed


def read_anew() -> None:
    """From now on this process reads them each time, as a command does."""
    rulesetcache.load, located.parse_yaml = _load, _parse


def read_all() -> None:
    """Reads all that is kept, with what is otherwise read where it is first used, and looks for plug-ins once
    for this process and its forks, which see the same packages."""
    entrypoints.entries = lambda: ()
    assert RULES.kernel is not None and RULES.xids is not None
    catalogue = RULES.kernel.catalogue
    for entry in catalogue.entries:
        for example in entry.examples:
            catalogue.find(example)     # compiles patterns
    for path in _FOLDER.rglob("*.yaml"):
        located.load_yaml(path, error=RulesError)


def _known_or_loaded(folders: tuple[Path, ...]) -> Ruleset:
    # A command's plug-ins are its own.
    return RULES if folders == (_FOLDER,) and not entrypoints.entries() else _load(folders)


def _known_or_parsed(text: str, filename: str, *, error: located.ErrorType = ConfigError) -> Any:
    if not filename.startswith(f"{_FOLDER}/"):
        return _parse(text, filename, error=error)
    if (text, filename) not in _documents:
        _documents[text, filename] = _parse(text, filename, error=error)
    return _documents[text, filename]
