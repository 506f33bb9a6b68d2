"""What is proposed for the inventory, for people and as JSON (muster.labels/1), and how the command ends."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from inventory.text import clean, many
from provisioning.discover.labels import LabelEvidence, LabelProposal, LabelState

SCHEMA = "muster.labels/1"
_MARKS = {LabelState.NEW: "+", LabelState.CONFLICT: "!", LabelState.UNCLEAR: "?", LabelState.SAME: " "}


@dataclass(frozen=True)
class FoundLabels:
    """The evidence and what it comes to; `source` is the inventory, in which it is once `applied`."""

    source: str
    evidence: tuple[LabelEvidence, ...]
    proposals: tuple[LabelProposal, ...]
    applied: bool = False

    def of(self, state: LabelState) -> list[LabelProposal]:
        """Those in a state."""
        return [one for one in self.proposals if one.state is state]

    @property
    def unread(self) -> list[tuple[str, str]]:
        """Which node could not be read, and why."""
        return [(one.node, line) for one in self.evidence for line in one.unread]

    @property
    def exit_code(self) -> int:
        """1 something is new, or differs; else 3 something was not read or is unclear; else 0."""
        if self.of(LabelState.CONFLICT) or (self.of(LabelState.NEW) and not self.applied):
            return 1
        return 3 if self.unread or self.of(LabelState.UNCLEAR) else 0


def text(found: FoundLabels) -> Iterator[str]:
    """The page, a line at a time; what is as it is, is counted."""
    shown = [one for one in found.proposals if one.state is not LabelState.SAME]
    for node in dict.fromkeys(one.node for one in shown):
        yield f"{node}:"
        for one in shown:
            if one.node == node:
                yield f"  {_MARKS[one.state]} {one.key}: {_value(one)}"
                yield f"      {clean(one.why, 300)}"
    for node, line in found.unread:
        yield f"{node}: not read: {clean(line, 300)}"
    counts = [f"{len(found.of(state))} {state.value}" for state in LabelState if found.of(state)]
    yield f"{many(len(found.evidence), 'node')}: {', '.join(counts) or 'nothing found'}"
    if found.of(LabelState.CONFLICT):
        yield "What differs (!) is left as the inventory has it: correct the one that is wrong."


def document(found: FoundLabels) -> dict[str, Any]:
    """The same, as JSON has it."""
    return {
        "schema": SCHEMA, "source": found.source, "applied": found.applied, "exit": found.exit_code,
        "proposals": [{"node": one.node, "key": one.key, "value": list(one.value), "has": list(one.has),
                       "state": one.state.value, "why": one.why} for one in found.proposals],
        "nodes": [{"node": one.node, "source": one.source, "unread": list(one.unread), "neighbours": [
            {"interface": other.interface, "pci": one.pci.get(other.interface), "system": other.system,
             "chassis": other.chassis, "port": other.port, "switch": other.switches}
            for other in one.neighbours]} for one in found.evidence]}


def _value(one: LabelProposal) -> str:
    said, has = _joined(one.value), _joined(one.has)
    if one.state is LabelState.CONFLICT:
        return f"{said}, the inventory says {has}"
    if one.state is LabelState.UNCLEAR:
        return f"unclear{f', the inventory says {has}' if has else ''}"
    return said


def _joined(values: Sequence[str]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]" if values else ""
