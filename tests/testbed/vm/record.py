"""Writes recordings of kernel logs: boots each machine of `PLANS`, does to it what the plan says, and keeps
its records and what was done.

`python -m tests.testbed.vm.record FOLDER [NAME ...]`, as root; one machine at a time, about a minute each.
"""

from __future__ import annotations

import argparse
import gzip
import sys
import tempfile
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import yaml

from tests.testbed.vm import faults
from tests.testbed.vm.faults import Fault, on_mapper
from tests.testbed.vm.forge import FORGED
from tests.testbed.vm.hardware import Hardware
from tests.testbed.vm.images import Images, images, releases
from tests.testbed.vm.machine import Machine, machine, numbers

DISKS = ("nvme", "scsi", "sata", "virtio")
# What every machine is made to do once it is up: mount two disks, mirror two others, bring its ports up.
WORK = (
    "mkdir -p /mnt/nvme /mnt/virtio; mount /dev/nvme0n1 /mnt/nvme; mount $(blkid -t LABEL=data -o device | "
    "grep vd) /mnt/virtio",
    "for port in eth0 eth1 eth2; do ip link set $port up; done",
    "modprobe raid1; echo md0 > /sys/module/md_mod/parameters/new_array; cd /sys/block/md0/md; echo none > "
    "metadata_version; echo 2 > raid_disks",
    "cd /sys/block/md0/md; echo raid1 > level; n=0; for disk in $(lsblk -dno NAME,SERIAL | awk '$2 ~ /[AS]$/ "
    "{print $1}'); do "
    "cat /sys/block/$disk/dev > new_dev; echo 16000 > dev-$disk/size; echo $n > dev-$disk/slot; "
    "n=$((n+1)); done; "
    "echo 16000 > component_size; echo active > array_state; mkfs.ext4 -q /dev/md0; mkdir -p /mnt/md; mount "
    "/dev/md0 /mnt/md; cd /",
)


@dataclass(frozen=True)
class Plan:
    """One recording. `build` is which kernel: the newest of the series, or the one before; `words` go to its
    command line; `work` are commands that are run when all is well; with `console` the console is kept though
    the machine lives."""

    name: str
    hardware: Hardware
    faults: tuple[Fault, ...] = ()
    series: str = "6.1."
    build: int = 0
    words: tuple[str, ...] = ()
    work: tuple[str, ...] = ()
    console: bool = False


# Lines in the forms that their authors publish: NVIDIA's Xid and SXid documents, the sources of the drivers
# of Linux 6.1 and of Lustre 2.15.
PLANTED = (
    faults.plant("planted-xid",
                 "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off "
                 "the bus."),
    faults.plant("planted-sxid",
                 "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): 20034, Fatal, Link 32 LTSSM Fault Up"),
    faults.plant("planted-mismatch",
                 "NVRM: API mismatch: the client has the version 535.161.08, but\nNVRM: this kernel module "
                 "has the version 535.154.05.  "
                 "Please\nNVRM: make sure that this kernel module and all NVIDIA driver\nNVRM: components "
                 "have the same version."),
    faults.plant("planted-mlx5", "mlx5_core 0000:5e:00.0: device's health compromised - reached miss count"),
    faults.plant("planted-watchdog", "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 11 timed out"),
    faults.plant("planted-edac",
                 "EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#0 (channel:0 slot:0 "
                 "page:0x7f4a3c offset:0x0 grain:32)"),
    faults.plant("planted-nfs", "nfs: server storage-a not responding, timed out"),
    faults.plant("planted-lustre",
                 "LustreError: 11-0: scratch-OST0002-osc-ffff9d2c4b1e5000: operation ost_read to node "
                 "10.4.1.12@o2ib failed: rc = -107"),
    faults.plant("planted-novel",
                 "fabric sidecar: lane 3 retrained 41 times, giving up on equalisation preset 7"),
)
PLANS = (
    Plan("clean-1", Hardware(seed=1)),
    Plan("clean-2", Hardware(seed=2)),
    Plan("clean-3", Hardware(seed=3)),
    Plan("clean-4", Hardware(seed=4, memory=2048)),
    Plan("clean-5", Hardware(seed=5, cpus=4)),
    Plan("clean-6", Hardware(seed=6, memory=1536, cpus=3)),
    Plan("build2-1", Hardware(seed=11), build=1),
    Plan("build2-2", Hardware(seed=12, memory=2048), build=1),
    Plan("build2-3", Hardware(seed=13, cpus=4), build=1),
    Plan("series612-1", Hardware(seed=21), series="6.12."),
    Plan("series612-2", Hardware(seed=22, cpus=4), series="6.12."),
    Plan("planted", Hardware(seed=31), PLANTED),
    Plan("processes", Hardware(seed=32),
         (*faults.SIGNALS, faults.BACKTRACE, faults.BLOCKED, faults.OOM, faults.TASKS)),
    Plan("disks", Hardware(seed=33, bad=DISKS), (*faults.UNREADABLE, faults.MIRROR, faults.EXT4)),
    Plan("stalled", Hardware(seed=34), (faults.HUNG, faults.NVME), words=("nvme_core.io_timeout=6",)),
    Plan("bus", Hardware(seed=35),
         (faults.NMI, faults.CORRECTED, faults.NONFATAL, faults.FLAP, faults.USB_GONE, faults.SD_GONE,
          faults.NVME_GONE, faults.CORRECTABLE)),
    Plan("oops", Hardware(seed=37), (faults.NULL, faults.PROTECTION, faults.OPCODE)),
    Plan("soft-lockup", Hardware(seed=38), (faults.LOCKUP,),
         words=("rcupdate.rcu_cpu_stall_timeout=8", "watchdog_thresh=3")),
    Plan("panic", Hardware(seed=39, erst=True), (faults.PANIC,)),
    Plan("mce-fatal", Hardware(seed=40, erst=True), (faults.FATAL,)),
    Plan("hung-task", Hardware(seed=41), (faults.FROZEN,)),
    Plan("xfs-shutdown", Hardware(seed=42), (faults.XFS,), work=(on_mapper("xfs"),)),
    Plan("btrfs-shutdown", Hardware(seed=43), (faults.BTRFS,), work=(on_mapper("btrfs"),)),
    Plan("hard-lockup", Hardware(seed=44), (faults.HARD,),
         words=("rcupdate.rcu_cpu_stall_timeout=40", "watchdog_thresh=3")),
    Plan("forged", Hardware(seed=45), FORGED, console=True),
    Plan("forged-612", Hardware(seed=46), FORGED, series="6.12.", console=True),
)


def record(plan: Plan, target: Path) -> None:
    """Writes NAME.kmsg.gz (records as /dev/kmsg gave them), NAME.yaml, of a machine that dies
    NAME.console.gz, and, where its firmware stores what it said last (`erst`), NAME.pstore.gz."""
    release = releases(plan.series)[plan.build]
    made = images(release)
    with tempfile.TemporaryDirectory() as folder:
        with machine(Path(folder), made, plan.hardware, *plan.words) as up:
            for command in (*WORK, *plan.work):
                up.run(command)
            about: dict[str, object] = {
                "kernel": release, "version": up.run("uname -v").strip(),
                "command_line": up.run("cat /proc/cmdline").strip(),
                "boot_seconds": round(up.boot_seconds, 1),
                "hardware": {**asdict(plan.hardware), "bad": list(plan.hardware.bad)},
                "devices": [line.partition("qemu")[0].strip()
                            for line in up.run("cd /sys/bus/pci/devices; for one in *; do "
"echo $one $(cat $one/vendor $one/device $one/class); done").splitlines()]}
            up.settle()
            done, dead = [], False
            for fault in plan.faults:
                done.append(_suffered(up, fault))
                dead = dead or fault.dies
            records = (up.folder / "kmsg").read_bytes() if dead else up.records()
            console = (up.folder / "console").read_bytes()
        records = records[:records.rfind(b"\n") + 1]
        found = numbers(records)
        about |= {"records": len(found), "first": found[0], "last": found[-1], "faults": done}
        target.mkdir(parents=True, exist_ok=True)
        _write(target / f"{plan.name}.kmsg.gz", gzip.compress(records, mtime=0))
        if dead or plan.console:
            _write(target / f"{plan.name}.console.gz", gzip.compress(console, mtime=0))
        if plan.hardware.erst:
            _write(target / f"{plan.name}.pstore.gz",
                   gzip.compress(_stored(Path(folder), made, plan), mtime=0))
            about[
                "pstore"] = ("the text that systemd-pstore found in /sys/fs/pstore at the next boot, and "
                             "dmesg.txt that it made of it, each under a line ==> NAME <==")
        _write(target / f"{plan.name}.yaml", yaml.safe_dump(about, sort_keys=False, width=200).encode())


def _stored(folder: Path, made: Images, plan: Plan) -> bytes:
    """What the next boot of the machine finds of the last."""
    again = folder / "again"
    again.mkdir()
    (folder / "erst").rename(again / "erst")
    with machine(again, made, plan.hardware, *plan.words) as up:
        return up.run(
            "cd /var/lib/systemd/pstore; tail --verbose --lines=+1 $(find . -name 'dmesg*' | sort)").encode()


def _suffered(up: Machine, fault: Fault) -> dict[str, object]:
    """Makes the fault; returns what is written of it: the sequence numbers of all that was said from then on
    until it was quiet, of a machine that dies those that it still sent."""
    before = up.newest()
    faults.sick(up, fault)
    up.settle()
    records = (up.folder / "kmsg").read_bytes() if fault.dies else up.records()
    lines = [number for number in numbers(records) if number > before]
    if fault.dies:
        return {"name": fault.name, "how": fault.how, "console": True, "says": list(fault.says),
                "lines": lines}
    return {"name": fault.name, "how": fault.how, "planted": list(fault.planted), "says": list(fault.says),
            "lines": lines}


def _write(path: Path, data: bytes) -> None:
    half = path.with_name(path.name + ".tmp")
    half.write_bytes(data)
    half.rename(path)


def main(argv: Iterable[str]) -> None:
    parser = argparse.ArgumentParser(prog="record-kernel-logs",
                                     description="Boots virtual machines and records their kernel logs.")
    parser.add_argument("folder", type=Path,
                        help="where the recordings go, such as tests/recordings/kernel/vm")
    parser.add_argument("names", nargs="*",
                        help="which of them (default: all); one of " + " ".join(plan.name for plan in PLANS))
    asked = parser.parse_args(list(argv))
    if unknown := set(asked.names) - {plan.name for plan in PLANS}:
        parser.error(f"no such recording: {', '.join(sorted(unknown))}")
    for plan in PLANS:
        if not asked.names or plan.name in asked.names:
            record(plan, asked.folder)
            print(plan.name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
