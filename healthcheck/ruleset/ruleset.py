"""All rules, SKUs and profiles as one value. `load_ruleset` reads it from folders of YAML."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from healthcheck.config.formernames import with_current_names
from healthcheck.model.lease import Lease
from healthcheck.model.outcome import Repair, Result
from healthcheck.model.probes import Probe, ProbeSet
from healthcheck.ruleset import profile as profiling
from healthcheck.ruleset.profile import NodeBudget, Profile
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.sku import Sku
from inventory.errors import UsageError
from inventory.text import short

if TYPE_CHECKING:
    from healthcheck.baseline.kernelrules import KernelRules
    from healthcheck.xid.xidtable import XidTable


@dataclass(frozen=True)
class Ruleset:
    """All rules in the order of their ids, all SKUs and profiles by name, and a digest over the bytes of
    every file read. `baselines` are digests by file of what the kernel log is compared with, tables of Xids
    included.

    `kernel_from` loads the kernel log's catalogue and baselines on demand, `xids_from` the tables of Xids:
    most commands never need them.
    """

    rules: tuple[Rule, ...]
    skus: Mapping[str, Sku]
    digest: str
    profiles: Mapping[str, Profile] = field(default_factory=lambda: MappingProxyType({}))
    xids_from: Callable[[], XidTable | None] | None = None
    kernel_from: Callable[[], KernelRules] | None = None
    baselines: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    @property
    def xids(self) -> XidTable | None:
        """The tables of Xids; raises RulesError for a mistake in their files."""
        return self.xids_from() if self.xids_from is not None else None

    @property
    def kernel(self) -> KernelRules | None:
        """The catalogue and the baselines; raises RulesError for a mistake in their files."""
        return self.kernel_from() if self.kernel_from is not None else None

    @property
    def former(self) -> Mapping[str, str]:
        """The present id by each earlier id of a rule."""
        return {old: rule.id for rule in self.rules for old in rule.formerly}

    @property
    def repairs(self) -> Mapping[str, Repair | None]:
        """What repairs a failure of each rule, by its id; None where the policy decides."""
        return {rule.id: rule.repair for rule in self.rules}

    def select(self, only: Sequence[str] = (), skip: Sequence[str] = ()) -> Ruleset:
        """The same rules, those left out marked; raises UsageError for a glob that matches nothing."""
        only, skip = with_current_names(only, self.former), with_current_names(skip, self.former)
        for pattern in (*only, *skip):
            if not any(fnmatchcase(name, pattern)
                       for name in (*(rule.id for rule in self.rules), *self.former)):
                hint = _nearest(pattern, [rule.id for rule in self.rules])
                raise UsageError(f"no rule matches {pattern!r}{hint}; `muster explain` lists them")
        selected = []
        for rule in self.rules:
            reason = rule.left_out
            if only and not any(fnmatchcase(rule.id, pattern) for pattern in only):
                reason = "left out by --only"
            elif any(fnmatchcase(rule.id, pattern) for pattern in skip):
                reason = "left out by --skip"
            selected.append(replace(rule, left_out=reason))
        if all(rule.left_out for rule in selected):
            raise UsageError("--only and --skip leave no rule to judge")
        return replace(self, rules=tuple(selected))

    def named(self, *profiles: str | None) -> tuple[Profile, ...]:
        """The profiles of these names, each once; raises UsageError for one that is not defined."""
        for name in profiles:
            if name is not None and name not in self.profiles:
                known = f"; there are {', '.join(sorted(self.profiles)) or 'none'}"
                raise UsageError(f"no such profile: {short(name)}{_nearest(name, self.profiles) or known}")
        return tuple(self.profiles[name] for name in dict.fromkeys(profiles) if name is not None)

    def under(self, *profiles: str | None) -> tuple[Rule, ...]:
        """The rules under all these profiles, those left out marked; raises UsageError for an unknown one."""
        held = self.named(*profiles)
        if not held:
            return self.rules
        # Few differ; a copy of each takes longer than all else that a profile asks for.
        return tuple(rule if (reason := profiling.why_left_out(rule, held)) == rule.left_out
                     else replace(rule, left_out=reason) for rule in self.rules)

    def budget(self, profiles: Iterable[str]) -> NodeBudget:
        """What a snapshot may cost a node on an occasion of these profiles."""
        return profiling.budget(self.named(*profiles))

    def allows(self, result: Result, profiles: Iterable[str]) -> bool:
        """Whether this result is an UNKNOWN that does not count on an occasion of these profiles."""
        return profiling.allows(result, self.named(*profiles))

    def probe_set(self, seconds: float, extra: Iterable[Probe] = (), profiles: Iterable[str | None] = (None,),
                  lease: Lease | None = None, occasion: Sequence[str] = ()) -> ProbeSet:
        """The probes of the rules that are judged for nodes of any of these profiles, on an occasion of all
        of those.

        Without a lease none is disruptive. The occasion's budget bounds seconds and CPU.
        """
        judged = [rule for name in set(profiles) for rule in self.under(name, *occasion) if not rule.left_out]
        probes = [probe for rule in judged if lease is not None
                  or not rule.disruptive for probe in rule.probes]
        granted = self.budget(occasion)
        probe_set = ProbeSet.of([*probes, *extra], min(seconds, granted.seconds or seconds), lease)
        return replace(probe_set, cpu_seconds=granted.cpu_seconds)

    def refuse_disruptive(self, only: Sequence[str]) -> None:
        """Raises UsageError for a glob of --only that names disruptive rules only: all would be skipped."""
        for pattern in with_current_names(only, self.former):
            named = [rule for rule in self.rules if fnmatchcase(rule.id, pattern)]
            if named and all(rule.disruptive for rule in named):
                verb = ("is disruptive and needs a lease" if len(named) == 1
                        else "are disruptive and need a lease")
                hint = "muster check --disruptive takes one; --replay judges a recording that holds it"
                raise UsageError(f"{', '.join(rule.id for rule in named)} {verb}: {hint}")


def load_ruleset(folders: Iterable[Path]) -> Ruleset:
    """Reads `*.yaml` of each folder and its sku, profile, kernel, baseline; raises RulesError, UsageError."""
    # A node with compiled rules has neither the folders nor plug-ins.
    from healthcheck.ruleset.rulesetcache import load

    return load(tuple(folders))


def ruleset_of(option: str | None) -> Ruleset:
    """The rules of this machine, and of the folder that --rules names."""
    from healthcheck.config.rulesfolder import folders

    return load_ruleset(folders(option))


def _nearest(word: str, known: Iterable[str]) -> str:
    from healthcheck.config.entry import nearest

    return nearest(word, known)
