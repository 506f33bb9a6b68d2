"""Kinds of fault, as a policy names them, and what jobs may do on a node that has one."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from fnmatch import fnmatchcase

from healthcheck.model.outcome import Owner, Repair, Severity


class Isolation(Enum):
    """What jobs may do on a node; the order of the members is from least to most.

    For EVICT muster does what it does for NO_NEW_JOBS, and shows the command that ends the running jobs: it
    ends none itself.
    """

    NONE = "none"
    NO_NEW_JOBS = "no-new-jobs"
    EVICT = "evict"


class Of(Enum):
    """What a kind of fault is made from."""

    FAIL = "fail"           # a rule that failed
    UNKNOWN = "unknown"     # a rule that could not be measured through the node's fault, for `wedged` sweeps
    UNREACHED = "unreached"     # no sweep has reached the node, for `wedged` sweeps


@dataclass(frozen=True)
class FaultKind:
    """One kind of fault. A problem is of the first kind that covers it, in the policy's order, which is also
    that of urgency.

    `rules` are globs over rule ids; `severities` None: all. It isolates after `confirm` sweeps that saw it.
    `reserve`: it may use the breaker's reserve. `repair`, `owner` None: the rule's own. `lasting`: only
    another component, or a person's statement, ends it. `decides`: its repair comes before that of other
    faults of the same place, as it is the driver's own.
    """

    id: str
    why: str
    rules: tuple[str, ...]
    of: Of = Of.FAIL
    severities: frozenset[Severity] | None = None
    isolation: Isolation = Isolation.NONE
    repair: Repair | None = None
    confirm: int = 1
    reserve: bool = False
    owner: Owner | None = None
    lasting: bool = False
    decides: bool = False
    file: str = ""

    def covers(self, of: Of, rule: str, severity: Severity) -> bool:
        """Whether a problem of this rule and severity is of this kind."""
        if of is not self.of or (self.severities is not None and severity not in self.severities):
            return False
        return of is Of.UNREACHED or any(fnmatchcase(rule, glob) for glob in self.rules)
