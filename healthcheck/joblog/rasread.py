"""Reads what the client of NCCL's RAS subsystem prints: `ncclras` (text, since 2.24; it names who does not
answer by number alone) and `ncclras -f json` (since 2.28.7).

Forms: github.com/NVIDIA/nccl docs/userguide/source/troubleshooting/ras.rst, and src/ras/client_support.cc
(rasClientRunComms, rasDumpCommsToJSON).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from healthcheck.joblog.ras import RasComm, RasRank, RasReport
from inventory.text import clean

MOST_BYTES = 64 << 20
_MOST_RANKS = 1 << 20       # over all communicators
_MOST_COMMS = 65_536
_JSON = (b'"communicators"', b'"nccl_version"')
_TEXT = (b"Communicators...", b"Job summary")

_GPU = (r"(?:GPU ([\d, ()NVML]{1,200}?) managed by process (\d{1,10}) on node (\S{1,253})"
        r"|\[process information not)")
_TABLE = re.compile(r"^ {0,8}(\d{1,9})(?: {1,12}\d{1,9}){2} {1,12}[\d-]{1,19} {1,12}(\d{1,9}) {1,12}\d{1,9} "
                    r"{1,12}[A-Z]")
_JOB = re.compile(r"^ {1,12}\d{1,9}(?: {1,12}[\d-]{1,19}){2,3} {1,12}(\d{1,9})$")
_COMM = re.compile(r"^#(\d{1,9})-\d{1,9} \(([0-9a-f]{1,16})\) (INCOMPLETE|MISMATCH|ERROR)$")
_COUNTS = re.compile(r"^  Communicator ranks have different (\w{1,40}) operation counts$")
_SET = re.compile(r"^  (\d{1,9}) ranks have (?:launched up to operation (\d{1,19})|(not) launched any)")
_ONE = re.compile(r"^  Rank (\d{1,9}) has (?:launched up to operation (\d{1,19})|(not) launched any "
                  rf"operations) -- {_GPU}")
_LISTED = re.compile(rf"^  Rank (\d{{1,9}}) -- {_GPU}")
_MISSING = re.compile(r"^  The missing ranks?: ([\d, ]{1,1000})$")
_PROCESS = re.compile(r"^  Process (\d{1,10}) on node (\S{1,253}) managing GPUs? ")


class NoRas(ValueError):
    """Not what RAS prints, or cut; the text says why."""


def looks_like(data: bytes) -> bool:
    """Whether a file may hold what RAS printed."""
    head = data[:1 << 16]
    return all(word in head for word in _JSON) or all(word in head for word in _TEXT)


def parse(data: bytes) -> RasReport:
    """The report, in either form. Raises NoRas."""
    if len(data) > MOST_BYTES:
        raise NoRas(f"it is longer than {MOST_BYTES >> 20} MiB")
    if all(word in data[:1 << 16] for word in _JSON):
        return _of_json(data[data.find(b"{"):])
    if all(word in data[:1 << 16] for word in _TEXT):
        return _of_text(data.decode("utf-8", "replace").splitlines())
    raise NoRas("it is no answer of RAS")


def _of_json(data: bytes) -> RasReport:
    try:
        found, _ = json.JSONDecoder().raw_decode(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        raise NoRas("it is cut, or no JSON") from None
    entries = found.get("communicators") if isinstance(found, dict) else None
    if not isinstance(entries, list):
        raise NoRas("communicators: expected a list")
    comms, left = [], _MOST_RANKS
    for entry in entries[:_MOST_COMMS]:
        size = _number(entry.get("size")) if isinstance(entry, dict) else None
        if not size:
            continue
        ranks = [*_ranks(entry.get("ranks"), left, present=True),
                 *_ranks(entry.get("missing_ranks"), left, present=False)]
        left = max(0, left - len(ranks))
        comms.append(RasComm(clean(str(entry.get("hash", "")), 40), size, tuple(ranks), _most(ranks)))
    return RasReport(tuple(comms))


def _ranks(value: object, most: int, *, present: bool) -> Iterator[RasRank]:
    for entry in value[:most] if isinstance(value, list) else ():
        if not isinstance(entry, dict) or (rank := _number(entry.get("rank"))) is None:
            continue
        counts, status = entry.get("collective_counts"), entry.get("status")
        status = status if isinstance(status, dict) else {}
        host = entry.get("host")
        # One that answers and is no member (any more) is no one's to wait for.
        dead = status.get("considered_dead") is True
        if not present and status.get("unresponsive") is False and not dead:
            continue
        yield RasRank(rank, clean(host, 253) if isinstance(host, str) and host != "unknown" else "",
                      _number(entry.get("pid")) or -1, _or(entry.get("nvml_dev")),
                      {clean(op, 40): count for op, count in list(counts.items())[:64]
                       if _number(count) is not None} if isinstance(counts, dict) else {},
                      present, dead)


def _most(ranks: Sequence[RasRank]) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    for one in ranks:
        for op, count in one.counts.items():
            top, many = found.get(op, (-1, 0))
            found[op] = (count, 1) if count > top else (top, many + (count == top))
    return found


def _number(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 63 else None


def _or(value: Any) -> int:
    found = _number(value)
    return found if found is not None else -1


class _TextComm:
    """A communicator, while its lines are read."""

    def __init__(self, name: str, size: int) -> None:
        self.name, self.size = name, size
        self.ranks: dict[int, RasRank] = {}
        self.counts: dict[int, dict[str, int]] = {}
        self.most: dict[str, tuple[int, int]] = {}

    def made(self) -> RasComm:
        ranks = tuple(replace(one, counts=self.counts.get(one.rank, {})) for one in self.ranks.values())
        return RasComm(self.name, self.size, ranks, self.most)


def _of_text(lines: Sequence[str]) -> RasReport:
    sizes: dict[str, int] = {}
    comms: dict[str, _TextComm] = {}
    gone: list[tuple[str, int, bool]] = []
    size: int | None = None
    comm, section, op, value, left = None, "", "", 0, _MOST_RANKS
    for line in lines:
        line = line[:4096]
        if (job := _JOB.match(line)) is not None and not comms and not sizes:
            size = int(job[1])
        elif (table := _TABLE.match(line)) is not None:
            sizes[table[1]] = int(table[2])
        elif (head := _COMM.match(line)) is not None and len(comms) < _MOST_COMMS:
            comm = comms.setdefault(head[2], _TextComm(head[2], sizes.get(head[1], 0)))
            section, op = head[3], ""
        elif line in ("INCOMPLETE", "DEAD"):
            comm, section = None, line
        elif comm is None:
            if section and (process := _PROCESS.match(line)) is not None and len(gone) < _MOST_RANKS:
                gone.append((clean(process[2], 253), int(process[1]), section == "DEAD"))
        elif (counts := _COUNTS.match(line)) is not None:
            op, value = counts[1], 0
        elif op and (several := _SET.match(line)) is not None:
            value = 0 if several[3] else int(several[2] or 0)
            _highest(comm, op, value, int(several[1]))
        elif op and (one := _ONE.match(line)) is not None:
            value = 0 if one[3] else int(one[2] or 0)
            _highest(comm, op, value, 1)
            left = _listed(comm, int(one[1]), one.group(4, 5, 6), left, {op: value})
        elif (listed := _LISTED.match(line)) is not None and (op or section == "INCOMPLETE"):
            left = _listed(comm, int(listed[1]), listed.group(2, 3, 4), left, {op: value} if op else None)
        elif section == "INCOMPLETE" and (named := _MISSING.match(line)) is not None:
            for rank in re.findall(r"\d{1,9}", named[1]):
                left = _listed(comm, int(rank), (None, None, None), left, None)
    return RasReport(tuple(one.made() for one in comms.values()), size, tuple(gone))


def _highest(comm: _TextComm, op: str, value: int, count: int) -> None:
    if value > comm.most.get(op, (-1, 0))[0]:
        comm.most[op] = value, count


def _listed(comm: _TextComm, rank: int, of: Sequence[str | None], left: int,
            counts: Mapping[str, int] | None) -> int:
    """Takes a rank; gives how many more are taken. Without counts it is one that did not answer."""
    if rank not in comm.ranks:
        if left <= 0:
            return 0
        left -= 1
        gpu = re.findall(r"\d{1,4}", of[0] or "")
        comm.ranks[rank] = RasRank(rank, clean(of[2] or "", 253), int(of[1] or -1),
                                   int(gpu[-1]) if gpu else -1, answered=counts is not None)
    if counts is not None:
        comm.counts.setdefault(rank, {}).update(counts)
    return left
