"""Reads the text output of nccl-tests 2.0 to 2.20, with lines of launchers and NCCL in between.

The heading names the columns. A line is a row only if every word has its place and its end was written.
Formats: github.com/NVIDIA/nccl-tests, src/common.cu of v2.0.0 to v2.13, src/util.cu since; RCCL-tests print
the same.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence, Set
from dataclasses import dataclass, field

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

HEADING = re.compile(r"\bsize {1,20}count\b[^\n]{0,200} (?:cpu)?time +algbw +busbw\b")
_FAILURE = re.compile(
    r"(?:\.\. \S{1,253} pid )?(?:[^\s:]{1,253}: )?"
    r"(?:Test (?:NCCL|CUDA) failure .{1,300}|Test timeout.{0,100}|Test failure .{1,200}|"
    r"Invalid number of GPUs: .{1,99})")

# mpirun --tag-output, of Open MPI 4 and 5
_TAG = re.compile(r"\[[^\[\]\s<>]{1,80}\]<std(?:out|err)>:? ?")
# short tags of other launchers
_SHORT_TAG = re.compile(r"\[(?:\d{1,6},)?\d{1,6}\]:? ?")
_LABEL = re.compile(r"\d{1,6}:")                                        # srun --label
_LOG = re.compile(
    r"(?:\[\d{4}-[^\[\]\n]{1,40}\] ?|(?<![\w.-]))([\w.-]{1,253}):\d{1,10}:\d{1,10} \[-?\d{1,4}\] "
    r"(?:[^ \n]{1,120} )?"
    r"NCCL (?:INFO|WARN|TRACE|ABORT)\b")
_BEGINS = re.compile(r"nccl-tests version (\S{1,40})|Collective test starting: (\S{1,60})|nThread \d")
_LIBRARY = re.compile(r"nccl-library=(\d{1,9})")
_PROGRAM = re.compile(r"\b([a-z_]{4,30}_perf)\b")
_CONFIG = re.compile(
    r"(nThread|nGpus|minBytes|maxBytes|warmup iters|agg iters|iters|validation|graph|unalign):? (\d{1,19})\b")
_DEVICE = re.compile(
    r"# +Rank +(\d{1,7}) (?:Group +(\d{1,7}) )?Pid +\d{1,10} on +(\S{1,253}) device +(\d{1,3}) "
    r"\[([\w:.]{1,20})\] +(\S[^\n]{0,80})")
_ROW = re.compile(r"(?<![\w.,:+-])(\d{1,19}) +(\d{1,19}) +([a-z][a-z0-9_]{2,11}) +(\S.*)")
_NUMBER = re.compile(r"(\d{1,20})(?:\.(\d{1,9}))?(?:e([+-]?\d{1,3}))?|N/A|-?nan|-?inf")
_BOUNDS = re.compile(r"# Out of bounds values *: *(\d{1,20}) (OK|FAILED)\b")
_AVERAGE = re.compile(r"# Avg bus bandwidth *: *(\d[\d.e+-]{0,20}|-?nan|-?inf)(?: *(OK|FAILED)\b|(?= |$))")

_BLANK = " " * 30       # in place of a half that was not run (hypercube, replay)
_NAMES = {"nThread": "threads", "nGpus": "gpus", "minBytes": "smallest", "maxBytes": "largest",
          "warmup iters": "warmup", "agg iters": "aggregated", "iters": "iterations",
          "validation": "validation", "graph": "graph", "unalign": "unalign"}


def parse(text: str) -> tuple[NcclRun, ...]:
    """The runs that the text holds, in its order; none where there is no heading of a table."""
    runs: list[NcclRun] = []
    reader = _Reader()
    hosts: set[str] = set()
    for number, line, ended in _lines(text, hosts):
        if reader.columns and reader.ends_before(line):
            runs.append(reader.run())
            reader = _Reader()
            if len(runs) == limits.NCCL_RUNS:
                return tuple(runs)
        reader.take(number, line, ended)
        if reader.devices:
            hosts.add(reader.devices[-1].host)
    return (*runs, reader.run()) if reader.columns else tuple(runs)


def _lines(text: str, hosts: Set[str]) -> Iterator[tuple[int, str, bool]]:
    """Number, text, and completeness of each line as the test printed it, without NCCL's own lines. A row's
    number may stand right before the host that NCCL's line begins with; known `hosts` tell the two apart."""
    at, number, held = 0, 0, ""
    while at < len(text):
        end = text.find("\n", at)
        ended = end >= 0
        line = text[at:min(end if ended else len(text), at + limits.NCCL_LINE)].rstrip("\r")
        at, number = (end if ended else len(text)) + 1, number + 1
        if " NCCL " in line and (log := _LOG.search(line)) is not None:
            begins = log.start()
            if 0 < begins == log.start(1) and log[1] not in hosts:
                begins = log.end(1) - max((len(host) for host in hosts if log[1].endswith(host)),
                                          default=len(log[1]))
            held = (held + line[:begins])[:limits.NCCL_LINE]
            continue
        line, held = held + line, ""
        if line:
            yield number, line, ended


@dataclass
class _Reader:
    """One run while it is being read."""

    test: str = ""
    version: str = ""
    library: int | None = None
    config: dict[str, int] = field(default_factory=dict)
    devices: list[NcclDevice] = field(default_factory=list)
    columns: list[str] = field(default_factory=list)
    rows: list[NcclRow] = field(default_factory=list)
    bounds: OutOfBounds | None = None
    average: float | None = None
    minimum: bool | None = None
    failures: list[OutputLine] = field(default_factory=list)
    broken: list[OutputLine] = field(default_factory=list)

    def run(self) -> NcclRun:
        """What was read so far."""
        listed = Counter(device.rank for device in self.devices)
        copies = max(listed.values(), default=1)
        groups = Counter({device.rank: device.group for device in self.devices}.values())
        # With NCCL_TESTS_SPLIT each group is a communicator of its own, with its own figures. Lists may have
        # gaps.
        ranks = groups[self.devices[0].group] if len(groups) > 1 else max(listed, default=-1) + 1
        return NcclRun(self.test, self.version, self.library, ranks, copies, tuple(self.devices), self.config,
                       tuple(self.rows), "cputime" in self.columns, self.bounds, self.average, self.minimum,
                       tuple(self.failures), tuple(self.broken))

    def ends_before(self, line: str) -> bool:
        """Whether this line belongs to another run: an output may have lost its first lines or its footer."""
        return (_BEGINS.search(line) is not None or (bool(self.rows) and HEADING.search(line) is not None)
                or (self.average is not None and _DEVICE.search(line) is not None))

    def take(self, number: int, line: str, ended: bool) -> None:
        """Takes one line."""
        if "failure" in line or "timeout" in line or "Invalid number" in line:
            self._failure(number, line)
        if "#" in line:
            self._comment(number, _TAG.sub("", line))
        elif (not self.columns and not self.test and "_perf" in line
                  and (named := _PROGRAM.search(line)) is not None):
            self.test = named[1]
        elif self.columns and self.average is None and len(self.rows) < limits.NCCL_ROWS:
            self._row(number, line, ended)

    def _failure(self, number: int, line: str) -> None:
        match = _FAILURE.search(_TAG.sub("", line))
        if match is not None and len(self.failures) < limits.NCCL_LINES:
            self.failures.append(OutputLine(number, clean(match[0], 300)))

    def _comment(self, number: int, line: str) -> None:
        if (device := _DEVICE.search(line)) is not None:
            if len(self.devices) < limits.NCCL_DEVICES:
                self.devices.append(NcclDevice(int(device[1]), int(device[2] or 0), clean(device[3], 253),
                                               int(device[4]), device[5], clean(device[6].strip(), 80)))
        elif (heading := HEADING.search(line)) is not None:
            self.columns = line[heading.start():].split()
        elif (bounds := _BOUNDS.search(line)) is not None:
            self.bounds = OutOfBounds(int(bounds[1]), bounds[2] == "OK", number)
        elif (average := _AVERAGE.search(line)) is not None:
            self.average = _float(average[1])
            self.minimum = average[2] == "OK" if average[2] else None
        elif (begins := _BEGINS.search(line)) is not None:
            self.version = self.version or clean(begins[1] or "", 40)
            self.test = clean(begins[2], 60) if begins[2] else self.test
            if (library := _LIBRARY.search(line)) is not None:
                self.library = int(library[1])
            if begins[1] is None and begins[2] is None:
                self.config.update({_NAMES[name]: int(count) for name, count in _CONFIG.findall(line)})

    def _row(self, number: int, line: str, ended: bool) -> None:
        begins = _ROW.search(_SHORT_TAG.sub("", _TAG.sub("", line)))
        if begins is None:
            return
        row = _row(number, begins, self.columns) if ended else None
        if row is not None:
            self.rows.append(row)
        elif len(self.broken) < limits.NCCL_LINES:
            self.broken.append(OutputLine(number, clean(line.strip(), 300)))


def _row(number: int, begins: re.Match[str], columns: Sequence[str]) -> NcclRow | None:
    """The row that begins so; None where a word is missing, is one too many, or is of another kind."""
    first = columns.index("cputime" if "cputime" in columns else "time")
    names = [name for name in columns[first:] if name != "timestamp"]
    names = names[:len(names) // 2]
    words = [word for word in begins[4].split() if not _LABEL.fullmatch(word)]
    redop = words.pop(0) if "redop" in columns and words and words[0].isalpha() else ""
    root = None
    if "root" in columns:
        if not words or not re.fullmatch(r"-?\d{1,7}", words[0]):
            return None
        root = int(words.pop(0))
    if "timestamp" in columns:
        if not re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", " ".join(words[-2:])):
            return None
        del words[-2:]
    alone = len(words) == len(names) and _BLANK in begins[4]
    if not all(_NUMBER.fullmatch(word) for word in words) or not (alone or len(words) == 2 * len(names)):
        return None
    out = None if alone else _half(names, words[:len(names)])
    return NcclRow(number, int(begins[1]), int(begins[2]), begins[3], redop, root, out,
                   _half(names, words[-len(names):]))


def _half(names: Sequence[str], words: Sequence[str]) -> Half | None:
    values = dict(zip(names, words, strict=True))
    try:
        shown = [values["cputime" if "cputime" in values else "time"], values["algbw"], values["busbw"]]
    except KeyError:
        return None
    time, algbw, busbw = map(_float, shown)
    if not math.isfinite(time + algbw + busbw):
        return None
    # Before 2.13 this column holds the largest error, not a count.
    wrong = _float(values.get("#wrong", "N/A"))
    spread = [_float(values.get(name, "N/A")) for name in ("i_min", "i_max", "i_p99", "i_cv%")]
    return Half(time, algbw, busbw, int(wrong) if math.isfinite(wrong) else None,
                (_blur(shown[0]), _blur(shown[1]), _blur(shown[2])),
                IterationSpread(*spread) if all(map(math.isfinite, spread)) else None)


def _float(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return math.nan


def _blur(word: str) -> float:
    """Half of its last digit: from 2.17 on numbers are rounded to what fits, down to 1e+05."""
    number = _NUMBER.fullmatch(word)
    return 0.5 * 10.0 ** (int(number[3] or 0) - len(number[2] or "")) if number is not None else 0.0
