"""Keeps the newest snapshot of each node in the state folder, for rules that compare with it."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from healthcheck.checks import catalogue  # noqa: F401  (registers all facts)
from healthcheck.checks.base import CHECKS
from healthcheck.config.files import make_folder, write_whole
from healthcheck.facts.base import FACTS
from healthcheck.facts.boot import BOOT_CAPTURE, boot_capture
from healthcheck.facts.carried_log import LOG_CAPTURE, log_capture
from healthcheck.facts.gpusigns import GPUS_CAPTURE, gpus_capture
from healthcheck.facts.seen_before import UNUSUAL_CAPTURE, unusual_capture
from healthcheck.facts.unanswered import UNANSWERED_CAPTURE, unanswered_capture
from healthcheck.model.places import SNAPSHOTS
from healthcheck.model.recording import Outcome, Recording, read, to_json
from inventory.model import LifecycleState

_FORMER = "looks"           # where earlier versions kept them
_NO_RESTS: Mapping[str, None] = MappingProxyType({})


class KeptSnapshots:
    """One file per node under STATE/snapshots: what checks compare over time, and log findings rest on."""

    def __init__(self, state: Path) -> None:
        self._folder = state / SNAPSHOTS
        self._former = state / _FORMER

    def prepare(self) -> None:
        """Creates the folder, and moves to it what earlier versions kept; raises UsageError where neither is
        there, before any node is asked."""
        self._take_over()
        if not self._former.is_dir():
            make_folder(self._folder, "the state folder (--state, MUSTER_STATE)")

    def clear(self) -> None:
        """Removes leftovers of a killed run, where no other one is running; raises OSError."""
        for left in (*self._former.glob(".*"), *self._folder.glob(".*")):
            left.unlink()
        self._take_over()

    def read(self, node: str) -> Recording | None:
        """The node's newest snapshot, or None where none can be read."""
        # In this order: another command may be moving it.
        found = [one for folder in (self._former, self._folder) if (one := _read(folder, node)) is not None]
        return max(found, key=lambda one: one.received, default=None)

    def _take_over(self) -> None:
        """Moves what earlier versions kept, and of two snapshots of a node keeps the newer. What cannot be
        moved stays, and is still read. Another command may do the same at the same time."""
        if not self._former.is_dir():
            return
        with contextlib.suppress(OSError):
            self._former.rename(self._folder)
        left: list[Path] = []
        with contextlib.suppress(OSError):
            left += self._former.glob("[!.]*.json")
        for path in left:
            theirs, ours = _read(self._former, path.stem), _read(self._folder, path.stem)
            with contextlib.suppress(OSError):
                if ours is None or (theirs is not None and ours.received < theirs.received):
                    path.replace(self._folder / path.name)
                else:
                    path.unlink()
        with contextlib.suppress(OSError):
            self._former.rmdir()

    def write(self, recording: Recording, previous: Recording | None,
              state: LifecycleState = LifecycleState.SERVICE, unusual: Iterable[str] = (),
              rests: Mapping[str, Collection[int] | None] = _NO_RESTS) -> None:
        """Keeps this snapshot as the newest, with the captures that it lacks and the previous one of the same
        boot has.

        Beside them it keeps the node's lifecycle, when the boot before this one was last seen
        (`healthcheck.facts.boot`), what was unusual in its kernel log (`healthcheck.facts.seen_before`), the
        records on which its findings rest (`healthcheck.facts.carried_log`), what of the NVIDIA driver gave
        no answer (`healthcheck.facts.unanswered`), and that it has or had GPUs
        (`healthcheck.facts.gpusigns`). A node that was not reached changes nothing. Raises OSError.
        """
        if recording.host is None:
            return
        kept = trimmed(recording)
        captures = {name: capture for name, capture in kept.captures.items()
                    if capture.outcome is Outcome.DONE}
        if previous is not None and previous.host and previous.host.boot_id == recording.host.boot_id:
            if not captures:
                kept = previous     # this one served other rules: what is compared keeps its own time
            captures = {**trimmed(previous).captures, **captures}
        captures[BOOT_CAPTURE] = boot_capture(recording, previous, state)
        captures[UNUSUAL_CAPTURE] = unusual_capture(recording, previous, unusual)
        captures[LOG_CAPTURE] = log_capture(recording, previous, rests)
        captures.pop(GPUS_CAPTURE, None)
        if (had := gpus_capture(recording, previous)) is not None:
            captures[GPUS_CAPTURE] = had
        silent = unanswered_capture(recording, previous)
        captures.pop(UNANSWERED_CAPTURE, None)
        if silent is not None:
            captures[UNANSWERED_CAPTURE] = silent
        self._folder.mkdir(mode=0o700, exist_ok=True)
        path = self._folder / f"{recording.node}.json"
        write_whole(path, encode(replace(kept, captures=captures)), durable=False)

    def rename(self, old: str, new: str) -> bool:
        """Keeps the snapshot of the old name under the new one, unless there is a newer one; whether there
        was any. Raises OSError."""
        self._take_over()
        ours, theirs = self.read(old), self.read(new)
        if ours is not None and (theirs is None or theirs.received < ours.received):
            write_whole(self._folder / f"{new}.json", encode(replace(ours, node=new)))
        (self._folder / f"{old}.json").unlink(missing_ok=True)
        return ours is not None


def _read(folder: Path, node: str) -> Recording | None:
    try:
        recording = read((folder / f"{node}.json").read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return recording if recording.node == node else None


def trimmed(recording: Recording) -> Recording:
    """The recording with only the captures that a trend check may ask for."""
    wanted = {BOOT_CAPTURE, UNUSUAL_CAPTURE, LOG_CAPTURE, UNANSWERED_CAPTURE, GPUS_CAPTURE, *_trend_probes()}
    return replace(recording,
                   captures={name: value for name, value in recording.captures.items() if name in wanted})


def _trend_probes() -> Iterable[str]:
    for check in CHECKS.values():
        for name in check.earlier:
            yield from (probe.id for probe in FACTS[name].probes)


def encode(recording: Recording) -> bytes:
    """The recording as one JSON document; equal recordings give equal bytes."""
    return json.dumps(to_json(recording), separators=(",", ":")).encode() + b"\n"
