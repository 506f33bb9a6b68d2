"""One rule of ports or adapters over the healthy machine with some files changed, now and at an earlier look,
with or without a plan."""

from __future__ import annotations

from dataclasses import replace

from healthcheck.model.outcome import Result
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from inventory.model import Node, PortPlan
from tests.healthcheck import machine
from tests.healthcheck.assessing import by_rule
from tests.healthcheck.checks.verdicts import after, only

BASE = "/sys/class/infiniband"
PLANNED = {f"0000:{0x40 + n:02x}:00.0": PortPlan("compute", n) for n in range(8)}


def snapshot(seconds: float = 0.0, **changes: Capture) -> Recording:
    """The machine with these captures, so many seconds after the first look."""
    return after(machine.recording(**changes), seconds)


def of(rule: str, now: Recording, earlier: Recording | None = None, *, sku: str = "hgx-h100",
       **plans: PortPlan) -> Result:
    """What the rule says of the machine as a node of this SKU, with these plans of its ports."""
    return by_rule(now, earlier, rules=only(rule), nodes=[Node("gpu001", sku=sku, ports=plans)])[rule]


def changed(capture: Capture, *paths: str, outcome: Outcome = Outcome.DONE, text: str = "") -> Capture:
    """The capture with these files read otherwise; MISSING takes them out, as the reader does with what a
    pattern does not find."""
    files = {path: held for path, held in capture.files.items() if path not in paths}
    if outcome is not Outcome.MISSING:
        files |= {path: FileCapture(outcome, text) for path in paths}
    return replace(capture, files=files)


def port(number: int, name: str) -> str:
    return f"{BASE}/mlx5_{number}/ports/1/{name}"
