"""Former ids of rules, as typed by a user: they still work, and a line on standard error gives the new id."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import click

from healthcheck.config.formernames import renamed, with_current_names


def today(rule: str, former: Mapping[str, str]) -> str:
    """The current id of the rule with this id."""
    report([rule], former)
    return former.get(rule, rule)


def expanded(globs: Iterable[str], former: Mapping[str, str]) -> tuple[str, ...]:
    """The globs, and the current ids of what they match only by a former id."""
    globs = tuple(globs)
    report(globs, former)
    return with_current_names(globs, former)


def with_packaged(globs: Iterable[str]) -> tuple[str, ...]:
    """The same, by the rules of this machine."""
    from healthcheck.ruleset.ruleset import ruleset_of

    globs = tuple(globs)
    return expanded(globs, ruleset_of(None).former) if globs else ()


def report(globs: Iterable[str], former: Mapping[str, str]) -> None:
    """Prints the current id for each former id that a glob matches."""
    for line in renamed(globs, former):
        click.echo(f"muster: {line}", err=True)
