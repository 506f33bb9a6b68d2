"""Asks a Kubernetes API server, bounded in time and size: read, replace as it was read, list in pages; each refusal is one line.

The official client (https://github.com/kubernetes-client/python, the extra `kubernetes`) finds the server and its credentials: a
kubeconfig with its contexts and plug-ins, or a pod's service account. Documents stay the JSON that they are: its typed models know the
fields of one release, and whoever writes back what such a model has read takes from the node what a newer server has put there.

https://kubernetes.io/docs/reference/using-api/api-concepts/ says how lists are paged (limit, continue; 410 where the snapshot of a list is
over, and it must be begun anew) and that a replacement with an old resourceVersion is refused with 409. Several threads may ask at a time.

A server that hangs costs an operation over many nodes little more than one question: once it has left three changes in a row without an
answer, and has done none meanwhile, others are refused here for a minute, without being sent. Reads are not: whoever cannot read stops at
the first.
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
_LISTS = 3                          # a list whose snapshot is over is begun anew
_CHANGES = 8                        # so often one node may be changed by others in between
_CONNECT_S = 10.0
_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)
_PASSING = frozenset({429, 500, 502, 503, 504})
_LOOK_S = 5.0                       # for the last look after a change that was not answered
_DEAF = 3                           # so many changes in a row without an answer, and
_DEAF_S = 60.0                      # so long none is sent


class KubeApiError(ActionError):
    """What came instead of an answer. `status` is that of HTTP, 0 where there was none; `passing`: it may be over soon; `wait`: how long
    the server wants to be left alone; `silent`: it took the question and said nothing in time."""

    def __init__(self, words: str, status: int = 0, *, passing: bool = False, wait: float = 0.0, silent: bool = False) -> None:
        super().__init__(words)
        self.status = status
        self.passing = passing
        self.wait = wait
        self.silent = silent


class Api:
    """The server of a kubeconfig's context, or of the pod that this runs in; nothing is opened before the first question.

    `seconds` is for one question with all its repetitions.
    """

    def __init__(
        self, config: str | None = None, context: str | None = None, seconds: float = 30.0, pause: Callable[[float], None] = time.sleep,
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
        """What is there; asked again where the server is busy or the way to it broken. Raises Refused."""
        return self._again("GET", path, query or {}, time.monotonic() + self._seconds)

    def change(self, path: str, edit: Callable[[Json], Json | None]) -> Json:
        """Has `edit` make a new object of what is there (None: it is right as it is), and replaces it if nobody was faster, else anew;
        gives the object as it then is.

        Replaced and not patched: a merge patch of a list such as spec.taints replaces the list, and so takes away what somebody else put
        there meanwhile. An answer that never came is no answer: what is read after it says whether it was done. Raises Refused, and what
        `edit` raises.
        """
        return self._counted(lambda: self._changed(path, edit))

    def _changed(self, path: str, edit: Callable[[Json], Json | None]) -> Json:
        deadline = time.monotonic() + self._seconds
        for tries in range(_CHANGES):
            there = self._again("GET", path, {}, deadline)
            wanted = edit(there)
            if wanted is None:
                return there
            if not wanted.get("metadata", {}).get("resourceVersion"):
                raise KubeApiError(f"{self.where}: {path} came without a resourceVersion, so nobody can see who is faster; nothing changed")
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
        raise KubeApiError(f"{self.where}: {path} was changed by others whenever it was to be changed; try again", 409)

    def _landed(self, path: str, edit: Callable[[Json], Json | None]) -> Json | None:
        """The object, where a change that nobody answered was done all the same; None where it was not, or nobody knows."""
        try:
            there = self._again("GET", path, {}, time.monotonic() + min(_LOOK_S, self._seconds))
            return there if edit(there) is None else None
        except ActionError:
            return None

    def merge(self, path: str, patch: Json) -> None:
        """A strategic merge patch, for lists whose entries the server merges by their key (a node's conditions). Raises Refused."""
        deadline = time.monotonic() + self._seconds
        self._counted(lambda: self._again("PATCH", path, {"fieldManager": MANAGER}, deadline, patch, MERGE))

    def try_once(self, method: str, path: str, body: Json, seconds: float) -> Json:
        """One attempt at a change of little weight (POST, or PATCH by strategic merge), within so many seconds. Raises Refused."""
        return self._once(method, path, {"fieldManager": MANAGER}, time.monotonic() + min(seconds, self._seconds), body,
                          MERGE if method == "PATCH" else _JSON)

    def _counted(self, change: Callable[[], Json]) -> Json:
        """Does it, unless the server has left the last ones without an answer and has done none meanwhile."""
        began = time.monotonic()
        with self._lock:
            if began < self._deaf_until:
                raise KubeApiError(f"{self.where}: not tried, for it did not answer the last {_DEAF} changes; try again later")
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
        """What `take` makes of each item, page by page, None left out; no more than a page is ever held. Raises Refused."""
        for _ in range(_LISTS):
            try:
                return self._collected(path, query, take)
            except KubeApiError as error:
                if error.status != 410:
                    raise
        raise KubeApiError(f"{self.where}: the list of {path} was out of date {_LISTS} times before its end was reached; try again", 410)

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
        """The server as it may be shown: scheme, host and port."""
        parts = urlsplit(str(self._open().configuration.host))
        return f"kubernetes ({parts.scheme}://{clean(parts.netloc.rpartition('@')[2], 100)})"

    def _again(self, method: str, path: str, query: Query, deadline: float, body: Json | None = None, kind: str = _JSON) -> Json:
        tries = 0
        while True:
            try:
                return self._once(method, path, query, deadline, body, kind)
            except KubeApiError as error:
                self._wait_or_raise(error, tries, deadline)
                tries += 1

    def _wait_or_raise(self, error: KubeApiError, tries: int, deadline: float) -> None:
        """Waits where trying again may help and there is time; else raises the error."""
        if not error.passing or tries >= len(_PAUSES):
            raise error
        pause = max(error.wait, _PAUSES[tries])
        if time.monotonic() + pause >= deadline:
            raise error
        self._pause(pause)

    def _once(self, method: str, path: str, query: Query, deadline: float, body: Json | None = None, kind: str = _JSON) -> Json:
        client, web = self._open(), importlib.import_module("urllib3")
        left = max(deadline - time.monotonic(), 0.1)
        headers = {"Accept": "application/json", "User-Agent": MANAGER, **({"Content-Type": kind} if body is not None else {})}
        try:
            with self._lock:
                known = client.configuration.auth_settings().values()
            headers.update({one["key"]: one["value"] for one in known if one.get("in") == "header"})
        except Exception as error:  # noqa: BLE001  (a kubeconfig's plug-in renews the credentials here, and may fail in any way)
            why = f"its credentials could not be renewed ({type(error).__name__})"
            raise KubeApiError(f"{self.where}: {why}; try: kubectl get nodes", 401) from None
        try:
            answer = client.rest_client.pool_manager.request(
                method, f"{client.configuration.host}{path}{'?' if query else ''}{urlencode(query)}", headers=headers,
                body=None if body is None else json.dumps(body).encode(), retries=False, redirect=False, preload_content=False,
                timeout=web.Timeout(connect=min(left, _CONNECT_S), read=left))
            try:
                data = self._read(answer, path, deadline)
            except BaseException:
                answer.close()
                raise
            answer.release_conn()
        except web.exceptions.NewConnectionError as error:      # which urllib3 counts among timeouts
            raise KubeApiError(f"{self.where}: cannot be reached: {_last(error)}; try: kubectl get nodes", passing=True) from None
        except (web.exceptions.TimeoutError, TimeoutError):
            waited = f"{left:.0f}" if left >= 1 else f"{left:.1f}"
            raise KubeApiError(f"{self.where}: did not answer within {waited} s; try: kubectl get nodes", passing=True,
                               silent=True) from None
        except (web.exceptions.SSLError, OSError) as error:
            raise KubeApiError(f"{self.where}: {_last(error)}; see its kubeconfig, and try: kubectl get nodes") from None
        except web.exceptions.HTTPError as error:
            raise KubeApiError(f"{self.where}: cannot be reached: {_last(error)}; try: kubectl get nodes", passing=True) from None
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
            said = self._document(data, path).get("message")
        except KubeApiError:
            said = None
        words = clean(said, 200) if isinstance(said, str) and said else f"no more is said of {path}"
        meaning, then = _MEANINGS.get(status, f"refused it ({status})"), _NEXT.get(status, "")
        for form, by_whom, next_step in _ADMISSION:
            if isinstance(said, str) and form.search(said):
                meaning, then = f"{by_whom} ({status})", next_step
                break
        return KubeApiError(f"{self.where}: {meaning}: {words}{then}", status, passing=status in _PASSING,
                            wait=float(wait) if wait is not None and wait.isdecimal() and len(wait) < 6 else 0.0)

    def _open(self) -> Any:
        with self._lock:
            if self._client is None:
                self._client = _client(self._config, self._context)
            return self._client


_MEANINGS = {
    400: "calls it a bad request (400)", 401: "does not know who asks (401)", 403: "does not allow it (403)",
    404: "knows no such thing (404)", 409: "somebody else was faster (409)", 410: "the list is out of date (410)",
    422: "calls the change invalid (422)",
    429: "has too much to do (429)", 500: "failed inside (500)", 503: "is not available (503)", 504: "took too long (504)",
}
_NEXT = {
    401: "; try: kubectl get nodes", 403: "; the rights that muster needs: muster privilege kubernetes",
}
# What stands between a right and its use: the words of kube-apiserver's admission chain, in whatever status a webhook chose.
_HOOKS = "; see: kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations"
_ADMISSION = (
    (re.compile(r"^admission webhook \".*\" denied the request"), "an admission webhook of the cluster refuses it", _HOOKS),
    (re.compile(r"failed calling webhook \""), "an admission webhook of the cluster could not be asked", _HOOKS),
    (re.compile(r"ValidatingAdmissionPolicy '.*' with binding "), "an admission policy of the cluster refuses it",
     "; see: kubectl get validatingadmissionpolicies"),
    # RBAC says: ... is forbidden: User "x" cannot update resource "nodes" ...
    (re.compile(r" is forbidden: (?!.* cannot [a-z]+ )"), "an admission plug-in of the cluster refuses it", ""),
)


def _client(config: str | None, context: str | None) -> Any:
    """The official client for it; raises ActionError."""
    try:
        configs = importlib.import_module("kubernetes.config")
        client = importlib.import_module("kubernetes.client")
    except ImportError:
        raise ActionError("`cordon: kubernetes` needs the official client: pip install 'cluster-muster[kubernetes]'") from None
    named = config or os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    try:
        if config is None and not any(Path(part).is_file() for part in named.split(":")):
            if "KUBERNETES_SERVICE_HOST" not in os.environ:
                raise ActionError("kubernetes: neither a kubeconfig (KUBECONFIG, ~/.kube/config) nor a pod's service account is here; "
                                  "name a file in the inventory: cordon: {kubernetes: {config: FILE}}")
            settings = client.Configuration()
            configs.load_incluster_config(client_configuration=settings)
            return client.ApiClient(settings)
        return configs.new_client_from_config(config_file=named, context=context, persist_config=False)
    except configs.ConfigException as error:
        raise ActionError(f"kubernetes: {clean(named, 200)}: {clean(error, 200)}") from None
    except ActionError:
        raise
    except Exception as error:  # noqa: BLE001  (what is wrong in such a file shows as any error, whose words may quote a token)
        raise ActionError(f"kubernetes: {clean(named, 200)} cannot be used ({type(error).__name__}); try: kubectl config view") from None


def _last(error: BaseException) -> str:
    """The last words of an error: before them are Python's objects, and the address that is told anyhow."""
    return clean(str(error).rpartition("): " if "): " in str(error) else ">: ")[2], 200)
