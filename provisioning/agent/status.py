"""The status of agents on nodes: a line each, and their versions by node set; or one document."""

from __future__ import annotations

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import click

from healthcheck.model import agentfault
from healthcheck.model.agentversion import agent_version
from inventory.nodeset import fold
from inventory.reasons import fold_reasons
from inventory.text import clean
from provisioning.agent.install import AgentResult

REFUSED = "not accepted"
_LONGEST = 1e12     # seconds


@dataclass(frozen=True)
class AgentStatus:
    """One node's agent. `trouble` is what is wrong with it, or empty; `answered` is False where it could not
    be asked; `age` is in seconds by the node's clock, None without a readable result."""

    node: str
    answered: bool
    installed: str | None = None
    previous: str | None = None
    version: str | None = None
    period: float | None = None
    state: str | None = None
    age: float | None = None
    timer: str | None = None
    python: str | None = None
    machine: str | None = None
    exporter: str | None = None
    trouble: str = ""


def status(done: AgentResult) -> AgentStatus:
    """What a node reported of its agent, which may be anything, as a status."""
    report = done.report
    if not done.ok:
        return AgentStatus(done.node, False, trouble=done.message)
    python, machine, current = (_text(report, name) for name in ("python", "machine", "current"))
    if current is None:
        return AgentStatus(done.node, True, python=python, machine=machine, trouble="no agent is installed")
    installed, result = _document(report, "installed"), _document(report, "result")
    period, when, now = (
        _number(*place) for place in ((installed, "period"), (result, "time"), (report, "now")))
    age = None if when is None or now is None else now - when
    timer = _text(report, "timer")
    return AgentStatus(done.node, True, current, _text(report, "previous"), _text(installed, "version"),
                       period, _text(result, "state"), age, timer, python, machine, _text(report, "exporter"),
                       "; ".join([*_troubles(report, timer, age, period), *_unserved(report, installed)]))


def _troubles(
    report: Mapping[str, Any], timer: str | None, age: float | None, period: float | None,
) -> list[str]:
    found = []
    if report.get("whole") is not True:
        found.append("its files are damaged: muster agent install")
    if timer not in ("active, enabled", "cron"):
        found.append(f"nothing starts it (timer: {timer}): muster agent install")
    found += agentfault.known(dict(_document(report, "fault"))).values()
    if age is None:
        why = report.get("result")
        found.append(f"no result{f': {clean(why, 80)}' if isinstance(why, str) else ''}")
    elif age < -60:
        found.append(f"its newest result is {-age:.0f} s in the future: was its clock set back?")
    elif period is not None and age > 2 * period:
        found.append(f"its newest result is {_span(age)} old, over two periods of {_span(period)}")
    return found


def _unserved(report: Mapping[str, Any], installed: Mapping[str, Any]) -> list[str]:
    there = _text(report, "exporter")
    if there == "active, enabled" or (there is None and _text(installed, "exporter") is None):
        return []
    return [f"its exporter does not serve ({there or 'no unit'}): journalctl -u muster-exporter, muster "
            "agent install"]


@dataclass(frozen=True)
class AgentVersions:
    """The nodes of one version; `age` is how it compares with the head's, `next` what to type if at all."""

    version: str
    nodes: str
    age: str
    next: str


def versions(all_: Sequence[AgentStatus], head: str) -> list[AgentVersions]:
    """The versions of the agents that are installed, each with its nodes, most nodes first."""
    of: dict[str, list[str]] = {}
    for one in all_:
        if one.installed is not None:
            of.setdefault(one.version or "-", []).append(one.node)
    found = []
    for version, names in sorted(of.items(), key=lambda item: (-len(item[1]), item[0])):
        nodes = fold(names)
        verdict = agent_version(version, head, shlex.quote(nodes))
        effect = f"{REFUSED}: " if verdict.refused else "accepted: " if verdict.next else ""
        found.append(AgentVersions(version, nodes, verdict.age.value, f"{effect}{verdict.next}"))
    return found


def show(all_: Sequence[AgentStatus], head: str, *, as_json: bool) -> int:
    """Prints them, and gives the exit code. `head` is our own version."""
    own = versions(all_, head)
    if as_json:
        click.echo(json.dumps({
            "schema": "muster.agent-status/1", "nodes": [asdict(one) for one in all_],
            "versions": [asdict(one) for one in own]}, indent=2))
    else:
        rows = [("NODE", "AGENT", "VERSION", "STATE", "AGE", "TIMER", "PYTHON", "")]
        rows += [(one.node, one.installed or "-", one.version or "-", one.state or "-",
                  "-" if one.age is None else _span(one.age), one.timer or "-", one.python or "-",
                  one.trouble) for one in all_ if one.answered]
        rows += [(each.names, "-", "-", "-", "-", "-", "-", each.text) for each in fold_reasons(
            (one.node, one.trouble) for one in all_ if not one.answered)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            click.echo("  ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)).rstrip())
        for each in own:
            click.echo(f"{each.nodes}: version {each.version}, {each.age}{'; ' * bool(each.next)}{each.next}")
    if any(one.trouble for one in all_ if one.answered) or any(REFUSED in each.next for each in own):
        return 1
    return 3 if any(not one.answered for one in all_) else 0


def _span(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "m")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:.0f}s"


def _document(report: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = report.get(name)
    return found if isinstance(found, dict) else {}


def _text(report: Mapping[str, Any], name: str) -> str | None:
    found = report.get(name)
    return clean(found, 40) if isinstance(found, str) else None


def _number(report: Mapping[str, Any], name: str) -> float | None:
    found = report.get(name)
    good = isinstance(found, (int, float)) and not isinstance(
        found, bool) and abs(found) < _LONGEST and not math.isnan(found)
    return float(found) if good else None  # type: ignore[arg-type]
