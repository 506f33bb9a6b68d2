"""What a site says of its MAAS."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from inventory.model import Secret, SecretFrom
from inventory.text import short
from provisioning.osinstall.base import OsError

_WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
_RELEASE = re.compile(r"\d+\.\d+")


@dataclass(frozen=True)
class MaasOptions:
    """`url` is that of MAAS (https://maas.example.com:5443/MAAS); `key` says where its API key is, a file or
    a command that gives `consumer:token:secret` on its first line.

    `osystem` and `distro_series` are the image as MAAS names it (ubuntu, jammy; custom, dgx-os-7): empty is
    what MAAS has as its default, and then any deployed image is right. `hwe_kernel` is its kernel,
    `user_data` a file for cloud-init. `commissioning_scripts` and `testing_scripts` are names or tags, empty
    for MAAS's own choice. With `tested`, a machine that is ready and has no test results is tested before it
    is deployed. `tags`, which MAAS must have, are put on each machine that is deployed.

    `tls` is "verify" (the system's authorities) or the path of a file of authorities. `cleartext` allows
    http://, by which the key can be read on the way. `seconds` is for one question with its retries.
    """

    url: str
    key: Secret
    osystem: str = ""
    distro_series: str = ""
    hwe_kernel: str = ""
    user_data: Path | None = None
    commissioning_scripts: tuple[str, ...] = ()
    testing_scripts: tuple[str, ...] = ()
    tested: bool = False
    tags: tuple[str, ...] = ()
    tls: str = "verify"
    cleartext: bool = False
    seconds: float = 60.0

    @property
    def image(self) -> str:
        """The image in one word, as `deploy` takes it; empty for MAAS's default."""
        return f"{self.osystem}/{self.distro_series}" if self.osystem else self.distro_series


def check_options(options: MaasOptions) -> None:
    """Raises OsError, one line, for options that cannot work."""
    if options.key.source is SecretFrom.ENV:
        raise OsError("maas: the API key comes from a file or a command, not from the environment")
    if options.osystem and not options.distro_series:
        raise OsError("maas: osystem needs distro_series, such as osystem: ubuntu, distro_series: jammy")
    words = (options.osystem, options.distro_series, options.hwe_kernel, *options.commissioning_scripts,
             *options.testing_scripts, *options.tags)
    for word in filter(None, words):
        if not _WORD.fullmatch(word):
            raise OsError(f"maas: {short(word)} is no name: expected letters, digits, '.', '-' or '_'")
    if _RELEASE.fullmatch(options.distro_series):
        raise OsError(f"maas: distro_series is {short(options.distro_series)}, expected the name that MAAS "
                      "shows for a machine, such as jammy")
    if not options.seconds > 0:
        raise OsError("maas: seconds has to be above 0")
