"""What the rules for nodes of one profile need, found out once for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from healthcheck.facts.base import FACTS
from healthcheck.facts.boot import EARLIER_BOOT
from healthcheck.facts.pci import PCI_BUS
from healthcheck.facts.seen_before import CHECKS as UNUSUAL
from healthcheck.facts.seen_before import SEEN_BEFORE
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
    """The rules for nodes of one profile, and what those that are judged need."""

    rules: tuple[Rule, ...]
    judged: tuple[Rule, ...]
    alone: tuple[Rule, ...]         # of those judged the ones that need no other node
    disruptive: tuple[Rule, ...]    # the ones that are judged where their probes were sent
    left_out: Mapping[str, Result]
    unasked: Mapping[str, Result]   # what disruptive rules say where they were not
    facts: frozenset[str]
    undisturbed: frozenset[str]     # those of the facts that are left where no disruptive probe was captured
    of_log: tuple[Rule, ...]        # those judged that know faults by the kernel's log
    fleet_facts: frozenset[str]     # those that rules which see all nodes take
    fleet_previous: frozenset[str]  # and of the earlier look
    disruptive_probes: frozenset[str]
    previous: frozenset[str]
    kept: bool                      # whether one takes what earlier looks are kept with
    learned: frozenset[str]
    asked: RequestedProbes
    looked: tuple[tuple[str, tuple[str, ...]], ...]     # those of `previous`, each with the probes without which a look did not look for it

    @classmethod
    def of(cls, rules: tuple[Rule, ...]) -> ProfileRules:
        """Of all rules, with those that are left out."""
        judged = tuple(rule for rule in rules if not rule.left_out)
        disruptive = tuple(rule for rule in judged if rule.disruptive)
        passive = {name for rule in judged if not rule.disruptive for name in rule.fact_names if name in FACTS}
        facts = passive | {name for rule in disruptive for name in rule.fact_names if name in FACTS}
        # What GPUs there are is asked of the bus as well, whose probe comes with them.
        facts, passive = (names | {PCI_BUS} if "gpus" in facts else names for names in (facts, passive))
        # What of the log was judged is told beside what is found in it.
        facts, passive = (names | {"kernel_log"} if LOG_FACTS & names else names for names in (facts, passive))
        previous = _of_earlier(judged)
        return cls(
            rules, judged, tuple(rule for rule in judged if not rule.checked.fleet), disruptive,
            {rule.id: result(rule, Status.SKIPPED, reason=rule.left_out) for rule in rules if rule.left_out},
            {rule.id: result(rule, Status.SKIPPED, reason=NEEDED) for rule in disruptive},
            frozenset(facts), frozenset(passive),
            tuple(rule for rule in judged if rule.checked.name not in UNUSUAL and not LOG_FACTS.isdisjoint(rule.fact_names)),
            frozenset(name for rule in judged if rule.checked.fleet for name in rule.fact_names),
            _of_earlier(rule for rule in judged if rule.checked.fleet),
            frozenset(probe.id for rule in disruptive for probe in rule.disruptive),
            previous,
            any(name in rule.fact_names for rule in judged for name in (EARLIER_BOOT, SEEN_BEFORE)),
            frozenset(fact for rule in judged for number in rule.numbers for fact in skus.LEARNED_FROM.get(number, ())),
            RequestedProbes.of(tuple({probe.id: probe for rule in judged for probe in rule.probes
                                      if probe.effect is Effect.PASSIVE}.values())),
            tuple((name, tuple(probe.id for probe in FACTS[name].probes if probe.needs is not Needs.NVIDIA_UNANSWERED))
                  for name in previous),
        )


def _of_earlier(rules: Iterable[Rule]) -> frozenset[str]:
    """The facts of an earlier look that rules take."""
    return frozenset(name for rule in rules for name in rule.checked.earlier)
