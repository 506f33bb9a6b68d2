"""Sends firmware to a service, once, by the best way that it has for it.

Sources. DMTF DSP2046, UpdateService: SimpleUpdate (ImageURI, TransferProtocol, @Redfish.OperationApplyTime),
MultipartHttpPushUri, HttpPushUri and HttpPushUriOptions. DSP0266, multipart HTTP push updates: the parts
UpdateParameters (JSON) and UpdateFile. Dell, iDRAC9 Redfish API guide: both answer 202 with a job, which is
Scheduled until the reset for `OnReset`. Supermicro, Redfish reference guide: MultipartHttpPushUri at
/redfish/v1/UpdateService/upload, followed as a task. OpenBMC, bmcweb Redfish.md: HttpPushUri takes the image
itself; HttpPushUriOptions.HttpPushUriApplyTime.ApplyTime says when. NVIDIA, nvfwupd's guide: multipart with
empty UpdateParameters updates all that the package is for.
"""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from urllib.parse import urlsplit

from inventory.text import clean
from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.base import BmcError, BmcErrorReason, FirmwareImage
from provisioning.bmc.redfish.answers import Document, error_text, is_within
from provisioning.bmc.redfish.pending import PendingTasks
from provisioning.bmc.redfish.read import flag, inner, word
from provisioning.bmc.redfish.session import Session
from provisioning.bmc.redfish.task import followed, monitor

WHAT = "firmware update"
_BINARY = "application/octet-stream"
_APPLY = "@Redfish.OperationApplyTime"


@dataclass(frozen=True)
class UpdateWays:
    """What a service takes: paths, None where it has no such way. `apply` are the times for a multipart push
    or SimpleUpdate; `push_waits`: a plain push has such a setting."""

    path: str
    enabled: bool
    simple: str | None
    protocols: tuple[str, ...]
    multipart: str | None
    push: str | None
    apply: frozenset[str]
    push_waits: bool


def update_ways(found: Document, path: str) -> UpdateWays:
    """What an UpdateService resource says."""
    action = inner(found, "Actions", "#UpdateService.SimpleUpdate")
    protocols = inner(action, "TransferProtocol@Redfish.AllowableValues")
    apply: set[str] = set()
    for holder in (inner(action, "@Redfish.OperationApplyTimeSupport"),
                   inner(found, "MultipartHttpPushUri@Redfish.OperationApplyTimeSupport"),
                   inner(found, "@Redfish.OperationApplyTimeSupport")):
        values = inner(holder, "SupportedValues")
        apply |= {one for one in values if isinstance(one, str)} if isinstance(values, list) else set()
    return UpdateWays(
        path, flag(found, "ServiceEnabled") is not False, _path(inner(action, "target")),
        tuple(one for one in protocols if isinstance(one, str)) if isinstance(protocols, list) else (),
        _path(inner(found, "MultipartHttpPushUri")), _path(inner(found, "HttpPushUri")), frozenset(apply),
        bool(word(found, "HttpPushUriOptions", "HttpPushUriApplyTime", "ApplyTime")))


def _path(found: object) -> str | None:
    return found if isinstance(found, str) and is_within(found) else None


def sent(session: Session, ways: UpdateWays, image: FirmwareImage, tasks: PendingTasks) -> str:
    """Sends the image and follows its task up to a reset. Raises BmcError; `done` None: it may be taken."""
    if not ways.enabled:
        raise BmcError(BmcErrorReason.REFUSED, "its service for updates is switched off")
    if image.url is not None:
        answer = _simple(session, ways, image, image.url)
    elif image.data is None:
        raise BmcError(BmcErrorReason.UNSUPPORTED, "there is nothing to send")
    elif ways.multipart is not None:
        parts = multipart(_parameters(ways, image), image.name, image.data)
        answer = session.change("POST", ways.multipart, content=parts)
    elif ways.push is not None:
        if ways.push_waits:
            _accepted(session.change("PATCH", ways.path, {"HttpPushUriOptions": {"HttpPushUriApplyTime": {
                "ApplyTime": "OnReset" if image.staged else "Immediate"}}}, {"If-Match": "*"}))
        answer = session.change("POST", ways.push, content=(_BINARY, image.data))
    else:
        raise BmcError(BmcErrorReason.UNSUPPORTED,
                       "it takes no file; serve it, and say payload: {url: ADDRESS, sha256: DIGEST}")
    if _accepted(answer).status == 202 and image.staged and monitor(answer) is None:
        # It still writes, no one can tell for how long, and the machine would be reset meanwhile.
        raise BmcError(BmcErrorReason.BROKEN, f"{WHAT} was accepted, and no task tells how it ends", None)
    return followed(session, answer, WHAT, tasks, at_reset=True)


def _simple(session: Session, ways: UpdateWays, image: FirmwareImage, url: str) -> HttpAnswer:
    if ways.simple is None:
        raise BmcError(BmcErrorReason.UNSUPPORTED,
                       "it fetches nothing itself; say payload: {file: PATH, sha256: DIGEST}")
    scheme = urlsplit(url).scheme.upper()
    if ways.protocols and scheme not in ways.protocols:
        raise BmcError(BmcErrorReason.UNSUPPORTED, f"it does not fetch over {scheme}, but "
                       f"{clean(', '.join(ways.protocols), 100)}")
    body = {"ImageURI": url, **({"TransferProtocol": scheme} if ways.protocols else {}),
            **_parameters(ways, image)}
    return session.change("POST", ways.simple, body)


def _parameters(ways: UpdateWays, image: FirmwareImage) -> dict[str, str]:
    wanted = "OnReset" if image.staged else "Immediate"
    return {_APPLY: wanted} if wanted in ways.apply else {}


def _accepted(answer: HttpAnswer) -> HttpAnswer:
    """The answer, if it is a success. Raises BmcError: nothing was taken."""
    if 200 <= answer.status < 300:
        return answer
    wrong = (BmcErrorReason.UNSUPPORTED if answer.status in (404, 405, 501)
             else BmcErrorReason.BUSY if answer.status == 429 else BmcErrorReason.REFUSED)
    raise BmcError(wrong, f"{answer.status}{error_text(answer)}", False)


def multipart(parameters: dict[str, str], name: str, data: bytes) -> tuple[str, bytes]:
    """The media type and the body of a multipart push; the boundary is in no part of it."""
    boundary = f"muster-{secrets.token_hex(16)}"
    file = "".join(letter for letter in name if letter.isalnum() or letter in "._-")[:100] or "firmware.bin"
    head = (f"--{boundary}\r\nContent-Disposition: form-data; name=\"UpdateParameters\"\r\n"
            f"Content-Type: application/json\r\n\r\n{json.dumps(parameters)}\r\n"
            f"--{boundary}\r\nContent-Disposition: form-data; name=\"UpdateFile\"; filename=\"{file}\"\r\n"
            f"Content-Type: {_BINARY}\r\n\r\n")
    return (f"multipart/form-data; boundary={boundary}",
            head.encode() + data + f"\r\n--{boundary}--\r\n".encode())
