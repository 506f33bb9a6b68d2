"""What a virtual machine boots from: a kernel of Debian's, an initrd of ours, and a Debian root disk; made
once, kept in the testbed's cache.

Needs root, for mmdebstrap makes files of other owners. The initrd is a newc archive
(Documentation/driver-api/early-userspace/buffer-format.rst).
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.kept import kept
from tests.testbed.require import require

TOOLS = ("qemu-system-x86_64", "mmdebstrap", "mke2fs", "busybox", "depmod", "gcc")
_PACKAGES = ("systemd", "systemd-sysv", "udev", "kmod", "dbus", "e2fsprogs", "iproute2", "xfsprogs",
             "btrfs-progs", "dmsetup",
             "python3", "nfs-kernel-server", "libteam-utils")
_OPTIONS = ("--variant=minbase", "--aptopt=Acquire::Languages \"none\"",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
            "--include=" + ",".join(_PACKAGES))
_INITRD_MODULES = ("virtio_pci", "virtio_blk", "ext4")
_INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs dev /dev
/bin/busybox stty -F /dev/ttyS2 raw -echo
( while : ; do /bin/busybox dd if=/dev/kmsg of=/dev/ttyS2 bs=8192 2>/dev/null ; done ) &
for module in $(/bin/busybox cat /modules) ; do /bin/busybox insmod /$module ; done
while ! /bin/busybox findfs LABEL=root >/found 2>/dev/null ; do /bin/busybox usleep 100000 ; done
/bin/busybox mount -t ext4 -o ro $(/bin/busybox cat /found) /root
for folder in proc sys ; do /bin/busybox umount /$folder ; done
/bin/busybox mount --move /dev /root/dev
exec /bin/busybox switch_root /root /sbin/init
"""
_SHELL = """[Unit]
Description=Shell of the testbed
[Service]
ExecStart=/bin/sh -c 'stty -F /dev/ttyS1 raw -echo; exec /bin/sh </dev/ttyS1 >/dev/ttyS1 2>/dev/null'
TimeoutStopSec=1
OOMPolicy=continue
[Install]
WantedBy=multi-user.target
"""
# What a training process dies of, by the processor's exception.
_CRASHES = {"segfault": "xor %eax,%eax; mov %eax,(%rax)",
            "protection": "movabs $0x8000000000000000,%rax; mov (%rax),%rax",
            "undefined": "ud2", "divide": "xor %ecx,%ecx; div %ecx"}
_MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
           "fstrim.timer", "serial-getty@ttyS0.service",
           "nfs-server.service", "rpcbind.service", "rpcbind.socket", "rpc-statd.service",
           "nfs-blkmap.service", "teamd@.service")


@dataclass(frozen=True)
class Images:
    """What qemu is given: kernel and initrd as files, and the root disk, which is never written to."""

    release: str
    kernel: Path
    initrd: Path
    root: Path


def require_vm() -> None:
    """What machines of this package need."""
    require(os.geteuid() == 0, "only root can make the root disk of a virtual machine")
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    require(not missing, f"no {', '.join(missing)} on this machine: scripts/test --slow installs them")


def releases(series: str) -> list[str]:
    """The releases of Debian's generic kernel that apt offers and that begin with `series` ("6.1."), newest
    first."""
    found = subprocess.run(["apt-cache", "search", "--names-only",
                            rf"^linux-image-{re.escape(series)}.*[0-9](\+deb[0-9]+)?-amd64$"],
                           capture_output=True, text=True, check=True).stdout
    names = [line.split()[0].removeprefix("linux-image-") for line in found.splitlines()]
    return sorted(names, key=lambda name: [int(number) for number in re.findall(r"\d+", name)], reverse=True)


def images(release: str, packages: Sequence[str] = ()) -> Images:
    """The images for one kernel release, with these packages on the root disk beside the usual ones; made if
    they are not there (a minute and a half for the first, 20 s for each other)."""
    options = (*_OPTIONS[:-1], ",".join((_OPTIONS[-1], *packages)))
    key = hashlib.sha256(repr((options, _INITRD_MODULES, _INIT, _SHELL, _CRASHES,
                               _MASKED)).encode()).hexdigest()[:8]

    def root(half: Path) -> None:
        do("mmdebstrap", *options, "bookworm", str(half))

    def make(half: Path) -> None:
        half.mkdir()
        _make(half, release, kept(f"vm-root-{hashlib.sha256(repr(options).encode()).hexdigest()[:8]}", root))

    made = kept(f"vm-{release}-{key}", make)
    return Images(release, made / "vmlinuz", made / "initrd", made / "root.img")


def _make(folder: Path, release: str, rootfs: Path) -> None:
    tree = folder / "tree"
    do("cp", "--archive", str(rootfs), str(tree))
    modules = kernel(folder, release)
    _initrd(folder / "initrd", modules)
    (tree / "usr/lib/modules").mkdir(exist_ok=True)
    modules.rename(tree / "usr/lib/modules" / release)
    _settle(tree)
    do("mke2fs", "-q", "-t", "ext4", "-L", "root", "-d", str(tree), str(folder / "root.img"), "2000M")
    for rest in ("package", "tree"):
        shutil.rmtree(folder / rest)


def kernel(folder: Path, release: str) -> Path:
    """Puts Debian's kernel into `folder` as `vmlinuz`; returns where in it its modules lie, for as long as
    `package` there is kept."""
    do("apt-get", "-qq", "-o", "APT::Sandbox::User=root", "download", f"linux-image-{release}", cwd=folder)
    package = next(folder.glob("linux-image-*.deb"))
    do("dpkg-deb", "--extract", str(package), str(folder / "package"))
    package.unlink()
    (folder / "package/boot" / f"vmlinuz-{release}").rename(folder / "vmlinuz")
    do("depmod", "--basedir", str(folder / "package"), release)
    return folder / "package/lib/modules" / release


def _settle(tree: Path) -> None:
    """What the root disk has beside Debian's files: a name, a shell on the second serial port, and programs
    that die."""
    (tree / "etc/hostname").write_text("node\n")
    (tree / "etc/fstab").write_text("LABEL=root / ext4 errors=remount-ro 0 1\n")
    (tree / "etc/machine-id").write_text("b0a6c1f8d6e14d0f9a3e5c7b2d480f11\n")
    units = tree / "etc/systemd/system"
    for unit in _MASKED:
        (units / unit).symlink_to("/dev/null")
    (units / "shell.service").write_text(_SHELL)
    (units / "multi-user.target.wants").mkdir(exist_ok=True)
    (units / "multi-user.target.wants/shell.service").symlink_to("../shell.service")
    for name, code in _CRASHES.items():
        do("gcc", "-nostdlib", "-static", "-x", "assembler", "-o",
           str(tree / "usr/local/bin" / f"train-{name}"), "-",
            given=f".globl _start\n_start: {code}\n")


def _initrd(target: Path, modules: Path) -> None:
    """Writes the initrd: busybox, the modules that reach the root disk, in an order in which they can be
    loaded, and `init`."""
    # Software that a module asks for by alias, not by symbol: ext4 checks its blocks with crc32c.
    order = loaded(modules, (*_INITRD_MODULES, "crc32c_generic"))
    busybox = Path(str(shutil.which("busybox")))
    files = [("init", _INIT.encode(), 0o755), ("bin/busybox", busybox.read_bytes(), 0o755)]
    for path in order:
        plain = do("xz", "--decompress", "--stdout",
                   str(modules / path)) if path.endswith(".xz") else (modules / path).read_bytes()
        files.append((Path(path.removesuffix(".xz")).name, plain, 0o644))
    files.append(("modules",
                  "\n".join(Path(path.removesuffix(".xz")).name for path in order).encode(), 0o644))
    target.write_bytes(newc(files))


def loaded(modules: Path, names: Iterable[str]) -> list[str]:
    """The files of these modules and of all that they need, in an order in which they can be loaded."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    order: list[str] = []
    for path in (path for name in names for path in needs if re.search(rf"/{name}\.ko(\.xz)?$", path)):
        # modules.dep names the nearest first.
        order.extend(one for one in (*reversed(needs[path]), path) if one not in order)
    return order


def newc(files: Iterable[tuple[str, bytes, int]], folders: Iterable[str] = ("bin",)) -> bytes:
    """An archive of these folders, and regular files (name, content, mode)."""
    out = bytearray()
    entries = [*((name, b"", 0o040755) for name in folders),
               *((name, data, 0o100000 | mode) for name, data, mode in files),
               ("TRAILER!!!", b"", 0)]
    for number, (name, data, mode) in enumerate(entries, 1):
        fields = (number, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name) + 1, 0)
        out += b"070701" + b"".join(b"%08X" % field for field in fields) + name.encode() + b"\0"
        out += b"\0" * (-len(out) % 4) + data
        out += b"\0" * (-len(out) % 4)
    return bytes(out)


def do(*argv: str, cwd: Path | None = None, given: str = "") -> bytes:
    """What a command prints; it must end well."""
    done = subprocess.run(argv, input=given.encode(), capture_output=True, check=False, cwd=cwd)
    assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr[-400:].decode(errors='replace')}"
    return done.stdout
