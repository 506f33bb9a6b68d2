"""Sorts the files given to `muster blame` into kernel logs, recordings and the job's own logs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from healthcheck.baseline.formats.unpack import unpack
from healthcheck.blame.evidence import Evidence, JobWindow
from healthcheck.blame.kernelevidence import Judges, looks_like, recorded, timeless
from healthcheck.blame.kernelevidence import evidence as of_text
from healthcheck.blame.logevidence import fitting
from healthcheck.config.rulesfolder import folders
from healthcheck.joblog.messageload import load_messages
from healthcheck.joblog.model import JobLog, LogClock
from healthcheck.joblog.read import MOST_BYTES, merged, of_node, read_one
from healthcheck.model.recording import SCHEMA, Recording, read
from healthcheck.ruleset.ruleset import ruleset_of
from inventory.errors import UsageError
from inventory.nodeset import NAME
from inventory.text import clean, short


@dataclass
class BlameFiles:
    """The files' content: kernel logs with their nodes, and the job's own logs by name."""

    kernel: list[tuple[str, str, str | Recording]] = field(default_factory=list)
    logs: list[tuple[str, JobLog]] = field(default_factory=list)
    unmeasured: list[str] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def job(self, window: JobWindow | None = None) -> JobLog:
        """The job's own logs as one; with a window, times of a log from another time are dropped."""
        return merged(fitting(log, window) if window is not None else log for _, log in self.logs)


def of_files(names: Sequence[str], nodes: Collection[str], near: float, rules: str | None) -> BlameFiles:
    """Reads the given files. `nodes` are the job's known nodes; `near` (epoch seconds) tells the year of
    times without one. Raises UsageError for an unreadable file."""
    given = BlameFiles()
    if not names:
        given.unmeasured.append("the job's own logs: none was given; use --log FILE")
        return given
    messages = load_messages(folders(rules))
    for word in names:
        node, file = _named(word, nodes)
        name = clean(Path(file).name, 100)
        data, caveats = _read(file)
        given.unmeasured += [f"{name}: {caveat}" for caveat in caveats]
        text = data[:MOST_BYTES].decode("utf-8", "replace")
        snapshot = _recording(data, file)
        if snapshot is not None or looks_like(text):
            given.kernel.append((node, name, snapshot if snapshot is not None else text))
        elif timeless(text):
            given.unmeasured.append(f"kernel log {name}: its times count from boot; give dmesg -T, "
                                    "journalctl -k, or muster record")
        else:
            log = of_node(read_one(name, data, LogClock(near), messages, nodes), node)
            given.logs.append((name, log))
            given.unmeasured += log.caveats
            if log.forms or log.events:
                given.sources.append(f"{name} ({', '.join(log.forms) or 'job log'})")
    if not given.sources:
        given.unmeasured.append("the job's own logs: none of the given files is one")
    return given


def of_kernel(given: BlameFiles, window: JobWindow, rules: str | None) -> list[Evidence]:
    """The evidence in the kernel logs."""
    found: list[Evidence] = []
    judges = _judges(rules) if given.kernel else None
    for node, name, log in given.kernel if judges is not None else ():
        if judges is not None and isinstance(log, str):
            found += of_text(log, node, name, LogClock(window.end), judges)
            given.sources.append(f"kernel log {name}")
        elif judges is not None and not isinstance(log, str):
            evidence, why = recorded(log, node, name, judges)
            found += evidence
            (given.unmeasured if why else given.sources).append(
                f"kernel log in {name}{f': {why}' if why else ''}")
    return [replace(one, node=_known(one.node, window)) for one in found]


def _known(node: str, window: JobWindow) -> str:
    return next((name for name in window.nodes if name.partition(".")[0] == node.partition(".")[0]), node)


def _named(text: str, nodes: Collection[str]) -> tuple[str, str]:
    """NODE=FILE, or a file; one whose name begins with a node of the job belongs to that node."""
    node, equals, file = text.partition("=")
    if equals and (node in nodes or (not Path(text).exists() and NAME.fullmatch(node) is not None)):
        return node, file
    stem = Path(text).name.partition(".")[0]
    return (stem if stem in nodes else ""), text


def _recording(data: bytes, file: str) -> Recording | None:
    if data[:1] != b"{" or SCHEMA.encode() not in data[:200]:
        return None
    try:
        return read(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--log {short(file)} is not a complete recording: {clean(error, 200)}") from None


def _read(file: str) -> tuple[bytes, list[str]]:
    """The file's bytes, unpacked; of a too long one the beginning and the end."""
    try:
        with Path(file).open("rb") as opened:
            data = opened.read(MOST_BYTES + 1)
            if len(data) > MOST_BYTES:
                opened.seek(-(MOST_BYTES - MOST_BYTES // 4), 2)
                data = data[:MOST_BYTES // 4 + 1] + opened.read(MOST_BYTES - MOST_BYTES // 4)
    except OSError as error:
        raise UsageError(f"--log {short(file)} cannot be read: {error.strerror}") from None
    return unpack(data, Path(file).name, MOST_BYTES + 1)


def _judges(rules: str | None) -> Judges:
    ruleset = ruleset_of(rules)
    held = ruleset.kernel
    if held is None or ruleset.xids is None:
        raise UsageError("the rules folder lacks the catalogue of kernel faults or the Xid table")
    return Judges(held.catalogue, ruleset.xids)
