"""One service: documents by path, logins, accounts, power, boot, BIOS settings and tasks; and what makers do
differently, as values. DMTF DSP0266 and DSP2046 where no other source is named."""

from __future__ import annotations

import base64
import json
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

ROOT = "/redfish/v1"
SESSIONS = f"{ROOT}/SessionService/Sessions"
SERVICE = f"{ROOT}/AccountService"
TASKS = f"{ROOT}/TaskService/Tasks"
_ON = ("On", "ForceOn", "PushPowerButton")


@dataclass(frozen=True)
class Ways:
    """How a maker's service differs. `slots`: accounts are fixed places, written by PATCH; else POST makes
    one. `if_match`: a PATCH without the tag is refused, `shows_tags` whether the tag is shown at all.
    `slash`: paths end with a slash, and one without is redirected. `expands`: `$expand` is understood.
    `wrong_login`: the status of a refused login. `token_dies`: a session ends when its account's password
    changes. `tasks`: what is answered with a task (power, bios), `polls` looks long. `job` is the collection
    of a maker's own jobs, in which BIOS settings wait as `Scheduled`. `least` and `most` are lengths of
    passwords."""

    accounts: str = f"{SERVICE}/Accounts"
    slots: int = 0
    if_match: bool = False
    shows_tags: bool = True
    slash: bool = False
    expands: bool = False
    wrong_login: int = 401
    token_dies: bool = False
    tasks: frozenset[str] = frozenset()
    polls: int = 1
    job: str = ""
    least: int = 0
    most: int = 0
    no_session_first: bool = False      # an account that must change its password gets no session
    attributes: str = ""        # the only path at which an account that must change its password may do so
    account_oem: tuple[str, ...] = ()      # what POST of an account must have below Oem


@dataclass
class Account:
    """One account; `role` is a RoleId."""

    user: str
    password: str
    role: str = "Administrator"
    enabled: bool = True
    must_change: bool = False


@dataclass(frozen=True)
class Said:
    status: int
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass
class Service:
    """`system` is the path of the machine, `pending` that of its BIOS settings which wait."""

    documents: dict[str, dict[str, Any]]
    ways: Ways
    system: str
    bios: str = ""
    pending: str = ""
    accounts: dict[str, Account] = field(default_factory=dict)
    tokens: dict[str, tuple[str, str]] = field(default_factory=dict)       # token -> session, user
    refused: int = 0
    asked: list[tuple[str, str, int]] = field(default_factory=list)
    fails: str = ""                 # the message of each task's end, "" for a good one
    tasks: dict[str, list[Any]] = field(default_factory=dict)
    # where the entries of the console's log are, and its lines
    host_log: tuple[str, list[str]] | None = None
    lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        for path, document in self.documents.items():
            document.setdefault("@odata.id", path)
        if not self.ways.slots:
            return
        for at in range(1, self.ways.slots + 1):
            self.accounts.setdefault(str(at), Account("", "", "None", False))

    def add(self, user: str, password: str, *, must_change: bool = False) -> None:
        """An account that the maker delivers it with."""
        name = "2" if self.ways.slots else user
        self.accounts[name] = Account(user, password, must_change=must_change)

    def password(self, user: str) -> str:
        """What this user's password is now."""
        with self.lock:
            return next(one.password for one in self.accounts.values() if one.user == user)

    def answer(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Said:
        """What it says to a request. Names of headers are in lower case."""
        with self.lock:
            said = self._answer(method, path, query, headers, body)
            self.asked.append((method, path, said.status))
            return said

    def _answer(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Said:
        if self.ways.slash and method == "GET" and not path.endswith("/"):
            return Said(308, None, {"Location": path + "/"})
        bare = path.rstrip("/") or "/"
        given = _object(body)
        if bare == SESSIONS and method == "POST":
            return self._login(given)
        if bare in ("/redfish", ROOT) and method == "GET":
            return self._found(ROOT, query)
        user = self._known(headers)
        if user is None:
            return error(401, "Base.1.8.AccessDenied", "Authentication is needed.")
        own = next((name for name, one in self.accounts.items() if one.user == user.user), "")
        open_to_it = self.ways.attributes or f"{self.ways.accounts}/{own}"
        if user.must_change and bare != open_to_it and not bare.startswith(SESSIONS):
            return change_first(403, "" if self.ways.attributes else f"{self.ways.accounts}/{own}")
        if method == "DELETE" and bare.startswith(f"{SESSIONS}/"):
            self.tokens = {token: one
                           for token, one in self.tokens.items() if one[0] != bare.rpartition("/")[2]}
            return Said(204)
        if method == "GET":
            return self._get(bare, query)
        if user.role == "ReadOnly":
            return error(403, "Base.1.8.InsufficientPrivilege", "There are not enough privileges.")
        return self._changed(method, bare, given, headers, user)

    # who asks

    def _login(self, given: Mapping[str, Any]) -> Said:
        found = self._right(str(given.get("UserName")), str(given.get("Password")))
        if found is None:
            return error(self.ways.wrong_login, "Base.1.8.ResourceAtUriUnauthorized",
                         f"Unauthorized: {given.get('Password')}")      # some repeat what they were sent
        token, name = secrets.token_hex(8), secrets.token_hex(4)
        self.tokens[token] = name, found.user
        document: dict[str, Any] = {"@odata.id": f"{SESSIONS}/{name}", "Id": name, "UserName": found.user}
        if found.must_change and self.ways.no_session_first:
            self.tokens.pop(token)
            return change_first(403, self._at(found))
        if found.must_change:
            own = next(key for key, one in self.accounts.items() if one is found)
            document |= change_first(201, "" if self.ways.attributes else f"{self.ways.accounts}/{own}").body
        return Said(201, document, {"X-Auth-Token": token, "Location": f"{SESSIONS}/{name}"})

    def _at(self, account: Account) -> str:
        return f"{self.ways.accounts}/{next(key for key, one in self.accounts.items() if one is account)}"

    def _right(self, user: str, password: str) -> Account | None:
        for one in self.accounts.values():
            if one.user and one.user == user and one.password == password and one.enabled:
                return one
        self.refused += 1
        return None

    def _known(self, headers: Mapping[str, str]) -> Account | None:
        if "x-auth-token" in headers:
            user = self.tokens.get(headers["x-auth-token"], ("", ""))[1]
            return next((one for one in self.accounts.values() if one.user == user and user), None)
        kind, _, word = headers.get("authorization", "").partition(" ")
        if kind != "Basic":
            return None
        name, _, password = base64.b64decode(word).decode().partition(":")
        return self._right(name, password)

    # what is read

    def _get(self, path: str, query: str) -> Said:
        if path in self.tasks:
            return self._task(path)
        if self.host_log is not None and path == self.host_log[0]:
            return self._host_log(query)
        if path == SERVICE:
            return Said(200, self._service())
        if path == self.ways.accounts:
            members = [{"@odata.id": f"{path}/{name}"} for name in self.accounts]
            return self._expanded({"@odata.id": path, "Members": members}, query)
        if path.startswith(f"{self.ways.accounts}/"):
            found = self._account(path)
            return error(404, "Base.1.8.ResourceMissingAtURI", "There is none.") if found is None else Said(
                200, found, self._tag(path))
        return self._found(path, query)

    def _host_log(self, query: str) -> Said:
        """As bmcweb gives its HostLogger: $skip and $top, a count of all, and the next page."""
        assert self.host_log is not None
        path, lines = self.host_log
        asked = dict(part.partition("=")[::2] for part in query.split("&") if part)
        skip, top = int(asked.get("$skip", 0)), min(50, int(asked.get("$top", 50)))
        document = {"@odata.id": path, "Members@odata.count": len(lines), "Members": [
            {"@odata.id": f"{path}/{at}", "Id": str(at), "Name": "Host Logger Entry", "EntryType": "Oem",
             "Message": line}
            for at, line in enumerate(lines[skip:skip + top], skip)]}
        if skip + top < len(lines) and document["Members"]:
            document["Members@odata.nextLink"] = f"{path}?$skip={skip + top}"
        return Said(200, document)

    def _found(self, path: str, query: str) -> Said:
        document = self.documents.get(path)
        if document is None:
            return error(404, "Base.1.8.ResourceMissingAtURI", f"The resource at {path} was not found.")
        return self._expanded(document, query, self._tag(path))

    def _expanded(self, document: dict[str, Any], query: str,
                  headers: Mapping[str, str] | None = None) -> Said:
        if self.ways.expands and "$expand" in query and "Members" in document:
            members = [self._account(one["@odata.id"])
                       or self.documents.get(one["@odata.id"].rstrip("/"), one)
                       for one in document["Members"]]
            document = {**document, "Members": members}
        return Said(200, document, headers or {})

    def _service(self) -> dict[str, Any]:
        lengths = {name: value for name, value in (
            ("MinPasswordLength", self.ways.least), ("MaxPasswordLength", self.ways.most)) if value}
        return {"@odata.id": SERVICE, "Id": "AccountService", "Accounts": {"@odata.id": self.ways.accounts},
                "Roles": {"@odata.id": f"{SERVICE}/Roles"}, **lengths}

    def _account(self, path: str) -> dict[str, Any] | None:
        found = self.accounts.get(path.rpartition("/")[2]) if path.startswith(
            f"{self.ways.accounts}/") else None
        return None if found is None else {
            "@odata.id": path, "@odata.type": "#ManagerAccount.v1_8_0.ManagerAccount",
            "Id": path.rpartition("/")[2],
            "UserName": found.user, "Password": None, "RoleId": found.role, "Enabled": found.enabled,
            "PasswordChangeRequired": found.must_change}

    def _tag(self, path: str) -> dict[str, str]:
        return {"ETag": f'"{abs(hash(path)) % 10**6}"'} if self.ways.shows_tags else {}

    # what is changed

    def _changed(
        self, method: str, path: str, given: dict[str, Any], headers: Mapping[str, str], user: Account,
    ) -> Said:
        if method == "PATCH" and self.ways.if_match and headers.get("if-match") not in (
                "*", *self._tag(path).values()):
            return error(428, "Base.1.8.PreconditionRequired", "If-Match is needed.")
        if path == self.ways.accounts and method == "POST":
            return self._make_account(given, user)
        if path.startswith(f"{self.ways.accounts}/") and method == "PATCH":
            return self._patch_account(path.rpartition("/")[2], given, user)
        if self.ways.attributes and path == self.ways.attributes and method == "PATCH":
            found = self.accounts["2"]
            found.password, found.must_change = given["Attributes"]["Users.2.Password"], False
            return Said(200, {})
        if path == f"{self.system}/Actions/ComputerSystem.Reset" and method == "POST":
            power = {"PowerState": "On" if given.get("ResetType") in _ON else "Off"}
            return self._done("power", lambda: self._reset(power))
        if path == self.system and method == "PATCH":
            boot = self.documents[path].setdefault("Boot", {})
            boot.update(given.get("Boot", {}))
            return Said(200, {})
        if path == self.pending and method == "PATCH":
            waits = given.get("Attributes", {})
            return self._done("bios", lambda: self.documents[path]["Attributes"].update(waits))
        return error(405, "Base.1.8.OperationNotAllowed", f"{method} is not allowed at {path}.")

    def _reset(self, power: dict[str, str]) -> None:
        self.documents[self.system].update(power)
        if power["PowerState"] == "On" and self.bios:
            self.documents[self.bios]["Attributes"].update(self.documents[self.pending]["Attributes"])
            for one in self.tasks.values():
                if one[2] == "Scheduled":
                    one[2] = "Completed"

    def _done(self, what: str, change: Any) -> Said:
        if what == "bios" and self.ways.job:
            change()
            path = f"{self.ways.job}/JID_{len(self.tasks) + 1}"
            self.tasks[path] = [1, None, "Scheduled"]
            return Said(202, None, {"Location": path})
        if what not in self.ways.tasks:
            change()
            return Said(204)
        path = f"{TASKS}/{len(self.tasks) + 1}"
        self.tasks[path] = [self.ways.polls, change, "Completed"]
        return Said(202, self._task_document(path, "Running"),
                    {"Location": f"{path}/Monitor", "Retry-After": "0"})

    def _task(self, path: str) -> Said:
        task = self.tasks[path]
        if task[0] > 0:
            task[0] -= 1
            return Said(202, self._task_document(path, "Running"), {"Retry-After": "0"})
        if self.fails:
            return Said(200, {**self._task_document(path, "Exception"), "TaskStatus": "Critical",
                              "Messages": [{"Message": self.fails}]})
        if task[1] is not None:
            task[1]()
            task[1] = None
        if path.startswith(self.ways.job or "-"):
            return Said(200, {"@odata.type": "#DellJob.v1_4_0.DellJob", "Id": path.rpartition("/")[2],
                              "JobState": task[2], "PercentComplete": 100 * (task[2] == "Completed"),
                              "Message": "Task successfully scheduled." if task[2] == "Scheduled"
                              else "Job completed successfully.",
                              "MessageId": "JCP001" if task[2] == "Scheduled" else "PR19"})
        return Said(200, self._task_document(path, "Completed"))

    def _task_document(self, path: str, state: str) -> dict[str, Any]:
        self.tasks.setdefault(f"{path}/Monitor", self.tasks[path])
        return {"@odata.id": path, "@odata.type": "#Task.v1_5_0.Task", "Id": path.rpartition("/")[2],
                "TaskState": state, "TaskStatus": "OK", "Messages": []}

    def _make_account(self, given: dict[str, Any], user: Account) -> Said:
        if user.role != "Administrator":
            return error(403, "Base.1.8.InsufficientPrivilege", "There are not enough privileges.")
        if self.ways.slots:
            return error(405, "Base.1.8.OperationNotAllowed", "POST is not allowed here.")
        if (wrong := self._password_wrong(given)) is not None:
            return wrong
        oem: Any = given.get("Oem", {})
        for key in self.ways.account_oem:
            oem = oem.get(key) if isinstance(oem, dict) else None
        if self.ways.account_oem and not oem:
            return error(400, "iLO.2.15.PropertyMissing",
                         f"Oem {'.'.join(self.ways.account_oem)} is missing.")
        name = str(given["UserName"])
        self.accounts[name] = Account(name, str(given["Password"]), str(given.get("RoleId", "ReadOnly")),
                                      given.get("Enabled", True) is True)
        return Said(201, self._account(f"{self.ways.accounts}/{name}"),
                    {"Location": f"{self.ways.accounts}/{name}"})

    def _patch_account(self, name: str, given: dict[str, Any], user: Account) -> Said:
        found = self.accounts.get(name)
        if found is None:
            return error(404, "Base.1.8.ResourceMissingAtURI", "There is none.")
        if user.role != "Administrator" and (found is not user or set(given) != {"Password"}):
            return error(403, "Base.1.8.InsufficientPrivilege", "There are not enough privileges.")
        if self.ways.slots and name == "1":
            return error(400, "IDRAC.2.8.SYS403", "Account 1 is reserved.")
        if "Password" in given and (wrong := self._password_wrong(given)) is not None:
            return wrong
        found.user = str(given.get("UserName", found.user))
        found.role = str(given.get("RoleId", found.role))
        found.enabled = given.get("Enabled", found.enabled) is True
        if "Password" in given:
            found.password, found.must_change = str(given["Password"]), False
            if self.ways.token_dies:
                self.tokens = {token: one for token, one in self.tokens.items() if one[1] != found.user}
        return Said(200, {"@Message.ExtendedInfo": [{"MessageId": "Base.1.8.Success", "Message": "Done."}]})

    def _password_wrong(self, given: Mapping[str, Any]) -> Said | None:
        text = str(given.get("Password", ""))
        if len(text) < self.ways.least or (self.ways.most and len(text) > self.ways.most):
            return error(400, "Base.1.8.PropertyValueFormatError",
                         f"The value {text} for the property Password is of a wrong length.")
        return None


def error(status: int, message_id: str, message: str) -> Said:
    """An error as DSP0266, error responses, has it."""
    return Said(status, {"error": {"code": message_id, "message": message, "@Message.ExtendedInfo": [
        {"MessageId": message_id, "Message": message}]}})


def change_first(status: int, account: str) -> Said:
    """What an account hears that must set a new password (DSP0266; message of the Base registry)."""
    message = {"MessageId": "Base.1.8.PasswordChangeRequired", "MessageArgs": [account], "Message":
               "The password provided for this account must be changed before access is granted. PATCH the "
               "Password "
               f"property for this account located at the target URI '{account}' to complete this process."}
    if status == 201:
        return Said(201, {"@Message.ExtendedInfo": [message]})
    return Said(status, {"error": {"code": message["MessageId"], "message": message["Message"],
                                   "@Message.ExtendedInfo": [message]}})


def _object(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
