"""The events of the kernel's log: its lines by template, reports of many lines as one, and what the log says of itself.

Made of the same records as `healthcheck.facts.kernel`; a saved log is judged the same way, its lines having been made records.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from healthcheck.baseline.fold import fold
from healthcheck.baseline.model import Digest
from healthcheck.facts.base import Captures, Fact, Partial, Unmeasured, Unread, fact
from healthcheck.facts.host import UPTIME, VERSIONS, versions
from healthcheck.facts.kernel import LOG, KernelLog, kernel_log


@dataclass(frozen=True)
class KernelEvents(Fact):
    """One boot's log, folded. `newest` is the time of the look in seconds since boot; `whole` says that the log begins where the boot
    does, and that nothing of it is gone."""

    name: str
    digest: Digest = field(repr=False)
    newest: float
    whole: bool
    caveat: str = ""


@fact("kernel_events", LOG, besides=(UPTIME, VERSIONS))
def kernel_events(captures: Captures) -> Any:
    """What the kernel's log holds, as far as it could be read."""
    found = kernel_log(captures)
    if isinstance(found, Unmeasured):
        return found
    log: KernelLog = found.value if isinstance(found, Partial) else found
    records = log.records()
    digest = _placed(fold(records, texts=records.texts), captures)
    whole = not log.caveat and not isinstance(found, Partial)
    events = KernelEvents("kernel log", digest, log.newest, whole, log.caveat)
    return Partial(events, found.reason) if isinstance(found, Partial) else events


def _placed(digest: Digest, captures: Captures) -> Digest:
    """With the kernel and the driver that run, where the lines that name them are gone from the log."""
    scope = digest.scope
    if scope.kernel and scope.driver:
        return digest
    try:
        known = versions(captures)
    except Unread:
        return digest
    kernel, driver = (value if isinstance(value, str) else "" for value in (known.kernel, known.driver))
    return replace(digest, scope=replace(scope, kernel=scope.kernel or kernel, driver=scope.driver or driver))
