"""What a virtual machine is made of: processors, memory, disks and ports; a seed decides their order on the
bus, serials and addresses."""

from __future__ import annotations

import random
import subprocess
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Hardware:
    """A q35 machine with virtio, NVMe, SCSI and ATA disks, three kinds of ports, a BMC, USB and a watchdog.

    Two machines that differ in nothing but their seed have the same devices at other addresses, with other
    serials and MACs. `bad` names disks (nvme, scsi, sata, virtio) of which the sector BAD cannot be read.
    With `erst` its firmware stores what a dying kernel wants to be read after the next boot (ACPI's Error
    Record Serialization Table), in the file `erst` of the folder.
    """

    seed: int = 1
    cpus: int = 2
    memory: int = 1024
    processor: str = "max"
    bad: tuple[str, ...] = ()
    erst: bool = False

    def argv(self, folder: Path, root: Path) -> list[str]:
        """The words for qemu; the disks lie in `folder`."""
        chance = random.Random(self.seed)
        serial = f"{chance.randrange(16 ** 8):08X}".__add__
        argv = ["-machine", "q35", "-accel", "tcg,thread=multi", "-cpu", self.processor,
                "-smp", str(self.cpus), "-m", str(self.memory), "-nodefaults", "-no-user-config",
                "-global", "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off", "-uuid",
                f"00000000-0000-4000-8000-{chance.randrange(16 ** 12):012x}"]
        for name in ("virtio", "nvme", "scsi", "sata", "usb"):
            argv += self._disk(folder, name)
        argv += ["-drive", f"if=none,id=root,file={root},format=raw,snapshot=on,cache=unsafe"]
        mac = [f"52:54:00:{chance.randrange(256):02x}:{chance.randrange(256):02x}:{number:02x}"
               for number in range(3)]
        for name in ("port0", "port1", "port2"):
            argv += ["-netdev", f"user,id={name},restrict=on"]
        slots = list(range(2, 16))
        chance.shuffle(slots)
        # Behind root ports, as in a server; the disk with the root file system is first whatever its address.
        ported = [f"virtio-blk-pci,id=dev-root,drive=root,serial={serial('R')}",
                  f"nvme,id=dev-nvme,drive=nvme,serial={serial('N')}",
                  f"e1000e,id=dev-port0,netdev=port0,mac={mac[0]}", "virtio-scsi-pci,id=dev-scsi"]
        plain = [f"virtio-net-pci,id=dev-port1,netdev=port1,mac={mac[1]}",
                 f"e1000,id=dev-port2,netdev=port2,mac={mac[2]}",
                 f"virtio-blk-pci,id=dev-virtio,drive=virtio,serial={serial('V')}", "qemu-xhci,id=usb",
                 "i6300esb", "virtio-rng-pci"]
        for number, device in enumerate(ported):
            argv += ["-device",
                     f"pcie-root-port,id=slot{number},slot={number + 1},chassis=1,addr={slots[number]:#x}",
                     "-device", f"{device},bus=slot{number}"]
        for device, slot in zip(plain, slots[len(ported):], strict=False):
            argv += ["-device", f"{device},bus=pcie.0,addr={slot:#x}"]
        if self.erst:
            argv += ["-object", f"memory-backend-file,id=erst,mem-path={folder}/erst,size=64K,share=on",
                     "-device", "acpi-erst,memdev=erst"]
        return [*argv,
                "-device",
                f"scsi-hd,id=dev-sd,drive=scsi,bus=dev-scsi.0,serial={serial('S')},rerror=report,"
                f"werror=report",
                "-device",
                f"ide-hd,id=dev-sata,drive=sata,bus=ide.0,serial={serial('A')},rerror=report,werror=report",
                "-device", "usb-storage,id=dev-usb,bus=usb.0,drive=usb", "-device", "ipmi-bmc-sim,id=bmc",
                "-device", "isa-ipmi-kcs,bmc=bmc"]

    def _disk(self, folder: Path, name: str) -> list[str]:
        path = folder / f"{name}.img"
        if name in ("nvme", "virtio"):
            subprocess.run(["mke2fs", "-q", "-F", "-t", "ext4", "-L", "data", str(path), "64M"], check=True,
                           capture_output=True)
        else:
            path.touch()
            with path.open("r+b") as file:
                file.truncate(64 << 20)
        layers = (f"driver=raw,node-name={name},file.driver=blkdebug,file.image.driver=file,"
                  f"file.image.filename={path}")
        if name in self.bad:
            layers += (f",file.inject-error.0.event=none,file.inject-error.0.iotype=read,"
                       f"file.inject-error.0.errno=5,file.inject-error.0.sector={BAD}")
        return ["-blockdev", layers]


BAD = 40960     # the sector, of 512 bytes, of a bad disk that cannot be read
