"""The packaged rules, read once for all tests and commands of a process: each command reads them, which takes a tenth of a second."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset import rulesetload
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from inventory import located
from inventory.errors import ConfigError, RulesError

_FOLDER = packaged()
RULES: Ruleset = load_ruleset([_FOLDER])

_load, _parse = rulesetload.load, located.parse_yaml
_documents: dict[tuple[str, str], Any] = {}


def keep() -> None:
    """From now on this process parses each packaged file once, for whatever folders of a site are laid over it, and loads the packaged rules
    alone no more. Nobody changes a document that was read (tests/test_packagedrules.py)."""
    rulesetload.load, located.parse_yaml = _known_or_loaded, _known_or_parsed


def read_anew() -> None:
    """From now on this process reads them each time, as a command does."""
    rulesetload.load, located.parse_yaml = _load, _parse


def read_all() -> None:
    """Parses all packaged files that are kept."""
    for path in _FOLDER.rglob("*.yaml"):
        located.load_yaml(path, error=RulesError)


def _known_or_loaded(folders: Iterable[Path]) -> Ruleset:
    asked = tuple(folders)
    return RULES if asked == (_FOLDER,) else _load(asked)


def _known_or_parsed(text: str, filename: str, *, error: located.ErrorType = ConfigError) -> Any:
    if not filename.startswith(f"{_FOLDER}/"):
        return _parse(text, filename, error=error)
    if (text, filename) not in _documents:
        _documents[text, filename] = _parse(text, filename, error=error)
    return _documents[text, filename]
