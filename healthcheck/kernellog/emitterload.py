"""Reads the emitters of kernel logs from `emitter/*.yaml` of the rules folders; RulesError names the place.

    - id: nvme
      begins: 'nvme nvme\\d+: '      # the start of each of its messages; linear.py documents what is refused
      subsystems: [nvme]            # SUBSYSTEM= of its records in /dev/kmsg; optional
      source: Linux drivers/nvme/host/core.c

A later folder overrides an earlier one by id, key by key.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from healthcheck.config import entry as entries
from healthcheck.config import linear
from healthcheck.config.entryvalues import check_pattern, wrong
from healthcheck.kernellog.emitter import CORE, KERNEL, Emitter
from inventory.errors import Mark, RulesError
from inventory.located import LocatedList, load_yaml

KEYS = ("id", "begins", "subsystems", "source")
_LONGEST = 500


def load_emitters(folders: Iterable[Path]) -> Mapping[str, Emitter]:
    """The emitters of all folders by id, with the core kernel's; raises RulesError."""
    found: dict[str, entries.Entry] = {}
    for folder in folders:
        for path in sorted((folder / "emitter").glob("*.yaml")):
            document = load_yaml(path, error=RulesError)
            if not isinstance(document, LocatedList):
                raise RulesError(f"expected a list of emitters, got {entries.kind_of(document)}",
                                 Mark(str(path), 1, 1))
            for at, item in enumerate(document):
                given = entries.entry_of(item, KEYS, "id", document.value_marks[at], "emitter")
                held = found.get(given.name)
                if held is not None and Path(held.mark.file).parent == path.parent:
                    raise RulesError(f"emitter {given.name} is defined twice; the first is at {held.mark}",
                                     given.mark)
                if given.name == CORE:
                    raise RulesError(f"emitter {CORE}: is built in: the core of the kernel has no prefix",
                                     given.mark)
                entries.overlay(found, given, "id")
    return {CORE: KERNEL, **{name: _emitter(given) for name, given in found.items()}}


def _emitter(given: entries.Entry) -> Emitter:
    begins, source, subsystems = (given.values.get(key) for key in ("begins", "source", "subsystems"))
    if not isinstance(begins, str) or not begins or len(begins) > _LONGEST:
        raise wrong(given, "begins", f"expected a regular expression of 1 to {_LONGEST} characters, got "
                                      f"{entries.kind_of(begins)}")
    check_pattern(given, "begins", begins)
    if re.compile(begins, re.ASCII).match("") is not None or linear.anything_first(begins):
        raise wrong(given, "begins", "must begin with text that the emitter always writes")
    if not isinstance(source, str) or not source.strip():
        raise wrong(given, "source", f"expected where the prefix is written, got {entries.kind_of(source)}")
    return Emitter(given.name, begins, source, _words(given, subsystems))


def _words(given: entries.Entry, value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not value or not all(isinstance(word, str) and word for word in value):
        raise wrong(given, "subsystems", f"expected a list of names, as [pci], got {entries.kind_of(value)}")
    return tuple(value)
