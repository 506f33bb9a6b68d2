"""Network devices that the inventory tells us not to read (`unread`): what a snapshot left out, noted beside
every result.

A driver asks a restricted adapter's firmware for each such file, is refused, and logs a kernel line each time
(mlx5_cmd_out_err, ACCESS_REG: leptonai/gpud issue 1164, prometheus/node_exporter issue 3434).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from healthcheck.collector.onnode.system import LEFT_OUT
from healthcheck.model.outcome import Result, Status, Unjudged
from healthcheck.model.recording import Capture
from healthcheck.ruleset.rule import Rule
from inventory.text import clean

LeftOut = Mapping[str, tuple[str, ...]]
_ADDRESS = re.compile(r"\(([0-9a-f:.]{1,16})\)")


def left_out(captures: Mapping[str, Capture]) -> LeftOut:
    """By probe, the devices that its capture left out; mostly empty."""
    return {name: tuple(clean(part.removeprefix(LEFT_OUT), 100) for part in capture.note.split("; ")
                        if part.startswith(LEFT_OUT))
            for name, capture in captures.items() if LEFT_OUT in capture.note}


def addresses(left: LeftOut) -> frozenset[str]:
    """The PCI addresses of all these devices."""
    return frozenset(found[1] for devices in left.values() for device in devices
                     if (found := _ADDRESS.search(device)))


def with_left_out(result: Result, rule: Rule, left: LeftOut) -> Result:
    """The result; its reason also names the devices that the rule's probes left out."""
    devices = dict.fromkeys(device for probe in rule.probes for device in left.get(probe.id, ()))
    if not devices or result.status is Status.SKIPPED:
        return result
    note = f"not read, as the inventory says: {', '.join(devices)}"
    unjudged = (*result.unjudged, Unjudged(note, note=True)) if result.unjudged else ()
    return replace(result, reason=f"{result.reason}; {note}" if result.reason else note, unjudged=unjudged)
