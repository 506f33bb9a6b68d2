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
    """`url` is MAAS's (https://maas.example.com:5443/MAAS); `key` is where its API key is, a file or command
    that gives `consumer:token:secret` on its first line. `osystem` and `distro_series` name the image
    (ubuntu, jammy; custom, dgx-os-7): empty is MAAS's default, and then any deployed image is right.
    `hwe_kernel` is its kernel, `user_data` a file for cloud-init. `commissioning_scripts` and
    `testing_scripts` are names or tags, empty for MAAS's own choice. With `tested`, a ready machine without
    results is tested first. `tags`, which MAAS must have, are put on what is deployed. `tls` is "verify" (the
    system's authorities) or a file of authorities; `cleartext` allows http://, which shows the key. `seconds`
    is for a question with retries."""

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
