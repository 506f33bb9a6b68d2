"""The real fwupd with its own test device, on a bus of its own, which sees nothing of the system's."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.require import require
from tests.testbed.sshd import wait_until

DAEMONS = (Path("/usr/libexec/fwupd/fwupd"), Path("/usr/lib/fwupd/fwupd"))
CABINETS = Path("/usr/share/installed-tests/fwupd")
WEBCAM = "08d460be0f1f9f128413f816022a6439e0078018"
_BUS = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-BUS Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig><type>system</type><listen>unix:path={path}</listen>
<policy context="default"><allow user="*"/><allow own="*"/><allow send_type="method_call"/>
<allow send_requested_reply="true" send_type="method_return"/><allow send_requested_reply="true" send_type="error"/>
<allow receive_type="*"/><allow send_type="signal"/></policy></busconfig>
"""  # noqa: E501


@dataclass
class Fwupd:
    """A daemon; `environment` is how a client finds it, and `root` a folder in which its client is the only
    program."""

    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def root(self) -> Path:
        return self.folder / "root"

    def start(self, *, reboot: bool) -> None:
        """`reboot`: what is written to its device waits for a restart."""
        (self.folder / "etc/fwupd.conf").write_text(
            f"[fwupd]\nTestDevices=true\nOnlyTrusted=false\n[test]\nNeedsReboot={str(reboot).lower()}\n")
        daemon = next(path for path in DAEMONS if path.exists())
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen([daemon], env={**os.environ, **self.environment},
                                            stdout=log, stderr=log)
        wait_until(self.answers, 60)

    def answers(self) -> bool:
        done = subprocess.run(["fwupdmgr", "get-devices", "--json", WEBCAM],
                              env={**os.environ, **self.environment}, capture_output=True, check=False)
        return done.returncode == 0

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)
            self.process = None


@contextmanager
def fwupd(folder: Path) -> Iterator[Fwupd]:
    """A bus and a place for the daemon, which is not started yet."""
    there = (shutil.which("fwupdmgr") and shutil.which("dbus-daemon")
             and any(path.exists() for path in DAEMONS) and CABINETS.exists())
    require(there and os.geteuid() == 0,
            "no fwupd with its tests here, or not root: apt-get install -y fwupd fwupd-tests dbus")
    for name in ("etc", "state", "cache", "root/usr/bin", "root/proc"):
        (folder / name).mkdir(parents=True)
    (folder / "root/usr/bin/fwupdmgr").symlink_to("/usr/bin/fwupdmgr")
    (folder / "root/proc/uptime").write_text("86400.00 1.00\n")
    (folder / "bus.conf").write_text(_BUS.format(path=folder / "bus"))
    started = subprocess.run(["dbus-daemon", f"--config-file={folder / 'bus.conf'}", "--fork", "--print-pid"],
                             capture_output=True, text=True, check=True)
    bed = Fwupd(folder, {
        "DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={folder / 'bus'}",
        "CONFIGURATION_DIRECTORY": str(folder / "etc"), "STATE_DIRECTORY": str(folder / "state"),
        "CACHE_DIRECTORY": str(folder / "cache"), "FWUPD_LOCALSTATEDIR": str(folder / "state"),
        "FWUPD_SYSCONFDIR": str(folder / "etc")})
    try:
        yield bed
    finally:
        bed.stop()
        os.kill(int(started.stdout), signal.SIGTERM)
