"""Asks a job's nodes from time to time what they measure, while its steps are watched: the collector of
`muster check` with a few passive probes, or what each node's agent recorded."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from healthcheck.facts.cache import FactCache
from healthcheck.model.probes import KIB, Probe, ProbeKind, ProbeSet
from healthcheck.watch.nodesignals import probes, sampled, signals_between
from healthcheck.watch.steplines import NoStepLine, looks_like, parse
from inventory.errors import MusterError

if TYPE_CHECKING:
    from healthcheck.model.recording import Recording
    from healthcheck.sweep.agents import Agents
    from healthcheck.watch.model import StepTime
    from healthcheck.watch.samples import WatchSample
    from healthcheck.watch.signals import NodeSignal
    from inventory.model import Node
    from inventory.transport.base import Limits, Transport

# Where the callback writes unless it is given another folder.
STEPS = Probe("watch.steps", ProbeKind.FILES, paths=("/run/muster/steps/*.jsonl",), limit=1024 * KIB,
              tail=True)


class NodeSampler:
    """Takes a sample of all nodes every so many seconds, in a thread of its own."""

    def __init__(self, nodes: Sequence[Node], transport: Transport, limits: Limits, every: float,
                 agents: Agents | None = None, *, steps: bool = False) -> None:
        """`steps`: also fetch the step times that ranks leave on their nodes."""
        self._nodes, self._transport, self._limits, self._every = nodes, transport, limits, every
        self._agents, self._steps = agents, steps
        self._before: dict[str, WatchSample] = {}
        self._cache = FactCache()
        self._lock = threading.Lock()
        self._signals: list[NodeSignal] = []
        self._lines: list[StepTime] = []
        self._failures: dict[str, str] = {}
        self._over = threading.Event()
        self.rounds = 0
        self._thread = threading.Thread(target=self._run, name="watch-nodes", daemon=True)

    def start(self) -> None:
        """Begins to ask."""
        self._thread.start()

    def stop(self) -> None:
        """Ends after the round that is under way."""
        self._over.set()

    def take(self) -> tuple[list[NodeSignal], list[StepTime]]:
        """The signals, and the step times from nodes, since the last call."""
        with self._lock:
            found = self._signals, self._lines
            self._signals, self._lines = [], []
        return found

    def caveats(self) -> tuple[str, ...]:
        """Why some nodes gave nothing in the last round."""
        with self._lock:
            failed = dict(self._failures)
        if not failed:
            return ()
        if "all" in failed:
            return (f"the nodes could not be asked: {failed['all']}",)
        node, why = next(iter(failed.items()))
        return (f"{len(failed)} of {len(self._nodes)} nodes gave no measurements; {node}: {why}",)

    def _run(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self.round()
            except MusterError as error:        # the next round may find what this one lacks
                with self._lock:
                    self._failures["all"] = str(error)
            self._over.wait(max(1.0, self._every - (time.monotonic() - began)))

    def round(self) -> None:
        """Asks every node once."""
        from healthcheck.collector import program, reply

        wanted = probes()
        if self._steps:
            wanted = ProbeSet.of([*wanted.probes, STEPS], wanted.seconds)
        sent = wanted if self._agents is None else self._agents.probes
        limits = replace(self._limits, program_s=self._limits.program_s or wanted.seconds + 5)
        made = program.build(sent, nvml=self._agents is None)
        for answer in self._transport.run(self._nodes, made, limits):
            recording, previous = reply.within(reply.decode(answer), sent), None
            if self._agents is not None:
                recording, previous = self._agents.snapshots(recording, wanted)
            self.sampled(recording, previous)
            if self._over.is_set():
                break
        self.rounds += 1

    def sampled(self, recording: Recording, previous: Recording | None = None) -> None:
        """Takes what a node said; of an agent also what it recorded before, which counts as the sample before
        the first."""
        if recording.host is None:
            why = recording.failure.reason if recording.failure is not None else "no answer"
            with self._lock:
                self._failures[recording.node] = why
            return
        before = self._before.get(recording.node)
        if before is None and previous is not None:
            before = sampled(previous, self._cache)
        # An agent that has not run again says nothing new.
        newer = before is None or before.time < recording.host.time
        sample = sampled(recording, self._cache) if newer else None
        if sample is not None:
            self._before[recording.node] = sample
        found = signals_between(before, sample, recording.host.hostname) if before and sample else []
        lines = _lines(recording)
        with self._lock:
            self._failures.pop(recording.node, None)
            self._signals += found
            self._lines += lines


def _lines(recording: Recording) -> list[StepTime]:
    capture = recording.captures.get(STEPS.id)
    found: list[StepTime] = []
    for entry in capture.files.values() if capture is not None else ():
        for line in entry.text.split("\n"):
            if looks_like(line):
                try:
                    found.append(parse(line))
                except NoStepLine:     # the first line of a tail is cut
                    continue
    return found
