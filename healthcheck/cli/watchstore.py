"""Keeps what `muster watch --store` finds in the store, for triage, blame and the exporter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from healthcheck.cli.watchpage import sentence
from healthcheck.joblog.prefix import short
from healthcheck.store import watched
from healthcheck.store.file import opened
from healthcheck.watch.model import WatchFinding, WatchLevel
from inventory.errors import StoreError

if TYPE_CHECKING:
    from healthcheck.watch.watcher import JobWatch, WatchUpdate

_EVERY_S = 60.0     # between writes of what lasts unchanged; far below watched.FRESH_S
_MOST_NODES = 64    # of one finding


class WatchStore:
    """One job's findings. `nodes` gives the inventory's name of a host, by its short name."""

    def __init__(self, folder: Path, nodes: Mapping[str, str]) -> None:
        self._folder, self._nodes, self._written = folder, nodes, 0.0
        self.trouble = ""

    def keep(self, job: str, watch: JobWatch, update: WatchUpdate, now: float, *, last: bool = False) -> None:
        """Writes what is new, and from time to time what lasts; `last` ends all. A store that cannot be
        written is reported once, and watching goes on."""
        changed = {one.id: one for one in update.findings}
        if last or now - self._written >= _EVERY_S:
            changed |= {one.id: one for one in watch.findings.values() if one.still}
        if not changed or not job:
            return
        rows = [row for one in changed.values() for row in rows_of(job, one, self._nodes, now, over=last)]
        try:
            with opened(self._folder, make=True) as store:
                watched.write(store, rows)
            self._written = now
        except StoreError as error:
            if not self.trouble:
                self.trouble = f"what is found is not kept: {error}"
                click.echo(f"muster: {self.trouble}", err=True)


def rows_of(job: str, one: WatchFinding, nodes: Mapping[str, str], now: float, *,
            over: bool = False) -> Iterator[watched.WatchedNode]:
    """A finding by node; one row without a node for what is of the job, or of a place as a whole."""
    single = one.level in (WatchLevel.RANK, WatchLevel.HOST) or (one.hosts and one.pattern.name == "HANG")
    hosts = one.hosts[:_MOST_NODES] if single else ()
    names = [nodes.get(short(host), short(host)) for host in hosts] or [""]
    for name in dict.fromkeys(names):
        yield watched.WatchedNode(
            job, one.id, name, one.ranks[:8], one.pattern.name.lower(), one.verdict.cause.name.lower(),
            one.verdict.certainty.value, one.share, sentence(one), one.since, now,
            None if one.still and not over else min(now, max(one.since, one.last)))
