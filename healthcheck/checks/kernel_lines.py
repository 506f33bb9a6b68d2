"""Words and evidence of a finding that lines of the kernel log are."""

from __future__ import annotations

from collections.abc import Sequence

from healthcheck.checks.base import LONGEST_QUOTE
from healthcheck.facts.kernel import KernelLine, KernelLog, moment
from healthcheck.kernellog.carried import representative
from healthcheck.kernellog.ending import Ending
from healthcheck.model.outcome import LogEvidence


def when(log: KernelLog, line: KernelLine) -> str:
    """When it was logged, and how long ago where the uptime is known."""
    return moment(line.seconds, log.newest if log.uptime else 0.0)


def quoted(log: KernelLog, lines: Sequence[KernelLine], longest: int = LONGEST_QUOTE) -> str:
    """How many lines there are, and the first, which is nearest to the cause."""
    count = f"{len(lines)} lines, the first " if len(lines) > 1 else ""
    return f"{count}{when(log, lines[0])}: {lines[0].text[:longest]}"


def evidence(emitter: str, ends: Ending, lines: Sequence[KernelLine]) -> LogEvidence:
    """What a finding about these lines rests on."""
    return LogEvidence(emitter, str(ends), len(lines), lines[0].seconds, lines[-1].seconds,
                       representative([line.sequence for line in lines]))
