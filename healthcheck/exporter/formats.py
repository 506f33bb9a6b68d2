"""The formats in which prometheus_client writes a page, and which of them a scrape asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.exposition import choose_encoder, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics import exposition as openmetrics
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

from healthcheck.exporter.board import TextFormat
from healthcheck.model.exposition import CONTENT_TYPE, COUNTER, MetricFamily, Row, Rows

_OPENMETRICS = openmetrics.CONTENT_TYPE_LATEST
_END = b"# EOF\n"
_write_openmetrics: Callable[[Collector], bytes] = openmetrics.generate_latest


class PrometheusFormats(TextFormat):
    """Text 0.0.4, and OpenMetrics 1.0 for who asks for it, as Prometheus does."""

    def chosen(self, accept: str) -> str:
        """The content type for this Accept header."""
        try:
            _, chosen = choose_encoder(accept)
        except ValueError:      # a version that is none
            return CONTENT_TYPE
        # Our names are the same in every escaping, and samples the same in every version of these two.
        return _OPENMETRICS if chosen.startswith("application/openmetrics-text") else CONTENT_TYPE

    def written(self, rows: Rows) -> Mapping[str, bytes]:
        """The families in both formats, without what ends a page.

        Gauges and counters without timestamps have the same samples in both, so these are written once: at
        226,000 series that halves 3.4 s.
        """
        text: list[bytes] = []
        other: list[bytes] = []
        for family, found in rows:
            whole = generate_latest(FleetCollector([(family, found)]))
            bare = FleetCollector([(family, ())])
            text.append(whole)
            other += (_write_openmetrics(bare).removesuffix(_END), whole[len(generate_latest(bare)):])
        return {CONTENT_TYPE: b"".join(text), _OPENMETRICS: b"".join(other)}

    def end(self, content_type: str) -> bytes:
        """What ends a page."""
        return _END if content_type == _OPENMETRICS else b""


class FleetCollector(Collector):
    """A page as prometheus_client collects it."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """Each family, in order."""
        for family, rows in self._rows:
            # A counter's family is named without the suffix of its samples.
            name = family.name.removesuffix("_total") if family.kind == COUNTER else family.name
            metric = Metric(name, family.help, family.kind)
            samples: Any = _Samples(family, rows)
            metric.samples = samples
            yield metric


class _Samples:
    """The samples of a family, each made when it is written: 226,000 at a time would be 126 MB."""

    def __init__(self, family: MetricFamily, rows: Iterable[Row]) -> None:
        self._family, self._rows = family, rows

    def __iter__(self) -> Iterator[Sample]:
        name, labels = self._family.name, self._family.labels
        for value, values in self._rows:
            yield Sample(name, dict(zip(labels, values, strict=True)), value)
