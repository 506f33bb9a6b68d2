"""The files that are given to `muster blame`: which of them are kernel logs, recordings, or what the job itself left."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from healthcheck.blame.evidence import Evidence, Window
from healthcheck.blame.ofkernel import Judges, looks_like, recorded, timeless
from healthcheck.blame.ofkernel import evidence as of_text
from healthcheck.blame.oflogs import fitting
from healthcheck.joblog.model import Clock, JobLog
from healthcheck.joblog.read import MOST_BYTES, merged, read_one
from healthcheck.recording import SCHEMA, Recording
from healthcheck.recordingread import read
from healthcheck.ruleset import load_ruleset
from healthcheck.rulesfolder import folders
from inventory.errors import UsageError
from inventory.text import clean, short


def of_files(names: Sequence[str], window: Window, rules: str | None, evidence: list[Evidence], unmeasured: list[str],
             looked: list[str]) -> JobLog:
    """Reads the files that were given: adds what kernel logs say, and gives the job's own as one."""
    if not names:
        unmeasured.append("the job's own logs: none was given; --log FILE")
        return JobLog()
    clock = Clock(window.end)
    kernel: list[tuple[str, str, str | Recording]] = []
    logs: list[tuple[str, JobLog]] = []
    for given in names:
        node, file = _given(given, window)
        data = _read(file)
        text = data.decode("utf-8", "replace")
        name = clean(Path(file).name, 100)
        look = _recording(data, file)
        if look is not None or looks_like(text):
            kernel.append((node, name, look if look is not None else text))
        elif timeless(text):
            unmeasured.append(f"kernel log {name}: its times count from the boot; give dmesg -T, journalctl -k, or muster record")
        else:
            logs.append((name, fitting(read_one(name, data, clock), window)))
    _of_kernel(kernel, clock, rules, evidence, unmeasured, looked)
    for name, log in logs:
        unmeasured += log.caveats
        if log.forms:
            looked.append(f"{name} ({', '.join(log.forms)})")
    if not any(log.forms or log.events for _, log in logs):
        unmeasured.append("the job's own logs: none that was given is one")
    return merged(log for _, log in logs)


def _of_kernel(kernel: Sequence[tuple[str, str, str | Recording]], clock: Clock, rules: str | None, evidence: list[Evidence],
               unmeasured: list[str], looked: list[str]) -> None:
    if not kernel:
        return
    judges = _judges(rules)
    for node, name, log in kernel:
        if isinstance(log, str):
            evidence += of_text(log, node, name, clock, judges)
            looked.append(f"kernel log {name}")
        else:
            found, why = recorded(log, node, name, judges)
            evidence += found
            (unmeasured if why else looked).append(f"kernel log in {name}{f': {why}' if why else ''}")


def _given(text: str, window: Window) -> tuple[str, str]:
    """NODE=FILE, or a file; one whose name begins with a node of the job is that node's."""
    node, equals, file = text.partition("=")
    if equals and node in window.nodes:
        return node, file
    stem = Path(text).name.partition(".")[0]
    return (stem if stem in window.nodes else ""), text


def _recording(data: bytes, file: str) -> Recording | None:
    if data[:1] != b"{" or SCHEMA.encode() not in data[:200]:
        return None
    try:
        return read(data)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"--log {short(file)} is no whole recording: {clean(error, 200)}") from None


def _read(file: str) -> bytes:
    try:
        with Path(file).open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--log {short(file)} cannot be read: {error.strerror}") from None


def _judges(rules: str | None) -> Judges:
    ruleset = load_ruleset(folders(rules))
    held = ruleset.kernel
    if held is None or ruleset.xids is None:
        raise UsageError("the rules folder has no catalogue of kernel faults, or no table of Xids")
    return Judges(held.catalogue, ruleset.xids)
