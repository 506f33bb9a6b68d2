"""A head on a clock of its own: a real store and inventory that tests change, and the exporter's page as a
Prometheus scrapes it, as series for `promtool test rules`."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from healthcheck.agent import metrics as agent
from healthcheck.agent.unjudged import writable
from healthcheck.burnin.metrics import Burnins
from healthcheck.exporter.board import Board
from healthcheck.exporter.page import MOST_SERIES, Page
from healthcheck.exporter.processed import processed
from healthcheck.exporter.stored import Nodes, StoreSource
from healthcheck.facts.cache import FactCache
from healthcheck.model.agentmetric import AgentBasis
from healthcheck.model.outcome import NodeReport
from healthcheck.model.recording import Recording
from healthcheck.store import newest
from healthcheck.store.file import opened
from healthcheck.store.readings import NodeReadings, readings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.sweep.assess import Assessment
from inventory.model import Node
from tests.packagedrules import RULES

HEAD = ("muster", "head:9847")
STALE_S, BURNIN_DAYS = 3600.0, 1 / 24
INVENTORY = """\
version: 1
defaults: {sku: hgx-h100}
nodes:
  gpu001: {rack: r1, leaf: leaf1}
  gpu002: {rack: r2, leaf: leaf2}
  gpu003: {rack: r2, leaf: leaf2, lifecycle: {state: maintenance}}
"""
# What changes a head; it yields the minute until which time then goes by.
Plant = Callable[["Head"], Iterator[int]]
_JUDGED: dict[tuple[Any, ...], tuple[list[Recording], tuple[NodeReport, ...]]] = {}
_READINGS: dict[int, tuple[Recording, NodeReadings]] = {}
# As in one sweep, what was captured alike is read once.
_FACTS = FactCache()
# By name and labels, one value a scrape; None where the page had none.
Series = dict[tuple[str, tuple[tuple[str, str], ...]], list[float | None]]


class Head:
    """A state folder and an inventory of two nodes in service and one in maintenance, at `minute` since 1970.

    `answers` is whether the exporter is reached, `most` the limit of its page, `sweeper` whether its own
    sweeps run and how often they were started. `files` are what node_exporters serve of agents, by instance;
    None for one that does not answer.
    """

    def __init__(self, folder: Path) -> None:
        self.state, self.inventory = folder / "state", folder / "muster.yaml"
        self.state.mkdir()
        self.inventory.write_text(INVENTORY)
        self.minute, self.answers, self.most = 0, True, MOST_SERIES
        self.sweeper: tuple[bool, int] | None = None
        self.files: dict[str, str | None] = {}
        self._source = StoreSource(self.state, Nodes(self.inventory), Burnins(self.state, BURNIN_DAYS))
        self._board: Board | None = None
        self.sweep()

    @property
    def seconds(self) -> float:
        return 60.0 * self.minute

    def sweep(self, *looks: Recording, without: Collection[str] = (), silent: Collection[str] = ()) -> None:
        """A sweep that is stored: these looks, and healthy nodes; nothing came of `silent` ones, and it left
        out those `without`."""
        brought = {look.node: look for look in (*map(_healthy, ("gpu001", "gpu002", "gpu003")), *looks)}
        there = [name for name in brought if name not in without]
        reports = judged([brought[name] for name in there if name not in silent],
                         [name for name in there if name in silent])
        with opened(self.state, make=True) as store:
            record(store, SweepRecord(self.seconds, self.seconds + 1, False, "test", RULES.digest), reports,
                   {name: _read(brought[name]) for name in there if name not in silent})

    def agent_ran(self, look: Recording, period: float = 300.0, *, wrote: bool = True) -> None:
        """The agent of this look's node has run, and its text file lies where node_exporter reads it; it
        `wrote` its state."""
        (report,) = judged([look], [])
        basis = AgentBasis("b00t", "e" * 12, "timer", RULES.digest, "hgx-h100", "0.1.0")
        self.files[f"{look.node}:9100"] = writable(look.node, wrote) + agent.page(
            Node(look.node, sku="hgx-h100"), report, newest.packed(None, report, agent.seen(look)),
            time=self.seconds, took=1.0,
            period=period, bundle="b", python="3.11", basis=basis)

    def pages(self) -> dict[tuple[str, str], str | None]:
        """What a scrape brings now, by job and instance; None for what does not answer."""
        if self._board is None:
            self._board = Board(self._source, Page(STALE_S, self.most),
                                lambda: processed(0, self.sweeper, "test"),
                                clock=lambda: self.seconds)
        self._board.refresh()
        return {HEAD: self._board.text() if self.answers else None,
                **{("node", instance): text for instance, text in self.files.items()}}

    def close(self) -> None:
        self._source.close()


def judged(looks: list[Recording], silent: list[str]) -> tuple[NodeReport, ...]:
    """These looks as the packaged rules judge them, and that of `silent` nodes nothing came."""
    key = (*map(id, looks), *silent)
    if key not in _JUDGED:
        assessment = Assessment([Node(name, sku="hgx-h100")
                                 for name in (*(look.node for look in looks), *silent)], RULES, None, set())
        assessment._cache = _FACTS
        for look in looks:
            assessment.add(look, None)
        # The looks are kept, so that no other one gets their ids.
        _JUDGED[key] = (looks, tuple(assessment.finish().reports))
    return _JUDGED[key][1]


def scraped(plant: Plant, folder: Path, end: int, step: int, names: Collection[str]) -> Series:
    """The series of these names while a plant goes on, scraped every `step` minutes from 0 to `end`."""
    head = Head(folder)
    found: Series = {}
    taken = 0

    def scrapes(until: int) -> None:
        nonlocal taken
        for head.minute in range(taken * step, until, step):
            for target, text in head.pages().items():
                for key, value in _samples(target, text, names):
                    found.setdefault(key, []).extend([None] * (taken - len(found[key])) + [value])
            taken += 1

    for until in plant(head):
        scrapes(until)
        head.minute = until
    scrapes(end + 1)
    head.close()
    return {key: [*values, *[None] * (taken - len(values))] for key, values in found.items()}


def input_series(series: Series) -> list[dict[str, str]]:
    """As promtool's tests take them: what a page has no longer is stale from then on, as Prometheus marks
    it."""
    return [{"series": f"{name}{{{', '.join(f'{label}={_quoted(value)}' for label, value in labels)}}}",
             "values": " ".join(_notation(values))} for (name, labels), values in sorted(series.items())]


def _notation(values: list[float | None]) -> Iterator[str]:
    at = 0
    while at < len(values):
        value, alike = values[at], 1
        while at + alike < len(values) and values[at + alike] == value:
            alike += 1
        if value is None and at:
            yield "stale"
            yield from (f"_x{alike - 1}",) if alike > 1 else ()
        else:
            # axN is N further values of a, and _xN is N missing ones.
            yield f"_x{alike}" if value is None else f"{value!r}+0x{alike - 1}"
        at += alike


def _samples(target: tuple[str, str], text: str | None,
             names: Collection[str]) -> Iterator[tuple[Any, float]]:
    own = {"instance": target[1], "job": target[0]}
    yield ("up", tuple(sorted(own.items()))), float(text is not None)
    for line in (text or "").splitlines():
        if line.partition("{")[0].partition(" ")[0] in names:
            name, labels, value = _sample(line)
            yield (name, tuple(sorted({**labels, **own}.items()))), value


@cache
def _sample(line: str) -> tuple[str, dict[str, str], float]:
    ((sample,),) = (family.samples for family in text_string_to_metric_families(line + "\n"))
    assert math.isfinite(sample.value)
    return sample.name, sample.labels, sample.value


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _read(look: Recording) -> NodeReadings:
    """What the store takes of this look."""
    if id(look) not in _READINGS:
        _READINGS[id(look)] = look, readings(look)
    return _READINGS[id(look)][1]


@cache
def _healthy(node: str) -> Recording:
    from tests.healthcheck import machine

    return machine.recording(node)
