"""What MAAS says of a machine, as values; texts are cleaned and bounded. The fields are those of the
published API (https://canonical.com/maas/docs/api, Machines) as MAAS 2.5 to 3.6 and gomaasclient's test data
spell them; what is not there is "", and a status that is no number is -1."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from inventory.text import clean, short
from provisioning.osinstall.base import OsError

MARK = "muster"     # the workload annotation of what muster deploys; its value is the node's name

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,40}")
# What makers and MAAS leave where a number should be.
_NO_NUMBER = re.compile(
    r"[0 .:_-]*|[f-]+|n/?a|none|null|unknown|empty|not (specified|available|applicable)|default string|"
    r"to be filled by o\.e\.m\.?|(system|chassis|product)? ?serial number|0?123456789[0-9a-f]*|"
    r"03000200-0400-0500-0006-000700080009", re.IGNORECASE)
_MOST_TAGS = 500
_MOST_INTERFACES = 500


@dataclass(frozen=True)
class MaasInterface:
    """One physical interface of a machine, by name and MAC address (aa:bb:cc:dd:ee:ff)."""

    name: str
    mac: str


@dataclass(frozen=True)
class MaasMachine:
    """One machine. `system_id` is MAAS's name for it, `status` a number of its enumeration, `status_name` its
    word. `osystem` and `series` are the image, if any. `mark` is the node as which muster had it deployed.
    `testing` is a script result's number (2 passed, -1 none). `serials`: system and chassis."""

    system_id: str
    hostname: str
    fqdn: str
    status: int
    status_name: str
    event: str = ""
    error: str = ""
    owner: str = ""
    osystem: str = ""
    series: str = ""
    kernel: str = ""
    power: str = ""
    locked: bool = False
    serials: tuple[str, ...] = ()
    uuid: str = ""
    tags: tuple[str, ...] = ()
    zone: str = ""
    pool: str = ""
    testing: int = -1
    testing_name: str = ""
    mark: str = ""
    interfaces: tuple[MaasInterface, ...] = ()

    @property
    def called(self) -> str:
        """The machine in messages: its host name and MAAS's id."""
        return f"{self.hostname or 'a machine without a name'} ({self.system_id})"

    @property
    def image(self) -> str:
        """What is or is being installed, empty for nothing."""
        return "/".join(filter(None, (self.osystem, self.series)))


def machine(document: object) -> MaasMachine:
    """A machine's document. Raises OsError for what is none."""
    if not isinstance(document, dict):
        raise OsError(f"MAAS answered no machine but {short(type(document).__name__)}; is this MAAS?")
    identity = document.get("system_id")
    if not isinstance(identity, str) or not _ID.fullmatch(identity):
        raise OsError(f"MAAS answered a machine whose system_id is {short(identity)}")
    hardware = _map(document.get("hardware_info"))
    marks = _map(document.get("workload_annotations")) or _map(document.get("owner_data"))
    return MaasMachine(
        identity, _text(document, "hostname"), _text(document, "fqdn"), _whole(document, "status"),
        _text(document, "status_name"), event=_text(document, "status_message", 300),
        error=_text(document, "error_description", 300), owner=_text(document, "owner"),
        osystem=_text(document, "osystem"), series=_text(document, "distro_series"),
        kernel=_text(document, "hwe_kernel"), power=_text(document, "power_state"),
        # A machine that may be locked is: whatever is not false.
        locked=document.get("locked") not in (False, None),
        serials=tuple(dict.fromkeys(filter(None, (
            number(hardware.get("system_serial")), number(hardware.get("chassis_serial")))))),
        uuid=number(document.get("hardware_uuid")), tags=tuple(_tags(document.get("tag_names"))),
        zone=_text(_map(document.get("zone")), "name"), pool=_text(_map(document.get("pool")), "name"),
        testing=_whole(document, "testing_status"), testing_name=_text(document, "testing_status_name"),
        mark=_text(marks, MARK), interfaces=tuple(_interfaces(document.get("interface_set"))))


def machines(document: object) -> tuple[MaasMachine, ...]:
    """The machines of a list; an entry that is none is passed over. Raises OsError for no list."""
    if not isinstance(document, list):
        raise OsError(f"MAAS answered no list of machines but {short(type(document).__name__)}; is this "
                      "MAAS?")
    found: dict[str, MaasMachine] = {}
    for entry in document:
        try:
            one = machine(entry)
        except OsError:
            continue
        found[one.system_id] = one
    return tuple(found.values())


def power_addresses(document: object) -> Mapping[str, str]:
    """The address of each machine's controller by system_id, of the answer of op=power_parameters, which also
    holds passwords: nothing else of it is kept."""
    found = {}
    for identity, parameters in _map(document).items():
        given = _map(parameters).get("power_address")
        if isinstance(given, str) and len(given) <= 400 and (host := _host(given)):
            found[identity] = host
    return found


def address(text: str) -> str:
    """An address as it is compared."""
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        return text.lower().rstrip(".")


def number(text: object) -> str:
    """A serial number or UUID as compared: upper case; "" for makers' words for none."""
    found = clean(text, 80).strip() if isinstance(text, str) else ""
    return "" if _NO_NUMBER.fullmatch(found) else found.upper()


def _host(given: str) -> str:
    """The host of a power address, which is a host, with a port perhaps, or a URL."""
    try:
        host = urlsplit(given if "://" in given else f"//{given}").hostname
    except ValueError:
        host = None
    if host is None or (given.count(":") > 1 and "://" not in given and "[" not in given):
        host = given        # an IPv6 address without brackets
    return address(clean(host, 255))


def _map(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _text(document: Mapping[str, Any], key: str, most: int = 100) -> str:
    value = document.get(key)
    return clean(value, most).strip() if isinstance(value, str) else ""


def _whole(document: Mapping[str, Any], key: str) -> int:
    value = document.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1000 else -1


def _tags(value: object) -> Iterator[str]:
    for tag in (value if isinstance(value, list) else [])[:_MOST_TAGS]:
        if isinstance(tag, str) and tag:
            yield clean(tag, 256)


def _interfaces(value: object) -> Iterator[MaasInterface]:
    for one in (value if isinstance(value, list) else [])[:_MOST_INTERFACES]:
        given = _map(one)
        if given.get("type") == "physical" and (name := _text(given, "name")):
            yield MaasInterface(name, _text(given, "mac_address").lower())
