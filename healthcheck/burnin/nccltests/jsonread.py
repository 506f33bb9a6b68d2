"""Reads the JSON of nccl-tests -J, whole or cut off, and drops the environment that it contains.

Its traps (github.com/NVIDIA/nccl-tests, src/util.cu, JSON_FILE_VERSION 3): booleans are words, a root is a
padded word, counts of wrong values are floats, nan is a word, and each process lists only the first of its
GPUs.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from healthcheck.burnin import limits
from healthcheck.burnin.nccltests.model import (
    Half,
    IterationSpread,
    NcclDevice,
    NcclRow,
    NcclRun,
    OutOfBounds,
    OutputLine,
)
from inventory.text import clean

_SECRET = ("env",)
_PART = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],"]', re.DOTALL)
_CONFIG = {"nthreads": "threads", "ngpus": "gpus", "minimum_bytes": "smallest", "maximum_bytes": "largest",
           "warmup_iters": "warmup", "iterations": "iterations", "aggregated_iterations": "aggregated",
           "validation": "validation", "graph": "graph"}


def read(text: str) -> NcclRun | None:
    """The run in such a file; None where -J did not write it."""
    document = load(text)
    return of_document(document) if is_ours(document) else None


def is_ours(document: Any) -> bool:
    """Whether -J wrote it; a run that failed before its first size has no results."""
    return isinstance(document, Mapping) and (
        (isinstance(document.get("results"), list) and "out_of_bounds" in document)
        or ("args" in document and "start_time" in document))


def load(text: str) -> Any:
    """The JSON of this text, without what may hold secrets; cut off, up to the last value that is whole."""
    if len(text) > limits.NCCL_BYTES or not text[:64].lstrip().startswith(("{", "[")):
        return None
    for candidate in (text, _closed(text)):
        try:
            document = json.loads(candidate)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict):
            return {key: value for key, value in document.items() if key not in _SECRET}
        return document
    return None


def _closed(text: str) -> str:
    """The text up to its last whole value in a list or an object, with what is open closed."""
    open_now: list[str] = []
    kept, still_open = 0, ""
    for part in _PART.finditer(text):
        sign = part[0]
        if sign == '"':
            break       # a word that was cut off
        if sign in "{[":
            open_now.append("}" if sign == "{" else "]")
        elif sign in "}]":
            if not open_now or open_now.pop() != sign:
                break
            kept, still_open = part.end(), "".join(reversed(open_now))
        elif sign == ",":
            kept, still_open = part.start(), "".join(reversed(open_now))
    return text[:kept] + still_open


def of_document(document: Mapping[str, Any]) -> NcclRun:
    """What -J wrote; whatever is of another kind than it writes is left out."""
    config = mapping_of(document.get("config"))
    listed = [device for device in items_of(config.get("devices")) or items_of(document.get("devices"))
              if isinstance(device, Mapping)]
    devices = tuple(NcclDevice(count_of(entry.get("rank")) or 0, count_of(entry.get("group")) or 0,
                               clean(entry.get("hostname", ""), 253), count_of(entry.get("device")) or 0,
                               clean(entry.get("device_hex", ""),
                                     20), clean(entry.get("device_info", ""), 80)) for entry in listed)
    counts = {name: count for key, name in _CONFIG.items()
              if (count := count_of(config.get(key))) is not None}
    # Each process lists only the first of its GPUs.
    of_first = sum(device.group == devices[0].group for device in devices)
    ranks = (of_first * counts["threads"] * counts["gpus"] if devices and "threads" in counts
             and "gpus" in counts else 0)
    results = [entry for entry in items_of(document.get("results"))[:limits.NCCL_ROWS]
               if isinstance(entry, Mapping)]
    args = items_of(document.get("args"))
    bounds, average = (mapping_of(document.get("out_of_bounds")),
                       mapping_of(document.get("average_bus_bandwidth")))
    wrong = count_of(bounds.get("count"))
    okay = str(average.get("okay")).lower()
    return NcclRun(
        clean(str(args[0]).rpartition("/")[2], 60) if args else "", "",
        count_of(document.get("nccl_version")), ranks, 1, devices, counts,
        tuple(row for entry in results if (row := _row(entry)) is not None),
        any("cpu_time" in mapping_of(entry.get("out_of_place"))
            or "cpu_time" in mapping_of(entry.get("in_place")) for entry in results),
        OutOfBounds(wrong, str(bounds.get("okay")).lower() == "true") if wrong is not None else None,
        number_of(average.get("bandwidth")), okay == "true" if okay in ("true", "false") else None,
        tuple(OutputLine(0, clean(error, 300)) for error in items_of(document.get("errors"))[:16]
              if str(error).strip()),
    )


def _row(entry: Mapping[str, Any]) -> NcclRow | None:
    size = count_of(entry.get("size"))
    if size is None:
        return None
    root = str(entry.get("root", "")).strip()
    # A row that was cut off lacks what follows both halves, and its last iterations.
    whole = "actual_iterations" in entry
    out, into = (half_of(mapping_of(entry.get(name)), mapping_of(entry.get(f"{name}_per_iter"))
                         if whole else {}) for name in ("out_of_place", "in_place"))
    return NcclRow(0, size, count_of(entry.get("count")) or 0, clean(entry.get("type", ""), 20),
                   clean(entry.get("redop", ""), 20), int(root) if re.fullmatch(r"-?\d{1,7}", root) else None,
                   out, into)


def half_of(entry: Mapping[str, Any], each: Mapping[str, Any]) -> Half | None:
    """A half and how its iterations spread; None where it has no numbers."""
    time, algbw, busbw = (number_of(entry.get("time", entry.get("cpu_time"))), number_of(entry.get("alg_bw")),
                          number_of(entry.get("bus_bw")))
    if time is None or algbw is None or busbw is None or not math.isfinite(time + algbw + busbw):
        return None
    spread = [number_of(each.get(name)) for name in ("min_us", "max_us", "p99_us", "cv_pct")]
    found = [value for value in spread if value is not None and math.isfinite(value)]
    skipped = count_of(each.get("skipped_iterations")) or 0
    times = [number_of(value) for value in items_of(each.get("times_us"))[:limits.NCCL_TIMES]]
    whole = [value for value in times if value is not None and math.isfinite(value)]
    return Half(time, algbw, busbw, count_of(entry.get("nwrong")),
                spread=IterationSpread(*found) if len(found) == 4 else None,
                times_us=tuple(whole[skipped:]) if len(whole) == len(times) else ())


def mapping_of(value: Any) -> Mapping[str, Any]:
    """The value where it is an object."""
    return value if isinstance(value, Mapping) else {}


def items_of(value: Any) -> list[Any]:
    """The value where it is a list."""
    return value if isinstance(value, list) else []


def number_of(value: Any) -> float | None:
    """A number, or one written as a word; None where it is none, as for true."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        return float(value)
    except (ValueError, OverflowError):
        return None


def count_of(value: Any) -> int | None:
    """The same, where it is finite and not below 0, as a whole number."""
    found = number_of(value)
    return int(found) if found is not None and math.isfinite(found) and found >= 0 else None
