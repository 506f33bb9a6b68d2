"""Reads the catalogue of known faults from `kernel/*.yaml` of the rules folders; RulesError names the place.

A file is a list of entries, and its name is their class. A later folder overrides an earlier one by id, key
by key; its new entries precede those of earlier folders. `enabled: false` switches one off. `ordinary: true`
marks what healthy machines write, too.

    - id: nvme-timeout-reset
      from: nvme              # its emitter or a list, by id in emitter/*.yaml; kernel: no prefix
      match: 'I/O .*timeout, reset controller'      # from the prefix's end on; see pattern.py and linear.py
      unless: 'polled'        # optional, as are repair, xid, yields and enabled
      ends: quiet 24h         # boot, reset, repair or quiet: see ending.py
      yields: [nvme-gone]     # more specific entries for the same lines
      severity: warning       # critical: no jobs until repaired; info: known and reported
      meaning: A command to the drive was not answered in time, and its controller is reset.
      remedy: Read the drive's SMART log; replace it if it comes back.
      owner: operator         # user, operator, network, datacentre or vendor
      repair: inspect         # watch, restart-service, reset-gpu, reboot, inspect or replace
      source: Linux drivers/nvme/host/pci.c, nvme_timeout
      examples: ['nvme nvme0: I/O 12 QID 3 timeout, reset controller']
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from healthcheck.baseline.catalogue import Catalogue, CompiledEntry
from healthcheck.config import entry as entries
from healthcheck.config import linear
from healthcheck.config.pattern import Pattern
from healthcheck.config.rulesfolder import display_name
from healthcheck.kernellog.emitter import Emitter
from healthcheck.kernellog.emitterload import load_emitters
from healthcheck.kernellog.ending import Ending, ending
from healthcheck.kernellog.model import LONGEST_LINE, CatalogueEntry
from healthcheck.kernellog.quoting import COMM, blanked
from healthcheck.model.outcome import Owner, Repair, Severity
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, load_yaml
from inventory.text import short

KEYS = ("id", "from", "match", "unless", "severity", "meaning", "remedy", "owner", "repair", "ends", "yields",
        "source", "examples", "xid", "ordinary", "enabled")
TABLES = ("xid", "sxid")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_PATTERN = 500
_NO_EMITTER = (
    "is missing: expected the id of the emitter (emitter/*.yaml), or kernel if a message has no prefix")


def load_catalogue(folders: Iterable[Path], *, proven: Path | None = None) -> Catalogue:
    """The entries of all folders, a later folder's first, in the order of files; raises RulesError.

    Entries of the folder `proven` that no other overrides are known to be linear and to match their examples:
    they are not tested again.
    """
    folders = tuple(folders)
    emitters = load_emitters(folders)
    found: dict[str, entries.Entry] = {}
    groups: dict[str, str] = {}
    places: dict[str, int] = {}
    for place, folder in enumerate(folders):
        for path in sorted((folder / "kernel").glob("*.yaml")):
            for given in _entries(path):
                groups.setdefault(given.name, path.stem)
                places.setdefault(given.name, -place)
                old = found.get(given.name)
                if old is not None and Path(old.mark.file).parent == path.parent:
                    raise RulesError(f"id {given.name} is defined twice; the first is at {old.mark}",
                                     given.mark)
                entries.overlay(found, given, "id")
    names = sorted(found, key=lambda name: places[name])
    return Catalogue(tuple(_entry(found[name], groups[name], emitters, found, proven) for name in names))


def _entries(path: Path) -> list[entries.Entry]:
    document = load_yaml(path, error=RulesError)
    if not isinstance(document, LocatedList):
        raise RulesError(f"expected a list of entries, got {entries.kind_of(document)}",
                         Mark(str(path), 1, 1))
    made = [entries.entry_of(item, KEYS, "id", document.value_marks[at]) for at, item in enumerate(document)]
    for one in made:
        if not _ID.fullmatch(one.name):
            raise RulesError("id: expected small letters, digits and hyphens, as nvme-timeout, got "
                             f"{short(one.name)}", one.marks["id"])
    return made


def _entry(
    given: entries.Entry, group: str, emitters: Mapping[str, Emitter], ids: Collection[str],
    proven: Path | None,
) -> CatalogueEntry:
    known = not given.overridden and proven is not None and Path(given.mark.file).parent.parent == proven
    enabled, ordinary = _switch(given, "enabled", True), _switch(given, "ordinary", False)
    match, unless = (_pattern(given, "match", known),
                     _pattern(given, "unless", known) if "unless" in given.values else "")
    own = _emitters(given, emitters)
    if linear.anything_first(match):
        raise _error(given, "match", "begins with anything: give the text right behind the emitter's prefix")
    needs = linear.required_words(match) or _needs_of(own)
    if not needs:
        raise _error(given, "match",
                     f"requires no word of {linear.SHORTEST} characters, so it would match too much")
    xid = given.values.get("xid", "")
    if xid not in ("", *TABLES):
        raise _error(given, "xid", f"expected one of {', '.join(TABLES)}, got {entries.kind_of(xid)}")
    made = CatalogueEntry(
        id=given.name, match=match, unless=unless, severity=_member(given, "severity", Severity),
        meaning=_text(given, "meaning"), remedy=_text(given, "remedy"), owner=_member(given, "owner", Owner),
        source=_text(given, "source"), examples=_examples(given), group=group,
        repair=_member(given, "repair", Repair) if "repair" in given.values else None, xid=xid,
        file=given.mark.file, line=given.mark.line, overridden=given.overridden, needs=needs,
        disabled="" if enabled else f"disabled in {display_name(given.marks['enabled'].file)}",
        ordinary=ordinary, emitters=own, ending=_ending(given), yields=_yields(given, ids),
    )
    if not known:
        _check_examples(made, given)
    if made.ordinary and made.severity is not Severity.INFO:
        raise _error(given, "ordinary",
                     f"needs severity info, not {made.severity.value}: healthy machines write it, too")
    return made


def _emitters(given: entries.Entry, known: Mapping[str, Emitter]) -> tuple[Emitter, ...]:
    value = given.values.get("from")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _error(given, "from", _NO_EMITTER if value is None
                     else f"expected an emitter or a list, got {entries.kind_of(value)}")
    for name in names:
        if name not in known:
            raise _error(given, "from", f"there is no emitter {short(name)}{entries.nearest(name, known)}")
    return tuple(known[name] for name in names)


def _needs_of(emitters: tuple[Emitter, ...]) -> tuple[tuple[str, ...], ...]:
    """One word of the prefix of each, if each has one."""
    each = [linear.required_words(emitter.begins) for emitter in emitters]
    return (tuple(dict.fromkeys(word for groups in each for word in groups[0])),) if all(each) else ()


def _ending(given: entries.Entry) -> Ending:
    value = given.values.get("ends")
    try:
        return ending(value if isinstance(value, str) else "")
    except ValueError as problem:
        raise _error(given, "ends", f"{'is missing: ' if value is None else ''}{problem}"
                     + ("" if value is None else f", got {entries.kind_of(value)}")) from None


def _yields(given: entries.Entry, ids: Collection[str]) -> tuple[str, ...]:
    value = given.values.get("yields", [])
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _error(given, "yields", f"expected a list of ids of entries, got {entries.kind_of(value)}")
    for name in value:
        if name not in ids or name == given.name:
            raise _error(given, "yields",
                         f"there is no other entry {short(name)}{entries.nearest(name, ids)}")
    return tuple(value)


def _switch(given: entries.Entry, key: str, usual: bool) -> bool:
    value = given.values.get(key, usual)
    if not isinstance(value, bool):
        raise _error(given, key, f"expected true or false, got {entries.kind_of(value)}")
    return value


def _error(given: entries.Entry, key: str, problem: str) -> RulesError:
    return RulesError(f"entry {given.name}: {key}: {problem}", given.marks.get(key, given.mark))


def _text(given: entries.Entry, key: str) -> str:
    value = given.values.get(key)
    if key not in given.values:
        raise _error(given, key, "is missing: expected a sentence")
    if not isinstance(value, str) or not value.strip():
        raise _error(given, key, f"expected a sentence, got {entries.kind_of(value)}")
    return " ".join(value.split())


M = TypeVar("M", bound=Enum)


def _member(given: entries.Entry, key: str, kind: type[M]) -> M:
    value = given.values.get(key)
    known = [str(member.value) for member in kind]
    if key not in given.values:
        raise _error(given, key, f"is missing: expected one of {', '.join(known)}")
    if value not in known:
        guess = entries.nearest(str(value), known)
        raise _error(given, key, f"expected one of {', '.join(known)}; got {entries.kind_of(value)}{guess}")
    return kind(value)


def _pattern(given: entries.Entry, key: str, known: bool) -> str:
    value = given.values.get(key)
    if not isinstance(value, str) or not value.strip():
        raise _error(given, key, f"expected a regular expression, got {entries.kind_of(value)}"
                     if key in given.values else "is missing: expected a regular expression")
    if len(value) > _LONGEST_PATTERN:
        raise _error(given, key, f"is over {_LONGEST_PATTERN} characters: make it several entries")
    if known:
        return value
    try:
        linear.check(value)
    except linear.TooSlow as problem:
        raise _error(given, key, str(problem)) from None
    except (re.error, OverflowError, RecursionError) as problem:
        raise _error(given, key, f"is no regular expression: {problem}") from None
    return value


def _examples(given: entries.Entry) -> tuple[str, ...]:
    value: Any = given.values.get("examples")
    lines = value if isinstance(value, list) else []
    if not lines or not all(isinstance(line, str) and 0 < len(line) <= LONGEST_LINE for line in lines):
        missing = "" if "examples" in given.values else "is missing: "
        raise _error(given, "examples", f"{missing}expected a list of lines that it matches")
    return tuple(value)


def _check_examples(made: CatalogueEntry, given: entries.Entry) -> None:
    """Raises RulesError for an example that the entry does not match."""
    known = CompiledEntry(made)
    for example in made.examples:
        text = blanked(example)
        if not known.knows(text):
            excluded = made.unless and CompiledEntry(replace(made, unless="")).knows(text)
            why = "unless excludes" if excluded else _why_not(made, text)
            raise _error(given, "examples", f"{why} {short(example)}")


def _why_not(made: CatalogueEntry, text: str) -> str:
    if not any(emitter.prefix(text) for emitter in made.emitters):
        return f"none of its emitters ({', '.join(emitter.id for emitter in made.emitters)}) begins"
    if any(Pattern(made.match).begins(text, prefix.end()) >= 0 for one in made.emitters
           if (prefix := one.prefix(text)) is not None):
        return f"match covers only {COMM} characters, which may be the name of a process, of"
    return "match does not match"
