"""What a dry run found: each machine's first failing step and its change; equal ones share a line."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace

from healthcheck.model.trouble import Trouble
from healthcheck.report.findings import Fold
from healthcheck.report.nodes import Paint
from healthcheck.store.bringupnotes import DONE, LEFT, SKIPPED, SO, TROUBLE, WAITING
from inventory.nodeset import natural
from inventory.text import clean, many
from provisioning.bringup.engine.model import ORDER, StepEffect
from provisioning.bringup.engine.site import RunEvent
from provisioning.bringup.pages.masked import masked, named

UNKNOWN, OPERATION, REFUSED = "unknown", "operation", "refused"
_WORDS = {
    TROUBLE: "in trouble", REFUSED: "not checked", UNKNOWN: "not measured", OPERATION: "would change",
    WAITING: "waits", DONE: "through", LEFT: "refused", SO: "so as far as was asked"}
_ORDER = tuple(_WORDS)
_MOST = 40              # lines of one diff
_MAX_TEXT = 200


@dataclass(frozen=True)
class First:
    """Where a machine's way ends for now: its stand in which step, what was seen, what would be done."""

    stand: str
    step: str
    message: str = ""
    name: str = ""
    change: tuple[str, ...] = ()
    disruptive: bool = False
    troubles: tuple[Trouble, ...] = ()


@dataclass
class DryRunResult:
    """What a dry run tells of each machine; one whose `firsts` is SO went as far as was asked."""

    firsts: dict[str, First]

    def on_event(self, event: RunEvent) -> bool:
        """One more event; says whether the machine's way ends here."""
        if not event.node:
            return False
        if event.stand in (SO, SKIPPED):
            self.firsts[event.node] = First(SO, event.step)
            return False
        operation, seen = event.operation, event.seen
        self.firsts[event.node] = First(
            event.stand, event.step, clean(event.message, _MAX_TEXT),
            clean(operation.name, 100) if operation is not None else "",
            tuple(clean(line, _MAX_TEXT) for line in operation.change) if operation is not None else (),
            operation is not None and operation.effect is StepEffect.DISRUPTIVE,
            seen.troubles if seen is not None and event.stand == TROUBLE else ())
        return True


def lines(firsts: Mapping[str, First], fold: Fold, paint: Paint) -> Iterator[str]:
    """The page: those whom someone has to see to first, then by step."""
    groups: dict[First, list[str]] = {}
    for node in sorted(firsts, key=natural):
        groups.setdefault(_general(firsts[node], node), []).append(node)
    for general, names in sorted(
        groups.items(), key=lambda pair: (_ORDER.index(pair[0].stand), _place(pair[0].step))):
        first = firsts[names[0]] if len(names) == 1 else replace(
            general,
            troubles=tuple(replace(one, hand=named(one.hand, names, fold)) for one in general.troubles))
        yield paint(f"{fold(names)}  {_text(first)}", first.stand)
        yield from (f"    {line}" for line in _under(first))
    counted = {stand: sum(first.stand == stand for first in firsts.values()) for stand in _ORDER}
    yield ""
    yield f"{many(len(firsts), 'machine')}, and nothing was written: " + (
        ", ".join(f"{number} {_WORDS[stand]}" for stand, number in counted.items() if number)
        or "no machine was checked")


def code(firsts: Mapping[str, First], nodes: Collection[str]) -> int:
    """0 nothing is wrong, 1 some machine is in trouble, 3 some machine was not measured or not checked."""
    stands = [firsts[node].stand if node in firsts else UNKNOWN for node in nodes]
    return 1 if TROUBLE in stands else 3 if {UNKNOWN, REFUSED, LEFT} & set(stands) else 0


def _general(first: First, node: str) -> First:
    """What is shown of a machine, such that it holds for all that are like it."""
    if first.stand in (SO, DONE):
        return First(first.stand, "")
    return replace(
        first, message=masked(first.message, node), change=tuple(masked(line, node) for line in first.change),
        troubles=tuple(
            replace(one, what=masked(one.what, node), hand=masked(one.hand, node)) for one in first.troubles))


def _text(first: First) -> str:
    if first.stand in (SO, DONE):
        return "all is so" if first.stand == DONE else "all is so, as far as was asked"
    what = f"{_WORDS[first.stand]}{', disruptive' if first.disruptive else ''}: "
    return f"{first.step}  {what}{first.name or first.message}".strip()


def _under(first: First) -> Iterator[str]:
    if first.name and first.message:
        yield f"now: {first.message}"
    yield from first.change[:_MOST]
    if len(first.change) > _MOST:
        yield f"and {len(first.change) - _MOST} lines more"
    for one in first.troubles:
        if one.what != first.message:
            yield clean(one.what, _MAX_TEXT)
        yield f"next: {clean(one.hand, _MAX_TEXT)} ({one.owner.value})"


def _place(step: str) -> int:
    return ORDER.index(step) if step in ORDER else len(ORDER)
