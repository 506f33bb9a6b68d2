"""Faults of nodes' ports that one delivery lot of cables, modules or adapters shares: one incident of the
vendor. Pure.

A part counts with the symptoms that a bad part of its kind can cause. Nodes whose symptom a place explains
already (a leaf, a rack, a driver) bear no witness on lots, and neither does a lot whose faulty parts sit in
fewer nodes than an incident needs. The incident explains: verdicts of nodes stay as they are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

from healthcheck.model.faultkind import Of
from healthcheck.model.outcome import Owner
from healthcheck.model.verdict import Incident
from healthcheck.triage.correlate import Correlation, Showing
from healthcheck.triage.likelihood import words
from healthcheck.triage.lots import ADAPTER, CABLE, LotIncident, PartLot, faulty_lots
from healthcheck.triage.past import FleetHistory
from healthcheck.triage.policy import IncidentPolicy
from healthcheck.triage.symptom import about
from inventory.nodeset import natural
from inventory.text import many

LOT = "lot"
# What a bad part of a kind can cause, by the rules that find it.
_CAUSES: Mapping[str, frozenset[str]] = MappingProxyType({
    CABLE: frozenset({
        "optics-rx-power", "optics-tx-power", "optics-alarm", "optics-temperature", "port-ber", "port-state",
        "port-rate", "port-width", "port-link-downed", "port-errors-fatal", "port-errors-rate",
        "port-flapping", "port-down-since", "roce-symbol-errors", "roce-corrected-bits",
        "netdev-carrier-changes"}),
    ADAPTER: frozenset({
        "hca-log-fatal", "hca-log", "hca-pcie-width", "hca-pcie-speed", "optics-adapter-temperature",
        "port-ber", "port-errors-fatal", "port-errors-rate"})})
RULES = frozenset[str]().union(*_CAUSES.values())
_SHOWN = 4


def lot_incidents(
    fleet: FleetHistory, showing: Showing, explained: Iterable[Correlation], policy: IncidentPolicy,
) -> list[Incident]:
    """An incident for each lot whose parts fail far more often than others', and for each that is open and of
    which any part fails still. `explained` are the places that were found."""
    if not fleet.parts:
        return []
    elsewhere = {(name, node) for one in explained for name in one.symptoms for node in one.nodes}
    serving = {past.node for past in fleet.nodes if past.in_service}
    faulty = {tried: subjects for tried, subjects in _faulty(fleet, showing, elsewhere) if subjects}
    found: dict[str, list[tuple[str, LotIncident, frozenset[str]]]] = defaultdict(list)
    for (name, kind), subjects in sorted(faulty.items()):
        known = {part.key: part.lot for node in serving for part in fleet.parts.get(node, ())
                 if part.kind == kind}
        for one in faulty_lots(known, subjects, policy.at_least, policy.likelihood, len(faulty)):
            nodes = frozenset(node for key in one.subjects for node in subjects[key])
            if len(nodes) >= policy.at_least:
                found[f"{kind} {one.lot}"].append((name, one, nodes))
    made = [_incident(cause, those) for cause, those in sorted(found.items())]
    return [*made, *_lasting(fleet, faulty, {one.cause for one in made})]


def _faulty(
    fleet: FleetHistory, showing: Showing, elsewhere: set[tuple[str, str]],
) -> Iterator[tuple[tuple[str, str], dict[str, set[str]]]]:
    """By symptom and kind of part, the faulty parts by key with their nodes."""
    for name, nodes in showing.items():
        of, rule = about(name)
        for kind in (kind for kind, rules in _CAUSES.items() if of is Of.FAIL and rule in rules):
            subjects: dict[str, set[str]] = defaultdict(set)
            for node, problems in nodes.items():
                for part in fleet.parts.get(node, ()):
                    if part.kind == kind and (name, node) not in elsewhere and any(map(part.is_of, problems)):
                        subjects[part.key].add(node)
            yield (name, kind), subjects


def _incident(cause: str, those: Sequence[tuple[str, LotIncident, frozenset[str]]]) -> Incident:
    name, most, _ = max(those, key=lambda one: one[1].likelihood)
    nodes = tuple(sorted(frozenset().union(*(nodes for _, _, nodes in those)), key=natural))
    names = tuple(name for name, _, _ in those)
    shown = ", ".join(most.subjects[:_SHOWN]) + (" ..." if len(most.subjects) > _SHOWN else "")
    why = (f"{cause}: {name} of {len(most.subjects)} of its {most.inside} ({shown}), of "
           f"{many(most.had, 'part')} with it among {most.known} whose lot is known; "
           f"{words(most.likelihood)}; ask the vendor; it isolates no node")
    return Incident(LOT, cause, nodes, why, Owner.VENDOR, symptoms=names, likelihood=most.likelihood)


def _lasting(
    fleet: FleetHistory, faulty: Mapping[tuple[str, str], Mapping[str, set[str]]], found: set[str],
) -> Iterator[Incident]:
    """Open incidents go on with the parts that were not exchanged yet."""
    lots = {(part.key, f"{part.kind} {lot}") for parts in fleet.parts.values() for part in parts
            for lot in (part.lot, PartLot(part.lot.vendor, part.lot.part))}
    for known in fleet.incidents:
        if known.kind != LOT or known.ended is not None or known.place in found:
            continue
        nodes = {node for (name, _), subjects in faulty.items() if name in known.symptoms
                 for key, held in subjects.items() if (key, known.place) in lots for node in held}
        if nodes:
            yield Incident(LOT, known.place, tuple(sorted(nodes, key=natural)), known.why, Owner.VENDOR,
                           symptoms=known.symptoms, likelihood=known.likelihood)
