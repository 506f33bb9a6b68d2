"""A node behind real sshd that sees a simulated InfiniBand fabric: the fabric's real tools on its PATH are
led to ibsim, one by one.

Only the tools are, by LD_PRELOAD: a Python with the library would be a client of the simulator, too. Each
runs in the fabric's folder, where the library makes its `sys-<pid>`.
"""

from __future__ import annotations

import shlex
import shutil
from pathlib import Path
from typing import Any

from tests.testbed.collector import PYTHON
from tests.testbed.ibfabric import Fabric
from tests.testbed.sshd import Sshd

TOOLS = ("ibnetdiscover", "iblinkinfo", "ibqueryerrors", "saquery", "sminfo", "dump_fts")
_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def entry(server: Sshd, fabric: Fabric, folder: Path) -> dict[str, Any]:
    """Its entry of an inventory; programs of its own are made in `folder`, which is to be new."""
    tools = folder / "bin"
    tools.mkdir(parents=True)
    given = fabric.environment(fabric.observer)
    words = " ".join(f"{name}={shlex.quote(given[name])}"
                     for name in ("LD_PRELOAD", "IBSIM_SOCKNAME", "SIM_HOST"))
    for name in TOOLS:
        real = shutil.which(name, path=_PATH)
        assert real is not None, f"no {name} on this machine: apt-get install -y infiniband-diags"
        _program(tools / name, f'cd {shlex.quote(str(fabric.folder))} && {words} exec {real} "$@"')
    _program(folder / "python3", f'PATH={shlex.quote(str(tools))}:{_PATH} exec {shlex.quote(PYTHON)} "$@"')
    return {"address": "127.0.0.1", "port": server.port, "user": server.user,
            "identity_file": str(server.user_key),
            "known_hosts_file": str(server.known_hosts), "python": str(folder / "python3")}


def _program(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)
