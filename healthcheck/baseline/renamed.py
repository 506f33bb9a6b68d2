"""Gives a node another name in baselines: among the learned nodes, and where a template was seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from healthcheck.baseline.file import dump
from healthcheck.baseline.fileload import as_yaml
from healthcheck.config.files import write_whole
from healthcheck.kernellog.model import Baseline, KnownTemplate
from inventory.errors import RulesError
from inventory.nodeset import expand, fold


def rename_in(folders: Iterable[Path], old: str, new: str) -> list[Path]:
    """The files of these rules folders that have the new name now. A file that cannot be read is left as it
    is. Raises OSError."""
    done = []
    for path in sorted(path for folder in folders for path in (folder / "baseline").glob("*.yaml")):
        try:
            before, _ = as_yaml(path)
        except RulesError:      # whoever uses it says what is wrong with it
            continue
        after = renamed(before, old, new)
        if after != before:
            write_whole(path, dump(after).encode(), path.stat().st_mode & 0o777)
            done.append(path)
    return done


def renamed(baseline: Baseline, old: str, new: str) -> Baseline:
    """The baseline with the new name; the boots of both, where both were learned."""
    boots = dict(baseline.learned_boots)
    if old in boots:
        both = (*boots.pop(old), *boots.get(new, ()))
        boots[new] = tuple(dict.fromkeys(both))

    def entries(held: Mapping[str, KnownTemplate]) -> dict[str, KnownTemplate]:
        return {text: replace(one, on=_on(one.on, old, new)) for text, one in held.items()}

    return replace(baseline, learned_boots=boots, known=entries(baseline.known),
                   proposed=entries(baseline.proposed), expired=entries(baseline.expired))


def _on(nodes: str, old: str, new: str) -> str:
    names = expand(nodes) if nodes else ()
    return fold(new if name == old else name for name in names) if old in names else nodes
