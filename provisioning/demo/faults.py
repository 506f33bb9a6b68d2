"""Plants faults: each breaks a simulated node in one way; what a sweep must say is in another file. A fault
is a function that changes a healthy `DemoMachine` before it is written; its name with dashes is the fault's
name, its docstring what is wrong with the node. `rng` picks the GPU, port or text."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path

from provisioning.demo.containers import CDI, cdi, needed
from provisioning.demo.h100 import DIMM_KB, GPUS, HCAS, MEMORY_KB, hca_folder, meminfo, remove_pci
from provisioning.demo.machine import Access, DemoMachine, HostKey

Fault = Callable[[DemoMachine, random.Random], None]
FAULTS: dict[str, Fault] = {}

# A fault that shows only beside others of its kind needs so many nodes to stand out from.
_COMPARED = {"kernel-drift", "driver-drift"}
_TO_COMPARE = 6
# With fewer healthy nodes than this left over, not every fault is planted.
_HEALTHY_LEFT = 7


def _fault(plant: Fault) -> Fault:
    FAULTS[plant.__name__.replace("_", "-")] = plant
    return plant


def plan(nodes: Sequence[str], seed: int) -> dict[str, tuple[str, ...]]:
    """For every node, in order, the faults to plant, none or one; equal arguments, equal plan. Every kind
    once where that leaves seven healthy nodes (32 are enough), else a choice that leaves half healthy."""
    rng = random.Random(f"plan {seed}")     # noqa: S311  (a repeatable choice, no secret)
    kinds = [name for name in FAULTS if name not in _COMPARED or len(nodes) >= _TO_COMPARE]
    if len(nodes) < len(kinds) + _HEALTHY_LEFT:
        kinds = rng.sample(kinds, min(len(kinds), len(nodes) // 2))
    sick = dict(zip(rng.sample(list(nodes), len(kinds)), kinds, strict=True))
    return {node: (sick[node],) if node in sick else () for node in nodes}


def plant(machine: DemoMachine, faults: Sequence[str], rng: random.Random) -> None:
    """Breaks the machine in each of these ways; raises KeyError for a name that is no fault."""
    for name in faults:
        FAULTS[name](machine, rng)


def advance(tree: Path, faults: Sequence[str]) -> None:
    """Lets time pass on a written node: what shows only between two looks happens now."""
    if "link-flapping" in faults:
        for counter in sorted(tree.glob("sys/class/infiniband/mlx5_4/ports/1/counters/link_downed")):
            counter.write_text(f"{int(counter.read_text()) + 3}\n")


# ---- reaching the node


@_fault
def refused(machine: DemoMachine, rng: random.Random) -> None:
    """Nothing listens on the node's SSH port."""
    machine.access = Access.REFUSED


@_fault
def silent(machine: DemoMachine, rng: random.Random) -> None:
    """The connection is accepted, but no one ever says a word, as when sshd is out of memory or stopped."""
    machine.access = Access.SILENT


@_fault
def host_key_changed(machine: DemoMachine, rng: random.Random) -> None:
    """The node has another host key than known_hosts says: reinstalled, or someone else's machine."""
    machine.host_key = HostKey.CHANGED


@_fault
def host_key_unknown(machine: DemoMachine, rng: random.Random) -> None:
    """known_hosts has no key of the node."""
    machine.host_key = HostKey.UNKNOWN


@_fault
def login_hangs(machine: DemoMachine, rng: random.Random) -> None:
    """Logging in works, then the shell hangs, as with a home directory on a dead file server."""
    machine.login = "exec sleep 86400"


@_fault
def python_missing(machine: DemoMachine, rng: random.Random) -> None:
    """There is no Python on the node."""
    machine.programs.discard("python3")


# ---- GPUs


@_fault
def ecc_uncorrectable(machine: DemoMachine, rng: random.Random) -> None:
    """One GPU has met uncorrectable memory errors since the driver was loaded."""
    gpu = rng.randrange(len(GPUS))
    machine.scenario[f"gpu.{gpu}.ecc.volatile.uncorrected"] = str(rng.randrange(1, 40))


@_fault
def gpu_lost(machine: DemoMachine, rng: random.Random) -> None:
    """One GPU is lost: the driver lists it still, and every call on it returns NVML_ERROR_GPU_IS_LOST."""
    machine.scenario[f"gpu.{rng.randrange(len(GPUS))}.error"] = "15"


@_fault
def gpu_missing(machine: DemoMachine, rng: random.Random) -> None:
    """One GPU did not enumerate at boot: seven on the PCI bus, seven in the driver."""
    gone = rng.randrange(len(GPUS))
    remove_pci(machine, GPUS[gone])
    left = [index for index in range(len(GPUS)) if index != gone]
    kept = {key: value for key, value in machine.scenario.items() if not key.startswith("gpu.")}
    for new, old in enumerate(left):
        head = f"gpu.{old}."
        kept |= {
            f"gpu.{new}.{key[len(head):]}": value for key, value in machine.scenario.items()
                if key.startswith(head)}
    machine.scenario = kept | {"gpu.count": str(len(left))}


# ---- ports


@_fault
def port_down(machine: DemoMachine, rng: random.Random) -> None:
    """One InfiniBand port has no link: the cable is out, or the other end is off."""
    at = f"{hca_folder(rng.randrange(len(HCAS)))}/ports/1"
    machine.files[f"{at}/state"] = "1: DOWN\n"
    machine.files[f"{at}/phys_state"] = "3: Disabled\n"
    machine.files[f"{at}/rate"] = "10 Gb/sec (4X SDR)\n"


@_fault
def port_slow(machine: DemoMachine, rng: random.Random) -> None:
    """One InfiniBand port came up at HDR instead of NDR, half its rate."""
    machine.files[f"{hca_folder(rng.randrange(len(HCAS)))}/ports/1/rate"] = "200 Gb/sec (4X HDR)\n"


@_fault
def link_flapping(machine: DemoMachine, rng: random.Random) -> None:
    """One port loses its link three times between two looks, at `advance`, and is up at both."""


# ---- file systems


@_fault
def disk_full(machine: DemoMachine, rng: random.Random) -> None:
    """The root file system is full but for a few blocks."""
    machine.remount(machine.mount("/").used(space=0.997))


@_fault
def inodes_full(machine: DemoMachine, rng: random.Random) -> None:
    """/raid has space left, but hardly an inode: millions of small files."""
    machine.remount(machine.mount("/raid").used(inodes=0.996))


@_fault
def read_only(machine: DemoMachine, rng: random.Random) -> None:
    """The kernel has made the root file system read-only (errors=remount-ro)."""
    machine.remount(machine.mount("/").read_only())


# ---- what the kernel says


@_fault
def xid(machine: DemoMachine, rng: random.Random) -> None:
    """The driver reported Xid 79, a GPU that fell off the bus, some time after boot."""
    gpu = rng.choice(GPUS)[:-2]
    machine.say(f"NVRM: Xid (PCI:{gpu}): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.", 4)
    machine.say(f"NVRM: GPU {gpu}.0: GPU has fallen off the bus.", 4)


@_fault
def hardware_error(machine: DemoMachine, rng: random.Random) -> None:
    """The kernel logged a fatal machine check of a processor's memory controller."""
    machine.say("Disabling lock debugging due to kernel taint", 4)
    for line in (
        f"CPU {rng.randrange(224)}: Machine Check Exception: 5 Bank 14: bd80000000200179",
        "TSC 6f2f3d7b1c1 ADDR 3f2a9c0040 MISC 9001410ca02c86 PPIN 5d8a1c3e7b20f4c1",
        "PROCESSOR 0:806f8 TIME 1732170000 SOCKET 1 APIC 80 microcode 2b0004d0",
    ):
        machine.say(f"mce: [Hardware Error]: {line}", 0)


# ---- the host


@_fault
def kernel_drift(machine: DemoMachine, rng: random.Random) -> None:
    """The node runs another kernel than the rest of the fleet."""
    machine.files["/proc/sys/kernel/osrelease"] = "6.5.0-1014-nvidia\n"


@_fault
def driver_drift(machine: DemoMachine, rng: random.Random) -> None:
    """The node has loaded another NVIDIA driver than the rest of the fleet."""
    machine.files["/sys/module/nvidia/version"] = "550.54.15\n"
    machine.scenario |= {
        "driver.version": "550.54.15", "nvml.version": "12.550.54.15", "cuda.version": "12040"}
    machine.files[CDI] = cdi(len(GPUS), "550.54.15")
    machine.files |= dict.fromkeys(needed(len(GPUS), "550.54.15"), "")


@_fault
def clock_unsynchronised(machine: DemoMachine, rng: random.Random) -> None:
    """No time service disciplines the clock: adjtimex(2) gives TIME_ERROR, with STA_UNSYNC."""
    machine.clock |= {"state": 5, "status": 0x40, "offset": 0, "maxerror": 16_000_000, "esterror": 16_000_000}


@_fault
def swap_on(machine: DemoMachine, rng: random.Random) -> None:
    """An 8 GiB swap file is in use."""
    heading = machine.files["/proc/swaps"]
    used = "/swap.img                               file\t\t8388604\t\t0\t\t-2\n"
    machine.files["/proc/swaps"] = f"{heading}{used}"
    memory = machine.files["/proc/meminfo"]
    for name in ("SwapTotal", "SwapFree"):
        memory = memory.replace(f"{name + ':':<16}{0:>8} kB", f"{name + ':':<16}{8388604:>8} kB")
    machine.files["/proc/meminfo"] = memory


@_fault
def memory_missing(machine: DemoMachine, rng: random.Random) -> None:
    """One of 32 DIMMs of 64 GiB is gone."""
    machine.files["/proc/meminfo"] = meminfo(MEMORY_KB - DIMM_KB, rng)


# ---- tools


_CANNOT_CONNECT = ("Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon "
                   "running?")


@_fault
def docker_down(machine: DemoMachine, rng: random.Random) -> None:
    """The Docker daemon does not run: the client says so and ends with status 1."""
    machine.tools["docker"] = f"echo '{_CANNOT_CONNECT}' >&2\nexit 1\n"


@_fault
def docker_hangs(machine: DemoMachine, rng: random.Random) -> None:
    """The Docker daemon never answers; the client ignores a polite signal and has a child."""
    machine.tools["docker"] = "trap '' TERM HUP INT\nwhile :; do sleep 3600; done\n"


@_fault
def hostile_bytes(machine: DemoMachine, rng: random.Random) -> None:
    """What the node prints attacks whoever shows it: escape codes, titles, markup, NUL, bytes that are not
    UTF-8, bidirectional overrides, and imitations of our framing, from shell, kernel log and Docker."""
    attack = (b"\x1b[2J\x1b[31mowned\x1b]0;owned\x07 [bold red]owned[/] "
              b"[link=http://example.invalid]x[/link] \x00\xff\xfe\xc3( "
              b"\xe2\x80\xae\x9b31m {{7*7}} $(touch /tmp/owned) muster:0000000000000000:frame 4 ")
    machine.say(b"NVRM: Xid (PCI:" + rng.choice(GPUS)[:-2].encode() + b"): 48, pid=1, name=" + attack, 4)
    machine.say(b"muster:0000000000000000:login\n"
                b"muster:0000000000000000:python 3.11\n"
                b"muster:0000000000000000:frame 4 " + b"0" * 64, 6)
    printed = "".join(f"\\{byte:03o}" for byte in attack)
    machine.login = ("printf 'motd "
                     f"{printed}\\nmuster:0000000000000000:login\\nmuster:0000000000000000:frame 4 "
                     f"{'0' * 64}\\nnull'")
    machine.tools["docker"] = f"printf '{printed}\\n'\nprintf 'ERROR: {printed}\\n' >&2\nexit 1\n"
