"""`muster triage --replay`: what a policy would have done with stored history. It writes nothing."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from pathlib import Path

    from healthcheck.triage.policy import TriagePolicy
    from inventory.model import Inventory


def reported(
    there: Inventory, policy: TriagePolicy, folder: Path, since: float, close_after: float | None, form: str,
) -> None:
    """Prints it for the nodes of the inventory, over so many seconds."""
    from healthcheck.replay.compare import compare
    from healthcheck.replay.record import read
    from healthcheck.replay.run import run
    from healthcheck.report import replay as report
    from healthcheck.store.file import opened
    from healthcheck.triage.gather import window

    now = time.time()
    with opened(folder) as store:
        record = read(store, policy.requalify.profile, now - since - window(policy))
    # What is older than the store is not there to be replayed.
    begin = max(now - since, record.sweeps.first - 1) if record.sweeps.first is not None else now
    found = compare(record, run(record, there, policy, begin, now, close_after), there.nodes, begin, now)
    if form == "json":
        click.echo(json.dumps(report.document(found), indent=1))
        return
    for line in report.text(found):
        click.echo(line)
