"""A stand-in for MAAS's region controller: its REST API 2.0 over HTTP or HTTPS, as far as muster asks it. It
is no MAAS.

Written from what is published, and not from muster's client: the API's own documentation
(https://canonical.com/maas/docs/api: OAuth, multipart/form-data, the operations, their parameters and
errors), canonical/maas (statuses: src/maascommon/enums/node.py; which may follow which:
src/maasserver/node_status.py; texts and codes of refusals: src/maasserver/api/machines.py and exceptions.py,
Retry-After: middleware.py; documents: src/maasserver/api/examples/*.json), and canonical/gomaasclient
(test/testdata/maas/machine.json, client/*.go).

A machine stays in a status until `advance` says how its work ended. Faults are injected: `faults` is asked
before each request with method, path and op; what it returns is answered. Signatures are checked, nonces are
taken once, whatever a header holds is kept nowhere.
"""

from __future__ import annotations

import base64
import binascii
import copy
import email.parser
import email.policy
import json
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from tests.testbed.bmc.certificates import Authority
from tests.testbed.webserver import Answers, answering

Json = dict[str, Any]
KEY = "c0nsumerKEY:t0kenKEY:s3cretKEY"
OTHER_KEY = "0therC:0therT:0therS"
ROOT = "/MAAS/api/2.0/"
IMAGES = ("ubuntu/jammy", "ubuntu/noble", "custom/dgx-os-7")
POWER_PASSWORD = "p0wer-passw0rd"
NAMES = (
    "New", "Commissioning", "Failed commissioning", "Missing", "Ready", "Reserved", "Deployed", "Retired",
    "Broken", "Deploying", "Allocated",
    "Failed deployment", "Releasing", "Releasing failed", "Disk erasing", "Failed disk erasing",
    "Rescue mode", "Entering rescue mode",
    "Failed to enter rescue mode", "Exiting rescue mode", "Failed to exit rescue mode", "Testing",
    "Failed testing")
(NEW, COMMISSIONING, FAILED_COMMISSIONING, MISSING, READY, RESERVED, DEPLOYED, RETIRED, BROKEN, DEPLOYING,
 ALLOCATED, FAILED_DEPLOYMENT,
 RELEASING, FAILED_RELEASING) = range(14)
TESTING, FAILED_TESTING = 21, 22
_COMMISSIONABLE = {NEW, FAILED_COMMISSIONING, READY, FAILED_TESTING, BROKEN, MISSING}
_TESTABLE = set(range(len(NAMES))) - {COMMISSIONING, DEPLOYING, RELEASING, 14, 17, 19, TESTING}
_RELEASABLE = {ALLOCATED, RESERVED, BROKEN, DEPLOYING, DEPLOYED, FAILED_DEPLOYMENT, 15, FAILED_RELEASING}
_HARDWARE = ("system_vendor", "system_product", "system_family", "system_version", "system_sku",
             "system_serial", "cpu_model",
             "mainboard_vendor", "mainboard_product", "mainboard_serial", "chassis_vendor", "chassis_type",
             "chassis_serial")


class Refusal(Exception):
    """An answer that is an error: text, or messages by field."""

    def __init__(self, status: int, body: str | Json) -> None:
        super().__init__(str(body))
        self.status, self.body = status, body


@dataclass
class Hardware:
    """What commissioning finds, and how MAAS reaches the controller."""

    serial: str
    uuid: str = ""
    power_address: str = ""


@dataclass
class Maas:
    """What the server holds. `seen` is what was asked: (method, path, op); `deployed` the parameters of each
    deployment."""

    machines: dict[str, Json] = field(default_factory=dict)
    hardware: dict[str, Hardware] = field(default_factory=dict)
    keys: dict[str, tuple[str, bool]] = field(default_factory=lambda: {KEY: ("muster", True),
                                                                       OTHER_KEY: ("worker", False)})
    tags: set[str] = field(default_factory=lambda: {"gpu"})
    results: dict[str, list[Json]] = field(default_factory=dict)
    seen: list[tuple[str, str, str]] = field(default_factory=list)
    deployed: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    faults: Callable[[str, str, str], Any] = lambda method, path, op: None
    retry_after: str | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)
    url: str = ""
    authority: Path | None = None
    _nonces: set[str] = field(default_factory=set)
    _before: dict[str, int] = field(default_factory=dict)

    def enlist(self, system_id: str, hostname: str, hardware: Hardware, status: int = NEW,
               **more: Any) -> Json:
        """A machine that has come to be known; its serial number is known once it was commissioned."""
        document: Json = {
            "system_id": system_id, "hostname": hostname, "fqdn": f"{hostname}.maas", "description": "",
            "hardware_uuid": hardware.uuid or None,
            "owner": None, "owner_data": {}, "workload_annotations": {}, "locked": False, "osystem": "",
            "distro_series": "", "hwe_kernel": None,
            "power_type": "ipmi", "power_state": "off", "tag_names": [], "ip_addresses": [],
            "error_description": "", "architecture": "amd64/generic",
            "zone": {"name": "default", "description": "", "id": 1,
                     "resource_uri": "/MAAS/api/2.0/zones/default/"},
            "pool": {"name": "default", "description": "Default pool", "id": 0,
                     "resource_uri": "/MAAS/api/2.0/resourcepool/0/"},
            "interface_set": [], "hardware_info": dict.fromkeys(_HARDWARE, "Unknown"), "testing_status": -1,
            "testing_status_name": "Unknown",
            "commissioning_status": -1, "status_action": "", "status_message": None, "node_type": 0,
            "node_type_name": "Machine",
            "resource_uri": f"/MAAS/api/2.0/machines/{system_id}/"}
        self.machines[system_id], self.hardware[system_id] = document, hardware
        if status not in (NEW, COMMISSIONING):
            document["hardware_info"]["system_serial"] = hardware.serial
        self.put(system_id, status, **more)
        return document

    def put(self, system_id: str, status: int, **more: Any) -> None:
        """Puts a machine into a status, whatever it was."""
        name = NAMES[status] if status < len(NAMES) else f"Status {status}"
        self.machines[system_id].update({"status": status, "status_name": name, **more})

    def advance(self, system_id: str, ok: bool = True, message: str = "") -> None:
        """The machine's work is over."""
        with self.lock:
            one = self.machines[system_id]
            status = one["status"]
            good, bad = {COMMISSIONING: (READY, FAILED_COMMISSIONING),
                         DEPLOYING: (DEPLOYED, FAILED_DEPLOYMENT),
                         RELEASING: (READY, FAILED_RELEASING),
                         TESTING: (self._before.get(system_id, READY), FAILED_TESTING)}[status]
            more: Json = {"status_message": message or None}
            if status == COMMISSIONING:
                one["hardware_info"]["system_serial"] = self.hardware[system_id].serial
                more |= {"owner": None} if ok else {}
            if status == TESTING:
                more |= {"testing_status": 2 if ok else 3,
                         "testing_status_name": "Passed" if ok else "Failed"}
                good = READY if good in (FAILED_TESTING, BROKEN, FAILED_DEPLOYMENT) else good
            if status == RELEASING and ok:
                more |= {"owner": None, "osystem": "", "distro_series": "", "workload_annotations": {},
                         "owner_data": {}}
            self.put(system_id, good if ok else bad, **more)

    # what requests do

    def answer(self, method: str, path: str, query: dict[str, list[str]], fields: dict[str, str], user: str,
               admin: bool) -> Any:
        """The document of an answer; raises Refusal."""
        op = query.get("op", [""])[0]
        parts = path.removeprefix(ROOT).strip("/").split("/")
        with self.lock:
            if (method, path, op) == ("GET", ROOT + "users/", "whoami"):
                return {"username": user, "email": f"{user}@maas", "is_superuser": admin, "is_local": True}
            if parts[0] == "machines" and len(parts) == 1:
                return self._machines(method, op, query, fields, user, admin)
            if parts[0] == "machines" and len(parts) == 2 and parts[1] in self.machines:
                return self._machine(method, op, parts[1], fields, user, admin)
            if (parts[0] == "nodes" and parts[2:] == ["results"] and parts[1] in self.machines
                and method == "GET"):
                return self._results(parts[1], query)
            if parts[0] == "tags" and method == "POST" and op == "update_nodes" and parts[1] in self.tags:
                for one in fields.get("add", "").split():
                    self.machines[one]["tag_names"] = sorted({*self.machines[one]["tag_names"], parts[1]})
                return {"added": 1, "removed": 0}
        raise Refusal(404, "Not Found")

    def _machines(self, method: str, op: str, query: dict[str, list[str]], fields: dict[str, str], user: str,
                  admin: bool) -> Any:
        if method == "GET" and op == "power_parameters":
            if not admin:
                raise Refusal(403, "Forbidden")
            return {name: self._power(name) for name in query.get("id", self.machines)}
        if method == "GET" and not op:
            names = query.get("hostname")
            return [one for one in self.machines.values() if names is None or one["hostname"] in names]
        if method == "POST" and op == "allocate":
            one = self.machines.get(fields.get("system_id", ""))
            if one is None or one["status"] != READY or one["locked"] or one["owner"] not in (None, user):
                raise Refusal(409, f"No machine with system ID {fields.get('system_id')} available.")
            self.put(one["system_id"], ALLOCATED, owner=user)
            return one
        raise Refusal(400, f"Unrecognised signature: method={method} op={op}")

    def _machine(self, method: str, op: str, name: str, fields: dict[str, str], user: str,
                 admin: bool) -> Any:
        one = self.machines[name]
        if method == "GET":
            if op == "power_parameters" and not admin:
                raise Refusal(403, "Forbidden")
            return self._power(name) if op else one
        if op in ("commission", "test") and not admin:
            raise Refusal(403, "Forbidden")
        if op == "commission":
            self._available(one, "Commission", _COMMISSIONABLE)
            self.put(name, COMMISSIONING, owner=user, power_state="on")
        elif op == "test":
            self._available(one, "Test", _TESTABLE)
            self._before[name] = one["status"]
            self.put(name, TESTING, power_state="on")
        elif op == "deploy":
            self._deploy(one, fields, user)
        elif op == "release":
            if one["status"] not in (RELEASING, READY):
                if one["status"] not in _RELEASABLE:
                    raise Refusal(409,
                                  f"Machine cannot be released in its current state "
                                  f"('{one['status_name']}').")
                if one["owner"] != user and not admin:
                    raise Refusal(403, "Forbidden")
                self.put(name, RELEASING, power_state="off")
        elif op == "set_workload_annotations":
            if one["owner"] != user:
                raise Refusal(409, "Cannot set workload annotation: it hasn't been acquired.")
            one["workload_annotations"].update(fields)
            one["owner_data"] = dict(one["workload_annotations"])
        else:
            raise Refusal(400, f"Unrecognised signature: method={method} op={op}")
        return one

    def _available(self, one: Json, what: str, statuses: set[int]) -> None:
        if one["status"] not in statuses or one["locked"]:
            raise Refusal(400,
                          {"__all__": [f"{what} is not available because of the current state of the node."]})

    def _deploy(self, one: Json, fields: dict[str, str], user: str) -> None:
        if one["status"] == READY:
            if one["owner"] not in (None, user):
                raise Refusal(409, "Can't allocate a machine belonging to another user.")
            self.put(one["system_id"], ALLOCATED, owner=user)
        if one["status"] != ALLOCATED:
            raise Refusal(409, f"Can't deploy a machine that is in the '{one['status_name']}' state")
        if one["owner"] != user:
            raise Refusal(403, "Forbidden")
        series = fields.get("distro_series", "noble")
        image = series if "/" in series else f"ubuntu/{series}"
        if image not in IMAGES:
            raise Refusal(400,
                          {"distro_series": [
                              f"'{series}' is not a valid distro_series.  It should be one of: "
                              f"{', '.join(IMAGES)}."]})
        try:
            base64.b64decode(fields.get("user_data", ""), validate=True)
        except binascii.Error:
            raise Refusal(400, "Invalid user_data") from None
        self.deployed.append((one["system_id"], fields))
        self.put(one["system_id"], DEPLOYING, osystem=image.partition("/")[0],
                 distro_series=image.partition("/")[2],
                 hwe_kernel=fields.get("hwe_kernel"), power_state="on")

    def _power(self, name: str) -> Json:
        return {"power_address": self.hardware[name].power_address, "power_user": "maas",
                "power_pass": POWER_PASSWORD, "power_driver": "LAN_2_0"}

    def _results(self, name: str, query: dict[str, list[str]]) -> list[Json]:
        """Script sets of the type that is asked for, with the outputs of the scripts that are named, if
        outputs are asked for."""
        wanted, filters = query.get("type", [None])[0], query.get("filters", [""])[0].split(",")
        found = []
        for script_set in copy.deepcopy(self.results.get(name, [])):
            if wanted is not None and script_set["type_name"].lower() != wanted:
                continue
            script_set["results"] = [one for one in script_set["results"] if filters == [""]
                                     or one["name"] in filters]
            if "include_output" not in query:
                for one in script_set["results"]:
                    one.pop("stdout"), one.pop("output")
            found.append(script_set)
        return found

    def signed(self, header: str | None) -> tuple[str, bool]:
        """Whose key signed a request; raises Refusal (RFC 5849, 3.4.4 and 3.5.1)."""
        if header is None or not header.startswith("OAuth "):
            raise Refusal(401, "Unrecognised signature")
        given = {name: unquote(value) for name, value in re.findall(r'([a-z_]+)="([^"]*)"', header)}
        needed = {"oauth_consumer_key", "oauth_token", "oauth_signature", "oauth_signature_method",
                  "oauth_timestamp", "oauth_nonce"}
        if (needed - set(given) or given["oauth_signature_method"] != "PLAINTEXT"
            or abs(int(given["oauth_timestamp"]) - time.time()) > 300):
            raise Refusal(401, "Authorization Error: 'Missing or wrong parameters'")
        with self.lock:
            if given["oauth_nonce"] in self._nonces:
                raise Refusal(401, "Authorization Error: 'Nonce already used'")
            self._nonces.add(given["oauth_nonce"])
        for key, (user, admin) in self.keys.items():
            consumer, token, secret = key.split(":")
            if (given["oauth_consumer_key"], given["oauth_token"]) == (consumer, token):
                if given["oauth_signature"] == f"&{secret}":
                    return user, admin
                # MAAS echoes less; a server may echo anything.
                raise Refusal(401,
                              f"Authorization Error: 'Invalid signature {given['oauth_signature']} for "
                              f"{consumer}:{token}'")
        raise Refusal(401, "Authorization Error: Invalid API key.")


def script_set(number: int, type_name: str, outputs: dict[str, bytes], exit_status: int = 0,
               status: int = 2) -> Json:
    """A run of scripts with their outputs, as nodes/ID/results/ gives it (examples/nodes.json)."""
    results = [{"id": number * 100 + at, "name": name, "status": status,
                "status_name": "Passed" if status == 2 else "Failed",
                "exit_status": exit_status, "stdout": base64.b64encode(text).decode(),
                "output": base64.b64encode(text).decode(),
                "started": "Thu, 06 Aug 2026 10:00:00 -0000", "ended": "Thu, 06 Aug 2026 10:01:00 -0000",
                "parameters": {}}
               for at, (name, text) in enumerate(outputs.items())]
    return {"id": number, "system_id": "", "type": 0, "type_name": type_name, "status": status,
            "status_name": "Passed", "results": results}


@contextmanager
def serving(bed: Maas, folder: Path | None = None) -> Iterator[Maas]:
    """The server on loopback; over HTTPS where there is a folder, for its authority's certificate."""
    certificate = None
    if folder is not None:
        bed.authority = folder / "maas-authority.pem"
        certificate, _ = Authority(bed.authority).certificate(folder / "maas.pem", "127.0.0.1")
    with answering(_handler(bed), certificate) as port:
        bed.url = f"{'https' if certificate else 'http'}://127.0.0.1:{port}/MAAS"
        yield bed


def _handler(bed: Maas) -> type[Answers]:
    class Handler(Answers):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._handle("GET", {})

        def do_POST(self) -> None:
            data = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self._handle("POST", _fields(self.headers.get("Content-Type", ""), data))

        def _handle(self, method: str, fields: dict[str, str] | None) -> None:
            parts = urlsplit(self.path)
            query = parse_qs(parts.query)
            op = query.get("op", [""])[0]
            with bed.lock:
                bed.seen.append((method, parts.path.removeprefix(ROOT), op))
            fault = bed.faults(method, parts.path.removeprefix(ROOT), op)
            if fault == "drop":
                self.close_connection = True
                return
            if callable(fault):
                fault(self)
                self.close_connection = True
                return
            if isinstance(fault, int):
                self._say(fault, "Service unavailable: try again", bed.retry_after)
                return
            if fault is not None and fault != "drop after":
                self._say(200, fault, None)
                return
            try:
                user, admin = bed.signed(self.headers.get("Authorization"))
                if fields is None:
                    raise Refusal(400, "expected multipart/form-data")
                found = bed.answer(method, parts.path, query, fields, user, admin)
            except Refusal as refusal:
                self._say(refusal.status, refusal.body, None)
                return
            if fault == "drop after":
                self.close_connection = True
                return
            with bed.lock:
                data = json.dumps(found)
            self._say(200, data.encode(), None)

        def _say(self, status: int, body: Any, retry_after: str | None) -> None:
            data = body if isinstance(body,
                                      bytes) else (body if isinstance(body, str)
                                                   else json.dumps(body)).encode("utf-8", "surrogatepass")
            self.send_response(status)
            self.send_header("Content-Type", "text/plain; charset=utf-8" if isinstance(body, str)
                             else "application/json; charset=utf-8")
            self.send_header("Content-Length", str(len(data)))
            if retry_after is not None:
                self.send_header("Retry-After", retry_after)
            self.end_headers()
            self.wfile.write(data)

    return Handler


def _fields(kind: str, data: bytes) -> dict[str, str] | None:
    """The parameters of multipart/form-data, None for anything else (https://canonical.com/maas/docs/api:
    HTTP methods and parameter-passing)."""
    if not kind.startswith("multipart/form-data; boundary="):
        return None
    parsed = email.parser.BytesParser(policy=email.policy.HTTP).parsebytes(
        f"Content-Type: {kind}\r\n\r\n".encode() + data)
    return {str(part.get_param("name", header="content-disposition")): str(part.get_payload())
            for part in parsed.iter_parts()}
