"""One machine of the inventory as own PXE sees it: a valid host name, hardware addresses, and its image."""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import IPv4Address

from inventory.model import Node
from inventory.text import short
from provisioning.osinstall.base import OsError
from provisioning.osinstall.pxe.options import OsImage, PxeOptions

# RFC 1123, 2.1; Linux holds 64 characters (HOST_NAME_MAX, gethostname(2)).
_HOST = re.compile(r"(?!.{65})[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
                   r"(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*")


@dataclass(frozen=True)
class PxeMachine:
    """Who is installed, by which ports it boots, and with what; `address` is the inventory's IPv4, if any."""

    name: str
    macs: tuple[str, ...]
    image: OsImage
    address: IPv4Address | None = None


def is_host_name(text: str) -> bool:
    """Whether a machine can have this name."""
    return _HOST.fullmatch(text) is not None


def machine(node: Node, options: PxeOptions) -> PxeMachine:
    """The machine of a node. Raises OsError for what the inventory or pxe.yaml does not say."""
    if not is_host_name(node.name):
        raise OsError(f"{short(node.name)} cannot be a host name (letters, digits and -, at most 64)")
    if not node.boot_mac:
        raise OsError(f"the inventory has no boot_mac for {node.name}; add there: boot_mac: "
                      "HARDWARE-ADDRESS (muster bmc hardware lists those of its network ports)")
    name = options.by_node.get(node.name, options.image)
    if name not in options.images:
        raise OsError(f"no image {short(name)} for {node.name} in pxe.yaml; it has: "
                      f"{', '.join(sorted(options.images)) or 'none'}")
    return PxeMachine(node.name, node.boot_mac, options.images[name], _address(node.address))


def _address(text: str | None) -> IPv4Address | None:
    try:
        return IPv4Address(text) if text is not None else None
    except ValueError:
        return None     # a host's name, or IPv6
