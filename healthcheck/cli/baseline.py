"""`muster baseline`: the kernel log lines of healthy nodes; commands load on use."""

from __future__ import annotations

import click

from inventory.cli.lazy import LazyGroup

COMMANDS = {
    "check": ("healthcheck.cli.baselinecheck:check", "Judge a saved kernel log."),
    "learn": ("healthcheck.cli.baselinelearn:learn",
              "Propose a baseline from nodes, files or a saved sweep."),
    "review": ("healthcheck.cli.baselinereview:review", "Show templates that await approval, worst first."),
    "approve": ("healthcheck.cli.baselineapprove:approve",
                "Approve proposed templates, one by one or by rule."),
    "diff": ("healthcheck.cli.baselinereview:diff", "Show how two baselines differ."),
    "show": ("healthcheck.cli.baselinereview:show", "Show a baseline."),
    "explain": ("healthcheck.cli.baselineexplain:explain", "Explain how one kernel log line is judged."),
}


@click.group(cls=LazyGroup, places=COMMANDS)
def baseline() -> None:
    """Learn the kernel log lines of healthy nodes, so that checks report lines that none of them has.

    \b
    muster baseline learn 'gpu[001-064]' -o h100.yaml            sweep healthy nodes and propose a baseline
    muster baseline review h100.yaml                             list what awaits approval
    muster baseline approve h100.yaml --seen-on 95% --boots 3 --reason 'acceptance, November'
    cp h100.yaml /etc/muster/rules/baseline/                     muster check uses it from now on
    dmesg | muster baseline check - --baseline h100.yaml         or judge a saved log

    The catalogue of known faults comes first: a baseline cannot hide one.
    """
