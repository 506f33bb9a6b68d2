"""prometheus_client writes a page in both formats, which say the same; a scrape gets the one that it asks
for."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.openmetrics.parser import text_string_to_metric_families as openmetrics_families
from prometheus_client.parser import text_string_to_metric_families

from healthcheck.exporter.board import Board
from healthcheck.exporter.formats import FleetCollector, PrometheusFormats
from healthcheck.exporter.page import Page
from healthcheck.model.exposition import CONTENT_TYPE, COUNTER, GAUGE, MetricFamily, text_of
from tests.healthcheck.exporter import made
from tests.healthcheck.exporter.test_board import Told
from tests.healthcheck.exporter.test_server import get, serving
from tests.tries import tries

OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"
PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1")
PROMETHEUS_3 = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,application/openmetrics-text;"
    "version=0.0.1;q=0.5,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.4,text/plain;version=0.0.4;"
    "q=0.3,*/*;q=0.2")


def board() -> Board:
    """A board over one node with all that a node can have."""
    held = Board(Told(made.fleet(made.at("gpu001", made.FAILED, made.DARK, cordons=(("slurm", "triage"),),
                                         xids={"79": 1}))),
                 Page(3600), lambda: made.PROCESS, clock=lambda: made.NOW, formats=PrometheusFormats())
    held.refresh()
    return held


def samples(families: Iterable[Any]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {(sample.name, frozenset(sample.labels.items())): sample.value
            for family in families for sample in family.samples}


def asked(held: Board, accept: str, *, small: bool = False) -> tuple[str, str]:
    """Content type and text."""
    answer = held.answer("/metrics", small=small, accept=accept)
    body = b"".join(answer.body)
    return answer.type, (gzip.decompress(body) if answer.gzipped else body).decode()


def test_both_formats_say_the_same_under_the_same_names() -> None:
    held = board()
    kind, text = asked(held, "")
    other_kind, other = asked(held, PROMETHEUS_2)
    assert (kind, other_kind) == (CONTENT_TYPE, OPENMETRICS) and text == held.text()
    read: Callable[[str], Iterable[Any]] = openmetrics_families
    assert samples(read(other)) == samples(text_string_to_metric_families(text))
    assert other.endswith("# EOF\n") and other.count("# EOF") == 1 and "# EOF" not in text
    assert {line for line in other.splitlines() if line[0] != "#"} == {
        line for line in text.splitlines() if line[0] != "#"}
    assert "# TYPE muster_node_xids counter\n" in other and "# TYPE muster_node_xids_total counter\n" in text
    assert "untyped" not in text and "unknown\n" not in other.replace("_unknown", "")


@pytest.mark.parametrize(("accept", "kind"), [
    (PROMETHEUS_2, OPENMETRICS), (PROMETHEUS_3, OPENMETRICS), ("application/openmetrics-text", OPENMETRICS),
    ("text/plain;version=0.0.4", CONTENT_TYPE), ("*/*", CONTENT_TYPE), ("", CONTENT_TYPE),
    ("text/html", CONTENT_TYPE),
    ("text/plain;version=1.0.0;escaping=values", CONTENT_TYPE),
    ("application/openmetrics-text;version=1.0.0;escaping=dots", OPENMETRICS),
    ("application/openmetrics-text;version=9;x\r\nSet-Cookie: a", OPENMETRICS),
])
def test_a_scrape_gets_the_format_that_it_asks_for(accept: str, kind: str) -> None:
    assert PrometheusFormats().chosen(accept) == kind


@given(st.text(st.sampled_from("application/openmetrics-text;version=1.0,escaping q*"), max_size=80))
def test_whatever_is_asked_for_one_of_the_two_is_given(accept: str) -> None:
    assert PrometheusFormats().chosen(f"application/openmetrics-text;{accept}") in (OPENMETRICS, CONTENT_TYPE)


@pytest.mark.parametrize("small", [False, True])
def test_over_http_either_comes_plain_and_compressed(small: bool) -> None:
    with serving(board()) as server:
        for accept, kind in ((PROMETHEUS_2, OPENMETRICS), ("text/plain", CONTENT_TYPE)):
            status, headers, body = get(server, "/metrics", Accept=accept,
                                        Accept_Encoding="gzip" if small else "identity")
            text = (gzip.decompress(body) if small else body).decode()
            assert (status, headers["content-type"], headers["vary"]) == (200, kind,
                                                                          "Accept, Accept-Encoding")
            assert "content-encoding" in headers or not small
            assert 'muster_node_state{node="gpu001",state="healthy"} 1.0' in text


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@settings(max_examples=tries(50), deadline=None)
@given(st.lists(st.tuples(st.sampled_from([GAUGE, COUNTER]), TEXT,
                          st.lists(st.tuples(TEXT, TEXT, st.floats()), max_size=3)),
                max_size=3))
def test_text_is_the_same_whether_a_node_or_the_head_writes_it(
    drawn: list[tuple[str, str, list[tuple[str, str, float]]]],
) -> None:
    rows = []
    for number, (kind, message, found) in enumerate(drawn):
        family = MetricFamily(f"muster_thing{number}" + "_total" * (kind == COUNTER), kind,
                              message, ("a", "b"))
        rows.append((family, [family.sample(value, a, b) for a, b, value in found]))
    both = PrometheusFormats().written(rows)
    assert both[CONTENT_TYPE].decode() == text_of(rows)
    # Its samples are those that prometheus_client's own writer of OpenMetrics gives.
    write: Callable[..., bytes] = openmetrics.generate_latest
    assert both[OPENMETRICS] + b"# EOF\n" == write(FleetCollector(rows))


def test_half_a_surrogate_from_a_node_harms_no_page() -> None:
    family = MetricFamily("muster_gpu_info", GAUGE, "x", ("model",))
    rows = [(family, [family.sample(1, "H100 \ud83d")])]
    for page in PrometheusFormats().written(rows).values():
        assert b'model="H100 ?"' in page
