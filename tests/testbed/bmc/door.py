"""A machine's door: its login, sessions and lockout, and then sushy-tools' emulator application, to whose
answers ours are added.

The emulator itself knows HTTP basic authentication only, by bcrypt at each request; sessions are ours
(Redfish DSP0266 section 13.3: SessionService, X-Auth-Token), and that an account is locked after some wrong
logins, as real controllers do.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import secrets
import threading
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any

import flask
from sushy_tools.emulator import main  # type: ignore[import-untyped]

from tests.testbed.bmc import resources
from tests.testbed.bmc.driver import HERE, Rack
from tests.testbed.bmc.machine import Machine, Wrong

_SESSIONS = f"{resources.ROOT}/SessionService/Sessions"
_MESSAGES = {400: "Base.1.15.PropertyUnknown", 404: "Base.1.15.ResourceMissingAtURI",
             405: "Base.1.15.OperationNotAllowed"}
_OPEN = ("", "/redfish", resources.ROOT)


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: str
    headers: Mapping[str, str]      # by lower-case name
    body: bytes

    @property
    def document(self) -> dict[str, Any]:
        """The body, {} if it is no JSON object."""
        try:
            value = json.loads(self.body)
        except ValueError:
            return {}
        return value if isinstance(value, dict) else {}


@dataclass(frozen=True)
class Answer:
    status: int
    body: bytes = b""
    headers: tuple[tuple[str, str], ...] = ()


@dataclass
class Door:
    """One machine's door. `wrong` logins lock the account for good once they are `lockout`."""

    machine: Machine
    user: str
    password: str
    lockout: int
    most: int = 16          # sessions, as real controllers have a limit
    wrong: int = 0
    tokens: dict[str, str] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._tree = resources.tree(self.machine)

    def answer(self, request: Request) -> Answer:
        """What the controller says to it."""
        path = request.path.rstrip("/")
        if path == _SESSIONS and request.method == "POST":
            return self._login(request)
        if path not in _OPEN and not self._known(request):
            return _json(401,
                         resources.error("There is no valid session established with the implementation.",
                                         "Base.1.15.NoValidSession"),
                         ("WWW-Authenticate", 'Basic realm="Rack BMC"'))
        if path == f"{resources.ROOT}/SessionService":
            return _json(200, {"@odata.id": path, "@odata.type": "#SessionService.v1_1_8.SessionService",
                               "Id": "SessionService",
                               "Name": "Session Service", "ServiceEnabled": True, "SessionTimeout": 1800,
                               "Sessions": {"@odata.id": _SESSIONS}})
        if path == _SESSIONS:
            return _json(200, {"@odata.id": path, "@odata.type": "#SessionCollection.SessionCollection",
                               "Name": "Sessions",
                               "Members@odata.count": len(self.tokens),
                               "Members": [{"@odata.id": f"{_SESSIONS}/{id_}"}
                                           for id_ in self.tokens.values()]})
        if (path.startswith(f"{_SESSIONS}/") and request.method == "GET"
            and path.rpartition("/")[2] in self.tokens.values()):
            return _json(200, {"@odata.id": path, "@odata.type": "#Session.v1_6_0.Session",
                               "Id": path.rpartition("/")[2], "Name": "Session",
                               "UserName": self.user})
        if path.startswith(f"{_SESSIONS}/") and request.method == "DELETE":
            with self._lock:
                self.tokens = {token: id_
                               for token, id_ in self.tokens.items() if id_ != path.rpartition("/")[2]}
            return Answer(204)
        if request.method == "GET" and path.endswith("/LogServices/SEL/Entries"):
            skip = urllib.parse.parse_qs(request.query).get("$skip", ["0"])[0]
            return _json(200, resources.entries(self.machine, path, int(skip) if skip.isdecimal() else 0))
        if request.method == "GET" and path in self._tree:
            return _json(200, self._expanded(self._tree[path], request.query))
        return _emulated(self.machine, request)

    def _login(self, request: Request) -> Answer:
        said = request.document
        if not self._right(str(said.get("UserName")), str(said.get("Password"))):
            return _json(401, resources.error("The user name or the password is wrong.",
                                              "Base.1.15.ResourceAtUriUnauthorized"))
        with self._lock:
            if len(self.tokens) >= self.most:
                return _json(503, resources.error("The session limit is exceeded.",
                                                  "Base.1.15.SessionLimitExceeded"), ("Retry-After", "30"))
            token, id_ = secrets.token_hex(16), secrets.token_hex(4)
            self.tokens[token] = id_
        return _json(201, {"@odata.id": f"{_SESSIONS}/{id_}", "@odata.type": "#Session.v1_6_0.Session",
                           "Id": id_, "Name": "Session",
                           "UserName": self.user}, ("X-Auth-Token", token),
                     ("Location", f"{_SESSIONS}/{id_}"))

    def _known(self, request: Request) -> bool:
        if "x-auth-token" in request.headers:
            return request.headers["x-auth-token"] in self.tokens
        kind, _, word = request.headers.get("authorization", "").partition(" ")
        try:
            user, _, password = base64.b64decode(word, validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return False
        return kind.lower() == "basic" and self._right(user, password)

    def _right(self, user: str, password: str) -> bool:
        with self._lock:
            right = (user == self.user and password == self.password
                     and self.machine.wrong is not Wrong.PASSWORD and self.wrong < self.lockout)
            self.wrong += not right
        return right

    def _expanded(self, value: dict[str, Any], query: str) -> dict[str, Any]:
        if not self.machine.expands or "$expand" not in urllib.parse.parse_qs(query):
            return value
        return {**value,
                "Members": [self._tree.get(one["@odata.id"], one) for one in value.get("Members", ())]}


def emulator(machines: Mapping[str, Machine], rack: Rack, folder: str) -> None:
    """Makes sushy-tools' application, which is one per process, the one of this rack."""
    app = main.app
    app.config.update(SUSHY_EMULATOR_FAKE_DRIVER=True, SUSHY_EMULATOR_STATE_DIR=folder)
    app.logger.setLevel(logging.CRITICAL)
    app.logger.propagate = False
    type(app).systems = property(lambda _: rack)
    pending = main.app.view_functions["bios_settings"]

    def bios_settings(identity: str) -> Any:
        if flask.request.method != "GET":
            return pending(identity=identity)
        path = f"{resources.system(rack.machine)}/BIOS/Settings"
        return flask.jsonify({"@odata.id": path, "@odata.type": "#Bios.v1_2_0.Bios", "Id": "Settings",
                              "Name": "BIOS settings of the next boot",
                              "Attributes": rack.pending(identity)})

    app.view_functions["bios_settings"] = bios_settings

    @app.after_request  # type: ignore[untyped-decorator]
    def add(response: flask.Response) -> flask.Response:
        path = flask.request.path.rstrip("/")
        if response.status_code >= 400:
            said = json.loads(response.get_data())["error"]["message"]
            response.set_data(json.dumps(
                resources.error(said, _MESSAGES.get(response.status_code, "Base.1.15.GeneralError"))))
        if flask.request.method != "GET" or response.status_code != 200:
            return response
        added = resources.more(rack.machine, rack.state).get(path)
        if added is not None:
            said = json.loads(response.get_data())
            if path == resources.system(rack.machine):
                said["Boot"] = {**said["Boot"], **resources.boot(rack.state)}
            response.set_data(json.dumps({**said, **added}))
        return response


def _emulated(machine: Machine, request: Request) -> Answer:
    started: list[Any] = []
    begin: Callable[..., None] = lambda status, headers, info=None: started.extend(  # noqa: E731
        (status, headers))
    environment = {
        "REQUEST_METHOD": request.method, "SCRIPT_NAME": "", "PATH_INFO": request.path,
        "QUERY_STRING": request.query,
        "SERVER_NAME": "rack", "SERVER_PORT": "443", "SERVER_PROTOCOL": "HTTP/1.1",
        "HTTP_HOST": request.headers.get("host", "rack"),
        "CONTENT_TYPE": request.headers.get("content-type", ""), "CONTENT_LENGTH": str(len(request.body)),
        "wsgi.version": (1, 0), "wsgi.url_scheme": "https", "wsgi.input": BytesIO(request.body),
        "wsgi.errors": BytesIO(),
        "wsgi.multithread": True, "wsgi.multiprocess": False, "wsgi.run_once": False, HERE: machine.name}
    body = b"".join(main.app.wsgi_app(environment, begin))
    status, headers = started
    kept = tuple((name, value)
                 for name, value in headers if name.lower() not in ("content-length", "connection"))
    return Answer(int(status.split()[0]), body, kept)


def _json(status: int, value: Mapping[str, Any], *headers: tuple[str, str]) -> Answer:
    return Answer(status, json.dumps(value).encode(),
                  (("Content-Type", "application/json"), ("OData-Version", "4.0"), *headers))
