"""Which file speaks for a rank, or for the job as a whole: the same steps may stand in a copy, or in files of
several unnamed ranks. A file that begins where the one before ends is of a restart or a rotation."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from healthcheck.watch.model import StepTime


@dataclass(slots=True)
class _Voice:
    """A file: since when it speaks, and until which step and time."""

    file: Hashable
    first: float
    step: int = -1
    last: float = 0.0


@dataclass
class Voices:
    """The files of one job, by what names each; lines come in order of time, but for those of other files."""

    _speaking: dict[int | None, _Voice] = field(default_factory=dict)
    _known: dict[int | None, set[Hashable]] = field(default_factory=dict)

    def counts(self, file: Hashable, line: StepTime) -> bool:
        """Whether this line of a file does."""
        voice = self._speaking.get(line.rank)
        if voice is None or voice.file != file:
            known = self._known.setdefault(line.rank, set())
            new = file not in known
            known.add(file)
            if voice is not None:
                took = line.seconds * line.steps
                # Times that are reckoned from durations are a little apart.
                again = new and line.time - took >= max(voice.last - took / 2, (voice.first + voice.last) / 2)
                if not again and (line.step <= voice.step or line.time <= voice.last):
                    return False
            voice = self._speaking[line.rank] = _Voice(file, line.time)
        voice.step, voice.last = line.step, line.time
        return True
