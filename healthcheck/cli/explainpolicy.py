"""`muster explain policy`: how triage treats each problem, the numbers that it uses, and their files."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import click

from healthcheck.cli import formerids
from healthcheck.cli.wrapping import echo
from healthcheck.config.entry import nearest
from healthcheck.report import policy as report
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.triage.policyload import load_with_origins
from inventory.errors import UsageError
from inventory.text import short


def explain_policy(name: str | None, folders: Sequence[Path], ruleset: Ruleset, fmt: str) -> None:
    """Prints one fault, the faults of one rule's problems, or all without a name;
    raises UsageError for an unknown name."""
    loaded = load_with_origins(folders, ruleset)
    rules = ruleset.rules
    if name is None:
        if fmt == "json":
            click.echo(json.dumps(report.document(loaded, rules), indent=1))
        else:
            echo(report.text(loaded, rules))
        return
    kind = next((kind for kind in loaded.policy.kinds if kind.id == name), None)
    rule = next((rule for rule in rules if name in (rule.id, *rule.formerly)), None)
    if kind is None:
        formerids.report([name], ruleset.former)
    if name in loaded.out and rule is None:
        raise UsageError(f"{name} is disabled by {loaded.out[name]}")
    if kind is None and rule is None:
        hint = nearest(name, [*(kind.id for kind in loaded.policy.kinds), *(rule.id for rule in rules)])
        raise UsageError(
            f"no such fault or rule: {short(name)}{hint or '; `muster explain policy` lists the faults'}")
    if fmt == "json":
        # A fault and a rule may have the same name.
        found = report.fault_document(loaded, kind, rules) if kind is not None else {}
        found |= {"as_rule": report.rule_document(loaded, rule)} if rule is not None else {}
        click.echo(json.dumps({"schema": "muster.policy/1", "digest": report.digest(loaded.policy), **found},
                              indent=1))
        return
    texts = [report.fault_text(loaded, kind, rules)] if kind is not None else []
    texts += [report.rule_text(loaded, rule)] if rule is not None else []
    echo("\n\nThe rule of that name:\n\n".join(texts))
