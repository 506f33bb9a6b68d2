"""Reads the catalogue of known faults from `kernel/*.yaml` of the rules folders; every mistake is one line with file, line and column.

A file is a list of entries, and its name is their class. A later folder overrides an earlier one by id, key by key; its own entries go
before those of earlier folders. `enabled: false` switches one off. `ordinary: true` is for what healthy machines say, too.

    - id: nvme-timeout-reset
      match: 'nvme nvme\\d+: I/O .*timeout, reset controller'        # pattern.py says what is allowed, linear.py what is refused
      unless: 'polled'                                              # may be left out, as repair, xid and enabled may be
      severity: warning                                             # critical: no jobs until repaired; info: known, and told
      meaning: A command to the drive was not answered in time, and its controller is reset.
      remedy: Read the drive's SMART log; replace it if it comes back.
      owner: operator                                               # user, operator, network, datacentre or vendor
      repair: inspect                                               # watch, restart-service, reset-gpu, reboot, inspect or replace
      source: Linux drivers/nvme/host/pci.c, nvme_timeout
      examples: ['nvme nvme0: I/O 12 QID 3 timeout, reset controller']
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from healthcheck import entry as entries
from healthcheck.baseline import linear
from healthcheck.baseline.catalogue import Catalogue, Known
from healthcheck.baseline.model import LONGEST_LINE, Entry
from healthcheck.outcome import Owner, Repair, Severity
from healthcheck.rulesfolder import called
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, load_yaml
from inventory.text import short

KEYS = ("id", "match", "unless", "severity", "meaning", "remedy", "owner", "repair", "source", "examples", "xid", "ordinary",
        "enabled")
TABLES = ("xid", "sxid")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_PATTERN = 500


def load_catalogue(folders: Iterable[Path], *, proven: Path | None = None) -> Catalogue:
    """The entries of all folders; raises RulesError. Those that a later folder brings stand first, else the order is that of files.

    Entries of the folder `proven` that no other overrides are known to be linear and to match their examples, and are not tried again.
    """
    found: dict[str, entries.Entry] = {}
    groups: dict[str, str] = {}
    places: dict[str, int] = {}
    for place, folder in enumerate(folders):
        for path in sorted((folder / "kernel").glob("*.yaml")):
            for made in _entries(path):
                groups.setdefault(made.name, path.stem)
                places.setdefault(made.name, -place)
                if made.name in found and Path(found[made.name].mark.file).parent == path.parent:
                    raise RulesError(f"id {made.name} is defined twice; the first is at {found[made.name].mark}", made.mark)
                entries.overlay(found, made, "id")
    return Catalogue(tuple(_entry(found[name], groups[name], proven) for name in sorted(found, key=lambda name: places[name])))


def _entries(path: Path) -> list[entries.Entry]:
    document = load_yaml(path, error=RulesError)
    if not isinstance(document, LocatedList):
        raise RulesError(f"expected a list of entries, got {entries.kind_of(document)}", Mark(str(path), 1, 1))
    made = [entries.entry_of(item, KEYS, "id", document.value_marks[at]) for at, item in enumerate(document)]
    for one in made:
        if not _ID.fullmatch(one.name):
            raise RulesError(f"id: expected small letters, digits and hyphens, as nvme-timeout, got {short(one.name)}", one.marks["id"])
    return made


def _entry(given: entries.Entry, group: str, proven: Path | None) -> Entry:
    known = not given.overridden and proven is not None and Path(given.mark.file).parent.parent == proven
    enabled, ordinary = _switch(given, "enabled", True), _switch(given, "ordinary", False)
    match, unless = _pattern(given, "match", known), _pattern(given, "unless", known) if "unless" in given.values else ""
    needs = linear.words(match)
    if not needs:
        raise _wrong(given, "match", f"holds no word of {linear.SHORTEST} characters that each line must have, so it would match too much")
    xid = given.values.get("xid", "")
    if xid not in ("", *TABLES):
        raise _wrong(given, "xid", f"expected one of {', '.join(TABLES)}, got {entries.kind_of(xid)}")
    made = Entry(
        id=given.name, match=match, unless=unless, severity=_member(given, "severity", Severity), meaning=_text(given, "meaning"),
        remedy=_text(given, "remedy"), owner=_member(given, "owner", Owner), source=_text(given, "source"), examples=_examples(given),
        group=group, repair=_member(given, "repair", Repair) if "repair" in given.values else None, xid=xid, file=given.mark.file,
        line=given.mark.line, overridden=given.overridden, needs=needs,
        disabled="" if enabled else f"disabled in {called(given.marks['enabled'].file)}", ordinary=ordinary,
    )
    if not known:
        _matched(made, given)
    if made.ordinary and made.severity is not Severity.INFO:
        raise _wrong(given, "ordinary", f"what healthy machines say, too, is of severity info, not {made.severity.value}")
    return made


def _switch(given: entries.Entry, key: str, usual: bool) -> bool:
    value = given.values.get(key, usual)
    if not isinstance(value, bool):
        raise _wrong(given, key, f"expected true or false, got {entries.kind_of(value)}")
    return value


def _wrong(given: entries.Entry, key: str, said: str) -> RulesError:
    return RulesError(f"entry {given.name}: {key}: {said}", given.marks.get(key, given.mark))


def _text(given: entries.Entry, key: str) -> str:
    value = given.values.get(key)
    if key not in given.values:
        raise _wrong(given, key, "is missing: expected a sentence")
    if not isinstance(value, str) or not value.strip():
        raise _wrong(given, key, f"expected a sentence, got {entries.kind_of(value)}")
    return " ".join(value.split())


M = TypeVar("M", bound=Enum)


def _member(given: entries.Entry, key: str, kind: type[M]) -> M:
    value = given.values.get(key)
    known = [str(member.value) for member in kind]
    if key not in given.values:
        raise _wrong(given, key, f"is missing: expected one of {', '.join(known)}")
    if value not in known:
        guess = entries.nearest(str(value), known)
        raise _wrong(given, key, f"expected one of {', '.join(known)}; got {entries.kind_of(value)}{guess}")
    return kind(value)


def _pattern(given: entries.Entry, key: str, known: bool) -> str:
    value = given.values.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _wrong(given, key, f"expected a regular expression, got {entries.kind_of(value)}" if key in given.values else
                     "is missing: expected a regular expression")
    if len(value) > _LONGEST_PATTERN:
        raise _wrong(given, key, f"is over {_LONGEST_PATTERN} characters: make it several entries")
    if known:
        return value
    try:
        linear.judge(value)
    except linear.TooSlow as problem:
        raise _wrong(given, key, str(problem)) from None
    except (re.error, OverflowError, RecursionError) as problem:
        raise _wrong(given, key, f"is no regular expression: {problem}") from None
    return value


def _examples(given: entries.Entry) -> tuple[str, ...]:
    value: Any = given.values.get("examples")
    if not isinstance(value, list) or not value or not all(isinstance(line, str) and 0 < len(line) <= LONGEST_LINE for line in value):
        raise _wrong(given, "examples", "expected a list of lines that it matches" if "examples" in given.values else
                     "is missing: expected a list of lines that it matches")
    return tuple(value)


def _matched(made: Entry, given: entries.Entry) -> None:
    """Raises RulesError for an example that the entry does not know."""
    known = Known(made)
    for example in made.examples:
        if not known.knows(example):
            why = "unless takes out" if made.unless and Known(replace(made, unless="")).knows(example) else "match does not match"
            raise _wrong(given, "examples", f"{why} {short(example)}")
