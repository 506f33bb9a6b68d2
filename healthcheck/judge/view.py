"""What the rules for nodes of one profile need, computed once for all those nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.checks.base import Check
from healthcheck.facts.base import FACTS
from healthcheck.facts.boot import EARLIER_BOOT
from healthcheck.facts.pci import PCI_BUS
from healthcheck.facts.seen_before import CHECKS as UNUSUAL
from healthcheck.facts.seen_before import SEEN_BEFORE
from healthcheck.facts.unanswered import UNANSWERED
from healthcheck.judge.judge import result
from healthcheck.model.coverage import RequestedProbes
from healthcheck.model.lease import NEEDED
from healthcheck.model.outcome import Result, Status
from healthcheck.model.probes import Effect, Needs
from healthcheck.ruleset import sku as skus
from healthcheck.ruleset.rule import Rule

LOG_FACTS = frozenset(("kernel_log", "kernel_events", "xids"))


@dataclass(frozen=True)
class ProfileRules:
    """The rules for nodes of one profile, and what the judged ones need."""

    rules: tuple[Rule, ...]
    judged: tuple[Rule, ...]
    single: tuple[Rule, ...]            # judged rules that need one node only
    left_out: Mapping[str, Result]      # the results of rules that are not judged
    unleased: Mapping[str, Result]      # the results of disruptive rules whose probes were not sent
    facts: frozenset[str]
    passive_facts: frozenset[str]       # those of the facts that passive rules take
    log_rules: tuple[Rule, ...]         # judged rules that find faults in the kernel log
    fleet_facts: frozenset[str]         # what fleet rules take
    fleet_fields: Mapping[str, frozenset[str]]      # by fact all the fields that they read, where they say so
    disruptive_probes: frozenset[str]
    previous: frozenset[str]            # facts of the earlier snapshot
    keeps_history: bool                 # whether one takes what is kept beside earlier snapshots
    learned: frozenset[str]             # facts from which a SKU's numbers are learned
    requested: RequestedProbes
    previous_probes: Mapping[str, tuple[str, ...]]      # for each of `previous` the probes that capture it

    @classmethod
    def of(cls, rules: tuple[Rule, ...]) -> ProfileRules:
        """From all rules, with those that are left out."""
        judged = tuple(rule for rule in rules if not rule.left_out)
        disruptive = tuple(rule for rule in judged if rule.disruptive)
        facts = {name for rule in judged for name in rule.fact_names if name in FACTS}
        passive = {name for rule in judged if not rule.disruptive
                   for name in rule.fact_names if name in FACTS}
        # A SKU is compared with the GPUs on the PCI bus as well, whose probe comes with them.
        facts, passive = (names | {PCI_BUS} if "gpus" in facts else names for names in (facts, passive))
        # The report says beside the findings how much of the log was judged.
        facts, passive = (names | {"kernel_log"} if LOG_FACTS & names else names
                          for names in (facts, passive))
        previous = frozenset(name for rule in judged for name in rule.checked.earlier)
        return cls(
            rules, judged, tuple(rule for rule in judged if not rule.checked.fleet),
            {rule.id: result(rule, Status.SKIPPED, reason=rule.left_out) for rule in rules if rule.left_out},
            {rule.id: result(rule, Status.SKIPPED, reason=NEEDED) for rule in disruptive}, frozenset(facts),
            frozenset(passive), tuple(rule for rule in judged if rule.check not in UNUSUAL
                                      and not LOG_FACTS.isdisjoint(rule.fact_names)),
            frozenset(name for rule in judged if rule.checked.fleet for name in rule.fact_names),
            _fleet_fields([rule.checked for rule in judged if rule.checked.fleet]),
            frozenset(probe.id for rule in disruptive for probe in rule.disruptive), previous,
            any(name in rule.fact_names for rule in judged
                for name in (EARLIER_BOOT, SEEN_BEFORE, UNANSWERED)),
            frozenset(fact for rule in judged for number in rule.numbers
                      for fact in skus.LEARNED_FROM.get(number, ())),
            RequestedProbes.of(tuple({probe.id: probe for rule in judged for probe in rule.probes
                                      if probe.effect is Effect.PASSIVE}.values())),
            {name: tuple(probe.id for probe in FACTS[name].probes
                         if probe.needs is not Needs.NVIDIA_UNANSWERED) for name in previous})


def _fleet_fields(checks: Iterable[Check]) -> dict[str, frozenset[str]]:
    """By fact the fields that these fleet checks read; without facts of which one may read any."""
    found: dict[str, set[str]] = {}
    whole = set[str]()
    for check in checks:
        whole.update(check.facts if not check.reads else set(check.facts) - {check.subject})
        found.setdefault(check.subject, set()).update(check.reads)
    return {name: frozenset(fields) for name, fields in found.items() if name not in whole}
