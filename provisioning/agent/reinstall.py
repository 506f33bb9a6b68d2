"""Upgrades and rolls back agents with each node's own settings, except for those given now."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from healthcheck.ruleset.ruleset import Ruleset
from inventory.errors import UsageError
from inventory.model import Node
from inventory.text import clean
from inventory.transport.base import Limits, Transport
from provisioning.agent import units
from provisioning.agent.bundle import Bundle
from provisioning.agent.install import AgentAction, AgentRequest, AgentResult, act

_PATH = re.compile(r"(?:/[A-Za-z0-9_./+-]{1,200})?")


def act_keeping(
    nodes: Sequence[Node], transport: Transport, desired: AgentRequest, given: Collection[str],
    limits: Limits, ruleset: Ruleset, bundle: Bundle | None = None, helped: Sequence[Node] = (),
) -> Iterator[AgentResult]:
    """As `install.act`, but fields that are not `given` stay as installed on each node: asked first, nodes of
    one mind are done together. An upgrade keeps what is in use, a rollback what was before."""
    of = {node.name: node for node in nodes}
    groups: dict[AgentRequest, list[Node]] = {}
    # By the others the version before was made, and goes on as it was.
    keep = ("period", "textfile", "exporter") if desired.do is AgentAction.ROLLBACK else (
        "period", "textfile", "exporter", "occasion", "default_sku")
    for done in act(nodes, transport, AgentRequest(AgentAction.STATUS, root=desired.root), limits):
        if not done.ok:
            yield done
            continue
        version, message = (
            "previous", "before") if desired.do is AgentAction.ROLLBACK else ("current", "installed")
        own = desired
        if isinstance(done.report.get(version), str):
            try:
                own = replace(desired,
                              **_installed(done.report.get(message),
                                           [name for name in keep if name not in given], ruleset))
            except UsageError as error:
                yield AgentResult(done.node, False, str(error))
                continue
        groups.setdefault(own, []).append(of[done.node])
    for own, some in groups.items():
        yield from act(some, transport, own, limits, bundle, [node for node in helped if node in some])


def _installed(report: object, keep: Sequence[str], ruleset: Ruleset) -> Mapping[str, Any]:
    """What a node's node.json was given, as these fields; raises UsageError for what cannot be kept."""
    if not isinstance(report, dict):
        raise UsageError(f"what is installed here cannot be read ({clean(str(report), 80)}), and so not "
                         "kept: muster agent install")
    kept = {name: report.get(name) for name in keep}
    for name, value in kept.items():
        if not _good(name, value, ruleset):
            option = {"occasion": "profile", "default_sku": "sku"}.get(name, name)
            raise UsageError(f"what was installed here cannot be kept: {option} {ascii(value)[:60]}; name it "
                             f"again with --{option}")
    return kept


def _good(name: str, value: object, ruleset: Ruleset) -> bool:
    if name == "period":
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return number and math.isfinite(value) and 10 <= value <= 86400  # type: ignore[arg-type, operator]
    if name == "occasion":
        return value == "" or value in ruleset.profiles
    if value is None:
        return True
    if not isinstance(value, str):
        return False
    if name == "default_sku":
        return value in ruleset.skus
    if name == "textfile":
        return _PATH.fullmatch(value) is not None
    try:
        units.exporter(value)
    except UsageError:
        return False
    return True
