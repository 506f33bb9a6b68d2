"""Adds to the remedies of a node's findings about GPUs where to find them in the racks, if the GPUs know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from healthcheck.facts.nvlink_place import Whereabouts
from healthcheck.model.outcome import Finding, Result, Status
from inventory.text import clean

_GPU = re.compile(r"\bGPU (\d{1,4})\b")
_MOST = 1000    # characters of a remedy


def with_whereabouts(results: Mapping[str, Result], where: Mapping[int, Whereabouts]) -> dict[str, Result]:
    """Those of a node's results, by rule id, whose findings about GPUs now say in their remedy where these
    are: "rack r3, tray 7 of chassis 1821325191344, GPU module 2"."""
    if not where:
        return {}
    return {rule: replace(result, findings=tuple([_placed(finding, result, where)
                                                  for finding in result.findings]))
            for rule, result in results.items() if result.status is Status.FAIL}


def _placed(finding: Finding, result: Result, where: Mapping[int, Whereabouts]) -> Finding:
    modules: dict[str, list[str]] = {}
    for number in map(int, _GPU.findall(finding.subject)):
        if number in where:
            place, module = where[number]
            modules.setdefault(place, []).extend([] if module is None else [str(module)])
    if not modules:
        return finding
    places = [f"{place}, GPU module{'s' if len(here) > 1 else ''} {', '.join(here)}" if here else place
              for place, here in modules.items()]
    text = f"{finding.remedy or result.remedy} Where: {'; '.join(places)}."
    return replace(finding, remedy=clean(text, _MOST), owner=finding.owner or result.owner)
