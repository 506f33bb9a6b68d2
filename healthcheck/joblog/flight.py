"""PyTorch's flight recorder: how far each rank had come in each process group,
from the dump of each (JSON, or a plain pickle).

    {"version": "2.10", "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}},
     "pg_status": {"0": {"last_enqueued_collective": 12, "last_started_collective": 12,
                         "last_completed_collective": 11}},
     "entries": [{"process_group": ["0", "default_pg"], "collective_seq_id": 12,
                  "profiling_name": "nccl:all_reduce", "state": "started",
                  "time_created_ns": 1764..., "is_p2p": false, ...}]}

A dump does not say whose it is: its file does, by the number at its end (TORCH_NCCL_DEBUG_INFO_TEMP_FILE +
rank). Format: github.com/pytorch/pytorch torch/csrc/distributed/c10d/FlightRecorder.hpp (version 2.10); as
written by torch 2.13.
"""

from __future__ import annotations

import io
import json
import pickle
import re
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn

from healthcheck.joblog.model import JobEvent, JobEventKind

_RANK = re.compile(r"(\d{1,7})(?:\.(?:json|pickle|pkl))?$")
_COMPLETED = "completed"
_MOST_ENTRIES = 100_000


class NoDump(ValueError):
    """Not a flight recorder's dump, or one that cannot be read."""


def looks_like(data: bytes) -> bool:
    """Whether a file may be one: a JSON object or a pickle that speaks of entries or process groups."""
    head = data[:2]
    named = b"pg_status" in data or b"pg_config" in data or b"collective_seq_id" in data
    return (named
            and (data.lstrip()[:1] == b"{" or head in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")))


def events(data: bytes, name: str) -> list[JobEvent]:
    """How far the rank had come that wrote this dump (the end of its file's `name` tells which): ENTERED for
    each process group, TIMEOUT for what it still waited in. Raises NoDump."""
    dump = _loaded(data)
    return list(_events(dump, rank_of(name)))


def rank_of(name: str) -> int | None:
    """The rank that wrote the dump of this name; None where it does not tell."""
    match = _RANK.search(name)
    return int(match[1]) if match is not None else None


def ranks(data: bytes) -> set[int]:
    """All ranks of the job, as far as the dump's process groups tell. Raises NoDump."""
    found: set[int] = set()
    for group in _maps(_loaded(data).get("pg_config")):
        text = group.get("ranks")
        if isinstance(text, str):
            found |= {int(one) for one in re.findall(r"\d{1,7}", text[:1_000_000])}
    return found


class _NotPlain(ValueError):
    """A pickle that is broken, or holds more than plain values."""


class _PlainPickle(pickle.Unpickler):
    """Dictionaries, lists, texts and numbers need no class to be looked up; what would run code does."""

    def find_class(self, module: str, name: str) -> NoReturn:
        raise _NotPlain(f"the pickle names {module}.{name}: it is not read")

    def persistent_load(self, pid: Any) -> NoReturn:
        raise _NotPlain("the pickle refers to something outside it: it is not read")


def _unpickled(data: bytes) -> Any:
    """The value of a pickle; raises _NotPlain for anything but plain values, and for what is none: whatever
    names code is refused, so that a stranger's file runs nothing."""
    try:
        return _PlainPickle(io.BytesIO(data)).load()
    except _NotPlain:
        raise
    except Exception as error:  # noqa: BLE001  (a broken pickle raises whatever it likes)
        raise _NotPlain(f"it cannot be read: {type(error).__name__}") from None


def _loaded(data: bytes) -> Mapping[str, Any]:
    try:
        value = json.loads(data) if data.lstrip()[:1] == b"{" else _unpickled(data)
    except (ValueError, RecursionError) as error:
        raise NoDump(str(error) if isinstance(error, _NotPlain) else "it is cut, or no JSON") from None
    if not isinstance(value, dict):
        raise NoDump("it holds no dictionary")
    return value


def _events(dump: Mapping[str, Any], rank: int | None) -> Iterator[JobEvent]:
    entered: dict[str, int] = {}
    open_: dict[str, dict[int, Mapping[str, Any]]] = {}
    names: dict[str, str] = {}
    entries = dump.get("entries")
    for entry in entries[-_MOST_ENTRIES:] if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue
        group, work = _group(entry), entry.get("collective_seq_id")
        names.setdefault(str(entry.get("pg_id"))[:80], group)
        if entry.get("is_p2p") is True or type(work) is not int:
            continue
        entered[group] = max(work, entered.get(group, work))
        if entry.get("state") != _COMPLETED:
            open_.setdefault(group, {})[work] = entry
    ended: dict[str, int] = {}
    status = dump.get("pg_status")
    # pg_status numbers the groups as they were made; entries name them.
    for number, one in status.items() if isinstance(status, dict) else ():
        if not isinstance(one, dict):
            continue
        group = names.get(str(number), str(number)[:80])
        if (last := _number(one.get("last_enqueued_collective"))) is not None:
            entered[group] = max(last, entered.get(group, last))
        if (last := _number(one.get("last_completed_collective"))) is not None:
            ended[group] = last
    for group, last in sorted(entered.items()):
        yield JobEvent(JobEventKind.ENTERED, f"flight recorder: last collective begun in group {group}: "
                                             f"{last}", rank=rank, group=group, work=last,
                                             done=ended.get(group))
    for group, waiting in sorted(open_.items()):
        work = _waits_in(waiting, ended.get(group))
        op, created = str(waiting[work].get("profiling_name", ""))[:80], waiting[work].get("time_created_ns")
        yield JobEvent(JobEventKind.TIMEOUT, f"flight recorder: {op} {work} in group {group} did not "
                                             "complete", rank=rank, time=created / 1e9 if type(created) is int
                                             else None, group=group, work=work, op=op)


def _waits_in(waiting: Mapping[int, object], ended: int | None) -> int:
    """The first collective that did not end; gloo completes none in the recorder's eyes: its last one."""
    behind = [work for work in waiting if ended is not None and work > ended]
    return min(behind) if behind else max(waiting)


def _group(entry: Mapping[str, Any]) -> str:
    named = entry.get("process_group")
    return (str(named[0])[:80] if isinstance(named, (list, tuple)) and named
            else str(entry.get("pg_id", "0"))[:80])


def _maps(value: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, dict):
        yield from (one for one in value.values() if isinstance(one, dict))


def _number(value: object) -> int | None:
    if type(value) is int:
        return value
    return int(value) if isinstance(value, str) and re.fullmatch(r"-?\d{1,15}", value) else None
