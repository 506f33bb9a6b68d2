"""`muster explain RULE`: what a rule checks, why, how sure we are, and where it is from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from inventory.errors import UsageError

if TYPE_CHECKING:
    from healthcheck.rule import Rule


@click.command()
@click.argument("rule", required=False)
@click.option("--rules", metavar="DIR", help="A folder of site rules and SKUs that override the packaged ones by id.")
@click.option("--format", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
def explain(rule: str | None, rules: str | None, form: str) -> None:
    """Say what RULE checks, what it takes, what to do when it fails, and which file it is from. Without RULE, list all rules.

    \b
    muster explain gpu-ecc-uncorrected
    muster explain gpu-ecc-uncorrected --rules /etc/muster/rules
    """
    import difflib

    from healthcheck import rulesfolder
    from healthcheck.ruleset import load_ruleset

    ruleset = load_ruleset(rulesfolder.folders(rules))
    by_id = {known.id: known for known in ruleset.rules}
    if rule is None:
        if form == "json":
            click.echo(json.dumps([_document(known) for known in ruleset.rules], indent=1))
            return
        width = max(len(name) for name in by_id)
        for known in ruleset.rules:
            click.echo(f"{known.id:<{width}}  {known.severity.value:<8}  {known.checked.summary.splitlines()[0]}")
        return
    if rule not in by_id:
        close = difflib.get_close_matches(rule, by_id, n=1)
        raise UsageError(f"no such rule: {rule!r}" + (f"; did you mean {close[0]!r}?" if close else "; `muster explain` lists all"))
    click.echo(json.dumps(_document(by_id[rule]), indent=1) if form == "json" else _text(by_id[rule]))


def _document(rule: Rule) -> dict[str, Any]:
    from healthcheck.rule import Number

    return {
        "rule": rule.id, "check": rule.checked.name, "says": rule.checked.summary,
        "with": {k: f"${v.name}" if isinstance(v, Number) else v for k, v in rule.parameters.items()},
        "severity": rule.severity.value, "unsupported": rule.unsupported.value, "effect": rule.effect.value,
        "remedy": rule.remedy, "owner": rule.owner.value, "source": rule.source, "proven": rule.proven.value,
        "probes": [{"id": probe.id, "needs_root": probe.root} for probe in rule.probes],
        "facts": list(rule.checked.facts), "file": rule.origin_file, "overrides": list(rule.overridden),
        "left_out": rule.left_out,
    }


def _near(path: str) -> str:
    """The path as a person here would type it."""
    here = f"{Path.cwd()}/"
    return path.removeprefix(here)


def _text(rule: Rule) -> str:
    document = _document(rule)
    first, _, rest = document["says"].partition("\n")
    lines = [f"{rule.id}  ({rule.severity.value}, {rule.effect.value})", "", f"  {first}"]
    lines += [f"  {line}" for line in rest.strip().splitlines()] if rest.strip() else []
    lines.append("")
    rows = {
        "check": rule.checked.name + (" (compares the nodes of one SKU)" if rule.checked.fleet else ""),
        "with": ", ".join(f"{k}: {v if isinstance(v, str) else json.dumps(v)}" for k, v in document["with"].items()) or "nothing",
        "remedy": rule.remedy, "owner": rule.owner.value, "source": rule.source, "proven": rule.proven.value,
        "unsupported": f"{rule.unsupported.value} where the device has no such thing",
        "reads": ", ".join(p["id"] + (" (may need root)" if p["needs_root"] else "") for p in document["probes"]) or "the inventory",
        "file": _near(rule.origin_file) + (f", which overrides {', '.join(map(_near, rule.overridden))}" if rule.overridden else ""),
    }
    if rule.left_out:
        rows["state"] = rule.left_out
    return "\n".join([*lines, *(f"  {key:<12}{value}" for key, value in rows.items())])
