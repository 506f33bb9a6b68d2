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
from pathlib import Path
from typing import Any

from healthcheck.baseline.catalogue import Catalogue, CompiledEntry
from healthcheck.config import entry as entries
from healthcheck.config import linear
from healthcheck.config.entryvalues import member, pattern, sentence, switch, wrong
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
_NO_EMITTER = (
    "is missing: expected the id of the emitter (emitter/*.yaml), or kernel if a message has no prefix")


def load_catalogue(folders: Iterable[Path], *, proven: Path | None = None) -> Catalogue:
    """The entries of all folders, a later folder's first, in the order of files; raises RulesError. Those of
    the folder `proven` that no other overrides are not tested again for being linear and for their
    examples."""
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
    enabled, ordinary = switch(given, "enabled", True), switch(given, "ordinary", False)
    match, unless = (pattern(given, "match", proven=known),
                     pattern(given, "unless", proven=known) if "unless" in given.values else "")
    own = _emitters(given, emitters)
    if linear.anything_first(match):
        raise wrong(given, "match", "begins with anything: give the text right behind the emitter's prefix")
    needs = linear.required_words(match) or _needs_of(own)
    if not needs:
        raise wrong(given, "match",
                     f"requires no word of {linear.SHORTEST} characters, so it would match too much")
    xid = given.values.get("xid", "")
    if xid not in ("", *TABLES):
        raise wrong(given, "xid", f"expected one of {', '.join(TABLES)}, got {entries.kind_of(xid)}")
    made = CatalogueEntry(
        id=given.name, match=match, unless=unless, severity=member(given, "severity", Severity),
        meaning=sentence(given, "meaning"), remedy=sentence(given, "remedy"),
        owner=member(given, "owner", Owner), source=sentence(given, "source"), examples=_examples(given),
        group=group,
        repair=member(given, "repair", Repair) if "repair" in given.values else None, xid=xid,
        file=given.mark.file, line=given.mark.line, overridden=given.overridden, needs=needs,
        disabled="" if enabled else f"disabled in {display_name(given.marks['enabled'].file)}",
        ordinary=ordinary, emitters=own, ending=_ending(given), yields=_yields(given, ids),
    )
    if not known:
        _check_examples(made, given)
    if made.ordinary and made.severity is not Severity.INFO:
        raise wrong(given, "ordinary",
                     f"needs severity info, not {made.severity.value}: healthy machines write it, too")
    return made


def _emitters(given: entries.Entry, known: Mapping[str, Emitter]) -> tuple[Emitter, ...]:
    value = given.values.get("from")
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise wrong(given, "from", _NO_EMITTER if value is None
                     else f"expected an emitter or a list, got {entries.kind_of(value)}")
    for name in names:
        if name not in known:
            raise wrong(given, "from", f"there is no emitter {short(name)}{entries.nearest(name, known)}")
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
        raise wrong(given, "ends", f"{'is missing: ' if value is None else ''}{problem}"
                     + ("" if value is None else f", got {entries.kind_of(value)}")) from None


def _yields(given: entries.Entry, ids: Collection[str]) -> tuple[str, ...]:
    value = given.values.get("yields", [])
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise wrong(given, "yields", f"expected a list of ids of entries, got {entries.kind_of(value)}")
    for name in value:
        if name not in ids or name == given.name:
            raise wrong(given, "yields",
                         f"there is no other entry {short(name)}{entries.nearest(name, ids)}")
    return tuple(value)




def _examples(given: entries.Entry) -> tuple[str, ...]:
    value: Any = given.values.get("examples")
    lines = value if isinstance(value, list) else []
    if not lines or not all(isinstance(line, str) and 0 < len(line) <= LONGEST_LINE for line in lines):
        missing = "" if "examples" in given.values else "is missing: "
        raise wrong(given, "examples", f"{missing}expected a list of lines that it matches")
    return tuple(value)


def _check_examples(made: CatalogueEntry, given: entries.Entry) -> None:
    """Raises RulesError for an example that the entry does not match."""
    known = CompiledEntry(made)
    for example in made.examples:
        text = blanked(example)
        if not known.knows(text):
            excluded = made.unless and CompiledEntry(replace(made, unless="")).knows(text)
            why = "unless excludes" if excluded else _why_not(made, text)
            raise wrong(given, "examples", f"{why} {short(example)}")


def _why_not(made: CatalogueEntry, text: str) -> str:
    if not any(emitter.prefix(text) for emitter in made.emitters):
        return f"none of its emitters ({', '.join(emitter.id for emitter in made.emitters)}) begins"
    if any(Pattern(made.match).begins(text, prefix.end()) >= 0 for one in made.emitters
           if (prefix := one.prefix(text)) is not None):
        return f"match covers only {COMM} characters, which may be the name of a process, of"
    return "match does not match"
