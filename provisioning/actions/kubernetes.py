"""Kubernetes: cordons as `kubenode` has them, read, changed and replaced through the API server; pods that use GPUs; new nodes; verdicts.

A node of the inventory is found by its name there, which a template makes of its own ("{node}.example.org"), or by a label that carries it.

Rights, as a ClusterRole has them: nodes get, list, update; pods list (for leases); nodes/status patch (for `condition: true`).
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from inventory.model import InKubernetes
from inventory.text import clean, short
from provisioning.actions.base import ActionError, Condition, Held, Holder, number_of
from provisioning.actions.kubeapi import Api, Json, Refused
from provisioning.actions.kubenode import cordoned, gpu_pod, held_of, proven, released, unproven

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CONDITION = "MusterHealthy"
# Up to so many nodes are asked for one by one; from there on the whole list costs less.
_FEW = 8
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and .../labels/
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True)
class _Seen:
    """What is kept of a node: the name there, and what was asked of it. `wanted` is the inventory's name."""

    wanted: str
    name: str
    held: Held
    unproven: bool
    condition: tuple[str, ...]


class Kubernetes:
    """The cluster that the inventory names; nothing is asked before the first question."""

    name = "kubernetes"

    def __init__(self, there: InKubernetes, api: Api) -> None:
        self._there = there
        self._api = api

    def held(self, nodes: Collection[str]) -> Mapping[str, Held]:
        """Who holds each node; two nodes there that carry one name are nobody's that we would touch."""
        found = self._seen(nodes)
        return {node: _one(found[node]) if node in found else Held(Holder.ABSENT) for node in sorted(set(nodes))}

    def isolate(self, node: str, reason: str) -> None:
        """Unschedulable, our taint, our mark; where somebody was faster that is told, and theirs stays."""
        number = number_of(reason)

        def edit(document: Json) -> Json | None:
            held = held_of(document)
            if held.number == number:
                return None
            if held.holder is not Holder.NOBODY:
                raise ActionError(f"{node}: others hold it now: {held.reason}")
            return cordoned(document, reason)

        self._change(node, edit)

    def release(self, node: str) -> None:
        """Takes away what is ours, and nothing else."""
        self._change(node, lambda document: released(document) if held_of(document).number is not None else None)

    def running(self, nodes: Collection[str]) -> Mapping[str, str]:
        """By node which pod may use a GPU of it; nodes without one are left out. Pods that wait for their node's kubelet count."""
        names = {one.name: node for node, found in self._seen(nodes).items() for one in found}
        busy: dict[str, str] = {}

        def take(pod: Json) -> None:
            spec = pod.get("spec")
            where = names.get(str(spec.get("nodeName"))) if isinstance(spec, dict) else None
            if where is not None and (why := gpu_pod(pod)):
                busy.setdefault(where, f"{why} there")

        live = "status.phase!=Succeeded,status.phase!=Failed"
        chosen = [f"spec.nodeName={name}" for name in names] if len(names) <= _FEW else ["spec.nodeName!="]
        for selector in chosen:
            self._api.collect(PODS, {"fieldSelector": f"{selector},{live}"}, take)
        return busy

    def unproven(self, nodes: Collection[str]) -> frozenset[str]:
        """Those that bear the startup taint."""
        return frozenset(node for node, found in self._seen(nodes).items() if any(one.unproven for one in found))

    def prove(self, node: str) -> None:
        """Takes the startup taint away."""
        self._change(node, lambda document: proven(document) if unproven(document) else None)

    def tell(self, conditions: Mapping[str, Condition]) -> None:
        """Has each node show its condition, where the inventory asks for that; one that shows it already is left alone."""
        if not self._there.condition:
            return
        now = dt.datetime.now(dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        for node, found in self._seen(conditions).items():
            said = conditions[node]
            told = (said.status, said.reason, clean(said.message, 1000))
            for one in found:
                if one.condition != told:
                    since = {} if one.condition[:1] == told[:1] else {"lastTransitionTime": now}
                    self._api.merge(f"{NODES}/{one.name}/status", {"status": {"conditions": [
                        {"type": CONDITION, "status": told[0], "reason": told[1], "message": told[2], "lastHeartbeatTime": now, **since}]}})

    def _change(self, node: str, edit: Callable[[Json], Json | None]) -> None:
        label = self._there.label
        name = self._named(node)
        if label is not None:
            found = self._seen([node]).get(node, [])
            if len(found) > 1:
                raise ActionError(_one(found).reason)
            name = found[0].name if found else None
        if name is None:
            raise ActionError(f"{node} is not known in kubernetes; see: kubectl get nodes{f' -L {label}' if label is not None else ''}")
        self._api.change(f"{NODES}/{name}", edit)

    def _named(self, node: str) -> str | None:
        """The name that the template makes of a node's; None where no node of Kubernetes can have it. A kubelet's are in lower case."""
        name = self._there.name.replace("{node}", node).lower()
        return name if _NAME.fullmatch(name) else None

    def _seen(self, nodes: Collection[str]) -> Mapping[str, list[_Seen]]:
        """What is there, by the inventory's name; one node each, unless a label is on several."""
        label = self._there.label
        if label is not None:
            fit = sorted({node for node in nodes if _LABEL.fullmatch(node)})
            if not fit:
                return {}
            selector = f"{label} in ({','.join(fit)})" if len(fit) <= _FEW else label
            wanted = {node: node for node in fit}
            return self._listed({"labelSelector": selector}, lambda about: wanted.get(_label(about, label)))
        names = {name: node for node in nodes if (name := self._named(node)) is not None}
        if len(names) > _FEW:
            return self._listed({}, lambda about: names.get(str(about.get("name"))))
        found = {}
        for name, node in names.items():
            try:
                found[node] = [_kept(self._api.get(f"{NODES}/{name}"), node)]
            except Refused as error:
                if error.status != 404:
                    raise
        return found

    def _listed(self, query: Mapping[str, str], wanted: Callable[[Json], str | None]) -> Mapping[str, list[_Seen]]:
        def take(document: Json) -> _Seen | None:
            about = document.get("metadata")
            node = wanted(about) if isinstance(about, dict) else None
            return _kept(document, node) if node is not None else None

        found: dict[str, list[_Seen]] = {}
        for one in self._api.collect(NODES, query, take):
            found.setdefault(one.wanted, []).append(one)
        return found


def _one(found: list[_Seen]) -> Held:
    if len(found) == 1:
        return found[0].held
    return Held(Holder.OTHERS, f"{len(found)} nodes of kubernetes carry its name: {clean(', '.join(one.name for one in found), 120)}")


def _label(about: Json, label: str) -> str:
    labels = about.get("labels")
    return str(labels.get(label)) if isinstance(labels, dict) else ""


def _kept(document: Json, node: str) -> _Seen:
    about = document.get("metadata")
    name = about.get("name") if isinstance(about, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ActionError(f"kubernetes: a node came with the name {short(name)}, which is none")
    status = document.get("status")
    listed = status.get("conditions") if isinstance(status, dict) else None
    shown = next((one for one in listed if isinstance(one, dict) and one.get("type") == CONDITION), {}) if isinstance(listed, list) else {}
    said = tuple(str(shown.get(key)) for key in ("status", "reason", "message")) if shown else ()
    return _Seen(node, name, held_of(document), unproven(document), said)
