"""Rules, SKUs, profiles and Xid tables as one JSON document, and a node's own settings as another.

The head makes them from YAML, for nodes without a YAML reader. The first holds all of the YAML, so that what
is read from it judges as the original does. It also holds the probes that the rules need, by node profile and
occasion, for a node whose Python is too old to work that out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from healthcheck.baseline.catalogue import Catalogue
from healthcheck.baseline.kernelrules import KernelRules
from healthcheck.checks import catalogue  # noqa: F401  (registers the checks)
from healthcheck.checks.base import CHECKS, Check
from healthcheck.config.codec import from_plain, to_plain
from healthcheck.config.nodeentry import plain_entry
from healthcheck.ruleset.profile import Profile, why_left_out
from healthcheck.ruleset.rule import Rule
from healthcheck.ruleset.ruleplain import rule_from_plain, rule_to_plain
from healthcheck.ruleset.ruleset import Ruleset
from healthcheck.ruleset.sku import Sku
from healthcheck.xid.xidtable import XidTable
from inventory.errors import UsageError
from inventory.model import Node

SCHEMA = "muster.rules/1"
AT_HOME = "judged at home"
# A profile from the inventory and one of the occasion; "" is none.
Occasion = tuple[str, str]
_SECONDS = 45.0


def compile_rules(ruleset: Ruleset) -> dict[str, Any]:
    """The document; equal rulesets give equal documents."""
    from healthcheck.watch.nodeload import LOAD

    sets, probes = {}, {}
    for (own, occasion) in _occasions(ruleset):
        made = ruleset.probe_set(_SECONDS, profiles=(own or None,), occasion=(occasion,) if occasion else ())
        # No rule judges a load; muster watch --from-agent explains slow ranks by it.
        made = dataclasses.replace(made, probes=(*made.probes, LOAD))
        probes.update({probe.id: probe.to_json() for probe in made.probes})
        limits = {"seconds": made.seconds, "reply_bytes": made.reply_bytes}
        sets[f"{own}/{occasion}"] = {**limits,
                                     **({} if made.cpu_seconds is None
                                        else {"cpu_seconds": made.cpu_seconds}),
                                     "probes": [probe.id for probe in made.probes]}
    return {
        "schema": SCHEMA, "digest": ruleset.digest,
        "rules": [_portable(rule_to_plain(rule)) for rule in ruleset.rules],
        "skus": {name: _portable(to_plain(ruleset.skus[name])) for name in sorted(ruleset.skus)},
        "profiles": {name: _portable(to_plain(ruleset.profiles[name])) for name in sorted(ruleset.profiles)},
        "xids": None if ruleset.xids is None else _portable(to_plain(ruleset.xids)),
        "kernel": None if ruleset.kernel is None else _portable(to_plain(_judged(ruleset.kernel))),
        "probes": {name: probes[name] for name in sorted(probes)}, "sets": sets,
    }


def compile_node(
    node: Node, default_sku: str | None, period: float, occasion: str, version: str,
) -> dict[str, Any]:
    """A node's own settings, its interval and occasion (a profile, or empty);
    nothing about how it is reached."""
    return {"schema": "muster.node/1", "node": plain_entry(node), "default_sku": default_sku,
            "period": period, "occasion": occasion, "version": version}


def _occasions(ruleset: Ruleset) -> Iterator[Occasion]:
    names = ("", *sorted(ruleset.profiles))
    for own in names:
        for occasion in names:
            profiles = ruleset.named(own or None, occasion or None)
            if not all(why_left_out(rule, profiles) for rule in ruleset.rules):
                yield own, occasion


def read_rules(document: Any) -> Ruleset:
    """The ruleset of a document; raises UsageError for a bad one."""
    try:
        if document["schema"] != SCHEMA:
            raise ValueError(f"its schema is {ascii(document['schema'])[:60]}, expected {SCHEMA}")
        xids = None if document["xids"] is None else from_plain(XidTable, document["xids"])
        kernel = None if document["kernel"] is None else from_plain(KernelRules, document["kernel"])
        return Ruleset(
            tuple(_rule(rule) for rule in document["rules"]),
            from_plain(Mapping[str, Sku], document["skus"]), document["digest"],
            from_plain(Mapping[str, Profile], document["profiles"]),
            None if xids is None else lambda: xids, None if kernel is None else lambda: kernel)
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        said = f"{type(error).__name__}: {str(error)[:200]}"
        raise UsageError(f"the compiled rules cannot be read ({said}); install the agent again") from error


def _judged(kernel: KernelRules) -> KernelRules:
    """Without what only people read: examples, and unapproved baseline entries."""
    from healthcheck.baseline.learn import lean

    entries = tuple(dataclasses.replace(entry, examples=()) for entry in kernel.catalogue.entries
                    if not entry.disabled)
    return KernelRules(Catalogue(entries), tuple(map(lean, kernel.baselines)))


def on_a_node(ruleset: Ruleset) -> Ruleset:
    """The same rules without those that need other nodes: the head judges these by the same recording."""
    return dataclasses.replace(ruleset,
                               rules=tuple(dataclasses.replace(rule, left_out=rule.left_out or AT_HOME,
                                                               disabled="") if rule.checked.fleet else rule
                                           for rule in ruleset.rules))


def _rule(plain: Mapping[str, Any]) -> Rule:
    if plain["check"] in CHECKS:
        return rule_from_plain(plain)
    # A plug-in's check, whose code stays on the head
    check = Check(plain["check"], lambda: iter(()), (), {}, plain["fleet"])
    return dataclasses.replace(rule_from_plain({**plain, "parameters": {}}, check), disabled="",
                               left_out=plain["left_out"] or f"{AT_HOME}: its check is a plug-in's")


def _portable(plain: Any) -> Any:
    """Packaged files by name only, because their folder differs between heads."""
    from healthcheck.config.rulesfolder import display_name

    def walk(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {name: walk(held, name) for name, held in value.items()}
        if key in ("file", "files", "origin_file", "overridden") and value:
            return [display_name(one) for one in value] if isinstance(value, list) else display_name(value)
        return [walk(item, "") for item in value] if isinstance(value, list) else value

    return walk(plain, "")
