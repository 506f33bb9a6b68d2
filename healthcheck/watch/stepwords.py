"""What a line of a training log says of a step: its number, and how long it took where the line says so.

Words differ by program. A duration is a step's own where a name says so, or where no word before it says that
it is of something else: a phase, an average, what is left to do. Rates ("1.2 s/it") are none.
"""

from __future__ import annotations

import re

from healthcheck.watch import steplines

_NUMBER = r"(\d{1,15}(?:\.\d{1,9})?(?:e[+-]?\d{1,3})?)"
_UNIT = r"(ms|msec|s|sec|secs|seconds|milliseconds)(?:/(?:step|iter|iteration)\b)?"
_MEGATRON = re.compile(r"\biteration\s{1,12}(\d{1,15})/\s{0,12}\d{1,15} \|[^\n]{0,4000}?"
                       rf"elapsed time per iteration \(ms\): {_NUMBER}")
_NEMO = re.compile(rf"train_step_timing in s[:=] ?{_NUMBER}")
_NEMO_STEP = re.compile(rf"global_step[:=] ?{_NUMBER}")
_STEP = re.compile(r"(?:^|[^\w.])(?:global[_ ]step|train[_ ]step|step|iteration|iter)\b[\]\[(\s:=#\"']{1,6}"
                   r"(\d{1,15})\b", re.IGNORECASE)
_TIMED = re.compile(rf"(?<![\w.,/:]){_NUMBER} ?{_UNIT}(?![\w/])", re.IGNORECASE)
# The names of a step's own time, the surest first; what has only elapsed may be of the whole job.
_NAMES = (r"step[_ ]?time|iter(?:ation)?[_ ]?time|time[_ ]per[_ ](?:step|iteration)", "time|took|dt",
          "elapsed")
_NAMED = tuple(re.compile(rf"\b(?:{names})(?:[_ ]?\(?(ms|s|sec|seconds)\)?)?[ :=\"']{{1,4}}{_NUMBER}"
                          r" ?(ms|s|sec|seconds)?(?![\w/])", re.IGNORECASE) for names in _NAMES)
_OF_ANOTHER = re.compile(
    r"\b(?:eta|remaining|left|total|since|timeout|avg|average|mean|min|max|data|batch|load(?:ing)?|fwd|"
    r"forward|bwd|backward|opt|optim|optimizer|comm|communication|wait|sync|eval|evaluation|val|validation|save|"
    r"saving|saved|checkpoint|ckpt)[\W_]{1,3}$", re.IGNORECASE)
# Before the step: it is no step of training that the line speaks of.
_NO_TRAINING = re.compile(
    r"\b(?:val|valid|validation|eval|evaluation|evaluating|sav(?:e|ed|ing)|checkpoint|checkpointing|ckpt|"
    r"loaded|loading|resum(?:e|ed|ing)|restor(?:e|ed|ing))\b(?=[\s:\]])", re.IGNORECASE)
_EPOCH = re.compile(r"\bepoch\b[\]\[(\s:=#\"']{1,6}(\d{1,9})(?![\d.])", re.IGNORECASE)


def step_of(text: str) -> tuple[str, int, float | None] | None:
    """The form of the line, its step, and the seconds of one step if said; None where it is of none."""
    if (found := _MEGATRON.search(text)) is not None:
        return "Megatron-LM", int(found[1]), _bounded(float(found[2]) / 1000)
    if (found := _NEMO.search(text)) is not None:
        step = _NEMO_STEP.search(text)
        if step is None or (number := float(step[1])) > 1e15:
            return None
        return "NeMo", int(number), _bounded(float(found[1]))
    if (found := _STEP.search(text)) is None or _NO_TRAINING.search(text, 0, found.end()) is not None:
        return None
    return "plain", int(found[1]), _duration(text, found.end())


def epoch_of(text: str) -> int | None:
    """The epoch that the line names, None where it names none or a part of one."""
    if "poch" not in text and "POCH" not in text:
        return None
    found = _EPOCH.search(text)
    return int(found[1]) if found is not None else None


def _duration(text: str, start: int) -> float | None:
    for named in (*_NAMED[:2], None, _NAMED[2]):
        for found in (named or _TIMED).finditer(text, start):
            number, unit = (found[1], found[2]) if named is None else (found[2], found[3] or found[1])
            if unit and _OF_ANOTHER.search(text[max(start, found.start() - 20):found.start()]) is None:
                return _bounded(float(number) / (1000 if unit.lower().startswith("m") else 1))
    return None


def _bounded(seconds: float) -> float | None:
    return seconds if 0 < seconds <= steplines.LONGEST_S else None
