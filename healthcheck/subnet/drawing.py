"""A fabric as a drawing for Graphviz (graphviz.org/doc/info/lang.html): tiers as ranks, racks in words, links
by state: by colour, the form of the line and a word. Parallel cables are one line with their number."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping

from healthcheck.subnet.cabling import CablingPlan, PlannedCable, Tier
from healthcheck.subnet.linkstates import SHOWN_STATES, LinkLook

_FORMS = {
    LinkLook.AS_PLANNED: ("#1a7f37", "solid"),
    LinkLook.PLANNED: ("#57606a", "solid"),
    LinkLook.WRONG: ("#9a6700", "dashed"),
    LinkLook.DEGRADED: ("#bc4c00", "bold"),
    LinkLook.MISSING: ("#cf222e", "dotted"),
    LinkLook.UNKNOWN: ("#8250df", "dotted"),
}
_TIERS = (Tier.CORE, Tier.SPINE, Tier.LEAF, Tier.HOST)


def dot(plan: CablingPlan, states: Mapping[PlannedCable, LinkLook]) -> str:
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
    between: dict[tuple[str, str], Counter[LinkLook]] = defaultdict(Counter)
    for cable in plan.cables:
        between[cable.b.device, cable.a.device][states.get(cable, LinkLook.PLANNED)] += 1
    for (upper, lower), looks in between.items():
        for look in SHOWN_STATES:
            if looks[look]:
                lines.append(f"  {_quoted(upper)} -- {_quoted(lower)} [{_form(look, looks[look])}];")
    return "\n".join([*lines, "}"]) + "\n"


def _form(look: LinkLook, count: int) -> str:
    colour, style = _FORMS[look]
    word = "" if look in (LinkLook.AS_PLANNED, LinkLook.PLANNED) else look.value
    label = " ".join(filter(None, (f"{count}x" if count > 1 else "", word)))
    return f'color="{colour}", style={style}' + (f", label={_quoted(label)}" if label else "")


def _quoted(text: str) -> str:
    """A string of the DOT language."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
