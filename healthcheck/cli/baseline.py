"""`muster baseline`: what healthy nodes say in their kernel log; its commands are loaded on use."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "check": ("healthcheck.cli.baselinecheck:check", "Judge a saved kernel log."),
    "learn": ("healthcheck.cli.baselinelearn:learn", "Propose a baseline from nodes, files or a saved sweep."),
    "review": ("healthcheck.cli.baselinereview:review", "Show what awaits approval, the worst first."),
    "approve": ("healthcheck.cli.baselineapprove:approve", "Accept what was proposed, one by one or by rule."),
    "diff": ("healthcheck.cli.baselinereview:diff", "Say how two baselines differ."),
    "show": ("healthcheck.cli.baselinereview:show", "Show a baseline."),
    "explain": ("healthcheck.cli.baselineexplain:explain", "Say what a baseline and the catalogue make of a line."),
}


@click.group(cls=LazyGroup, places=COMMANDS)
def baseline() -> None:
    """Learn what healthy nodes say in their kernel log, so that a line which none of them says is looked at.

    \b
    muster baseline learn 'gpu[001-064]' -o h100.yaml            sweep nodes that are well, and propose
    muster baseline review h100.yaml                             read what awaits approval
    muster baseline approve h100.yaml --seen-on 95% --boots 3 --why 'acceptance, November'
    cp h100.yaml /etc/muster/rules/baseline/                     from now on muster check judges by it
    dmesg | muster baseline check - --baseline h100.yaml         or judge a saved log

    The catalogue of known faults is judged first: a baseline can never hide one.
    """
