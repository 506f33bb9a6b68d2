"""Digests, a small catalogue and baselines for the tests of learning."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from healthcheck.baseline.approval import approve
from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.flags import flagged
from healthcheck.baseline.learn import Learner
from healthcheck.kernellog.emitter import KERNEL
from healthcheck.kernellog.masking import template
from healthcheck.kernellog.model import (
    Baseline,
    CatalogueEntry,
    Digest,
    KernelEventKind,
    KernelMessage,
    LogLine,
    Phase,
    Scope,
)
from healthcheck.model.outcome import Owner, Severity

XID = "NVRM: Xid (PCI:0000:17:00): 79, pid=4711, name=python, GPU has fallen off the bus."
CATALOGUE = Catalogue((CatalogueEntry(
    "gpu-lost", "NVRM: Xid .*: 79,", Severity.CRITICAL, "The GPU does not answer any more.", "Reboot.",
    Owner.VENDOR, "NVIDIA's Xid catalogue", (XID,), needs=(("xid",),), emitters=(KERNEL,),
),))
H100 = Scope("dgx-h100", "6.5.0-1007-nvidia")
DAY, NEXT = "2026-11-01", "2026-11-21"


def message(text: str, count: int = 1, phase: Phase = Phase.KERNEL, priority: int | None = 6,
         kind: KernelEventKind = KernelEventKind.LINE) -> KernelMessage:
    return KernelMessage(template(text), kind, count, (LogLine(text, 1.5, priority),), phase, 1.5, 1.5,
                         text, count)


def digest(
    node: str, boot: str, *said: str | KernelMessage, scope: Scope = H100,
    began: Mapping[Phase, float] | None = None,
) -> Digest:
    each = {one.template: one for one in (message(text) if isinstance(text, str) else text for text in said)}
    return Digest(node, boot, tuple(each.values()), len(said), scope, began or {})


def learn(digests: Iterable[Digest], scope: Scope, day: str, name: str = "") -> Baseline:
    learner = Learner()
    for one in digests:
        learner.add(one)
    return learner.learned(scope, day, name)


def learned(*digests: Digest, day: str = DAY, name: str = "ours") -> Baseline:
    return flagged(learn(digests, H100, day, name), CATALOGUE)


def all_approved(baseline: Baseline, by: str = "anna", why: str = "acceptance") -> Baseline:
    return approve(baseline, [one for one in baseline.proposed.values() if not one.flags], by, why)


def fleet(says: Mapping[str, Sequence[str]], boot: str = "b1") -> list[Digest]:
    """One boot of each node, by what it says."""
    return [digest(node, f"{boot}-{node}", *lines) for node, lines in says.items()]
