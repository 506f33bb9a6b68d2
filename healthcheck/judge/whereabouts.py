"""Adds to the remedies of a node's findings about GPUs where to find them in the racks, if the GPUs know."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from healthcheck.model.outcome import Finding, Result, Status
from inventory.text import clean

_GPU = re.compile(r"\bGPU (\d{1,4})\b")
_MOST = 1000    # characters of a remedy


def with_whereabouts(result: Result, where: Mapping[int, str]) -> Result:
    """The result, whose findings about GPUs say in their remedy where each is: "It is in rack r3, tray 7, GPU
    module 2."""
    if result.status is not Status.FAIL:
        return result
    return replace(result, findings=tuple([_placed(finding, result, where)
                                           for finding in result.findings]))


def _placed(finding: Finding, result: Result, where: Mapping[int, str]) -> Finding:
    numbers = map(int, _GPU.findall(finding.subject))
    places = list(dict.fromkeys(where[number] for number in numbers if number in where))
    if not places:
        return finding
    text = (f"{finding.remedy or result.remedy} {'It is' if len(places) == 1 else 'They are'} in "
            f"{'; '.join(places)}.")
    return replace(finding, remedy=clean(text, _MOST), owner=finding.owner or result.owner)
