"""What each key of `pxe.yaml` may be: forms that read one value."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from healthcheck.config.valuetypes import FLAG, ValueType, choice, integer, list_of, number
from inventory.located import LocatedMap
from provisioning.osinstall.pxe.options import DhcpMode, ImageKind
from provisioning.osinstall.pxe.templates import is_ipxe_word

IMAGE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_PART = "[A-Za-z0-9_+~-][A-Za-z0-9._+~-]{0,120}"
FILE_NAME = re.compile(rf"{_PART}(?:/{_PART}){{0,8}}")
_URL = re.compile(
    r"https?://(?:[A-Za-z0-9.-]{1,253}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{1,5})?(?:/[!-~]{0,1000})?")
_INTERFACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,14}")      # IFNAMSIZ of Linux is 16
_USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}")                    # useradd(8)
_DEVICE = re.compile(r"/dev/[A-Za-z0-9][A-Za-z0-9._:/+-]{0,120}")
_PACKAGE = re.compile(r"[a-z0-9][a-z0-9.+-]{1,80}")              # Debian policy, 5.6.1
_SUITE = re.compile(r"[a-z][a-z0-9/-]{1,40}")
_KEY = re.compile(r"[a-z0-9@.-]{3,64} [A-Za-z0-9+/=]{16,4000}(?: [ -~]{0,200})?")
_DRIVE = re.compile(r"[ -~]{1,64}")
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_MOST_FILE, _MOST_VALUES = 64 * 1024, 64


def _matching(phrase: str, pattern: re.Pattern[str]) -> ValueType:
    def read(given: Any) -> str:
        if not isinstance(given, str) or pattern.fullmatch(given) is None:
            raise ValueError
        return given

    return ValueType(phrase, read)


def _text(phrase: str, fits: Callable[[str], bool]) -> ValueType:
    def read(given: Any) -> str:
        if not isinstance(given, str) or not fits(given):
            raise ValueError
        return given
    return ValueType(phrase, read)


def _is_url(given: str) -> bool:
    return _URL.fullmatch(given) is not None and is_ipxe_word(given)


def _server(given: Any) -> str:
    if not isinstance(given, str) or not _is_url(given):
        raise ValueError
    return given.rstrip("/")


def _key(given: Any) -> str:
    """A public key, or the file that holds it."""
    text = given if isinstance(given, str) else ""
    if text.startswith(("/", "~")):
        try:
            text = Path(text).expanduser().read_bytes()[:_MOST_FILE].decode("ascii").strip()
        except (OSError, UnicodeDecodeError, RuntimeError):
            raise ValueError from None
    if _KEY.fullmatch(text) is None:
        raise ValueError
    return text


def _authority(given: Any) -> str:
    if not isinstance(given, str) or not given.startswith("/"):
        raise ValueError
    try:
        text = Path(given).read_bytes()[:_MOST_FILE].decode("ascii")
    except (OSError, UnicodeDecodeError):
        raise ValueError from None
    if "-----BEGIN CERTIFICATE-----" not in text or "PRIVATE KEY" in text:
        raise ValueError
    return text


def _folder(given: Any) -> Path:
    if not isinstance(given, str) or not given.startswith("/") or not given.isprintable():
        raise ValueError
    return Path(given)


def _values(given: Any) -> Mapping[str, str]:
    if not isinstance(given, LocatedMap) or len(given) > _MOST_VALUES:
        raise ValueError
    for key, value in given.items():
        if not _NAME.fullmatch(key) or not isinstance(value, str) or not value.isprintable():
            raise ValueError
    return MappingProxyType(dict(given))


def _network(given: Any) -> ipaddress.IPv4Network:
    if not isinstance(given, str) or "/" not in given:
        raise ValueError
    return ipaddress.IPv4Network(given)


def _address(given: Any) -> ipaddress.IPv4Address:
    if not isinstance(given, str):
        raise ValueError
    return ipaddress.IPv4Address(given)


_ADDRESS = ValueType("an IPv4 address", _address)
_LOADER = _matching("the name of a file in the TFTP folder", FILE_NAME)
_PLACE = _text("an http(s) address, or a file below the folder `files`", lambda given: is_ipxe_word(given)
               and bool(_URL.fullmatch(given) or FILE_NAME.fullmatch(given)))     # iPXE reads it in any case
TOP: Mapping[str, ValueType] = {
    "server": ValueType("how machines reach muster os serve, such as http://10.1.0.1:9850", _server),
    "image": _matching("the name of an image", IMAGE_NAME),
    "user": _matching("a user name of lower-case letters, digits, - and _", _USER),
    "authorized_keys": list_of("public SSH keys, or files of one", ValueType(
        "a public SSH key (type, base64, comment), or the path of a file that holds one", _key)),
    "minutes": number(1, 1440),
    "files": ValueType("the absolute path of a folder", _folder),
    "authority": ValueType("the absolute path of a file of certificates (PEM)", _authority),
    "neighbours": FLAG,
}
IMAGE: Mapping[str, ValueType] = {
    "kind": choice(ImageKind), "kernel": _PLACE, "initrd": _PLACE, "iso": _PLACE,
    "arguments": list_of("arguments of the kernel", _text(
        "one argument of the kernel, without blanks or characters that iPXE acts on", is_ipxe_word)),
    "disk": _matching("a device such as /dev/nvme0n1", _DEVICE),
    "packages": list_of("packages", _matching("the name of a package", _PACKAGE)),
    "mirror": ValueType("an http(s) address", _server),
    "suite": _matching("a suite such as bookworm", _SUITE),
    "values": ValueType(f"a map of at most {_MOST_VALUES} names (a-z, 0-9, _) to text", _values),
}
MEDIA: Mapping[str, ValueType] = {
    "image": _text("an http(s) address; {node} in it is the node's name",
                   lambda given: _URL.fullmatch(given.replace("{node}", "node")) is not None),
    "drive": _matching("the name of a virtual drive", _DRIVE),
}
DHCP: Mapping[str, ValueType] = {
    "mode": choice(DhcpMode), "interface": _matching("the name of a network interface", _INTERFACE),
    "network": ValueType("a network such as 10.1.0.0/24", _network),
    "range": list_of("the first and the last address", _ADDRESS), "router": _ADDRESS,
    "dns": list_of("addresses", _ADDRESS), "lease": integer(2, 43200),
    "tftp": ValueType("the absolute path of a folder", lambda given: str(_folder(given))),
    "bios": _LOADER, "x64": _LOADER, "arm64": _LOADER,
}
