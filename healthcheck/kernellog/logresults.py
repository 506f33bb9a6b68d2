"""Results that were read from a kernel log: on which records they rest, which of them a repair ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from healthcheck.kernellog.carried import RepairStatement, interleaved
from healthcheck.model.outcome import Finding, Origin, Result, Status
from inventory.text import clean, listed

_JUDGED = (Status.PASS, Status.FAIL)


def finding_records(
    results: Iterable[Result], carried: Mapping[str, tuple[int, ...]], *, whole: bool,
) -> dict[str, tuple[int, ...] | None]:
    """By rule the numbers of the records on which its findings rest, for `carried.carry_over`: the `carried`
    ones if it was not judged, or if the log was not read `whole`."""
    found: dict[str, tuple[int, ...] | None] = {}
    for result in results:
        if result.status not in _JUDGED:
            found[result.rule] = None
            continue
        findings = [one.log.records for one in result.findings if one.log is not None and one.log.ends]
        numbers = tuple(interleaved(findings)) if findings else ()
        if whole:
            found[result.rule] = numbers
        else:
            found[result.rule] = tuple(dict.fromkeys((*numbers, *carried.get(result.rule, ()))))
    return found


def without_repaired(result: Result, repairs: Sequence[RepairStatement], *, unread: bool) -> Result:
    """A FAIL without what a person repaired. If nothing is left: PASS, or UNKNOWN for a log read in part."""
    left = tuple(one for one in result.findings if not _covered(result.rule, one, repairs))
    if len(left) == len(result.findings):
        return result
    over = list(dict.fromkeys(one.subject for one in result.findings if one not in left))
    note = f"over, by a person's word: {listed(over, 3)}"
    reason = clean("; ".join(filter(None, (result.reason, note))), 1000)
    if left:
        return replace(result, findings=left, reason=reason)
    status, origin = (Status.UNKNOWN, Origin.NODE) if unread else (Status.PASS, None)
    return replace(result, status=status, findings=(), reason=reason, origin=origin, remedy="", owner=None)


def _covered(rule: str, finding: Finding, repairs: Sequence[RepairStatement]) -> bool:
    newest = finding.log.newest if finding.log is not None else None
    return newest is not None and any(repair.covers(rule, finding.subject, newest) for repair in repairs)
