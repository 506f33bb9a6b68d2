"""Explains a file: tells its kind, asks the module that knows it, and ranks what that says."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from healthcheck.burnin.nccltests import forms as nccltests
from healthcheck.explain import bugreport, joblogs, kernel, perfjudge, recording, smi
from healthcheck.explain.model import Explained, Form, Told, ranked
from healthcheck.explain.recognise import Opened, recognise
from healthcheck.joblog.model import Clock
from healthcheck.joblog.read import read as read_job
from healthcheck.joblog.sayings import Saying
from healthcheck.ruleset.ruleset import Ruleset

_LOOKED_FOR = {
    Form.KERNEL: (kernel.LOOKED_FOR, kernel.CANNOT_SHOW), Form.BUG_REPORT: (bugreport.LOOKED_FOR, bugreport.CANNOT_SHOW),
    Form.SMI: (smi.LOOKED_FOR, smi.CANNOT_SHOW), Form.JOB: (joblogs.LOOKED_FOR, joblogs.CANNOT_SHOW),
    Form.NCCL_TESTS: (perfjudge.LOOKED_FOR, perfjudge.CANNOT_SHOW), Form.FLIGHT: (joblogs.FLIGHT_LOOKED_FOR, joblogs.FLIGHT_CANNOT_SHOW),
    Form.DCGM: (recording.DCGM_LOOKED_FOR, recording.DCGM_CANNOT_SHOW), Form.RECORDING: (recording.LOOKED_FOR, recording.CANNOT_SHOW),
    Form.CHECK: (recording.LOOKED_FOR, recording.CANNOT_SHOW),
}


def explain(opened: Opened, ruleset: Ruleset, sayings: Sequence[Saying], now: float) -> Explained:
    """What the file says; `now` (epoch seconds) is the clock of this look. UsageError for a file of no known kind."""
    form = recognise(opened, sayings)
    return _made(opened.name, form, _told(opened, form, ruleset, sayings, now), opened.caveats)


def explain_folder(folder: Path, ruleset: Ruleset) -> Explained:
    """The same for the folder of a saved sweep."""
    return _made(folder.name, Form.RECORDING, recording.explain_sweep(folder, ruleset))


def _made(name: str, form: Form, told: Told, caveats: Sequence[str] = ()) -> Explained:
    looked_for, cannot_show = _LOOKED_FOR[form]
    return Explained(name, form, told.about, ranked(told.causes), looked_for, (*cannot_show, *told.cannot_show),
                     tuple(dict.fromkeys([*caveats, *told.unread])))


def _told(opened: Opened, form: Form, ruleset: Ruleset, sayings: Sequence[Saying], now: float) -> Told:
    if form is Form.KERNEL:
        causes = kernel.explain(opened.logs, opened.lines, ruleset, now)
        if opened.job_lines():
            causes += _of_job(opened, sayings, now).causes
        return Told(causes, kernel.unread(opened.logs), f"{opened.kernel_lines()} lines, {opened.logs[0].form}")
    if form is Form.BUG_REPORT:
        return bugreport.explain(opened, ruleset, sayings, now)
    if form is Form.SMI:
        return smi.explain(opened.text, opened.lines, ruleset, now)
    if form is Form.NCCL_TESTS:
        return _of_test(opened, sayings, now)
    if form in (Form.JOB, Form.FLIGHT):
        return _of_job(opened, sayings, now)
    if form is Form.DCGM:
        return recording.explain_dcgm(opened.text, ruleset, now)
    if form is Form.RECORDING:
        # With it may stand what the sweep knew: the earlier look, the node's SKU.
        if "look" in opened.document and opened.path is not None:
            return recording.explain_sweep(opened.path, ruleset)
        return recording.explain_one(opened.document, opened.name, ruleset)
    return recording.explain_check(opened.document)


def _of_job(opened: Opened, sayings: Sequence[Saying], now: float) -> Told:
    log = read_job([(opened.name, opened.data)], Clock(now), sayings)
    ranks = f", {log.world} ranks" if log.world else ""
    unread = [caveat for caveat in log.caveats if "holds nothing of" not in caveat]
    return Told(joblogs.explain(log, opened.lines), unread, f"{', '.join(log.forms)}{ranks}")


def _of_test(opened: Opened, sayings: Sequence[Saying], now: float) -> Told:
    runs = nccltests.read(opened.text)
    causes = [cause for run in runs for cause in perfjudge.explain(run, opened.lines)]
    if opened.job_lines():
        causes += _of_job(opened, sayings, now).causes
    unread = [] if any(run.rows for run in runs) else ["its table has no line that can be read"]
    more = f"; and {len(runs) - 3} more" if len(runs) > 3 else ""
    return Told(causes, unread, "; ".join(perfjudge.about(run) for run in runs[:3]) + more)
