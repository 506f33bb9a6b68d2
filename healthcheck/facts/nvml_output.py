"""The NVML reader's output (healthcheck.collector.onnode.nvml): a first line for the node, and one for each
GPU with its readings."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from healthcheck.facts.values import UNSUPPORTED, Unmeasured, Unread

Line = Mapping[str, Any]


class NvmlAnswer(NamedTuple):
    """The reader's lines: the first, and one for each GPU."""

    head: Line
    gpus: Sequence[Line]


def read(text: str) -> NvmlAnswer:
    """The reader's lines, without those that do not say which GPU they are of: a GPU that is missing then.
    Raises Unread where they are not in our format, ValueError for text that is not JSON."""
    lines = [json.loads(line) for line in text.splitlines()]
    if not lines or not all(isinstance(line, dict) for line in lines):
        raise Unread("the NVML reader's answer is empty or not in our format")
    gpus = [line for line in lines[1:] if type(line.get("index")) is int]
    twice = [index for index, count in Counter(map(index_of, gpus)).items() if count > 1]
    if twice:
        raise Unread(f"the NVML reader's answer holds GPU {str(twice[0])[:20]} twice")
    return NvmlAnswer(lines[0], gpus)


def reading(document: Line, key: str, kind: type, source: str = "NVML") -> Any:
    """One reading of the NVML reader: {"ok": value}, {"na": true} or {"error": [code, message]}."""
    value = document.get(key)
    if not isinstance(value, dict):
        return Unmeasured(f"{source}: {key} was not read")
    if type(found := value.get("ok")) is kind:
        return found
    if value.get("na") is True:
        return UNSUPPORTED
    error = error_of(value)
    if error is not None:
        code, words = error
        index = document.get("index")
        return Unmeasured(f"{source}: {key}: {words} (error {code})",
                          asked=asked(code, index) if type(index) is int else ())
    return Unmeasured(f"{source}: {key} has the value {str(value.get('ok'))[:40]!r}, expected "
                      f"{kind.__name__}")


# nvmlReturn_t (nvml.h) that say nothing of a GPU: the call was not allowed to us (4; 17: blocked by the
# operating system or a cgroup), was made wrongly, or by a library that lacks it or does not fit (1, 2, 5, 7,
# 12, 13, 25, 26), our process had no memory (20), or the reader itself failed (-1).
OUR_OWN = frozenset((-1, 1, 2, 4, 5, 7, 12, 13, 17, 20, 25, 26))


def error_of(value: Any) -> tuple[int, str] | None:
    """NVML's number and words in a reading or a GPU's line that holds an error."""
    error = value.get("error") if isinstance(value, dict) else None
    if isinstance(error, list) and len(error) == 2 and type(error[0]) is int:
        return error[0], str(error[1])[:100]
    return None


DRIVER = "driver"       # the name of the driver's fact


def asked(code: int, *indexes: int) -> tuple[str, ...]:
    """Who was asked and answered with this error, as `Unmeasured` has them: one of these GPUs, or the driver
    where no GPU answers. No one where the error is our own."""
    return () if code in OUR_OWN else (*[f"GPU {index}" for index in indexes], DRIVER)


def index_of(line: Line) -> int:
    """The GPU's number in NVML's order."""
    index = line.get("index")
    if type(index) is not int:
        raise Unread("the NVML reader's answer holds a GPU without an index")
    return index


def handle_error(line: Line, source: str = "NVML") -> Unmeasured | None:
    """Why nothing was read of this GPU, if NVML gave no handle of it."""
    error = error_of(line)
    if error is None:
        return None
    code = "" if error[0] == -1 else f" (error {error[0]})"     # ours, as a limit, has no number
    silent = error[0] == -1 and error[1].startswith(("no answer within ", "wedged since "))
    index = index_of(line)
    by = (f"GPU {index}", DRIVER) if silent else asked(error[0], index)
    return Unmeasured(f"{source}: {error[1]}{code}", asked=by)
