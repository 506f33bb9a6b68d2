"""Signs as machines show them, in the form of their own report; `plain` is an installed system's."""

from __future__ import annotations

import json
import zlib
from typing import Any

DISK = ["ext4", "/dev/nvme0n1p2", "259:2"]
RELEASE = 'PRETTY_NAME="Ubuntu 24.04.1 LTS"\nID=ubuntu\nIMAGE_ID=site\nIMAGE_VERSION=7\n'
LINE = "BOOT_IMAGE=/vmlinuz-6.8.0 root=UUID=6a3e ro console=ttyS1,115200n8"


def text(given: str | None, unseen: str = "") -> dict[str, Any]:
    """A file as it is reported."""
    return {"text": given, "unseen": unseen}


def plain(**changes: Any) -> dict[str, Any]:
    """An installed system on a disk that has come up, but for what is given."""
    return {"cmdline": text(LINE), "root": DISK, "release": text(RELEASE), "marker": None, "running": [],
            "systemd": "running", "cloud_init": "", **changes}


def packed(report: Any) -> bytes:
    """As it comes back."""
    return zlib.compress(json.dumps(report).encode())
