"""Ids that rules had before, typed by a person: they mean the rule that there is, and a line on standard error says what it is called."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from healthcheck.config.formernames import renamed, with_current_names


def today(rule: str, former: Mapping[str, str]) -> str:
    """The id that the rule of this id has now."""
    report([rule], former)
    return former.get(rule, rule)


def expanded(globs: Iterable[str], former: Mapping[str, str]) -> tuple[str, ...]:
    """The globs, and what they match by a former id alone."""
    globs = tuple(globs)
    report(globs, former)
    return with_current_names(globs, former)


def report(globs: Iterable[str], former: Mapping[str, str]) -> None:
    """Says of each former id that one of the globs matches what the rule is called now."""
    for line in renamed(globs, former):
        click.echo(f"muster: {line}", err=True)
