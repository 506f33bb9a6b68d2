"""Former names of rules: globs that were written before a rule was renamed still match it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase

_WILD = frozenset("*?[")


def with_current_names(globs: Iterable[str], former: Mapping[str, str]) -> tuple[str, ...]:
    """The globs over rule ids, each followed by the ids that it matches by a former name alone.

    `former` gives the id by former id.
    """
    found: list[str] = []
    for glob in globs:
        found += [glob, *_matched_by_former_name(glob, former)]
    return tuple(dict.fromkeys(found))


def renamed(globs: Iterable[str], former: Mapping[str, str]) -> list[str]:
    """A message for each rule that one of the globs matches by a former name alone."""
    return list(dict.fromkeys(f"{old} is now called {new}" for glob in globs
                              for new, old in _matched_by_former_name(glob, former).items()))


def _matched_by_former_name(glob: str, former: Mapping[str, str]) -> dict[str, str]:
    if not _WILD.intersection(glob):    # most are plain ids, which need no pattern
        return {former[glob]: glob} if glob in former else {}
    return {new: old for old, new in former.items() if fnmatchcase(old, glob) and not fnmatchcase(new, glob)}
