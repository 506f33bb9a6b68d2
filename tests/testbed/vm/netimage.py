"""What a machine without a disk boots over the network: a kernel of Debian's, and as its initrd a whole
Debian that lives in memory.

Made once, kept in the testbed's cache; needs root. The tree that the initrd is made of is kept beside it: its
programs serve the network.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.kept import kept
from tests.testbed.vm.images import do, kernel, loaded, newc

_PACKAGES = ("systemd", "systemd-sysv", "dbus", "udev", "kmod", "iproute2", "openssh-server", "python3",
             "chrony", "libnss-myhostname")
_OPTIONS = ("--variant=minbase", "--aptopt=Acquire::Languages \"none\"",
            "--dpkgopt=path-exclude=/usr/share/doc/*",
            "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*",
            "--include=" + ",".join(_PACKAGES))
_MODULES = ("virtio_pci", "virtio_net", "virtio_blk", "virtio_rng", "autofs4", "binfmt_misc", "ext4",
            "crc32c_generic")
_MASKED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
           "e2scrub_reap.service", "fstrim.timer",
           "serial-getty@ttyS0.service", "getty@tty1.service", "systemd-networkd-wait-online.service")
_NETWORK = ("[Match]\nType=ether\n[Network]\nDHCP=ipv4\nLinkLocalAddressing=no\nIPv6AcceptRA=no\n[DHCPv4]\n"
            "ClientIdentifier=mac\nUseHostname=no\n")
# Its own SSH host key is made when it comes up, as by an installer: no one knows it before.
_KEYS = """[Unit]
Description=SSH host key
Before=ssh.service
[Service]
Type=oneshot
ExecStart=/usr/bin/ssh-keygen -q -t ed25519 -N "" -C "" -f /etc/ssh/ssh_host_ed25519_key
[Install]
RequiredBy=ssh.service
"""
# Its disk is for data, and is formatted in its first boot.
_DISKS = "/dev/vda /scratch ext4 x-systemd.makefs,nofail 0 0\n"
_TIME = "makestep 1 -1\nrtcsync\nsourcedir /etc/chrony/sources.d\ndriftfile /var/lib/chrony/chrony.drift\n"


@dataclass(frozen=True)
class NetImage:
    """What the machine is sent, and the tree of the same system."""

    release: str
    kernel: Path
    initrd: Path
    tree: Path


def netimage(release: str) -> NetImage:
    """The image for one kernel release; made if it is not there (about a minute)."""
    key = hashlib.sha256(repr((_OPTIONS, _MODULES, _MASKED, _NETWORK, _KEYS, _DISKS,
                               _TIME)).encode()).hexdigest()[:8]
    made = kept(f"net-{release}-{key}", lambda half: _make(half, release))
    return NetImage(release, made / "vmlinuz", made / "initrd", made / "tree")


def own(files: Mapping[str, str]) -> bytes:
    """An archive that is unpacked over the image: what one machine, or one site, has of its own. Its folders
    must be there."""
    return newc([(name, text.encode(), 0o644) for name, text in files.items()], folders=())


def _make(folder: Path, release: str) -> None:
    folder.mkdir()
    tree = folder / "tree"
    do("mmdebstrap", *_OPTIONS, "bookworm", str(tree))
    modules = kernel(folder, release)
    target = tree / "usr/lib/modules" / release
    target.mkdir(parents=True)
    for name in (*loaded(modules, _MODULES), "modules.order", "modules.builtin", "modules.builtin.modinfo"):
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (modules / name).rename(target / name)
    shutil.rmtree(folder / "package")
    do("depmod", "--basedir", str(tree / "usr"), release)
    _settle(tree)
    packed = ("find . | LC_ALL=C sort | cpio --quiet --create --format=newc | zstd --quiet -12 "
              "--threads=2 -o "
              "../initrd")
    subprocess.run(["sh", "-c", packed], cwd=tree, check=True)


def _settle(tree: Path) -> None:
    (tree / "etc/hostname").write_text("installed\n")
    (tree / "etc/machine-id").write_text("")
    (tree / "etc/systemd/network/lan.network").write_text(_NETWORK)
    (tree / "etc/fstab").write_text(_DISKS)
    (tree / "etc/chrony/chrony.conf").write_text(_TIME)
    (tree / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
    for key in (tree / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    (tree / "etc/ssh/sshd_config.d/here.conf").write_text("HostKey /etc/ssh/ssh_host_ed25519_key\n")
    units = tree / "etc/systemd/system"
    for unit in _MASKED:
        (units / unit).symlink_to("/dev/null")
    (units / "hostkey.service").write_text(_KEYS)
    do("systemctl", f"--root={tree}", "enable", "hostkey.service", "systemd-networkd.service")
