"""Straggler reports of NVIDIA's resiliency extension (nvrx), as its callback logs them.

    GPU relative performance:
     Worst performing 5/512 ranks:
      Rank=76 Node=h100-001-253-012 Score=0.94
    STRAGGLER DETECTION WARNING: Some GPUs have worse relative performance. Affected ranks: [76, 13]
    ... Affected ranks: {StragglerId(rank=76, node='h100-001-253-012')}

A score is 1.0 for the best; its callback warns below 0.7. Format: github.com/NVIDIA/nvidia-resiliency-ext
src/nvidia_resiliency_ext/ptl_resiliency/straggler_det_callback.py, and NeMo's documentation of it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from inventory.text import clean

_HEADING = re.compile(r"\bGPU (relative|individual) performance:\s*$")
_SCORE = re.compile(r"\bRank=(\d{1,7}) Node=(\S{1,253}) Score=(\d(?:\.\d{1,6})?)(?!\d)")
_WARNING = re.compile(r"STRAGGLER DETECTION WARNING: Some GPUs (have worse relative performance|performance "
                      r"dropped)\. Affected ranks: ([\[{][^\n]{0,8000})")
_ID = re.compile(r"rank=(\d{1,7})(?:, ?node=['\"]?([\w.-]{1,253}))?")
_PLAIN = re.compile(r"\d{1,7}")
_LOW = 0.7
_MOST = 10_000      # that are kept until they are taken


@dataclass(frozen=True)
class RankScore:
    """What a report says of one rank; `score` is None where it only warns. `relative`: beside the other
    ranks; else beside its own past."""

    rank: int
    host: str
    score: float | None
    relative: bool
    warned: bool = False

    @property
    def low(self) -> bool:
        """Whether the rank is slow, by the report's own word or its default threshold."""
        return self.warned or (self.score is not None and self.score < _LOW)

    @property
    def words(self) -> str:
        """In words, for evidence."""
        return f"nvrx: rank {self.rank} {'is slow' if self.score is None else f'scores {self.score:.2f}'}"


class ScoreReader:
    """Reads the reports line by line; it keeps a bounded number until they are taken."""

    def __init__(self) -> None:
        self._relative = True
        self._found: list[RankScore] = []

    def line(self, text: str) -> int | None:
        """How many ranks the line names; None where it is none of a report."""
        if "erforming" not in text and "Score=" not in text and "performance" not in text:
            return None
        if (heading := _HEADING.search(text)) is not None:
            self._relative = heading[1] == "relative"
            return 0
        found: list[RankScore] = []
        if (score := _SCORE.search(text)) is not None:
            found = [RankScore(int(score[1]), clean(score[2], 253), float(score[3]), self._relative)]
        elif (warning := _WARNING.search(text)) is not None:
            relative = warning[1].startswith("have")
            named = [(int(one[1]), one[2] or "") for one in _ID.finditer(warning[2])]
            named = named or [(int(one[0]), "") for one in _PLAIN.finditer(warning[2])]
            found = [RankScore(rank, host, None, relative, warned=True) for rank, host in named]
        else:
            return None
        self._found += found[:max(0, _MOST - len(self._found))]
        return len(found)

    def take(self) -> list[RankScore]:
        """Those since the last call."""
        found, self._found = self._found, []
        return found
