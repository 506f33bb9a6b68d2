"""A node of Kubernetes as a document: who keeps jobs away from it, and how it looks when we do. Pure;
documents are not changed in place.

What we put on a node is three things, and all go together:

    metadata.annotations  muster.dev/cordoned: "muster:7f3a#12: fan"    the mark and the reason, in full
    spec.taints           muster.dev/cordoned=7f3a.12:NoSchedule        ours alone (a value holds no : or #)
    spec.unschedulable    true                                          as `kubectl cordon` sets it

One boolean is shared by all who cordon, and agents that restart nodes one by one (kured, upgrade controllers)
set it and clear it for their own ends. The taint is why such a cycle does not give a sick node back. In turn
the server notes who set the boolean last (metadata.managedFields): where that was someone else, it is theirs,
and stays when we release. Of a node on which it notes nothing (one that was made without a label, or long
ago), the boolean goes with our mark.

What taking away one of them means (`muster privilege kubernetes` prints this for people):

    the boolean                 nothing: the taint holds; it is left as it is
    the taint                   an accident: it is put back (`mend`)
    the annotation              an accident: it is written again, with the reason that the store has
    the boolean and the taint   the node was given back by hand
    the taint and annotation    someone took the node over: the boolean is theirs now
    all three                   the node was given back by hand

Other words in the annotation, a taint of our key with another value, and one with the effect NoExecute are a
person's hold. Such a taint stays when we release: ours is that with our value and the effect NoSchedule
alone.

NoSchedule, never NoExecute: what runs goes on. Taints of others are kept as they are and never taken for a
hold: most say for whom a node is, and those of the node controller (node.kubernetes.io/not-ready,
unreachable, unschedulable) come and go by themselves.
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/,
https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

from __future__ import annotations

import copy
import datetime as dt
import re
from collections.abc import Iterator, Mapping
from typing import Any

from healthcheck.store.marks import CordonMark, mark_of
from inventory.text import clean
from provisioning.actions.base import REASON_LENGTH, Holder, NodeHold

Json = dict[str, Any]

KEY = "muster.dev/cordoned"
STARTUP = "muster.dev/unproven"     # for the kubelet: --register-with-taints=muster.dev/unproven=:NoSchedule
MANAGER = "muster"                  # as whom the server notes our changes (managedFields)
# which Python 3.10 reads without the Z alone
_TIME = re.compile(r"(\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2})(?:\.\d+)?Z", re.ASCII)
_VALUE = re.compile(r"(?:([0-9a-f]{4,16})\.)?([1-9][0-9]{0,11})")


def held_of(node: Json) -> NodeHold:
    """Who keeps jobs away from it, and what of our mark is gone."""
    words = clean(_annotations(node).get(KEY) or "", REASON_LENGTH)
    noted = mark_of(words)
    taint_mark = next((mark for taint in _taints(node) if (mark := _taint_mark(taint)) is not None), None)
    closed = _spec(node).get("unschedulable") is True
    setters = _setters(node)
    note = words if noted is None else ""
    mark, lacks, others = noted, "", ""
    if noted is not None and taint_mark is None:
        # A mark that nothing goes with is what someone left who gave the node back.
        mark, lacks = (noted, "its taint") if closed and setters <= {MANAGER} else (None, "")
    elif taint_mark is not None and not words:
        mark, words, lacks = taint_mark, f"{taint_mark}:", "its annotation"
    elif taint_mark != noted:
        mark, others = None, note or f"its annotation says {noted}, its taint {taint_mark}"
    if not others and closed and (mark is None or setters - {MANAGER}):
        others = note or _by(setters - {MANAGER})
    if not others and (
        foreign := next((taint for taint in _taints(node) if _foreign(taint)), None)) is not None:
        others = note or _taint(foreign)
    user = _writer(node)
    if others:
        return NodeHold(
            Holder.OTHERS, clean(others, REASON_LENGTH), mark, identity=uid(node), user=user, lacks=lacks)
    return NodeHold(Holder.US if mark is not None else Holder.NO_ONE, words, mark, identity=uid(node),
                    user=user, lacks=lacks)


def uid(node: Json) -> str:
    """Which thing of its name it is: each registration has another."""
    found = _map(node, "metadata").get("uid")
    return clean(found, 100) if isinstance(found, str) else ""


def registered(node: Json) -> float | None:
    """When it registered, in seconds since 1970; None where that is not said."""
    found = _map(node, "metadata").get("creationTimestamp")
    return instant(found) if isinstance(found, str) else None


def instant(text: str) -> float | None:
    """A time as the server writes it, in seconds since 1970; None for anything else."""
    match = _TIME.fullmatch(text)
    try:
        return dt.datetime.fromisoformat(f"{match[1]}+00:00").timestamp() if match is not None else None
    except ValueError:
        return None


def cordoned(node: Json, reason: str) -> Json:
    """The node with a cordon of ours; `reason` begins with its mark."""
    found = copy.deepcopy(node)
    spec = found.setdefault("spec", {})
    spec["unschedulable"] = True
    spec["taints"] = [*(taint for taint in _taints(found) if not _is_ours(taint)),
                      {"key": KEY, "value": _value(reason), "effect": "NoSchedule"}]
    about = found.setdefault("metadata", {})
    about["annotations"] = {**_annotations(found), KEY: reason}
    return found


def mended(node: Json, reason: str) -> Json:
    """The node with what the cordon of `reason` lacks; its annotation stays, and so does unschedulable."""
    found = copy.deepcopy(node)
    spec = found.setdefault("spec", {})
    if not _annotations(found).get(KEY):
        found.setdefault("metadata", {})["annotations"] = {**_annotations(found), KEY: reason}
    if not any(map(_is_ours, _taints(found))):
        spec["taints"] = [*_taints(found), {"key": KEY, "value": _value(reason), "effect": "NoSchedule"}]
    return found


def released(node: Json) -> Json:
    """The node without our cordon, which it has; unschedulable anyway where someone else set that."""
    found = copy.deepcopy(node)
    spec = found["spec"] = dict(_spec(found))
    if _setters(node) <= {MANAGER}:
        spec.pop("unschedulable", None)
    kept = [taint for taint in _taints(found) if not _is_ours(taint)]
    spec["taints"] = kept
    if not kept:
        del spec["taints"]
    if KEY in (annotations := _annotations(found)):
        found["metadata"]["annotations"] = {key: value for key, value in annotations.items() if key != KEY}
    return found


def handed_over(node: Json, words: str) -> Json:
    """The node, which has a cordon of ours, as that of a person who holds it with these words."""
    found = copy.deepcopy(node)
    spec = found.setdefault("spec", {})
    spec["unschedulable"] = True
    spec["taints"] = [taint for taint in _taints(found) if not _is_ours(taint)]
    found.setdefault("metadata", {})["annotations"] = {**_annotations(found), KEY: words}
    return found


def unproven(node: Json) -> bool:
    """Whether it bears the taint with which it was registered."""
    return any(taint.get("key") == STARTUP for taint in _taints(node))


def proven(node: Json) -> Json:
    """The node without that taint."""
    found = copy.deepcopy(node)
    found["spec"]["taints"] = [taint for taint in _taints(found) if taint.get("key") != STARTUP]
    return found


def gpu_pod(pod: Json) -> str:
    """Why this pod may use a GPU of its node, "" where it does not. GPUs are the extended resources of
    NVIDIA's plug-in (nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb ...), and resource claims,
    which may be for anything; pods of daemon sets count as all others do."""
    about, spec, status = _map(pod, "metadata"), _map(pod, "spec"), _map(pod, "status")
    name = clean(f"{about.get('namespace')}/{about.get('name')}", 150)
    if status.get("phase") in ("Succeeded", "Failed"):
        return ""
    containers = [*_maps(spec.get("containers")), *_maps(spec.get("initContainers"))]
    if not containers:
        return f"what pod {name} uses is not known"
    if spec.get("resourceClaims"):
        return f"pod {name} has resource claims"
    for container in containers:
        wants = _map(container, "resources")
        for key, amount in [*_map(wants, "requests").items(), *_map(wants, "limits").items()]:
            if str(key).startswith(("nvidia.com/gpu", "nvidia.com/mig-")) and str(amount) != "0":
                return f"pod {name} has {clean(key, 60)}: {clean(amount, 20)}"
    return ""


def unplaced(pod: Json) -> str:
    """Why this pod waits for a node with a GPU; "" for one that is bound, gated, or asks for none.
    https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions,
    .../pod-scheduling-readiness/"""
    if _map(pod, "spec").get("nodeName") or not (why := gpu_pod(pod)):
        return ""
    conditions = _maps(_map(pod, "status").get("conditions"))
    unfit = any(one.get("type") == "PodScheduled" and one.get("status") == "False"
                and one.get("reason") == "Unschedulable" for one in conditions)
    return f"{why}, and waits for a node" if unfit else ""


def _is_ours(taint: Mapping[str, Any]) -> bool:
    return _taint_mark(taint) is not None


def _taint_mark(taint: Mapping[str, Any]) -> CordonMark | None:
    """The mark that a taint of ours bears; None for any other taint."""
    if taint.get("key") != KEY or taint.get("effect") != "NoSchedule":
        return None
    return _mark(str(taint.get("value") or ""))


def _foreign(taint: Mapping[str, Any]) -> bool:
    """Whether it is someone's hold under our key; PreferNoSchedule is a setting."""
    return taint.get("key") == KEY and taint.get("effect") != "PreferNoSchedule" and not _is_ours(taint)


def _taint(taint: Mapping[str, Any]) -> str:
    value = clean(taint.get("value") or "", 63)
    return f"taint {KEY}{f'={value}' if value else ''}:{clean(taint.get('effect'), 20)}"


def _mark(value: str) -> CordonMark | None:
    """The mark in a taint's value."""
    match = _VALUE.fullmatch(value)
    return CordonMark(match[1] or "", int(match[2])) if match is not None else None


def _value(reason: str) -> str:
    """A reason's mark as a taint's value."""
    mark = mark_of(reason)
    assert mark is not None  # noqa: S101  (the contract of `isolate`)
    return f"{mark.store}.{mark.number}" if mark.store else str(mark.number)


def _by(setters: set[str]) -> str:
    named = ", ".join(sorted(setters))
    return f"unschedulable{f', by {named}' if named else ''}"


def _setters(node: Json) -> set[str]:
    """Who set spec.unschedulable last; empty where the server does not say."""
    fields = _maps(_map(node, "metadata").get("managedFields"))
    return {
        clean(one.get("manager"), 60) for one in fields
        if "f:unschedulable" in _map(_map(one, "fieldsV1"), "f:spec")}


def _writer(node: Json) -> str:
    """Who wrote the annotation last; empty where there is none, or the server does not say."""
    def wrote(one: Json) -> bool:
        return f"f:{KEY}" in _map(_map(_map(one, "fieldsV1"), "f:metadata"), "f:annotations")

    found = {
        clean(one.get("manager"), 60) for one in _maps(_map(node, "metadata").get("managedFields"))
        if wrote(one)}
    return found.pop() if len(found) == 1 else ""


def _spec(node: Json) -> Json:
    return _map(node, "spec")


def _annotations(node: Json) -> Json:
    return _map(_map(node, "metadata"), "annotations")


def _taints(node: Json) -> list[Json]:
    return list(_maps(_spec(node).get("taints")))


def _map(document: Json, key: str) -> Json:
    found = document.get(key)
    return found if isinstance(found, dict) else {}


def _maps(found: object) -> Iterator[Json]:
    return (one for one in found if isinstance(one, dict)) if isinstance(found, list) else iter(())
