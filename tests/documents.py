"""Muster's documents in tests: validated by the JSON Schemas in the package, and read whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
from referencing import Registry, Resource

from inventory.nodeset import expand

SCHEMAS = Path(__file__).resolve().parent.parent / "healthcheck/schemas"


def schema(name: str) -> dict[str, Any]:
    """The schema in the file of this name."""
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.json").read_text())
    return found


@cache
def _validator(name: str) -> Any:
    whole = [schema(path.stem) for path in SCHEMAS.glob("*.json")]
    named = Registry().with_resources((one["$id"], Resource.from_contents(one))
                                      for one in whole if "$id" in one)
    return jsonschema.Draft202012Validator(schema(name), registry=named)


def validate(document: Any, name: str) -> None:
    """Raises jsonschema.ValidationError where the document is not as the schema says."""
    _validator(name).validate(document)


def all_results(document: Mapping[str, Any]) -> dict[str, Any]:
    """A muster.check/2 as `--full` writes it: what nodes do not list is taken from `rules`."""
    unlisted: dict[str, list[dict[str, Any]]] = {}
    for rule in document["rules"]:
        names = expand(document.get("node_sets", {}).get(rule["nodes"], rule["nodes"]))
        assert len(names) == rule["count"], rule
        for name in names:
            unlisted.setdefault(name, []).append({
                "rule": rule["rule"], "check": rule["check"], "status": rule["status"],
                "severity": rule["severity"],
                "findings": [], "reason": rule["reason"], "origin": None, "remedy": "", "owner": None})
    nodes = [{**node, "results": sorted([*node["results"], *unlisted.pop(node["node"], ())],
                                        key=lambda result: str(result["rule"]))}
             for node in document["nodes"]]
    assert not unlisted, f"in rules, but not in nodes: {sorted(unlisted)}"
    return {**{name: value for name, value in document.items() if name != "node_sets"},
            "full": True, "nodes": nodes, "rules": []}
