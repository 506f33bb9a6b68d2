"""Approves proposals one by one or by rule: known faults never, flagged ones only by name and --flagged."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

from healthcheck.baseline.flags import is_known_fault
from healthcheck.config.entry import nearest
from healthcheck.kernellog.masking import template
from healthcheck.kernellog.model import Baseline, KnownTemplate, Phase
from inventory.errors import UsageError
from inventory.text import short

_ID_LENGTH = 7


@dataclass(frozen=True)
class ApprovalRule:
    """The rule of bulk approval: a least share of nodes, a least number of boots, only these phases."""

    seen_on: float | None = None
    boots: int | None = None
    phases: tuple[Phase, ...] = ()

    @property
    def given(self) -> bool:
        """Whether there is a rule at all: without one nothing is approved in bulk."""
        return self.seen_on is not None or self.boots is not None or bool(self.phases)

    def takes(self, one: KnownTemplate, nodes: int) -> bool:
        """Whether this template of a baseline with so many nodes meets the rule."""
        return ((self.seen_on is None or one.nodes >= self.seen_on * nodes)
                and (self.boots is None or one.boots >= self.boots)
                and (not self.phases or set(one.phases) <= set(self.phases)))


@dataclass(frozen=True)
class ApprovalSelection:
    """What to approve, and what meets the rule but is held back by its flags."""

    approved: tuple[KnownTemplate, ...]
    held_back: tuple[KnownTemplate, ...] = ()


def short_id(template: str) -> str:
    """The name of a template on the command line; it depends on the template alone."""
    return hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_LENGTH]


def choose(
    baseline: Baseline, names: Sequence[str], rule: ApprovalRule, *, flagged: bool,
) -> ApprovalSelection:
    """The proposals that `names` (ids, lines, or beginnings of templates) mean and that meet the rule;
    without names all that do. The flags of `baseline` are freshly made. UsageError, and nothing approved, for
    an unknown name, a known fault, and a flagged one not named by itself with `flagged`."""
    if not names and not rule.given:
        raise UsageError(
            "which ones? give ids or beginnings of templates from `muster baseline review`, or a rule: "
            "--seen-on 95% --boots 3")
    if not names:
        if flagged:
            raise UsageError("--flagged needs single names: give the ids that `muster baseline review` shows")
        met = [one for one in baseline.proposed.values() if rule.takes(one, baseline.nodes)]
        return ApprovalSelection(tuple(one for one in met if not one.flags),
                                 tuple(one for one in met if one.flags))
    found: dict[str, KnownTemplate] = {}
    for name in names:
        for one in _find(baseline, name, flagged=flagged):
            if rule.takes(one, baseline.nodes):
                found[one.template] = one
    return ApprovalSelection(tuple(found.values()))


def _find(baseline: Baseline, name: str, *, flagged: bool) -> list[KnownTemplate]:
    by_id = [one for one in baseline.proposed.values() if short_id(one.template) == name]
    by_line = baseline.proposed.get(template(name))
    begins = [one for one in baseline.proposed.values() if name and one.template.startswith(name)]
    meant = by_id or ([by_line] if by_line is not None else begins)
    if not meant:
        raise UsageError(_not_found(baseline, name))
    for one in meant:
        named = f"{short_id(one.template)} {short(one.template)}"
        if is_known_fault(one.flags):
            raise UsageError(f"{named} is a {one.flags[0]} of the catalogue, and no baseline can accept one; "
                             f"`muster explain kernel {one.flags[0].rpartition(' ')[2]}` says why")
        if one.flags and not (flagged and len(meant) == 1):
            many = f"{short(name)} stands for {len(meant)} templates, of which " if len(meant) > 1 else ""
            raise UsageError(
                f"{many}{named} is flagged ({', '.join(one.flags)}): if it is harmless, name it by itself: "
                f"muster baseline approve {baseline.file} {short_id(one.template)} --flagged")
    return meant


def _not_found(baseline: Baseline, name: str) -> str:
    accepted = [text for text in baseline.known if short_id(text) == name or (name and text.startswith(name))]
    if accepted:
        return f"{short(name)}: approved already, by {short(baseline.known[accepted[0]].by)}"
    hint = (nearest(name, [one.template[:len(name) + 8] for one in baseline.proposed.values()])
            if len(name) > _ID_LENGTH else "")
    return (f"{short(name)}: no proposal has this id or begins so{hint}; "
            f"see: muster baseline review {baseline.file}")


def approve(baseline: Baseline, chosen: Sequence[KnownTemplate], by: str, why: str) -> Baseline:
    """The baseline in which these are known, with who approved them and why, and no longer proposed."""
    known = {**baseline.known, **{one.template: replace(one, by=by, why=why, flags=()) for one in chosen}}
    proposed = {text: one for text, one in baseline.proposed.items() if text not in known}
    return replace(baseline, known={text: known[text] for text in sorted(known)}, proposed=proposed)
