"""What an administrator of Kubernetes applies so that muster may work, with comments, as YAML."""

from __future__ import annotations

import json
from dataclasses import dataclass

from provisioning.actions.kubenode import KEY, STARTUP

NAME = "muster"

TOLERATIONS = f"""\
tolerations:
- {{key: {STARTUP}, operator: Exists}}
- {{key: {KEY}, operator: Exists}}
"""

_PEOPLE = f"""\
# What kubectl can undo. A cordon of muster is three things on a node: spec.unschedulable, the taint
# {KEY} with the number of the cordon as its value and the effect NoSchedule, and the
# annotation {KEY} with the number and the reason.
#   kubectl uncordon NODE                        releases nothing: the taint holds, and stays
#   kubectl taint node NODE {KEY}-       releases nothing: the next `muster triage --apply` restores the
#                                                taint
#   kubectl annotate node NODE {KEY}-    releases nothing: the next `muster triage --apply` restores the
#                                                annotation
#   uncordon and taint                           give NODE back to jobs; muster leaves it alone while the
#                                                same verdict holds
#   taint and annotate                           take NODE over: it stays unschedulable until a person
#                                                uncordons it
#   kubectl delete node NODE                     ends the cordon: NODE is new when it registers again; if
#                                                sick, it is cordoned again
# Better: muster uncordon NODE, which also records who did it.
# To keep a node that muster holds beyond the time when muster would release it: write so into the
# annotation (muster then never releases it), or add a taint of your own. `kubectl cordon` of a node that is
# already unschedulable changes nothing, and no one sees it. A taint {KEY} of another value or
# with NoExecute is a person's: muster neither cordons nor releases it.
"""

_DAEMONS = f"""\
# DaemonSets. A kubelet started with --register-with-taints={STARTUP}=:NoSchedule keeps jobs
# from a new node until muster has found it fit. Pods of DaemonSets that do not tolerate this taint are not
# placed there either. If such a DaemonSet brings what a node needs to pass (NVIDIA's driver, toolkit, device
# plug-in and DCGM; RDMA plug-ins; storage), the node never passes and never gets jobs. So add these lines to
# the pod template of each of them (GPU Operator: Helm value daemonsets.tolerations); jobs must not have them:
#
{{tolerations}}#
# Those that do not tolerate it yet:
#   kubectl get daemonsets -A -o json | jq -r '.items[] | select([.spec.template.spec.tolerations[]?
#     | select(.operator == "Exists" and (.key == null or .key == "{STARTUP}"))] | length == 0)
#     | "\\(.metadata.namespace)/\\(.metadata.name)"'
"""


@dataclass(frozen=True)
class RbacSubject:
    """Who gets the rights: `kind` is User, Group or ServiceAccount; only the last has a namespace."""

    kind: str
    name: str
    namespace: str = ""


def manifest(subject: RbacSubject, *, condition: bool) -> str:
    """YAML for `kubectl apply -f -`, all else as comments: the least rights of muster, with `condition: true`
    or without. Nodes are read and replaced; of pods those with GPUs are listed; Events go to the namespace
    default, where those of nodes are."""
    rules: list[dict[str, object]] = [
        {"apiGroups": [""], "resources": ["nodes"], "verbs": ["get", "list", "update"]},
        {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
    ]
    if condition:
        rules.append({"apiGroups": [""], "resources": ["nodes/status"], "verbs": ["patch"]})
    events: list[dict[str, object]] = [
        {"apiGroups": [""], "resources": ["events"], "verbs": ["create", "patch"]}]
    rbac = "rbac.authorization.k8s.io"
    who = {"kind": subject.kind, "name": subject.name,
           **({"namespace": subject.namespace} if subject.kind == "ServiceAccount" else {"apiGroup": rbac})}
    about = {"name": NAME}
    here = {"name": NAME, "namespace": "default"}
    documents: list[dict[str, object]] = []
    if subject.kind == "ServiceAccount":
        documents += [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": subject.namespace}},
                      {
                          "apiVersion": "v1", "kind": "ServiceAccount",
                          "metadata": {"name": subject.name, "namespace": subject.namespace}}]
    documents += [
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRole", "metadata": about, "rules": rules},
        {"apiVersion": f"{rbac}/v1", "kind": "ClusterRoleBinding", "metadata": about,
         "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": NAME}, "subjects": [who]},
        {"apiVersion": f"{rbac}/v1", "kind": "Role", "metadata": here, "rules": events},
        {"apiVersion": f"{rbac}/v1", "kind": "RoleBinding", "metadata": here,
         "roleRef": {"apiGroup": rbac, "kind": "Role", "name": NAME}, "subjects": [who]},
    ]
    lines = "".join(f"#   {line}\n" for line in TOLERATIONS.splitlines())
    head = ("# The rights of muster: muster privilege kubernetes | kubectl apply -f -\n"
            "#\n"
            f"{_DAEMONS.format(tolerations=lines)}#\n"
            f"{_PEOPLE}")
    return head + "".join(f"---\n{_yaml(document)}" for document in documents)


def _yaml(document: dict[str, object]) -> str:
    """One key a line, and what is in it in YAML's flow style, which JSON is."""
    out = []
    for key, value in document.items():
        if isinstance(value, list):
            out += [f"{key}:", *(f"- {json.dumps(one)}" for one in value)]
        else:
            out.append(f"{key}: {json.dumps(value) if isinstance(value, dict) else value}")
    return "".join(f"{line}\n" for line in out)
