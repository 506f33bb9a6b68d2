"""Nodes are asked while a job is watched: what they measure comes as signals, and who cannot be asked is reported."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator

from healthcheck.cli.watchnodes import NodeSampler
from healthcheck.watch.signals import SignalKind
from inventory.errors import UsageError
from inventory.model import Node
from inventory.transport.base import Limits, Program, Reply
from inventory.transport.local import LocalTransport


def test_two_rounds_give_signals_and_a_node_that_cannot_be_asked_is_named() -> None:
    sampler = NodeSampler([Node("here", python=sys.executable), Node("bad", python="no-such-python")], LocalTransport(), Limits(), 60.0,
                          steps=True)
    sampler.round()
    assert sampler.take() == ([], [])
    sampler.round()
    signals, lines = sampler.take()
    assert SignalKind.CPU_STEAL in {one.kind for one in signals} and lines == []
    (said,) = sampler.caveats()
    assert said.startswith("1 of 2 nodes gave no measurements; bad: ")


def test_a_transport_that_refuses_as_a_whole_ends_no_watching() -> None:
    class Refusing(LocalTransport):
        def run(self, nodes: Iterable[Node], program: Program, limits: Limits) -> Iterator[Reply]:
            sampler.stop()
            raise UsageError("no key")

    sampler = NodeSampler([Node("here")], Refusing(), Limits(), 60.0)
    sampler.start()
    sampler._thread.join(30)
    assert sampler.caveats() == ("the nodes could not be asked: no key",)
