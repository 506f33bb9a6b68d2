"""Checks of the node's systemd services."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase

from healthcheck.checks.base import check
from healthcheck.facts.unit import Units
from healthcheck.model.outcome import Finding


@check("service.failed")
def service_failed(units: Units, *, ignore: tuple[str, ...] = ()) -> Iterator[Finding]:
    """No service has failed, except those that these globs name."""
    for name, (_, active, sub) in units.states.items():
        if active == "failed" and not any(fnmatchcase(name, glob) for glob in ignore):
            yield Finding(f"{active} ({sub})", "not failed", name)


@check("service.expected", counts=True)
def service_expected(units: Units, *, names: tuple[str, ...]) -> Iterator[Finding]:
    """Each of these services is active; so is a oneshot that succeeded and stays active."""
    for name in names:
        load, active, sub = units.states.get(name.removesuffix(".service"), ("not-found", "inactive", "dead"))
        if active != "active":
            yield Finding("not installed" if load == "not-found" else f"{active} ({sub})", "active", name)
