"""The check for unexpected reboots: a node that restarted by itself took a job with it."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import NotJudged, check
from healthcheck.facts.boot import EarlierBoot, utc
from healthcheck.facts.host import Uptime
from healthcheck.model.outcome import Finding, Note

# Allowed for the transfer time of an answer, and for differences between two heads' clocks.
_SLACK_S = 60.0


@check("host.rebooted")
def host_rebooted(earlier_boot: EarlierBoot, uptime: Uptime, *,
                  within_hours: float) -> Iterator[Finding | Note]:
    """The node was not rebooted since its earlier snapshot, or was out of service then, or the reboot is
    `within_hours` ago or more.

    To mark a reboot as planned, take the node out of service before it, or before the next snapshot after it.
    """
    if not earlier_boot.known:
        raise NotJudged("no earlier snapshot of this node")
    if not earlier_boot.looked:
        return
    since = earlier_boot.now - uptime.hours * 3600
    if since < earlier_boot.looked - _SLACK_S:
        raise NotJudged(f"the snapshot at {utc(earlier_boot.looked)} was of another machine: this one is up "
                        f"since {utc(since)}")
    observed = f"rebooted since the snapshot at {utc(earlier_boot.looked)}; up since {utc(since)}"
    if earlier_boot.out:
        yield Note(f"{observed}; expected, since it was in {earlier_boot.out}")
    elif uptime.hours >= within_hours:
        yield Note(f"{observed}: {within_hours:g} h ago or more, and not judged")
    else:
        yield Finding(observed, "no reboot in service", earlier_boot.name)
