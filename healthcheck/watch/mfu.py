"""Model FLOPs utilisation: the operations that a model needs for a step, as a share of what its GPUs could do
in that time.

A token costs 6 N + 12 L H S operations, forward and backward: N parameters (those that a token passes, of a
mixture of experts), L layers of hidden size H, and S tokens in a sequence. Source: Chowdhery et al., "PaLM:
Scaling Language Modeling with Pathways", arXiv 2204.02311, appendix B, where it reads 6 N + 12 L H Q T (H
heads of size Q, together our H, and T our S). Causal attention is not halved, and what is computed again to
save memory does not count, as in that source.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from healthcheck.watch.model import StepWindow

POINTS = 48         # of a series over time


@dataclass(frozen=True)
class ModelShape:
    """`parameters`, `layers`, `hidden`, `sequence` (tokens of one sequence) and `tokens` of one step, over
    all ranks; `layers`, `hidden` and `sequence` are 0 where attention is not to be counted."""

    parameters: float
    tokens: float
    layers: int = 0
    hidden: int = 0
    sequence: int = 0

    @property
    def flops(self) -> float:
        """Operations of one step."""
        return self.tokens * (6 * self.parameters + 12.0 * self.layers * self.hidden * self.sequence)

    @property
    def whole(self) -> bool:
        """Whether attention is counted."""
        return bool(self.layers and self.hidden and self.sequence)


@dataclass(frozen=True)
class UtilisationPoint:
    """The utilisation of some windows in a row, the last of which ended at `time` (epoch seconds)."""

    time: float
    step: int
    mfu: float


@dataclass(frozen=True)
class Utilisation:
    """`flops` a step, on `gpus` of `peak_tflops` each (dense). `mfu` is that of the time in steps, None
    without windows; `over_time` its course, oldest first."""

    flops: float
    gpus: int
    peak_tflops: float
    mfu: float | None
    over_time: tuple[UtilisationPoint, ...] = ()


def utilisation(windows: Sequence[StepWindow], flops: float, gpus: int, peak_tflops: float) -> Utilisation:
    """The utilisation over these windows, oldest first; `gpus` and `peak_tflops` are above 0."""
    known = [one for one in windows if one.seconds > 0]
    width = -(-len(known) // POINTS) or 1
    groups = [[one for _, one in part] for _, part in
              groupby(enumerate(known), key=lambda pair: pair[0] // width)]
    points = tuple(UtilisationPoint(part[-1].time, part[-1].last, _mfu(part, flops, gpus, peak_tflops))
                   for part in groups)
    return Utilisation(flops, gpus, peak_tflops, _mfu(known, flops, gpus, peak_tflops) if known else None,
                       points)


def _mfu(windows: Sequence[StepWindow], flops: float, gpus: int, peak_tflops: float) -> float:
    steps = sum(one.last - one.first + 1 for one in windows)
    seconds = sum((one.last - one.first + 1) * one.seconds for one in windows)
    return steps * flops / (seconds * gpus * peak_tflops * 1e12)
