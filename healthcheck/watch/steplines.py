"""The documented form of step times: one line of JSON for each rank and step, or for some steps in a row.

    {"schema":"muster.step/1","job":"4711","rank":5,"host":"gpu001","step":1200,"time":1764288000.25,
     "seconds":0.981}

`seconds` is the time of one step. Optional are `attempt` (0 for the first start of the job), `steps` (how
many steps the line covers, `step` being the last; all times are then means of one step), `role` (ranks of
one role do equal work), `data`, `forward`, `backward`, `communication` and `checkpoint` (seconds of a step),
`gc`, `delay`, `faults`, `memory`, `cpu` and `gpu`. Unknown keys are ignored, so that a later callback can
write more.
"""

from __future__ import annotations

import json
import math
from functools import lru_cache
from typing import Any

from healthcheck.watch.model import NOT_MEASURED, StepTime
from inventory.text import clean

SCHEMA = "muster.step/1"
LONGEST = 4096              # characters of a line
MOST_RANK = 1_048_576
MOST_STEPS = 100_000        # that one line may cover
_PHASES = ("data", "forward", "backward", "communication", "checkpoint")
_EXTRA = ("role", "gc", "delay", "faults", "memory", "cpu", "gpu")
_NO_EXTRA = ("", *(NOT_MEASURED,) * 5, "")
LONGEST_NAME = 253          # characters of a job, a host or a role
_LATEST = 253_402_300_800.0     # the year 10000
LONGEST_S = 31 * 86400.0       # of one step


_DECODE = json.JSONDecoder().raw_decode     # for lines without blanks before them, as `looks_like` takes


class NoStepLine(ValueError):
    """A line that claims to be of this form and is not; the text names the key and what is expected."""


def looks_like(line: str) -> bool:
    """Whether a line claims to be of this form."""
    return line.startswith("{") and '"muster.step/' in line[:200]


def parse(line: str) -> StepTime:
    """The step times of one line. Raises NoStepLine."""
    if len(line) > LONGEST:
        raise NoStepLine(f"the line is longer than {LONGEST} characters")
    try:
        found, end = _DECODE(line)
        if end != len(line) and line[end:].strip():
            raise ValueError(line[end:end + 1])
    except (ValueError, RecursionError):
        raise NoStepLine("it is cut, or no JSON") from None
    if type(found) is not dict or found.get("schema") != SCHEMA:
        raise NoStepLine(f"schema: expected {SCHEMA}")
    get = found.get
    rank, step, steps, attempt = get("rank"), get("step"), get("steps", 1), get("attempt")
    if type(rank) is not int or not 0 <= rank < MOST_RANK:
        raise NoStepLine(f"rank: expected a number from 0 to {MOST_RANK - 1}")
    if type(step) is not int or not 0 <= step < 1 << 53:
        raise NoStepLine("step: expected a whole number, 0 or more")
    if type(steps) is not int or not 1 <= steps <= MOST_STEPS:
        raise NoStepLine(f"steps: expected a whole number from 1 to {MOST_STEPS}")
    if attempt is not None and (type(attempt) is not int or not 0 <= attempt < 1_000_000):
        raise NoStepLine("attempt: expected a whole number, 0 or more")
    timed = (get("data", NOT_MEASURED), get("forward", NOT_MEASURED), get("backward", NOT_MEASURED),
             get("communication", NOT_MEASURED), get("checkpoint", NOT_MEASURED))
    for value in timed:
        if type(value) is not float or value < 0 or value > LONGEST_S:
            timed = tuple([_optional(get(name), name) for name in _PHASES])  # type: ignore[assignment]
            break
    extra = _NO_EXTRA if found.keys().isdisjoint(_EXTRA) else (
        _text(get("role", ""), "role"), _optional(get("gc"), "gc"), _optional(get("delay"), "delay"),
        _optional(get("faults"), "faults", 1e12), _optional(get("memory"), "memory", 1e18),
        _optional(get("cpu"), "cpu"), _text(get("gpu", ""), "gpu"))
    # The usual case stands here and not in functions: it is that of millions of lines.
    job, host, time, seconds = get("job"), get("host"), get("time"), get("seconds")
    job = _cleaned(job) if type(job) is str and len(job) <= LONGEST_NAME else _text(job, "job")
    host = _cleaned(host) if type(host) is str and len(host) <= LONGEST_NAME else _text(host, "host")
    if type(time) is not float or not 0 <= time <= _LATEST:
        time = _number(time, "time", _LATEST)
    if type(seconds) is not float or not 0 <= seconds <= LONGEST_S:
        seconds = _number(seconds, "seconds", LONGEST_S)
    return StepTime._make((job, rank, host, attempt, step, steps, time, seconds, timed, *extra))


_cleaned = lru_cache(1 << 16)(clean)     # names are few, and come again in each line


def _text(value: Any, key: str) -> str:
    if type(value) is str and len(value) <= LONGEST_NAME:
        return _cleaned(value)
    if type(value) is int and key in ("job", "gpu") and 0 <= value < 1 << 63:
        return str(value)
    raise NoStepLine(f"{key}: expected a text of at most {LONGEST_NAME} characters")


def _number(value: Any, key: str, most: float) -> float:
    if type(value) in (float, int) and 0 <= value <= most:
        return float(value)
    wanted = "epoch seconds, such as 1764288000.25" if key == "time" else f"a number from 0 to {most:g}"
    raise NoStepLine(f"{key}: expected {wanted}, got {clean(repr(value), 40)}")


def _optional(value: Any, key: str, most: float = LONGEST_S) -> float:
    if value is None:
        return NOT_MEASURED
    if type(value) is float and 0 <= value <= most:
        return value
    return _number(value, key, most)


def line(found: StepTime) -> str:
    """The line of these step times, without a line end; `parse` gives the same value again."""
    values: dict[str, Any] = {"schema": SCHEMA, "job": found.job, "rank": found.rank, "host": found.host,
                              "attempt": found.attempt, "step": found.step, "steps": found.steps,
                              "time": found.time, "seconds": found.seconds, "role": found.role}
    values |= dict(zip(_PHASES, found.phases, strict=True))
    values |= {"gc": found.gc, "delay": found.delay, "faults": found.faults, "memory": found.memory,
               "cpu": found.cpu, "gpu": found.gpu}
    left_out = {key for key, value in values.items() if value is None
                or (key, value) in (("role", ""), ("gpu", ""))
                or (isinstance(value, float) and math.isnan(value))}
    return json.dumps({key: value for key, value in values.items() if key not in left_out},
                      separators=(",", ":"))
