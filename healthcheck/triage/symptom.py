"""Symptoms: what problems of several nodes have in common,
as words that name one and the same thing wherever it is. Pure."""

from __future__ import annotations

import re
from functools import lru_cache

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Severity, Status
from healthcheck.model.problem import Problem

NOT_REACHED = "not reached"
_LONGEST = 120
# What tells components of one sort apart has a digit in it: an index, an address, a serial number.
# The number of an Xid is what it is.
_OWN = re.compile(r"(S?Xid \d+)|[^\s,()/]*\d[^\s,()/]*")


def symptom(problem: Problem) -> str:
    """The name of a problem's symptom, the same on every node; "" if it does not concern the node: INFO,
    or muster's own."""
    if problem.severity == Severity.INFO.value:
        return ""
    if problem.status != Status.FAIL.value:
        if problem.origin != "node":
            return ""
        return not_measured(problem.rule) if problem.rule else NOT_REACHED
    return _named(problem.rule, problem.subject)


def not_measured(rule: str) -> str:
    """The symptom of a rule that cannot be judged."""
    return f"{rule} not measured"


def about(name: str) -> tuple[Of, str]:
    """What a symptom is made of, and the rule that it is of; empty for nodes that are not reached."""
    if name == NOT_REACHED:
        return Of.UNREACHED, ""
    return (Of.UNKNOWN if name == not_measured(rule := name.partition(" ")[0]) else Of.FAIL), rule


@lru_cache(maxsize=20_000)
def _named(rule: str, subject: str) -> str:
    part = shared_part(subject)
    return f"{rule} of {part}" if part else rule


def shared_part(subject: str) -> str:
    """What stays of a subject where everything that only this node has is left out:
    "GPU 3" and "GPU 5" are both "GPU"."""
    kept = _OWN.sub(lambda found: found.group(1) or "", subject)
    return " ".join(re.sub(r"[()/:]+", " ", kept).split()).replace(" ,", ",").strip(" ,")[
        :_LONGEST].strip(" ,")
