"""The kernel log of a healthy HGX H100 node, as records of /dev/kmsg (Documentation/ABI/testing/dev-kmsg).
Formats are those of kernels and drivers, wording and figures made up; 'error' and 'failed' occur on every
healthy machine."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

Line = tuple[int, str]      # priority (facility * 8 + level), text

_ERROR, _WARNING, _NOTICE, _INFO = 3, 4, 5, 6
_LAST_SECONDS = 3600.0
_SYSTEMD = 3 * 8 + _INFO    # what user space writes carries its facility


def records(
    boot: Iterator[Line], service: Iterator[Line], up_seconds: float, rng: random.Random,
) -> list[bytes]:
    """Numbered records, with times (microseconds since boot) of a boot and then of the last hour."""
    found: list[bytes] = []
    now = 0
    for late, lines in ((False, boot), (True, service)):
        if late:
            now = max(now, int((up_seconds - _LAST_SECONDS) * 1e6))
        for priority, text in lines:
            if len(found) > 12:
                now += rng.randrange(200, 90_000)
            found.append(f"{priority},{len(found)},{now},-;{text}\n".encode())
    return found


def healthy(
    rng: random.Random, *, kernel: str, driver: str, memory_kb: int, gpus: Sequence[str], hcas: Sequence[str],
    nvmes: Sequence[str], nvswitches: Sequence[str],
) -> Iterator[Line]:
    """Some 300 lines from the first of the kernel to a node that is up."""
    yield from _early(kernel, memory_kb)
    yield from _processors()
    yield from _firmware()
    yield from _bus(gpus, hcas, nvmes, nvswitches)
    yield from _storage(nvmes)
    yield from _network(hcas)
    yield from _user_space()
    yield from _nvidia(driver, gpus, nvswitches)


def _early(kernel: str, memory_kb: int) -> Iterator[Line]:
    yield _NOTICE, (f"Linux version {kernel} (buildd@lcy02-amd64-041) (x86_64-linux-gnu-gcc-12 (Ubuntu "
                    "12.3.0-1ubuntu1~22.04) 12.3.0, GNU ld (GNU Binutils for Ubuntu) 2.38) #7-Ubuntu SMP "
                    "PREEMPT_DYNAMIC Tue Nov  7 01:45:42 UTC 2023")
    yield _INFO, (f"Command line: BOOT_IMAGE=/boot/vmlinuz-{kernel} root=/dev/nvme0n1p2 ro iommu=pt "
                  "console=ttyS0,115200n8")
    for vendor in ("Intel GenuineIntel", "AMD AuthenticAMD", "Hygon HygonGenuine"):
        yield _INFO, f"  {vendor}"
    yield _INFO, "BIOS-provided physical RAM map:"
    ranges = ((0x0, 0x9FFFF, "usable"), (0xA0000, 0xFFFFF, "reserved"), (0x100000, 0x5F2E7FFF, "usable"),
              (0x5F2E8000, 0x689E7FFF, "reserved"), (0x689E8000, 0x69DE7FFF, "ACPI NVS"),
              (0x69DE8000, 0x6D9E7FFF, "ACPI data"), (0x6D9E8000, 0x777FFFFF, "usable"),
              (0x77800000, 0x8FFFFFFF, "reserved"), (0x100000000, 0x1FFFFFFFFFF, "usable"))
    for start, end, kind in ranges:
        yield _INFO, f"BIOS-e820: [mem {start:#018x}-{end:#018x}] {kind}"
    yield _INFO, "NX (Execute Disable) protection: active"
    yield _INFO, "efi: EFI v2.8 by American Megatrends"
    yield _INFO, "secureboot: Secure boot disabled"
    yield _INFO, "SMBIOS 3.5.0 present."
    yield _INFO, "DMI: NVIDIA HGXH100/MB, BIOS 1.01.03 10/18/2023"
    yield _INFO, "tsc: Detected 2000.000 MHz processor"
    for table in ("RSDP", "XSDT", "FACP", "DSDT", "FACS", "SSDT", "FIDT", "ERST", "BERT", "HEST", "EINJ",
                  "MCFG", "SRAT", "SLIT", "DMAR"):
        yield _INFO, (f"ACPI: {table} 0x0000000069{len(table) * 0x1111:06x} "
                      "(v02 ALASKA A M I    01072009 AMI  01000013)")
    for node in (0, 1):
        yield _INFO, (f"ACPI: SRAT: Node {node} PXM {node} "
                      f"[mem {node * 0x10000000000:#012x}-{(node + 1) * 0x10000000000 - 1:#012x}]")
    yield _INFO, "NUMA: Initialized distance table, cnt=2"
    yield _INFO, (f"Memory: {memory_kb - 21_000_000}K/{memory_kb + 34_000_000}K available "
                  "(20480K kernel code, 4263K rwdata, 13816K rodata)")


def _processors() -> Iterator[Line]:
    yield _INFO, "smpboot: Allowing 224 CPUs, 0 hotplug CPUs"
    yield _INFO, "rcu: Hierarchical RCU implementation."
    yield _INFO, "Console: colour dummy device 80x25"
    yield _INFO, "mce: CPU0: Thermal monitoring enabled (TM1)"
    yield _INFO, "process: using mwait in idle threads"
    yield _INFO, "Spectre V1 : Mitigation: usercopy/swapgs barriers and __user pointer sanitization"
    yield _INFO, "Spectre V2 : Mitigation: Enhanced / Automatic IBRS"
    yield _INFO, "smpboot: CPU0: Intel(R) Xeon(R) Platinum 8480C (family: 0x6, model: 0x8f, stepping: 0x8)"
    yield _INFO, ("Performance Events: XSAVE Architectural LBR, PEBS fmt4+-baseline, AnyThread deprecated, "
                  "Intel PMU driver.")
    yield _INFO, "smp: Bringing up secondary CPUs ..."
    for node in (0, 1):
        yield _INFO, f".... node  #{node}, CPUs:   " + " ".join(
            f"#{cpu}" for cpu in range(node * 56 + 1, node * 56 + 13))
    yield _INFO, "smp: Brought up 2 nodes, 224 CPUs"
    yield _INFO, "smpboot: Total of 224 processors activated (896000.00 BogoMIPS)"


def _firmware() -> Iterator[Line]:
    yield _INFO, "ERST: Error Record Serialization Table (ERST) support is initialized."
    yield _INFO, "pstore: Registered erst as persistent store backend"
    yield _INFO, "HEST: Enabling Firmware First mode for corrected errors."
    yield _INFO, "GHES: APEI firmware first mode is enabled by APEI bit and WHEA _OSC."
    yield _INFO, "EDAC MC: Ver: 3.0.0"
    for controller in range(16):
        yield _INFO, (f"EDAC MC{controller}: Giving out device to module i10nm_edac controller Intel_10nm "
                      f"Socket#{controller // 8} IMC#{controller % 4}: DEV 0000:7e:0c.0 (INTERRUPT)")
    yield _INFO, "RAS: Correctable Errors collector initialized."
    yield _ERROR, "ACPI Error: No handler for Region [POWR] (00000000b1a41d0a) [IPMI] (20230331/evregion-130)"
    yield _ERROR, "ACPI Error: Region IPMI (ID=7) has no handler (20230331/exfldio-261)"
    yield _WARNING, ("ipmi_si dmi-ipmi-si.0: The BMC does not support setting the recv irq bit, "
                     "compensating, but the BMC needs to be fixed.")
    yield _INFO, "ipmi_si dmi-ipmi-si.0: IPMI kcs interface initialized"
    yield _WARNING, "ENERGY_PERF_BIAS: Set to 'normal', was 'performance'"


def _bus(
    gpus: Sequence[str], hcas: Sequence[str], nvmes: Sequence[str], nvswitches: Sequence[str],
) -> Iterator[Line]:
    kinds = ((gpus, "[10de:2330] type 00 class 0x030200", 0x1000000),
             (hcas, "[15b3:1021] type 00 class 0x020700", 0x2000000),
             (nvmes, "[144d:a824] type 00 class 0x010802", 0x8000),
             (nvswitches, "[10de:22a3] type 00 class 0x068000", 0x2000000))
    for addresses, kind, size in kinds:
        for number, address in enumerate(addresses):
            base = 0x210000000000 + number * 0x2000000000
            yield _INFO, f"pci {address}: {kind}"
            yield _INFO, f"pci {address}: reg 0x10: [mem {base:#x}-{base + size - 1:#x} 64bit pref]"
    for address in gpus:
        yield _INFO, f"pci {address}: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)"
    for address in (*hcas, *gpus):
        yield _INFO, f"pcieport {address[:7]}:01.0: AER: enabled with IRQ {40 + int(address[5:7], 16)}"
    yield _INFO, "pci 0000:00:1f.0: BAR 13: failed to assign [io  size 0x1000]"
    yield _INFO, "DMAR: Intel(R) Virtualization Technology for Directed I/O"


def _storage(nvmes: Sequence[str]) -> Iterator[Line]:
    for number, address in enumerate(nvmes):
        yield _INFO, f"nvme nvme{number}: pci function {address}"
        yield _INFO, f"nvme nvme{number}: 128/0/0 default/read/poll queues"
    yield _INFO, " nvme0n1: p1 p2"
    yield _INFO, f"md/raid0:md1: md_size is {8 * 7_501_476_528} sectors."
    yield _INFO, "md1: detected capacity change from 0 to 60011812224"
    yield _INFO, ("EXT4-fs (nvme0n1p2): mounted filesystem 5a1e7c1e-0a43-4fd1-9a0c-2f6d3d5b8f11 ro with "
                  "ordered data mode. Quota mode: none.")
    yield _INFO, "EXT4-fs (nvme0n1p2): re-mounted 5a1e7c1e-0a43-4fd1-9a0c-2f6d3d5b8f11 r/w. Quota mode: none."
    yield _NOTICE, "XFS (md1): Mounting V5 Filesystem 0c2d9c4e-7b59-4c58-8a0e-7e2f6d1a9b30"
    yield _INFO, "XFS (md1): Ending clean mount"
    yield _INFO, "loop0: detected capacity change from 0 to 129824"


def _network(hcas: Sequence[str]) -> Iterator[Line]:
    yield _INFO, "ixgbe: Intel(R) 10 Gigabit PCI Express Network Driver"
    yield _INFO, "ixgbe 0000:0b:00.0 eno1: NIC Link is Up 10 Gbps, Flow Control: None"
    for number, address in enumerate(hcas):
        yield _INFO, f"mlx5_core {address}: firmware version: 28.39.1002"
        yield _INFO, f"mlx5_core {address}: 504.112 Gb/s available PCIe bandwidth (32.0 GT/s PCIe x16 link)"
        yield _INFO, f"mlx5_core {address}: Port module event: module 0, Cable plugged"
        yield _INFO, f"mlx5_core {address} ibp{int(address[5:7], 16)}s0: renamed from ib{number}"
    yield _INFO, "IPv6: ADDRCONF(NETDEV_CHANGE): eno1: link becomes ready"


def _user_space() -> Iterator[Line]:
    yield _SYSTEMD, ("systemd[1]: systemd 249.11-0ubuntu3.12 running in system mode (+PAM +AUDIT +SELINUX "
                     "+APPARMOR)")
    yield _SYSTEMD, "systemd[1]: Detected architecture x86-64."
    for unit in (
        "Journal Service", "Load Kernel Module configfs", "Load Kernel Module fuse",
        "Remount Root and Kernel File Systems", "Apply Kernel Variables",
        "Create Static Device Nodes in /dev", "Rule-based Manager for Device Events and Files",
        "Flush Journal to Persistent Storage", "Load AppArmor profiles", "Network Time Service",
        "NVIDIA Persistence Daemon", "NVIDIA fabric manager service", "Docker Application Container Engine"):
        yield _SYSTEMD, f"systemd[1]: Starting {unit}..."
        yield _SYSTEMD, f"systemd[1]: Finished {unit}."
    for profile in ("lsb_release", "nvidia_modprobe", "/usr/bin/man", "/usr/sbin/chronyd"):
        yield _NOTICE, (
            'audit: type=1400 audit(1700000000.100:2): apparmor="STATUS" operation="profile_load" '
            f'profile="unconfined" name="{profile}" pid=2101 comm="apparmor_parser"')


def _nvidia(driver: str, gpus: Sequence[str], nvswitches: Sequence[str]) -> Iterator[Line]:
    yield _WARNING, "nvidia: loading out-of-tree module taints kernel."
    yield _WARNING, ("nvidia: module verification failed: signature and/or required key missing - tainting "
                     "kernel")
    yield _INFO, "nvidia-nvlink: Nvlink Core is being initialized, major device number 509"
    for number, address in enumerate(nvswitches):
        yield _INFO, f"nvidia-nvswitch{number}: open (major=510)"
        yield _INFO, f"nvidia-nvswitch {address}: enabling device (0140 -> 0142)"
    for address in gpus:
        yield _INFO, f"nvidia {address}: enabling device (0140 -> 0142)"
    yield _WARNING, f"NVRM: loading NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Mar  5 22:42:15 UTC 2024"
    yield _INFO, (f"nvidia-modeset: Loading NVIDIA Kernel Mode Setting Driver for UNIX platforms  {driver}  "
                  "Tue Mar  5 22:36:24 UTC 2024")
    yield _INFO, "[drm] [nvidia-drm] [GPU ID 0x00001b00] Loading driver"
    yield _INFO, "nvidia-uvm: Loaded the UVM driver, major device number 505."


def service(gpus: Sequence[str], rng: random.Random) -> Iterator[Line]:
    """What a node says that has run jobs for a while."""
    yield _INFO, "docker0: port 1(veth3a1c) entered forwarding state"
    yield _INFO, ("perf: interrupt took too long (2514 > 2500), lowering kernel.perf_event_max_sample_rate "
                  "to 79500")
    if rng.random() < 0.3:
        gpu = rng.choice(gpus)[:-2]
        yield _WARNING, f"NVRM: Xid (PCI:{gpu}): 43, pid=81234, name=python, Ch 00000008"
        yield _WARNING, (f"NVRM: Xid (PCI:{gpu}): 13, pid=81234, name=python, Graphics SM Warp Exception on "
                         "(GPC 2, TPC 0, SM 1)")
    if rng.random() < 0.3:
        yield _INFO, ("EDAC MC3: 1 CE memory read error on CPU_SrcID#0_MC#3_Chan#0_DIMM#0 (channel:0 slot:0 "
                      "page:0x1a3f22 offset:0x9c0 grain:32 syndrome:0x0 - err_code:0x0101:0x0090 "
                      "SystemAddress:0x1a3f229c0 ProcessorSocketId:0x0)")
    if rng.random() < 0.3:
        yield _INFO, ("python[90112]: segfault at 0 ip 00007f2d1c9e0b42 sp 00007ffd2d0a1d80 error 4 in "
                      "libtorch_cpu.so[7f2d1a000000+4e00000]")
    yield _INFO, "systemd-journald[1422]: Received client request to flush runtime journal."
