"""Checks of IMEX, through which GPUs of several nodes share memory over NVLink: each node's service, and that
the nodes of a domain agree.

NVIDIA's IMEX guide: a service communicates with those whose version and whose list of nodes are equal to its
own. Which version and which list are right, nodes with others cannot know; the domain's majority is taken.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from healthcheck.checks.base import NotJudged, check, fleet_check, listed
from healthcheck.checks.fleet import Comparison, Uncompared, read_all
from healthcheck.checks.nvlink_domain import Domain, Places, domains, nowhere, odd_in, partitions
from healthcheck.facts.imex import READY, UP, ImexDomain, ImexMember, ImexNodes
from healthcheck.facts.service import Services
from healthcheck.model.outcome import Finding
from inventory.text import many

_SERVICE = "nvidia-imex"


@check("nvlink_imex.state")
def nvlink_imex_state(imex_domain: ImexDomain, services: Services, *, expected: bool) -> Iterator[Finding]:
    """Where GPUs of several nodes share memory over NVLink, this node's IMEX service is ready: it has its
    GPUs and as many of its peers as it is configured to wait for."""
    if not expected:
        raise NotJudged("there are no NVLinks between nodes, as the SKU says")
    if services.imex.active != "active":
        raise NotJudged("nvidia-imex does not run, which nvlink-fabric-imex judges")
    if imex_domain.own.status != READY:
        yield Finding(imex_domain.own.status, READY, _SERVICE)


@fleet_check("fleet.nvlink_imex_nodes")
def fleet_nvlink_imex_nodes(imex_nodes: Mapping[str, ImexNodes], nvlink_place: Places) -> Comparison:
    """All nodes of an NVLink domain (or of a partition of it) have the same list of IMEX nodes, in one order:
    a node's place in the list is its number."""
    yield from nowhere(imex_nodes, nvlink_place)
    for domain in _parts(nvlink_place):
        yield from _odd_lists(domain, imex_nodes)


def _odd_lists(domain: Domain, imex_nodes: Mapping[str, ImexNodes]) -> Comparison:
    held = read_all({node: imex_nodes[node] for node in domain.nodes}, lambda fact: fact.nodes)
    counts = Counter(held.values())
    usual = counts.most_common(1)[0][0] if counts else ()
    rows = [(node, imex_nodes[node].name, _listing(nodes, usual)) for node, nodes in held.items()]
    yield from odd_in(domain, rows, "list", "lists", few="IMEX may be set up by partition, or by job")


def _listing(nodes: tuple[str, ...], usual: tuple[str, ...]) -> str:
    """A list by its length and a digest of it, and how it differs from the usual one."""
    digest = hashlib.sha256("\n".join(nodes).encode()).hexdigest()[:8]
    lacking = [node for node in usual if node not in nodes]
    more = [node for node in nodes if node not in usual]
    words = [f"{many(len(nodes), 'node')} ({digest})", f"without {listed(lacking)}" if lacking else "",
             f"with {listed(more)}" if more else "",
             "in another order" if nodes != usual and sorted(nodes) == sorted(usual) else ""]
    return ", ".join(filter(None, words))


def _parts(places: Places) -> Iterator[Domain]:
    for domain in domains(places):
        yield from partitions(domain, places)


@fleet_check("fleet.nvlink_imex_domain")
def fleet_nvlink_imex_domain(
    imex_domain: Mapping[str, ImexDomain], imex_nodes: Mapping[str, ImexNodes], nvlink_place: Places,
) -> Comparison:
    """The nodes of an NVLink domain (or of a partition of it) see each other's IMEX services ready, of one
    version and connected.

    A node that says itself that it is not ready is for nvlink_imex.state, and one with another list of nodes
    for fleet.nvlink_imex_nodes; here it is what its peers see and it does not. Where the domain is not up
    through another node, a node is visibly not judged.
    """
    yield from nowhere(imex_domain, nvlink_place)
    for domain in _parts(nvlink_place):
        views = read_all({node: imex_domain[node] for node in domain.nodes},
                         lambda fact: (fact.status, fact.members, fact.own))
        owners = {own.host: node for node, (_, _, own) in views.items()}
        seen = _seen({node: members for node, (_, members, _) in views.items()})
        away = {host: found for host, members in seen.items() if (found := _not_ready(members))}
        causes = {owners.get(host, host): state for host, (state, _, _) in away.items()}
        causes |= {node: "another list of nodes" for node, one in _odd_lists(domain, imex_nodes)
                   if isinstance(one, Finding)}
        versions = [(owners[host], _SERVICE, f"version {version}") for host, members in seen.items()
                    if host in owners and (version := _usual(member.version for member in members.values()))]
        accused = set()
        for node, one in odd_in(domain, versions, "version", "IMEX services"):
            if isinstance(one, Finding):
                causes[node] = str(one.observed)
                accused.add(node)
            yield node, one
        for host, (state, number, of) in away.items():
            if host in owners and views[owners[host]][2].status == READY:
                accused.add(owners[host])
                yield owners[host], Finding(
                    f"{state}, as {number} of {of} nodes see it, and {READY} by itself", READY, _SERVICE)
        for node, cut in list(_cut_off(views, owners, causes)):
            causes[node] = "not connected"
            accused.add(node)
            yield node, cut
        why = listed([f"{node} ({cause})" for node, cause in sorted(causes.items())])
        for node, (status, _, _) in views.items():
            if status != UP and node not in accused:
                yield node, Uncompared(imex_domain[node].name, f"the IMEX domain is {status}: "
                                       + (why or "no member that the nodes see is the cause"))


View = tuple[str, tuple[ImexMember, ...], ImexMember]


def _seen(views: Mapping[str, tuple[ImexMember, ...]]) -> dict[str, dict[str, ImexMember]]:
    """By member's address what each node sees of it."""
    found: defaultdict[str, dict[str, ImexMember]] = defaultdict(dict)
    for node, members in views.items():
        for member in members:
            found[member.host][node] = member
    return found


def _usual(values: Iterator[str]) -> str:
    """The commonest of the known values; empty without any."""
    counts = Counter(filter(None, values))
    return counts.most_common(1)[0][0] if counts else ""


def _not_ready(seen_by: Mapping[str, ImexMember]) -> tuple[str, int, int] | None:
    """The state in which most nodes see a member that is not ready, how many, and of how many."""
    states = [member.status for member in seen_by.values()]
    others = [status for status in states if status != READY]
    if 2 * len(others) <= len(states):
        return None
    return Counter(others).most_common(1)[0][0], len(others), len(states)


def _cut_off(views: Mapping[str, View], owners: Mapping[str, str],
             causes: Mapping[str, str]) -> Iterator[tuple[str, Finding]]:
    """Nodes that lack connections to members with which nothing else is wrong; where one lacks most of its
    own, its peers are not accused."""
    lacking = {}
    for node, (_, members, own) in views.items():
        if node not in causes:
            well = {member.host for member in members
                    if owners.get(member.host, member.host) not in causes} - {own.host}
            lacking[node] = ([(host, state) for host, state in own.unconnected if host in well], len(well))
    alone = {node for node, (hosts, of) in lacking.items() if 2 * len(hosts) > of}
    for node, (hosts, of) in lacking.items():
        left = [(host, state) for host, state in hosts if node in alone or owners.get(host) not in alone]
        if left:
            words = listed([f"{owners.get(host, host)} {state}" for host, state in left])
            yield node, Finding(f"not connected with {len(left)} of {many(of, 'node')}: {words}", "connected",
                                _SERVICE)
