"""Why a person should look at a template before approval: a known fault, a sign of trouble, or a rare line.

In the published boot logs of two healthy machines (3,933 lines, Supermicro server and Proxmox workstation)
about one line in fifty looks like trouble, most of them of a few templates: a person can read that many.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.kernellog.model import Baseline, CatalogueEntry, KernelEventKind, KnownTemplate

RARE = 0.2              # of the nodes or boots: fewer than one in five equal machines
WORST_PRIORITY = 3      # error, in syslog's numbers
REPORT, RARELY = "report", "rare"
_FAULT, _PRIORITY, _TROUBLE = "known fault ", "priority ", "trouble "
_RANK = (_FAULT, REPORT, _PRIORITY, _TROUBLE, RARELY)

# Words of kernel, drivers and file systems for trouble; not "report a bug": every healthy PCI bus writes it.
_ANY_CASE = (
    "err", "errors?", "fail(?:ed|ing|s|ure|ures)?", "fault(?:s|ed|y)?", "time[ -]?outs?", "timed out",
    r"corrupt\w*", "hardware error", "machine check", "degraded", "call trace", "panic", "oops",
    "abort(?:ed|ing)?", "bad", "broken", "stuck", "hung", "lost",
    r"overheat\w*", r"throttl\w*", "dead", "critical", "fatal", "unable", "cannot", "can't", "could not",
    r"not respond\w*", r"uncorrect\w*", r"unrecover\w*", r"mismatch\w*", "stall(?:s|ed)?", "lockup",
    "underrun", "overrun", r"offlin\w*", "tainting", "invalid", "rejecting", "unreachable",
    r"remount\w* read-only", "link is down", "link down", "limited by",
)
_WORDS = re.compile(rf"\b(?:BUG|Bug|WARNING|(?i:{'|'.join(_ANY_CASE)}))\b")


def known_fault(example: str, catalogue: Catalogue) -> CatalogueEntry | None:
    """The catalogue's entry for the lines of a template, of which this is one; None for `ordinary` ones."""
    entry = catalogue.find(example)
    return entry if entry is not None and not entry.ordinary else None


def trouble(text: str) -> str | None:
    """The first word of trouble in it, in small letters."""
    match = _WORDS.search(text)
    return match[0].lower() if match else None


def flags(known: KnownTemplate, nodes: int, boots: int, catalogue: Catalogue) -> tuple[str, ...]:
    """Why it is not approved in bulk, the worst first; `nodes` and `boots` are how many were learned."""
    found = []
    fault = known_fault(known.example, catalogue)
    if fault is not None:
        found.append(f"{_FAULT}{fault.id}")
    if known.kind is not KernelEventKind.LINE:
        found.append(REPORT)
    if known.priority is not None and known.priority <= WORST_PRIORITY:
        found.append(f"{_PRIORITY}{known.priority}")
    word = trouble(known.template)
    if word is not None:
        found.append(f"{_TROUBLE}{word}")
    if known.nodes < RARE * nodes or known.boots < RARE * boots or known.nodes == 1 < nodes:
        found.append(RARELY)
    return tuple(found)


def is_known_fault(reasons: Iterable[str]) -> bool:
    """Whether the catalogue knows it as a fault, which can never be approved."""
    return any(reason.startswith(_FAULT) for reason in reasons)


def rank(known: KnownTemplate) -> tuple[object, ...]:
    """A sort key: the worst first, of equals those of the most nodes."""
    worst = min((at for at, begins in enumerate(_RANK) for flag in known.flags if flag.startswith(begins)),
                default=len(_RANK))
    return worst, -len(known.flags), -known.nodes, -known.boots, known.template


def flagged(baseline: Baseline, catalogue: Catalogue) -> Baseline:
    """The same with each proposal's flags made again: those of a file may have been edited."""
    return replace(baseline, proposed={
        text: replace(one, flags=flags(one, baseline.nodes, baseline.boots, catalogue))
        for text, one in baseline.proposed.items()})
