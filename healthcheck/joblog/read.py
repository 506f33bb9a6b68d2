"""Reads files that a job left behind, whatever of the known forms each is, into one JobLog; bounded, and never raising for content."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from healthcheck.joblog import flight
from healthcheck.joblog.model import LONGEST_LINE, Clock, JobEvent, JobLog
from healthcheck.joblog.nccl import Nccl
from healthcheck.joblog.slurm import Slurm
from healthcheck.joblog.torchrun import Torchrun

MOST_BYTES = 256 << 20      # of one file
MOST_EVENTS = 50_000        # of one file

_ESCAPE = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
# What srun --label, or a launcher, puts before a line: a rank and a colon.
_LABEL = re.compile(r"^\s{0,6}\d{1,6}: (?=\S)")


def read(files: Iterable[tuple[str, bytes]], clock: Clock) -> JobLog:
    """What the files, each a name and its content, say together; `caveats` say what could not be read, and of which."""
    return merged(read_one(name, data, clock) for name, data in files)


def read_one(name: str, data: bytes, clock: Clock) -> JobLog:
    """What one file says."""
    log = _flight(name, data) if flight.looks_like(data) else _text(name, data, clock)
    return replace(log, events=tuple(replace(event, file=name) for event in log.events))


def merged(logs: Iterable[JobLog]) -> JobLog:
    """What several say together; of the node of a rank the first word holds."""
    events: list[JobEvent] = []
    hosts: dict[int, str] = {}
    world: int | None = None
    forms: list[str] = []
    caveats: list[str] = []
    for one in logs:
        events += one.events
        hosts = {**one.hosts, **hosts}
        world = max((size for size in (world, one.world) if size is not None), default=None)
        forms += [form for form in one.forms if form not in forms]
        caveats += one.caveats
    return JobLog(tuple(events), hosts, world, tuple(forms), tuple(caveats))


def _flight(name: str, data: bytes) -> JobLog:
    try:
        found, known = flight.events(data, name), flight.ranks(data)
    except flight.NoDump as error:
        return JobLog(caveats=(f"{name}: a flight recorder's dump, {error}",))
    caveats = () if not found or found[0].rank is not None else (f"{name}: whose dump it is, the file's name does not say",)
    return JobLog(tuple(found), world=max(known) + 1 if known else None, forms=("flight recorder",), caveats=caveats)


def _text(name: str, data: bytes, clock: Clock) -> JobLog:
    caveats = []
    if len(data) > MOST_BYTES:
        data = data[:MOST_BYTES]
        caveats.append(f"{name}: only its first {MOST_BYTES >> 20} MiB were read")
    lines = [_plain(line) for line in data.decode("utf-8", "replace").split("\n")]
    nccl, torchrun, slurm = Nccl(), Torchrun(), Slurm()
    found: list[JobEvent] = []
    for parser in (nccl, torchrun, slurm):
        for event in parser.events(lines, clock):
            if len(found) >= MOST_EVENTS:
                caveats.append(f"{name}: more than {MOST_EVENTS} lines say something; the rest was left")
                break
            found.append(event)
    found.sort(key=lambda event: event.line)
    forms = tuple(parser.form for parser in (nccl, torchrun, slurm) if parser.seen)
    if not forms and not found:
        caveats.append(f"{name}: holds nothing of NCCL, torchrun, Slurm or a flight recorder")
    hosts = {**slurm.hosts, **torchrun.hosts, **nccl.hosts}
    return JobLog(tuple(found), hosts, nccl.world, forms, tuple(caveats))


def _plain(line: str) -> str:
    cut = _ESCAPE.sub("", line[:LONGEST_LINE]) if "\x1b" in line else line[:LONGEST_LINE]
    return _LABEL.sub("", cut).rstrip("\r")
