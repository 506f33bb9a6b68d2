"""Reads the catalogue of known faults from `kernel/*.yaml` of the rules folders; every mistake is one line with file, line and column.

A file is a list of entries, and its name is their class. A later folder overrides an earlier one by id, key by key; its own entries go
before those of earlier folders. `enabled: false` switches one off. `ordinary: true` is for what healthy machines say, too.

    - id: nvme-timeout-reset
      from: nvme                            # its emitter, or a list: ids of emitter/*.yaml, or kernel for messages without a prefix
      match: 'I/O .*timeout, reset controller'      # holds from where the prefix ends; pattern.py says what is allowed, linear.py what not
      unless: 'polled'                                              # may be left out, as repair, xid, yields and enabled may be
      ends: quiet 24h                       # boot, reset, repair or quiet: ending.py says what each means, and what proves it
      yields: [nvme-gone]                   # entries that say more of a line which both know
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
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from healthcheck.baseline.catalogue import Catalogue, CompiledEntry
from healthcheck.config import entry as entries
from healthcheck.config import linear
from healthcheck.config.pattern import Pattern
from healthcheck.config.rulesfolder import called
from healthcheck.kernellog.emitter import Emitter
from healthcheck.kernellog.emitterload import load_emitters
from healthcheck.kernellog.ending import Ending, ending
from healthcheck.kernellog.model import LONGEST_LINE, CatalogueEntry
from healthcheck.kernellog.quoting import COMM, blanked
from healthcheck.model.outcome import Owner, Repair, Severity
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, load_yaml
from inventory.text import short

KEYS = ("id", "from", "match", "unless", "severity", "meaning", "remedy", "owner", "repair", "ends", "yields", "source", "examples", "xid",
        "ordinary", "enabled")
TABLES = ("xid", "sxid")
_ID = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_LONGEST_PATTERN = 500
_NO_EMITTER = "is missing: expected who writes such lines, the id of an emitter (emitter/*.yaml), or kernel where a message has no prefix"


def load_catalogue(folders: Iterable[Path], *, proven: Path | None = None) -> Catalogue:
    """The entries of all folders; raises RulesError. Those that a later folder brings stand first, else the order is that of files.

    Entries of the folder `proven` that no other overrides are known to be linear and to match their examples, and are not tried again.
    """
    folders = tuple(folders)
    emitters = load_emitters(folders)
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
    made_of = [_entry(found[name], groups[name], emitters, found, proven) for name in sorted(found, key=lambda name: places[name])]
    return Catalogue(tuple(made_of))


def _entries(path: Path) -> list[entries.Entry]:
    document = load_yaml(path, error=RulesError)
    if not isinstance(document, LocatedList):
        raise RulesError(f"expected a list of entries, got {entries.kind_of(document)}", Mark(str(path), 1, 1))
    made = [entries.entry_of(item, KEYS, "id", document.value_marks[at]) for at, item in enumerate(document)]
    for one in made:
        if not _ID.fullmatch(one.name):
            raise RulesError(f"id: expected small letters, digits and hyphens, as nvme-timeout, got {short(one.name)}", one.marks["id"])
    return made


def _entry(given: entries.Entry, group: str, emitters: Mapping[str, Emitter], ids: Collection[str], proven: Path | None) -> CatalogueEntry:
    known = not given.overridden and proven is not None and Path(given.mark.file).parent.parent == proven
    enabled, ordinary = _switch(given, "enabled", True), _switch(given, "ordinary", False)
    match, unless = _pattern(given, "match", known), _pattern(given, "unless", known) if "unless" in given.values else ""
    own = _emitters(given, emitters)
    if linear.anything_first(match):
        raise _wrong(given, "match", "begins with anything: say what stands first behind the emitter's prefix")
    needs = linear.words(match) or _needs_of(own)
    if not needs:
        raise _wrong(given, "match", f"holds no word of {linear.SHORTEST} characters that each line must have, so it would match too much")
    xid = given.values.get("xid", "")
    if xid not in ("", *TABLES):
        raise _wrong(given, "xid", f"expected one of {', '.join(TABLES)}, got {entries.kind_of(xid)}")
    made = CatalogueEntry(
        id=given.name, match=match, unless=unless, severity=_member(given, "severity", Severity), meaning=_text(given, "meaning"),
        remedy=_text(given, "remedy"), owner=_member(given, "owner", Owner), source=_text(given, "source"), examples=_examples(given),
        group=group, repair=_member(given, "repair", Repair) if "repair" in given.values else None, xid=xid, file=given.mark.file,
        line=given.mark.line, overridden=given.overridden, needs=needs,
        disabled="" if enabled else f"disabled in {called(given.marks['enabled'].file)}", ordinary=ordinary, emitters=own,
        ending=_ending(given), yields=_yields(given, ids),
    )
    if not known:
        _matched(made, given)
    if made.ordinary and made.severity is not Severity.INFO:
        raise _wrong(given, "ordinary", f"what healthy machines say, too, is of severity info, not {made.severity.value}")
    return made


def _emitters(given: entries.Entry, known: Mapping[str, Emitter]) -> tuple[Emitter, ...]:
    value = given.values.get("from")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise _wrong(given, "from", _NO_EMITTER if value is None else f"expected an emitter or a list, got {entries.kind_of(value)}")
    for name in names:
        if name not in known:
            raise _wrong(given, "from", f"there is no emitter {short(name)}{entries.nearest(name, known)}")
    return tuple(known[name] for name in names)


def _needs_of(emitters: tuple[Emitter, ...]) -> tuple[tuple[str, ...], ...]:
    """One word of the prefix of each, where each has one."""
    each = [linear.words(emitter.begins) for emitter in emitters]
    return (tuple(dict.fromkeys(word for groups in each for word in groups[0])),) if all(each) else ()


def _ending(given: entries.Entry) -> Ending:
    value = given.values.get("ends")
    try:
        return ending(value if isinstance(value, str) else "")
    except ValueError as problem:
        raise _wrong(given, "ends", f"{'is missing: ' if value is None else ''}{problem}"
                     + ("" if value is None else f", got {entries.kind_of(value)}")) from None


def _yields(given: entries.Entry, ids: Collection[str]) -> tuple[str, ...]:
    value = given.values.get("yields", [])
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise _wrong(given, "yields", f"expected a list of ids of entries, got {entries.kind_of(value)}")
    for name in value:
        if name not in ids or name == given.name:
            raise _wrong(given, "yields", f"there is no other entry {short(name)}{entries.nearest(name, ids)}")
    return tuple(value)


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


def _matched(made: CatalogueEntry, given: entries.Entry) -> None:
    """Raises RulesError for an example that the entry does not know."""
    known = CompiledEntry(made)
    for example in made.examples:
        text = blanked(example)
        if not known.knows(text):
            why = "unless takes out" if made.unless and CompiledEntry(replace(made, unless="")).knows(text) else _why_not(made, text)
            raise _wrong(given, "examples", f"{why} {short(example)}")


def _why_not(made: CatalogueEntry, text: str) -> str:
    if not any(emitter.prefix(text) for emitter in made.emitters):
        return f"none of its emitters ({', '.join(emitter.id for emitter in made.emitters)}) begins"
    if any(Pattern(made.match).begins(text, prefix.end()) >= 0 for one in made.emitters if (prefix := one.prefix(text)) is not None):
        return f"match takes no more than {COMM} characters, which the name of a process may be, of"
    return "match does not match"
