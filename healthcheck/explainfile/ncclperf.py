"""Reads the output of nccl-tests: its table as every version since 2.0 prints it, and what -J writes.

The heading names the columns, numbers are taken from the right, and tags of launchers are dropped. Formats: github.com/NVIDIA/nccl-tests,
src/common.cu (the table), src/util.cu (-J; booleans are words, and the whole environment is in it, which is left alone).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from healthcheck.explainfile.model import LONGEST_QUOTE, Quote
from healthcheck.explainfile.quoting import Lines
from healthcheck.explainfile.recognise import TABLE
from inventory.text import clean

_TAG = re.compile(r"\[\d{1,5}(?:,\d{1,5})?\](?:<std(?:out|err)>)?:?")
_NUMBER = re.compile(r"(?:\d{1,20}(?:\.\d{1,6})?(?:e[+-]?\d{1,3})?|N/A|nan|inf|-nan)")
_DEVICE = re.compile(r"# +Rank +(\d{1,6}) .{0,60}? on +(\S{1,253}) +device +\d{1,3} +\[[\w:.]{1,20}\] +(\S[^\n]{0,80})")
_TEST = re.compile(r"Collective test starting: (\w{1,40})|\b(\w{1,40}_perf)\b")
_BOUNDS = re.compile(r"# Out of bounds values *: *(\d{1,20}) (OK|FAILED)")
_FOOTER = "# Avg bus bandwidth"
_FAILED = re.compile(r"Test (?:NCCL|CUDA) failure [^\n]{1,300}|: Test timeout|Test failure [^\n]{1,200}")
_MOST_ROWS = 10_000


@dataclass(frozen=True)
class Half:
    """One half of a row, out of place or in place; bandwidths in GB/s, `wrong` None where nothing was verified."""

    time_us: float
    algbw: float
    busbw: float
    wrong: int | None


@dataclass(frozen=True)
class Row:
    """One size of the table; `line` is 0 where it is from JSON."""

    line: int
    text: str
    size: int
    halves: tuple[Half, ...]


@dataclass(frozen=True)
class Run:
    """One output. `hosts` are those of the ranks; `bounds` is the footer's count and whether it calls that OK."""

    test: str
    rows: tuple[Row, ...]
    ranks: int
    hosts: frozenset[str]
    gpu: str
    bounds: tuple[int, bool, Quote] | None
    ended: bool
    failures: tuple[Quote, ...]


def read(lines: Lines) -> Run:
    """The first table of an output."""
    text = lines.text
    heading = TABLE.search(text)
    rows = _rows(lines, heading) if heading is not None else ()
    devices = _DEVICE.findall(text[:heading.start()] if heading is not None else text)
    named = _TEST.search(text)
    bounds = _BOUNDS.search(text)
    failures = []
    for match in _FAILED.finditer(text):
        start = text.rfind("\n", max(0, match.start() - LONGEST_QUOTE), match.start()) + 1
        failures.append(Quote(lines.number(match.start()), clean(text[max(start, match.start() - 200):match.end()].strip(), LONGEST_QUOTE)))
        if len(failures) == 3:
            break
    return Run(
        (named[1] or named[2]) if named is not None else "", tuple(rows), len(devices), frozenset(host for _, host, _ in devices),
        clean(devices[0][2].strip(), 80) if devices else "",
        (int(bounds[1]), bounds[2] == "OK", Quote(lines.number(bounds.start()), clean(bounds[0]))) if bounds is not None else None,
        _FOOTER in text, tuple(failures),
    )


def _rows(lines: Lines, heading: re.Match[str]) -> Iterator[Row]:
    text, found = lines.text, 0
    at = text.find("\n", heading.end()) + 1
    named = text[heading.start():at or len(text)][:1000].split()
    first = named.index("time")
    # -I adds columns to each half, and -S a time of two words behind them.
    half = named.index("time", first + 1) - first if "time" in named[first + 1:] else len(named) - first
    columns = named[first:first + half]
    while 0 < at < len(text) and found < _MOST_ROWS:
        end = text.find("\n", at)
        end = len(text) if end < 0 else end
        line = _TAG.sub(" ", text[at:min(end, at + 1000)])
        place, at = at, end + 1
        words = line.split()
        if line.strip().startswith(_FOOTER):
            return
        if not words or not words[0].isdigit() or len(words[0]) > 18:
            continue
        numbers = words[:-2] if "timestamp" in named else words
        tail = numbers[-2 * half:]
        if len(numbers) < 2 * half + 2 or not all(_NUMBER.fullmatch(word) for word in tail):
            continue
        halves = tuple(read for part in (tail[:half], tail[half:]) if (read := _half(columns, part)) is not None)
        if halves:
            found += 1
            yield Row(lines.number(place), clean(line.strip(), LONGEST_QUOTE), int(words[0]), halves)


def _half(columns: Sequence[str], part: Sequence[str]) -> Half | None:
    said = dict(zip(columns, part, strict=True))
    try:
        time, algbw, busbw = (float(said[name]) for name in ("time", "algbw", "busbw"))
        # Before 2.13 there is the largest error in its place, which is no count.
        wrong = int(said["#wrong"]) if said.get("#wrong", "N/A").isdigit() else None
    except (KeyError, ValueError):
        return None
    return Half(time, algbw, busbw, wrong) if math.isfinite(time + algbw + busbw) else None


def read_json(document: Mapping[str, Any]) -> Run:
    """What -J wrote; its booleans are words, and the environment that it holds is left alone."""
    rows = []
    for result in document.get("results", [])[:_MOST_ROWS]:
        if not isinstance(result, Mapping) or type(result.get("size")) is not int:
            continue
        halves = tuple(half for name in ("out_of_place", "in_place") if (half := _half_of(result.get(name))) is not None)
        if halves:
            rows.append(Row(0, f"size {result['size']}", result["size"], halves))
    bounds, config = document.get("out_of_bounds"), document.get("config")
    count, okay = (bounds.get("count"), bounds.get("okay")) if isinstance(bounds, Mapping) else (None, None)
    args = document.get("args")
    test = str(args[0]).rpartition("/")[2] if isinstance(args, list) and args else ""
    devices = config.get("devices") if isinstance(config, Mapping) else None
    listed = [device for device in devices if isinstance(device, Mapping)] if isinstance(devices, list) else []
    hosts = frozenset(clean(device.get("hostname", ""), 253) for device in listed)
    gpu = clean(listed[0].get("name", ""), 80) if listed else ""
    errors = document.get("errors")
    failures = tuple(Quote(0, clean(error, LONGEST_QUOTE)) for error in errors[:3]) if isinstance(errors, list) else ()
    return Run(clean(test, 60), tuple(rows), 0, hosts, gpu,
               (count, str(okay).lower() == "true", Quote(0, f"out_of_bounds: {count}")) if type(count) is int else None,
               "average_bus_bandwidth" in document, failures)


def _half_of(said: Any) -> Half | None:
    if not isinstance(said, Mapping):
        return None
    values = [said.get(name) for name in ("time", "alg_bw", "bus_bw")]
    if not all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return None
    wrong = said.get("nwrong")
    return Half(float(values[0] or 0), float(values[1] or 0), float(values[2] or 0), wrong if type(wrong) is int else None)
