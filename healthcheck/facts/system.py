"""A node's installation and boot: distribution, kernel parameters, host name, and crash records of its
kernel.

os-release(5); proc(5) for /proc/cmdline and /proc/sys; the kernel's Documentation/ABI/testing/pstore and
systemd-pstore(8), which moves the records to /var/lib/systemd/pstore at boot.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from healthcheck.facts.base import Captures, fact
from healthcheck.facts.parsing import matching
from healthcheck.facts.values import Fact, Unmeasured, first_unread, partial_if
from healthcheck.model.probes import Probe, ProbeKind
from inventory.text import clean

OS_RELEASE = "/etc/os-release"
CMDLINE = "/proc/cmdline"
# Settings that change how a training job runs and do not depend on the machine's size, so that equal nodes
# have equal ones.
SYSCTLS = (
    "kernel.numa_balancing", "kernel.panic", "kernel.panic_on_oops", "kernel.pid_max",
    "kernel.randomize_va_space",
    "net.core.rmem_max", "net.core.wmem_max", "net.ipv4.tcp_mtu_probing", "vm.max_map_count",
    "vm.overcommit_memory", "vm.swappiness",
    "vm.zone_reclaim_mode",
)
SYSTEM = Probe("host.system", ProbeKind.FILES, paths=(OS_RELEASE, CMDLINE))
_SYSCTL_PATHS = {name: f"/proc/sys/{name.replace('.', '/')}" for name in SYSCTLS}
SYSCTL = Probe("host.sysctl", ProbeKind.FILES, paths=tuple(_SYSCTL_PATHS.values()))
# "(null)" where nothing keeps records across a reboot (kernel, fs/pstore/platform.c).
BACKEND = "/sys/module/pstore/parameters/backend"
# Only the existence of records matters, so a few bytes of each are enough.
CRASH = Probe("host.crash", ProbeKind.FILES, limit=4096, root=True, paths=(
    BACKEND, "/sys/fs/pstore/dmesg-*", "/var/lib/systemd/pstore/*/dmesg.txt",
    "/var/lib/systemd/pstore/dmesg-*",
))

# Parameters that differ from node to node, or only say where the kernel was loaded from.
_OWN = re.compile(
    r"(BOOT_IMAGE|root|rootflags|resume|initrd|ip|BOOTIF|rd\..*|crashkernel|cloud-config-url|hostname"
    r"|systemd\.hostname)")
# What installers and agents leave on the command line. Everyone on the node can read it there, but a finding
# goes further. The values of such names count as equal on all nodes.
_SECRET = re.compile(
    r"(?i)((?:password|passwd|passphrase|secret|token|credential|(?:api|auth|private|access)[_-]?key)[\w.-]*="
    r"|pw=|(?<![a-z])(?:pass|pwd|psk)=).+|(?<=://)[^/@\s]+(?=@)")
_HIDDEN = "(hidden)"
_WORD = re.compile(r'(?:[^\s"]|"[^"]*"?)+')
_QUOTED = re.compile(r'"([A-Za-z0-9 ._/()-]+)"')
_number, _backend = matching(r"-?[0-9]{1,20}"), matching(r"[A-Za-z0-9_-]{1,40}|\(null\)")


class System(Fact):
    """The distribution as it calls itself, and the kernel's parameters in their order, without those that are
    a node's own."""

    name: str
    os: str
    parameters: tuple[str, ...]


class Sysctls(Fact):
    """Kernel settings by name; one that this kernel does not have is left out."""

    name: str
    values: Mapping[str, str]


class HostName(Fact):
    """The node's own name, and the name that the inventory has for it."""

    name: str
    own: str
    inventory: str


class Crash(Fact):
    """The paths of kernel crash records that no one has removed yet. UNSUPPORTED on a machine that keeps
    none."""

    name: str
    records: tuple[str, ...]


def pretty_name(text: str) -> str:
    """PRETTY_NAME of os-release; raises ValueError where there is none."""
    for line in text.splitlines():
        key, equals, value = line.partition("=")
        if key == "PRETTY_NAME" and equals:
            quoted = _QUOTED.fullmatch(value)       # in nearly every distribution, and shlex is slow
            words = [quoted[1]] if quoted else shlex.split(value)
            if len(words) == 1 and words[0]:
                return clean(words[0], 100)
    raise ValueError(text)


def parameters(text: str) -> tuple[str, ...]:
    """The words of a kernel command line that are not a node's own, of which quotes hold blanks together;
    raises ValueError for none at all, or more lines than one."""
    words = _WORD.findall(text)
    if not words or "\n" in text:
        raise ValueError(text)
    return tuple([known for word in words if (known := _common(word)) is not None])


def _common(word: str) -> str | None:
    """The word as it is shown, without secrets; None for one that is a node's own."""
    if _OWN.fullmatch(word.partition("=")[0]) is not None:
        return None
    return clean(_SECRET.sub(lambda match: f"{match[1] or ''}{_HIDDEN}", word), 200)


@fact("system", SYSTEM)
def system(captures: Captures) -> System:
    """The distribution and the kernel's command line."""
    files = captures.files(SYSTEM)
    return System("system", os=files.read(OS_RELEASE, pretty_name),
                  parameters=files.read(CMDLINE, parameters))


@fact("sysctls", SYSCTL)
def sysctls(captures: Captures) -> Any:
    """The settings that this kernel has; Partial if one cannot be read, so that it is not taken for
    absent."""
    files = captures.files(SYSCTL)
    found: dict[str, Any] = {name: files.read(path, _number) for name, path in _SYSCTL_PATHS.items()
                             if files.has(path)}
    if not found:
        return Sysctls.absent("sysctl", Unmeasured("/proc/sys was not captured"))
    broken = first_unread(found.values())
    read = {name: value for name, value in found.items() if not isinstance(value, Unmeasured)}
    return partial_if(Sysctls("sysctl", MappingProxyType(read)), broken.reason if broken else None)


@fact("host_name", of_snapshot=True)
def host_name(captures: Captures) -> HostName:
    """The node's own name and its inventory name."""
    return HostName("host name", own=clean(captures.host.hostname, 100), inventory=captures.node)


@fact("crash", CRASH)
def crash(captures: Captures) -> Crash:
    """The crash records; Unmeasured where a folder may not be listed."""
    files = captures.files(CRASH)
    records = tuple(sorted(clean(path, 120) for path in files if path.rpartition("/")[2].startswith("dmesg")
                           and files.has(path)))
    if records:
        return Crash("kernel", records)
    backend = files.read(BACKEND, _backend) if files.has(BACKEND) else "(null)"
    if isinstance(backend, Unmeasured):
        return Crash.absent("kernel", backend)
    if unreadable := files.unreadable():
        return Crash.absent("kernel", Unmeasured(unreadable))
    return Crash("kernel", records) if backend != "(null)" else Crash.absent("kernel")
