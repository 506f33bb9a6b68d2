"""Every file of tests/recordings by what the corpus has muster make of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path

from healthcheck.config import rulesfolder
from healthcheck.explain.explain import explain
from healthcheck.explain.page import document
from healthcheck.explain.recognise import Opened, open_file, opened_of
from healthcheck.joblog.messageload import load_messages
from healthcheck.joblog.messages import KnownMessage
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from inventory.errors import UsageError
from tests.corpus import view
from tests.healthcheck.baseline.labels import labelled

RECORDINGS = Path(__file__).resolve().parents[1] / "recordings"
_NOW = 1_795_500_000.0      # 2026-11-24: logs without a year are read as of then


class Use(Enum):
    """What the corpus does with a file."""

    EXPLAINED = "muster explain"
    EVENTS = "each of its events is explained by itself"
    LINES = "its lines are explained as records of a kernel log"
    SWEPT = "muster check --replay"
    JOB = "muster blame JOBID"
    ELSEWHERE = "it holds nothing that could have a state"


USES = {
    "explain/*": Use.EXPLAINED, "blame/fr_*": Use.EXPLAINED, "blame/*.log": Use.EXPLAINED,
    "blame/openmpi-recorded/*.log": Use.EXPLAINED,
    "blame/slurm-recorded/*.out": Use.EXPLAINED, "kernel/forms/*.txt": Use.EXPLAINED,
    "kernel/healthy/*.log": Use.EXPLAINED,
    "kernel/vm/*.gz": Use.EXPLAINED, "nccltests/*": Use.EXPLAINED, "nvidia-smi/*": Use.EXPLAINED,
    "kernel/faults/*.yaml": Use.EVENTS, "kernel/novel/*": Use.LINES,
    "demo-sweep/**/*": Use.SWEPT, "rdma-rxe/recording.json": Use.SWEPT,
    "blame/slurm-recorded/*.sacct": Use.JOB, "blame/slurm-recorded/*.scontrol": Use.JOB,
    # What was done to the machines whose logs lie beside; where real logs are published; formats of lines;
    # inventories; tools.
    "kernel/vm/*.yaml": Use.ELSEWHERE, "kernel/healthy/logs.yaml": Use.ELSEWHERE,
    "kernel/quoting/*": Use.ELSEWHERE, "slurm/*": Use.ELSEWHERE,
    "nvml/*": Use.ELSEWHERE, "lldp/*": Use.ELSEWHERE, "firmware/*": Use.ELSEWHERE,
    "fabric-tables/*": Use.ELSEWHERE, "nccl-ras/*": Use.ELSEWHERE,
}


def recorded() -> Iterator[str]:
    """All files but pages for people, by their path below tests/recordings."""
    for path in sorted(RECORDINGS.rglob("*")):
        if path.is_file() and path.suffix != ".md":
            yield str(path.relative_to(RECORDINGS))


@cache
def uses() -> dict[str, set[Use]]:
    """By file what becomes of it."""
    found: dict[str, set[Use]] = {name: set() for name in recorded()}
    for pattern, use in USES.items():
        for path in RECORDINGS.glob(pattern):
            if (name := str(path.relative_to(RECORDINGS))) in found:
                found[name].add(use)
    return found


def of(use: Use) -> list[str]:
    """The files that this becomes of."""
    return [name for name, found in uses().items() if use in found]


def explained(name: str) -> view.View:
    """What is wrong by this file."""
    return _explained(lambda: open_file(str(RECORDINGS / name)))


def events(name: str) -> dict[str, list[str]]:
    """The same for each labelled event of this file, by its number and how bad it is held to be."""
    return {f"{event.number} {event.bad}": _short("\n".join(event.lines), name)
            for event in _labelled() if f"kernel/faults/{event.file}" == name}


def lines(name: str) -> dict[str, list[str]]:
    """The same for each line of a file of priorities and texts."""
    found = {}
    for line in (RECORDINGS / name).read_text().splitlines():
        priority, _, text = line.partition(" ")
        if priority.isdigit():
            found[text] = _short(f"{priority},1,1000000,-;{text}", name)
    return found


def _explained(opened: Callable[[], Opened]) -> view.View:
    rules, messages = _known()
    try:
        found = explain(opened(), rules, messages, _NOW)
    except UsageError as error:
        return {"exit": error.exit_code}
    return {"exit": found.exit_code, **view.explained(document(found))}


def _short(text: str, name: str) -> list[str]:
    found = _explained(lambda: opened_of(f"{text}\n".encode(), name))
    return [f"exit {found['exit']}, {found.get('kind', 'no kind')}", *found.get("causes", ())]


@cache
def _known() -> tuple[Ruleset, tuple[KnownMessage, ...]]:
    folders = rulesfolder.folders(None)
    return load_ruleset(folders), tuple(load_messages(folders))


_labelled = cache(labelled)
