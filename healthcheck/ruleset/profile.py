"""Profiles: which rules are judged on which nodes or on which occasion, what that may cost, and whether
UNKNOWN counts then.

A node's own profile, in the inventory, says what cannot be measured there (`unprivileged`). A profile of the
command line belongs to the occasion (`bringup`, `timer`, `gate`). A rule is judged where neither leaves it
out. Budget and policy on UNKNOWN belong to the occasion alone; the strictest of several holds.

    profile: timer
    only: [gpu-*, port-*]                 # judge these and no others
    leave_out: [docker-*]                 # except these
    enable: [gpu-idle]                    # and rules that are `enabled: false` otherwise
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
    """Whether an UNKNOWN blocks as a failure does, or does not count."""

    BLOCK = "block"
    ALLOW = "allow"


@dataclass(frozen=True)
class OnUnknown:
    """A profile's policy on UNKNOWN by its origin; the first matching glob of `rules` overrides it."""

    node: UnknownPolicy = UnknownPolicy.BLOCK
    muster: UnknownPolicy = UnknownPolicy.BLOCK
    rules: tuple[tuple[str, UnknownPolicy], ...] = ()

    def allows(self, result: Result) -> bool:
        """Whether this result is UNKNOWN and does not count."""
        if result.status is not Status.UNKNOWN:
            return False
        for glob, policy in self.rules:
            if fnmatchcase(result.rule, glob):
                return policy is UnknownPolicy.ALLOW
        return (self.muster if result.origin is Origin.MUSTER else self.node) is UnknownPolicy.ALLOW


@dataclass(frozen=True)
class NodeBudget:
    """What one snapshot may cost a node: seconds, and CPU seconds of the collector and its children."""

    seconds: float | None = None
    cpu_seconds: float | None = None


@dataclass(frozen=True)
class Profile:
    """Globs over rule ids, a budget, and the policy on UNKNOWN (None: it has none). `file` defines it."""

    name: str
    title: str
    only: tuple[str, ...]
    leave_out: tuple[str, ...]
    enable: tuple[str, ...]
    budget: NodeBudget
    unknown: OnUnknown | None
    file: str

    def leaves_out(self, rule: str) -> bool:
        """Whether it leaves out the rule of this id."""
        return (bool(self.only) and not _among(rule, self.only)) or _among(rule, self.leave_out)

    def enables(self, rule: Rule) -> bool:
        """Whether it enables a disabled rule. A disruptive rule must be named in full."""
        return rule.id in self.enable or (rule.effect is Effect.PASSIVE and _among(rule.id, self.enable))


def why_left_out(rule: Rule, profiles: Iterable[Profile]) -> str:
    """Why the rule is not judged under all of these profiles together; empty if it is."""
    profiles = tuple(profiles)
    enabled = rule.left_out == rule.disabled and any(profile.enables(rule) for profile in profiles)
    if rule.left_out and not enabled:
        return rule.left_out
    return next(
        (f"left out by profile {profile.name}" for profile in profiles if profile.leaves_out(rule.id)), "")


def budget(profiles: Iterable[Profile]) -> NodeBudget:
    """The smallest budget of them all."""
    budgets = [profile.budget for profile in profiles]
    return NodeBudget(
        min((b.seconds for b in budgets if b.seconds is not None), default=None),
        min((b.cpu_seconds for b in budgets if b.cpu_seconds is not None), default=None),
    )


def allows(result: Result, profiles: Iterable[Profile]) -> bool:
    """Whether this UNKNOWN does not count: some profile allows it, and none with a policy blocks it."""
    policies = [profile.unknown for profile in profiles if profile.unknown is not None]
    return bool(policies) and all(policy.allows(result) for policy in policies)


def _among(rule: str, globs: Iterable[str]) -> bool:
    return any(fnmatchcase(rule, glob) for glob in globs)
