"""The muster.check/2 document: a sweep's results for programs, written node by node.

A result that says nothing of its node alone (passed without a note, or skipped) is counted at the node, and
listed once by rule with the names of all such nodes folded. A long node set is written once, in `node_sets`,
and rules give its name: names that do not fold would be there once for each of some 250 rules. With `full`,
nodes list all their results, and nothing is left for that list. Whatever failed, is unknown or passed with a
note is always at its node.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from healthcheck.model.cause import causes, rest
from healthcheck.model.outcome import Finding, NodeReport, NodeState, Result, Status, origin_of
from inventory.nodeset import fold
from inventory.text import clean

SCHEMA = "muster.check/2"
_LONG = 1000        # characters of a node set


def summary(reports: Iterable[NodeReport]) -> dict[str, int]:
    """How many of the nodes that were visited are in each state, best first; then, if there are any, how many
    were left out, being healthy by their agents."""
    counts = Counter(report.state if report.agent is None else None for report in reports)
    found = {state.value: counts[state]
             for state in (NodeState.HEALTHY, NodeState.DEGRADED, NodeState.UNHEALTHY, NodeState.UNKNOWN)}
    return {**found, "healthy_by_agent": counts[None]} if counts[None] else found


def document(reports: Sequence[NodeReport], *, started: str, finished: str, partial: bool,
             full: bool = False) -> dict[str, Any]:
    """The whole document at once; `as_json` and `as_jsonl` write the same without holding it."""
    rest = _Rest(full)
    return {**_head(reports, started, finished, partial, full),
            "nodes": [rest.node(report) for report in reports], **rest.entries()}


def as_json(reports: Sequence[NodeReport], *, started: str, finished: str, partial: bool,
            full: bool = False) -> Iterator[str]:
    """The document in pieces: a line for each result. One that was cut off is no JSON.

    ASCII, so that no byte from a node can act on a terminal.
    """
    rest = _Rest(full)
    yield "{\n"
    for name, value in _head(reports, started, finished, partial, full).items():
        yield f" {json.dumps(name)}: {json.dumps(value)},\n"
    yield ' "nodes": ['
    between = "\n  "
    for report in reports:
        entry = rest.node(report)
        results = ",\n   ".join(map(json.dumps, entry.pop("results")))
        lines = f"\n   {results}" if results else ""
        yield f'{between}{json.dumps(entry)[:-1]}, "results": [{lines}]}}'
        between = ",\n  "
    yield '\n ],\n "rules": ['
    between = "\n  "
    for rule in rest.rules():
        yield f"{between}{json.dumps(rule)}"
        between = ",\n  "
    yield "\n ]"
    between = ',\n "node_sets": {\n  '
    for name, nodes in rest.long_sets.items():
        yield f"{between}{json.dumps(name)}: {json.dumps(nodes)}"
        between = ",\n  "
    yield "\n }\n}\n" if rest.long_sets else "\n}\n"


def as_jsonl(reports: Sequence[NodeReport], *, started: str, finished: str, partial: bool,
             full: bool = False) -> Iterator[str]:
    """One line for each node, and a last line with everything else: by its `schema` a reader knows that
    nothing is missing before it."""
    rest = _Rest(full)
    for report in reports:
        yield f"{_compact(rest.node(report))}\n"
    yield f"{_compact({**_head(reports, started, finished, partial, full), **rest.entries()})}\n"


def node(report: NodeReport) -> dict[str, Any]:
    """One node with all its results. `service` is false for a node that does not count in the exit code.
    `origin` says whose doing an unknown state is.

    `sku` is null if none was named or the node was not reached. `sku_basis` is there where no one named one
    and the node was taken for a machine without GPUs, or shows none and was not taken for one: why. `probes`
    is null for a node that was not reached; else how many its rules asked for, and which were not seen
    without root. `causes` are there where a subject that does not answer is why rules are unknown, each once
    with those rules. `by_agent` is there for a node that was left out, which is healthy by its agent alone:
    when and by what the agent judged, and from which target Prometheus has it.
    """
    return _node(report, report.results)


def _node(report: NodeReport, listed: Iterable[Result]) -> dict[str, Any]:
    seen = report.probes
    counts = Counter(result.status for result in report.results)
    origin, agent = origin_of(report), report.agent
    by_agent = {} if agent is None else {"by_agent": {"at": agent.at, "target": agent.target,
                                                      **vars(agent.basis)}}
    return {
        "node": report.node, "state": report.state.value, "reason": report.reason,
        "origin": origin.value if origin is not None else None, "service": report.in_service,
        "sku": report.sku, **({"sku_basis": report.sku_basis} if report.sku_basis else {}),
        "probes": None if seen is None else {
            "asked": seen.asked, "captured": seen.captured, "need_root": seen.need_root,
            "denied": list(seen.denied),
            **({"run_folder": clean(seen.run_folder)} if seen.run_folder else {}),
        },
        "counts": {status.value: counts[status] for status in Status}, **by_agent, **_causes(report),
        "results": [_result(result) for result in listed],
    }


def _causes(report: NodeReport) -> dict[str, Any]:
    of = {result.rule: result for result in report.results if result.findings}
    found = [{"rule": cause.rule, "subject": cause.finding.subject, "text": cause.sentence,
              "remedy": cause.finding.remedy or of[cause.rule].remedy,
              "owner": owner.value if (owner := cause.finding.owner or of[cause.rule].owner) else None,
              "rules": list(cause.rules)} for cause in causes(report.results)]
    return {"causes": found} if found else {}


class _Rest:
    """The results that nodes do not list, by rule."""

    def __init__(self, full: bool) -> None:
        self._full = full
        self._names: list[str] = []
        # Each with the nodes' numbers as runs, begin and end by turns: a fleet of equal nodes is one run.
        self._runs: dict[tuple[str, Status, str], tuple[Result, list[int]]] = {}
        self.long_sets: dict[str, str] = {}     # by name, once `rules` is at its end

    def node(self, report: NodeReport) -> dict[str, Any]:
        """The node's entry; what it does not list is kept for `rules`."""
        if self._full:
            return node(report)
        number = len(self._names)
        self._names.append(report.node)
        listed = []
        for result in report.results:
            if not _says_nothing(result):
                listed.append(result)
                continue
            _, runs = self._runs.setdefault((result.rule, result.status, result.reason), (result, []))
            if runs and runs[-1] == number:
                runs[-1] = number + 1
            else:
                runs += (number, number + 1)
        return _node(report, listed)

    def entries(self) -> dict[str, Any]:
        """The document's `rules`, and its `node_sets` if there are any."""
        rules = list(self.rules())
        return {"rules": rules, **({"node_sets": self.long_sets} if self.long_sets else {})}

    def rules(self) -> Iterator[dict[str, Any]]:
        """An entry for each rule, status and reason, in the order of rules."""
        folded: dict[tuple[int, ...], str] = {}     # most rules have the same nodes
        for rule, status, reason in sorted(self._runs, key=lambda key: (key[0], key[1].value, key[2])):
            result, runs = self._runs[rule, status, reason]
            nodes = tuple(runs)
            if nodes not in folded:
                folded[nodes] = self._set(
                    fold(name for begin, end in _pairs(runs) for name in self._names[begin:end]))
            yield {"rule": rule, "check": result.check, "status": status.value,
                   "severity": result.severity.value, "reason": reason,
                   "count": sum(end - begin for begin, end in _pairs(runs)), "nodes": folded[nodes]}


    def _set(self, nodes: str) -> str:
        """A node set, or the name of one that is long."""
        if len(nodes) <= _LONG:
            return nodes
        name = f"@{len(self.long_sets) + 1}"
        self.long_sets[name] = nodes
        return name


def _pairs(runs: Sequence[int]) -> Iterator[tuple[int, int]]:
    return zip(runs[::2], runs[1::2], strict=True)


def _says_nothing(result: Result) -> bool:
    """Whether a result says nothing of its node alone."""
    return result.status is Status.SKIPPED or (result.status is Status.PASS and not result.reason)


def _head(reports: Sequence[NodeReport], started: str, finished: str, partial: bool,
          full: bool) -> dict[str, Any]:
    """`partial` is there, and true, only when the sweep was interrupted."""
    return {"schema": SCHEMA, "started": started, "finished": finished,
            **({"partial": True} if partial else {}), "full": full, "summary": summary(reports)}


def _compact(entry: dict[str, Any]) -> str:
    return json.dumps(entry, separators=(",", ":"))


def _result(result: Result) -> dict[str, Any]:
    """`because` and `rest` are present only where another rule's finding is why something was not judged:
    those findings, and what else was not judged."""
    because = dict.fromkeys((part.rule, part.cause) for part in result.unjudged if part.cause)
    left = {"rest": rest(result)} if because and rest(result) else {}
    explained = {"because": [{"rule": rule, "subject": subject} for rule, subject in because], **left} \
        if because else {}
    return {
        "rule": result.rule, "check": result.check, "status": result.status.value,
        "severity": result.severity.value, "findings": [_finding(finding) for finding in result.findings],
        "reason": result.reason, "origin": result.origin.value if result.origin else None,
        "remedy": result.remedy, "owner": result.owner.value if result.owner else None, **explained,
    }


def _finding(finding: Finding) -> dict[str, Any]:
    """`remedy` and `owner` are present only if they differ from the rule's,
    `lines` and `log` if it was read from a log."""
    document: dict[str, Any] = {"subject": finding.subject, "observed": finding.observed,
                                "expected": finding.expected}
    if finding.remedy:
        document["remedy"] = finding.remedy
    if finding.owner is not None:
        document["owner"] = finding.owner.value
    if finding.repair is not None:
        document["repair"] = finding.repair.value
    if finding.lines:
        document["lines"] = list(finding.lines)
    if finding.log is not None:
        log = finding.log
        document["log"] = {"emitter": log.emitter, "ends": log.ends, "count": log.count, "first_s": log.first,
                           "last_s": log.last}
    return document
