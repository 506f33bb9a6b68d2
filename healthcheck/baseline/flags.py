"""Says why a person should look at a template before it is approved: it is a known fault, looks like trouble, or few have said it.

On the boot logs of two healthy machines that were published (3,933 lines, Supermicro server and Proxmox workstation) about one line in
fifty looks like trouble, most of them of a few templates: so much a person can read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.kernellog.model import Baseline, CatalogueEntry, KernelEventKind, KnownTemplate

RARE = 0.2              # of the nodes or boots: what fewer than one in five of equal machines say is peculiar to these
WORST_PRIORITY = 3      # error, in syslog's numbers: what the kernel itself holds for one
REPORT, RARELY = "report", "rare"
_FAULT, _PRIORITY, _TROUBLE = "known fault ", "priority ", "trouble "
_RANK = (_FAULT, REPORT, _PRIORITY, _TROUBLE, RARELY)

# The words by which kernel, drivers and file systems tell of trouble; "report a bug" is what every healthy PCI bus says.
_ANY_CASE = (
    "err", "errors?", "fail(?:ed|ing|s|ure|ures)?", "fault(?:s|ed|y)?", "time[ -]?outs?", "timed out", r"corrupt\w*", "hardware error",
    "machine check", "degraded", "call trace", "panic", "oops", "abort(?:ed|ing)?", "bad", "broken", "stuck", "hung", "lost",
    r"overheat\w*", r"throttl\w*", "dead", "critical", "fatal", "unable", "cannot", "can't", "could not", r"not respond\w*",
    r"uncorrect\w*", r"unrecover\w*", r"mismatch\w*", "stall(?:s|ed)?", "lockup", "underrun", "overrun", r"offlin\w*", "tainting",
    "invalid", "rejecting", "unreachable", r"remount\w* read-only", "link is down", "link down", "limited by",
)
_WORDS = re.compile(rf"\b(?:BUG|Bug|WARNING|(?i:{'|'.join(_ANY_CASE)}))\b")


def known_fault(example: str, catalogue: Catalogue) -> CatalogueEntry | None:
    """The catalogue's entry for lines of a template, of which this is one: all of them match it, or none does (model.Entry).

    What healthy machines say, too, is none.
    """
    entry = catalogue.find(example)
    return entry if entry is not None and not entry.ordinary else None


def trouble(text: str) -> str | None:
    """The first word of it that tells of trouble, in small letters."""
    match = _WORDS.search(text)
    return match[0].lower() if match else None


def flags(known: KnownTemplate, nodes: int, boots: int, catalogue: Catalogue) -> tuple[str, ...]:
    """Why it is not for bulk approval, the worst first; `nodes` and `boots` are how many were learned."""
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
    """Whether the catalogue knows it: such a one can never be approved."""
    return any(reason.startswith(_FAULT) for reason in reasons)


def rank(known: KnownTemplate) -> tuple[object, ...]:
    """A sort key: the worst first, of equals those that most nodes say."""
    worst = min((at for at, begins in enumerate(_RANK) for flag in known.flags if flag.startswith(begins)), default=len(_RANK))
    return worst, -len(known.flags), -known.nodes, -known.boots, known.template


def flagged(baseline: Baseline, catalogue: Catalogue) -> Baseline:
    """The same, where each proposal says why it is flagged. What a file says of it is never believed: it may have been edited."""
    return replace(baseline, proposed=_flagged(baseline.proposed, baseline, catalogue))


def _flagged(proposed: Mapping[str, KnownTemplate], baseline: Baseline, catalogue: Catalogue) -> dict[str, KnownTemplate]:
    return {text: replace(one, flags=flags(one, baseline.nodes, baseline.boots, catalogue)) for text, one in proposed.items()}
