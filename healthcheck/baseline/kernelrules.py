"""What the kernel's log is judged by, as facts that a sweep supplies: the catalogue, the node's baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from healthcheck.baseline.catalogue import WORST_FIRST, Catalogue
from healthcheck.baseline.scope import fitting, words
from healthcheck.facts.values import Fact, Unmeasured
from healthcheck.kernellog.masking import templates
from healthcheck.kernellog.model import Baseline, CatalogueEntry, KernelEventKind, KernelMessage, Scope
from healthcheck.model.outcome import Origin

KERNEL_CATALOGUE = "kernel_catalogue"
KERNEL_BASELINE = "kernel_baseline"

_MOST_REMEMBERED = 100_000


@dataclass(frozen=True)
class KernelRules:
    """The catalogue and every baseline of the rules folders; `chosen` overrides the choice for all nodes."""

    catalogue: Catalogue
    baselines: tuple[Baseline, ...] = ()
    chosen: Baseline | None = None


class KernelCatalogue(Fact):
    """The catalogue. All lines of a template match an entry or none does: each is looked up once (without
    that cache a log costs six times as much)."""

    name: str
    catalogue: Catalogue

    @cached_property
    def by_template(self) -> dict[str, CatalogueEntry | None]:
        """The entries that were looked up so far."""
        return {}

    @cached_property
    def _newest(self) -> list[tuple[frozenset[str], Mapping[str, CatalogueEntry]]]:
        return []

    def entries(self, templates: frozenset[str]) -> Mapping[str, CatalogueEntry] | None:
        """By template the entries that know it; None if a template is new and a line must be looked up."""
        if self._newest and self._newest[0][0] is templates:
            return self._newest[0][1]
        if not self.by_template.keys() >= templates:
            return None
        found = {template: entry for template in templates
                 if (entry := self.by_template[template]) is not None}
        self._newest[:] = [(templates, found)]
        return found

    def entry(self, message: KernelMessage) -> CatalogueEntry | None:
        """The entry that knows this event's head, or of its other lines' a worse one, or one to which the
        head's yields."""
        found = self._entry_of(message.template, message.head)
        if message.kind is KernelEventKind.LINE:
            return found

        def rank(entry: CatalogueEntry) -> tuple[int, bool]:
            return WORST_FIRST.index(entry.severity), found is None or entry.id not in found.yields

        texts = [line.text for line in message.lines]
        known = [entry for template, text in zip(templates(texts), texts, strict=True)
                 if (entry := self._entry_of(template, text)) is not None]
        worst = min(known, key=rank, default=None)
        return worst if worst is not None and (found is None or rank(worst) < rank(found)) else found

    def emitter(self, entry: CatalogueEntry, message: KernelMessage) -> str:
        """The emitter of the message that the entry knows; empty if each SUBSYSTEM= is of another."""
        found = ((line, self.catalogue.emitter(entry, line.text)) for line in message.lines)
        return next((emitter.id for line, emitter in found if emitter is not None
                     and emitter.agrees(line.subsystem)), "")

    def fault(self, message: KernelMessage) -> bool:
        """Whether it is a known fault that healthy machines do not write: no baseline can accept it."""
        entry = self.entry(message)
        return entry is not None and not entry.ordinary

    def _entry_of(self, template: str, text: str) -> CatalogueEntry | None:
        try:
            return self.by_template[template]
        except KeyError:
            if len(self.by_template) >= _MOST_REMEMBERED:
                self.by_template.clear()
            found = self.by_template[template] = self.catalogue.find(text)
            return found


class KernelBaseline(Fact):
    """The baseline that fits a node; without one `there` is false and `baseline` unmeasured (ours). `exact`:
    it is of this very kernel, driver and firmware. Otherwise `why` names what differs or is missing."""

    name: str
    there: bool
    exact: bool
    why: str
    baseline: Baseline


def baseline_for(rules: KernelRules, scope: Scope) -> KernelBaseline:
    """The baseline for a node of this scope."""
    given = rules.chosen
    fit = (fitting(rules.baselines, scope) if given is None
           else fitting([given], replace(scope, sku=given.scope.sku)))
    if given is not None and fit.baseline is None:
        why = f"judged by the baseline {given.name}, which is for {words(given.scope)}"
        return KernelBaseline("kernel log", True, False, why, given)
    if fit.baseline is not None:
        return KernelBaseline("kernel log", True, fit.exact, fit.why, fit.baseline)
    why = f"{fit.why}, so what is new is not judged (muster baseline learn)"
    missing: Any = Unmeasured(why, Origin.MUSTER)
    return KernelBaseline("kernel log", False, False, fit.why, missing)
