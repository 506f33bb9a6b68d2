"""The signals of all hosts of a job, bounded: most say the same sample after sample, and are kept as one.

Signals of one device that follow each other and are of one size (within a factor of the square root of 2,
which is what `healthcheck.watch.causes` takes for 'as before') make a run, with the highest of their values.
So 512 nodes of 8 GPUs that are asked for days take some tens of MB (scripts/bench/watch).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from healthcheck.joblog.prefix import short
from healthcheck.watch.signals import NodeSignal, SignalKind

KEPT = 64               # runs of one device and kind
MOST_PARTS = 256        # devices of a host and kind
_LITTLE = 0.25          # of what counts: all that is less is of one size
_SIZES = 2              # to a factor of 2


@dataclass(slots=True)
class _Run:
    """Signals of one size: as one, over all their time; and when the first of them ended."""

    signal: NodeSignal
    size: int
    first_until: float


_OfHost = dict[str, list[_Run]]


@dataclass
class SignalStore:
    """The newest signals of all hosts, by kind."""

    _by: dict[SignalKind, dict[str, _OfHost]] = field(default_factory=dict)
    _heard: dict[str, float] = field(default_factory=dict)

    def add(self, signals: Iterable[NodeSignal]) -> None:
        """Takes signals; those of one device and kind in order of time."""
        for signal in signals:
            host = short(signal.host)
            self._heard[host] = signal.until
            parts = self._by.setdefault(signal.kind, {}).setdefault(host, {})
            runs = parts.get(signal.part)
            if runs is None:
                if len(parts) >= MOST_PARTS:
                    continue
                runs = parts[signal.part] = []
            size = _size(signal)
            last = runs[-1] if runs else None
            # Of the same run unless a sample is missing between the two.
            if last is None or last.size != size or not (
                    0 <= signal.since - last.signal.until <= signal.until - signal.since):
                runs.append(_Run(signal, size, signal.until))
                del runs[:-KEPT]
            else:
                last.signal = _joined(last.signal, signal)

    @property
    def hosts(self) -> Collection[str]:
        """Those that said anything."""
        return self._heard.keys()

    def of(self, kind: SignalKind, host: str, since: float, until: float) -> list[NodeSignal]:
        """One host's signals whose time overlaps this span."""
        return [run.signal for run in self._runs(kind, host)
                if run.signal.since <= until and run.signal.until >= since]

    def before(self, kind: SignalKind, host: str, time: float) -> list[NodeSignal]:
        """One host's signals that were there before this time, whether or not they went on."""
        return [run.signal for run in self._runs(kind, host) if run.first_until <= time]

    def kinds(self) -> Collection[SignalKind]:
        """Those that there are."""
        return self._by.keys()

    def _runs(self, kind: SignalKind, host: str) -> Iterator[_Run]:
        for runs in self._by.get(kind, {}).get(host, {}).values():
            yield from runs


def _size(signal: NodeSignal) -> int:
    times = signal.value / signal.kind.least
    return math.floor(_SIZES * math.log2(times)) if times >= _LITTLE and math.isfinite(times) else -1 << 16


def _joined(kept: NodeSignal, newer: NodeSignal) -> NodeSignal:
    most = kept if kept.value >= newer.value else newer
    return NodeSignal(kept.host, kept.kind, most.value, kept.since, newer.until, kept.part, kept.gpu,
                      most.beside)
