"""The text is byte for byte what prometheus_client writes for the same families, whatever stands in labels,
help and values.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from prometheus_client import generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector, CollectorRegistry

from healthcheck.model.exposition import COUNTER, GAUGE, MetricFamily, number, text_of
from inventory.text import clean

ANY = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
VALUES = st.one_of(st.floats(), st.integers(-10**18, 10**18).map(float),
                   st.sampled_from([0.0, 1e6, 999999.0, 1e7, 1.8e9, 123456789.25]))


class Held(Collector):
    """Families that were made already."""

    def __init__(self, *families: Metric) -> None:
        self.families = families

    def collect(self) -> tuple[Metric, ...]:
        return self.families


def theirs(*families: Metric) -> str:
    """What prometheus_client writes."""
    registry = CollectorRegistry()
    registry.register(Held(*families))
    return generate_latest(registry).decode()


@given(ANY, st.sampled_from([GAUGE, COUNTER]),
       st.sampled_from([(), ("node",), ("node", "rule"), ("a", "b", "c_d")]), st.data())
def test_a_family_is_written_as_prometheus_client_writes_it(message: str, kind: str, labels: tuple[str, ...],
                                                            data: st.DataObject) -> None:
    rows = data.draw(st.lists(st.tuples(st.tuples(*(ANY for _ in labels)), VALUES), max_size=4))
    name = "muster_thing" + "_total" * (kind == COUNTER)
    ours = MetricFamily(name, kind, message, labels)
    other = (CounterMetricFamily if kind == COUNTER
             else GaugeMetricFamily)("muster_thing", message, labels=labels)
    for values, value in rows:
        other.add_metric(values, value)
    assert text_of([(ours, [ours.sample(value, *values) for values, value in rows])]) == theirs(other)


@given(VALUES)
@example(1e-7)
@example(10_000_000.0)
@example(1e22)
def test_a_number_reads_back_as_what_it_was(value: float) -> None:
    text = number(value)
    assert math.isnan(float(text)) if math.isnan(value) else float(text) == value


def test_what_a_node_says_ends_no_label_and_no_line() -> None:
    hostile = clean('x"} 1\nmuster_node_state{node="other",state="healthy"} 1 \\')
    family = MetricFamily("muster_gpu_info", GAUGE, "x", ("node",))
    line = text_of([(family, [family.sample(1, hostile)])]).split("\n", 2)[2]
    assert line.count("\n") == 1 and line.endswith('\\\\"} 1.0\n')
    assert text_of([(family, [family.sample(1, 'a"b\nc\\d')])]).endswith(
        'muster_gpu_info{node="a\\"b\\nc\\\\d"} 1.0\n')
    assert family.sample(1, "a\ud800") == (1, ("a?",))
    with pytest.raises(ValueError, match="2 values for 1 labels"):
        family.sample(1, "a", "b")


@pytest.mark.parametrize(("name", "kind", "labels"),
                         [("muster_x", COUNTER, ()), ("muster_x_total", GAUGE, ()), ("Muster", GAUGE, ()),
                          ("muster_x", GAUGE, ("b", "a")), ("muster_x", GAUGE, ("a", "a"))])
def test_a_family_that_is_none_of_ours_cannot_be_made(name: str, kind: str, labels: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="not a family of ours"):
        MetricFamily(name, kind, "x", labels)
