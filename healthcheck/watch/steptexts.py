"""Step times in the logs that training programs write for people.

    iteration      100/  500000 | consumed samples: ... | elapsed time per iteration (ms): 1234.5 | ...
    times across ranks (ms):            Megatron-LM with --timing-log-option all: phases of each rank
      forward-compute:
         rank  0: 312.10
    Training epoch 0, iteration 28/99 | ... global_step: 28 | ... train_step_timing in s: 0.189 | NeMo 2
    Epoch 0: ... [06:19<07:13, global_step=5.000, train_step_timing in s=49.50]                   NeMo 1
    [rank0]:[titan] 2025-06-04 08:51:58,557 - root - INFO - step: 10  loss: 10.7  ...            torchtitan
    iter 10: loss 3.4512, time 250.12ms                                                     plain logs

What launchers put before a line is taken off first (`healthcheck.joblog.prefix`). Where a line has a step and
no duration, the times of two lines tell it. A step that comes again tells a restart; one that was only
printed again, or by another rank that the log does not name, does not. Formats:
github.com/NVIDIA/Megatron-LM megatron/training/training.py (training_log) and megatron/core/timers.py;
github.com/NVIDIA/NeMo nemo/lightning/pytorch/callbacks/progress_printer.py; github.com/pytorch/torchtitan
torchtitan/components/metrics.py.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from healthcheck.joblog.model import LONGEST_LINE, LogClock
from healthcheck.joblog.prefix import Prefix, Prefixes, stamp
from healthcheck.watch import nvrx, steplines
from healthcheck.watch.model import NOT_MEASURED, PHASES, StepPhase, StepTime
from healthcheck.watch.nvrx import RankScore
from healthcheck.watch.stepwords import epoch_of, step_of

_OURS = '{"schema":'
_OUR_FORM = re.compile(r'\{"schema": ?"muster\.step/')
_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_RANK = re.compile(r"^\[[Rr]ank ?(\d{1,7})\]:? ?")
_BLOCK = re.compile(r"(?<!\) )\btimes across ranks \(ms\):\s*$")
_TIMER = re.compile(r"(?:^|\s)([a-z][a-z0-9-]{1,60}):\s*$")
_OF_RANK = re.compile(r"(?:^|\s)rank {1,6}(\d{1,7}): (\d{1,15}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?)\s*$")
_FILE = re.compile(r"(?:^|[^a-z])(?:rank|worker|task)[-_.]?(\d{1,7})(?=\D|$)", re.IGNORECASE)
_MOST_STEPS = 1000          # between two lines of one log
_MOST_RANKS = 200_000
_MOST_EPOCHS = 100_000
_MIXED = 4                  # steps that ranks which write into one log, without names, are apart at most
_SLACK_S = 5.0              # within which no job starts again

# Megatron-LM's timers by phase; those that hold others (forward-backward) are left out.
_TIMERS: Mapping[str, StepPhase] = {
    "batch-generator": StepPhase.DATA,
    "forward-compute": StepPhase.FORWARD,
    "backward-compute": StepPhase.BACKWARD,
    **dict.fromkeys(("forward-recv", "forward-send", "backward-recv", "backward-send",
                     "forward-send-forward-recv", "forward-send-backward-recv", "backward-send-forward-recv",
                     "backward-send-backward-recv", "forward-backward-send-forward-backward-recv",
                     "layernorm-grads-all-reduce", "embedding-grads-all-reduce", "all-grads-sync",
                     "params-all-gather"), StepPhase.COMMUNICATION),
    "save-checkpoint": StepPhase.CHECKPOINT,
}


def rank_of_file(name: str) -> int | None:
    """The rank that a file's name tells, such as rank_3.log; None where it tells none."""
    found = _FILE.search(name)
    return int(found[1]) if found is not None else None


class StepLog:
    """Reads one log, in pieces of whole lines; its state is bounded."""

    def __init__(self, job: str, clock: LogClock, *, host: str = "", rank: int | None = None,
                 attempt: int | None = None, nodes: Sequence[str] = (),
                 epochs: dict[int, int] | None = None) -> None:
        """`host`, `rank` and `attempt` are those of lines that name none. `epochs` has the steps before each
        epoch where each counts its own; logs of one job share it."""
        self._job, self._clock, self._nodes = job, clock, nodes
        self._host, self._rank, self._attempt = host, rank, attempt
        self._prefixes: Prefixes | None = None
        self._last: dict[int | None, tuple[int, float]] = {}    # step and time, by rank
        self._newest: StepTime | None = None
        self._begins = clock.near
        self._local: int | None = None
        self._epochs = epochs if epochs is not None else {}
        self._epoch: int | None = None
        self._block: _Block | None = None
        self._scores = nvrx.ScoreReader()
        self.forms: set[str] = set()
        self.unread = 0             # lines that claim to be of our form and are not
        self.why = ""               # the first of them, and why

    def begins(self, time: float) -> None:
        """When the first step began, in epoch seconds, for a log whose lines have no times."""
        self._begins = time

    def read(self, lines: Sequence[str]) -> Iterator[StepTime]:
        """The step times in the next lines of the log."""
        if self._prefixes is None and any(line[:10] != _OURS for line in lines):
            self._prefixes = Prefixes([_plain(line) for line in lines], self._clock, self._nodes)
        parse, ours = steplines.parse, "muster" in self.forms
        for line in lines:
            if line[:10] == _OURS:      # nearly all, in logs of our form
                try:
                    one = parse(line)
                except steplines.NoStepLine:
                    pass
                else:
                    if not ours:
                        ours = True
                        self.forms.add("muster")
                    yield one
                    continue
            yield from self._of_line(line)

    def finish(self) -> Iterator[StepTime]:
        """What the end of the log completes."""
        yield from self._closed()

    def scores(self) -> list[RankScore]:
        """What NVIDIA's resiliency extension said of ranks since the last call."""
        return self._scores.take()

    def _of_line(self, line: str) -> Iterator[StepTime]:
        ours = _OUR_FORM.search(line) if "muster.step/" in line else None
        if ours is not None or steplines.looks_like(line):
            try:
                yield steplines.parse(line[ours.start() if ours is not None else 0:])
                self.forms.add("muster")
            except steplines.NoStepLine as error:
                self.unread += 1
                self.why = self.why or str(error)
            return
        if self._prefixes is None:
            return
        text, prefix = self._prefixes.split(_plain(line))
        prefix = prefix or Prefix()
        if self._block is not None:
            if self._block.take(text):
                return
            yield from self._closed()
        if self._scores.line(text) is not None:
            self.forms.add("nvrx")
            return
        found = _RANK.match(text)
        rank = int(found[1]) if found is not None else prefix.task if prefix.task is not None else self._rank
        if found is not None:
            text = text[found.end():]
        if rank is None and prefix.local is not None:
            # The rank on its node alone: one of them speaks for the job, as the others cannot be named.
            self._local = prefix.local if self._local is None else self._local
            if prefix.local != self._local:
                return
        time = self._prefixes.time(prefix)
        time = time if time is not None else stamp(text, self._clock)
        one = self._step(text, rank, prefix.node or self._host, time)
        if one is not None:
            self._newest = one
            yield one
        elif _BLOCK.search(text) is not None and self._newest is not None:
            self._block = _Block()

    def _step(self, text: str, rank: int | None, host: str, time: float | None) -> StepTime | None:
        epoch = epoch_of(text)
        self._epoch = epoch if epoch is not None else self._epoch
        named = step_of(text)
        if named is None:
            return None
        form, step, seconds = named
        before, newest = self._last.get(rank), self._newest
        # Without times, a rank's steps follow each other; one that comes later begins with the newest step.
        known = before[1] if before is not None else self._begins if newest is None else (
            newest.time - newest.seconds * newest.steps)
        if form == "plain" and self._epoch is not None:
            step += self._before_epoch(self._epoch, step, before)
        passed = step - before[0] if before is not None else 1
        if before is not None and (passed == 0 or (rank is None and -_MIXED < passed < 0)) and (
                time is None or time - before[1] <= (seconds or 0.0) + _SLACK_S):
            # Said again: by a second logger, a bar drawn again, what a checkpoint took; or by another rank.
            self._remember(rank, before[0], time if time is not None else known)
            return None
        steps = passed if 1 <= passed <= _MOST_STEPS else 1
        if seconds is None:
            # Without a duration of its own only the time since the line before tells.
            if before is None or time is None or time <= before[1] or passed != steps:
                if before is None or time != before[1]:     # of lines in the same second the first counts
                    self._remember(rank, step, time if time is not None else known)
                return None
            seconds = (time - before[1]) / steps
        if time is None:
            time = known + seconds * steps
        self._remember(rank, step, time)
        self.forms.add(form)
        return StepTime(self._job, rank, host, self._attempt, step, steps, time, seconds,
                        (NOT_MEASURED,) * len(PHASES))

    def _before_epoch(self, epoch: int, step: int, before: tuple[int, float] | None) -> int:
        """How many steps the job made before this epoch, where each counts its steps from the first again."""
        if epoch not in self._epochs and len(self._epochs) < _MOST_EPOCHS:
            earlier = max((one for one in self._epochs if one < epoch), default=None)
            so_far = self._epochs[earlier] if earlier is not None else 0
            if earlier is not None and before is not None and step + so_far <= before[0]:
                so_far = before[0] + (step == 0)
            self._epochs[epoch] = so_far
        return self._epochs.get(epoch, 0)

    def _remember(self, rank: int | None, step: int, time: float) -> None:
        if len(self._last) < _MOST_RANKS or rank in self._last:
            self._last[rank] = (step, time)

    def _closed(self) -> Iterator[StepTime]:
        """The phases of each rank that a block of Megatron-LM's timers gave, at the newest step."""
        block, self._block = self._block, None
        if block is None or self._newest is None:
            return
        for rank, phases in block.ranks.items():
            yield self._newest._replace(rank=rank, host="", phases=tuple(phases))


class _Block:
    """Megatron-LM's times across ranks, as far as they were read."""

    def __init__(self) -> None:
        self.ranks: dict[int, list[float]] = {}
        self._phase: StepPhase | None = None

    def take(self, text: str) -> bool:
        """Whether the line belongs to it."""
        if (value := _OF_RANK.search(text)) is not None:
            rank = int(value[1])
            if self._phase is not None and (len(self.ranks) < _MOST_RANKS or rank in self.ranks):
                phases = self.ranks.setdefault(rank, [NOT_MEASURED] * len(PHASES))
                place = PHASES.index(self._phase)
                so_far = phases[place] if phases[place] == phases[place] else 0.0
                phases[place] = so_far + float(value[2]) / 1000
            return True
        if (name := _TIMER.search(text)) is not None:
            self._phase = _TIMERS.get(name[1])
            return True
        return False


def _plain(line: str) -> str:
    """The line without colours."""
    line = line.rstrip("\r\n")[:LONGEST_LINE]
    return _ESCAPE.sub("", line) if "\x1b" in line else line
