"""Reads Prometheus' answer to QUERY: what each agent claims, by the inventory name that it claims to be.

The answer is foreign text: whatever is wrong with it as a whole raises `PrometheusError`, and whatever is
wrong with one series makes that node's claim unusable. Nothing in it is taken for another node's.
"""

from __future__ import annotations

import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from healthcheck.model.agentmetric import FAMILIES, HEALTHY, NONE, PERIOD, RUN_INFO, RUN_TIME, AgentBasis
from healthcheck.sweep.prometheus import PrometheusError
from inventory.text import clean

# One query for all nodes, so that all series are of one moment.
QUERY = '{__name__=~"' + "|".join(family.name for family in FAMILIES) + '"}'
_BY_NAME = {family.name: family for family in FAMILIES}
_LONGEST_NUMBER = 64
_MOST_TARGET = 120


@dataclass
class AgentClaim:
    """The series that claim a node's name. `series` counts them by family; values are of the last one.

    A value is None where no series gives it, or what it gives is no number. `targets` are (job, instance) of
    all of them. `named` are the names that Prometheus' own target labels give the node, where there are any.
    """

    series: dict[str, int] = field(default_factory=dict)
    values: dict[str, float | None] = field(default_factory=dict)
    targets: set[tuple[str, str]] = field(default_factory=set)
    named: set[str] = field(default_factory=set)
    basis: AgentBasis | None = None

    @property
    def healthy(self) -> float | None:
        """1 for healthy."""
        return self.values.get(HEALTHY.name)

    @property
    def time(self) -> float | None:
        """When its recording was made."""
        return self.values.get(RUN_TIME.name)

    @property
    def period(self) -> float | None:
        """Seconds between its runs."""
        return self.values.get(PERIOD.name)

    @property
    def lacks(self) -> list[str]:
        """Families of which there is no series."""
        return [family.name for family in FAMILIES if family.name not in self.series]

    @property
    def twice(self) -> bool:
        """Whether there are several series of one family."""
        return any(number > 1 for number in self.series.values())

    @property
    def target(self) -> str:
        """One of its targets, for people."""
        return clean(" ".join(filter(None, min(self.targets, default=("", "")))), _MOST_TARGET)


def claims(body: bytes, wanted: Collection[str]) -> Mapping[str, AgentClaim]:
    """The claims to these names; raises PrometheusError for an answer that is none, is an error, or is
    partial by its own warnings."""
    found: dict[str, AgentClaim] = {}
    for series in _vector(body):
        _add(found, wanted, series)
    return found


def _vector(body: bytes) -> list[Any]:
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        start = clean(body[:40].decode("utf-8", "replace"), 40)
        raise PrometheusError(f"its answer is not JSON; it begins: {start!a}") from None
    if not isinstance(answer, dict) or answer.get("status") not in ("success", "error"):
        raise PrometheusError("its answer is not Prometheus' (it has no status)")
    if answer["status"] == "error":
        raise PrometheusError(f"it reports an error: {clean(answer.get('error'), 200)}")
    if warnings := answer.get("warnings"):
        first = warnings[0] if isinstance(warnings, list) else warnings
        raise PrometheusError(f"its data may be partial; it warns: {clean(first, 200)}")
    if answer.get("isPartial") not in (None, False):      # VictoriaMetrics, where one of its stores is away
        raise PrometheusError("its data is partial, as it says itself (isPartial)")
    data = answer.get("data")
    if not isinstance(data, dict) or data.get("resultType") != "vector" \
            or not isinstance(data.get("result"), list):
        raise PrometheusError("its answer holds no vector")
    vector: list[Any] = data["result"]
    return vector


def _add(found: dict[str, AgentClaim], wanted: Collection[str], series: Any) -> None:
    labels = series.get("metric") if isinstance(series, dict) else None
    if not isinstance(labels, dict):
        return
    family = _BY_NAME.get(_text(labels, "__name__"))
    node = _own(labels, "node")
    if family is None or node not in wanted:
        return
    claim = found.setdefault(node, AgentClaim())
    claim.series[family.name] = claim.series.get(family.name, 0) + 1
    claim.values[family.name] = _number(series.get("value"))
    claim.targets.add((_text(labels, "job"), _text(labels, "instance")))
    if "exported_node" in labels:
        claim.named.add(_text(labels, "node"))
    if family is RUN_INFO:
        texts = {name: _own(labels, name) for name in RUN_INFO.labels if name != "node"}
        claim.basis = AgentBasis(**{name: "" if text == NONE else text for name, text in texts.items()})


def _own(labels: Mapping[str, Any], name: str) -> str:
    """A label as the agent wrote it: Prometheus renames it where its target has a label of that name."""
    return _text(labels, f"exported_{name}" if f"exported_{name}" in labels else name)


def _text(labels: Mapping[str, Any], name: str) -> str:
    value = labels.get(name)
    return value if isinstance(value, str) else ""


def _number(value: Any) -> float | None:
    """The number of a sample, [time, "number"]; None where it is none, or not finite."""
    if not isinstance(value, list) or len(value) != 2:
        return None
    text = value[1]
    if not isinstance(text, str) or len(text) > _LONGEST_NUMBER or not text.isascii() or "_" in text:
        return None
    try:
        number = float(text)
    except ValueError:
        return None
    return number if math.isfinite(number) else None
