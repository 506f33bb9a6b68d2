"""Keeps equal parts of judged nodes once: most nodes of a fleet have the same results and many equal facts.

What is shared is exactly equal, so it changes no result. Judged in other processes, nothing is shared before.
"""

from __future__ import annotations

import pickle
from collections import ChainMap
from collections.abc import Mapping, MutableMapping
from hashlib import blake2b
from typing import Any

from healthcheck.facts.base import FACTS
from healthcheck.model.outcome import Origin, Result, Status, Unjudged

_Key = tuple[str, Status, str, Origin | None, tuple[Unjudged, ...]]


class SharedParts:
    """The parts that were kept so far; each method returns the kept one that equals what it was given."""

    def __init__(self) -> None:
        self._results: dict[_Key, Result] = {}
        self._first: dict[tuple[str, ...], dict[str, Result]] = {}
        self._whole: dict[tuple[int, ...], tuple[Result, ...]] = {}
        self._facts: dict[bytes, Any] = {}
        self._kept: dict[tuple[int, ...], Any] = {}     # by the ids of its members, or its own

    def result(self, result: Result) -> Result:
        """A result of this assessment's rules; one with findings is its node's own."""
        if result.findings:
            return result
        return self._results.setdefault(
            (result.rule, result.status, result.reason, result.origin, result.unjudged), result)

    def results(self, results: Mapping[str, Result]) -> MutableMapping[str, Result]:
        """Results by rule: those of the first node with the same rules, and beside them what differs."""
        first = self._first.get(tuple(results))
        if first is None:
            first = self._first[tuple(results)] = {rule: self.result(one) for rule, one in results.items()}
        differing = {rule: self.result(one) for rule, one in results.items() if one is not first[rule]}
        return ChainMap({rule: one for rule, one in differing.items() if one is not first[rule]}, first)

    def whole(self, results: tuple[Result, ...]) -> tuple[Result, ...]:
        """All results of a node in the order of rules."""
        shared = tuple(map(self.result, results))
        if any(result.findings for result in shared):
            return shared
        return self._whole.setdefault(tuple(map(id, shared)), shared)

    def facts(self, facts: Mapping[str, Any]) -> dict[str, Any]:
        """Facts by name. A collection that is its node's own shares its members."""
        return {name: self._fact(fact) if name in FACTS else fact for name, fact in facts.items()}

    def _fact(self, fact: Any) -> Any:
        # Made of what is kept it is kept itself: mostly it came from the cache of facts.
        known = self._kept.get(_ids(fact))
        return self._by_content(fact) if known is None else known

    def _by_content(self, fact: Any) -> Any:
        try:
            content = pickle.dumps(fact, pickle.HIGHEST_PROTOCOL)
        except Exception:  # noqa: BLE001  (a plug-in's fact may hold anything; then it is its node's own)
            return fact
        key = blake2b(content, digest_size=16).digest()
        known = self._facts.get(key)
        if known is None:
            known = tuple(map(self._fact, fact)) if type(fact) is tuple else fact
            self._facts[key] = self._kept[_ids(known)] = known
        return known


def _ids(fact: Any) -> tuple[int, ...]:
    return (0, *map(id, fact)) if type(fact) is tuple else (id(fact),)
