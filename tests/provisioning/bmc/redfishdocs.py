"""A Redfish service made of documents by path, below our own session, for its readers."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.credentials import Hidden
from provisioning.bmc.redfish.controller import RedfishController
from provisioning.bmc.redfish.wire import Deadline, RedfishEndpoint

NOW = 1_795_300_000.0       # 2026-11-22
Documents = Mapping[str, Any]


class Papers:
    """In the connection's place: answers GET with its path's document, else 404; keeps what was asked."""

    def __init__(self, find: Callable[[str], Any], expand: bool = False) -> None:
        self._find = find
        self._expand = expand
        self.asked: list[tuple[str, str, Any]] = []

    def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None, deadline: Deadline,
    ) -> HttpAnswer:
        deadline.left()
        self.asked.append((method, path, json.loads(body) if body else None))
        if method != "GET":
            return HttpAnswer(204, {}, b"")
        bare, _, query = path.partition("?")
        found = self._find(bare.rstrip("/") or "/")
        if found is None:
            return HttpAnswer(404, {}, b'{"error": {"message": "no such thing"}}')
        if query and self._expand and isinstance(found, dict) and isinstance(found.get("Members"), list):
            found = {
                **found,
                "Members": [{**one, **self._find(one["@odata.id"].rstrip("/"))} for one in found["Members"]]}
        return HttpAnswer(200, {"etag": '"1"'}, json.dumps(found).encode())

    def open(self, deadline: Deadline) -> None:
        """It is open."""

    def close(self) -> None:
        """There is nothing to end."""


def service(
    documents: Documents | Callable[[str], Any], *, expand: bool = False, system: str | None = None,
) -> tuple[RedfishController, Papers]:
    """A controller whose service has these documents."""
    papers = Papers(documents if callable(documents)
                        else {key.rstrip("/"): value for key, value in documents.items()}.get, expand)
    controller = RedfishController(RedfishEndpoint("gpu001", "127.0.0.1", 443, "pin", "0" * 64, system),
                                   lambda: ("root", Hidden("pw")), 30.0, lambda: NOW)
    controller.session._wire = papers  # type: ignore[assignment]
    controller.session._connection = lambda: papers  # type: ignore[assignment,method-assign,return-value]
    return controller, papers


def tree(**parts: Any) -> dict[str, Any]:
    """The documents of a small service: `root`, `system` and others replace or add keys; paths of `parts` are
    below /redfish/v1."""
    root = {
        "RedfishVersion": "1.15.0", "Systems": ref("Systems"), "Managers": ref("Managers"),
        "Chassis": ref("Chassis"), "UpdateService": ref("UpdateService"), **parts.pop("root", {})}
    system = {
        "@odata.id": "/redfish/v1/Systems/1", "Id": "1", "SystemType": "Physical", "PowerState": "On",
        "Manufacturer": "Contoso", "Links": {"ManagedBy": [ref("Managers/1")], "Chassis": [ref("Chassis/1")]},
        **parts.pop("system", {})}
    found = {
        "/redfish/v1": root, "/redfish/v1/Systems": of("Systems/1"), "/redfish/v1/Systems/1": system,
        "/redfish/v1/Managers": of("Managers/1"),
        "/redfish/v1/Managers/1": {"@odata.id": "/redfish/v1/Managers/1", "FirmwareVersion": "1.0"},
        "/redfish/v1/Chassis": of("Chassis/1"),
        "/redfish/v1/Chassis/1": {"@odata.id": "/redfish/v1/Chassis/1"}}
    return found | {f"/redfish/v1/{path}": document for path, document in parts.items()}


def ref(path: str) -> dict[str, str]:
    return {"@odata.id": f"/redfish/v1/{path}"}


def of(*paths: str) -> dict[str, Any]:
    return {"Members": [ref(path) for path in paths]}
