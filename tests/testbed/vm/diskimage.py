"""What a small installer installs: the disk of a Debian that boots by its own boot loader, and the installer
itself, an initrd of busybox that fetches its seed, writes the disk and gives it to the seed's script.

Made once, kept in the testbed's cache; needs root. The system is that of `netimage`. Its boot loader is
syslinux, which can be put into a file without mounting it (syslinux(1), --offset); partitions: a FAT with
kernel and initrd, and the root.
"""

from __future__ import annotations

import hashlib
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path

from tests.testbed.kept import kept
from tests.testbed.require import require
from tests.testbed.vm.images import do, loaded, newc
from tests.testbed.vm.netimage import NetImage

TOOLS = ("syslinux", "mcopy", "mformat", "mke2fs", "busybox")
_MBR = Path("/usr/lib/syslinux/mbr/mbr.bin")
_MIB = 1 << 20
_BOOT_MIB, _ROOT_MIB = 64, 400
_ARGUMENTS = "console=ttyS0 net.ifnames=0 systemd.show_status=0 random.trust_cpu=on tsc=reliable lpj=10800000"
_LOADER = (f"DEFAULT linux\nPROMPT 0\nLABEL linux\nKERNEL vmlinuz\nINITRD initrd\nAPPEND root=/dev/vda2 "
           f"{_ARGUMENTS}\n")
_BEGIN = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /root /mnt /run /tmp /sbin /usr/bin /usr/sbin /etc
/bin/busybox --install -s
mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev
for module in $(cat /modules) ; do insmod /$module ; done
while [ ! -e /dev/vda ] ; do usleep 100000 ; done
"""
_BOOTS = _BEGIN + """
mount -t ext4 -o rw /dev/vda2 /root
umount /proc /sys
mount --move /dev /root/dev
exec switch_root /root /sbin/init
"""
_INSTALLS = _BEGIN + """
exec >/dev/console 2>&1
echo testbed: the installer runs
ip link set eth0 up
udhcpc -i eth0 -s /udhcpc -q -n -t 20
for word in $(cat /proc/cmdline) ; do case $word in muster.seed=*) address=${word#muster.seed=} ;; esac ; done
fail() {
    wget -q -O /dev/null "${address}failed?why=$1"
    echo "testbed: failed: $1"
    poweroff -f
}
wget -q -O /run/seed "${address}seed" || fail seed
. /run/seed
echo "testbed: installs $node on $disk"
wget -q -O - "${address%/seed/*}/files/disk" | dd of=$disk bs=1M || fail disk
blockdev --rereadpt $disk || sleep 1
mount -t ext4 ${disk}2 /mnt || fail mount
echo $node > /mnt/etc/hostname
echo "${disk}2 / ext4 defaults 0 1" > /mnt/etc/fstab
mkdir -p /mnt/etc/systemd/system/hostkey.service.d
printf '[Unit]\\nConditionPathExists=!/etc/ssh/ssh_host_ed25519_key\\n' > /mnt/etc/systemd/system/hostkey.service.d/once.conf
wget -q -O /run/firstboot "${seed}firstboot" || fail firstboot
sh /run/firstboot /mnt || fail firstboot
umount /mnt
sync
echo testbed: installed
reboot -f
"""  # noqa: E501
_LEASE = """#!/bin/busybox sh
[ "$1" = bound ] || exit 0
ifconfig $interface $ip netmask $subnet
"""
_MODULES = ("virtio_pci", "virtio_blk", "virtio_net", "virtio_rng", "ext4", "crc32c_generic")


@dataclass(frozen=True)
class Installable:
    """The installer's kernel and initrd, and the disk that it writes."""

    kernel: Path
    initrd: Path
    disk: Path


def require_installer() -> None:
    """What making these needs, beside what `netimage` does."""
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    require(not missing and _MBR.is_file(),
            f"no {', '.join(missing) or _MBR}: scripts/test --slow installs them")


def installable(image: NetImage) -> Installable:
    """Made from a network image if they are not there (half a minute)."""
    key = hashlib.sha256(repr((image.initrd.parent.name, _BOOT_MIB, _ROOT_MIB, _LOADER, _BOOTS, _INSTALLS,
                               _LEASE, _MODULES)).encode()).hexdigest()[:8]

    def make(half: Path) -> None:
        half.mkdir()
        (half / "initrd").write_bytes(_initrd(image, _INSTALLS))
        (half / "initrd-system").write_bytes(_initrd(image, _BOOTS))
        _disk(half, image)

    made = kept(f"disk-{image.release}-{key}", make)
    return Installable(image.kernel, made / "initrd", made / "disk")


def _initrd(image: NetImage, init: str) -> bytes:
    modules = image.tree / "usr/lib/modules" / image.release
    files = [("init", init.encode(), 0o755), ("udhcpc", _LEASE.encode(), 0o755),
             ("bin/busybox", Path(str(shutil.which("busybox"))).read_bytes(), 0o755)]
    names = []
    for path in loaded(modules, _MODULES):
        plain = do("xz", "--decompress", "--stdout",
                   str(modules / path)) if path.endswith(".xz") else (modules / path).read_bytes()
        names.append(Path(path.removesuffix(".xz")).name)
        files.append((names[-1], plain, 0o644))
    return newc([*files, ("modules", "\n".join(names).encode(), 0o644)])


def _disk(folder: Path, image: NetImage) -> None:
    disk, boot, root = folder / "disk", _MIB, (1 + _BOOT_MIB) * _MIB
    with disk.open("wb") as file:
        file.truncate(root + _ROOT_MIB * _MIB)
        file.write(_MBR.read_bytes()[:440])
        file.seek(446)
        for active, kind, at, size in ((0x80, 0x0C, boot, _BOOT_MIB), (0, 0x83, root, _ROOT_MIB)):
            file.write(struct.pack("<B3sB3sII", active, b"\xfe\xff\xff", kind, b"\xfe\xff\xff", at // 512,
                                   size * _MIB // 512))
        file.seek(510)
        file.write(b"\x55\xaa")
    fat = f"{disk}@@{boot}"
    # The number of sectors before the partition is for the boot loader, which reads it from the FAT.
    do("mformat", "-i", fat, "-T", str(_BOOT_MIB * _MIB // 512), "-H", str(boot // 512), "-h", "64", "-s",
       "32", "-F", "::")
    (folder / "syslinux.cfg").write_text(_LOADER)
    for source, name in ((image.kernel, "vmlinuz"), (folder / "initrd-system", "initrd"),
                         (folder / "syslinux.cfg", "syslinux.cfg")):
        do("mcopy", "-i", fat, str(source), f"::{name}")
    do("syslinux", "--install", "--offset", str(boot), str(disk))
    do("mke2fs", "-q", "-F", "-t", "ext4", "-O", "^metadata_csum_seed,^orphan_file", "-E", f"offset={root}",
       "-d", str(image.tree), str(disk), f"{_ROOT_MIB}M")
