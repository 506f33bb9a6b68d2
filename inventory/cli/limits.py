"""Options of all commands that reach nodes over SSH: --limit and --fanout, and the line with the deadline."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from inventory.limits import EXPECTED, STAGES, seconds
from inventory.model import Node, StageLimits
from inventory.nodeset import did_you_mean
from inventory.text import short

if TYPE_CHECKING:
    from inventory.transport.base import Limits

_META = "muster.limits"
_USUAL = {"connect": "10s", "auth": "20s", "login": "15s", "node": "45s"}


def _given(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> StageLimits:
    found = StageLimits()
    for text in value:
        stage, _, span = text.partition("=")
        if stage not in STAGES:
            raise click.BadParameter(
                f"{short(text)}: expected STAGE=SPAN with one of {', '.join(STAGES)}"
                f"{did_you_mean(stage, STAGES)}", ctx, param)
        try:
            found = StageLimits(**{stage: seconds(span)}).over(found)
        except ValueError:
            raise click.BadParameter(f"{short(text)}: expected {EXPECTED}", ctx, param) from None
    ctx.meta[_META] = found
    return found


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    """For shell completion: the stages, with the usual limit once one is named."""
    if "=" not in incomplete:
        return [f"{stage}=" for stage in STAGES if stage.startswith(incomplete)]
    return [text for stage in STAGES if (text := f"{stage}={_USUAL[stage]}").startswith(incomplete)]


def _wide(ctx: click.Context, param: click.Parameter, value: int | None) -> int:
    from inventory.transport.deadline import width

    return width() if value is None else value


LIMIT = click.option("--limit", metavar="STAGE=SPAN", multiple=True, expose_value=False, callback=_given,
                     shell_complete=_complete,
                     help="Time for a stage, over the inventory's `limits`: connect, auth, login or node, as "
                          "login=60s; repeatable. [connect=10s auth=20s login=15s node=45s]")
FANOUT = click.option("--fanout", metavar="N", type=click.IntRange(1, 1024), callback=_wide,
                      help="Nodes at a time, of which at most 8 per core log in at once. [32 per core, 64 to "
                           "256]")


def given() -> StageLimits:
    """What --limit of the running command says."""
    ctx = click.get_current_context(silent=True)
    found = ctx.meta.get(_META) if ctx is not None else None
    return found if isinstance(found, StageLimits) else StageLimits()


def announce(nodes: Sequence[Node], limits: Limits, timeout: float | None) -> None:
    """Says on standard error how wide a run is and when it ends; for `timeout` see `deadline.announced`."""
    from inventory.transport.deadline import announced

    click.echo(f"muster: {announced(len(nodes), limits, timeout)}", err=True)
