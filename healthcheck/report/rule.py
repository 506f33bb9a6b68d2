"""One rule as a document and as text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from healthcheck.ruleset.rule import Number, Rule


def document(rule: Rule) -> dict[str, Any]:
    """All of the rule, for programs."""
    return {
        "rule": rule.id, "check": rule.check, "says": rule.checked.summary,
        "with": {k: f"${v.name}" if isinstance(v, Number) else v for k, v in rule.parameters.items()},
        "severity": rule.severity.value, "unsupported": rule.unsupported.value, "effect": rule.effect.value,
        "remedy": rule.remedy, "repair": rule.repair.value if rule.repair is not None else None,
        "owner": rule.owner.value, "source": rule.source, "proven": rule.proven.value,
        "probes": [{"id": probe.id, "needs_root": probe.root} for probe in rule.probes],
        "facts": list(rule.checked.facts), "file": rule.origin_file, "overrides": list(rule.overridden),
        "left_out": rule.left_out,
    }


def _near(path: str) -> str:
    """The path relative to the current folder."""
    here = f"{Path.cwd()}/"
    return path.removeprefix(here)


def text(rule: Rule) -> str:
    """What it checks, why, the remedy, and its file."""
    known = document(rule)
    first, _, rest = known["says"].partition("\n")
    lines = [f"{rule.id}  ({rule.severity.value}, {rule.effect.value})", "", f"  {first}"]
    lines += [f"  {line}" for line in rest.strip().splitlines()] if rest.strip() else []
    lines.append("")
    rows = {
        "check": rule.check + (" (compares the nodes of one SKU)" if rule.checked.fleet else ""),
        "with": ", ".join(f"{k}: {v if isinstance(v, str) else json.dumps(v)}"
                          for k, v in known["with"].items()) or "nothing",
        "remedy": rule.remedy, **({"repair": rule.repair.value} if rule.repair is not None else {}),
        "owner": rule.owner.value, "source": rule.source, "proven": rule.proven.value,
        "unsupported": f"{rule.unsupported.value} if the device does not support it",
        "reads": ", ".join(p["id"] + (" (may need root)" if p["needs_root"] else "") for p in known["probes"])
        or "the inventory",
        "file": _near(rule.origin_file) + (f", which overrides {', '.join(map(_near, rule.overridden))}"
                                           if rule.overridden else ""),
    }
    if rule.left_out:
        rows["state"] = rule.left_out
    return "\n".join([*lines, *(f"  {key:<12}{value}" for key, value in rows.items())])
