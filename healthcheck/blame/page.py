"""The page of blame, for people, and as a document (muster.blame/1). Foreign text is bounded and escaped."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from healthcheck.blame.evidence import Case, Evidence, Weight
from healthcheck.blame.rank import LEAST, Suspect, culprit, early, worth
from inventory.text import clean

SCHEMA = "muster.blame/1"
Fold = Callable[[Iterable[str]], str]

_MOST_EVIDENCE = 6
_MOST_OTHERS = 8
_WIDE = 160
_NO_ONES = (Weight.ORDERED, Weight.STOPPED)


def exit_code(case: Case, ranked: Sequence[Suspect]) -> int:
    """1 someone or something is to blame, 0 nothing and all was measured, 3 nothing and something was not."""
    first = culprit(ranked)
    if first is not None and first.main.weight not in _NO_ONES:
        return 1
    return 3 if case.unmeasured and not case.fine else 0


def text(case: Case, ranked: Sequence[Suspect], fold: Fold) -> Iterator[str]:
    """The page, line by line; the first names the culprit."""
    first = culprit(ranked)
    yield headline(case, first, fold)
    yield ""
    window = case.window
    count = len(window.nodes)
    on = (f" on {fold(window.nodes)} ({count} node{'s' * (count != 1)})" if count
          else ", on nodes that no log names")
    at = (f"{when(window.start)} to {when(window.end)}" if window.known
          else "at a time that neither a scheduler, an option nor a log tells")
    yield f"{clean(case.title, 120)}{on}, {at}: {clean(case.ended, 200)}"
    if first is not None:
        yield ""
        yield f"Evidence ({first.sure}):"
        yield from _lines([one for one in first.evidence if not early(one, case)], case)
        advice = next((one.advice for one in first.evidence if one.advice), "")
        yield f"Owner: {first.owner.value}"
        if advice:
            yield f"Next: {clean(advice, 400)}"
    others = _grouped([replace(suspect, evidence=left) for suspect in ranked if suspect is not first
                     and (left := tuple(one for one in suspect.evidence if not early(one, case)))])
    if others:
        yield ""
        yield "What others show:"
        for group in others[:_MOST_OTHERS]:
            yield from _lines(group[0].evidence[:1], case, _names(group, fold))
        if len(others) > _MOST_OTHERS:
            yield f"  and {len(others) - _MOST_OTHERS} more: --format json"
    before = _before(case)
    if before:
        yield ""
        yield "Before the job:" if window.known else "At times that may not be the job's:"
        for node in list(dict.fromkeys(one.node for one in before))[:_MOST_OTHERS]:
            yield from _lines([one for one in before if one.node == node], case)
    if case.looked:
        yield ""
        yield f"Looked at: {clean('; '.join(case.looked), 600)}"
    if case.unmeasured:
        yield ""
        yield "Not measured:"
        yield from (f"  {clean(one, 300)}" for one in case.unmeasured)


def headline(case: Case, first: Suspect | None, fold: Fold) -> str:
    """The first line: who, what, when, how sure, whose."""
    if case.fine and first is None:
        return f"{clean(case.title, 120)} {clean(case.ended, 200)}: nothing to blame"
    if first is None and (before := [one for one in _before(case) if worth(one) >= LEAST]):
        one = before[0]
        moment = _relative(one, case)
        text = f"{clean(one.node, 80) or 'the job'}: {clean(one.what, 200)}{f', {moment}' if moment else ''}"
        if not case.window.known:
            return f"nothing found in the job's logs, and when it ran is not known; at some time: {text}"
        return f"nothing found in the job's time; before the job: {text}"
    if first is None:
        if not case.unmeasured:
            return "nothing found, and all of it was measured"
        named = [one.partition(":")[0] for one in case.unmeasured]
        return clean(f"nothing found; not measured: {'; '.join(named[:4])}{' ...' * (len(named) > 4)}", 300)
    one = first.main
    moment = _relative(one, case)
    what = clean(one.what, 200)
    if moment and one.weight not in _NO_ONES:
        what += f" {moment}" if moment[0].isdecimal() else f", {moment}"
    if first.shared is not None:
        nodes = fold(each.node for each in first.evidence)
        return (f"{first.shared.kind} {clean(first.shared.name, 80)}: {len(first.evidence)} nodes of it "
                f"({nodes}) show the same, {what}; {first.sure}; owner {first.owner.value}")
    who = clean(first.node, 80) if first.node else "the job itself"
    if one.weight in _NO_ONES:
        return clean(one.what, 200)
    return f"{who}: {what}; {first.sure}; owner {first.owner.value}"


def document(case: Case, ranked: Sequence[Suspect], fold: Fold) -> dict[str, Any]:
    """All of it, suspects in their order."""
    first = culprit(ranked)
    return {
        "schema": SCHEMA, "job": clean(case.title, 120), "first": headline(case, first, fold),
        "nodes": list(case.window.nodes), "started": case.window.start, "ended": case.window.end,
        "failed": case.failed, "how": clean(case.ended, 200), "found": first is not None,
        "suspects": [{
            "node": clean(suspect.node, 253), "shared": None if suspect.shared is None else
            {"kind": suspect.shared.kind, "name": clean(suspect.shared.name, 200),
             "nodes": sorted(suspect.shared.nodes)},
            "score": round(suspect.score, 1),
            "certainty": suspect.sure if suspect.score >= LEAST else "symptom",
            "owner": suspect.owner.value, "evidence": [_entry(one) for one in suspect.evidence]}
                     for suspect in ranked],
        "looked_at": [clean(one, 300) for one in case.looked],
        "not_measured": [clean(one, 300) for one in case.unmeasured],
    }


def _entry(one: Evidence) -> dict[str, Any]:
    return {"node": clean(one.node, 253), "weight": one.weight.value, "what": clean(one.what, 300),
            "said": clean(one.said, 400), "source": clean(one.source, 200), "after": one.after, "by": one.by,
            "sure": one.sure, "rank": one.rank, "owner": one.owner.value if one.owner is not None else None,
            "next": clean(one.advice, 400)}


def _lines(evidence: Sequence[Evidence], case: Case, name: str = "") -> Iterator[str]:
    """A line for each kind of thing that was seen, the first of it."""
    kinds: dict[tuple[Weight, str], list[Evidence]] = {}
    for one in evidence:
        kinds.setdefault((one.weight, one.group), []).append(one)
    for group in list(kinds.values())[:_MOST_EVIDENCE]:
        one = group[0]
        moment = _relative(one, case)
        at = f"{_between(one)}{f', {moment}' if moment else ''}"
        said = f": {clean(one.said, _WIDE)}" if one.said else ""
        more = f" (and {len(group) - 1} more such)" if len(group) > 1 else ""
        yield (f"  {name or clean(one.node, 80) or 'the job'}  {at}  {clean(one.what, 200)}{more} "
               f"[{clean(one.source, 120)}]{said}")
    if len(kinds) > _MOST_EVIDENCE:
        yield f"  and {len(kinds) - _MOST_EVIDENCE} more: --format json"


def _before(case: Case) -> list[Evidence]:
    """What was over before the job began, the worst first."""
    return sorted((one for one in case.evidence if early(one, case)),
                  key=lambda one: (-worth(one), -(one.by or 0.0)))


def _grouped(suspects: Sequence[Suspect]) -> list[list[Suspect]]:
    """Groups nodes that show only the same symptom."""
    found: dict[tuple[str, ...], list[Suspect]] = {}
    for suspect in suspects:
        symptom = suspect.shared is None and suspect.main.weight is Weight.SYMPTOM and bool(suspect.node)
        key = (("", suspect.main.group) if symptom
               else (suspect.node, suspect.shared.name if suspect.shared is not None else "", "own"))
        found.setdefault(key, []).append(suspect)
    return list(found.values())


def _names(group: Sequence[Suspect], fold: Fold) -> str:
    if group[0].shared is not None:
        return (f"{group[0].shared.kind} {clean(group[0].shared.name, 80)} "
                f"({fold(one.node for one in group[0].evidence)})")
    return clean(fold(one.node for one in group) if len(group) > 1 else group[0].node, 200) or "the job"


def when(time: float) -> str:
    """A moment, in local time with its zone's offset."""
    return dt.datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M:%S %z")


def _between(one: Evidence) -> str:
    if one.by is None:
        return "at no known time"
    if one.exact or one.after is None:
        return dt.datetime.fromtimestamp(one.by).strftime("%m-%d %H:%M:%S")
    return (f"{dt.datetime.fromtimestamp(one.after).strftime('%m-%d %H:%M')} .. "
            f"{dt.datetime.fromtimestamp(one.by).strftime('%m-%d %H:%M')}")


def _relative(one: Evidence, case: Case) -> str:
    """How long before or after the job began to fail."""
    if one.by is None or not case.window.known:
        return ""
    if not one.exact:
        if one.after is not None and one.after <= case.failed <= one.by:
            return "between the looks before and after the job failed"
        return "before the job began" if one.by < case.window.start else ""
    apart = case.failed - one.by
    if abs(apart) < 1:
        return "as the job failed"
    if one.by < case.window.start:
        return f"{_span(case.window.start - one.by)} before the job began"
    return f"{_span(abs(apart))} {'before' if apart > 0 else 'after'} the job failed"


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
