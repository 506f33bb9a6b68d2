"""Services that take firmware in the manners of four makers; an image is text such as `BIOS 2.2.0`.

simple: the service fetches the image itself and applies it at once (HPE, iLO: SimpleUpdate, a task).
multipart: a push of two parts, a task, and the machine's reset (Supermicro, NVIDIA). staged: the image itself
is posted, and waits for the reset by HttpPushUriOptions (OpenBMC). jobs: a push of two parts becomes a job,
Scheduled until the reset (Dell). DMTF DSP2046 UpdateService and DSP0266, multipart HTTP push updates.
"""

from __future__ import annotations

import email
import email.policy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.testbed.redfish.makers import MAKERS
from tests.testbed.redfish.service import ROOT, Account, Said, Service, error

UPDATES = f"{ROOT}/UpdateService"
MANNERS = {"simple": "ilo", "multipart": "supermicro", "staged": "openbmc", "jobs": "idrac"}


@dataclass
class Updating(Service):
    """`pushed` are the images that came, `served` what is at each URL. `wrong_image`: each is refused. `away`
    is for how many requests it does not answer after it has taken firmware of its own. `untold`: no answer
    names a task. `hidden`: no one may look at a task. `when_pushed` happens as an image has come. `early`:
    what waits for a reset is shown as soon as the power is off. `stays_off`: it says yes, and has no
    power."""

    manner: str = ""
    pushed: list[str] = field(default_factory=list)
    served: dict[str, str] = field(default_factory=dict)
    staged: list[str] = field(default_factory=list)
    wrong_image: bool = False
    ignores: bool = False       # what it took is never current
    away: int = 0
    gone: int = 0
    untold: bool = False
    hidden: bool = False
    early: bool = False
    stays_off: bool = False
    when_pushed: Callable[[], None] = lambda: None

    def _answer(self, method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Said:
        if self.gone:
            self.gone -= 1
            return error(503, "Base.1.8.ServiceTemporarilyUnavailable", "It starts.")
        if path.rstrip("/") in (f"{UPDATES}/upload", f"{UPDATES}/push") and method == "POST":
            if self._known(headers) is None:
                return error(401, "Base.1.8.AccessDenied", "Authentication is needed.")
            return self._taken(_file(headers, body) if path.endswith("upload") else body.decode())
        if self.hidden and method == "GET" and path.startswith(f"{ROOT}/TaskService/Tasks/"):
            return error(403, "Base.1.8.InsufficientPrivilege", "Not for this account.")
        return super()._answer(method, path, query, headers, body)

    def _changed(
        self, method: str, path: str, given: dict[str, Any], headers: Mapping[str, str], user: Account,
    ) -> Said:
        if path == f"{UPDATES}/Actions/UpdateService.SimpleUpdate" and method == "POST":
            return self._taken(self.served[given["ImageURI"]])
        if path == UPDATES and method == "PATCH":
            self.documents[UPDATES].update(given)
            return Said(204)
        return super()._changed(method, path, given, headers, user)

    def _taken(self, image: str) -> Said:
        if self.wrong_image:
            return error(400, "Update.1.0.VerificationFailed", "The image is not for this board.")
        self.pushed.append(image)
        self.when_pushed()
        if image.startswith("BMC "):
            self.gone = self.away
            self._current(image)
            return Said(202, {"@odata.id": f"{ROOT}/none"}, {})
        if self.untold:
            return Said(202, None, {})
        if self.manner == "jobs":
            self.staged.append(image)
            path = f"{self.ways.job}/JID_{len(self.tasks) + 1}"
            self.tasks[path] = [1, None, "Scheduled"]
            return Said(202, None, {"Location": path})
        path = f"{ROOT}/TaskService/Tasks/{len(self.tasks) + 1}"
        self.tasks[path] = [2, lambda: self._current(image) if self.manner == "simple"
                            else self.staged.append(image),
                            "Completed"]
        return Said(202, self._task_document(path, "Running"),
                    {"Location": f"{path}/Monitor", "Retry-After": "0"})

    def _reset(self, power: dict[str, str]) -> None:
        if power["PowerState"] == "On" and self.stays_off:
            return
        super()._reset(power)
        if power["PowerState"] == "On" or self.early:
            for image in self.staged:
                self._current(image)
            self.staged.clear()

    def _current(self, image: str) -> None:
        name, version = image.split()
        if self.ignores:
            return
        if name == "BMC":
            next(one for path, one in self.documents.items() if path.startswith(f"{ROOT}/Managers/")
                 and "FirmwareVersion" in one)["FirmwareVersion"] = version
        else:
            self.documents[self.system]["BiosVersion"] = version


def _file(headers: Mapping[str, str], body: bytes) -> str:
    """The UpdateFile of a push; its UpdateParameters have to be a document."""
    message = email.message_from_bytes(b"Content-Type: " + headers["content-type"].encode()
                                       + b"\r\n\r\n" + body,
                                       policy=email.policy.HTTP)
    parts = {part.get_param("name", header="content-disposition"): part.get_content()
             for part in message.iter_parts()}
    given = parts["UpdateParameters"]
    assert isinstance(json.loads(given), dict)
    found = parts["UpdateFile"]
    return found.decode() if isinstance(found, bytes) else str(found)


def updating(manner: str, **more: Any) -> Updating:
    """A service of this manner, on."""
    made = MAKERS[MANNERS[manner]]()
    resource: dict[str, Any] = {**made.documents[UPDATES], "@odata.id": UPDATES, "ServiceEnabled": True}
    if manner == "simple":
        resource["Actions"] = {"#UpdateService.SimpleUpdate": {
            "target": f"{UPDATES}/Actions/UpdateService.SimpleUpdate",
            "TransferProtocol@Redfish.AllowableValues": ["HTTP", "HTTPS"]}}
    elif manner == "staged":
        resource |= {"HttpPushUri": f"{UPDATES}/push",
                     "HttpPushUriOptions": {"HttpPushUriApplyTime": {"ApplyTime": "Immediate"}}}
    else:
        resource |= {"MultipartHttpPushUri": f"{UPDATES}/upload",
                     "MultipartHttpPushUri@Redfish.OperationApplyTimeSupport": {
                         "SupportedValues": ["Immediate", "OnReset"]}}
    made.documents[UPDATES] = resource
    made.documents[made.system]["PowerState"] = "On"
    return Updating(made.documents, made.ways, made.system, made.bios, made.pending, manner=manner, **more)
