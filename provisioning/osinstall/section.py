"""The section `os:` of bringup.yaml as it was written, and the forms by which each back end reads its own
keys of it; every mistake is a RulesError with file, line and key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from healthcheck.config.entry import kind_of, known_keys
from healthcheck.config.valuetypes import ValueType, optional, parse_value
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, LocatedMap
from inventory.model import Secret, SecretFrom
from provisioning.osinstall.evidence import MarkerFile, WantedSigns

_MOST_TEXT, _MOST_WORDS = 400, 64
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")


def _line(given: Any) -> str:
    if not isinstance(given, str) or not given.strip() or not given.isprintable() or len(given) > _MOST_TEXT:
        raise ValueError
    return given


def _path(given: Any) -> str:
    if not _line(given).startswith("/") or "/../" in f"{given}/":
        raise ValueError
    return str(given)


def _words(given: Any) -> Any:
    if not isinstance(given, LocatedList) or not 1 <= len(given) <= _MOST_WORDS:
        raise ValueError
    return given


LINE = ValueType(f"a line of at most {_MOST_TEXT} characters", _line)
ABSOLUTE = ValueType("an absolute path, such as /etc/site-image", _path)
WORDS = ValueType(f"a program and its words, a list of 1 to {_MOST_WORDS}", _words, item=LINE)
# What its reader looks at itself.
ANY = ValueType("a value", lambda given: given)
_MARKER: Mapping[str, ValueType] = {"file": ABSOLUTE, "holds": optional(LINE)}
COMMON = ("by", "marker", "image")


class OsSection:
    """What a site wrote; each value with its place."""

    def __init__(self, given: LocatedMap) -> None:
        self.given = given

    def read(self, forms: Mapping[str, ValueType], required: tuple[str, ...] = ()) -> dict[str, Any]:
        """The back end's own keys by these forms, those alone that are given. Raises RulesError for a key
        that neither it nor every back end has, and for a required one that is missing."""
        known_keys(self.given, (*COMMON, *forms), "os: ")
        for key in required:
            if key not in self.given:
                raise RulesError(f"os: {key} is missing: expected {forms[key].phrase}", self.given.mark)
        return {key: parse_value(f"os: {key}", self.given[key], self.given.value_marks[key], form)
                for key, form in forms.items() if key in self.given}

    def wanted(self) -> WantedSigns:
        """The site's signs of an installed system."""
        marker = self.given.get("marker")
        image = parse_value("os: image", self.given.get("image"),
                            self.given.value_marks.get("image", self.given.mark), optional(LINE))
        if marker is None:
            return WantedSigns(None, image)
        if not isinstance(marker, LocatedMap):
            raise RulesError(f"os: marker: expected a map of file and holds, got {kind_of(marker)}",
                             self.given.value_marks["marker"])
        found = _fields(marker, "os: marker: ", _MARKER)
        if "file" not in found:
            raise RulesError(f"os: marker: file is missing: expected {ABSOLUTE.phrase}", marker.mark)
        return WantedSigns(MarkerFile(found["file"], found.get("holds")), image)

    def path(self, key: str) -> Path:
        """A given path; a relative one starts at the folder of the file that names it."""
        mark = self.given.value_marks[key]
        return _beside(mark, parse_value(f"os: {key}", self.given[key], mark, LINE))

    def secret(self, key: str) -> Secret:
        """Where a secret is, as `password:` of `bmc:` in the inventory says it: {file: PATH}, {env: NAME} or
        {command: [PROGRAM, ...]}; written out it is refused, and never printed."""
        given, mark = self.given[key], self.given.value_marks[key]
        places = "{file: PATH}, {env: NAME} or {command: [PROGRAM, ...]}"
        if not isinstance(given, LocatedMap):
            raise RulesError(f"os: {key}: must not be written here; name its source: {places}", mark)
        forms = {"file": LINE, "env": LINE, "command": WORDS}
        found = _fields(given, f"os: {key}: ", forms)
        if len(found) != 1:
            raise RulesError(f"os: {key}: expected one of {places}", mark)
        ((source, value),) = found.items()
        if source == "command":
            return Secret(SecretFrom.COMMAND, value)
        if source == "env":
            if not _VARIABLE.fullmatch(value):
                raise RulesError(f"os: {key}: env: expected the name of an environment variable",
                                 given.value_marks[source])
            return Secret(SecretFrom.ENV, (value,))
        return Secret(SecretFrom.FILE, (str(_beside(mark, value)),))


def _beside(mark: Mark, name: str) -> Path:
    return Path(mark.file).parent / Path(name).expanduser()


def _fields(given: LocatedMap, where: str, forms: Mapping[str, ValueType]) -> dict[str, Any]:
    known_keys(given, list(forms), where)
    return {key: parse_value(f"{where}{key}", given[key], given.value_marks[key], forms[key])
            for key in given}
