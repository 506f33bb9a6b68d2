"""What is done to a virtual machine, and what its kernel says of it: real faults of real drivers, and lines
that are only planted.

`mce`, `nmi`, `pcie_aer_inject_error`, `set_link`, `device_del` and `block_set_io_throttle` are commands of
qemu's monitor; the letters of sysrq are those of Documentation/admin-guide/sysrq.rst. The kernel's own bugs
are made by writing machine code over a system call.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tests.testbed.vm.hardware import BAD
from tests.testbed.vm.machine import Machine

Act = Callable[[Machine], None]


@dataclass(frozen=True)
class Fault:
    """One fault. `how` says what was done, for a reader. `says` is what the kernel's log holds afterwards
    (regular expressions); of a machine that dies (`dies`) the console holds it. `planted` are lines that only
    were written to /dev/kmsg."""

    name: str
    how: str
    act: Act
    says: tuple[str, ...]
    dies: bool = False
    planted: tuple[str, ...] = ()


def sick(up: Machine, fault: Fault) -> None:
    """Makes the fault, and returns when the kernel has said what it says of it."""
    where = "console" if fault.dies else "kmsg"
    since = up.size(where)
    fault.act(up)
    for text in fault.says:
        up.said(text, 120, where, since)


def shell(command: str) -> Act:
    return lambda up: up.send(command)


def monitor(*lines: str) -> Act:
    def act(up: Machine) -> None:
        for line in lines:
            answer = up.monitor(line)
            assert not answer.lower().startswith("error"), f"{line}: {answer}"
    return act


def _planted(up: Machine, lines: tuple[str, ...]) -> None:
    for line in lines:
        up.run(f"cat > /dev/kmsg <<'END'\n<3>{line}\nEND")


def plant(name: str, *lines: str) -> Fault:
    """Lines that a program of the machine writes to /dev/kmsg with the priority of an error."""
    return Fault(name, "written to /dev/kmsg with priority 3", partial(_planted, lines=lines), (),
                 planted=lines)


def _disk(serial: str) -> str:
    return f"/dev/$(lsblk --nodeps --noheadings --output NAME,SERIAL | awk '$2 ~ /{serial}$/ {{print $1}}')"


def _unreadable(serial: str) -> Act:
    return shell(f"dd if={_disk(serial)} of=/dev/null bs=4096 skip={BAD // 8} count=1 iflag=direct")


def _tlp(up: Machine) -> None:
    """As tools/aer-inject does: struct aer_error_inj of drivers/pci/pcie/aer_inject.c, to the device of the
    port behind a root port."""
    address = up.run("modprobe aer_inject; ls /sys/bus/pci/drivers/e1000e | grep ^0000").split()[-1]
    bus, device, function = int(address[5:7], 16), int(address[8:10], 16), int(address[11:])
    packet = struct.pack("<3Bx7I", bus, device, function, 0, 0x40, 0, 0, 0, 0, 0)
    up.run("printf '" + "".join(f"\\{byte:03o}" for byte in packet) + "' > /dev/aer_inject")


def _bug(symbol: str, code: str, caller: str) -> Act:
    def act(up: Machine) -> None:
        up.poke(symbol, code)
        up.send(caller)
    return act


def _stalled(device: str, command: str, complaint: str) -> Act:
    """A disk that stops answering: of the requests of a command all but the first wait. It answers again once
    the kernel has complained: qemu itself hangs in the reset of a disk with requests that wait. `device` is
    the disk's part that qemu throttles."""
    def act(up: Machine) -> None:
        up.run("echo 8 > /proc/sys/kernel/hung_task_timeout_secs")
        monitor(f"block_set_io_throttle {device} 64 0 0 0 0 0")(up)
        since = up.size()
        up.send(command)
        up.said(complaint, 120, since=since)
        monitor(f"block_set_io_throttle {device} 0 0 0 0 0 0")(up)
    return act


def _frozen(up: Machine) -> None:
    """Its file system is frozen, as for a snapshot, while a process writes; it goes on once the kernel has
    complained."""
    up.run(
        "echo 8 > /proc/sys/kernel/hung_task_timeout_secs; cp /usr/bin/dd /run/train; fsfreeze --freeze "
        "/mnt/virtio")
    since = up.size()
    up.send("/run/train if=/dev/zero of=/mnt/virtio/checkpoint bs=4096 count=1")
    up.said("blocked for more than", 120, since=since)
    up.run("fsfreeze --unfreeze /mnt/virtio")


def on_mapper(kind: str) -> str:
    """A command that makes a file system of this kind on a mapped disk, which is named like it, mounts it,
    and writes to it."""
    return (
        f"truncate --size=400M /var/tmp/{kind}; loop=$(losetup --find --show /var/tmp/{kind}); mkfs.{kind} "
        f"-q $loop; "
        f"echo 0 $(blockdev --getsz $loop) linear $loop 0 | dmsetup create {kind}; mkdir -p /mnt/{kind}; "
        f"mount /dev/mapper/{kind} /mnt/{kind}; "
        f"echo 1 > /mnt/{kind}/step; sync")


def _mapper_fails(kind: str) -> Act:
    """From now on every read and write of the mapped disk is an error; what was written before is on its way
    to it."""
    return shell(
        f"dmsetup suspend --noflush --nolockfs {kind}; echo 0 $(blockdev --getsz /dev/mapper/{kind}) error | "
        f"dmsetup load {kind}; "
        f"dmsetup resume {kind}; dd if=/dev/zero of=/mnt/{kind}/checkpoint bs=1M count=20; sync; sleep 2; "
        f"touch /mnt/{kind}/x")


def _hard(up: Machine) -> None:
    """Processor 0 loops with its interrupts off. What looks at it is the kernel's own watchdog, but the
    monitor's NMIs call it: qemu without KVM has no counter that overflows. Only processor 0 gets these NMIs.
    The watchdog passes over those that come within 2.4 s of the one before (with watchdog_thresh=3), over the
    first after a message, and compares the next two."""
    watchdog = int(up.run("grep -w watchdog_overflow_callback /proc/kallsyms").split()[0], 16)
    # unknown_nmi_error(reason, regs): mov %rsi,%rdx; lea -0x800(%rsp),%rdi (in place of an event); mov
    # $watchdog,%rax; jmp *%rax
    up.poke("unknown_nmi_error", "4889f2488dbc2400f8ffff48b8" + watchdog.to_bytes(8, "little").hex() + "ffe0")
    up.poke("__x64_sys_sethostname", "faebfe")
    up.send("taskset --cpu-list 0 hostname x")
    for _ in range(6):
        time.sleep(4)
        monitor("nmi")(up)


def _flap(up: Machine) -> None:
    since = up.size()
    monitor("set_link dev-port2 off")(up)
    up.said("Link is Down", 120, since=since)
    monitor("set_link dev-port2 on")(up)


def _drawn(up: Machine) -> None:
    up.send("dd if=/dev/nvme0n1 of=/dev/null bs=4096 iflag=direct")
    monitor("device_del dev-nvme")(up)


def _mirror_fails(up: Machine) -> None:
    up.run("echo faulty > /sys/block/md0/md/dev-$(basename $(readlink /sys/block/md0/md/rd1/block))/state")


def _corrected(up: Machine) -> None:
    """Banks are polled: every two seconds from here on."""
    up.run("for cpu in /sys/devices/system/machinecheck/machinecheck*; do echo 2 > $cpu/check_interval; done")
    monitor("mce 1 4 0x9c00000000010137 0x0 0x3f8a4c40 0x0")(up)


SIGNALS = tuple(
    Fault(f"process-{name}", f"a process that runs into {text}",
          shell(f"/usr/local/bin/train-{name}"), (said,))
    for name, text, said in (("segfault", "address 0", r"train-segfault\[\d+\]: segfault at 0 ip "),
                             ("protection", "a non-canonical address",
                              r"train-protectio?n?\[\d+\] general protection fault"),
                             ("undefined", "an undefined instruction", r"trap invalid opcode"),
                             ("divide", "a division by zero", r"trap divide error")))
OOM = Fault("oom", "tail /dev/zero, until memory is spent", shell("tail /dev/zero"),
            ("invoked oom-killer", "Out of memory: Killed process"))
BACKTRACE = Fault("sysrq-l", "backtraces of all processors, by sysrq l",
                  shell("echo l > /proc/sysrq-trigger"), ("NMI backtrace for cpu", "Call Trace"))
BLOCKED = Fault("sysrq-w", "blocked tasks, by sysrq w", shell("echo w > /proc/sysrq-trigger"),
                ("Show Blocked State",))
TASKS = Fault("sysrq-t", "all tasks, by sysrq t", shell("echo t > /proc/sysrq-trigger"),
              ("Show State", "workqueue|Showing busy"))
UNREADABLE = tuple(
    Fault(f"unreadable-{disk}", f"a sector of the {disk} disk that cannot be read",
          _unreadable(serial), (said,))
    for disk, serial,
    said in (("nvme", "N", r"(error|I/O).*dev nvme0n1, sector"), ("scsi", "S", r"error, dev sd\w, sector"),
             ("sata", "A", r"ata\d+: EH complete"), ("virtio", "V", r"error, dev vd\w, sector")))
EXT4 = Fault("ext4-error", "trigger_fs_error of ext4",
             shell("echo injected > /sys/fs/ext4/nvme0n1/trigger_fs_error"), ("EXT4-fs error",))
MIRROR = Fault("md-failure", "one disk of a mirror set faulty", _mirror_fails,
               ("Disk failure on", "Operation continuing on 1 devices"))
XFS = Fault("xfs-shutdown",
            "every read and write of an XFS's disk fails (the error target of the device mapper)",
            _mapper_fails("xfs"),
            (r"XFS \(dm-0\): log I/O error", r"XFS \(dm-0\): .*[Ss]hut.*down"))
BTRFS = Fault("btrfs-shutdown",
              "every read and write of a btrfs's disk fails (the error target of the device mapper)",
              _mapper_fails("btrfs"),
              (r"BTRFS error \(device dm-0.*\): bdev /dev/\S+ errs: wr 1,",
               r"BTRFS info \(device dm-0.*\): forced readonly"))
FROZEN = Fault("hung-task", "a process writes to a file system that is frozen (fsfreeze)", _frozen,
               ("INFO: task train:.* blocked for more than", "Call Trace"))
# A direct read of a disk would not do: the kernel wakes those who wait for one before it takes them for hung.
HUNG = Fault("hung-task", "a virtio disk that does not answer",
             _stalled("/machine/peripheral/dev-virtio/virtio-backend",
                      "for one in 1 2 3 4; do dd if=/dev/zero of=/mnt/virtio/checkpoint-$one bs=64K "
                      "count=1 conv=fsync & done; wait", "blocked for more than"),
             ("blocked for more than", "Call Trace"))
NVME = Fault("nvme-timeout", "an NVMe disk that does not answer",
             _stalled("dev-nvme",
                      "for at in 1 2 3 4; do dd if=/dev/nvme0n1 of=/dev/null bs=64K skip=$at count=1 "
                      "iflag=direct & done; wait",
                      "timeout, aborting"), ("nvme nvme0: .*timeout",))
NMI = Fault("nmi", "an NMI without a reason", monitor("nmi"), ("NMI received for unknown reason",))
CORRECTED = Fault("mce-corrected", "a corrected machine check in bank 4", _corrected,
                  (r"\[Hardware Error\]",))
CORRECTABLE = Fault("aer-correctable",
                    "PCIe AER: a bad TLP at a port's device, by the kernel's aer_inject", _tlp,
                    ("AER: (Multiple )?Correct.* error",))
NONFATAL = Fault("aer-nonfatal", "PCIe AER: a completion timeout at a root port",
                 monitor("pcie_aer_inject_error slot2 COMP_TIME"),
                 ("AER: (Multiple )?Uncorrect.* error",))
FLAP = Fault("link-flap", "the cable of a port drawn and put back", _flap, ("Link is Up",))
NVME_GONE = Fault("nvme-removed", "an NVMe disk drawn from its slot while it is read", _drawn,
                  ("pciehp: Slot",))
USB_GONE = Fault("usb-removed", "a USB disk drawn", monitor("device_del dev-usb"), ("USB disconnect",))
SD_GONE = Fault("scsi-removed", "a SCSI disk taken away", monitor("device_del dev-sd"),
                (r"\[sd\w\] Synchroniz",))
NULL = Fault("oops-null", "a system call that reads address 0 (machine code poked in)",
             _bug("__x64_sys_sethostname", "488b042500000000", "hostname x"),
             ("kernel NULL pointer dereference", r"---\[ end trace"))
PROTECTION = Fault("oops-protection", "a system call that reads a non-canonical address (poked in)",
                   _bug("__x64_sys_setdomainname", "48b80000000000000080488b00", "domainname x"),
                   ("general protection fault", r"---\[ end trace"))
OPCODE = Fault("oops-opcode", "a system call that runs into an undefined instruction (poked in)",
               _bug("__x64_sys_setpriority", "0f0b", "renice 5 1"),
               ("invalid opcode: 0000",))
LOCKUP = Fault("lockup", "a system call that never ends (a loop poked in)",
               _bug("__x64_sys_sethostname", "ebfe", "hostname x"),
               ("soft lockup - CPU#", "detected stalls on CPUs|self-detected stall"))
HARD = Fault("hard-lockup",
             "a system call that never ends, with interrupts off (a loop poked in); NMIs of the monitor call "
             "the kernel's watchdog", _hard,
             ("Watchdog detected hard LOCKUP on cpu 0", "detected stalls on CPUs|self-detected stall"),
             dies=True)
PANIC = Fault("panic", "sysrq c", shell("echo c > /proc/sysrq-trigger"),
              ("Kernel panic - not syncing", "end Kernel panic"), dies=True)
FATAL = Fault("mce-fatal", "an uncorrected machine check in bank 4",
              monitor("mce 1 4 0xbe00000000010137 0x5 0x3f8a4c40 0x0"),
              ("Machine Check Exception", "end Kernel panic"), dies=True)
