"""Names that rules had: what people wrote before a rule was renamed still means that rule."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase


def in_todays_names(globs: Iterable[str], former: Mapping[str, str]) -> tuple[str, ...]:
    """The globs over the ids of rules, each followed by the ids that it matches by a former name alone (`former`: id by former id)."""
    found: list[str] = []
    for glob in globs:
        found += [glob, *_meant(glob, former)]
    return tuple(dict.fromkeys(found))


def renamed(globs: Iterable[str], former: Mapping[str, str]) -> list[str]:
    """For whoever typed the globs, a line for each rule that one of them matches by a former name alone."""
    return list(dict.fromkeys(f"{old} is called {new} now" for glob in globs for new, old in _meant(glob, former).items()))


def _meant(glob: str, former: Mapping[str, str]) -> dict[str, str]:
    return {new: old for old, new in former.items() if fnmatchcase(old, glob) and not fnmatchcase(new, glob)}
