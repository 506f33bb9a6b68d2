"""What a sweep is judged by, as digests: each rule and SKU, what the kernel's log is held against,
and muster itself. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.store.versions import Version


def judged_by(ruleset: Ruleset, muster: str) -> tuple[Version, ...]:
    """All of it; `muster` is the version that runs. Of a rule only what can change its result counts,
    and of a SKU all but its words."""
    return tuple(_all(ruleset, muster))


def _all(ruleset: Ruleset, muster: str) -> Iterator[Version]:
    yield Version("muster", "muster", muster)
    for rule in ruleset.rules:
        yield Version("rule", rule.id,
                      _digest(rule.checked.name, sorted(rule.parameters.items()), rule.unsupported.value))
    for name, sku in sorted(ruleset.skus.items()):
        yield Version("sku", name,
                      _digest(sorted(sku.numbers.items()), sorted(sku.empty), sorted(sku.ports.items())))
    for name, digest in sorted(ruleset.baselines.items()):
        yield Version("baseline", name, digest)


def _digest(*said: object) -> str:
    return hashlib.sha256(repr(said).encode()).hexdigest()[:16]
