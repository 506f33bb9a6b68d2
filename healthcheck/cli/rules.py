"""`muster rules`: lists rules, those of a profile, and shows one for nodes of a SKU."""

from __future__ import annotations

import json
import shutil
import sys
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import click

from healthcheck.cli import completing, formerids
from healthcheck.cli.options import RULES, check_sku
from healthcheck.cli.rulesnhc import import_nhc
from healthcheck.facts.plain import plain
from inventory.cli.formatted import formats
from inventory.errors import UsageError
from inventory.text import short

if TYPE_CHECKING:
    from healthcheck.ruleset.rule import Rule
    from healthcheck.ruleset.ruleset import Ruleset
    from healthcheck.ruleset.sku import Sku

_SEVERITIES = ("critical", "warning", "info")
_OWNERS = ("user", "operator", "network", "datacentre", "vendor")
_PROVEN = ("hardware", "authors-output", "documented", "simulated")
_COLUMNS = ("rule", "severity", "owner", "effect", "proven", "source")


@click.group()
def rules() -> None:
    """List rules, show one with the numbers of a SKU, or see what of an nhc.conf they cover.

    \b
    muster rules list --profile gate
    muster rules show gpu-count --sku hgx-h100
    muster rules import-nhc /etc/nhc/nhc.conf
    """


@rules.command("list")
@click.argument("glob", required=False, shell_complete=completing.rule)
@click.option("--profile", metavar="NAME", multiple=True, shell_complete=completing.profile,
              help="Only rules of this profile; with several, rules of all of them.")
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="Only rules that apply to nodes of this SKU.")
@click.option("--severity", type=click.Choice(_SEVERITIES), help="Only rules of this severity.")
@click.option("--owner", type=click.Choice(_OWNERS), help="Only rules whose failures this owner repairs.")
@click.option("--proven", type=click.Choice(_PROVEN), help="Only rules with this kind of proof.")
@RULES
@formats()
def listed(
    glob: str | None, profile: tuple[str, ...], sku: str | None, severity: str | None, owner: str | None,
    proven: str | None, rules: str | None, fmt: str,
) -> None:
    """List the rules whose ids match GLOB (default: all), one line each.
    Rules that only a profile enables are marked.

    \b
    muster rules list
    muster rules list 'gpu-*' --severity critical
    muster rules list --profile timer --owner datacentre --format json | jq -r '.[].rule'
    """
    from healthcheck.ruleset.ruleset import ruleset_of

    ruleset = ruleset_of(rules)
    kind = _sku(ruleset, sku)
    globs = formerids.expanded((glob,) if glob is not None else ("*",), ruleset.former)
    found = [
        rule for rule in ruleset.under(*profile)
        if any(fnmatchcase(rule.id, each) for each in globs) and not (profile and rule.left_out)
        and (kind is None or _judged(rule, kind)) and severity in (None, rule.severity.value)
        and owner in (None, rule.owner.value) and proven in (None, rule.proven.value)
    ]
    if fmt == "json":
        from healthcheck.report.rule import document

        click.echo(json.dumps([document(rule) for rule in found], indent=1))
        return
    if not found:
        click.echo("muster: no rule matches", err=True)
        return
    rows = [_COLUMNS, *(
        (rule.id, rule.severity.value, rule.owner.value, rule.effect.value, rule.proven.value,
         ("(disabled) " if rule.left_out else "") + rule.source) for rule in found
    )]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_COLUMNS) - 1)]
    room = shutil.get_terminal_size((140, 24)).columns if sys.stdout.isatty() else 140
    for row in rows:
        line = "  ".join(f"{cell:<{width}}" for cell, width in zip(row, widths, strict=False)) + "  "
        click.echo(line + _cut(row[-1], max(20, room - len(line))))


@rules.command()
@click.argument("rule", shell_complete=completing.rule)
@click.option("--sku", metavar="NAME", shell_complete=completing.sku,
              help="Fill in the numbers of this SKU.")
@RULES
@formats()
def show(rule: str, sku: str | None, rules: str | None, fmt: str) -> None:
    """Show what `muster explain RULE` shows, its profiles, and with --sku its numbers.

    \b
    muster rules show gpu-count --sku hgx-h100
    """
    from healthcheck.report.rule import document, text
    from healthcheck.ruleset.ruleset import ruleset_of

    ruleset = ruleset_of(rules)
    rule = formerids.today(rule, ruleset.former)
    kind, found = _sku(ruleset, sku), _find(ruleset, rule)
    profiles = [name for name in sorted(ruleset.profiles)
                if not {r.id: r for r in ruleset.under(name)}[rule].left_out]
    if fmt == "json":
        more = {"sku": kind.name, "values": _values(found, kind)} if kind is not None else {}
        click.echo(json.dumps({**document(found), "profiles": profiles, **more}, indent=1))
        return
    click.echo(text(found))
    click.echo(f"  {'profiles':<12}{', '.join(profiles) or 'none'}")
    if kind is not None:
        click.echo(f"  {'on ' + kind.name:<11} {_on(found, kind)}")


rules.add_command(import_nhc)


def _find(ruleset: Ruleset, name: str) -> Rule:
    known = {rule.id: rule for rule in ruleset.rules}
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f"; did you mean {close[0]!r}?" if close else "; `muster rules list` names them"
        raise UsageError(f"no such rule: {short(name)}{hint}")
    return known[name]


def _sku(ruleset: Ruleset, name: str | None) -> Sku | None:
    check_sku(name, ruleset)
    return None if name is None else ruleset.skus[name]


def _judged(rule: Rule, sku: Sku) -> bool:
    """Whether the rule applies to nodes of the SKU:
    not if the SKU declines a number or has nothing to judge."""
    return not any(map(sku.declines, rule.needed)) and not set(rule.fact_names) & sku.empty


def _values(rule: Rule, sku: Sku) -> dict[str, Any]:
    """The parameters with the SKU's numbers; null for a missing one."""
    from healthcheck.ruleset.rule import Number

    return {key: sku.numbers.get(value.name) if isinstance(value, Number) else value
            for key, value in rule.parameters.items()}


def _on(rule: Rule, sku: Sku) -> str:
    nothing = sorted(set(rule.fact_names) & sku.empty)
    if nothing:
        return f"not judged: there are no {', '.join(map(plain, nothing))}"
    for number in rule.needed:
        if sku.declines(number):
            return f"not judged: the SKU declines {number}"
        if number not in sku.numbers:
            return f"unknown: the SKU gives no {number}"
    values = {key: value if isinstance(value, str) else json.dumps(value)
              for key, value in _values(rule, sku).items()}
    return ", ".join(f"{key}: {value}" for key, value in values.items()) or "judged"


def _cut(text: str, room: int) -> str:
    return text if len(text) <= room else text[: room - 3].rstrip() + "..."
