"""A site with own PXE for tests: options, nodes, records, and a client that speaks as machines do."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from ipaddress import IPv4Address, IPv4Network
from pathlib import Path
from typing import Any

from healthcheck.config.rulesfolder import packaged
from inventory.model import Node
from provisioning.osinstall.pxe import phonehome
from provisioning.osinstall.pxe.backend import PxeBackend
from provisioning.osinstall.pxe.options import DhcpMode, DhcpOptions, ImageKind, Loaders, OsImage, PxeOptions
from provisioning.osinstall.pxe.record import Installation
from provisioning.osinstall.pxe.records import InstallationRecords
from provisioning.osinstall.pxe.server import Log, PxeServer
from provisioning.osinstall.pxe.site import PxeAnswer, PxeRequest, PxeSite
from tests.testbed.death import Clock

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBaHiiXw6Zb1p1yAfoDVm8hKY2F8vJ0Zk0ZUuU9eFjS0"
OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIKJr7vE0bqv0CwT0J8F3f7xkUu8G0b9m0o3Cz4m1X2aB"
IMAGES = {
    "ubuntu": OsImage("ubuntu", ImageKind.UBUNTU, "noble/vmlinuz", "noble/initrd", "noble/live-server.iso",
                      ("console=ttyS0,115200",), packages=("chrony", "python3")),
    "debian": OsImage("debian", ImageKind.DEBIAN, "http://mirror.example/linux",
                      "http://mirror.example/initrd.gz",
                      disk="/dev/nvme0n1", packages=("chrony",), suite="bookworm"),
    "own": OsImage("own", ImageKind.CUSTOM, "own/vmlinuz", "own/initrd", disk="/dev/vda"),
}


def options(**more: Any) -> PxeOptions:
    """What tests begin with: Ubuntu for all nodes."""
    given: dict[str, Any] = {
        "server": "http://10.1.0.1:9850", "image": "ubuntu", "images": IMAGES,
        "templates": (packaged() / "pxe",),
        "authorized_keys": (f"{KEY} operator",), "dhcp": dhcp(), "neighbours": False}
    return PxeOptions(**{**given, **more})


def dhcp(mode: DhcpMode = DhcpMode.PROXY, **more: Any) -> DhcpOptions:
    """A network of machines."""
    return DhcpOptions(**{
        "interface": "eth1", "network": IPv4Network("10.1.0.0/24"), "mode": mode,
        "first": IPv4Address("10.1.0.100"),
        "last": IPv4Address("10.1.0.199"), "router": IPv4Address("10.1.0.1"),
        "dns": (IPv4Address("10.1.0.1"),),
        "loaders": Loaders(arm64="ipxe-arm64.efi"), **more})


def mac(number: int) -> str:
    return f"52:54:00:00:{number >> 8:02x}:{number & 255:02x}"


def node(number: int = 1, **more: Any) -> Node:
    return Node(f"gpu{number:03d}", boot_mac=(mac(number),), **more)


@dataclass
class Place:
    """A site in a state folder, asked without sockets."""

    state: Path
    options: PxeOptions = field(default_factory=options)
    clock: Clock = field(default_factory=lambda: Clock(1_700_000_000.0))

    def __post_init__(self) -> None:
        self.records = InstallationRecords(self.state)
        self.backend = PxeBackend(self.options, self.records, self.clock)
        self.site = PxeSite(self.options, self.records, self.clock)

    def armed(self, number: int = 1) -> Installation:
        """The record of a machine that was just armed."""
        self.backend.install(node(number))
        return self.record(number)

    def record(self, number: int = 1) -> Installation:
        """What the file holds now."""
        found = InstallationRecords(self.state).read(node(number).name)
        assert found is not None
        return found

    def ask(self, path: str, method: str = "GET", body: bytes = b"", peer: str = "10.1.0.7",
            **headers: str) -> PxeAnswer:
        bare, _, query = path.partition("?")
        return self.site.answer(PxeRequest(method, bare, query, body, headers, peer))

    def done(self, body: bytes, signature: str, number: int = 1) -> PxeAnswer:
        return self.ask(f"/done/{node(number).name}", "POST", body, **{phonehome.HEADER.lower(): signature})


def seed_path(record: Installation, name: str) -> str:
    """Where a file of an installation's seed is."""
    return f"/seed/{record.node}/{record.number}/{record.ticket}/{name}"


def home(record: Installation, **changes: Any) -> bytes:
    """The body of a right phone-home, or of one that differs."""
    return json.dumps({
        "schema": phonehome.SCHEMA, "node": record.node, "number": record.number, "image": record.image,
        "macs": list(record.macs), "host_keys": [KEY], **changes}, sort_keys=True).encode()


@contextmanager
def serving(place: Place, port: int = 0, log: Log | None = None, **more: Any) -> Iterator[str]:
    """The address at which the site is served."""
    lines: list[str] = []
    with PxeServer(("127.0.0.1", port), place.site, log or Log(lines.append), **more) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join(10)


def fetched(address: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(address, body, headers)     # noqa: S310  (the test's own server)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:     # noqa: S310
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as problem:
        return problem.code, problem.read().decode()
