"""A site with a stand-in for MAAS: its options, its key's file, and a back end that waits for nothing."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.osinstall.maas.backend import MaasBackend, maas_backend
from provisioning.osinstall.maas.options import MaasOptions
from tests.testbed.maas import KEY, Hardware, Maas
from tests.testbed.planted import private


def key_file(folder: Path, key: str = KEY) -> Secret:
    path = private(folder / "maas.key", key + "\n")
    return Secret(SecretFrom.FILE, (str(path),))


@dataclass
class Site:
    """`paused` are the pauses that were asked for, none of which took any time."""

    bed: Maas
    folder: Path
    paused: list[float] = field(default_factory=list)

    def options(self, **more: Any) -> MaasOptions:
        """ubuntu/jammy on this MAAS."""
        given = MaasOptions(self.bed.url, key_file(self.folder), osystem="ubuntu",
                            distro_series="jammy", seconds=20,
                            tls=str(self.bed.authority or "verify"))
        return replace(given, **more)

    def backend(self, **more: Any) -> MaasBackend:
        """A back end that knows nothing yet."""
        return maas_backend(self.options(**more), pause=self.paused.append)

    def machine(self, status: int, **more: Any) -> Any:
        """The machine of `NODE` in a status."""
        return self.bed.enlist("abc123", "gpu001", HARDWARE, status, **more)

    def asked(self) -> list[str]:
        return [op for method, _, op in self.bed.seen if method == "POST"]


HARDWARE = Hardware("SN0001", "0a0b0c0d-0000-4000-8000-00000000abcd", "10.2.0.1")
NODE = Node("gpu001", bmc=Bmc("10.2.0.1"), labels={"serial": "SN0001"})
