"""Decides whether nodes may start a job: a pure function of the snapshot and of the time.

A gate opens where every node is certified as policy asks, in service, not isolated, of a state that policy allows, fresh, and equal to
the others in the versions that policy names. What nobody can say for a reason of muster's own (its head is off, its store is locked) is
not held against a node that was certified, within the policy's grace, and is told in a notice. Past the grace it is UNSURE: no yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from healthcheck.gate.policy import ALLOW, STAGES, GatePolicy
from healthcheck.gate.policy import read as read_policy
from healthcheck.gate.reading import GateSnapshot, SnapshotError
from healthcheck.gate.standing import GateCertificate, NodeStanding, standing_of


class Gate(Enum):
    """The answer; its value is the exit code."""

    OPEN = 0
    CLOSED = 1
    UNSURE = 3


class Why(NamedTuple):
    """One thing that keeps the gate from opening (for the whole of it, where `node` is empty), and what a person can do about it, where
    {} stands for the node."""

    node: str
    gate: Gate
    why: str
    do: str


class Notice(NamedTuple):
    """Something that does not close the gate and is to be known; of these nodes, or of the gate as a whole."""

    nodes: tuple[str, ...]
    text: str


class GateDecision(NamedTuple):
    """The gate, why it is not open, and what is to be known though it is."""

    gate: Gate
    whys: tuple[Why, ...] = ()
    notices: tuple[Notice, ...] = ()

    def closed(self) -> set[str]:
        """The nodes that keep it from opening."""
        return {why.node for why in self.whys if why.node}


class _Of(NamedTuple):
    """What one node adds: why it may not, and notes that are folded over nodes. `fresh` is whether its result is."""

    standing: NodeStanding | None
    whys: tuple[Why, ...]
    notes: tuple[str, ...]
    lacks: str = ""         # a fresh result: what is said of it


def answer(snapshot: GateSnapshot, names: Sequence[str], now: float) -> GateDecision:
    """Whether jobs may start on all these nodes at once. Raises nothing: what cannot be understood does not open."""
    try:
        policy = read_policy(snapshot.policy)
    except ValueError as trouble:
        return _shut(Gate.UNSURE, f"the snapshot's policy cannot be understood: {trouble}", "look at the head: muster gate publish")
    whole = _whole(snapshot, policy, now)
    if whole is not None:
        return whole
    if not names:
        return _shut(Gate.CLOSED, "the node list is empty", "say which nodes: --nodelist \"$SLURM_JOB_NODELIST\"")
    notices: list[Notice] = []
    if (age := now - snapshot.made) > policy.fresh:
        notices.append(Notice((), f"the snapshot is {span(age)} old, and nothing newer has come: the head is away, or nobody fetches; "
                                  f"certified nodes open for {span(policy.grace)}"))
    found = [_node(snapshot, name, policy, now) for name in dict.fromkeys(names)]
    whys = [why for each in found for why in each.whys]
    lacking = [(each.standing, each.lacks) for each in found if each.standing is not None and each.lacks]
    whys += _lacking(snapshot, policy, lacking, len(found), notices)
    whys += _unequal([each.standing for each in found if each.standing is not None], policy)
    noted: dict[str, list[str]] = {}
    for each in found:
        for note in each.notes:
            noted.setdefault(note, []).append(each.standing.name if each.standing is not None else "")
    notices += [Notice(tuple(nodes), note) for note, nodes in noted.items()]
    return GateDecision(worst(whys), tuple(whys), tuple(notices))


def worst(whys: Iterable[Why]) -> Gate:
    """CLOSED before UNSURE before OPEN."""
    gates = {why.gate for why in whys}
    return Gate.CLOSED if Gate.CLOSED in gates else Gate.UNSURE if gates else Gate.OPEN


def span(seconds: float) -> str:
    """Seconds as a person says them."""
    for size, unit in ((86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{int(seconds // size)} {unit}"
    return f"{int(seconds)} s"


def _shut(gate: Gate, why: str, do: str) -> GateDecision:
    return GateDecision(gate, (Why("", gate, why, do),))


def _whole(snapshot: GateSnapshot, policy: GatePolicy, now: float) -> GateDecision | None:
    """What is wrong with the snapshot as such, and so for every node."""
    if now < snapshot.made - policy.skew:
        return _shut(Gate.CLOSED, f"this machine's clock is {span(snapshot.made - now)} behind the snapshot: it was set back, or is wrong",
                     "chronyc tracking; timedatectl")
    if now - snapshot.made > policy.grace:
        return _shut(Gate.UNSURE, f"the snapshot is {span(now - snapshot.made)} old, past the grace of {span(policy.grace)}",
                     "see that the head runs `muster gate publish`, and this machine `muster gate fetch`")
    return None


def _node(snapshot: GateSnapshot, name: str, policy: GatePolicy, now: float) -> _Of:
    try:
        entry = snapshot.entry(name)
        if entry is None:
            return _Of(None, (Why(name, Gate.CLOSED, "the snapshot knows no such node", "check the name: muster inventory nodes"),), ())
        node = standing_of(name, entry)
    except SnapshotError as trouble:
        return _Of(None, (Why(name, Gate.CLOSED, str(trouble), "muster gate publish, on the head"),), ())
    except ValueError as trouble:
        return _Of(None, (Why(name, Gate.CLOSED, f"what the snapshot says of it cannot be understood: {trouble}",
                              "muster gate publish, on the head"),), ())
    whys: list[Why] = []
    notes: list[str] = []
    for closes, why, do in (*_place(node, policy), *_certified(node, policy), *_state(node, policy, now)):
        if closes is Gate.OPEN:
            notes.append(why)
        else:
            whys.append(Why(name, closes, why, do))
    lacks = ""
    # What muster itself cannot say has a grace of its own.
    ours = node.state == "unknown" and node.origin == "muster"
    if not ours and (node.looked is None or snapshot.made - node.looked > policy.fresh):
        lacks = "never looked at" if node.looked is None else f"last looked at {span(snapshot.made - node.looked)} before the snapshot"
    return _Of(node, tuple(whys), tuple(notes), lacks)


def _place(node: NodeStanding, policy: GatePolicy) -> Iterator[tuple[Gate, str, str]]:
    if node.lifecycle != "service":
        yield Gate.CLOSED, f"not in service: {node.lifecycle}", "muster inventory lifecycle {}"
    if node.isolation != "none":
        yield Gate.CLOSED, f"isolated ({node.isolation}): {node.why or 'no reason given'}", "muster history {}"
    if node.cordoned:
        yield _by(policy.cordoned), f"cordoned: {node.cordoned}", "ask whoever cordoned it"


def _certified(node: NodeStanding, policy: GatePolicy) -> Iterator[tuple[Gate, str, str]]:
    held = node.certificate
    burnin = "muster burnin run {}"
    if held is None:
        yield Gate.CLOSED, "no certificate: no burn-in has proven it", burnin
    elif held.kind == "revoked":
        yield Gate.CLOSED, f"its certificate was revoked: {held.why or 'no reason given'}", "muster certificate show {}"
    elif held.stage not in STAGES or STAGES.index(held.stage) < STAGES.index(policy.stage):
        yield Gate.CLOSED, f"certified by {held.stage} burn-in; policy asks for {policy.stage}", f"{burnin} --length {policy.stage}"
    elif held.kind == "requalify":
        length = f" --length {held.asks}" if held.asks else ""
        yield _due(held, policy), f"to be qualified again: {held.why or held.cause or 'no reason given'}", f"{burnin}{length}"


def _due(held: GateCertificate, policy: GatePolicy) -> Gate:
    """Age never closes; what the head gives no cause for is taken for the worse one."""
    if held.cause == "age":
        return Gate.OPEN
    return _by(policy.rebooted if held.cause == "rebooted" else policy.changed)


def _state(node: NodeStanding, policy: GatePolicy, now: float) -> Iterator[tuple[Gate, str, str]]:
    said = f": {node.why}" if node.why else ""
    history = "muster history {}"
    if node.state == "unhealthy":
        yield _by(policy.unhealthy), f"unhealthy{said}", history
    elif node.state == "degraded":
        yield _by(policy.degraded), f"degraded{said}", history
    elif node.state == "unknown":
        ours = node.origin == "muster"
        what = f"unknown, {'for a reason of muster itself' if ours else 'and that is of the node'}{said}"
        if not _allowed(node, policy, ours):
            yield Gate.CLOSED, what, "muster check {}"
        elif ours and now - (last := max(node.looked or 0, node.certificate.at if node.certificate else 0)) > policy.grace:
            yield Gate.UNSURE, f"{what}; last known {span(now - last)} ago, past the grace of {span(policy.grace)}", "muster check {}"
        else:
            yield Gate.OPEN, what, ""


def _allowed(node: NodeStanding, policy: GatePolicy, ours: bool) -> bool:
    """By rule, where the head names them, else by origin; what has no origin is the node's."""
    otherwise = policy.muster if ours else policy.node
    if not node.unknown or not policy.rules:
        return otherwise == ALLOW
    from fnmatch import fnmatchcase

    return all(next((word for glob, word in policy.rules if fnmatchcase(rule, glob)), otherwise) == ALLOW for rule in node.unknown)


def _lacking(
    snapshot: GateSnapshot, policy: GatePolicy, lacking: Sequence[tuple[NodeStanding, str]], number: int, notices: list[Notice],
) -> Iterator[Why]:
    """Nodes whose last result is not fresh: where all sweeps have stopped it is muster's own doing, else a share of them is allowed."""
    if not lacking:
        return
    names = tuple(node.name for node, _ in lacking)
    newest = snapshot.newest_look()
    if snapshot.made - newest > policy.fresh:
        if policy.muster == ALLOW and snapshot.made - newest <= policy.grace:
            ago = span(snapshot.made - newest)
            notices.append(Notice(names, f"no fresh result, as of no node: the last sweep was {ago} before the snapshot"))
            return
        for node, lacks in lacking:
            yield Why(node.name, Gate.UNSURE, f"no fresh result, as of no node: {lacks}", "muster check --store, on the head")
    elif len(lacking) <= number * policy.percent / 100:
        notices.append(Notice(names, f"no fresh result, while others have theirs: {len(lacking)} of {number}; "
                                     f"policy allows {policy.percent:g} %"))
    else:
        for node, lacks in lacking:
            yield Why(node.name, Gate.CLOSED, f"no fresh result, while others have theirs: {lacks}", "muster check {} --store")


def _unequal(nodes: Sequence[NodeStanding], policy: GatePolicy) -> Iterator[Why]:
    """Nodes that have another version than most, or none that is known, where an allocation is of several."""
    if len(nodes) < 2:
        return
    for what in policy.equal:
        values = {node.name: _version(node, what) for node in nodes}
        most, count = _commonest(value for value in values.values() if value)
        for name, value in values.items():
            if not value:
                yield Why(name, Gate.CLOSED, f"{what} is not known, and must be equal", "muster check {} --store")
            elif value != most:
                yield Why(name, Gate.CLOSED, f"{what} {value}, while {count} of {len(nodes)} have {most}", "take nodes that are equal")


def _version(node: NodeStanding, what: str) -> str:
    found = node.versions.get(what, "")
    return found or (node.versions.get(what[:-7], "").partition(".")[0] if what.endswith("-branch") else "")


def _commonest(values: Iterable[str]) -> tuple[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        counts[value] = counts.get(value, 0) + 1
    return max(counts.items(), key=lambda held: held[1], default=("", 0))


def _by(word: str) -> Gate:
    return Gate.OPEN if word == ALLOW else Gate.CLOSED
