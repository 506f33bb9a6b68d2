"""The Kubernetes objects that run the agent on all nodes: namespace, service account, DaemonSet.

One container checks the node every period; it is privileged and sees the host's processes, because its
collector enters the host's namespaces (`healthcheck.agent.inside`), reads devices, and the kernel's log. The
other serves the result and may do nothing else. Neither talks to the API server, so that the service account
has no rights and no token. No file of the host is mounted but the agent's state folder.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from healthcheck.model.places import PERIOD_S, STATE
from inventory.errors import UsageError
from inventory.text import short

NAME = "muster-agent"
INVENTORY = "muster-inventory"      # the ConfigMap with muster.yaml
PORT = 9847
_MOUNT = "/etc/muster"
# https://kubernetes.io/docs/concepts/overview/working-with-objects/names/ and .../labels/
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_KEY = re.compile(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@-]{0,510}")


@dataclass(frozen=True)
class DaemonSetRequest:
    """What the DaemonSet runs: image, seconds between checks, SKU of nodes that name none, labels of its
    nodes (all, if empty), port of the metrics. UsageError for what Kubernetes refuses."""

    image: str
    namespace: str = "muster"
    period: float = PERIOD_S
    sku: str | None = None
    selector: Mapping[str, str] = field(default_factory=dict)
    port: int = PORT

    def __post_init__(self) -> None:
        if not _IMAGE.fullmatch(self.image):
            raise UsageError(f"--image {short(self.image)}: expected an image, as in registry/muster:0.1.0")
        if not _LABEL.fullmatch(self.namespace):
            raise UsageError(f"--namespace {short(self.namespace)}: expected a name of lower-case letters, "
                             "digits and hyphens")
        for key, value in self.selector.items():
            if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise UsageError(f"--selector {short(f'{key}={value}')}: expected KEY=VALUE, as a label is")


def manifest(request: DaemonSetRequest) -> str:
    """The objects as YAML for `kubectl apply -f -`."""
    return yaml.safe_dump_all(objects(request), sort_keys=False, width=100)


def objects(request: DaemonSetRequest) -> list[dict[str, Any]]:
    """Namespace, service account, DaemonSet."""
    labels = {"app.kubernetes.io/name": NAME}
    meta = {"name": NAME, "namespace": request.namespace, "labels": labels}
    # By the Pod Security Standards the API server may refuse privileged pods elsewhere.
    space = {"name": request.namespace, "labels": {"pod-security.kubernetes.io/enforce": "privileged"}}
    spec: dict[str, Any] = {
        "serviceAccountName": NAME, "automountServiceAccountToken": False, "hostPID": True,
        "priorityClassName": "system-node-critical",
        # A node is to be seen whatever taint it has: cordoned, kept for GPU jobs, not ready, not yet proven.
        "tolerations": [{"operator": "Exists"}],
        "terminationGracePeriodSeconds": 10,
        "containers": [_agent(request), _exporter(request)],
        "volumes": [{"name": "state", "hostPath": {"path": STATE, "type": "DirectoryOrCreate"}},
                    {"name": "inventory", "configMap": {"name": INVENTORY}}]}
    if request.selector:
        spec["nodeSelector"] = dict(request.selector)
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": space},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": dict(meta),
         "automountServiceAccountToken": False},
        {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": dict(meta), "spec": {
            "selector": {"matchLabels": dict(labels)},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "10%"}},
            "template": {"metadata": {"labels": dict(labels)}, "spec": spec}}}]


def _node_name() -> list[dict[str, Any]]:
    """The node's name in Kubernetes, for `muster agent run` and for an exporter without a result."""
    return [{"name": "MUSTER_NODE", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}]


def _agent(request: DaemonSetRequest) -> dict[str, Any]:
    command = ["muster", "agent", "run", "--loop", "--enter", "1", "--period", f"{request.period:g}s",
               "--inventory", f"{_MOUNT}/muster.yaml", "--state", STATE]
    if request.sku is not None:
        command += ["--sku", request.sku]
    return {
        "name": "agent", "image": request.image, "command": command,
        "env": _node_name(),
        "securityContext": {"privileged": True, "runAsUser": 0},
        "resources": {"requests": {"cpu": "50m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        "volumeMounts": [{"name": "state", "mountPath": STATE},
                         {"name": "inventory", "mountPath": _MOUNT, "readOnly": True}]}


def _exporter(request: DaemonSetRequest) -> dict[str, Any]:
    check = {"httpGet": {"path": "/healthz", "port": "metrics"}, "periodSeconds": 60, "timeoutSeconds": 10}
    return {
        "name": "exporter", "image": request.image,
        "command": ["muster", "exporter", "--agent", "--listen", f"0.0.0.0:{request.port}", "--state", STATE],
        "env": _node_name(),
        "ports": [{"name": "metrics", "containerPort": request.port}],
        # The state is root's, who needs no capability to read it.
        "securityContext": {"runAsUser": 0, "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                            "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"}},
        "livenessProbe": check,
        "resources": {"requests": {"cpu": "20m", "memory": "96Mi"},
                      "limits": {"cpu": "500m", "memory": "256Mi"}},
        "volumeMounts": [{"name": "state", "mountPath": STATE, "readOnly": True}]}
