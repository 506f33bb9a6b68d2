"""One packaged rule over the healthy machine with some readings changed, now and at an earlier look."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.boot import EARLIER_BOOT, earlier_boot
from healthcheck.facts.site import PORT_PLANS, PortPlans
from healthcheck.judge.fleetjudge import judge_fleet
from healthcheck.judge.judge import judge
from healthcheck.judge.nodefacts import NodeFacts
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Recording
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleset import Ruleset
from inventory.model import LifecycleState
from tests import packagedrules
from tests.healthcheck import machine

RULESET = packagedrules.RULES
RULES = {rule.id: rule for rule in RULESET.rules}

ERROR = {"error": [999, "Unknown Error"]}
NOT_SUPPORTED = {"na": True}
ALL = range(8)

Raw = Mapping[str, Any]


@cache
def only(*globs: str) -> Ruleset:
    """The packaged rules of these names: to judge all others takes most of the time of a sweep."""
    return RULESET.select(only=globs)


def ids(of: str) -> set[str]:
    """The rules of one file of the packaged folder."""
    return {rule.id for rule in RULESET.rules if rule.origin_file.endswith(f"/{of}")}


def gpus(raw: Raw, which: Iterable[int] = (3,)) -> Recording:
    """The healthy machine, with these readings (values, or whole readings) on some of its GPUs."""
    lines = {key: value if isinstance(value, dict) else {"ok": value} for key, value in raw.items()}
    return machine.recording(gpu_nvml=machine.nvml(**{f"gpu{index}": lines for index in which}))


def after(recording: Recording, seconds: float) -> Recording:
    """The same, seen so much later."""
    assert recording.host is not None
    return replace(recording, host=replace(recording.host, time=recording.host.time + seconds))


def verdict(
    rule: str, now: Recording, earlier: Recording | None = None, *, sku: str = "hgx-h100",
    having: Raw | None = None, **numbers: Any,
) -> Result:
    """What the rule, enabled, says of the recording; `numbers` replace those of the SKU, and `having` what
    the rule sets."""
    known = RULESET.skus[sku]
    chosen = replace(RULES[rule], left_out="",
                     parameters=RULES[rule].parameters if having is None else having)
    snapshot = NodeFacts(_facts(chosen, now, earlier), _facts(chosen, earlier) if earlier else None)
    return judge(chosen, snapshot, replace(known, numbers={**known.numbers, **numbers}))


def status_findings(rule: str, now: Recording, earlier: Recording | None = None,
                    **more: Any) -> tuple[Status, str]:
    """The status of `verdict` and its findings."""
    result = verdict(rule, now, earlier, **more)
    return result.status, findings_of(result)


def status_words(rule: str, now: Recording, earlier: Recording | None = None,
                 **more: Any) -> tuple[Status, str]:
    """The status of `verdict`, and its findings or else its reason."""
    result = verdict(rule, now, earlier, **more)
    return result.status, findings_of(result) or result.reason


def cohort(rule: str, *seen: Recording) -> list[tuple[Status, str]]:
    """What the fleet rule, enabled, says of each of these nodes among each other: status, and findings or
    else reason."""
    chosen = replace(RULES[rule], left_out="")
    nodes = {f"gpu{number:03d}": NodeFacts(_facts(chosen, one)) for number, one in enumerate(seen, 1)}
    return [(result.status, findings_of(result) or result.reason)
            for result in judge_fleet(chosen, nodes).values()]


def _facts(rule: Rule, recording: Recording, earlier: Recording | None = None) -> dict[str, Any]:
    names = set(rule.checked.facts)
    handed: dict[str, Any] = ({PORT_PLANS: PortPlans("port plans", {}, frozenset(), frozenset(), frozenset())}
                              if PORT_PLANS in names else {})
    if EARLIER_BOOT in names:
        handed[EARLIER_BOOT] = earlier_boot(recording, earlier, LifecycleState.SERVICE)
    return handed | {name: build_fact(FACTS[name], Captures(recording)) for name in names
                     if name not in handed}


def findings_of(result: Result) -> str:
    """The findings, one after the other."""
    return "; ".join(f"{found.subject}: {found.observed}, expected {found.expected}"
                     for found in result.findings)
