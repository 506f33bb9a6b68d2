"""Checks of disks over several paths."""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check, listed
from healthcheck.checks.growth import Growth
from healthcheck.facts.multipath import Multipath
from healthcheck.model.outcome import Finding


@check("disk.multipath_path")
def disk_multipath_path(multipath: Multipath) -> Iterator[Finding]:
    """Every path to a multipath disk is in use."""
    if multipath.lost:
        observed = f"{len(multipath.lost)} of {multipath.paths} paths lost: {listed(multipath.lost)}"
        yield Finding(observed, "every path in use")


@check("disk.multipath_lost")
def disk_multipath_lost(multipath: Multipath, growth: Growth[Multipath]) -> Iterator[Finding]:
    """No multipath disk has fewer paths than in the earlier snapshot."""
    if not growth.new and multipath.paths < growth.before.paths:
        yield Finding(f"{multipath.paths} paths", f"{growth.before.paths}, as in the earlier snapshot")
