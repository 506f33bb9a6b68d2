"""One cause for many rules: what a subject that does not answer leaves unmeasured, under that finding.

Each of those rules stays UNKNOWN for that subject: what was not measured never passes. What people and alerts
read names the cause once, with the number of rules, and beside it only what has no such cause. Only critical
findings are causes: the node is unhealthy by them already, so no UNKNOWN that they explain decides anything.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from healthcheck.model.outcome import Finding, Result, Severity, Status
from inventory.text import many

_MOST = 3       # parts of a reason that are named


@dataclass(frozen=True)
class RootCause:
    """A finding of `rule`, and the rules that could not be judged for its subject because of it, in the order
    of the results."""

    rule: str
    finding: Finding
    rules: tuple[str, ...]

    @property
    def sentence(self) -> str:
        """The cause in one line: GPU 5 is lost (NVML 15); 17 rules cannot be judged for it."""
        return f"{_statement(self.finding)}; {self.unjudged}"

    @property
    def unjudged(self) -> str:
        """How many rules could not be judged, in words."""
        return f"{many(len(self.rules), 'rule')} cannot be judged for it"


def with_causes(results: Sequence[Result], answering: Collection[str]) -> tuple[Result, ...]:
    """The results, with their causes: `answering` are the rules whose findings say that a subject does not
    answer. A result that none of these findings explains has no parts."""
    found: dict[str, tuple[str, str]] = {}
    for result in results:
        if result.rule in answering and result.status is Status.FAIL and result.severity is Severity.CRITICAL:
            for finding in result.findings:
                subject = finding.subject
                # A drive's name may be followed by its address: "nvme0 (0000:3b:00.0)".
                for name in (subject, subject.partition(" (")[0]):
                    found.setdefault(name, (subject, result.rule))
    return tuple([_explained(result, found) if result.unjudged else result for result in results])


def _explained(result: Result, found: Mapping[str, tuple[str, str]]) -> Result:
    """`found` holds by a subject's name the subject, and the rule that found it."""
    parts = []
    for part in result.unjudged if found else ():
        known = [found[one] for one in part.asked if one in found and found[one][1] != result.rule]
        cause, rule = known[0] if known else ("", "")
        parts.append(replace(part, cause=cause, rule=rule))
    return replace(result, unjudged=tuple(parts) if any(part.cause for part in parts) else ())


def causes(results: Iterable[Result]) -> tuple[RootCause, ...]:
    """The findings that are the cause of what other rules could not judge, in their order."""
    results = tuple(results)
    rules: dict[tuple[str, str], dict[str, None]] = {}
    for result in results:
        for part in result.unjudged:
            if part.cause:
                rules.setdefault((part.rule, part.cause), {})[result.rule] = None
    found: list[RootCause] = []
    for result in results if rules else ():
        for finding in result.findings:
            left = rules.pop((result.rule, finding.subject), None)      # the first of a subject's findings
            if left is not None:
                found.append(RootCause(result.rule, finding, tuple(left)))
    return tuple(found)


def is_explained(result: Result) -> bool:
    """Whether a result is UNKNOWN for nothing but such causes."""
    return (result.status is Status.UNKNOWN and bool(result.unjudged)
            and all(part.cause or part.note for part in result.unjudged))


def rest(result: Result) -> str:
    """The result's reason without what has such a cause."""
    if not result.unjudged:
        return result.reason
    return few([part.text for part in result.unjudged if not part.cause])


def few(notes: Sequence[str], most: int = _MOST) -> str:
    """The first of them in one line, and how many more there are."""
    more = f"; and {len(notes) - most} more" if len(notes) > most else ""
    return "; ".join(notes[:most]) + more


def _statement(finding: Finding) -> str:
    """Subject and observation as a sentence: "GPU 5" and "GPU is lost" are "GPU 5 is lost"."""
    observed, kind = str(finding.observed), finding.subject.partition(" ")[0]
    if kind and observed.startswith(f"{kind} "):
        return f"{finding.subject}{observed[len(kind):]}"
    return f"{finding.subject}: {observed}"
