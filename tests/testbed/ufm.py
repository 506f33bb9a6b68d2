"""A stand-in for UFM Enterprise's REST interface over HTTPS, as far as muster asks it, for the fabric of a
cabling plan. It is no UFM.

Written from what is published, and not from muster's client or readers: the UFM Enterprise REST API guide
(6.22: "Ports REST API", "Links REST API", "Unhealthy Ports REST API", "Jobs REST API", "Events REST API",
"Access Tokens API", "REST API Complementary Information") and Mellanox/ufm_sdk_3.0 (utils/ufm_rest_client.py:
paths by login and pages, utils/job_polling.py: statuses of jobs, scripts/ufm_ports: filters).

`faults` is asked before each request with method and path without prefix: what it returns is done instead (a
status, bytes as the body of a 200, "drop", or a call on the handler). `lag` is how often the list of
unhealthy ports is still shown as it was after a change, as a subnet manager takes its time to sweep. With
`job`, a change is answered with 202 and a job, which has these statuses one after the other.
"""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from healthcheck.subnet.cabling import CablingPlan, Tier
from tests.testbed.bmc.certificates import Authority
from tests.testbed.ibfabric import net_ports, node_guids
from tests.testbed.webserver import Answers, answering

Json = dict[str, Any]
USER, PASSWORD, TOKEN = "muster", "s3cret of ufm", "czQYeCfKIeXqlwSqtorunOPysaSp2r"
_PAGE = "<!DOCTYPE HTML><html><head><title>{0}</title></head><body><h1>{0}</h1></body></html>"


@dataclass
class Ufm:
    """What the server holds. `seen` is what was asked: (method, path without prefix and query, body)."""

    plan: CablingPlan
    unhealthy: dict[str, list[str]] = field(default_factory=dict)       # by name of the port: its conditions
    down: set[str] = field(default_factory=set)
    hides_isolated: bool = False        # whether a port that is left out shows no other end
    events: list[Json] = field(default_factory=list)
    lag: int = 0
    job: list[str] = field(default_factory=list)
    listed: bool = False        # resources come as lists, whatever was asked for
    faults: Callable[[str, str], Any] = lambda method, path: None
    seen: list[tuple[str, str, Any]] = field(default_factory=list)
    lock: threading.RLock = field(default_factory=threading.RLock)
    url: str = ""
    authority: Path | None = None
    fingerprint: str = ""
    _shown: dict[str, list[str]] = field(default_factory=dict)
    _wait: int = 0

    def __post_init__(self) -> None:
        self.ends: dict[str, str] = {}      # by name of a port: that of the other end
        names = {guid: f"{device} {port}".strip() for (device, port), guid in node_guids(self.plan).items()}
        lids = {guid: at for at, guid in enumerate(names, 1)}
        switches = {device.name for device in self.plan.devices.values() if device.tier is not Tier.HOST}
        self.rows: dict[str, Json] = {}
        there = net_ports(self.plan)
        for cable in self.plan.cables:
            one, other = (f"{there[end].node[2:]}_{there[end].number}" for end in (cable.a, cable.b))
            self.ends |= {one: other, other: one}
            for end, name in ((cable.a, one), (cable.b, other)):
                switch, guid = end.device in switches, there[end].node[2:]
                label = str(there[end].number) if switch else f"HCA-1/{there[end].number}"
                self.rows[name] = {
                    "name": name, "guid": guid, "systemID": guid, "system_name": end.device,
                    "number": there[end].number, "dname": label,
                    "description": "Switch IB Port" if switch else "Computer IB Port", "lid": lids[guid],
                    "node_description": f"{end.device}:{label}" if switch else names[guid],
                    "active_speed": cable.speed,
                    "active_width": f"{cable.width}x", "mtu": 4096, "tier": 1, "severity": "Info",
                    "mirror": "disable",
                    "capabilities": ["reset", "healthy_operations", "disable", "get_cables_info"]}
        self.switches = {node_guids(self.plan)[name, ""]: name for name in switches}

    def name(self, device: str, number: int) -> str:
        """The name of a switch's port."""
        return f"{node_guids(self.plan)[device, '']}_{number}"

    def puts(self) -> list[Any]:
        """The changes that arrived."""
        return [body for method, _, body in self.seen if method == "PUT"]

    # what requests do

    def answer(self, method: str, path: str, query: dict[str, str],
               body: Any) -> tuple[int, Any, dict[str, str]]:
        with self.lock:
            if method == "PUT" and path == "/app/unhealthy_ports":
                return self._mark(body)
            if method != "GET":
                return 405, {"error": "Method Not Allowed"}, {}
            if path == "/resources/ports":
                rows = [self._port(name)
                        for name in self.rows if query.get("system") in (None, self.rows[name]["guid"])]
                return self._listed(rows, query)
            if path == "/resources/links":
                return self._listed(self._links(), query)
            if path == "/resources/systems":
                return self._listed([{"type": "switch", "guid": guid, "system_guid": guid,
                                      "system_name": name, "state": "active"}
                                     for guid, name in self.switches.items()], query)
            if path == "/app/unhealthy_ports":
                return self._listed(self._unhealthy(), query)
            if path == "/app/events":
                return self._listed(self.events, query)
            if path == "/jobs/7" and self.job:
                status = self.job.pop(0) if len(self.job) > 1 else self.job[0]
                return 200, {"ID": "7", "Status": status, "Summary": "of one port", "Progress": 50,
                             "Operation": "Ports"}, {}
        return 404, {"error": "Not Found"}, {}

    def _listed(self, rows: list[Json], query: dict[str, str]) -> tuple[int, Any, dict[str, str]]:
        if "page_number" not in query or self.listed:
            return 200, rows, {}
        size, page = int(query["rpp"]), int(query["page_number"])
        first = (page - 1) * size
        shown = rows[first:first + size]
        return 200, {"total_resources": len(rows), "filtered_resources": len(rows),
                     "num_of_pages": -(-len(rows) // size),
                     "first_index": first + 1, "last_index": first + len(shown), "data": shown}, {}

    def _off(self, name: str) -> bool:
        return self.hides_isolated and bool({name, self.ends[name]} & set(self.unhealthy))

    def _port(self, name: str) -> Json:
        if name in self.down:
            return {**self.rows[name], "physical_state": "Polling", "logical_state": "Down", "peer": "N/A",
                    "active_speed": None, "active_width": None}
        off = self._off(name)
        return {**self.rows[name], "physical_state": "Link Up",
                "logical_state": "Initialize" if off else "Active",
                "peer": "N/A" if off else self.ends[name]}

    def _links(self) -> list[Json]:
        found = []
        for name in self.rows:
            other = self.ends[name]
            if name < other and not {name, other} & self.down and not self._off(name):
                one, two = self.rows[name], self.rows[other]
                found.append({
                    "name": f"{name}:{other}", "source_guid": one["guid"], "source_port": str(one["number"]),
                    "source_port_dname": one["dname"],
                    "destination_guid": two["guid"], "destination_port": str(two["number"]),
                    "destination_port_dname": two["dname"],
                    "width": one["active_width"], "severity": "Info"})
        return found

    def _unhealthy(self) -> list[Json]:
        if self._wait:
            self._wait -= 1
        else:
            self._shown = {name: list(those) for name, those in self.unhealthy.items()}
        found = []
        for name, conditions in self._shown.items():
            own, other = self.rows[name], self.rows[self.ends[name]]
            found.append({
                "UnhealthyGUID": own["guid"], "UnhealthyPortNumber": own["number"],
                "UnhealthyNode": own["system_name"],
                "UnhealthyPort": f"{own['system_name']}/{own['dname']}", "UnhealthyPortDname": own["dname"],
                "State": "Info",
                "PeerGUID": other["guid"], "PeerPortNumber": other["number"],
                "PeerNode": other["system_name"], "PeerLID": str(other["lid"]),
                "PeerPort": f"{other['system_name']}/{other['dname']}", "PeerPortDname": other["dname"],
                "Condition": conditions if len(conditions) > 1 else conditions[0],
                "StatusTime": "Wed Apr 29 00:05:32 2026"})
        return found

    def _mark(self, body: Any) -> tuple[int, Any, dict[str, str]]:
        if not isinstance(body, dict) or not body.get("ports") or not set(body["ports"]) <= set(self.rows):
            return 400, {"error": "ports: no such port"}, {}
        policy = body.get("ports_policy")
        if policy == "UNHEALTHY" and body.get("action") in ("isolate", "no_discover"):
            for name in body["ports"]:
                self.unhealthy.setdefault(name, []).append("MANUAL")
        elif policy == "HEALTHY":
            for name in body["ports"]:
                self.unhealthy.pop(name, None)
        else:
            return 400, {"error": "ports_policy: expected HEALTHY, or UNHEALTHY with an action"}, {}
        self._wait = self.lag
        return (202, {}, {"Location": "/ufmRest/jobs/7"}) if self.job else (200, {}, {})


class _Handler(Answers):
    protocol_version = "HTTP/1.1"
    bed: Ufm

    def do_GET(self) -> None:
        self._do("GET")

    def do_PUT(self) -> None:
        self._do("PUT")

    def _do(self, method: str) -> None:
        parts = urlsplit(self.path)
        data = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        body = json.loads(data) if data else None
        prefix = next((one for one in ("/ufmRestV3", "/ufmRestV2", "/ufmRest")
                       if parts.path.startswith(f"{one}/")), "")
        path = parts.path.removeprefix(prefix)
        with self.bed.lock:
            self.bed.seen.append((method, path, body))
        fault = self.bed.faults(method, path)
        if fault == "drop":
            self.close_connection = True
        elif callable(fault):
            fault(self)
            self.close_connection = True
        elif isinstance(fault, bytes):
            self.say(200, fault)
        elif isinstance(fault, int):
            self.say(fault, _PAGE.format(fault).encode(), "text/html")
        elif not prefix:
            self.say(200, _PAGE.format("UFM Enterprise").encode(), "text/html")      # the web interface
        elif self.headers.get("Authorization") != self._login(prefix):
            self.say(401, _PAGE.format("401 Unauthorized").encode(), "text/html",
                     {"WWW-Authenticate": 'Basic realm="UFM"'})
        else:
            status, document, more = self.bed.answer(method, path,
                                                     {name: those[0]
                                                      for name, those in parse_qs(parts.query).items()}, body)
            self.say(status, json.dumps(document).encode(), "application/json", more)

    @staticmethod
    def _login(prefix: str) -> str:
        if prefix == "/ufmRestV3":
            return f"Basic {TOKEN}"
        return ("Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
                if prefix == "/ufmRest" else "")

    def say(self, status: int, data: bytes, kind: str = "application/json",
            more: dict[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": kind, "Content-Length": str(len(data)), **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)


@contextmanager
def serving(bed: Ufm, folder: Path) -> Iterator[Ufm]:
    """The server on loopback over HTTPS, its certificate signed by an authority in this folder."""
    bed.authority = folder / "ufm-authority.pem"
    certificate, bed.fingerprint = Authority(bed.authority).certificate(folder / "ufm.pem", "127.0.0.1")
    with answering(type("Handler", (_Handler,), {"bed": bed}), certificate) as port:
        bed.url = f"https://127.0.0.1:{port}"
        yield bed
