"""A rack of emulated Redfish controllers in one process: sushy-tools' emulator, each machine at a loopback
address of its own, with TLS.

What is the emulator's own and what is added to it stand in `tests/testbed/bmc`: driver (power, BIOS),
resources (parts, logs, firmware), door (sessions, lockout), serve (listeners, troubles). The process ends
with the rack, or with the test's process, whatever happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import secrets
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from tests.testbed.bmc.certificates import Authority
from tests.testbed.bmc.machine import ELSEWHERE, Machine, Wrong
from tests.testbed.ports import free_port
from tests.testbed.require import require

_ROOT = Path(__file__).resolve().parents[2]
__all__ = ["ELSEWHERE", "Bed", "Machine", "Wrong", "rack", "require_rack"]


def require_rack() -> None:
    require(find_spec("sushy_tools") and find_spec("sushy"),
            "no sushy-tools here: .venv/bin/pip install sushy sushy-tools")


@dataclass(frozen=True)
class Request:
    """One request as the log has it: `keys` are the names in its body, or the names of the settings that it
    writes, `what` is its ResetType, `bytes` those of the answer's body, `login` by which header it said who
    it is."""

    machine: str
    time: float
    method: str
    path: str
    query: str
    status: int
    keys: tuple[str, ...]
    what: str
    bytes: int
    login: str


@dataclass
class Bed:
    """A running rack."""

    folder: Path
    machines: dict[str, Machine]
    addresses: dict[str, str]
    fingerprints: dict[str, str]        # SHA-256 of the certificate that each had first, in hex
    ca: Path                            # the authority that signed them all
    user: str
    password: str
    port: int
    process: subprocess.Popen[str]
    # from what each booted last, such as Pxe or None; said before `on_power` is called
    boots: dict[str, str]
    _told: queue.Queue[str]

    def address(self, name: str) -> str:
        """Its controller's address; `port` is the same for all."""
        return self.addresses[name]

    def entry(self, name: str, tls: str = "pin", env: str = "BMC_PASSWORD") -> str:
        """The value of `bmc` for its entry in an inventory; the password comes from a variable of the
        environment."""
        return (
            f"{{address: {self.addresses[name]}, port: {self.port}, user: {self.user}, tls: "
            f"{self.ca if tls == 'ca' else tls}, "
            f"password: {{env: {env}}}}}")

    def log(self, name: str | None = None) -> list[Request]:
        """All requests so far, of one machine or of all, oldest first."""
        lines = (self.folder / "requests.jsonl").read_text().splitlines()
        read = (json.loads(line) for line in lines)
        return [Request(**{**one, "keys": tuple(one["keys"])})
                for one in read if name in (None, one["machine"])]

    def counts(self, name: str) -> Counter[str]:
        """How often each was done with success: bios, on, off, shutdown, restart, boot, login; and 401 and
        requests in all."""
        return _counted(self.log(name))

    def all_counts(self) -> dict[str, Counter[str]]:
        """The same of each machine."""
        asked: dict[str, list[Request]] = {name: [] for name in self.machines}
        for one in self.log():
            asked.setdefault(one.machine, []).append(one)
        return {name: _counted(requests) for name, requests in asked.items()}

    def change(self, name: str, **changes: Any) -> None:
        """Makes the machine another one, such as `wrong=None` to mend it; it counts from the next request
        on."""
        self.machines[name] = replace(self.machines[name], **changes)
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(self.machines[name].document()) + "\n")
        self.process.stdin.flush()
        assert self._told.get(timeout=10) == name

    @property
    def cpu(self) -> float:
        """Seconds of processor time that the process of the rack has taken."""
        words = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


@contextlib.contextmanager
def rack(folder: Path, machines: Sequence[Machine], *, user: str = "root",
         password: str = "calvin-0penSesame", power_s: float = 0.1,  # noqa: S107
         post_s: float = 0.2, lockout: int = 3, port: int | None = None,
         on_power: Callable[[str, bool], None] | None = None) -> Iterator[Bed]:
    """These machines, when all listen. `on_power` is called, in a thread, when a machine has passed its POST,
    and when it is turned off."""
    folder.mkdir(parents=True, exist_ok=True)
    sound = next((one for one in machines if one.wrong is None), None)
    machines = [replace(one, serial=sound.number) if one.wrong is Wrong.TWIN and not one.serial
                and sound else one for one in machines]
    block = f"127.{64 + secrets.randbelow(128)}.{secrets.randbelow(256)}"
    names = [*(one.name for one in machines), ELSEWHERE]
    assert len(names) < 255
    addresses = {name: f"{block}.{at}" for at, name in enumerate(names, 1)}
    authority = Authority(folder / "ca.pem")
    certificates = {name: [authority.certificate(folder / f"{name}.{at}.pem", addresses[name])
                           for at in range(2)] for name in names}
    port = port or free_port(addresses[ELSEWHERE])
    (folder / "rack.json").write_text(json.dumps({
        "machines": [one.document() for one in machines], "addresses": addresses, "port": port, "user": user,
        "password": password,
        "power_s": power_s, "post_s": post_s, "lockout": lockout,
        "certificates": {name: [str(path) for path, _ in both] for name, both in certificates.items()}}))
    (folder / "requests.jsonl").touch()
    with (folder / "log").open("w") as log:
        process = subprocess.Popen([sys.executable, "-m", "tests.testbed.bmc.serve", str(folder)], cwd=_ROOT,
                                   text=True, stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=log)
    told: queue.Queue[str] = queue.Queue()
    boots: dict[str, str] = {}
    thread = threading.Thread(target=_listen,
                              args=(process, told, boots, on_power or (lambda name, on: None)), daemon=True)
    thread.start()
    try:
        assert told.get(timeout=60), f"the rack did not start: {(folder / 'log').read_text()[-2000:]}"
        yield Bed(folder, {one.name: one for one in machines}, addresses,
                  {name: both[0][1] for name, both in certificates.items()},
                  folder / "ca.pem", user, password, port, process, boots, told)
    finally:
        assert process.stdin is not None
        process.stdin.close()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        thread.join(10)


def _listen(process: subprocess.Popen[str], told: queue.Queue[str], boots: dict[str, str],
            on_power: Callable[[str, bool], None]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        said = json.loads(line)
        if "power" in said:
            if said["on"]:
                boots[said["power"]] = said["boots"]
            on_power(said["power"], said["on"])
        else:
            told.put(said.get("set", "ready"))
    process.stdout.close()
    told.put("")


def _counted(requests: Sequence[Request]) -> Counter[str]:
    counted: Counter[str] = Counter()
    for one in requests:
        counted[_action(one)] += one.status < 300
        counted["401"] += one.status == 401
        counted["requests"] += 1
    return +counted


def _action(request: Request) -> str:
    if request.path.endswith("/ComputerSystem.Reset"):
        return {"On": "on", "ForceOn": "on", "ForceOff": "off",
                "GracefulShutdown": "shutdown"}.get(request.what, "restart")
    if request.method == "PATCH":
        return "bios" if request.path.endswith("/Settings") else "boot"
    return "login" if request.method == "POST" and request.path.rstrip("/").endswith("/Sessions") else "other"
