"""Machines as a newcomer has them: each behind an sshd of its own, reached by its name in ~/.ssh/config, and
nowhere declared."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from provisioning.demo import h100, host
from provisioning.demo.build import build
from provisioning.demo.fleet import find_programs
from provisioning.demo.machine import DemoMachine, login_script, write
from tests.testbed.planted import executable
from tests.testbed.sshd import Sshd, make_key, sshd

# What shows that there are GPUs or RDMA adapters, in the path of a file or in a line of one.
_GONE = (*h100.GPUS, *h100.HCAS, *h100.NVSWITCHES, "nvidia", "NVRM", "mlx5", "infiniband", "ib_", "NVIDIA",
         "DGX", "nvlink", "cdi", "dcgm", "docker", "containerd")
_LISTS = (host.MODULES, host.UNITS)
_TOOLS = ("nvidia-smi", "docker", "dcgmi", "ibstat", "nvidia-ctk", "mlxlink")
KERNEL = "6.5.0-41-generic"


@dataclass(frozen=True)
class Machines:
    """Running machines by name, and the lines of an ssh_config that lead to them."""

    servers: Mapping[str, Sshd]
    config: str


def plain(name: str) -> DemoMachine:
    """A healthy node of the demo without all that belongs to GPUs and RDMA adapters."""
    machine = h100.healthy(name, random.Random(name))
    machine.files = {path: "".join(line for line in text.splitlines(True) if not _gone(line))
                     if path in _LISTS else text
                     for path, text in machine.files.items() if not _gone(path)}
    machine.files |= {"/proc/sys/kernel/osrelease": f"{KERNEL}\n",
                      "/sys/class/dmi/id/product_name": "PowerEdge R650\n",
                      "/sys/class/dmi/id/sys_vendor": "Dell Inc.\n",
                      "/sys/class/dmi/id/board_name": "0WT8Y6\n"}
    machine.links = {path: target
                     for path, target in machine.links.items() if not _gone(path) and not _gone(target)}
    machine.tools = {tool: script for tool, script in machine.tools.items() if tool not in _TOOLS}
    machine.scenario = {}
    machine.log = [record for record in machine.log if not _gone(record.decode(errors="replace"))]
    return machine


def with_gpus(name: str) -> DemoMachine:
    """A healthy node with eight GPUs."""
    return h100.healthy(name, random.Random(name))


def other_memory(name: str) -> DemoMachine:
    """A node with eight GPUs that was bought with half of the memory."""
    machine = with_gpus(name)
    machine.files["/proc/meminfo"] = h100.meminfo(h100.MEMORY_KB // 2, random.Random(name))
    return machine


def lost_gpus(name: str) -> DemoMachine:
    """A node whose eight GPUs have left the PCI bus; its driver and its product's name are as they were."""
    machine = with_gpus(name)
    machine.files = {path: text
                     for path, text in machine.files.items() if not any(gpu in path for gpu in h100.GPUS)}
    machine.links = {path: target for path, target in machine.links.items()
                     if not any(gpu in path or gpu in target for gpu in h100.GPUS)}
    machine.scenario = {}
    return machine


def _gone(text: str) -> bool:
    return any(word in text for word in _GONE)


def read_only_root(name: str) -> DemoMachine:
    """A plain machine whose root file system the kernel made read-only after an error."""
    machine = plain(name)
    machine.remount(machine.mount("/").read_only())
    return machine


@contextmanager
def machines(folder: Path, made: Mapping[str, Callable[[str], DemoMachine]]) -> Iterator[Machines]:
    """Machines in `folder`, by name what makes each."""
    folder.mkdir(parents=True, exist_ok=True)
    key = make_key(folder / "newcomer")
    libraries, programs = build(), find_programs()
    servers: dict[str, Sshd] = {}
    with ExitStack() as stack:
        for name, make in made.items():
            machine = make(name)
            place = folder / name
            tree = place / "tree"
            write(machine, tree, programs)
            script = executable(place / "login", login_script(
                machine, tree, libraries.folder if machine.scenario else tree, libraries.syscalls))
            servers[name] = stack.enter_context(sshd(place, config=f"ForceCommand {script}\n", user_key=key))
        yield Machines(servers, "".join(
            f"Host {name}\n HostName 127.0.0.1\n Port {server.port}\n User {server.user}\n "
            f"IdentityFile {key}\n"
            for name, server in servers.items()))
