"""Network devices of which the inventory says that nothing is to be read (`unread`): what a look left out, told beside every result.

A driver asks a restricted adapter's firmware for each such file, is refused, and writes a line into the kernel's log each time
(mlx5_cmd_out_err, ACCESS_REG: leptonai/gpud issue 1164, prometheus/node_exporter issue 3434).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from healthcheck.collector.onnode.system import LEFT_OUT
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture
from healthcheck.ruleset.rule import Rule
from inventory.text import clean

LeftOut = Mapping[str, tuple[str, ...]]
_ADDRESS = re.compile(r"\(([0-9a-f:.]{1,16})\)")


def left_out(captures: Mapping[str, Capture]) -> LeftOut:
    """By probe, the devices that its capture leaves out; mostly empty."""
    noted = [(name, capture.note) for name, capture in captures.items() if capture.note and LEFT_OUT in capture.note]
    return {name: tuple(clean(part.removeprefix(LEFT_OUT), 100) for part in note.split("; ") if part.startswith(LEFT_OUT))
            for name, note in noted}


def addresses(left: LeftOut) -> frozenset[str]:
    """The PCI addresses of all of them."""
    return frozenset(found[1] for devices in left.values() for device in devices if (found := _ADDRESS.search(device)))


def noted(result: Result, rule: Rule, left: LeftOut) -> Result:
    """The result, with what of its probes was left out beside it."""
    if not left or result.status is Status.SKIPPED:
        return result
    devices = tuple(dict.fromkeys(device for probe in rule.probes for device in left.get(probe.id, ())))
    return replace(result, reason="; ".join(part for part in (result.reason, _said(devices)) if part)) if devices else result


def _said(devices: Iterable[str]) -> str:
    return f"not read, as the inventory says: {', '.join(devices)}"
