"""Reads the JSON or CSV that RCCL-tests writes with -x: a line for each half of a row, without a footer.

github.com/ROCm/rccl-tests, src/common.cu, class Reporter. Its CSV's heading lacks one column (nodes).
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from healthcheck.burnin import limits
from healthcheck.burnin.nccltests.jsonread import count_of, half_of, load
from healthcheck.burnin.nccltests.model import Half, NcclRow, NcclRun
from inventory.text import clean

_CSV = re.compile(r"^collective, [a-z, ]{1,80}algbw, busbw, #wrong[ \r]*$", re.MULTILINE)
_FROM_RIGHT = ("size", "type", "redop", "inPlace", "time", "algBw", "busBw", "wrong")


def read(text: str) -> NcclRun | None:
    """The run in such a file, never complete as it has no footer; None for another format."""
    if len(text) > limits.NCCL_BYTES:
        return None
    document = load(text)
    objects = document if isinstance(document, list) else list(_each(text))
    return _run([halves for halves in objects[:limits.NCCL_HALVES] if isinstance(halves, Mapping)
                 and "busBw" in halves] or list(_of_csv(text)))


def is_csv(text: str) -> bool:
    """Whether it holds the heading of the CSV."""
    return _CSV.search(text) is not None


def _each(text: str) -> Iterator[Any]:
    for line in text.split("\n", limits.NCCL_HALVES)[:limits.NCCL_HALVES]:
        if line.startswith("{") and line.rstrip().endswith("}"):
            try:
                yield json.loads(line)
            except (ValueError, RecursionError):
                continue


def _run(halves: Sequence[Mapping[str, Any]]) -> NcclRun | None:
    rows: dict[tuple[int, str, str, int], dict[str, Half | None]] = {}
    latest: dict[tuple[int, str, str], int] = {}
    for half in halves:
        size = count_of(half.get("size"))
        if size is None:
            continue
        name = "into" if str(half.get("inPlace")).strip() in ("1", "true", "True") else "out"
        key = (size, clean(half.get("type", ""), 20), clean(half.get("redop", ""), 20))
        cycle = latest.get(key, 0)
        if name in rows.get((*key, cycle), {}):
            cycle += 1          # the same size again, of the next cycle
        latest[key] = cycle
        found = half_of({**half, "alg_bw": half.get("algBw"), "bus_bw": half.get("busBw"),
                         "nwrong": half.get("wrong")}, {})
        # Streams write six digits in all; some builds two after the point.
        rows.setdefault((*key, cycle), {})[name] = found and replace(
            found, blur=(max(0.005, 5e-6 * found.time_us), max(0.005, 5e-6 * found.algbw),
                         max(0.005, 5e-6 * found.busbw)))
    if not rows:
        return None
    first = halves[0]
    ranks = count_of(first.get("ranks")) or 0
    each = count_of(first.get("gpusPerRank")) or 1
    return NcclRun(clean(first.get("name", ""), 60), ranks=ranks * each or count_of(first.get("gpus")) or 0,
                   endless=True,
                   rows=tuple(NcclRow(0, size, 0, kind, redop, None, halves.get("out"), halves.get("into"))
                              for (size, kind, redop, _), halves in rows.items()))


def _of_csv(text: str) -> Iterator[Mapping[str, Any]]:
    lines = text.split("\n", limits.NCCL_HALVES)[:limits.NCCL_HALVES]
    at = next((number for number, line in enumerate(lines) if _CSV.match(line)), None)
    if at is None:
        return
    head = [name.strip() for name in lines[at].split(",")]
    places = ("gpusPerRank", "ranksPerNode", "ranks") if "ranks" in head else ("gpus",)
    # The last line counts only if its end was written.
    for line in lines[at + 1:-1]:
        try:
            words = [word.strip() for word in next(csv.reader([line[:1000]], skipinitialspace=True), [])]
        except csv.Error:       # a carriage return in its middle: it is no row
            continue
        if len(words) in (len(head), len(head) + 1):
            before = dict(zip(places, reversed(words[1:-len(_FROM_RIGHT)]), strict=False))
            yield {"name": words[0], **before,
                   **dict(zip(_FROM_RIGHT, words[-len(_FROM_RIGHT):], strict=True))}
