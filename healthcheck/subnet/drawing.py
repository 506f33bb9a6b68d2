"""A fabric as a drawing for Graphviz (graphviz.org/doc/info/lang.html): tiers as ranks, racks in words, links
by state: by colour, the form of the line and a word. Parallel cables are one line with their number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, Tier
from healthcheck.subnet.linkstates import SHOWN_STATES, CableState

_FORMS = {
    CableState.AS_PLANNED: ("#1a7f37", "solid"),
    CableState.PLANNED: ("#57606a", "solid"),
    CableState.WRONG: ("#9a6700", "dashed"),
    CableState.DEGRADED: ("#bc4c00", "bold"),
    CableState.MISSING: ("#cf222e", "dotted"),
    CableState.UNKNOWN: ("#8250df", "dotted"),
}
_TIERS = (Tier.CORE, Tier.SPINE, Tier.LEAF, Tier.HOST)


def dot(plan: CablingPlan, states: Mapping[PlannedCable, CableState]) -> str:
    """The drawing; a cable that `states` does not have was only planned."""
    lines = ["graph fabric {", "  rankdir=TB; ranksep=1.2; splines=line;",
             '  node [shape=box, fontname="sans-serif"];', '  edge [fontname="sans-serif", fontsize=9];']
    by_tier: dict[Tier, list[str]] = defaultdict(list)
    for device in plan.devices.values():
        by_tier[device.tier].append(device.name)
        label = f"{device.name}\n{device.rack}" if device.rack else device.name
        lines.append(f"  {_quoted(device.name)} [label={_quoted(label)}];")
    for tier in _TIERS:
        if by_tier[tier]:
            lines.append(f"  {{ rank=same; {'; '.join(map(_quoted, by_tier[tier]))}; }}")
    between: dict[tuple[str, str], Counter[CableState]] = defaultdict(Counter)
    for cable in plan.cables:
        between[cable.b.device, cable.a.device][states.get(cable, CableState.PLANNED)] += 1
    for (upper, lower), counts in between.items():
        for state in SHOWN_STATES:
            if counts[state]:
                lines.append(f"  {_quoted(upper)} -- {_quoted(lower)} [{_form(state, counts[state])}];")
    return "\n".join([*lines, "}"]) + "\n"


def _form(state: CableState, count: int) -> str:
    colour, style = _FORMS[state]
    word = "" if state in (CableState.AS_PLANNED, CableState.PLANNED) else state.value
    label = " ".join(filter(None, (f"{count}x" if count > 1 else "", word)))
    return f'color="{colour}", style={style}' + (f", label={_quoted(label)}" if label else "")


def _quoted(text: str) -> str:
    """A string of the DOT language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
