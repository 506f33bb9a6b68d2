"""What a Redfish service says of itself before a login: the answer to GET /redfish/v1/, read from bytes that
anybody may have sent; pure.

DSP0266 1.20, 6.5: the service root needs no login. DSP0268, ServiceRoot: Product, Vendor, UUID,
RedfishVersion. Dell's has the machine's service tag and the controller's MAC in Oem.Dell, HPE's the kind and
version of its controller and its host name in Oem.Hpe.Manager.
"""

from __future__ import annotations

import http.client
import io
import json
import re
from dataclasses import dataclass
from typing import Any

from inventory.text import clean
from provisioning.discover.model import mac, number

MOST = 256 * 1024       # bytes of an answer; real ones have some thousand
_LENGTH = re.compile(rb"\r\ncontent-length:[ \t]*([0-9]{1,7})[ \t]*(?:\r|$)", re.IGNORECASE)
_UUID = re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")


class NotRedfish(Exception):
    """What answered is no Redfish service; the text is one line that says what it did instead."""


@dataclass(frozen=True)
class Root:
    """What it said, cleaned; "" for what it did not."""

    vendor: str = ""
    product: str = ""
    uuid: str = ""
    firmware: str = ""
    serial: str = ""
    mac: str = ""
    host: str = ""


def request(host: str) -> bytes:
    """The question, whole."""
    name = f"[{host}]" if ":" in host else host
    return (f"GET /redfish/v1/ HTTP/1.1\r\nHost: {name}\r\nAccept: application/json\r\nUser-Agent: muster\r\n"
            "Connection: close\r\n\r\n").encode("ascii", "replace")


def whole(data: bytes | bytearray) -> bool:
    """Whether an answer that says how long it is has come to its end; others end with the connection."""
    head, blank, _ = bytes(data[: 64 * 1024]).partition(b"\r\n\r\n")
    length = _LENGTH.search(head) if blank else None
    return length is not None and len(data) - len(head) - 4 >= int(length[1])


def parse(data: bytes) -> Root:
    """What the answer says; raises NotRedfish."""
    try:
        answer = http.client.HTTPResponse(_Wire(data))  # type: ignore[arg-type]
        answer.begin()
        body = answer.read(MOST)
    except (http.client.HTTPException, ValueError, OSError):
        raise NotRedfish("the answer is no whole HTTP") from None
    if answer.length:
        raise NotRedfish("the answer is cut off")
    if 300 <= answer.status < 400:
        where = clean(answer.headers.get("Location", "nowhere"), 80)
        raise NotRedfish(f"redirects to {where} (HTTP {answer.status}), which is not followed")
    if answer.status != 200:
        raise NotRedfish(f"answers HTTP {answer.status} at /redfish/v1/")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise NotRedfish("what it has at /redfish/v1/ is no JSON") from None
    if not isinstance(found, dict) or not (
        "RedfishVersion" in found or "ServiceRoot" in str(found.get("@odata.type", ""))[:200]):
        raise NotRedfish("what it has at /redfish/v1/ is no service root")
    return _root(found)


class _Wire:
    """Bytes in the shape of a socket."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, mode: str) -> io.BytesIO:
        """What can be read."""
        return io.BytesIO(self._data)


def _root(found: dict[str, Any]) -> Root:
    oem = _map(found.get("Oem"))
    dell, hpe = _map(oem.get("Dell")), _map(oem.get("Hpe") or oem.get("Hp"))
    managers = hpe.get("Manager")
    manager = _map(managers[0]) if isinstance(managers, list) and managers else {}
    uuid = _text(found.get("UUID"))
    return Root(
        vendor=_text(found.get("Vendor")) or next((_text(name) for name in oem if isinstance(name, str)), ""),
        product=_text(found.get("Product")) or _text(manager.get("ManagerType")),
        uuid=number(uuid) if _UUID.fullmatch(uuid) else "",
        firmware=_text(manager.get("ManagerFirmwareVersion")), serial=number(dell.get("ServiceTag")),
        mac=mac(dell.get("ManagerMACAddress")), host=_text(manager.get("HostName")).lower())


def _map(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return clean(value, 80).strip() if isinstance(value, str) else ""
