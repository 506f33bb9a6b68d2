"""What is done with results that were read from a kernel log: on which records they rest, and which of them a person's word covers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from healthcheck.kernellog.carried import RepairStatement, in_turn
from healthcheck.model.outcome import Finding, Origin, Result, Status
from inventory.text import clean

_JUDGED = (Status.PASS, Status.FAIL)


def resting(
    results: Iterable[Result], carried: Mapping[str, tuple[int, ...]], *, whole: bool,
) -> dict[str, tuple[int, ...] | None]:
    """By rule the numbers of the records on which its findings rest, as `healthcheck.kernellog.carried.after` takes them.

    Of a rule that was not judged, or by a log of which a part was not read (`whole`), those that are `carried` stay.
    """
    found: dict[str, tuple[int, ...] | None] = {}
    for result in results:
        if result.status not in _JUDGED:
            found[result.rule] = None
            continue
        findings = [one.log.records for one in result.findings if one.log is not None and one.log.ends]
        numbers = tuple(in_turn(findings)) if findings else ()
        if whole:
            found[result.rule] = numbers
        else:
            found[result.rule] = tuple(dict.fromkeys((*numbers, *carried.get(result.rule, ()))))
    return found


def without(result: Result, words: Sequence[RepairStatement], *, unread: bool) -> Result:
    """A FAIL without what was repaired by a person's word; where nothing is left of it, a PASS, or UNKNOWN where a part was not read."""
    left = tuple(one for one in result.findings if not _covered(result.rule, one, words))
    if len(left) == len(result.findings):
        return result
    over = list(dict.fromkeys(one.subject for one in result.findings if one not in left))
    said = f"over, by a person's word: {', '.join(over[:3])}" + (f" and {len(over) - 3} more" if len(over) > 3 else "")
    reason = clean("; ".join(filter(None, (result.reason, said))), 1000)
    if left:
        return replace(result, findings=left, reason=reason)
    status = Status.UNKNOWN if unread else Status.PASS
    return replace(result, status=status, findings=(), reason=reason, origin=Origin.NODE if unread else None, remedy="", owner=None)


def _covered(rule: str, finding: Finding, words: Sequence[RepairStatement]) -> bool:
    newest = finding.log.newest if finding.log is not None else None
    return newest is not None and any(word.covers(rule, finding.subject, newest) for word in words)
