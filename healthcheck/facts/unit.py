"""The fact of a node's services: one `systemctl list-units` of all of them (systemctl(1)): unit, load,
active, sub, description."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.parsing import matched
from healthcheck.facts.values import Fact, Unread
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome

UNITS = Probe(
    "service.units", ProbeKind.COMMAND, seconds=5.0,
    argv=("systemctl", "list-units", "--type=service", "--all", "--no-legend", "--plain", "--no-pager",
          "--full"),
)
_LINE = re.compile(r"(\S{1,255}\.service) +([a-z-]{1,20}) +([a-z-]{1,20}) +([a-z-]{1,30})(?: +.*)?")
# systemctl marks failed units in front where it takes its output for a terminal.
_MARKS = "\u25cf\u25cb\u00d7* "


class Units(Fact):
    """(load, active, sub) of each service that systemd knows, by unit without `.service`; UNSUPPORTED where
    there is no systemd."""

    name: str
    states: Mapping[str, tuple[str, str, str]]


def states(text: str) -> Mapping[str, tuple[str, str, str]]:
    """The services of systemctl's list; raises ValueError for a line that is not in its format, or for none
    at all."""
    found = {}
    for line in text.splitlines():
        match = matched(_LINE, line.lstrip(_MARKS).rstrip())
        found[match[1].removesuffix(".service")] = (match[2], match[3], match[4])
    if not found:
        raise ValueError("no unit")
    return MappingProxyType(found)


@fact("units", UNITS)
def units(captures: Captures) -> Units:
    """All services; UNSUPPORTED on a node without systemd."""
    capture = captures.capture(UNITS)
    missing = capture is not None and capture.outcome is Outcome.MISSING
    if missing or (capture is not None and "not been booted with systemd" in capture.stderr):
        return Units.absent("services")
    try:
        return Units("services", states(captures.text(UNITS)))
    except ValueError:
        raise Unread("systemctl's list of units is not in its format") from None
