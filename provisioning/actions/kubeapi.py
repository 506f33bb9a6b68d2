"""A client of a Kubernetes API server, bounded in time and size: read, replace, list in pages; each refusal
is one line.

The official client (https://github.com/kubernetes-client/python, the extra `kubernetes`) finds the server and
its credentials: a kubeconfig with its contexts and plug-ins, or a pod's service account. Documents stay plain
JSON: its typed models know the fields of one release, and writing such a model back would remove from the
node what a newer server added.

https://kubernetes.io/docs/reference/using-api/api-concepts/ describes paging (limit, continue; 410 when a
list's snapshot has expired and the list must start again) and that a replacement with an old resourceVersion
is refused with 409. Several threads may use one client.

A server that hangs costs an operation over many nodes little more than one request: after three changes in a
row without an answer, and none done meanwhile, further changes are refused here for a minute, without being
sent. Reads are still sent: callers stop at the first that fails.
"""

from __future__ import annotations

import importlib
import json
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from inventory.text import clean
from provisioning.actions.base import ActionError
from provisioning.actions.kubenode import MANAGER

Json = dict[str, Any]
Query = Mapping[str, str]
T = TypeVar("T")

_JSON = "application/json"
MERGE = "application/strategic-merge-patch+json"
PAGE = 250                          # nodes are 10 to 20 KB each where their images are listed
MAX_ANSWER = 64 * 1024 * 1024
_CHUNK = 64 * 1024
_MOST_PAGES = 4000                  # a million nodes or pods
_LISTS = 3                          # a list whose snapshot is over is begun again
_CHANGES = 8                        # so often one node may be changed by others in between
_CONNECT_S = 10.0
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)
_PASSING = frozenset({429, 500, 502, 503, 504})
_VERIFY_S = 5.0                       # for the last look after a change that was not answered
_DEAF = 3                           # so many changes in a row without an answer, and
_DEAF_S = 60.0                      # so long none is sent


class KubeApiError(ActionError):
    """A failed request. `status` is HTTP's, 0 without one; `passing`: it may be over soon; `wait`: as the
    server asks; `silent`: it took the request and did not answer in time."""

    def __init__(
        self, words: str, status: int = 0, *, passing: bool = False, wait: float = 0.0, silent: bool = False,
    ) -> None:
        super().__init__(words)
        self.status = status
        self.passing = passing
        self.wait = wait
        self.silent = silent


class Api:
    """The server of a kubeconfig's context, or of the pod that this runs in; it connects when first asked.
    `seconds` is for one request with its retries."""

    def __init__(
        self, config: str | None = None, context: str | None = None, seconds: float = 30.0,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._config = config
        self._context = context
        self._seconds = seconds
        self._pause = pause
        self._client: Any = None
        self._lock = threading.RLock()
        self._unanswered = 0
        self._deaf_until = 0.0
        self._done = 0.0        # when the last change was done

    def get(self, path: str, query: Query | None = None) -> Json:
        """The document; retried where the server is busy or the connection broke. Raises KubeApiError."""
        return self._again("GET", path, query or {}, time.monotonic() + self._seconds)

    def change(self, path: str, edit: Callable[[Json], Json | None]) -> Json:
        """Replaces the object by what `edit` makes of it (None: it is right), and retries where someone was
        faster; returns the object as it then is. A merge patch would replace a list such as spec.taints with
        what others added to it. Without an answer, reading again shows whether it was made. Raises
        KubeApiError, and what `edit` raises."""
        return self._counted(lambda: self._changed(path, edit))

    def _changed(self, path: str, edit: Callable[[Json], Json | None]) -> Json:
        deadline = time.monotonic() + self._seconds
        for tries in range(_CHANGES):
            there = self._again("GET", path, {}, deadline)
            wanted = edit(there)
            if wanted is None:
                return there
            if not wanted.get("metadata", {}).get("resourceVersion"):
                raise KubeApiError(f"{self.where}: {path} came without a resourceVersion, so no one can see "
                                   "who is faster; nothing changed")
            try:
                return self._once("PUT", path, {"fieldManager": MANAGER}, deadline, wanted)
            except KubeApiError as error:
                if error.status == 409:
                    if time.monotonic() < deadline:
                        self._pause(_PAUSES[min(tries, len(_PAUSES) - 1)])
                    continue
                try:
                    self._wait_or_raise(error, tries, deadline)
                except KubeApiError:
                    if error.passing and (done := self._landed(path, edit)) is not None:
                        return done
                    raise
        raise KubeApiError(
            f"{self.where}: {path} was changed by others whenever it was to be changed; try again", 409)

    def _landed(self, path: str, edit: Callable[[Json], Json | None]) -> Json | None:
        """The object, if an unanswered change was made anyway; None if it was not, or if that is unknown."""
        try:
            there = self._again("GET", path, {}, time.monotonic() + min(_VERIFY_S, self._seconds))
            return there if edit(there) is None else None
        except ActionError:
            return None

    def merge(self, path: str, patch: Json) -> None:
        """A strategic merge patch, for lists merged by key (a node's conditions). Raises KubeApiError."""
        deadline = time.monotonic() + self._seconds
        self._counted(lambda: self._again("PATCH", path, {"fieldManager": MANAGER}, deadline, patch, MERGE))

    def try_once(self, method: str, path: str, body: Json, seconds: float) -> Json:
        """One attempt at an unimportant POST or strategic PATCH, within so long. Raises KubeApiError."""
        return self._once(
            method, path, {"fieldManager": MANAGER}, time.monotonic() + min(seconds, self._seconds), body,
            MERGE if method == "PATCH" else _JSON)

    def _counted(self, change: Callable[[], Json]) -> Json:
        """Makes the change, unless the server answered none of the last ones."""
        began = time.monotonic()
        with self._lock:
            if began < self._deaf_until:
                raise KubeApiError(f"{self.where}: not tried, because it did not answer the last {_DEAF} "
                                   "changes; try again later")
        try:
            done = change()
        except KubeApiError as error:
            with self._lock:
                self._unanswered = self._unanswered + 1 if error.silent and self._done < began else 0
                if self._unanswered >= _DEAF:
                    self._deaf_until = time.monotonic() + _DEAF_S
                    self._unanswered = 0
            raise
        with self._lock:
            self._unanswered, self._done = 0, time.monotonic()
        return done

    def collect(self, path: str, query: Query, take: Callable[[Json], T | None]) -> list[T]:
        """What `take` makes of each item, page by page, without None. Raises KubeApiError."""
        for _ in range(_LISTS):
            try:
                return self._collected(path, query, take)
            except KubeApiError as error:
                if error.status != 410:
                    raise
        raise KubeApiError(f"{self.where}: the list of {path} was out of date {_LISTS} times before its end "
                           "was reached; try again", 410)

    def _collected(self, path: str, query: Query, take: Callable[[Json], T | None]) -> list[T]:
        found: list[T] = []
        token = ""
        for _ in range(_MOST_PAGES):
            page = self.get(path, {**query, "limit": str(PAGE), **({"continue": token} if token else {})})
            items, about = page.get("items") or [], page.get("metadata")
            if not isinstance(items, list) or not isinstance(about, dict):
                raise KubeApiError(f"{self.where}: the list of {path} is no list; is this the API server?")
            found += [one for item in items if isinstance(item, dict) and (one := take(item)) is not None]
            before, token = token, str(about.get("continue") or "")
            if not token:
                return found
            if token == before:
                break
        raise KubeApiError(f"{self.where}: the list of {path} has no end")

    @property
    def where(self) -> str:
        """The server for messages: scheme, host and port."""
        parts = urlsplit(str(self._open().configuration.host))
        return f"kubernetes ({parts.scheme}://{clean(parts.netloc.rpartition('@')[2], 100)})"

    def _again(
        self, method: str, path: str, query: Query, deadline: float, body: Json | None = None,
        kind: str = _JSON,
    ) -> Json:
        tries = 0
        while True:
            try:
                return self._once(method, path, query, deadline, body, kind)
            except KubeApiError as error:
                self._wait_or_raise(error, tries, deadline)
                tries += 1

    def _wait_or_raise(self, error: KubeApiError, tries: int, deadline: float) -> None:
        """Waits if a retry may help and there is time; else raises the error."""
        if not error.passing or tries >= len(_PAUSES):
            raise error
        pause = max(error.wait, _PAUSES[tries])
        if time.monotonic() + pause >= deadline:
            raise error
        self._pause(pause)

    def _once(
        self, method: str, path: str, query: Query, deadline: float, body: Json | None = None,
        kind: str = _JSON,
    ) -> Json:
        client, web = self._open(), importlib.import_module("urllib3")
        left = max(deadline - time.monotonic(), 0.1)
        headers = {
            "Accept": "application/json", "User-Agent": MANAGER,
            **({"Content-Type": kind} if body is not None else {})}
        try:
            with self._lock:
                known = client.configuration.auth_settings().values()
            headers.update({one["key"]: one["value"] for one in known if one.get("in") == "header"})
        except Exception as error:  # noqa: BLE001  (a credential plug-in may raise anything)
            why = f"its credentials could not be renewed ({type(error).__name__})"
            raise KubeApiError(f"{self.where}: {why}; try: kubectl get nodes", 401) from None
        try:
            answer = client.rest_client.pool_manager.request(
                method, f"{client.configuration.host}{path}{'?' if query else ''}{urlencode(query)}",
                headers=headers, body=None if body is None else json.dumps(body).encode(), retries=False,
                redirect=False, preload_content=False,
                timeout=web.Timeout(connect=min(left, _CONNECT_S), read=left))
            try:
                data = self._read(answer, path, deadline)
            except BaseException:
                answer.close()
                raise
            answer.release_conn()
        except web.exceptions.NewConnectionError as error:      # which urllib3 counts among timeouts
            raise KubeApiError(f"{self.where}: cannot be reached: {_last(error)}; try: kubectl get nodes",
                               passing=True) from None
        except (web.exceptions.TimeoutError, TimeoutError):
            waited = f"{left:.0f}" if left >= 1 else f"{left:.1f}"
            raise KubeApiError(f"{self.where}: did not answer within {waited} s; try: kubectl get nodes",
                               passing=True, silent=True) from None
        except (web.exceptions.SSLError, OSError) as error:
            raise KubeApiError(
                f"{self.where}: {_last(error)}; see its kubeconfig, and try: kubectl get nodes") from None
        except web.exceptions.HTTPError as error:
            raise KubeApiError(f"{self.where}: cannot be reached: {_last(error)}; try: kubectl get nodes",
                               passing=True) from None
        if 200 <= answer.status < 300:
            return self._document(data, path)
        raise self._refused(answer.status, data, path, answer.headers.get("Retry-After"))

    def _read(self, answer: Any, path: str, deadline: float) -> bytes:
        found = bytearray()
        for chunk in answer.stream(_CHUNK, decode_content=True):
            found += chunk
            if len(found) > MAX_ANSWER:
                raise KubeApiError(f"{self.where}: answered over {MAX_ANSWER} bytes to {path}")
            if time.monotonic() > deadline:
                raise TimeoutError
        return bytes(found)

    def _document(self, data: bytes, path: str) -> Json:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise KubeApiError(f"{self.where}: answered no JSON object to {path}; is this the API server?")
        return found

    def _refused(self, status: int, data: bytes, path: str, wait: str | None) -> KubeApiError:
        try:
            message = self._document(data, path).get("message")
        except KubeApiError:
            message = None
        words = clean(message, 200) if isinstance(message, str) and message else f"no details for {path}"
        meaning, then = _MEANINGS.get(status, f"refused it ({status})"), _NEXT.get(status, "")
        for form, by_whom, next_step in _ADMISSION:
            if isinstance(message, str) and form.search(message):
                meaning, then = f"{by_whom} ({status})", next_step
                break
        return KubeApiError(
            f"{self.where}: {meaning}: {words}{then}", status, passing=status in _PASSING,
            wait=float(wait) if wait is not None and wait.isdecimal() and len(wait) < 6 else 0.0)

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _client(self._config, self._context)
            return self._client


_MEANINGS = {
    400: "bad request (400)", 401: "does not accept the credentials (401)", 403: "does not allow it (403)",
    404: "not found (404)", 409: "someone else was faster (409)", 410: "the list is out of date (410)",
    422: "the change is invalid (422)", 429: "is overloaded (429)", 500: "internal error (500)",
    503: "is not available (503)", 504: "took too long (504)"}
_NEXT = {
    401: "; try: kubectl get nodes", 403: "; the rights that muster needs: muster privilege kubernetes",
}
# What stands between a right and its use: the words of kube-apiserver's admission chain, in whatever status a
# webhook chose.
_HOOKS = "; see: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
_ADMISSION = (
    (re.compile(r"^admission webhook \".*\" denied the request"),
     "an admission webhook of the cluster refuses it", _HOOKS),
    (re.compile(r"failed calling webhook \""), "an admission webhook of the cluster could not be asked",
     _HOOKS),
    (re.compile(r"ValidatingAdmissionPolicy '.*' with binding "),
     "an admission policy of the cluster refuses it",
     "; see: kubectl get validatingadmissionpolicies"),
    # RBAC says: ... is forbidden: User "x" cannot update resource "nodes" ...
    (re.compile(r" is forbidden: (?!.* cannot [a-z]+ )"), "an admission plug-in of the cluster refuses it",
     ""),
)


def _client(config: str | None, context: str | None) -> Any:
    """The official client for it; raises ActionError."""
    try:
        configs = importlib.import_module("kubernetes.config")
        client = importlib.import_module("kubernetes.client")
    except ImportError:
        raise ActionError("`cordon: kubernetes` needs the official client: pip install "
                          "'cluster-muster[kubernetes]'") from None
    named = config or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    try:
        if config is None and not any(Path(part).is_file() for part in named.split(":")):
            if "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise ActionError(
                    "kubernetes: there is neither a kubeconfig (KUBECONFIG, ~/.kube/config) nor a pod's "
                    "service account; name a file in the inventory: cordon: {kubernetes: {config: FILE}}")
            settings = client.Configuration()
            configs.load_incluster_config(client_configuration=settings)
            return client.ApiClient(settings)
        return configs.new_client_from_config(config_file=named, context=context, persist_config=False)
    except configs.ConfigException as error:
        raise ActionError(f"kubernetes: {clean(named, 200)}: {clean(error, 200)}") from None
    except ActionError:
        raise
    except Exception as error:  # noqa: BLE001  (any error, whose text may quote a token)
        raise ActionError(f"kubernetes: {clean(named, 200)} cannot be used ({type(error).__name__}); try: "
                          "kubectl config view") from None


def _last(error: BaseException) -> str:
    """The end of an error's text: before it are Python's objects, and the address that is shown anyway."""
    return clean(str(error).rpartition("): " if "): " in str(error) else ">: ")[2], 200)
