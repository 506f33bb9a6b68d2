"""The events of the kernel's log: its lines by template, reports of many lines as one, and what the log says of itself.

Made of the same records as `healthcheck.facts.kernel`; a saved log is judged the same way, its lines having been made records.
"""

from __future__ import annotations

from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.host import UPTIME, VERSIONS, running
from healthcheck.facts.kernel import LOG, KernelLog, Records, kernel_log
from healthcheck.facts.values import Fact, Partial, Unmeasured, Unread
from healthcheck.kernellog.fold import LazyDigest
from healthcheck.kernellog.model import Scope


class KernelEvents(Fact):
    """One boot's log, to be folded. `newest` is the time of the look in seconds since boot, and `now` the same where the node's uptime was
    measured, else 0; `whole` says that the log begins where the boot
    does, and that nothing of it is gone.

    `templates` are those of its lines. They are `alone` where no line is of a form that reports of many lines have: then each event is a
    line, and what is known of the templates is known of the events. Many nodes say the same, each at times and with numbers of its own:
    who reads `digest` only for a template that matters says the same of all of them.

    `earlier` are the records that earlier snapshots of this boot handed on; None where there are none. Only known faults are looked for in
    them, and a baseline never: they are few, and chosen. `whole_since` as of Xids.
    """

    name: str
    digest: LazyDigest
    newest: float
    whole: bool
    templates: frozenset[str]
    alone: bool
    now: float
    earlier: LazyDigest | None
    whole_since: float
    caveat: str

    def age_hours(self, seconds: float) -> float:
        """As of a KernelLog."""
        return (self.newest - max(seconds, self.whole_since)) / 3600


@fact("kernel_events", LOG, besides=(UPTIME, VERSIONS))
def kernel_events(captures: Captures) -> Any:
    """What the kernel's log holds, as far as it could be read."""
    found = captures.once(kernel_log)
    if isinstance(found, Unmeasured):
        return found
    log: KernelLog = found.value if isinstance(found, Partial) else found
    records = log.records()
    folding = LazyDigest(records, records.texts)
    _place(folding, captures)
    whole = not log.caveat and not isinstance(found, Partial)
    before = Records(log.earlier) if log.earlier else None
    events = KernelEvents(
        name="kernel log",
        digest=folding,
        newest=log.newest,
        whole=whole,
        templates=folding.templates,
        alone=folding.single_lines,
        caveat=log.caveat,
        now=log.newest if log.uptime else 0.0,
        earlier=LazyDigest(before, before.texts) if before is not None else None,
        whole_since=log.carried.seconds,
    )
    return Partial(events, found.reason) if isinstance(found, Partial) else events


def _place(folding: LazyDigest, captures: Captures) -> None:
    """Names the kernel and the driver that run, where the lines that name them are gone from the log."""
    scope = folding.scope
    if scope.kernel and scope.driver:
        return
    try:
        kernel, driver = (value if isinstance(value, str) else "" for value in running(captures))
    except Unread:
        return
    folding.scope = Scope(scope.sku, scope.kernel or kernel, scope.driver or driver, scope.firmware)
