"""The newest look at each node, kept in the state folder for rules that compare with it."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from healthcheck.checks.base import CHECKS, PREVIOUS
from healthcheck.facts.base import FACTS
from healthcheck.files import make_folder, write_whole
from healthcheck.recording import Recording, RecordingError, from_json, to_json


class Looks:
    """One file per node under STATE/looks. Only the captures that some check compares over time are kept: a kernel log is not."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "looks"
        self._ready = False

    def read(self, node: str) -> Recording | None:
        """The node's newest look, or None where there is none that can be read."""
        try:
            recording = from_json(json.loads((self._folder / f"{node}.json").read_bytes()))
        except (OSError, ValueError, RecordingError, RecursionError):
            return None
        return recording if recording.node == node else None

    def write(self, recording: Recording) -> None:
        """Keeps this look as the newest. A look at a node that was not reached does not replace one that was."""
        if recording.host is None:
            return
        if not self._ready:
            make_folder(self._folder, "the state folder (--state, MUSTER_STATE)")
            self._ready = True
        write_whole(self._folder / f"{recording.node}.json", encode(trimmed(recording)))


def trimmed(recording: Recording) -> Recording:
    """The recording with only the captures that a trend check may ask for."""
    wanted = set(_trend_probes())
    return replace(recording, captures={name: value for name, value in recording.captures.items() if name in wanted})


def _trend_probes() -> Iterable[str]:
    for check in CHECKS.values():
        for name in check.facts:
            if name.startswith(PREVIOUS):
                yield from (probe.id for probe in FACTS[name.removeprefix(PREVIOUS)].probes)


def encode(recording: Recording) -> bytes:
    """The recording as one JSON document; equal recordings give equal bytes."""
    return json.dumps(to_json(recording), separators=(",", ":")).encode() + b"\n"
