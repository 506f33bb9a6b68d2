"""Kubernetes: cordons as `kubenode` has them, read, changed and replaced through the API server; pods that
use GPUs; new nodes; verdicts.

A node of the inventory is found by its name there, which a template makes of its own ("{node}.example.org"),
or by a label that carries it. Questions about several nodes are asked some at a time (`atonce`), and `report`
gets a line every few seconds as long as the answers take.

The rights that it needs, and what people can do with kubectl, are printed by `muster privilege kubernetes`
(`kuberights`).
"""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from healthcheck.store.marks import mark_of
from inventory.model import InKubernetes
from inventory.nodeset import fold
from inventory.text import clean, short
from inventory.times import second
from provisioning.actions.base import (
    REASON_LENGTH,
    ActionError,
    Condition,
    Holder,
    NodeHold,
    ProbationNode,
    no_check,
)
from provisioning.actions.kubeapi import Api, Json, KubeApiError
from provisioning.actions.kubeevents import Events
from provisioning.actions.kubenode import (
    cordoned,
    gpu_pod,
    handed_over,
    held_of,
    instant,
    mended,
    proven,
    registered,
    released,
    uid,
    unplaced,
    unproven,
)
from provisioning.actions.parallel import in_parallel

NODES = "/api/v1/nodes"
PODS = "/api/v1/pods"
CONDITION = "MusterHealthy"
# Up to so many nodes are asked for one by one; from there on the whole list costs less.
_FEW = 8
# No node's condition is written again sooner, unless it has changed; kubelets refresh theirs every 5 minutes.
_HEARTBEAT_S = 60.0
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and .../labels/
_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


@dataclass(frozen=True)
class _KubeNode:
    """What is kept of a node: the name there, and what was asked of it. `wanted` is the inventory's name."""

    wanted: str
    name: str
    held: NodeHold
    identity: str
    registered: float | None
    unproven: bool
    condition: tuple[str, ...]
    beat: str


def _silent(line: str) -> None:
    """Reports nothing."""


class Kubernetes:
    """The cluster that the inventory names; it connects at the first request."""

    name = "kubernetes"

    def __init__(
        self, there: InKubernetes, api: Api, report: Callable[[str], None] = _silent,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._there = there
        self._api = api
        self._report = report
        self._clock = clock
        self._events = Events(api, report)

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        """Who holds each node; two nodes of one name count as held by others."""
        found = self._read_nodes(nodes)
        return {
            node: _hold_of(found[node]) if node in found else NodeHold(Holder.ABSENT)
                for node in sorted(set(nodes))}

    def marked(self, names: Collection[str]) -> Mapping[str, NodeHold]:
        """All nodes with a mark, by the name that the inventory has or would have for them; one to which
        neither template nor label gives such a name goes by its own."""
        label, known = self._there.label, {self._named(node): node for node in names}
        before, _, after = self._there.name.lower().partition("{node}")

        def wanted(about: Json) -> str:
            name, labels = str(about.get("name")), about.get("labels")
            if label is not None:
                return str((labels.get(label) if isinstance(labels, dict) else None) or name)
            if name in known or not (name.startswith(before) and name.endswith(after)):
                return known.get(name, name)
            return name[len(before):len(name) - len(after)] or name

        found = self._listed({}, wanted)
        return {node: one.held for node, all_of in found.items() for one in all_of
                if one.held.mark is not None}

    def isolate(self, node: str, reason: str) -> None:
        """Sets unschedulable, our taint and our mark; raises ActionError if someone was faster."""
        mark = mark_of(reason)

        def edit(document: Json) -> Json | None:
            held = held_of(document)
            if held.mark is not None and held.mark == mark:
                return None
            if held.holder is not Holder.NO_ONE:
                raise ActionError(f"{node}: others hold it now: {held.reason}")
            return cordoned(document, reason)

        self._write_event(self._change(node, edit), "Warning", "MusterCordoned", reason)

    def end_jobs(self, nodes: Sequence[str]) -> str:
        """kubectl evicts all pods but those of DaemonSets."""
        config = f" --kubeconfig {shlex.quote(self._there.config)}" if self._there.config else ""
        context = f" --context {shlex.quote(self._there.context)}" if self._there.context else ""
        which = (f"--selector '{self._there.label} in ({','.join(nodes)})'" if self._there.label is not None
                 else " ".join(self._named(node) or node for node in nodes))
        return f"kubectl{config}{context} drain {which} --ignore-daemonsets --delete-emptydir-data"

    def rewrite(self, node: str, shown: str, reason: str) -> None:
        """The mark of `reason` takes the place of the node's, if that still shows these words; without a mark
        in `reason` the node is a person's: unschedulable with these words, without our taint."""
        mark = mark_of(reason)

        def edit(document: Json) -> Json | None:
            held = held_of(document)
            if held.reason == clean(reason, REASON_LENGTH) and held.mark == mark and not held.lacks:
                return None
            self._check_unchanged(held, shown)
            if held.mark is None:
                raise ActionError(f"{node}: it has no mark of a muster: {held.reason or held.holder.value}")
            return cordoned(document, reason) if mark is not None else handed_over(document, reason)

        document = self._change(node, edit)
        if mark is not None:
            self._write_event(document, "Warning", "MusterCordoned", reason)

    def release(self, node: str, shown: str = "") -> None:
        """Takes away what is ours alone; with `shown` only if the node still shows these words."""
        gone: list[str] = []

        def edit(document: Json) -> Json | None:
            held = held_of(document)
            if held.mark is None:
                return None
            self._check_unchanged(held, shown)
            gone[:] = [held.reason if mark_of(held.reason) == held.mark else f"{held.mark}:"]
            return released(document)

        document = self._change(node, edit)
        if gone:
            self._write_event(document, "Normal", "MusterReleased", gone[0])

    def mend(self, node: str, reason: str) -> None:
        """Puts back what our mark lacks; what it says stays."""
        mark = mark_of(reason)

        def edit(document: Json) -> Json | None:
            held = held_of(document)
            return mended(document, reason) if held.lacks and held.mark == mark else None

        self._change(node, edit)

    def in_parallel(
        self, work: Mapping[str, Callable[[], None]], before: Callable[[str], None] = no_check,
    ) -> Mapping[str, str]:
        """Does these calls some at a time; by name why one was not done."""
        done = in_parallel(work, self._report, self._api.where, before)
        return {name: str(error) for name, error in done.items() if error is not None}

    @staticmethod
    def _check_unchanged(held: NodeHold, shown: str) -> None:
        """Raises ActionError where a node shows other words than those on which someone decided."""
        if shown and held.reason != shown:
            raise ActionError("someone has given it back" if held.holder is Holder.NO_ONE
                              else f"others hold it now: {held.reason}")

    def _write_event(self, document: Json, kind: str, word: str, reason: str) -> None:
        mark, _, why = reason.partition(": ")
        self._events.write(document, kind, word, why, mark.rstrip(":"), self._clock())

    def running(self, nodes: Collection[str]) -> Mapping[str, str]:
        """By node which pod may use a GPU of it; pods that wait for their node's kubelet count."""
        names = {one.name: node for node, found in self._read_nodes(nodes).items() for one in found}
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

    def waiting(self, nodes: Collection[str]) -> str:
        """A pod that asks for GPUs and could not be placed, whatever the scheduler says of nodes."""
        found: list[str] = []

        def take(pod: Json) -> None:
            if not found and (why := unplaced(pod)):
                found.append(why)

        self._api.collect(PODS, {"fieldSelector": "spec.nodeName=,status.phase=Pending"}, take)
        return found[0] if found else ""

    def unproven(self, nodes: Collection[str]) -> Mapping[str, ProbationNode]:
        """Those with the startup taint; of a name that several carry the newest is on probation."""
        found = {}
        for node, all_of in self._read_nodes(nodes).items():
            if new := [one for one in all_of if one.unproven]:
                newest = max(
                    new, key=lambda one: one.registered if one.registered is not None else float("inf"))
                found[node] = ProbationNode(newest.identity, newest.registered)
        return found

    def prove(self, node: str, identity: str) -> None:
        """Takes the startup taint away from the node that has this UID."""
        def edit(document: Json) -> Json | None:
            if uid(document) != identity:
                raise ActionError(f"{node}: another node of its name has registered meanwhile")
            return proven(document) if unproven(document) else None

        self._change(node, edit)

    def set_conditions(self, conditions: Mapping[str, Condition]) -> None:
        """Has each node show its condition, and when it was checked, where the inventory asks for it. A node
        that registered since its snapshot shows Unknown. One line names all that were not written."""
        if not self._there.condition:
            return
        now = self._clock()
        work = {one.name: (lambda one=one, patch=patch: self._api.merge(f"{NODES}/{one.name}/status", patch))
                for node, found in self._read_nodes(conditions).items() for one in found
                if (patch := _condition_patch(one, conditions[node], now)) is not None}
        failed: dict[str, list[str]] = {}
        for name, why in self.in_parallel(work).items():
            failed.setdefault(why.replace(name, "NODE"), []).append(name)
        if failed:
            current = "; ".join(f"{fold(names)}: {why}" for why, names in list(failed.items())[:3])
            raise ActionError(f"{sum(map(len, failed.values()))} of {len(work)} conditions were not written: "
                              f"{clean(current, 600)}")

    def _change(self, node: str, edit: Callable[[Json], Json | None]) -> Json:
        label = self._there.label
        name = self._named(node)
        if label is not None:
            found = self._read_nodes([node]).get(node, [])
            if len(found) > 1:
                raise ActionError(_hold_of(found).reason)
            name = found[0].name if found else None
        unknown = (f"{node} is not known in kubernetes; see: kubectl get "
                   f"nodes{f' -L {label}' if label is not None else ''}")
        if name is None:
            raise ActionError(unknown)
        try:
            return self._api.change(f"{NODES}/{name}", edit)
        except KubeApiError as error:
            if error.status == 404:
                raise ActionError(unknown) from None
            raise

    def _named(self, node: str) -> str | None:
        """The template's name for a node, lower case as a kubelet's; None where no node can have it."""
        name = self._there.name.replace("{node}", node).lower()
        return name if _NAME.fullmatch(name) else None

    def _read_nodes(self, nodes: Collection[str]) -> Mapping[str, list[_KubeNode]]:
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
        reads = {name: (lambda name=name, node=node: self._read(name, node)) for name, node in names.items()}
        found = {}
        for name, given in in_parallel(reads, self._report, self._api.where).items():
            if isinstance(given, ActionError):
                raise given
            if given is not None:
                found[names[name]] = [given]
        return found

    def _read(self, name: str, node: str) -> _KubeNode | None:
        """The node of this name there; None where there is none."""
        try:
            return _parsed(self._api.get(f"{NODES}/{name}"), node)
        except KubeApiError as error:
            if error.status == 404:
                return None
            raise

    def _listed(
        self, query: Mapping[str, str], wanted: Callable[[Json], str | None],
    ) -> Mapping[str, list[_KubeNode]]:
        def take(document: Json) -> _KubeNode | None:
            about = document.get("metadata")
            node = wanted(about) if isinstance(about, dict) else None
            return _parsed(document, node) if node is not None else None

        found: dict[str, list[_KubeNode]] = {}
        (given,) = in_parallel(
            {"": lambda: self._api.collect(NODES, query, take)}, self._report, self._api.where).values()
        if isinstance(given, ActionError):
            raise given
        for one in given:
            found.setdefault(one.wanted, []).append(one)
        return found


def _hold_of(found: list[_KubeNode]) -> NodeHold:
    if len(found) == 1:
        return found[0].held
    return NodeHold(Holder.OTHERS,
                    f"{len(found)} nodes of kubernetes carry its name: "
                    f"{clean(', '.join(one.name for one in found), 120)}")


def _condition_patch(one: _KubeNode, condition: Condition, now: float) -> Json | None:
    """The patch that has a node show this; None where it shows it already, and not long ago."""
    if (condition.status == "True" and condition.seen is not None and one.registered is not None
            and condition.seen < one.registered):
        condition = Condition("Unknown", "Registered", "no snapshot was taken since it registered")
    shown = (condition.status, condition.reason, clean(condition.message, 1000))
    beaten = instant(one.beat)
    if one.condition == shown and beaten is not None and abs(now - beaten) < _HEARTBEAT_S:
        return None
    when = second(now)
    since = {} if one.condition[:1] == shown[:1] else {"lastTransitionTime": when}
    return {"status": {"conditions": [
        {"type": CONDITION, "status": shown[0], "reason": shown[1], "message": shown[2],
         "lastHeartbeatTime": when, **since}]}}


def _label(about: Json, label: str) -> str:
    labels = about.get("labels")
    return str(labels.get(label)) if isinstance(labels, dict) else ""


def _parsed(document: Json, node: str) -> _KubeNode:
    about = document.get("metadata")
    name = about.get("name") if isinstance(about, dict) else None
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ActionError(f"kubernetes: a node came with the name {short(name)}, which is none")
    status = document.get("status")
    listed = status.get("conditions") if isinstance(status, dict) else None
    shown = (next((one for one in listed if isinstance(one, dict) and one.get("type") == CONDITION), {})
             if isinstance(listed, list) else {})
    current = tuple(str(shown.get(key)) for key in ("status", "reason", "message")) if shown else ()
    return _KubeNode(node, name, held_of(document), uid(document), registered(document), unproven(document),
                     current, str(shown.get("lastHeartbeatTime") or ""))
