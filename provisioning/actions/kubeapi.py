"""Asks a Kubernetes API server, bounded in time and size: read, replace as it was read, list in pages; each refusal is one line.

The official client (https://github.com/kubernetes-client/python, the extra `kubernetes`) finds the server and its credentials: a
kubeconfig with its contexts and plug-ins, or a pod's service account. Documents stay the JSON that they are: its typed models know the
fields of one release, and whoever writes back what such a model has read takes from the node what a newer server has put there.

https://kubernetes.io/docs/reference/using-api/api-concepts/ says how lists are paged (limit, continue; 410 where the snapshot of a list is
over, and it must be begun anew) and that a replacement with an old resourceVersion is refused with 409.
"""

from __future__ import annotations

import importlib
import json
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from inventory.text import clean
from provisioning.actions.base import ActionError

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
_MANAGER = "muster"                 # as whom the server notes our changes (managedFields)


class Refused(ActionError):
    """What came instead of an answer. `status` is that of HTTP, 0 where there was none; `passing`: it may be over soon; `wait`: how long
    the server wants to be left alone."""

    def __init__(self, words: str, status: int = 0, *, passing: bool = False, wait: float = 0.0) -> None:
        super().__init__(words)
        self.status = status
        self.passing = passing
        self.wait = wait


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

    def get(self, path: str, query: Query | None = None) -> Json:
        """What is there; asked again where the server is busy or the way to it broken. Raises Refused."""
        return self._again("GET", path, query or {}, time.monotonic() + self._seconds)

    def change(self, path: str, edit: Callable[[Json], Json | None]) -> None:
        """Has `edit` make a new object of what is there (None: it is right as it is), and replaces it if nobody was faster, else anew.

        Replaced and not patched: a merge patch of a list such as spec.taints replaces the list, and so takes away what somebody else put
        there meanwhile. An answer that never came is no answer: the next look says whether it was done. Raises Refused, and what `edit`
        raises.
        """
        deadline = time.monotonic() + self._seconds
        for tries in range(_CHANGES):
            wanted = edit(self._again("GET", path, {}, deadline))
            if wanted is None:
                return
            if not wanted.get("metadata", {}).get("resourceVersion"):
                raise Refused(f"{self.where}: {path} came without a resourceVersion, so nobody can see who is faster; nothing was changed")
            try:
                self._once("PUT", path, {"fieldManager": _MANAGER}, deadline, wanted)
                return
            except Refused as error:
                if error.status != 409:
                    self._wait_or_raise(error, tries, deadline)
                elif time.monotonic() < deadline:
                    self._pause(_PAUSES[min(tries, len(_PAUSES) - 1)])
        raise Refused(f"{self.where}: {path} was changed by others whenever it was to be changed; try again", 409)

    def merge(self, path: str, patch: Json) -> None:
        """A strategic merge patch, for lists whose entries the server merges by their key (a node's conditions). Raises Refused."""
        self._again("PATCH", path, {"fieldManager": _MANAGER}, time.monotonic() + self._seconds, patch, MERGE)

    def collect(self, path: str, query: Query, take: Callable[[Json], T | None]) -> list[T]:
        """What `take` makes of each item, page by page, None left out; no more than a page is ever held. Raises Refused."""
        for _ in range(_LISTS):
            try:
                return self._collected(path, query, take)
            except Refused as error:
                if error.status != 410:
                    raise
        raise Refused(f"{self.where}: the list of {path} was out of date {_LISTS} times before its end was reached; try again", 410)

    def _collected(self, path: str, query: Query, take: Callable[[Json], T | None]) -> list[T]:
        found: list[T] = []
        token = ""
        for _ in range(_MOST_PAGES):
            page = self.get(path, {**query, "limit": str(PAGE), **({"continue": token} if token else {})})
            items, about = page.get("items") or [], page.get("metadata")
            if not isinstance(items, list) or not isinstance(about, dict):
                raise Refused(f"{self.where}: the list of {path} is no list; is this the API server?")
            found += [one for item in items if isinstance(item, dict) and (one := take(item)) is not None]
            before, token = token, str(about.get("continue") or "")
            if not token:
                return found
            if token == before:
                break
        raise Refused(f"{self.where}: the list of {path} has no end")

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
            except Refused as error:
                self._wait_or_raise(error, tries, deadline)
                tries += 1

    def _wait_or_raise(self, error: Refused, tries: int, deadline: float) -> None:
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
        headers = {"Accept": "application/json", "User-Agent": _MANAGER, **({"Content-Type": kind} if body is not None else {})}
        try:
            headers.update({one["key"]: one["value"] for one in client.configuration.auth_settings().values() if one.get("in") == "header"})
        except Exception as error:  # noqa: BLE001  (a kubeconfig's plug-in renews the credentials here, and may fail in any way)
            why = f"its credentials could not be renewed ({type(error).__name__})"
            raise Refused(f"{self.where}: {why}; try: kubectl get nodes", 401) from None
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
            raise Refused(f"{self.where}: cannot be reached: {_last(error)}; try: kubectl get nodes", passing=True) from None
        except (web.exceptions.TimeoutError, TimeoutError):
            raise Refused(f"{self.where}: did not answer within {self._seconds:g} s; try: kubectl get nodes", passing=True) from None
        except (web.exceptions.SSLError, OSError) as error:
            raise Refused(f"{self.where}: {_last(error)}; see its kubeconfig, and try: kubectl get nodes") from None
        except web.exceptions.HTTPError as error:
            raise Refused(f"{self.where}: cannot be reached: {_last(error)}; try: kubectl get nodes", passing=True) from None
        if 200 <= answer.status < 300:
            return self._document(data, path)
        raise self._refused(answer.status, data, path, answer.headers.get("Retry-After"))

    def _read(self, answer: Any, path: str, deadline: float) -> bytes:
        found = bytearray()
        for chunk in answer.stream(_CHUNK, decode_content=True):
            found += chunk
            if len(found) > MAX_ANSWER:
                raise Refused(f"{self.where}: answered over {MAX_ANSWER} bytes to {path}")
            if time.monotonic() > deadline:
                raise TimeoutError
        return bytes(found)

    def _document(self, data: bytes, path: str) -> Json:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict):
            raise Refused(f"{self.where}: answered no JSON object to {path}; is this the API server?")
        return found

    def _refused(self, status: int, data: bytes, path: str, wait: str | None) -> Refused:
        try:
            said = self._document(data, path).get("message")
        except Refused:
            said = None
        words = clean(said, 200) if isinstance(said, str) and said else f"no more is said of {path}"
        return Refused(f"{self.where}: {_MEANINGS.get(status, f'refused it ({status})')}: {words}{_NEXT.get(status, '')}", status,
                       passing=status in _PASSING, wait=float(wait) if wait is not None and wait.isdecimal() and len(wait) < 6 else 0.0)

    def _open(self) -> Any:
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
    401: "; try: kubectl get nodes", 403: "; muster needs get, list, update of nodes, list of pods and patch of nodes/status",
}


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
