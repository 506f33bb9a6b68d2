"""Checks of how often a node was started: one that went away by itself, and is back as if nothing had been, took a job with it."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import NotJudged, check
from healthcheck.facts.boot import EarlierBoot, utc
from healthcheck.facts.host import Uptime
from healthcheck.model.outcome import Finding, Note

# What an answer's way, and the clocks of two heads, may make of one moment.
_SLACK_S = 60.0


@check("host.rebooted")
def host_rebooted(earlier_boot: EarlierBoot, uptime: Uptime, *, within_hours: float) -> Iterator[Finding | Note]:
    """The node runs in the boot of its earlier look, or was out of service when it was rebooted, or that is `within_hours` ago and more.

    To say that a reboot was meant, take the node out of service before it, or before the next look after it.
    """
    if not earlier_boot.known:
        raise NotJudged("no earlier look at this node")
    if not earlier_boot.looked:
        return
    since = earlier_boot.now - uptime.hours * 3600
    if since < earlier_boot.looked - _SLACK_S:
        raise NotJudged(f"the look at {utc(earlier_boot.looked)} was of another machine: this one is up since {utc(since)}")
    observed = f"rebooted since the look at {utc(earlier_boot.looked)}; up since {utc(since)}"
    if earlier_boot.out:
        yield Note(f"{observed}; it was in {earlier_boot.out}, so it was expected")
    elif uptime.hours >= within_hours:
        yield Note(f"{observed}: {within_hours:g} h ago or more, and not judged")
    else:
        yield Finding(observed, "no reboot in service", earlier_boot.name)
