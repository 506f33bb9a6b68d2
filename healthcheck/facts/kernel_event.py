"""The events of the kernel's log: its lines by template, and reports of several lines as one.

They come from the records of `healthcheck.facts.kernel`; the lines of a saved log are made records first.
"""

from __future__ import annotations

from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.host import UPTIME, VERSIONS, running
from healthcheck.facts.kernel import LOG, KernelLog, Records, kernel_log
from healthcheck.facts.values import Fact, Unmeasured, Unread, parted, partial_if
from healthcheck.facts.xid import Reset, resets
from healthcheck.kernellog.fold import LazyDigest
from healthcheck.kernellog.model import Scope


class KernelEvents(Fact):
    """One boot's log, folded on demand. `newest` is the time of the snapshot in seconds since boot, `now` the
    same where the node's uptime was measured, else 0. `whole`: the log begins with the boot, and nothing of
    it is lost.

    `templates` are those of its lines. They are `alone` where no line belongs to a report of several lines:
    then each event is a line, and checks decide by template whether `digest` has to be read at all.

    `earlier` are the records that earlier snapshots of this boot passed on; None where there are none. They
    are few and chosen, so checks search them for known faults only. `resets` and `whole_since` as of Xids.
    """

    name: str
    digest: LazyDigest
    newest: float
    whole: bool
    templates: frozenset[str]
    alone: bool
    now: float
    earlier: LazyDigest | None
    resets: tuple[Reset, ...]
    whole_since: float
    caveat: str

    def age_hours(self, seconds: float) -> float:
        """As of a KernelLog."""
        return (self.newest - max(seconds, self.whole_since)) / 3600


@fact("kernel_events", LOG, besides=(UPTIME, VERSIONS))
def kernel_events(captures: Captures) -> Any:
    """The kernel's log, as far as it could be read."""
    found = captures.once(kernel_log)
    if isinstance(found, Unmeasured):
        return found
    log: KernelLog
    log, lacking = parted(found)
    records = log.records()
    folding = LazyDigest(records, records.texts)
    _place(folding, captures)
    before = Records(log.earlier) if log.earlier else None
    events = KernelEvents(
        name="kernel log",
        digest=folding,
        newest=log.newest,
        whole=not log.caveat and not lacking,
        templates=folding.templates,
        alone=folding.single_lines,
        caveat=log.caveat,
        now=log.newest if log.uptime else 0.0,
        earlier=LazyDigest(before, before.texts) if before is not None else None,
        resets=resets(log),
        whole_since=log.carried.seconds,
    )
    return partial_if(events, lacking)


def _place(folding: LazyDigest, captures: Captures) -> None:
    """Adds the running kernel and driver, where the lines that name them are lost from the log."""
    scope = folding.scope
    if scope.kernel and scope.driver:
        return
    try:
        kernel, driver = (value if isinstance(value, str) else "" for value in running(captures))
    except Unread:
        return
    folding.scope = Scope(scope.sku, scope.kernel or kernel, scope.driver or driver, scope.firmware)
