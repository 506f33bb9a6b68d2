"""Whose turn it is on a node, what is to be done there, and the command that begins it. Pure."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from healthcheck.certify.requalify import CertificateState
from healthcheck.gate.decide import Why
from healthcheck.model.faultkind import Isolation
from healthcheck.model.outcome import NodeState, Owner, Repair
from healthcheck.model.problem import Problem
from healthcheck.report.nodes import HEALTHY, NEVER, NodeRow

# What the policy's steps can do; the others need a person, who gets a ticket.
_STEPS = (Repair.RESTART_SERVICE.value, Repair.RESET_GPU.value, Repair.REBOOT.value)
_PEOPLE = (Repair.INSPECT.value, Repair.REPLACE.value)
_OPERATOR = Owner.OPERATOR.value


class Turn(NamedTuple):
    """Who acts next (empty: no one has to), a few words on what, and the command with {} for the node. A
    greater `urgency` is more urgent."""

    owner: str
    what: str
    command: str
    urgency: int = 0


_NOTHING = Turn("", "", "muster check {}")


def turn(
    row: NodeRow, problems: Sequence[Problem], rule: str, certificate: Mapping[str, Any] | None,
    closed: Why | None, certifies: bool,
) -> Turn:
    """The turn of one node. `problems` are its open ones; `rule` the one that its verdict rests on most,
    empty where it rests on none; `certificate` its entry at the gate, `closed` what keeps that closed;
    `certifies`: this site uses certificates, so that a missing one is work."""
    if not row.in_service:
        return Turn("", f"not in service: {row.lifecycle}", "muster inventory nodes {}")
    if row.alarm:
        return Turn(_OPERATOR, row.alarm, "muster rma list", 60)
    if row.machine:
        return Turn(_OPERATOR, row.machine, "muster nodes {}", 50)
    if row.owner:
        held = row.isolation is not Isolation.NONE
        return Turn(row.owner, f"{rule or row.fault}: {row.repair.replace('-', ' ')}", _repair(row),
                    (40 if held else 20) + list(Repair).index(Repair(row.repair)))
    if row.state == NEVER:
        return Turn(_OPERATOR, "check: no stored sweep has seen it", "muster check {} --store", 10)
    if row.stale:
        return Turn(_OPERATOR, "check: its data is old", "muster check {} --store", 10)
    if row.state == NodeState.UNKNOWN.value:
        return Turn(_OPERATOR, "find out why it cannot be measured", "muster check {} --store", 15)
    if row.state != HEALTHY:
        owner = next((one.owner for one in problems if one.owner and one.severity != "info"), None)
        return Turn(owner or _OPERATOR, "see what is wrong", "muster history {} --still", 15)
    if closed is not None and certifies:
        return Turn(_OPERATOR, closed.why, closed.do, 5)
    if certificate is not None and certificate["kind"] == CertificateState.REQUALIFY.value:
        length = f" --length {certificate['asks']}" if certificate["asks"] else ""
        return Turn(_OPERATOR, f"certificate is due: {certificate['cause']}",
                    f"muster burnin run {{}}{length}", 3)
    return _NOTHING


def typed(command: str, name: str) -> str:
    """The command for this node or node set, as a shell takes it."""
    return command.replace("{}", shlex.quote(name))


def _repair(row: NodeRow) -> str:
    if row.repair in _STEPS:
        return "muster remediate {}"
    return "muster ticket {}" if row.repair in _PEOPLE else "muster history {} --still"
