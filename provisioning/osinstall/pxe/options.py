"""What own PXE is given, as plain values; `settings` reads them from pxe.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from types import MappingProxyType

FILE = "pxe.yaml"


class DhcpMode(Enum):
    """Who gives addresses. PROXY: another server does, and dnsmasq only says what to boot."""

    PROXY = "proxy"
    FULL = "full"


class ImageKind(Enum):
    """Which installer an image has, and so which files it fetches."""

    UBUNTU = "ubuntu"       # subiquity: user-data, meta-data, vendor-data
    DEBIAN = "debian"       # debian-installer: preseed.cfg
    CUSTOM = "custom"       # the site's own: seed


@dataclass(frozen=True)
class Loaders:
    """The iPXE for each firmware, files of the TFTP folder, empty for none; names are of Debian's `ipxe`,
    where arm64 is not everywhere."""

    bios: str = "undionly.kpxe"
    x64: str = "ipxe.efi"
    arm64: str = ""


@dataclass(frozen=True)
class DhcpOptions:
    """How dnsmasq answers there. `first` and `last` are of FULL only, lease in minutes."""

    interface: str
    network: IPv4Network
    mode: DhcpMode = DhcpMode.PROXY
    first: IPv4Address | None = None
    last: IPv4Address | None = None
    router: IPv4Address | None = None
    dns: tuple[IPv4Address, ...] = ()
    lease: int = 720
    tftp: str = "/usr/lib/ipxe"
    loaders: Loaders = Loaders()


@dataclass(frozen=True)
class OsImage:
    """One operating system. `kernel`, `initrd` and `iso` are addresses, or files below `/files/` of `muster
    os serve`; `disk` is a device, or empty for the largest; `values` are for the site's templates."""

    name: str
    kind: ImageKind
    kernel: str
    initrd: str
    iso: str = ""
    arguments: tuple[str, ...] = ()
    disk: str = ""
    packages: tuple[str, ...] = ()
    mirror: str = "http://deb.debian.org/debian"
    suite: str = "stable"
    values: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True)
class MediaOptions:
    """What goes into a virtual drive: `image` is an address, in which {node} is the node's name; `drive` is a
    drive's name, None for the first that takes a CD."""

    image: str
    drive: str | None = None


@dataclass(frozen=True)
class PxeOptions:
    """Everything own PXE needs. `server` is how machines reach `muster os serve`, without a slash at its end;
    `image` is that of nodes not in `by_node`; `minutes` are from being armed to the phone-home. Of folders of
    `templates` a later one wins. `authority` is the certificate (PEM) that the phone-home trusts with https.
    `neighbours`: refuse a hardware address that the kernel knows and that is not the machine's."""

    server: str
    image: str
    images: Mapping[str, OsImage]
    templates: tuple[Path, ...]
    by_node: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    dhcp: DhcpOptions | None = None
    user: str = "muster"
    authorized_keys: tuple[str, ...] = ()
    minutes: float = 90.0
    files: Path | None = None
    authority: str = ""
    neighbours: bool = True
    media: MediaOptions | None = None
