"""Writes Kubernetes Events on a node, for `kubectl describe node`: best effort, a failure stops nothing else.

An Event of a node lies in the namespace `default`, as the kubelet's do. The same thing once more raises the
count of the one that is there, as client-go's recorder does; the server forgets each after an hour, unless it
was started with another --event-ttl.
https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

from inventory.text import clean
from inventory.times import second
from provisioning.actions.base import ActionError
from provisioning.actions.kubeapi import Api, Json, KubeApiError
from provisioning.actions.kubenode import MANAGER, uid

PATH = "/api/v1/namespaces/default/events"
_SECONDS = 5.0


class Events:
    """After the first Event that cannot be written `report` gets a line, and no other is tried."""

    def __init__(self, api: Api, report: Callable[[str], None]) -> None:
        self._api = api
        self._report = report
        self._ends = False
        self._lock = threading.Lock()

    def write(self, node: Json, kind: str, reason: str, why: str, mark: str, now: float) -> None:
        """Writes an Event of this `kind` (Normal, Warning) and `reason` (a word); `report` gets failures."""
        if self._ends:
            return
        try:
            self._written(node, kind, reason, why, mark,
                          second(now))
        except ActionError as error:
            with self._lock:
                first, self._ends = not self._ends, True
            if first:
                self._report(f"note: no Event was written; nothing else is affected: {error}")

    def _written(self, node: Json, kind: str, reason: str, why: str, mark: str, time: str) -> None:
        called = str(node["metadata"]["name"])
        # Of one registration, reason and cause there is one event, whatever number the cordon has.
        name = (
            f"{called[:200].rstrip('-.')}."
            f"{hashlib.sha256(f'{uid(node)} {reason} {why}'.encode()).hexdigest()[:16]}")
        message = {"lastTimestamp": time, "message": clean(f"{mark}: {why}" if why else mark, 1000)}
        about = {"kind": "Node", "apiVersion": "v1", "name": called, "uid": uid(node)}
        try:
            self._api.try_once(
                "POST", PATH,
                {
                    "kind": "Event", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
                    "involvedObject": about, "type": kind, "reason": reason, "source": {"component": MANAGER},
                    "firstTimestamp": time, "count": 1, **message}, _SECONDS)
        except KubeApiError as error:
            if error.status != 409:
                raise
            # The answer to the first carries the count, so that no right to read events is needed.
            count = self._api.try_once("PATCH", f"{PATH}/{name}", message, _SECONDS).get("count")
            self._api.try_once(
                "PATCH", f"{PATH}/{name}", {"count": (count if isinstance(count, int) else 1) + 1}, _SECONDS)
