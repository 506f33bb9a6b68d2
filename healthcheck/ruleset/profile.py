"""Profiles: which rules are judged on what nodes or on what occasion, what that may cost, and what an UNKNOWN is worth then.

A node's own profile, in the inventory, says what cannot be asked of it (`unprivileged`). A profile of the command line is of the
occasion (`bringup`, `timer`, `gate`). Both count for which rules are judged: what either leaves out is left out. Budget and the word on
UNKNOWN are of the occasion alone, and the strictest of several holds.

    profile: timer
    only: [gpu-*, port-*]                 # judge these and no others
    leave_out: [docker-*]                 # and of them not these
    enable: [gpu-idle]                    # rules that are `enabled: false` otherwise
    budget: {seconds: 20, cpu_seconds: 2}
    unknown: {node: block, muster: allow, rules: {kernel-*: allow}}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from healthcheck.model.outcome import Origin, Result, Status
from healthcheck.model.probes import Effect
from healthcheck.ruleset.rule import Rule


class UnknownPolicy(Enum):
    """What an UNKNOWN is worth: it blocks as a failure would, or it does not count."""

    BLOCK = "block"
    ALLOW = "allow"


@dataclass(frozen=True)
class OnUnknown:
    """A profile's word on UNKNOWN by its origin; `rules` are globs that know better, the first that matches."""

    node: UnknownPolicy = UnknownPolicy.BLOCK
    muster: UnknownPolicy = UnknownPolicy.BLOCK
    rules: tuple[tuple[str, UnknownPolicy], ...] = ()

    def allows(self, result: Result) -> bool:
        """Whether this result is UNKNOWN and does not count."""
        if result.status is not Status.UNKNOWN:
            return False
        for glob, word in self.rules:
            if fnmatchcase(result.rule, glob):
                return word is UnknownPolicy.ALLOW
        return (self.muster if result.origin is Origin.MUSTER else self.node) is UnknownPolicy.ALLOW


@dataclass(frozen=True)
class NodeBudget:
    """What one look may cost a node: seconds on the clock, and seconds of CPU for the collector and all that it starts."""

    seconds: float | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class Profile:
    """Globs over the ids of rules, a budget, and the word on UNKNOWN (None: it has none). `file` is where it is from."""

    name: str
    title: str
    only: tuple[str, ...]
    leave_out: tuple[str, ...]
    enable: tuple[str, ...]
    budget: NodeBudget
    unknown: OnUnknown | None
    file: str

    def leaves_out(self, rule: str) -> bool:
        """Whether it wants nothing of the rule of this id."""
        return (bool(self.only) and not _among(rule, self.only)) or _among(rule, self.leave_out)

    def enables(self, rule: Rule) -> bool:
        """Whether it judges a rule that is disabled otherwise. What is disruptive must be named in full."""
        return rule.id in self.enable or (rule.effect is Effect.PASSIVE and _among(rule.id, self.enable))


def chosen(rule: Rule, profiles: Iterable[Profile]) -> str:
    """Why the rule is not judged under all of these profiles together; empty if it is."""
    profiles = tuple(profiles)
    if rule.left_out and not (rule.left_out == rule.disabled and any(profile.enables(rule) for profile in profiles)):
        return rule.left_out
    return next((f"left out by profile {profile.name}" for profile in profiles if profile.leaves_out(rule.id)), "")


def budget(profiles: Iterable[Profile]) -> NodeBudget:
    """The least that any of them grants."""
    budgets = [profile.budget for profile in profiles]
    return NodeBudget(
        min((b.seconds for b in budgets if b.seconds is not None), default=None),
        min((b.cpu_seconds for b in budgets if b.cpu_seconds is not None), default=None),
    )


def allows(result: Result, profiles: Iterable[Profile]) -> bool:
    """Whether this UNKNOWN does not count on this occasion: some profile allows it, and none that has a word on it blocks it."""
    words = [profile.unknown for profile in profiles if profile.unknown is not None]
    return bool(words) and all(word.allows(result) for word in words)


def _among(rule: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(rule, glob) for glob in globs)
