"""Explains a file: recognises its kind, calls the module for it, and ranks the causes."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from healthcheck.burnin.nccltests import formats as nccltests
from healthcheck.explain import bugreport, joblogs, kernel, perfjudge, recording, smi
from healthcheck.explain.model import Explained, FileKind, RawExplanation, ranked
from healthcheck.explain.recognise import Opened, recognise
from healthcheck.joblog.messages import KnownMessage
from healthcheck.joblog.model import LogClock
from healthcheck.joblog.read import read as read_job
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.sweep.saved import has_sweep

_LOOKED_FOR = {
    FileKind.KERNEL: (kernel.LOOKED_FOR, kernel.CANNOT_SHOW),
    FileKind.BUG_REPORT: (bugreport.LOOKED_FOR, bugreport.CANNOT_SHOW),
    FileKind.SMI: (smi.LOOKED_FOR, smi.CANNOT_SHOW), FileKind.JOB: (joblogs.LOOKED_FOR, joblogs.CANNOT_SHOW),
    FileKind.NCCL_TESTS: (perfjudge.LOOKED_FOR, perfjudge.CANNOT_SHOW),
    FileKind.FLIGHT: (joblogs.FLIGHT_LOOKED_FOR, joblogs.FLIGHT_CANNOT_SHOW),
    FileKind.DCGM: (recording.DCGM_LOOKED_FOR, recording.DCGM_CANNOT_SHOW),
    FileKind.RECORDING: (recording.LOOKED_FOR, recording.CANNOT_SHOW),
    FileKind.CHECK: (recording.LOOKED_FOR, recording.CANNOT_SHOW),
}


def explain(opened: Opened, ruleset: Ruleset, messages: Sequence[KnownMessage], now: float) -> Explained:
    """Explains the file; `now` is the current time (epoch seconds).
    UsageError for an unknown kind of file."""
    form = recognise(opened, messages)
    return _made(opened.name, form, _explained(opened, form, ruleset, messages, now), opened.caveats)


def explain_folder(folder: Path, ruleset: Ruleset) -> Explained:
    """The same for the folder of a saved sweep."""
    return _made(folder.name, FileKind.RECORDING, recording.explain_sweep(folder, ruleset))


def _made(name: str, form: FileKind, found: RawExplanation, caveats: Sequence[str] = ()) -> Explained:
    looked_for, cannot_show = _LOOKED_FOR[form]
    return Explained(name, form, found.about, ranked(found.causes), looked_for,
                     (*cannot_show, *found.cannot_show), tuple(dict.fromkeys([*caveats, *found.unread])))


def _explained(
    opened: Opened, form: FileKind, ruleset: Ruleset, messages: Sequence[KnownMessage], now: float,
) -> RawExplanation:
    if form is FileKind.KERNEL:
        causes = kernel.explain(opened.logs, opened.lines, ruleset, now)
        if opened.job_lines():
            causes += _of_job(opened, messages, now).causes
        return RawExplanation(causes, kernel.unread(opened.logs),
                              f"{opened.kernel_lines()} lines, {opened.logs[0].format}")
    if form is FileKind.BUG_REPORT:
        return bugreport.explain(opened, ruleset, messages, now)
    if form is FileKind.SMI:
        return smi.explain(opened.text, opened.lines, ruleset, now)
    if form is FileKind.NCCL_TESTS:
        return _of_test(opened, messages, now)
    if form in (FileKind.JOB, FileKind.FLIGHT):
        return _of_job(opened, messages, now)
    if form is FileKind.DCGM:
        return recording.explain_dcgm(opened.text, ruleset, now)
    if form is FileKind.RECORDING:
        # The sweep's data may lie beside it: the earlier snapshot, the node's SKU.
        if has_sweep(opened.document) and opened.path is not None:
            return recording.explain_sweep(opened.path, ruleset)
        return recording.explain_one(opened.document, opened.name, ruleset)
    return recording.explain_check(opened.document)


def _of_job(opened: Opened, messages: Sequence[KnownMessage], now: float) -> RawExplanation:
    log = read_job([(opened.name, opened.data)], LogClock(now), messages)
    ranks = f", {log.world} ranks" if log.world else ""
    unread = [caveat for caveat in log.caveats if "holds nothing of" not in caveat]
    return RawExplanation(joblogs.explain(log, opened.lines), unread, f"{', '.join(log.forms)}{ranks}")


def _of_test(opened: Opened, messages: Sequence[KnownMessage], now: float) -> RawExplanation:
    runs = nccltests.read(opened.text)
    causes = [cause for run in runs for cause in perfjudge.explain(run, opened.lines)]
    if opened.job_lines():
        causes += _of_job(opened, messages, now).causes
    unread = [] if any(run.rows for run in runs) else ["its table has no line that can be read"]
    more = f"; and {len(runs) - 3} more" if len(runs) > 3 else ""
    return RawExplanation(causes, unread, "; ".join(perfjudge.about(run) for run in runs[:3]) + more)
