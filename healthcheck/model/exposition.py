"""Metrics as values, and Prometheus' text format 0.0.4 for where only Python's standard library is: on nodes.

On the head prometheus_client writes them (`exporter.formats`). The format is
https://prometheus.io/docs/instrumenting/exposition_formats/; the tests compare with
`prometheus_client.generate_latest`, byte for byte.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER = "gauge", "counter"
_NAME = re.compile(r"[a-z][a-z0-9_]*")
# A sample's value, and its labels' values in the order of its family's labels.
Row: TypeAlias = "tuple[float, tuple[str, ...]]"
Sample: TypeAlias = "tuple[MetricFamily, Row]"
Rows: TypeAlias = "Iterable[tuple[MetricFamily, Iterable[Row]]]"


@dataclass(frozen=True)
class MetricFamily:
    """One metric: name (a counter's ends in _total), help text, and labels in alphabetical order."""

    name: str
    kind: str
    help: str
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or list(self.labels) != sorted(set(self.labels)) \
                or self.name.endswith("_total") is not (self.kind == COUNTER):
            raise ValueError(f"{self.name}: not a family of ours")

    def sample(self, value: float, *values: str) -> Row:
        """One sample; `values` in the order of the labels."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name}: {len(values)} values for {len(self.labels)} labels")
        # A half of a surrogate pair, which JSON of a node may hold, is no text that can be sent.
        return value, values if all(map(str.isascii, values)) else tuple(
            text.encode("utf-8", "replace").decode() for text in values)


def grouped(samples: Iterable[Sample]) -> dict[MetricFamily, list[Row]]:
    """The rows of each family, in the order of their first samples."""
    of: dict[MetricFamily, list[Row]] = {}
    for family, row in samples:
        of.setdefault(family, []).append(row)
    return of


def text_of(rows: Rows) -> str:
    """The families in text format."""
    return "".join(_lines(rows))


def _lines(rows: Rows) -> Iterator[str]:
    for family, found in rows:
        message = family.help.replace("\\", r"\\").replace("\n", r"\n")
        yield f"# HELP {family.name} {message}\n# TYPE {family.name} {family.kind}\n"
        for value, values in found:
            pairs = zip(family.labels, values, strict=True)
            labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in pairs)
            yield f"{family.name}{f'{{{labels}}}' if labels else ''} {number(value)}\n"


def _escaped(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number(value: float) -> str:
    """A value as Go writes it: from a million on with an exponent."""
    value = float(value)
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    text = repr(value)
    dot = text.find(".")
    if value > 0 and dot > 6:
        mantissa = f"{text[0]}.{text[1:dot]}{text[dot + 1:]}".rstrip("0.")
        return f"{mantissa}e+{dot - 1:02d}"
    return text
