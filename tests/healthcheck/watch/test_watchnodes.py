"""Nodes are asked while a job is watched: what they measure comes as signals, and who cannot be asked is
reported."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pytest

from healthcheck.cli.watchnodes import NodeSampler
from healthcheck.model.recording import Capture, FileCapture, Outcome, to_json
from healthcheck.sweep.agents import PATH, PROBE, Agents
from healthcheck.watch.nodesignals import probes
from healthcheck.watch.signals import SignalKind
from inventory.errors import UsageError
from inventory.model import Node
from inventory.release import VERSION
from inventory.transport.base import Limits, Program, Reply
from inventory.transport.local import LocalTransport
from tests.healthcheck.watch.nodefiles import sample


def test_two_rounds_give_signals_and_a_node_that_cannot_be_asked_is_named() -> None:
    sampler = NodeSampler([Node("here", python=sys.executable), Node("bad", python="no-such-python")],
                          LocalTransport(), Limits(), 60.0,
                          steps=True)
    sampler.round()
    assert sampler.take() == ([], [])
    sampler.round()
    signals, lines = sampler.take()
    assert SignalKind.CPU_STEAL in {one.kind for one in signals} and lines == []
    (said,) = sampler.caveats()
    assert said.startswith("1 of 2 nodes gave no measurements; bad: ")


def test_what_an_agent_recorded_twice_is_evidence_at_once_and_once() -> None:
    sampler = NodeSampler([Node("gpu001")], LocalTransport(), Limits(), 60.0, Agents())
    before, now = (sample("gpu001", time, "memory pressure", 1000.0) for time in (1300.0, 1600.0))
    told = {"schema": "muster.agent/1", "node": "gpu001", "time": 1600.0,
            "version": VERSION, "period": 300,
            "recording": to_json(now), "previous": to_json(before)}
    file = FileCapture(Outcome.DONE,
                       gzip.compress(json.dumps(told).encode()).decode("utf-8", "surrogateescape"))
    answer = replace(now, received=1650.0, host=replace(now.host, time=1650.0) if now.host else None,
                     captures={PROBE.id: Capture(Outcome.DONE, files={PATH: file})})
    for _ in range(2):
        sampler.sampled(*Agents().snapshots(answer, probes()))
    signals, _ = sampler.take()
    (one,) = [one for one in signals if one.kind is SignalKind.MEMORY_PRESSURE]
    assert (one.value, one.since, one.until) == (pytest.approx(0.31), 1300.0,
                                                 1600.0) and not sampler.caveats()


def test_a_transport_that_refuses_as_a_whole_ends_no_watching() -> None:
    class Refusing(LocalTransport):
        def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
            sampler.stop()
            raise UsageError("no key")

    sampler = NodeSampler([Node("here")], Refusing(), Limits(), 60.0)
    sampler.start()
    sampler._thread.join(30)
    assert sampler.caveats() == ("the nodes could not be asked: no key",)
