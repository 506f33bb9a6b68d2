"""Keeps equal results of judged nodes once: most nodes of a fleet have the same.

What is shared is exactly equal, so it changes no result. Judged in other processes, nothing is shared before.
"""

from __future__ import annotations

from collections.abc import Iterable

from healthcheck.model.outcome import Origin, Result, Status, Unjudged

_Key = tuple[str, Status, str, Origin | None, tuple[Unjudged, ...]]


class SharedResults:
    """The results of one assessment's rules that were kept so far."""

    def __init__(self) -> None:
        self._kept: dict[_Key, Result] = {}

    def once(self, results: Iterable[Result]) -> list[Result]:
        """These results, or in their place equal ones that are kept. Results with findings are a node's own;
        those without a reason are `Rule.passed`, mostly one object already."""
        kept = self._kept
        return [kept.setdefault((one.rule, one.status, one.reason, one.origin, one.unjudged), one)
                if one.reason and not one.findings else one for one in results]
