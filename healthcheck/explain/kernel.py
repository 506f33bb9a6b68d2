"""Explains a kernel log of any format by the rules that need nothing else; a log of several boots,
boot by boot."""

from __future__ import annotations

from collections.abc import Sequence

from healthcheck.baseline.formats.parsedlog import ORDINARY_GAPS
from healthcheck.baseline.kernelrules import KERNEL_BASELINE
from healthcheck.explain import judging
from healthcheck.explain.model import Cause
from healthcheck.explain.quoting import LineIndex
from healthcheck.explain.savedlog import judged, recording, with_file_lines
from healthcheck.kernellog.model import BootLog
from healthcheck.ruleset.ruleset import Ruleset

LOOKED_FOR = (
    "Xids and SXids of NVIDIA's drivers", "hardware errors (machine checks, EDAC, PCIe AER, CPER)",
    "faults that the catalogue knows (muster explain kernel)",
)
CANNOT_SHOW = (
    "what happened before its first line or after its last",
    "counters and states of GPUs, links and drives that no driver wrote of",
    "what a program or another node did",
)


def explain(
    logs: Sequence[BootLog], lines: LineIndex, ruleset: Ruleset, now: float, start: int = 0,
) -> list[Cause]:
    """The causes in these boots of one file, whose kernel log begins at `start`;
    `now` is the current time (epoch seconds)."""
    rules = [rule for rule in judged(ruleset.rules) if KERNEL_BASELINE not in rule.fact_names]
    by_id = {rule.id: rule for rule in rules}
    found: list[Cause] = []
    for number, log in enumerate(logs, 1):
        report = with_file_lines(judging.report(recording("file", log, now), ruleset, rules), log)
        where = f"boot {number} of {len(logs)}: " if len(logs) > 1 else ""
        found += judging.causes(report, by_id, lambda quoted: lines.quotes(quoted, start), where=where)
    return found


def unread(logs: Sequence[BootLog]) -> list[str]:
    """The known gaps of the log, but not its missing start, which is normal and covered by `CANNOT_SHOW`."""
    return list(dict.fromkeys(caveat for log in logs for caveat in log.caveats
                              if caveat not in ORDINARY_GAPS))
