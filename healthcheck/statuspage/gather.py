"""Reads what the page shows, from the store, the certificates and the burn-ins of a state folder, into one JSON
document (muster.page/1). Times are epoch seconds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.burnin.listing import listed
from healthcheck.certify.certificate import CertificateManifest
from healthcheck.certify.keys import load_keys
from healthcheck.certify.manifest import load_manifest
from healthcheck.certify.policy import CertificatePolicy
from healthcheck.certify.policyload import load_certificate_policy
from healthcheck.config.rulesfolder import folders
from healthcheck.gate.decide import Gate, Why
from healthcheck.gate.entries import SnapshotEntries, entries
from healthcheck.gate.policyload import load_gate_policy, with_todays_names
from healthcheck.model.faultkind import Isolation
from healthcheck.model.problem import Problem
from healthcheck.model.verdict import StoredIncident, Verdict
from healthcheck.report.machines import words as machine_words
from healthcheck.report.nodes import HEALTHY, NodeRow, row
from healthcheck.report.silences import of_node
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.statuspage import burnins, changes, ready
from healthcheck.statuspage.findings import Findings
from healthcheck.statuspage.nextstep import Turn, turn, typed
from healthcheck.statuspage.ready import Standing
from healthcheck.statuspage.trends import trends
from healthcheck.store import ledger, runs
from healthcheck.store.clock import head_clock, in_future, newest_sweep
from healthcheck.store.file import Store
from healthcheck.store.history import Spell, newest_spells, problems, spells
from healthcheck.store.incidents import incidents
from healthcheck.store.leases import leased_nodes, left
from healthcheck.store.leftout import left_out_nodes
from healthcheck.store.rmas import alarms, rmas
from healthcheck.store.silences import active, silenced
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import TriagePlan, make
from healthcheck.triage.policyload import load_policy
from healthcheck.triage.whole import named
from inventory.errors import CertificateError
from inventory.model import Inventory, Node
from inventory.nodeset import fold, natural
from inventory.text import clean

SCHEMA = "muster.page/1"
_DAY = 86400.0
# The novelties of a kernel log are rules of severity info and say nothing of a state.
_NOVEL = ("kernel-novel", "kernel-rate", "kernel-missing", "kernel-order", "kernel-suspect")
_MOST_NOVELTIES, _MOST_WORK, _MOST_NAMES = 20, 30, 200
_MOST_SPELLS, _MOST_ACTIONS = 8, 8


@dataclass(frozen=True)
class _Read:
    """What was read, all of one moment."""

    rows: Sequence[NodeRow]
    plan: TriagePlan
    nodes: Mapping[str, Node]
    skus: Mapping[str, str]
    problems: Mapping[str, Sequence[Problem]]
    standings: Mapping[str, Standing]
    turns: Mapping[str, Turn]
    certificates: Mapping[str, Mapping[str, Any]]
    certifies: bool
    incident_owners: Mapping[int, str]


def document(
    store: Store, inventory: Inventory | None, state: Path, now: float, *, rules: str | None = None,
) -> dict[str, Any]:
    """The document; raises StoreError and RulesError. Without an inventory the nodes are those of the store."""
    since = now - changes.HOURS * 3600
    found = problems(store, None, since)
    read = _read(store, inventory, state, now, rules, [one for one in found if one.ended is None])
    names = read.nodes.keys()
    shown = Findings()
    shown.add(one for one in found if one.node in names and one.rule not in _NOVEL)
    times: dict[str, list[Spell]] = defaultdict(list)
    for spell in spells(store, None, since):
        if spell.node in names and not in_future(spell.began, now):
            times[spell.node].append(spell)
    actions = [line for line in ledger.lines(store, since=since) if line.time <= now + 300]
    known = incidents(store, since)
    grown = trends(store, now)
    burnin = burnins.newest(state)
    work = _work(read, known)
    return {
        "schema": SCHEMA, "made": int(now), "source": clean(inventory.source if inventory is not None
                                                            else f"the store in {state}", 200),
        "newest_sweep": newest_sweep(store, now), "notes": _notes(store, read, now),
        "ready": ready.rows(read.standings.values()), "certifies": read.certifies,
        "changes": changes.document([*changes.of_states(times, since, fold),
                                     *changes.of_incidents(known, since, fold), *changes.of_actions(actions, fold)]),
        "work": work, "counts": dict(Counter(one.state for one in read.rows if one.in_service)),
        "incidents": [_incident(one, read) for one in known if one.ended is None],
        "novelties": _novelties(found, names), "burnin": _without_nodes(burnin),
        "findings": shown.texts,
        "nodes": [_node(one, read, shown, times, actions_of, grown, burnin)
                  for actions_of in [_by_node(actions)] for one in read.rows],
    }


def _read(
    store: Store, inventory: Inventory | None, state: Path, now: float, rules: str | None, held: Iterable[Problem],
) -> _Read:
    found = folders(rules)
    ruleset = load_ruleset(found)
    policy = load_policy(found, ruleset)
    gate_policy, certificate_policy = load_gate_policy(found), load_certificate_policy(found)
    if gate_policy.rules:
        gate_policy = with_todays_names(gate_policy, ruleset.former)
    by_spell = newest_spells(store)
    nodes = dict(inventory.nodes) if inventory is not None else {name: Node(name) for name in by_spell}
    silences = active(store, now)
    fleet = gather(store, list(nodes.values()), policy, now,
                   silenced=lambda one: silenced(one, silences, now) is not None)
    plan = make(fleet, policy)
    verdicts = {verdict.node: verdict for verdict in plan.verdicts}
    shared: dict[str, tuple[int, ...]] = defaultdict(tuple)
    for incident in plan.incidents:
        for name in incident.nodes:
            shared[name] += (incident.id,)
    returns = rmas(store)
    away: dict[str, list[str]] = defaultdict(list)
    for one in returns:
        if one.away:
            away[one.node].append(f"{one.id}:{one.state.value}")
    alarm = {each.node: each.said for each in alarms(store, returns).values()}
    machines = {each.node: machine_words(each) for each in plan.machines}
    by_agent = {name: each.evidence.at for name, each in left_out_nodes(store).items()}
    stale_s = policy.fresh_hours * 3600
    rows = [row(past, by_spell.get(past.node), verdicts.get(past.node), now, stale_s,
                ",".join(away.get(past.node, ())), alarm.get(past.node, ""), shared.get(past.node, ()),
                by_agent.get(past.node), of_node(past.hidden.problems, silences, now), machines.get(past.node, ""))
            for past in sorted(fleet.nodes, key=lambda each: natural(each.node))]
    manifest, certifies = _manifest(state)
    judged = _judged_skus(store)
    skus = {name: node.sku or judged.get(name) or ready.NO_SKU for name, node in nodes.items()}
    there = Inventory(nodes, inventory.groups if inventory is not None else {}, "")
    at_gate = _entries(store, there, manifest, certificate_policy, now)
    closed = ready.at_gate(at_gate, gate_policy.document(), skus, now)
    by_node: dict[str, list[Problem]] = defaultdict(list)
    for problem in held:
        by_node[problem.node].append(problem)
    leased = leased_nodes(store)
    standings = {one.node: _standing(one, at_gate[one.node], closed.get(one.node), skus[one.node],
                                     "lent for tests" if one.node in leased else "") for one in rows}
    turns = {one.node: turn(one, by_node.get(one.node, ()), _first_rule(verdicts.get(one.node)), closed.get(one.node),
                            certifies) for one in rows}
    return _Read(rows, plan, nodes, skus, by_node, standings, turns, at_gate, certifies,
                 {one.id: one.owner.value for one in plan.incidents})


def _first_rule(verdict: Verdict | None) -> str:
    """The rule that a verdict rests on most."""
    return verdict.faults[0].problems[0].rule if verdict is not None and verdict.faults else ""


def _manifest(state: Path) -> tuple[CertificateManifest, bool]:
    """The certificates, and whether this site has any."""
    try:
        manifest = load_manifest(state, load_keys(state))
    except CertificateError:
        # Without a key none was ever signed; an unreadable one proves nothing: no node counts as certified.
        return CertificateManifest(""), False
    return manifest, bool(manifest.nodes)


def _entries(
    store: Store, inventory: Inventory, manifest: CertificateManifest, policy: CertificatePolicy, now: float,
) -> dict[str, dict[str, Any]]:
    """What the gate would know of each node, if a snapshot were published now."""
    if manifest.nodes:
        return entries(store, inventory, manifest, policy, now)
    known = SnapshotEntries(store, now)
    return {node.name: known.entry(node, [], None) for node in inventory}


def _judged_skus(store: Store) -> dict[str, str]:
    """Of nodes whose SKU the inventory leaves open, the one that the newest result was judged by is in it."""
    from healthcheck.store import newest

    return {each[0]: sku for each in newest.rows(store) if (sku := newest.decoded(*each).sku)}


def _standing(one: NodeRow, entry: Mapping[str, Any], closed: Why | None, sku: str, lent: str) -> Standing:
    certificate = entry["certificate"]
    held = lent or (f"isolated ({one.isolation.value})" if one.isolation is not Isolation.NONE else "")
    held = held or ("cordoned" if one.cordon else "")
    return Standing(one.node, sku, one.in_service, certificate is not None and certificate["kind"] == "ok",
                    (closed.gate if closed is not None else Gate.OPEN).name.lower(), closed, held)


def _notes(store: Store, read: _Read, now: float) -> list[str]:
    """What a reader has to know before he trusts the rest."""
    late = [head_clock(store, now), *left(store, now), runs.overdue(store, now)]
    said = [clean(one, 300) for one in late if one]
    if read.plan.is_open:
        said.insert(0, "the breaker of triage is open: it isolates no more nodes until a person has looked "
                       "(muster triage)")
    if newest_sweep(store, now) is None:
        said.insert(0, "no sweep is stored: muster check --store")
    return said


def _work(read: _Read, known: Iterable[StoredIncident]) -> list[dict[str, Any]]:
    """Open work by owner, the most urgent first: incidents, then what nodes have in common. What an incident's
    owner has to do on its nodes is in the incident."""
    found: dict[str, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
    taken: set[tuple[str, str]] = set()
    theirs: dict[str, set[str]] = defaultdict(set)
    for one in known:
        if one.ended is None:
            names = [member.node for member in one.members if member.ended is None]
            taken.update((one.owner, name) for name in names)
            theirs[one.owner].update(names)
            found[one.owner].append((100, _item(
                f"incident {one.id}: {clean(named(one.kind, one.place), 80)}", names, one.began,
                f"muster incident show {one.id}")))
    groups: dict[tuple[str, str, str, int], list[NodeRow]] = defaultdict(list)
    for each in read.rows:
        said = read.turns[each.node]
        if said.owner and (said.owner, each.node) not in taken:
            groups[said.owner, said.what.partition(" (")[0], said.command, said.urgency].append(each)
    for (owner, what, command, urgency), rows in groups.items():
        began = min((each.since for each in rows if each.since is not None), default=None)
        names = [each.node for each in rows]
        theirs[owner].update(names)
        # A ticket is of one node.
        of = names[:1] if command.startswith("muster ticket") else names
        found[owner].append((urgency, _item(what, names, began, typed(command, fold(of)))))
    lines = []
    for owner, items in sorted(found.items(), key=lambda each: -max(urgency for urgency, _ in each[1])):
        items.sort(key=lambda each: (-each[0], -int(each[1]["count"])))
        lines.append({"owner": owner, "nodes": len(theirs[owner]),
                      "items": [item for _, item in items[:_MOST_WORK]], "more": max(0, len(items) - _MOST_WORK)})
    return lines


def _item(what: str, names: Collection[str], since: float | None, command: str) -> dict[str, Any]:
    return {"what": clean(what, 200), "count": len(names), "nodes": clean(fold(names), _MOST_NAMES),
            "since": since, "next": clean(command, 400)}


def _incident(one: StoredIncident, read: _Read) -> dict[str, Any]:
    names = [member.node for member in one.members if member.ended is None]
    return {"id": one.id, "where": clean(named(one.kind, one.place), 80), "owner": one.owner,
            "why": clean(one.why, 400), "symptoms": [clean(each, 200) for each in one.symptoms[:5]],
            "began": one.began, "seen": one.seen, "count": len(names), "nodes": clean(fold(names), _MOST_NAMES),
            "isolated": sum(each.isolation is not Isolation.NONE for each in read.rows if one.id in each.incidents),
            "next": f"muster incident show {one.id}"}


def _novelties(found: Iterable[Problem], names: Collection[str]) -> list[dict[str, Any]]:
    """What kernel logs show that healthy nodes do not, by message: the newest first."""
    groups: dict[tuple[str, str], list[Problem]] = defaultdict(list)
    for one in found:
        if one.rule in _NOVEL and one.status == "fail" and one.node in names:
            groups[one.rule, clean(one.observed, 240)].append(one)
    lines: list[dict[str, Any]] = [{"rule": rule, "text": text, "expected": clean(held[0].expected, 160),
              "count": len({one.node for one in held}),
              "nodes": clean(fold({one.node for one in held}), _MOST_NAMES),
              "began": min(one.began for one in held), "seen": max(one.seen for one in held)}
             for (rule, text), held in groups.items()]
    return sorted(lines, key=lambda each: -each["began"])[:_MOST_NOVELTIES]


def _without_nodes(burnin: dict[str, Any] | None) -> dict[str, Any] | None:
    return {key: value for key, value in burnin.items() if key != "nodes"} if burnin is not None else None


def _by_node(actions: Iterable[ledger.LedgerEntry]) -> dict[str, list[ledger.LedgerEntry]]:
    found: dict[str, list[ledger.LedgerEntry]] = defaultdict(list)
    for line in actions:
        found[line.node].append(line)
    return found


def _node(
    one: NodeRow, read: _Read, shown: Findings, times: Mapping[str, Sequence[Spell]],
    actions: Mapping[str, Sequence[ledger.LedgerEntry]], grown: Mapping[str, Any], burnin: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """One node; what is empty is left out."""
    name, node, standing, said = one.node, read.nodes[one.node], read.standings[one.node], read.turns[one.node]
    certificate = read.certificates[name]["certificate"]
    held = times.get(name, ())
    entry = {
        "node": name, "sku": standing.sku, "rack": clean(node.rack or "", 60),
        "leaf": clean(listed(list(read.certificates[name]["leaf"]), 4), 80),
        "lifecycle": "" if one.in_service else one.lifecycle, "state": one.state,
        "seen": int(one.seen) if one.seen is not None else None, "stale": one.stale,
        "since": int(one.since) if one.since is not None else None,
        "owner": said.owner,
        "also": sorted({read.incident_owners[number] for number in one.incidents
                        if number in read.incident_owners} - {said.owner}), "turn": clean(said.what, 200), "next": typed(said.command, name),
        "isolation": one.isolation.value if one.isolation is not Isolation.NONE else "",
        "repair": one.repair, "fault": one.fault, "why": clean(one.why, 240) if one.state != HEALTHY or one.fault else "",
        "cordon": clean(one.cordon, 80), "silenced": one.silenced, "rma": clean(one.rma, 80),
        "hidden": clean(one.hidden, 200), "incidents": list(one.incidents),
        "by_agent": int(one.by_agent) if one.by_agent is not None else None,
        "gate": standing.gate, "gate_why": clean(standing.why.why, 200) if standing.why is not None else "",
        "lent": standing.held if not standing.why else "",
        "certificate": [certificate["kind"], certificate["stage"], certificate["at"]] if certificate else None,
        "burnin": burnin["nodes"].get(name, "") if burnin is not None and "nodes" in burnin else "",
        "findings": shown.of.get(name), "more": shown.more.get(name),
        "states": [[spell.state, int(spell.began), int(spell.seen)] for spell in held[-_MOST_SPELLS:]]
        if len(held) > 1 else None,
        "actions": [[int(line.time), clean(line.who, 40), clean(line.action, 60), clean(line.why, 160),
                     clean(line.outcome if line.outcome is not None else "not finished", 120)]
                    for line in actions.get(name, ())[-_MOST_ACTIONS:]],
        "trends": grown.get(name),
    }
    return {key: value for key, value in entry.items() if value not in (None, "", 0, False, [])}
