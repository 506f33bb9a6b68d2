"""What the tests of job logs share: what a text says,
as charges and as the first line of `muster explain`."""

from __future__ import annotations

from collections.abc import Mapping

from healthcheck.joblog.charges import Charge, charges
from healthcheck.joblog.model import JobLog, LogClock
from healthcheck.joblog.read import read
from tests.healthcheck.explain.cases import NOW, messages

CLOCK = LogClock(NOW)


def log(text: str, nodes: tuple[str, ...] = ()) -> JobLog:
    return read([("out", text.encode())], CLOCK, messages(), nodes)


def told(text: str, nodes: tuple[str, ...] = (), addresses: Mapping[str, str] = {}) -> list[Charge]:
    return charges(log(text, nodes), nodes, addresses)


def cause(text: str, nodes: tuple[str, ...] = (), addresses: Mapping[str, str] = {}) -> Charge | None:
    """The likeliest cause; None where nothing is one."""
    return next((charge for charge in told(text, nodes, addresses) if charge.cause), None)


def culprit(text: str, nodes: tuple[str, ...] = (), addresses: Mapping[str, str] = {}) -> Charge:
    """The likeliest cause, of which there is one."""
    first = cause(text, nodes, addresses)
    assert first is not None
    return first


def accused(text: str, nodes: tuple[str, ...] = (), addresses: Mapping[str, str] = {}) -> str | None:
    """The node, or the address, that is accused."""
    first = cause(text, nodes, addresses)
    return None if first is None else first.who.node or first.who.address
