"""What of a command's document has to stay as it is: states, findings, owners, acts; no times, and no words,
which may get better."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from inventory.nodeset import fold

View = dict[str, Any]


REST = "*"          # every node that was reached and is not named beside it


def sweep(document: Mapping[str, Any]) -> View:
    """States by nodes; by rule, what was said of which nodes, or of all that were reached."""
    said: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for node in document["nodes"]:
        for result in node["results"]:
            what = [result["status"]]
            if result["status"] in ("fail", "unknown"):
                what += [result["severity"], result["origin"], result["owner"], *sorted(
                    f"[{found['subject']}: {found['observed']}{_owner(found)}]"
                    for found in result["findings"])]
            said[result["rule"]][_line(what)].append(node["node"])
    states = _folded((node["state"], node["node"]) for node in document["nodes"])
    unreached = {node["node"]: node["reason"].partition(":")[0]
                 for node in document["nodes"] if not node["results"]}
    reached = len(document["nodes"]) - len(unreached)
    return {"states": states, "unreached": unreached,
            "rules": {rule: _of_rule(by, reached) for rule, by in sorted(said.items())}}


def _of_rule(by: Mapping[str, list[str]], reached: int) -> str | dict[str, str]:
    """By what was said, of which nodes. What was said of most is said of the rest, where the rule has a
    result for each that was reached."""
    most = max(by, key=lambda what: len(by[what]))
    rest = sum(map(len, by.values())) == reached and len(by[most]) > reached / 2
    if rest and len(by) == 1:
        return most
    return {what: REST if rest and what == most else fold(nodes) for what, nodes in sorted(by.items())}


def explained(document: Mapping[str, Any]) -> View:
    """What a file shows: of whom, how sure, whose, by which rule, in which lines."""
    return {"kind": document["kind"], "wrong": document["wrong"], "causes": [
        _line((cause["subject"], cause["sure"], cause["severity"], cause["owner"], cause["by"],
               cause["count"],
               "symptom" if cause["symptom"] else "cause", "lines",
               *(line["line"] for line in cause["lines"])))
        for cause in document["causes"]]}


def blamed(document: Mapping[str, Any]) -> View:
    """Who is suspected, how surely, and of what kind the evidence is."""
    return {"found": document["found"],
            "nodes": fold(document["nodes"]) if document["nodes"] else "", "suspects": [
                {"who": _line((suspect["node"] or suspect["shared"], suspect["certainty"], suspect["owner"])),
                 "evidence": [_line((one["node"], one["weight"], one["rank"], one["owner"],
                                     "sure" if one["sure"] else "unsure"))
                              for one in suspect["evidence"]]}
                for suspect in document["suspects"]]}


def triaged(document: Mapping[str, Any]) -> View:
    """What is to be done to whom and why, what is kept back, and what explains several nodes."""
    return {
        "breaker": document["breaker"]["open"], "unmeasured": _fold(document["unmeasured"]),
        "incidents": [[one["kind"], one["owner"], _fold(one["nodes"])] for one in document["incidents"]],
        "steps": _folded((step["act"], step["node"]) for step in document["steps"]),
        "withheld": _folded((_line((one["act"], one["fault"], one["by_breaker"])), one["node"])
                            for one in document["withheld"]),
        "verdicts": _folded((_line((one["isolation"], one["repair"], one["owner"], one["fault"], *(
            f"[{proof['rule']} {proof['subject']} x{proof['sweeps']}]" for proof in one["evidence"]))),
                             one["node"])
            for one in document["verdicts"]),
    }


def stands(document: Mapping[str, Any]) -> View:
    return _folded((_line((one["state"], one["isolation"], one["repair"], one["owner"], one["fault"],
                           len(one["incidents"]))), one["node"])
                   for one in document["nodes"])


def answered(document: Mapping[str, Any]) -> View:
    """What the gate says, and to whom it is closed."""
    return {"gate": document["gate"], "nodes": document["nodes"],
            "why": _folded((one["gate"], one["node"] or "-") for one in document["why"])}


def brought_up(document: Mapping[str, Any]) -> View:
    """How many machines are through each step, and where each stands, whose it is and which part."""
    return {
        "stands": document["machines_by_stand"],
        "through": {step["step"]: step["through"] for step in document["steps"]},
        "machines": {one["node"]: _line((one["step"], one["stand"], one["owner"], *(
            f"[{trouble['step']} {trouble['owner']} "
            f"{_line((trouble['part'], trouble['slot'], trouble['serial']))}]"
            for trouble in one["troubles"]))) for one in document["machines"]},
    }


def punch_list(text: str) -> View:
    """Who has to go where for which part, by the table of the punch list."""
    rows = csv.DictReader(io.StringIO(text))
    return _folded((_line(row[name] for name in ("owner", "step", "part", "slot", "serial")), row["node"])
                   for row in rows)


def _owner(found: Mapping[str, Any]) -> str:
    return f", {found['owner']}" if found.get("owner") else ""


def _line(words: Iterable[object]) -> str:
    return " ".join("-" if word is None or word == "" else str(word) for word in words)


def _fold(nodes: Iterable[str]) -> str:
    names = list(nodes)
    return fold(names) if names else ""


def _folded(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    by: dict[str, list[str]] = defaultdict(list)
    for what, node in pairs:
        by[what].append(node)
    return {what: _fold(nodes) for what, nodes in sorted(by.items())}
