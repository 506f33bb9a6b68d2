"""One simulated node as data: files, mounts, tools and raw GPU values; written out as a tree."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from pathlib import Path

RDONLY = 1      # ST_RDONLY of statvfs(3)
OWN = ".muster"     # inside a tree: the tables of the syscalls shim, the NVML scenario, what tools answer


class Access(Enum):
    """What a client meets at the node's address."""

    SSHD = "sshd"           # OpenSSH
    REFUSED = "refused"     # no one listens
    SILENT = "silent"       # the connection is accepted, and nothing is ever said


class HostKey(Enum):
    """What known_hosts holds for the node."""

    KNOWN = "known"
    CHANGED = "changed"     # a key of that type, but not the one it has
    UNKNOWN = "unknown"     # nothing


@dataclass(frozen=True)
class Mount:
    """One line of mountinfo (proc(5)), and what statvfs(3) answers there, in the order of its structure."""

    line: str
    figures: tuple[int, int, int, int, int, int, int, int, int, int]

    @property
    def point(self) -> str:
        """The mount point, escaped as in mountinfo."""
        return self.line.split(" ")[4]

    def used(self, *, space: float | None = None, inodes: float | None = None) -> Mount:
        """The same mount with this share (0 to 1) of its blocks or inodes in use."""
        bsize, frsize, blocks, bfree, bavail, files, ffree, favail, flag, namemax = self.figures
        if space is not None:
            reserved = bfree - bavail
            bfree = int(blocks * (1 - space))
            bavail = max(0, bfree - reserved)
        if inodes is not None:
            ffree = favail = int(files * (1 - inodes))
        return replace(
            self, figures=(bsize, frsize, blocks, bfree, bavail, files, ffree, favail, flag, namemax))

    def read_only(self) -> Mount:
        """The mount after the kernel made it read-only, by the super block's options and statvfs."""
        before, _, after = self.line.partition(" - ")
        fstype, source, options = after.split(" ")
        options = ",".join(["ro", *options.split(",")[1:]])
        bsize, frsize, blocks, bfree, bavail, files, ffree, favail, flag, namemax = self.figures
        return Mount(
            f"{before} - {fstype} {source} {options}",
            (bsize, frsize, blocks, bfree, bavail, files, ffree, favail, flag | RDONLY, namemax),
        )


@dataclass
class DemoMachine:
    """One node before it is written; paths are as on it. `files` holds contents, `blobs` those that are no
    text, `links` targets, `tools` scripts of /usr/bin, `scenario` and `clock` raw values of NVML and
    adjtimex(2), `log` the records of /dev/kmsg. `login` is shell text before the command of whoever logs in;
    `programs` are this machine's that the node has."""

    name: str
    files: dict[str, str] = field(default_factory=dict)
    blobs: dict[str, bytes] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)
    tools: dict[str, str] = field(default_factory=dict)
    mounts: list[Mount] = field(default_factory=list)
    scenario: dict[str, str] = field(default_factory=dict)
    clock: dict[str, int] = field(default_factory=dict)
    log: list[bytes] = field(default_factory=list)
    programs: set[str] = field(default_factory=lambda: {"python3", "cat", "sleep"})
    login: str = ""
    access: Access = Access.SSHD
    host_key: HostKey = HostKey.KNOWN

    def mount(self, point: str) -> Mount:
        """The mount at this mount point; raises KeyError."""
        for mount in self.mounts:
            if mount.point == point:
                return mount
        raise KeyError(point)

    def remount(self, changed: Mount) -> None:
        """Puts `changed` in the place of the mount at its mount point."""
        self.mounts[self.mounts.index(self.mount(changed.point))] = changed

    def say(self, text: bytes | str, priority: int = 6) -> None:
        """Adds a record to the kernel's log, 1.7 s after the last one; raw, as a broken module would."""
        sequence, stamp = 0, 0
        for record in reversed(self.log):
            words = record.partition(b";")[0].split(b",")
            sequence, stamp = int(words[1]) + 1, int(words[2]) + 1_700_000
            break
        text = text.encode() if isinstance(text, str) else text
        self.log.append(f"{priority},{sequence},{stamp},-;".encode() + text + b"\n")


def write(machine: DemoMachine, tree: Path, programs: dict[str, str]) -> None:
    """Writes the machine below `tree`, a new folder; `programs` says where this machine has them."""
    made: set[str] = set()

    def place(path: str) -> str:
        at = f"{tree}/{path.lstrip('/')}"
        folder = at.rpartition("/")[0]
        if folder not in made:
            Path(folder).mkdir(parents=True, exist_ok=True)
            made.add(folder)
        return at

    def put(path: str, data: bytes) -> str:
        at = place(path)
        with open(at, "wb") as file:    # over a thousand times for a node; a Path each takes as long again
            file.write(data)
        return at

    for path, content in machine.files.items():
        put(path, content.encode())
    for path, data in machine.blobs.items():
        put(path, data)
    for path, target in machine.links.items():
        Path(place(path)).symlink_to(target)
    for name, script in machine.tools.items():
        Path(put(f"/usr/bin/{name}", f"#!/bin/sh\n{script}".encode())).chmod(0o755)
    for name in machine.programs & programs.keys():
        Path(place(f"/usr/bin/{name}")).symlink_to(programs[name])
    for folder in ("/run", *(mount.point.replace("\\040", " ") for mount in machine.mounts)):
        place(f"{folder}/.")
    put("/proc/self/mountinfo", _lines(mount.line for mount in machine.mounts).encode())
    put("/dev/kmsg", b"".join(machine.log))
    put(f"/{OWN}/statvfs", _lines(" ".join((mount.point, *map(str, mount.figures)))
                                  for mount in machine.mounts).encode())
    put(f"/{OWN}/adjtimex", _lines(f"{name} = {value}" for name, value in machine.clock.items()).encode())
    put(f"/{OWN}/nvml", _lines(f"{name} = {value}" for name, value in machine.scenario.items()).encode())


def login_script(machine: DemoMachine, tree: Path, libraries: Path, syscalls: Path) -> str:
    """What sshd runs for a login: the process believes that it is on the node, and runs the command."""
    environment = {
        "MUSTER_ROOT": tree, "MUSTER_NVML_SCENARIO": tree / OWN / "nvml", "PATH": tree / "usr/bin",
        "LD_LIBRARY_PATH": libraries, "LD_PRELOAD": syscalls,
    }
    return _lines((
        "#!/bin/sh",
        *(f"export {name}={shlex.quote(str(value))}" for name, value in environment.items()),
        "cd /",
        *([machine.login.rstrip("\n")] if machine.login else []),
        'if [ -n "$SSH_ORIGINAL_COMMAND" ]; then exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"; fi',
        "exec /bin/sh",
    ))


def _lines(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)
