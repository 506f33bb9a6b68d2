"""Decides whether nodes may start a job: a pure function of the snapshot and of the time.

A gate opens if every node is certified as policy asks, in service, not isolated, in an allowed state, fresh,
and equal to the others in the versions that policy names. If muster itself lacks data (its head is off, its
store is locked), certified nodes may start within the policy's grace, with a notice. Past the grace the gate
is UNSURE, which does not open.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from healthcheck.gate.nodestatus import GateCertificate, GateNode, gate_node
from healthcheck.gate.policy import ALLOW, STAGES, GatePolicy
from healthcheck.gate.policy import read as read_policy
from healthcheck.gate.reading import GateSnapshot, SnapshotError


class Gate(Enum):
    """The answer; its value is the exit code."""

    OPEN = 0
    CLOSED = 1
    UNSURE = 3


class Why(NamedTuple):
    """One reason that keeps the gate closed (for all nodes if `node` is empty), and what to do about it,
    where {} stands for the node."""

    node: str
    gate: Gate
    why: str
    do: str


class Notice(NamedTuple):
    """A notice that does not close the gate, about these nodes or the gate as a whole."""

    nodes: tuple[str, ...]
    text: str


class GateDecision(NamedTuple):
    """The gate, the reasons against opening, and notices."""

    gate: Gate
    whys: tuple[Why, ...] = ()
    notices: tuple[Notice, ...] = ()

    def closed(self) -> set[str]:
        """The nodes that keep it from opening."""
        return {why.node for why in self.whys if why.node}


class _Of(NamedTuple):
    """One node's part: reasons and notes, folded over nodes; whether its result is fresh."""

    known: GateNode | None
    whys: tuple[Why, ...]
    notes: tuple[str, ...]
    lacks: str = ""         # why there is no fresh result


def answer(snapshot: GateSnapshot, names: Sequence[str], now: float) -> GateDecision:
    """Whether jobs may start on all these nodes at once. Never raises: unreadable input opens no gate."""
    try:
        policy = read_policy(snapshot.policy)
    except ValueError as trouble:
        return _shut(Gate.UNSURE, f"the snapshot's policy cannot be understood: {trouble}",
                     "on the head: muster gate publish")
    whole = _whole(snapshot, policy, now)
    if whole is not None:
        return whole
    if not names:
        return _shut(Gate.CLOSED, "the node list is empty",
                     "name the nodes: --nodelist \"$SLURM_JOB_NODELIST\"")
    notices: list[Notice] = []
    if (age := now - snapshot.made) > policy.fresh:
        notices.append(Notice((), f"the snapshot is {span(age)} old, and nothing newer has come: the head is "
                                  f"away, or no one fetches; certified nodes open for {span(policy.grace)}"))
    found = [_node(snapshot, name, policy, now) for name in dict.fromkeys(names)]
    whys = [why for each in found for why in each.whys]
    lacking = [(each.known, each.lacks) for each in found if each.known is not None and each.lacks]
    whys += _lacking(snapshot, policy, lacking, len(found), notices)
    whys += _unequal([each.known for each in found if each.known is not None], policy)
    noted: dict[str, list[str]] = {}
    for each in found:
        for note in each.notes:
            noted.setdefault(note, []).append(each.known.name if each.known is not None else "")
    notices += [Notice(tuple(nodes), note) for note, nodes in noted.items()]
    return GateDecision(worst(whys), tuple(whys), tuple(notices))


def worst(whys: Iterable[Why]) -> Gate:
    """CLOSED before UNSURE before OPEN."""
    gates = {why.gate for why in whys}
    return Gate.CLOSED if Gate.CLOSED in gates else Gate.UNSURE if gates else Gate.OPEN


def span(seconds: float) -> str:
    """A duration for people."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _shut(gate: Gate, why: str, do: str) -> GateDecision:
    return GateDecision(gate, (Why("", gate, why, do),))


def _whole(snapshot: GateSnapshot, policy: GatePolicy, now: float) -> GateDecision | None:
    """What is wrong with the snapshot itself, and so for every node."""
    if now < snapshot.made - policy.skew:
        return _shut(Gate.CLOSED, f"this machine's clock is {span(snapshot.made - now)} behind the snapshot",
                     "chronyc tracking; timedatectl")
    if now - snapshot.made > policy.grace:
        return _shut(Gate.UNSURE, f"the snapshot is {span(now - snapshot.made)} old, past the grace of "
                                  f"{span(policy.grace)}", "make sure that the head runs `muster gate "
                                                           "publish`, and this machine `muster gate fetch`")
    return None


def _node(snapshot: GateSnapshot, name: str, policy: GatePolicy, now: float) -> _Of:
    try:
        entry = snapshot.entry(name)
        if entry is None:
            return _Of(None,
                       (Why(name, Gate.CLOSED, "the snapshot has no such node",
                            "check the name: muster inventory nodes"),), ())
        node = gate_node(name, entry)
    except SnapshotError as trouble:
        return _Of(None, (Why(name, Gate.CLOSED, str(trouble), "muster gate publish, on the head"),), ())
    except ValueError as trouble:
        return _Of(None, (Why(name, Gate.CLOSED, f"its entry in the snapshot is unreadable: {trouble}",
                              "muster gate publish, on the head"),), ())
    whys: list[Why] = []
    notes: list[str] = []
    for closes, why, do in (*_place(node, policy), *_certified(node, policy), *_state(node, policy, now)):
        if closes is Gate.OPEN:
            notes.append(why)
        else:
            whys.append(Why(name, closes, why, do))
    lacks = ""
    # UNKNOWN of origin muster has its own grace.
    ours = node.state == "unknown" and node.origin == "muster"
    if not ours and (node.looked is None or snapshot.made - node.looked > policy.fresh):
        lacks = ("never checked" if node.looked is None
                 else f"last checked {span(snapshot.made - node.looked)} before the snapshot")
    return _Of(node, tuple(whys), tuple(notes), lacks)


def _place(node: GateNode, policy: GatePolicy) -> Iterator[tuple[Gate, str, str]]:
    if node.lifecycle != "service":
        yield Gate.CLOSED, f"not in service: {node.lifecycle}", "muster inventory lifecycle {}"
    if node.isolation != "none":
        yield (Gate.CLOSED, f"isolated ({node.isolation}): {node.why or 'no reason given'}",
               "muster history {}")
    if node.cordoned:
        yield _by(policy.cordoned), f"cordoned: {node.cordoned}", "ask who cordoned it"


def _certified(node: GateNode, policy: GatePolicy) -> Iterator[tuple[Gate, str, str]]:
    held = node.certificate
    burnin = "muster burnin run {}"
    if held is None:
        yield Gate.CLOSED, "no certificate: it has not passed a burn-in", burnin
    elif held.kind == "revoked":
        yield (Gate.CLOSED, f"its certificate was revoked: {held.why or 'no reason given'}",
               "muster certificate show {}")
    elif held.stage not in STAGES or STAGES.index(held.stage) < STAGES.index(policy.stage):
        yield (Gate.CLOSED, f"certified by {held.stage} burn-in; policy asks for {policy.stage}",
               f"{burnin} --length {policy.stage}")
    elif held.kind == "requalify":
        length = f" --length {held.asks}" if held.asks else ""
        why = held.why or held.cause or "no reason given"
        yield _due(held, policy), f"must requalify: {why}", f"{burnin}{length}"


def _due(held: GateCertificate, policy: GatePolicy) -> Gate:
    """Age never closes; without a cause from the head the worse one counts."""
    if held.cause == "age":
        return Gate.OPEN
    return _by(policy.rebooted if held.cause == "rebooted" else policy.changed)


def _state(node: GateNode, policy: GatePolicy, now: float) -> Iterator[tuple[Gate, str, str]]:
    said = f": {node.why}" if node.why else ""
    history = "muster history {}"
    if node.state == "unhealthy":
        yield _by(policy.unhealthy), f"unhealthy{said}", history
    elif node.state == "degraded":
        yield _by(policy.degraded), f"degraded{said}", history
    elif node.state == "unknown":
        ours = node.origin == "muster"
        what = f"unknown, {'by muster itself' if ours else 'by the node'}{said}"
        if not _allowed(node, policy, ours):
            yield Gate.CLOSED, what, "muster check {}"
        elif (ours and now - (last := max(node.looked or 0, node.certificate.at if node.certificate else 0))
              > policy.grace):
            yield (Gate.UNSURE, f"{what}; last known {span(now - last)} ago, past the grace of "
                                f"{span(policy.grace)}", "muster check {}")
        else:
            yield Gate.OPEN, what, ""


def _allowed(node: GateNode, policy: GatePolicy, ours: bool) -> bool:
    """By rule if the head names them, else by origin; without an origin it is the node's."""
    otherwise = policy.muster if ours else policy.node
    if not node.unknown or not policy.rules:
        return otherwise == ALLOW
    from fnmatch import fnmatchcase

    return all(next((word for glob, word in policy.rules if fnmatchcase(rule, glob)), otherwise) == ALLOW
               for rule in node.unknown)


def _lacking(
    snapshot: GateSnapshot, policy: GatePolicy, lacking: Sequence[tuple[GateNode, str]], number: int,
    notices: list[Notice],
) -> Iterator[Why]:
    """Nodes without a fresh result: muster's fault if all sweeps have stopped; else a share is allowed."""
    if not lacking:
        return
    names = tuple(node.name for node, _ in lacking)
    newest = snapshot.newest_snapshot()
    if snapshot.made - newest > policy.fresh:
        if policy.muster == ALLOW and snapshot.made - newest <= policy.grace:
            ago = span(snapshot.made - newest)
            notices.append(
                Notice(names, f"no fresh result of any node: the last sweep was {ago} before the snapshot"))
            return
        for node, lacks in lacking:
            yield Why(node.name, Gate.UNSURE, f"no fresh result of any node: {lacks}",
                      "muster check --store, on the head")
    elif len(lacking) <= number * policy.percent / 100:
        notices.append(Notice(names, f"no fresh result, while others have one: {len(lacking)} of {number}; "
                                     f"policy allows {policy.percent:g} %"))
    else:
        for node, lacks in lacking:
            yield Why(node.name, Gate.CLOSED, f"no fresh result, while others have one: {lacks}",
                      "muster check {} --store")


def _unequal(nodes: Sequence[GateNode], policy: GatePolicy) -> Iterator[Why]:
    """Nodes of an allocation with another version than most, or an unknown one."""
    if len(nodes) < 2:
        return
    for what in policy.equal:
        values = {node.name: _version(node, what) for node in nodes}
        most, count = _commonest(value for value in values.values() if value)
        for name, value in values.items():
            if not value:
                yield Why(name, Gate.CLOSED, f"{what} is unknown, and must be equal",
                          "muster check {} --store")
            elif value != most:
                yield Why(name, Gate.CLOSED, f"{what} {value}, while {count} of {len(nodes)} have {most}",
                          "choose nodes with equal versions")


def _version(node: GateNode, what: str) -> str:
    found = node.versions.get(what, "")
    return found or (node.versions.get(what[:-7], "").partition(".")[0] if what.endswith("-branch") else "")


def _commonest(values: Iterable[str]) -> tuple[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return max(counts.items(), key=lambda held: held[1], default=("", 0))


def _by(word: str) -> Gate:
    return Gate.OPEN if word == ALLOW else Gate.CLOSED
