"""A fleet of simulated nodes behind real sshd on loopback, which leaves nothing behind."""

from __future__ import annotations

import json
import os
import pwd
import random
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Any

from inventory.errors import MusterError
from provisioning.demo import faults, h100
from provisioning.demo.build import Libraries, build
from provisioning.demo.keys import KeyPair
from provisioning.demo.machine import Access, DemoMachine, HostKey, login_script, write

ADDRESS = "127.0.0.1"
SKU = "dgx-h100"
_KEEPER = Path(__file__).with_name("keeper.py")
_RACK = 8                   # nodes
_SEPARATION = Path("/run/sshd")
_END_S = 120.0              # removing 14,000 files takes 0.7 s, and on a busy disk thirty times as long
_NEW_ENOUGH = "import sys; sys.exit(sys.version_info < (3, 8))"


@dataclass(frozen=True)
class DemoNode:
    """One running node: what is planted on it, its tree, and the port of 127.0.0.1 where it is reached."""

    name: str
    faults: tuple[str, ...]
    tree: Path
    port: int


class DemoFleet:
    """`with DemoFleet(nodes=32, seed=1) as fleet:` holds running nodes gpu001 and on, which are gone with
    their files afterwards. `folder` (made in `base`) holds everything, `inventory` is the muster.yaml to
    sweep them by, `planted` each node's faults, by the seed unless given. All is the calling user's and on
    loopback. A process of its own (keeper.py) holds sockets and folder, so that the end of this one, by KILL
    too, is the end of the fleet. Raises MusterError without sshd or a C compiler, or when sshd refuses."""

    folder: Path
    inventory: Path
    nodes: Mapping[str, DemoNode]

    def __init__(
        self, nodes: int = 32, seed: int = 1, base: Path | None = None,
        planted: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        plan = faults.plan(names(nodes), seed) if planted is None else planted
        self.planted: Mapping[str, tuple[str, ...]] = {name: tuple(planted) for name, planted in plan.items()}
        self._seed = seed
        self._base = base
        self._keeper: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> DemoFleet:
        sshd, libraries = find_sshd(), build()
        command = [sys.executable, "-I", "-S", str(_KEEPER), "muster-demo-",
                   *([] if self._base is None else [str(self._base)])]
        # A session of its own: Ctrl-C at the terminal must reach only this process, which then says when to
        # end.
        self._keeper = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
        try:
            self.folder = Path(self._answer()["folder"])
            self._start(sshd, libraries)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """The nodes' processes have ended and the folder is gone; more than once does no harm."""
        if self._keeper is None:
            return
        keeper, self._keeper = self._keeper, None
        for pipe in (keeper.stdin, keeper.stdout):
            _pipe(pipe).close()
        try:
            keeper.wait(_END_S)
        except subprocess.TimeoutExpired:
            keeper.kill()
            keeper.wait()
            raise MusterError(
                f"the demo's processes do not end; what is left of it is in {self.folder}") from None

    def advance(self) -> None:
        """Lets time pass between two sweeps: a link that flaps has lost its link some times more."""
        for node in self.nodes.values():
            faults.advance(node.tree, node.faults)

    def _start(self, sshd: str, libraries: Libraries) -> None:
        programs = find_programs()
        # The dynamic linker splits its lists at blanks and colons, which the cache's own path may hold.
        (self.folder / "lib").symlink_to(libraries.folder)
        at_hand = Libraries(self.folder / "lib")
        machines = {name: self._machine(name) for name in self.planted}
        user_key = KeyPair.new()
        user_key.save(self.folder / "id_ed25519")
        (self.folder / "authorized_keys").write_text(f"{user_key.public} demo\n")
        host_keys = {name: KeyPair.new() for name in machines}
        order: dict[str, Any] = {}
        for name, machine in machines.items():
            at = self.folder / name
            at.mkdir()
            write(machine, at / "tree", programs)
            (at / "login").write_text(login_script(machine, at / "tree", at_hand.folder, at_hand.syscalls))
            host_keys[name].save(at / "host_key")
            (at / "sshd_config").write_text(_sshd_config(self.folder, at))
            order[name] = {
                "access": machine.access.value,
                "argv": [sshd, "-i", "-f", str(at / "sshd_config"), "-E", str(at / "sshd.log")]}
        served = [name for name, machine in machines.items() if machine.access is Access.SSHD]
        if served:
            _try_config(sshd, self.folder / served[0] / "sshd_config")
        stdin = _pipe(_held(self._keeper).stdin)
        stdin.write(json.dumps({"nodes": order}).encode() + b"\n")
        stdin.flush()
        ports: dict[str, int] = self._answer()["ports"]
        self.nodes = {
            name: DemoNode(name, self.planted[name], self.folder / name / "tree", ports[name])
                for name in machines}
        (self.folder / "known_hosts").write_text("".join(_known_hosts(machines, host_keys, ports)))
        self.inventory = self.folder / "muster.yaml"
        self.inventory.write_text("".join(_inventory(ports)))

    def _machine(self, name: str) -> DemoMachine:
        # repeatable on purpose, no secret
        machine = h100.healthy(name, random.Random(f"{self._seed} {name}"))  # noqa: S311
        faults.plant(machine, self.planted[name], random.Random(f"{self._seed} {name} faults"))  # noqa: S311
        return machine

    def _answer(self) -> dict[str, Any]:
        line = _pipe(_held(self._keeper).stdout).readline()
        if not line:
            raise MusterError("the demo's keeper did not start; its output is above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def names(nodes: int) -> tuple[str, ...]:
    """gpu001, gpu002 and on."""
    return tuple(f"gpu{number:03d}" for number in range(1, nodes + 1))


def find_sshd() -> str:
    """The absolute path of sshd, by which it wants to be called; raises MusterError with what to type."""
    path = shutil.which("sshd", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin:/sbin")
    if path is None:
        raise MusterError("the demo needs OpenSSH's server; type: apt-get install -y openssh-server")
    return str(Path(path).absolute())


def find_programs() -> dict[str, str]:
    """This machine's programs that every node has, by name, as absolute paths. The node's Python is the
    system's own, unless that is older than a node may have; then it is ours."""
    found = {name: path for name in ("cat", "sleep") if (path := shutil.which(name)) is not None}
    python = shutil.which("python3", path="/usr/bin")
    if python is None or subprocess.run(
        [python, "-I", "-S", "-c", _NEW_ENOUGH], capture_output=True, check=False).returncode:
        python = sys.executable
    return {"python3": str(Path(python).resolve()), **found}


def _sshd_config(folder: Path, at: Path) -> str:
    return "".join(f"{line}\n" for line in (
        f'HostKey "{at}/host_key"',
        f'AuthorizedKeysFile "{folder}/authorized_keys"',
        # The login shell is this user's own, and reads rc files: not those of this machine, which may do
        # anything, and slowly.
        f'SetEnv "HOME={at}"',
        f"ForceCommand exec /bin/sh {shlex.quote(f'{at}/login')}",
        "PidFile none",
        # PAM would look into this machine's own accounts; but without it OpenSSH takes root's locked password
        # for a locked account.
        f"UsePAM {'yes' if _is_locked() else 'no'}",
        "StrictModes no",           # the folder may lie below one that others may write to, such as /tmp
        "UseDNS no",
        "PermitRootLogin yes",      # where root runs the demo, root is the one user who can log in to it
        "AuthenticationMethods publickey",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        "DisableForwarding yes",
        "PrintMotd no",
        "PrintLastLog no",
        "LoginGraceTime 60",
    ))


def _is_locked() -> bool:
    if os.geteuid() != 0:
        return False
    try:
        lines = Path("/etc/shadow").read_text(errors="replace").splitlines()
    except OSError:
        return False
    return any(line.startswith("root:!") for line in lines)


def _try_config(sshd: str, config: Path) -> None:
    """Raises MusterError with sshd's own word if it would refuse; else every login would be cut off."""
    if os.geteuid() == 0 and not _SEPARATION.exists():
        # A root's sshd locks its unprivileged half into this folder; the service's own start would have made
        # it.
        _SEPARATION.mkdir(mode=0o755)
    done = subprocess.run(
        [sshd, "-t", "-f", str(config)], capture_output=True, text=True, errors="replace", check=False)
    if done.returncode:
        lines = done.stderr.strip().splitlines() or ["no message"]
        raise MusterError(f"{sshd} refuses the demo's configuration: {lines[-1].strip()[:200]}")


def _known_hosts(
    machines: Mapping[str, DemoMachine], keys: Mapping[str, KeyPair], ports: Mapping[str, int],
) -> Iterator[str]:
    for name, machine in machines.items():
        if machine.host_key is HostKey.UNKNOWN:
            continue
        key = KeyPair.new() if machine.host_key is HostKey.CHANGED else keys[name]
        yield f"[{ADDRESS}]:{ports[name]} {key.public}\n"


def _inventory(ports: Mapping[str, int]) -> Iterator[str]:
    user = pwd.getpwuid(os.getuid()).pw_name
    yield ("# The demo fleet: real sshd on loopback, simulated hardware. It ends with the command that "
           "started it.\n")
    yield "version: 1\n"
    yield "defaults:\n"
    yield f"  user: {json.dumps(user)}\n"
    yield "  identity_file: id_ed25519\n"
    yield "  known_hosts_file: known_hosts\n"
    yield f"  sku: {SKU}\n"
    yield f"  address: {ADDRESS}\n"
    yield "  ports:\n"
    for address, rail in h100.rails().items():
        yield f'    "{address}": {{role: compute, rail: {rail}}}\n'
    yield "nodes:\n"
    for at, (name, port) in enumerate(ports.items()):
        rack = at // _RACK + 1
        yield (f"  {name}: {{port: {port}, rack: r{rack:02d}, leaf: [leaf{rack:02d}], power: "
               f"pdu-{rack:02d}}}\n")


def _held(keeper: subprocess.Popen[bytes] | None) -> subprocess.Popen[bytes]:
    if keeper is None:
        raise ValueError("the fleet is not running")
    return keeper


def _pipe(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None     # noqa: S101  (narrowing; Popen was asked for it)
    return pipe
