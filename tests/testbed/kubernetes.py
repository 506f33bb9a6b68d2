"""A Kubernetes API server for tests: nodes, pods and events over HTTPS, with what a real kube-apiserver
(1.20.2) was seen to do.

Real: a new node is tainted not-ready, and has a UID and a time of registration of its own; an object is
replaced whole, if its resourceVersion is the newest (409); what a main resource's PUT says of `status` is not
taken; a patch of either kind replaces spec.taints, a strategic one merges conditions by type; a bad taint is
422; managedFields name who set a field, once an object has any: one made without labels has none and gets
none; lists come in pages, whose token is worth nothing (410) once it is old. Faults are injected.
"""

from __future__ import annotations

import base64
import copy
import datetime as dt
import ipaddress
import json
import re
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from tests.testbed.webserver import Answers, answering

Json = dict[str, Any]
TOKEN = "s3cret-t0ken"
_KEY = re.compile(r"([a-z0-9]([-.a-z0-9]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


class Problem(Exception):
    """An answer that is a Status."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason = code, reason


@dataclass
class Cluster:
    """What the server holds, and what it is to do wrong.

    `faults` is asked before each request with method and path: an int is that status, a Problem is answered,
    "drop" closes the connection, "drop after" does so when all is done, and a function is called instead of
    an answer. `seen` is what was asked: (method, path with query).
    """

    nodes: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    events: dict[str, Json] = field(default_factory=dict)
    version: int = 100
    seen: list[tuple[str, str]] = field(default_factory=list)
    faults: Callable[[str, str], Any] = lambda method, path: None
    retry_after: str | None = None
    expire: int = 0             # so many continuations are out of date
    lock: threading.RLock = field(default_factory=threading.RLock)

    def made(self, kind: str, name: str, document: Json) -> Json:
        """A new object, as the server completes it; raises Problem."""
        if name in getattr(self, kind):
            raise Problem(409, "AlreadyExists", f'{kind} "{name}" already exists')
        self.version += 1
        new = copy.deepcopy(document)
        about = new.setdefault("metadata", {})
        now = dt.datetime.fromtimestamp(time.time(), dt.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        about.update(name=name, resourceVersion=str(self.version), uid=str(uuid.uuid4()),
                     creationTimestamp=now)
        if kind == "nodes":
            spec = new.setdefault("spec", {})
            about["managedFields"] = _noted({}, new, "kubelet") if about.get("labels") else []
            if not about["managedFields"]:
                del about["managedFields"]
            spec["taints"] = [*spec.get("taints", []),
                              {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]
            new.setdefault("status", {})
        check(new, kind)
        getattr(self, kind)[name] = new
        return new

    def noted(self, name: str, patch: Json) -> Json:
        """An event after a patch."""
        self.version += 1
        self.events[name] = merged(self.events[name], patch, True)
        self.events[name]["metadata"]["resourceVersion"] = str(self.version)
        return self.events[name]

    def replaced(self, name: str, new: Json, manager: str, *, status: bool = False) -> Json:
        """A node after a PUT or a patch; raises Problem."""
        old = self.nodes[name]
        asked = new.get("metadata", {}).get("resourceVersion")
        if asked is not None and asked != old["metadata"]["resourceVersion"]:
            raise Problem(409,
                          "Conflict",
                          f'Operation cannot be fulfilled on nodes "{name}": the object has been modified; '
                          f'please apply '
                                           "your changes to the latest version and try again")
        if new.get("metadata", {}).get("name", name) != name:
            raise Problem(400, "BadRequest",
                          f"the name of the object does not match the name on the URL ({name})")
        kept = copy.deepcopy(old)
        if status:
            kept["status"] = new.get("status", {})
        else:
            kept["spec"] = new.get("spec", {})
            for key in ("labels", "annotations"):
                kept["metadata"].pop(key, None)
                if new.get("metadata", {}).get(key):
                    kept["metadata"][key] = new["metadata"][key]
            kept |= {key: value for key, value in new.items() if key not in ("metadata", "spec", "status")}
            if kept["spec"].get("unschedulable") is False:      # omitempty
                del kept["spec"]["unschedulable"]
        check(kept, "nodes")
        if old["metadata"].get("managedFields"):
            kept["metadata"]["managedFields"] = _noted(old, kept, manager)
        if kept != old:
            self.version += 1
            kept["metadata"]["resourceVersion"] = str(self.version)
        self.nodes[name] = kept
        return kept


Path_ = tuple[str, ...]


def _noted(old: Json, new: Json, manager: str) -> list[Json]:
    """managedFields after a change of labels, annotations, taints or unschedulable: whoever changes a field
    has it."""
    was = {path: one["manager"] for one in old.get("metadata", {}).get("managedFields", [])
           for path in _paths(one["fieldsV1"])}
    before = _leaves(old)
    trees: dict[str, Json] = {}
    for path, value in _leaves(new).items():
        owner = was.get(path) if before.get(path) == value else manager
        if owner is not None:
            tree = trees.setdefault(owner, {})
            for word in path:
                tree = tree.setdefault(word, {})
    return [{"manager": owner, "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1",
             "fieldsV1": tree} for owner, tree in trees.items()]


def _leaves(document: Json) -> dict[Path_, Any]:
    about, spec = document.get("metadata", {}), document.get("spec", {})
    found = {("f:metadata", f"f:{kind}", f"f:{key}"): value for kind in ("labels", "annotations")
             for key, value in (about.get(kind) or {}).items()}
    return found | {("f:spec", f"f:{key}"): spec[key] for key in ("taints", "unschedulable") if spec.get(key)}


def _paths(tree: Json, before: Path_ = ()) -> Iterator[Path_]:
    for word, inner in tree.items():
        yield from _paths(inner, (*before, word)) if inner else [(*before, word)]


def check(document: Json, kind: str) -> None:
    """Raises Problem for what the server calls invalid."""
    if kind != "nodes":
        return
    seen = set()
    for at, taint in enumerate(document["spec"].get("taints") or []):
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        wrong = ("a qualified name must consist of alphanumeric characters" if not _KEY.fullmatch(key)
                 else "a valid label must be an empty string or consist of alphanumeric characters"
                 if not _VALUE.fullmatch(value)
                 else "Unsupported value" if effect not in ("NoSchedule", "PreferNoSchedule", "NoExecute")
                 else "Duplicate value" if (key, effect) in seen else "")
        if wrong:
            raise Problem(422,
                          "Invalid",
                          f'Node "{document["metadata"]["name"]}" is invalid: metadata.taints[{at}]: '
                          f'Invalid value: '
                                          f'"{value}": {wrong}')
        seen.add((key, effect))


def merged(old: Any, patch: Any, strategic: bool, key: str = "") -> Any:
    """RFC 7386; strategic: the lists of a node that are merged by a key."""
    by = {"conditions": "type"}.get(key)
    if strategic and by and isinstance(old, list) and isinstance(patch, list):
        left = {one[by]: one for one in old}
        for one in patch:
            left[one[by]] = merged(left.get(one[by], {}), one, strategic)
        return list(left.values())
    if not isinstance(patch, dict):
        return patch
    new = dict(old) if isinstance(old, dict) else {}
    for name, value in patch.items():
        if value is None:
            new.pop(name, None)
        else:
            new[name] = merged(new.get(name), value, strategic, name)
    return new


def handler(cluster: Cluster) -> type[Answers]:
    class Handler(Answers):
        protocol_version = "HTTP/1.1"
        wbufsize = 65536        # a head and a body written apart would wait 40 ms for each other

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else b""
            with cluster.lock:
                cluster.seen.append((self.command, self.path))
                fault = cluster.faults(self.command, self.path)
            if fault == "drop":
                self.close_connection = True
                return
            if callable(fault):
                fault(self)
                return
            try:
                scheme, _, token = (self.headers.get("Authorization") or "").partition(" ")
                if (scheme.lower(), token) != ("bearer", TOKEN):
                    raise Problem(401, "Unauthorized", "Unauthorized")
                if isinstance(fault, Problem):
                    raise fault
                if isinstance(fault, int):
                    raise Problem(fault, "Injected", "an injected \x1b[31m fault")
                with cluster.lock:
                    code, found = self.answer(json.loads(body) if body else None)
            except Problem as problem:
                code, found = problem.code, {"kind": "Status", "apiVersion": "v1", "metadata": {},
                                             "status": "Failure", "message": str(problem),
                                             "reason": problem.reason, "code": problem.code}
            if fault == "drop after":
                self.close_connection = True
                return
            data = json.dumps(found).encode()
            self.send_response(code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            if code == 429 and cluster.retry_after is not None:
                self.send_header("Retry-After", cluster.retry_after)
            self.end_headers()
            self.wfile.write(data)

        do_PUT = do_PATCH = do_POST = do_DELETE = do_GET

        def answer(self, body: Any) -> tuple[int, Json]:
            """The status and the document."""
            url = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(url.query).items()}
            manager = query.get("fieldManager") or (self.headers.get("User-Agent") or "").partition("/")[0]
            parts = url.path.strip("/").split("/")
            if parts[:2] != ["api", "v1"]:
                raise Problem(404, "NotFound", "the server could not find the requested resource")
            kind = next((one for one in ("pods", "events") if one in parts), "nodes")
            rest = parts[parts.index(kind) + 1:] if kind in parts else []
            held: dict[str, Json] = getattr(cluster, kind)
            if not rest and self.command == "POST":
                return 201, cluster.made(kind, body["metadata"]["name"], body)
            if not rest:
                return 200, listed(cluster, held, kind, query)
            if rest[0] not in held:
                raise Problem(404, "NotFound", f'{kind} "{rest[0]}" not found')
            if self.command == "GET":
                return 200, held[rest[0]]
            if self.command == "DELETE":
                return 200, held.pop(rest[0])
            if kind == "events":
                return 200, cluster.noted(rest[0], body)
            if self.command == "PATCH":
                style = self.headers.get("Content-Type", "")
                body = merged(held[rest[0]], body, "strategic" in style)
            return 200, cluster.replaced(rest[0], body, manager, status=rest[1:] == ["status"])

    return Handler


def listed(cluster: Cluster, held: dict[str, Json], kind: str, query: dict[str, str]) -> Json:
    labels, fields = query.get("labelSelector", ""), query.get("fieldSelector", "")
    found = [held[name] for name in sorted(held) if (not labels or _labelled(held[name], labels))
             and (not fields or _fits(held[name], fields))]
    start = 0
    if "continue" in query:
        if cluster.expire:
            cluster.expire -= 1
            raise Problem(410, "Expired",
                          "The provided continue parameter is too old to display a consistent list result.")
        start = int(base64.b64decode(query["continue"]))
    end = start + int(query.get("limit") or len(found) or 1)
    about: Json = {"resourceVersion": str(cluster.version)}
    if end < len(found):
        about["continue"] = base64.b64encode(str(end).encode()).decode()
    return {"kind": f"{kind[:-1].title()}List", "apiVersion": "v1", "metadata": about,
            "items": found[start:end]}


def _labelled(one: Json, selector: str) -> bool:
    labels = one["metadata"].get("labels", {})
    if match := re.fullmatch(r"(\S+) in \((.*)\)", selector):
        return labels.get(match[1]) in match[2].split(",")
    return selector in labels


def _fits(one: Json, selector: str) -> bool:
    for part in filter(None, selector.split(",")):
        path, _, wanted = part.partition("!=" if "!=" in part else "=")
        found: Any = one
        for key in path.split("."):
            found = found.get(key, "") if isinstance(found, dict) else ""
        if (found == wanted) == ("!=" in part):
            return False
    return True


@dataclass
class Serving:
    """A running server; `cluster` is None where it is a real one, whose insides no one sees. `config` is a
    kubeconfig for it."""

    url: str
    config: Path
    cluster: Cluster | None
    trust: Path
    token: str = TOKEN

    def ask(self, method: str, path: str, body: Any = None, *, kind: str = "application/json",
            manager: str = "kubectl-cordon") -> tuple[int, Json]:
        """What another client gets."""
        import http.client

        parts = urlsplit(self.url)
        connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, timeout=20,
                                                 context=ssl.create_default_context(cafile=str(self.trust)))
        connection.request(method, path, None if body is None else json.dumps(body), {
            "Authorization": f"Bearer {self.token}", "Content-Type": kind,
            "User-Agent": f"{manager}/1.20 (linux)"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
        connection.close()
        return answer.status, found

    def node(self, name: str) -> Json:
        return self.ask("GET", f"/api/v1/nodes/{name}")[1]

    def patch(self, name: str, patch: Json, manager: str = "kubectl-cordon") -> Json:
        """A merge patch of a node, as kubectl sends."""
        status, found = self.ask("PATCH", f"/api/v1/nodes/{name}", patch, kind="application/merge-patch+json",
                                 manager=manager)
        assert status == 200, found
        return found

    def add(self, name: str, labels: dict[str, str] | None = None, taints: list[Json] | None = None) -> None:
        """A node registers itself."""
        status, found = self.ask("POST", "/api/v1/nodes",
                                 {"kind": "Node", "apiVersion": "v1", "spec": {"taints": taints or []},
                                  "metadata": {"name": name,
                                               "labels": {"kubernetes.io/hostname": name, **(labels or {})}}},
                                 manager="kubelet")
        assert status == 201, found

    def delete(self, name: str) -> None:
        """A node is deleted, as `kubectl delete node` or a cloud's controller does."""
        status, found = self.ask("DELETE", f"/api/v1/nodes/{name}")
        assert status == 200, found

    def untaint(self, name: str, key: str) -> None:
        """kubectl taint node NAME KEY-"""
        self.patch(name,
                   {"spec": {"taints": [taint for taint in self.node(name)["spec"].get("taints", [])
                                        if taint["key"] != key]}}, "kubectl-taint")

    def events(self, name: str) -> list[Json]:
        """Those of a node, as `kubectl describe node` asks for them."""
        found = self.ask("GET",
                         f"/api/v1/namespaces/default/events?fieldSelector=involvedObject.name={name},"
                         f"involvedObject.kind=Node")
        assert found[0] == 200, found
        return list(found[1]["items"])

    def pod(self, name: str, node: str, gpus: int = 0, phase: str = "Running", unplaced: str = "",
            **spec: Any) -> None:
        """A pod that is bound to a node; or, with node "", one that the scheduler could not place for the
        reason `unplaced`."""
        resources = {"limits": {"nvidia.com/gpu": str(gpus)},
                     "requests": {"nvidia.com/gpu": str(gpus)}} if gpus else {}
        told = {"phase": phase,
                **({"conditions": [{"type": "PodScheduled", "status": "False", "reason": unplaced}]}
                   if unplaced else {})}
        status, found = self.ask("POST", "/api/v1/namespaces/default/pods", {
            "kind": "Pod", "apiVersion": "v1", "metadata": {"name": name, "namespace": "default"},
            "spec": {**({"nodeName": node} if node else {}),
                     "containers": [{"name": "c", "image": "i", "resources": resources}], **spec},
            "status": told})
        assert status == 201, found
        if self.cluster is None:
            status, found = self.ask("PATCH", f"/api/v1/namespaces/default/pods/{name}/status",
                                     {"status": told}, kind="application/merge-patch+json")
            assert status == 200, found


@contextmanager
def serving(folder: Path) -> Iterator[Serving]:
    """A server of one's own on loopback, with a certificate of its own."""
    cluster = Cluster()
    with _listening(folder, handler(cluster)) as (url, certificate):
        yield Serving(url, kubeconfig(folder / "kubeconfig", url, certificate), cluster, certificate)


@contextmanager
def relayed(bed: Serving, folder: Path, hook: Callable[[str, str, bool], None]) -> Iterator[Path]:
    """A kubeconfig of a way to the server on which `hook(method, path, after)` is called before and after
    each request is done; where it raises OSError the connection ends there, and where it hangs it does,
    too."""
    class Handler(Answers):
        protocol_version = "HTTP/1.1"
        wbufsize = 65536

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            try:
                hook(self.command, self.path, False)
                status, found = bed.ask(self.command, self.path, body,
                                        kind=self.headers.get("Content-Type") or "", manager="muster")
                hook(self.command, self.path, True)
            except OSError:
                self.close_connection = True
                return
            data = json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_PUT = do_PATCH = do_POST = do_GET

    folder.mkdir()
    with _listening(folder, Handler) as (url, certificate):
        yield kubeconfig(folder / "kubeconfig", url, certificate)


@contextmanager
def _listening(folder: Path, answers: type[Answers]) -> Iterator[tuple[str, Path]]:
    certificate, key = certified(folder)
    with answering(answers, certificate, key) as port:
        yield f"https://127.0.0.1:{port}", certificate


@contextmanager
def webhook(bed: Serving, folder: Path, answer: Callable[[Json], Json | None]) -> Iterator[None]:
    """An admission webhook of a real server, for changes of nodes: `answer` makes the response of a request,
    or None where it hangs."""
    end = threading.Event()

    class Handler(Answers):
        def do_POST(self) -> None:
            review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            response = answer(review["request"])
            if response is None:
                end.wait(60)
                return
            data = json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
                               "response": {"uid": review["request"]["uid"], **response}}).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.end_headers()
            self.wfile.write(data)

    path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    folder.mkdir()
    with _listening(folder, Handler) as (url, certificate):
        status, found = bed.ask("POST", path, {"metadata": {"name": "guard"}, "webhooks": [{
            "name": "guard.example.org",
            "clientConfig": {"url": f"{url}/",
                             "caBundle": base64.b64encode(certificate.read_bytes()).decode()},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["UPDATE"],
                       "resources": ["nodes"]}],
            "admissionReviewVersions": ["v1"], "sideEffects": "None", "timeoutSeconds": 1,
            "failurePolicy": "Fail"}]})
        assert status == 201, found
        try:
            yield
        finally:
            end.set()
            assert bed.ask("DELETE", f"{path}/guard")[0] == 200


def kubeconfig(path: Path, url: str, trust: Path, token: str = TOKEN, context: str = "train") -> Path:
    """One context, one user with a token."""
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": context,
        "clusters": [{"name": "c", "cluster": {"server": url, "certificate-authority": str(trust)}}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": "c", "user": "u"}}]}))
    return path


def certified(folder: Path) -> tuple[Path, Path]:
    """A certificate for loopback that signs itself, and its key."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.fromtimestamp(time.time(), dt.timezone.utc)
    made = (x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(
        key.public_key()).serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=2))
            .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]),
                           critical=False)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None),
                           critical=True).sign(key, hashes.SHA256()))
    (folder / "tls.crt").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    (folder / "tls.key").write_bytes(key.private_bytes(serialization.Encoding.PEM,
                                                       serialization.PrivateFormat.TraditionalOpenSSL,
                                                       serialization.NoEncryption()))
    return folder / "tls.crt", folder / "tls.key"
