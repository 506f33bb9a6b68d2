"""A node of Kubernetes as a document: who keeps jobs away from it, and how it looks when we do. Pure; documents are not changed in place.

What we put on a node is three things, and all go together:

    metadata.annotations  muster.dev/cordoned: "muster#12: fan"     the mark and the reason, in full
    spec.taints           muster.dev/cordoned=12:NoSchedule         ours alone
    spec.unschedulable    true                                      as `kubectl cordon` does, which everybody sees

One boolean is shared by all who cordon, and agents that restart nodes one by one (kured, upgrade controllers) set it and clear it for their
own ends. The taint is why such a cycle does not give a sick node back: it stays until we, or a person by hand, take it away. In turn the
server notes who set the boolean last (metadata.managedFields): where that was somebody else, it is theirs, and stays when we release.
Of a node on which it notes nothing (one that was made without a label, or long ago), the boolean goes with our mark.

NoSchedule, never NoExecute: what runs goes on. Taints of others are kept as they are and never taken for a hold: most say for whom a node
is, and those of the node controller (node.kubernetes.io/not-ready, unreachable, unschedulable) come and go by themselves.
https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/,
https://kubernetes.io/docs/reference/using-api/server-side-apply/#field-management
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from typing import Any

from inventory.text import clean
from provisioning.actions.base import REASON_LENGTH, Held, Holder, number_of

Json = dict[str, Any]

KEY = "muster.dev/cordoned"
STARTUP = "muster.dev/unproven"     # for the kubelet: --register-with-taints=muster.dev/unproven=:NoSchedule
MANAGER = "muster"
_NUMBER = re.compile(r"[1-9][0-9]{0,11}")


def held_of(node: Json) -> Held:
    """Who keeps jobs away from it."""
    words = clean(_annotations(node).get(KEY) or "", REASON_LENGTH)
    taints = [str(taint.get("value") or "") for taint in _taints(node) if taint.get("key") == KEY]
    numbers = [int(value) for value in taints if _NUMBER.fullmatch(value)]
    closed = _spec(node).get("unschedulable") is True
    setters = _setters(node)
    number = number_of(words)
    if number is not None:
        # A mark that nothing goes with is what somebody left who gave the node back.
        number = number if numbers or (closed and setters <= {MANAGER}) else None
    elif numbers:
        number, words = numbers[0], f"muster#{numbers[0]}:"
    theirs = closed and (number is None or bool(setters - {MANAGER}))
    if theirs or len(numbers) < len(taints):
        said = words if words and number is None and number_of(words) is None else _by(setters - {MANAGER}) if theirs else f"taint {KEY}"
        return Held(Holder.OTHERS, clean(said, REASON_LENGTH), number)
    return Held(Holder.US, words, number) if number is not None else Held(Holder.NOBODY, words)


def cordoned(node: Json, reason: str) -> Json:
    """The node with a cordon of ours; `reason` begins with its mark."""
    found = copy.deepcopy(node)
    spec = found.setdefault("spec", {})
    spec["unschedulable"] = True
    spec["taints"] = [*(taint for taint in _taints(found) if not _ours(taint)),
                      {"key": KEY, "value": str(number_of(reason)), "effect": "NoSchedule"}]
    about = found.setdefault("metadata", {})
    about["annotations"] = {**_annotations(found), KEY: reason}
    return found


def released(node: Json) -> Json:
    """The node without our cordon, which it has; unschedulable all the same where somebody else set that."""
    found = copy.deepcopy(node)
    spec = found["spec"] = dict(_spec(found))
    if _setters(node) <= {MANAGER}:
        spec.pop("unschedulable", None)
    kept = [taint for taint in _taints(found) if not _ours(taint)]
    spec["taints"] = kept
    if not kept:
        del spec["taints"]
    if KEY in (annotations := _annotations(found)):
        found["metadata"]["annotations"] = {key: value for key, value in annotations.items() if key != KEY}
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
    """Why this pod may use a GPU of its node, by what it was given and has not given back; "" where it does not.

    GPUs are the extended resources of NVIDIA's device plug-in (nvidia.com/gpu, nvidia.com/gpu.shared, nvidia.com/mig-1g.10gb ...), and
    resource claims, which may be for anything. Pods of daemon sets that ask for none are as all others that do so.
    """
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


def _ours(taint: Mapping[str, Any]) -> bool:
    return taint.get("key") == KEY and _NUMBER.fullmatch(str(taint.get("value") or "")) is not None


def _by(setters: set[str]) -> str:
    named = ", ".join(sorted(setters))
    return f"unschedulable{f', by {named}' if named else ''}"


def _setters(node: Json) -> set[str]:
    """Who set spec.unschedulable last; empty where the server does not say."""
    fields = _maps(_map(node, "metadata").get("managedFields"))
    return {clean(one.get("manager"), 60) for one in fields if "f:unschedulable" in _map(_map(one, "fieldsV1"), "f:spec")}


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
