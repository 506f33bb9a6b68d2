"""Reads baselines: `baseline/*.yaml` of the rules folders, or one file; RulesError names file, line and key.

A later folder's file replaces an earlier one of the same name. An approved template that the catalogue knows
as a fault is refused, so that no edit of a file hides one: a template must be that of its example, and the
example is looked up in the catalogue. If other masks made a file's templates, they are made again from the
examples.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from healthcheck.baseline import filefast
from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.filedocument import baseline as document_to_baseline
from healthcheck.baseline.flags import known_fault
from healthcheck.kernellog.masking import VERSION, templates
from healthcheck.kernellog.model import Baseline, CatalogueEntry, KnownTemplate
from inventory.errors import Mark, RulesError
from inventory.located import MAX_BYTES, load_yaml, parse_yaml
from inventory.text import short


def load_baselines(folders: Iterable[Path], catalogue: Catalogue) -> tuple[Baseline, ...]:
    """Those of all rules folders, by name; raises RulesError for a mistake or an approved known fault."""
    paths = {path.stem: path for folder in folders for path in sorted((folder / "baseline").glob("*.yaml"))}
    return tuple(load(paths[name], catalogue) for name in sorted(paths))


def load(path: Path, catalogue: Catalogue) -> Baseline:
    """The baseline of one file, named as the file is; raises RulesError."""
    quick = quickly(path)
    if quick is not None and not _other_examples(quick) and not _known_faults(quick, catalogue):
        return quick
    made, marks = as_yaml(path)
    for one, other in _other_examples(made):
        raise RulesError(
            f"template: expected that of the example, {short(other)}, got {short(one.template)}: was one of "
            "them edited? remove the entry and learn it again: muster baseline learn --merge",
            marks[one.template])
    if held := _known_faults(made, catalogue):
        known, fault = held[0]
        more = f", as {len(held) - 1} more are" if len(held) > 1 else ""
        raise RulesError(
            f"template: {short(known.template)} is a known fault, {fault.id} of the catalogue{more}, and no "
            f"baseline can accept one: remove the entry; `muster explain kernel {fault.id}` says why",
            marks[known.template])
    return made


def as_yaml(path: Path) -> tuple[Baseline, Mapping[str, Mark]]:
    """The file's baseline, known faults included, and where each template stands; raises RulesError."""
    document = load_yaml(path, error=RulesError)
    made, marks = document_to_baseline(document, path)
    return (made, marks) if document.get("masks", VERSION) == VERSION else _masked_anew(made, marks)


def quickly(path: Path) -> Baseline | None:
    """The same if the file is as muster writes it; else None."""
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        parts = filefast.split(path.read_text(encoding="utf-8"))
        if parts is None:
            return None
        document = parse_yaml(parts[0], str(path), error=RulesError)
        if document.get("masks") != VERSION:
            return None
        held, _ = document_to_baseline(document, path)
    except (OSError, ValueError, AttributeError, RulesError):
        return None
    found = filefast.entries(parts[1], held)
    return None if found is None else replace(held, known=found[0], proposed=found[1])


def _known_faults(baseline: Baseline, catalogue: Catalogue) -> list[tuple[KnownTemplate, CatalogueEntry]]:
    """Approved templates that are known faults, with the catalogue's entry."""
    return [(one, fault) for one in baseline.known.values() if (fault := known_fault(one.example, catalogue))]


def _other_examples(baseline: Baseline) -> list[tuple[KnownTemplate, str]]:
    """The entries whose example has another template, with that template."""
    entries = [*baseline.known.values(), *baseline.proposed.values()]
    made = templates([one.example for one in entries])
    return [(one, other) for one, other in zip(entries, made, strict=True) if other != one.template]


def _masked_anew(baseline: Baseline, marks: Mapping[str, Mark]) -> tuple[Baseline, dict[str, Mark]]:
    """The same with the templates of the current masks. Of two that are one now, that of more boots stays."""
    places: dict[str, Mark] = {}

    def anew(held: Mapping[str, KnownTemplate], besides: Iterable[str]) -> dict[str, KnownTemplate]:
        entries = sorted(held.values(), key=lambda one: one.boots)
        made = dict(zip(templates([one.example for one in entries]), entries, strict=True))
        places.update((text, marks[one.template]) for text, one in made.items())
        return {text: replace(made[text], template=text) for text in sorted(made) if text not in besides}

    known = anew(baseline.known, ())
    return replace(baseline, known=known, proposed=anew(baseline.proposed, known)), places
