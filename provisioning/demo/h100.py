"""A healthy HGX H100 node with eight GPUs: what kernel, driver and tools say. Addresses on the PCI bus are
those of an NVIDIA DGX H100. Serial numbers, GUIDs, times and the like differ from node to node by `rng`;
everything else is equal, as on nodes that were installed together."""

from __future__ import annotations

import random
import uuid

from provisioning.demo import bootlog, containers, disks, host, hostfiles, network, pciconfig, services
from provisioning.demo.machine import DemoMachine, Mount
from provisioning.demo.vpd import vital_product_data

UP_SECONDS = 3463201.37
KERNEL = "6.5.0-1007-nvidia"
DRIVER = "535.161.08"
MEMORY_KB = 2113409204
DIMM_KB = 64 * 1024 * 1024      # 32 of them

GPUS = tuple(f"0000:{bus}:00.0" for bus in ("1b", "43", "52", "61", "9d", "c3", "d1", "df"))
HCAS = tuple(f"0000:{bus}:00.0" for bus in ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc"))
NVSWITCHES = tuple(f"0000:{bus}:00.0" for bus in ("05", "06", "07", "08"))
NVMES = tuple(f"0000:{bus}:00.0" for bus in ("22", "23", "2a", "2b", "a2", "a3", "ab", "ac"))
BOOT_NVMES = ("0000:01:00.0", "0000:02:00.0")
ETHERNET = ("0000:0b:00.0", "0000:0b:00.1")
BMC_VGA = "0000:04:00.0"

# PCI class (without leading zeros, as the kernel prints it), vendor:device, subsystem, driver.
_KINDS = {
    GPUS: ("30200", "10DE:2330", "10DE:16C1", "nvidia"),
    HCAS: ("20700", "15B3:1021", "15B3:0041", "mlx5_core"),
    NVSWITCHES: ("68000", "10DE:22A3", "10DE:1796", "nvidia-nvswitch"),
    NVMES: ("10802", "144D:A824", "144D:AA04", "nvme"),
    BOOT_NVMES: ("10802", "144D:A80A", "144D:A801", "nvme"),
    ETHERNET: ("20000", "8086:1563", "8086:001A", "ixgbe"),
    (BMC_VGA,): ("30000", "1A03:2000", "1A03:2000", "ast"),
}


def healthy(name: str, rng: random.Random) -> DemoMachine:
    """A node with nothing wrong. Among what is right are things that a careless check would accuse: old
    link_downed counts, an application's Xid, a corrected memory error, replays of links, time at the power
    cap, full read-only snap mounts, a file system that knows no inodes."""
    machine = DemoMachine(name)
    machine.files.update(_host_files(name, rng))
    _pci(machine)
    for index, address in enumerate(HCAS):
        _hca(machine, index, address, rng)
    devices = [(kind[3], address) for addresses, kind in _KINDS.items() if kind[3] not in ("ast", "ixgbe")
               for address in addresses]
    hostfiles.install(machine, MEMORY_KB, devices, device_folder)
    network.install(machine, tuple(map(device_folder, ETHERNET)), tuple(map(device_folder, HCAS)))
    machine.mounts.extend(_mounts(rng))
    machine.scenario.update(_scenario(rng))
    machine.clock.update(
        state=0, status=0x2001, offset=rng.randrange(-9000, 9000), freq=rng.randrange(-900000, 900000),
        maxerror=rng.randrange(400, 2500), esterror=rng.randrange(0, 90), constant=7, precision=1,
        tolerance=32768000, tick=10000, tai=37)
    services.install(machine)
    host.install(machine, random.Random(f"{name} host"))  # noqa: S311  (a generator of its own)
    containers.install(machine, _docker_info(name, rng), len(GPUS), DRIVER)
    disks.install(machine, BOOT_NVMES + NVMES, NVMES, device_folder, rng)
    machine.log.extend(
        bootlog.records(bootlog.healthy(kernel=KERNEL, driver=DRIVER, memory_kb=MEMORY_KB, gpus=GPUS,
                                        hcas=HCAS, nvmes=BOOT_NVMES + NVMES, nvswitches=NVSWITCHES),
                        bootlog.service(GPUS, rng), UP_SECONDS, rng))
    return machine


def rails() -> dict[str, int]:
    """The rail of each compute port, by PCI address: the inventory's plan of such a node."""
    return {address: rail for rail, address in enumerate(HCAS)}


def _host_files(name: str, rng: random.Random) -> dict[str, str]:
    boot_id = uuid.UUID(int=rng.getrandbits(128), version=4)
    return {
        "/proc/sys/kernel/hostname": f"{name}\n", "/proc/sys/kernel/osrelease": f"{KERNEL}\n",
        "/proc/sys/kernel/random/boot_id": f"{boot_id}\n", "/proc/meminfo": meminfo(MEMORY_KB, rng),
        "/proc/uptime": f"{UP_SECONDS:.2f} 761904301.12\n",
        "/proc/swaps": "Filename\t\t\t\tType\t\tSize\t\tUsed\t\tPriority\n",
        "/proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {DRIVER}  Tue Mar  "
                                       "5 22:42:15 UTC 2024\n"
                                       "GCC version:  gcc version 12.3.0 (Ubuntu 12.3.0-1ubuntu1~22.04)\n",
        "/sys/module/nvidia/version": f"{DRIVER}\n",
        "/etc/os-release": 'PRETTY_NAME="Ubuntu 22.04.4 LTS"\n'
                           'NAME="Ubuntu"\n'
                           'VERSION_ID="22.04"\n'
                           'VERSION="22.04.4 LTS (Jammy Jellyfish)"\n'
            "VERSION_CODENAME=jammy\nID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME=jammy\n"}


def meminfo(total_kb: int, rng: random.Random) -> str:
    """/proc/meminfo (proc(5)) of a node with so much memory, nearly idle."""
    cached = rng.randrange(20_000_000, 60_000_000)
    free = total_kb - cached - rng.randrange(18_000_000, 24_000_000)
    values = {
        "MemTotal": total_kb, "MemFree": free, "MemAvailable": free + cached * 9 // 10, "Buffers": 1_482_112,
        "Cached": cached, "SwapCached": 0, "Active": cached // 2, "Inactive": cached // 2,
        "Active(anon)": 1_204_224, "Inactive(anon)": 388_104, "Active(file)": cached // 3,
        "Inactive(file)": cached // 3, "Unevictable": 34_012, "Mlocked": 30_940, "SwapTotal": 0,
        "SwapFree": 0, "Zswap": 0, "Zswapped": 0, "Dirty": rng.randrange(100, 4000), "Writeback": 0,
        "AnonPages": 1_640_004, "Mapped": 902_112, "Shmem": 51_880, "KReclaimable": 3_120_440,
        "Slab": 7_441_208, "SReclaimable": 3_120_440, "SUnreclaim": 4_320_768, "KernelStack": 62_128,
        "PageTables": 48_220, "SecPageTables": 0, "NFS_Unstable": 0, "Bounce": 0, "WritebackTmp": 0,
        "CommitLimit": total_kb // 2, "Committed_AS": 9_884_160, "VmallocTotal": 13_743_895_347_199,
        "VmallocUsed": 2_940_112, "VmallocChunk": 0, "Percpu": 1_802_240, "HardwareCorrupted": 0,
        "AnonHugePages": 655_360, "ShmemHugePages": 0, "ShmemPmdMapped": 0, "FileHugePages": 0,
        "FilePmdMapped": 0}
    pages = {"HugePages_Total": 0, "HugePages_Free": 0, "HugePages_Rsvd": 0, "HugePages_Surp": 0}
    end = {
        "Hugepagesize": 2048, "Hugetlb": 0, "DirectMap4k": 4_120_444, "DirectMap2M": 61_820_928,
        "DirectMap1G": total_kb - 66_000_000}
    lines = [f"{key + ':':<16}{value:>8} kB" for key, value in values.items()]
    lines += [f"{key + ':':<16}{value:>8}" for key, value in pages.items()]
    lines += [f"{key + ':':<16}{value:>8} kB" for key, value in end.items()]
    return "\n".join(lines) + "\n"


def device_folder(address: str) -> str:
    """Where sysfs keeps a PCI device: below a root port; a GPU and its adapter below one switch."""
    for adapter, gpu in zip(HCAS, GPUS, strict=True):
        if address in (adapter, gpu):
            root, up, down = (f"0000:{int(adapter[5:7], 16) - above:02x}" for above in (3, 2, 1))
            return (
                f"/sys/devices/pci{root}/{root}:01.0/{up}:00.0/{down}:{int(address == gpu):02x}.0/{address}")
    return f"/sys/devices/pci{address[:7]}/{address[:7]}:01.0/{address}"


def _pci(machine: DemoMachine) -> None:
    for addresses, (kind, ident, subsystem, driver) in _KINDS.items():
        for address in addresses:
            vendor, device = ident.split(":")
            maker, board = subsystem.split(":")
            alias = (f"pci:v{vendor:0>8}d{device:0>8}sv{maker:0>8}sd{board:0>8}"
                     f"bc{kind[:-4]:0>2}sc{kind[-4:-2]}i{kind[-2:]}")
            uevent = (f"DRIVER={driver}\n"
                      f"PCI_CLASS={kind}\n"
                      f"PCI_ID={ident}\n"
                      f"PCI_SUBSYS_ID={subsystem}\n"
                      f"PCI_SLOT_NAME={address}\n"
                      f"MODALIAS={alias}\n")
            machine.files[f"{device_folder(address)}/uevent"] = uevent
            if driver in ("nvidia", "mlx5_core"):
                pciconfig.install(machine, device_folder(address), ident, int(kind, 16))
            machine.links[f"/sys/bus/pci/devices/{address}"] = (
                f"../../../{device_folder(address).removeprefix('/sys/')}")


def remove_pci(machine: DemoMachine, address: str) -> None:
    """Takes a device off the bus, as when it does not enumerate at boot."""
    for link in [link for link in machine.links if link.endswith(f"/{address}")]:
        del machine.links[link]
    for held in (machine.files, machine.blobs):
        for path in [path for path in held if path.startswith(f"{device_folder(address)}/")]:
            del held[path]


def hca_folder(index: int) -> str:
    """Where sysfs keeps the RDMA device mlx5_INDEX; its `device` link leads back to the PCI device."""
    return f"{device_folder(HCAS[index])}/infiniband/mlx5_{index}"


def _hca(machine: DemoMachine, index: int, address: str, rng: random.Random) -> None:
    at = hca_folder(index)
    guid = f"a088c203{rng.getrandbits(32):08x}"
    machine.links[f"/sys/class/infiniband/mlx5_{index}"] = f"../../{at.removeprefix('/sys/')}"
    machine.links[f"{at}/device"] = f"../../../{address}"
    port = {
        "state": "4: ACTIVE", "phys_state": "5: LinkUp", "rate": "400 Gb/sec (4X NDR)",
        "link_layer": "InfiniBand",
        "lid": f"{rng.randrange(1, 0xBFFF):#x}", "sm_lid": "0x1", "sm_sl": "0", "lid_mask_count": "0",
        # Links are brought up and down while a node is built; the absolute count says nothing.
        "counters/link_downed": str(rng.choice((0, 0, 1, 1, 2, 5))), "counters/symbol_error": "0",
        "counters/port_rcv_errors": "0",
        "counters/link_error_recovery": "0", "counters/local_link_integrity_errors": "0",
        "counters/excessive_buffer_overrun_errors": "0",
        "counters/port_xmit_discards": "0", "counters/port_rcv_remote_physical_errors": "0",
        # Waiting and packets out of sequence are what congestion and adaptive routing make of a healthy
        # fabric.
        "counters/port_xmit_wait": str(rng.getrandbits(24)),
        "hw_counters/out_of_sequence": str(rng.getrandbits(12)),
        "hw_counters/packet_seq_err": "0", "hw_counters/local_ack_timeout_err": "0",
        "hw_counters/rnr_nak_retry_err": "0",
        "hw_counters/req_transport_retries_exceeded": "0", "hw_counters/req_rnr_retries_exceeded": "0",
        "hw_counters/roce_slow_restart": "0",
        "gids/0": f"fe80:0000:0000:0000:{':'.join(guid[i:i + 4] for i in range(0, 16, 4))}",
        **{f"gids/{entry}": ":".join(["0000"] * 8) for entry in range(1, 4)}, "pkeys/0": "0xffff",
        **{f"pkeys/{entry}": "0x0000" for entry in range(1, 4)},
        "counters/port_xmit_data": str(rng.getrandbits(44)),
        "counters/port_rcv_data": str(rng.getrandbits(44)),
    }
    device = {
        "fw_ver": "28.39.1002", "board_id": "MT_0000000838", "hca_type": "MT4129", "node_type": "1: CA",
        **dict.fromkeys(("node_guid", "sys_image_guid"), ":".join(guid[i:i + 4] for i in range(0, 16, 4))),
    }
    for path, value in device.items():
        machine.files[f"{at}/{path}"] = f"{value}\n"
    for path, value in port.items():
        machine.files[f"{at}/ports/1/{path}"] = f"{value}\n"
    machine.blobs[f"{device_folder(address)}/vpd"] = vital_product_data(
        "ConnectX-7 adapter card", "MCX75310AAS-NEAT", f"MT2314X{int(guid[8:], 16) % 100_000:05}"
    )
    slot = device_folder(address).rpartition("/")[0]
    for place in (device_folder(address), slot):
        for speed in ("max", "current"):
            machine.files[f"{place}/{speed}_link_speed"] = "32.0 GT/s PCIe\n"
        machine.files[f"{place}/max_link_width"] = machine.files[f"{place}/current_link_width"] = "16\n"
    machine.files[f"/sys/class/infiniband_verbs/uverbs{index}/ibdev"] = f"mlx5_{index}\n"
    machine.files[f"/sys/class/infiniband_mad/umad{index}/ibdev"] = f"mlx5_{index}\n"
    machine.files[f"/sys/class/infiniband_mad/umad{index}/port"] = "1\n"


_NODEV, _NOSUID, _NOEXEC, _RELATIME = 4, 2, 8, 4096     # flags of statvfs(3)


def _mounts(rng: random.Random) -> list[Mount]:
    def disk(
        blocks: int, share: float, files: int, *, reserved: float = 0.0, bsize: int = 4096,
        flag: int = _RELATIME,
    ) -> tuple[int, ...]:
        free = int(blocks * (1 - share - rng.random() / 50))
        ffree = int(files * (0.97 - rng.random() / 50))
        return bsize, bsize, blocks, free, free - int(blocks * reserved), files, ffree, ffree, flag, 255

    nothing = (4096, 4096, 0, 0, 0, 0, 0, 0, _NOSUID | _NODEV | _NOEXEC | _RELATIME, 255)
    snap = (131072, 131072, 507, 0, 0, 11906, 0, 0, _RELATIME | _NODEV | 1, 256)
    root = disk(460_283_392, 0.18, 117_440_512, reserved=0.05)
    efi = (4096, 4096, 130_812, 129_260, 129_260, 0, 0, 0, _RELATIME, 1530)
    layer = "/raid/docker/overlay2"
    overlay = (
        f"rw,lowerdir={layer}/l/K7QW:{layer}/l/MZ3D,upperdir={layer}/4f0c/diff,workdir={layer}/4f0c/work")
    table: list[tuple[str, tuple[int, ...]]] = [
        ("24 30 0:22 / /sys rw,nosuid,nodev,noexec,relatime shared:7 - sysfs sysfs rw", nothing),
        ("25 30 0:23 / /proc rw,nosuid,nodev,noexec,relatime shared:14 - proc proc rw", nothing),
        ("26 30 0:5 / /dev rw,nosuid,relatime shared:2 - devtmpfs udev "
         "rw,size=1056641444k,nr_inodes=264160361,mode=755,inode64",
         (4096, 4096, 264_160_361, 264_160_361, 264_160_361, 264_160_361, 264_158_900, 264_158_900,
          _NOSUID | _RELATIME, 255)),
        ("27 26 0:24 / /dev/pts rw,nosuid,noexec,relatime shared:3 - devpts devpts "
         "rw,gid=5,mode=620,ptmxmode=000", nothing),
        ("28 30 0:25 / /run rw,nosuid,nodev,noexec,relatime shared:5 - tmpfs tmpfs "
         "rw,size=211340924k,mode=755,inode64", disk(52_835_231, 0.001, 264_176_150)),
        ("30 1 259:2 / / rw,relatime shared:1 - ext4 /dev/nvme0n1p2 rw,errors=remount-ro", root),
        ("31 24 0:6 / /sys/kernel/security rw,nosuid,nodev,noexec,relatime shared:8 - securityfs securityfs "
         "rw", nothing),
        ("32 26 0:27 / /dev/shm rw,nosuid,nodev shared:4 - tmpfs tmpfs rw,inode64",
         disk(264_176_150, 0.0, 264_176_150)),
        (
            "33 28 0:28 / /run/lock rw,nosuid,nodev,noexec,relatime shared:6 - tmpfs tmpfs "
            "rw,size=5120k,inode64",
            (4096, 4096, 1280, 1280, 1280, 264_176_150, 264_176_147, 264_176_147,
             _NOSUID | _NODEV | _RELATIME, 255)),
        ("34 24 0:29 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 "
         "rw,nsdelegate", nothing),
        ("36 24 0:31 / /sys/firmware/efi/efivars rw,nosuid,nodev,noexec,relatime shared:11 - efivarfs "
         "efivarfs rw",
         (1, 1, 524_248, 388_120, 383_000, 0, 0, 0, _NOSUID | _NODEV | _NOEXEC | _RELATIME, 255)),
        ("93 30 7:0 / /snap/core20/2105 ro,nodev,relatime shared:45 - squashfs /dev/loop0 "
         "ro,errors=continue,threads=single", snap),
        ("96 30 259:1 / /boot/efi rw,relatime shared:48 - vfat /dev/nvme0n1p1 "
         "rw,fmask=0077,dmask=0077,codepage=437,iocharset=iso8859-1,shortname=mixed,errors=remount-ro", efi),
        ("99 30 9:1 / /raid rw,relatime shared:50 - xfs /dev/md1 "
         "rw,attr2,inode64,logbufs=8,logbsize=32k,noquota", disk(7_500_734_464, 0.31, 3_000_293_760)),
        ("412 30 0:58 / /mnt/home rw,relatime shared:231 - nfs4 filer:/home "
         "rw,vers=4.2,rsize=1048576,wsize=1048576,namlen=255,hard,proto=tcp,timeo=600,retrans=2,sec=sys,"
         "clientaddr=10.0.0.2,addr=10.0.0.9",
         (1_048_576, 1_048_576, 104_857_600, 41_943_040, 41_943_040, 6_553_600_000, 6_443_221_004,
          6_443_221_004, _RELATIME, 255)),
        (f"420 30 0:61 / {layer}/4f0c/merged rw,relatime shared:240 - overlay overlay {overlay}", root)]
    return [Mount(line, (f[0], f[1], f[2], f[3], f[4], f[5], f[6], f[7], f[8], f[9])) for line, f in table]


def _scenario(rng: random.Random) -> dict[str, str]:
    values = {
        "driver.version": DRIVER, "nvml.version": f"12.{DRIVER}", "gpu.count": str(len(GPUS)),
        # An hour at the power cap is what training does, and a few replays long ago are what links do.
        "gpu.*.slowdown.power": str(3600 * 10**9), "gpu.2.nvlink.5.replay": "3", "gpu.6.pcie.replays": "12",
    }
    for index, address in enumerate(GPUS):
        values |= {
            f"gpu.{index}.uuid": f"GPU-{uuid.UUID(int=rng.getrandbits(128), version=4)}",
            f"gpu.{index}.serial": str(1_650_000_000_000 + rng.randrange(10**9)),
            f"gpu.{index}.pci": address,
            f"gpu.{index}.temperature.0": str(rng.randrange(27, 38)),
            f"gpu.{index}.power.usage": str(rng.randrange(66_000, 78_000)),
            f"gpu.{index}.ecc.aggregate.corrected": str(rng.choice((0, 0, 0, 1, 3))),
        }
    return values


def _docker_info(name: str, rng: random.Random) -> dict[str, object]:
    return {
        "ID": str(uuid.UUID(int=rng.getrandbits(128), version=4)), "Containers": 1, "ContainersRunning": 1,
        "ContainersPaused": 0, "ContainersStopped": 0, "Images": rng.randrange(4, 40), "Driver": "overlay2",
        "DriverStatus": [
            ["Backing Filesystem", "extfs"], ["Supports d_type", "true"], ["Using metacopy", "false"]],
        "Plugins": {
            "Volume": ["local"], "Network": ["bridge", "host", "ipvlan", "macvlan", "null", "overlay"],
            "Authorization": None, "Log": ["awslogs", "fluentd", "journald", "json-file", "local", "syslog"]},
        "MemoryLimit": True, "SwapLimit": True, "CpuCfsPeriod": True, "CpuCfsQuota": True, "PidsLimit": True,
        "IPv4Forwarding": True, "Debug": False, "NFd": 38, "OomKillDisable": False,
        "NGoroutines": rng.randrange(40, 90), "LoggingDriver": "json-file", "CgroupDriver": "systemd",
        "CgroupVersion": "2", "KernelVersion": KERNEL, "OperatingSystem": "Ubuntu 22.04.4 LTS",
        "OSVersion": "22.04", "OSType": "linux", "Architecture": "x86_64", "NCPU": 224,
        "MemTotal": MEMORY_KB * 1024, "DockerRootDir": "/raid/docker", "Name": name, "Labels": [],
        "ServerVersion": "24.0.7",
        "Runtimes": {
            "io.containerd.runc.v2": {"path": "runc"}, "nvidia": {"path": "nvidia-container-runtime"},
            "runc": {"path": "runc"}}, "DefaultRuntime": "runc",
        "ContainerdCommit": {"ID": "7c3aca7a610df76212171d200ca3811ff6096eb8"},
        "RuncCommit": {"ID": "v1.1.12-0-g51d5e94"}, "LiveRestoreEnabled": False, "Isolation": "",
        "InitBinary": "docker-init",
        "SecurityOptions": ["name=apparmor", "name=seccomp,profile=builtin", "name=cgroupns"],
        "Warnings": None,
        "ClientInfo": {
            "Debug": False, "Version": "24.0.7", "Context": "default", "Plugins": [], "Warnings": None}}
