"""What the kernel's log is judged by, as facts that a sweep hands in: the catalogue, and the baseline that fits the node."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.scope import fitting, words
from healthcheck.facts.values import Fact, Unmeasured
from healthcheck.kernellog.model import Baseline, CatalogueEntry, KernelEventKind, KernelMessage, Scope
from healthcheck.model.outcome import Origin, Severity

KERNEL_CATALOGUE = "kernel_catalogue"
KERNEL_BASELINE = "kernel_baseline"

_MOST_REMEMBERED = 100_000
_WORST_FIRST = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@dataclass(frozen=True)
class KernelRules:
    """The catalogue and every baseline of the rules folders; `chosen` is the one that a person says all are judged by."""

    catalogue: Catalogue
    baselines: tuple[Baseline, ...] = ()
    chosen: Baseline | None = None


@dataclass(frozen=True, eq=False)
class KernelCatalogue(Fact):
    """The catalogue. Lines of one template all match an entry, or none does, so each template is looked up once."""

    name: str
    catalogue: Catalogue

    @cached_property
    def by_template(self) -> dict[str, CatalogueEntry | None]:
        """What was looked up."""
        return {}

    @cached_property
    def _newest(self) -> list[tuple[frozenset[str], Mapping[str, CatalogueEntry]]]:
        return []

    def entries(self, templates: frozenset[str]) -> Mapping[str, CatalogueEntry] | None:
        """By template those that know its lines; None where one of them was not met before, of which a line must be looked at."""
        if self._newest and self._newest[0][0] is templates:
            return self._newest[0][1]
        if not self.by_template.keys() >= templates:
            return None
        found = {template: entry for template in templates if (entry := self.by_template[template]) is not None}
        self._newest[:] = [(templates, found)]
        return found

    def entry(self, told: KernelMessage) -> CatalogueEntry | None:
        """The entry that knows this event: the one that knows its head, or a worse one that knows another of its lines."""
        found = self._of_head(told)
        if told.kind is KernelEventKind.LINE:
            return found
        entries = {entry.id: entry for line in told.lines if (entry := self.catalogue.find(line.text)) is not None}
        worst = min(entries.values(), key=_rank, default=None)
        return worst if worst is not None and (found is None or _rank(worst) < _rank(found)) else found

    def emitter(self, entry: CatalogueEntry, told: KernelMessage) -> str:
        """The emitter in whose messages the entry knows this event; empty where each record's SUBSYSTEM= is of another."""
        found = ((line, self.catalogue.emitter(entry, line.text)) for line in told.lines)
        return next((emitter.id for line, emitter in found if emitter is not None and emitter.agrees(line.subsystem)), "")

    def fault(self, told: KernelMessage) -> bool:
        """Whether it is known, and healthy machines do not say it: then no baseline has a say."""
        entry = self.entry(told)
        return entry is not None and not entry.ordinary

    def _of_head(self, told: KernelMessage) -> CatalogueEntry | None:
        try:
            return self.by_template[told.template]
        except KeyError:
            if len(self.by_template) >= _MOST_REMEMBERED:
                self.by_template.clear()
            found = self.by_template[told.template] = self.catalogue.find(told.head)
            return found


def _rank(entry: CatalogueEntry) -> int:
    return _WORST_FIRST.index(entry.severity)


@dataclass(frozen=True, eq=False)
class KernelBaseline(Fact):
    """The baseline that fits a node. Where none does, `there` is false, `why` says so, and `baseline` is not measured, for want of ours.

    `exact` says that it is of this very kernel, driver and firmware; else `why` says what differs.
    """

    name: str
    there: bool
    exact: bool
    why: str
    baseline: Baseline


def judged_by(rules: KernelRules, scope: Scope) -> KernelBaseline:
    """The baseline for a node of this SKU whose log says this of kernel, driver and firmware."""
    given = rules.chosen
    fit = fitting(rules.baselines if given is None else [given], scope if given is None else replace(scope, sku=given.scope.sku))
    if given is not None and fit.baseline is None:
        why = f"judged by the baseline {given.name}, as told, which is for {words(given.scope)}"
        return KernelBaseline("kernel log", True, False, why, given)
    if fit.baseline is not None:
        return KernelBaseline("kernel log", True, fit.exact, fit.why, fit.baseline)
    why = f"{fit.why}, so what is new is not judged (muster baseline learn)"
    missing: Any = Unmeasured(why, Origin.MUSTER)
    return KernelBaseline("kernel log", False, False, fit.why, missing)
