"""Takes the blame for lost NVLinks from a node's GPUs where the whole domain shows that their other end is at
fault.

The links stay findings of the rules that saw them down: they are down. But who acts on them, and how, follows
fleet.nvlink_switch, so that no one resets or exchanges a GPU for a switch tray.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from healthcheck.checks.nvlink_domain import common_links
from healthcheck.facts.nvlink import GpuLinks
from healthcheck.facts.values import Partial, reading
from healthcheck.judge.nodefacts import NodeFacts, members
from healthcheck.model.outcome import Finding, Repair, Result, Status

SWITCH, LINK, COUNT = "fleet.nvlink_switch", "nvlink.active", "fleet.nvlink"
_LINK = re.compile(r"GPU \d+ NVLink (\d+)")
_GPU = re.compile(r"\bGPU (\d+)\b")


def blame_switch(results: Mapping[str, Result], facts: NodeFacts) -> dict[str, Result]:
    """Those of a node's results that change, by rule id."""
    failed = {rule: result for rule, result in results.items() if result.status is Status.FAIL
              and result.check in (SWITCH, LINK, COUNT)}
    switch = next((result for result in failed.values() if result.check == SWITCH), None)
    if switch is None:
        return {}
    common = frozenset[int]().union(*map(common_links, switch.findings))
    held = facts.facts.get("gpu_links")
    gpus = held.value if isinstance(held, Partial) else held
    links = {gpu.index: reading(gpu, "down") for gpu in members(gpus) if isinstance(gpu, GpuLinks)}

    def is_common(check: str, finding: Finding) -> bool:
        if check == LINK:
            match = _LINK.fullmatch(finding.subject)
            return match is not None and int(match[1]) in common
        lost = [links.get(int(number)) for number in _GPU.findall(finding.subject)]
        return bool(lost) and all(isinstance(down, tuple) and common.issuperset(down) for down in lost)

    return {rule: replace(result, findings=tuple([
        replace(finding, remedy=switch.remedy, owner=switch.owner, repair=Repair.INSPECT)
        if is_common(result.check, finding) else finding for finding in result.findings]))
        for rule, result in failed.items() if result is not switch}
