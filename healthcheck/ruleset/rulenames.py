"""What a policy asks of rules: their ids, their earlier ids, their repairs, and the names of profiles.

Commands that judge no snapshot read only this. It takes no check, so a rule that its check would refuse is
refused by the commands that judge.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from healthcheck.config.entry import Entry, overlay
from healthcheck.config.rulesfolder import NOT_RULES
from healthcheck.model.outcome import Repair
from healthcheck.ruleset.ruleentries import PROFILE_KEYS, RuleEntries, former_ids, member, whole_file


class KnownRules(Protocol):
    """A Ruleset is one, and RuleNames is the part that is read without checks. `repairs` has every rule by
    its id, None where the policy decides; `former` the present id by each earlier one."""

    @property
    def repairs(self) -> Mapping[str, Repair | None]: ...
    @property
    def former(self) -> Mapping[str, str]: ...
    @property
    def profiles(self) -> Collection[str]: ...


@dataclass(frozen=True)
class RuleNames:
    """See `KnownRules`."""

    repairs: Mapping[str, Repair | None]
    former: Mapping[str, str]
    profiles: Collection[str]


def read_rule_names(folders: Iterable[Path]) -> RuleNames:
    """Reads the rules and profiles of these folders; raises RulesError, UsageError."""
    rules = RuleEntries()
    profiles: dict[str, Entry] = {}
    for folder in folders:
        for path in sorted(folder.glob("*.yaml")):
            if path.name not in NOT_RULES:
                rules.lay(path)
        for path in sorted((folder / "profile").glob("*.yaml")):
            overlay(profiles, whole_file(path, PROFILE_KEYS, "profile"), "profile")
    found = rules.all()
    return RuleNames(
        {name: member(Repair, found[name], "repair", None) if "repair" in found[name].values else None
         for name in sorted(found)},
        {old: name for name, entry in found.items() for old in former_ids(entry)}, frozenset(profiles))
