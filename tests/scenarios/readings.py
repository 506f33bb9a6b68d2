"""What may change when one thing is not there that a node has: a statement made by hand, of what operators
would expect, beside the product's own list of the probes that a rule names.

By what is taken away, as tests.scenarios.removal calls it; patterns are those of fnmatch.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

# A reading that no entry of WIDE names changes at most so many rules.
MOST = 3

# By probe the rules that are about the same subject. No other may change, whatever is taken away.
SUBJECTS = {
    "bmc.*": "bmc-*",
    "container.*": "cdi-* container-* docker-* fleet-container-* pyxis-*",
    "containerd.*": "container-* containerd-* fleet-container*",
    "cpu.*": "cpu-* fleet-cpu-* fleet-microcode fleet-turbo",
    "disk.*": "disk-* fleet-disk-*",
    "docker.*": "container-* docker-* fleet-docker-*",
    "driver.module": "driver-*",
    "fabric.journal": "nvlink-fabric-manager-log",
    "filesystem.*": "filesystem-* docker-disk",
    "gpu.nvml": "gpu-* nvlink* cdi-* driver-* fleet-* kernel-*xid* sku-matches memory-left-over "
                "container-gpus",
    "gpu.pci": "gpu-count hca-present disk-nvme-* fleet-*",
    "hca.*": "hca-* port-devices fleet-hca-* fleet-rdma-binding",
    "host.clock*": "host-clock-* fleet-clock-source",
    "host.crash": "host-crash",
    "host.dimms": "host-dimm-*",
    "host.firmware": "fleet-bios fleet-product host-bios kernel-*",
    "host.memory": "memory-* host-memory numa-*",
    "host.own-name": "host-own-name",
    "host.resolver": "host-resolver",
    "host.swap": "host-swap",
    "host.sysctl": "fleet-sysctl host-sysctl",
    "host.system": "fleet-os fleet-cmdline host-cmdline memory-hugepages-asked",
    "host.uptime": "host-rebooted fleet-boot-time kernel-* disk-log-* hca-log*",
    "host.versions": "fleet-driver fleet-kernel cdi-driver cdi-paths kernel-*",
    "kernel.log": "kernel-* disk-log-* hca-log*",
    "memory.edac": "memory-ecc-*",
    "module.loaded": "module-*",
    "netdev.*": "netdev-* bond-* fleet-netdev-* fleet-bond fleet-addressing fleet-rdma-binding",
    "numa.*": "numa-* fleet-numa-*",
    "nvme.*": "disk-nvme-* disk-smart-temperature fleet-disk-*",
    "optics.*": "optics-* port-ber fleet-optics-*",
    "pcie.*": "pcie-* fleet-pcie-config",
    "port.*": "port-* hca-* numa-rails roce-* driver-peermem fleet-port-* fleet-rdma-binding",
    "process.*": "process-* limits-*",
    "process.owners": "memory-hugepages-leaked",
    "raid.*": "raid-* zpool-*",
    "roce.*": "roce-* fleet-rdma-binding",
    "service.nvidia": "nvlink-* driver-persistence-daemon gpu-persistence",
    "service.units": "service-*",
}


@dataclass(frozen=True)
class Exempt:
    """Of what (a probe's id and what is taken away, both patterns) which rules (patterns), and why."""

    probe: str
    called: str
    rules: str
    why: str

    def names(self, probe: str, called: str, rule: str = "") -> bool:
        """Whether this is about it."""
        return (fnmatchcase(probe, self.probe) and fnmatchcase(called, self.called)
                and (not rule or among(rule, self.rules)))


def among(rule: str, patterns: str) -> bool:
    """Whether one of these patterns, which spaces separate, is the rule's."""
    return any(fnmatchcase(rule, pattern) for pattern in patterns.split())


# What more rules than MOST need, each of them rightly.
WIDE = (
    Exempt("gpu.nvml", "*#", "*", "the line is the GPU, or the driver's own"),
    Exempt("gpu.nvml", ".error*", "driver-*", "the driver's refusal is its one answer"),
    Exempt("gpu.nvml", ".count*", "*", "without the driver's count no one knows whether all GPUs were read"),
    Exempt("gpu.nvml", ".index", "*", "the line is the GPU; without its number it is no one's"),
    Exempt("gpu.nvml", ".nvlinks*", "nvlink-* nvlink5-* fleet-nvlink*",
           "the links of one GPU are one reading"),
    Exempt("gpu.nvml", ".pci*", "gpu-* fleet-*", "the address identifies a GPU between two snapshots"),
    Exempt("gpu.nvml", ".clock_reasons*", "gpu-clocks-low gpu-power-brake gpu-slowdown-*",
           "a mask of eight reasons is one reading"),
    Exempt("container.cdi", "/etc/cdi/*", "cdi-*", "the specification itself"),
    Exempt("cpu.throttle", "*/base_frequency*", "cpu-frequency-* fleet-cpu-frequency",
           "the lowest that a sound CPU falls to is one reading"),
    Exempt("cpu.throttle", "*/cpu/online*", "cpu-*", "it shows that CPUs were listed at all"),
    Exempt("docker.info", ".ServerVersion*", "docker-* fleet-docker-*",
           "a daemon that does not answer leaves it out, and only it"),
    Exempt("docker.ps", ".*", "container-*", "a row is of our own format, whole or none"),
    Exempt("filesystem.mounts", "/*", "filesystem-* docker-disk",
           "one statvfs(3) gives space and inodes, and shows that the mount answers"),
    Exempt("disk.smart", "/sys/block/sd*", "disk-smart-*",
           "a drive's answer and its table of attributes hold all of them"),
    Exempt("hca.sysfs", "*/board_id*", "hca-* fleet-hca-*",
           "firmware is compared among adapters of one board"),
    Exempt("host.memory", "/proc/meminfo", "memory-* host-memory", "the file itself"),
    Exempt("host.memory", "/proc/meminfo#MemTotal", "memory-* host-memory", "the rest is a share of it"),
    Exempt("kernel.log", "/dev/kmsg*", "kernel-* disk-log-* hca-log*", "the log itself"),
    Exempt("nvme.sysfs", "*/address*", "disk-nvme-* fleet-disk-*", "the address identifies a drive"),
    Exempt("netdev.sysfs", "*/flags*", "netdev-* fleet-netdev-*",
           "an interface that is set down is not judged"),
    Exempt("netdev.sysfs", "*/operstate*", "netdev-* fleet-netdev-*", "speed and duplex are those of a link"),
    Exempt("netdev.sysfs", "/proc/net/bonding/*", "bond-* fleet-bond netdev-mtu netdev-speed",
           "a bond's file shows its members, which are compared"),
    Exempt("pcie.config", "*/config*", "pcie-* fleet-pcie-config",
           "a function's words are of our own format, whole or none"),
    Exempt("port.sysfs", "*/device/uevent*", "*", "the address identifies a port"),
    Exempt("port.sysfs", "*/link_layer*", "port-* roce-*", "it says which rules a port is for"),
    Exempt("port.sysfs", "*/state*", "port-* roce-*", "what a port agreed on is judged while it is active"),
    Exempt("port.sysfs", "*/counters/link_downed*", "port-*", "four rules judge this counter"),
    Exempt("process.tasks", ".*", "process-* limits-*", "our own reader's document, whole or none"),
    Exempt("roce.ethtool", "*#exit", "roce-*", "whether ethtool answered"),
    Exempt("roce.ethtool", "*#NIC", "roce-*", "the head of all counters"),
)

# What is not a reading of a thing but the thing itself, or the record of an event: without it the node is
# another one, which may be sound or not. Of these rules.
THINGS = (
    Exempt("bmc.log", "#*", "bmc-power-supply bmc-sel-critical", "an event, or the end of one"),
    Exempt("bmc.sensors", "#*", "bmc-*", "a sensor"),
    Exempt("host.crash", "*", "host-crash", "a crash that was kept"),
    Exempt("kernel.log", "/dev/kmsg#*", "kernel-* disk-log-* hca-log*", "a record"),
    Exempt("fabric.journal", "#*", "nvlink-fabric-manager-log", "a line of the journal"),
    Exempt("container.slurm", "*", "pyxis-configured",
           "a file of the configuration and its lines: that they are there is what is judged"),
    Exempt("container.cdi", "*", "cdi-*", "a specification and the devices that it names"),
    Exempt("host.versions", "*/nvidia/version*", "cdi-*",
           "the driver that is loaded, with whose libraries a specification is compared"),
    Exempt("container.config", "toolkit*", "container-toolkit",
           "a program of the toolkit that is on the node"),
    Exempt("container.config", "*.keys.*", "docker-config", "a key that the file sets"),
    Exempt("netdev.sysfs", "/proc/net/bonding/bondN", "fleet-addressing",
           "a bond: that it is gone is fleet-bond's"),
    Exempt("cpu.quota", "*/cpu.stat", "cpu-quota", "a control group, by the only file that is read of it"),
    Exempt("docker.info", ".Runtimes*", "docker-*", "a runtime that the daemon has"),
    Exempt("docker.ps", "*#", "container-*", "a container"),
    Exempt("docker.images", "*#", "docker-images", "an image"),
    Exempt("filesystem.mounts", "/proc/self/mountinfo#*", "filesystem-* docker-disk", "a mount"),
    Exempt("filesystem.plan", "/etc/fstab*", "filesystem-expected", "a mount that is wanted"),
    Exempt("filesystem.mounts", "/*", "filesystem-*", "a mount that was asked"),
    Exempt("gpu.pci", "*", "gpu-count hca-present disk-nvme-* fleet-pci-driver fleet-disk-sizes",
           "a device on the bus, by its file; without its class it is another"),
    Exempt("hca.sysfs", "/sys/class/infiniband_*/ibdev*", "port-devices", "a device for user space"),
    Exempt("host.dimms", "#Memory", "host-dimm-*", "the head of a module's block"),
    Exempt("host.own-name", "#*", "host-own-name", "an address of the name"),
    Exempt("host.resolver", "/etc/resolv.conf#*", "host-resolver", "a name server"),
    Exempt("host.swap", "/proc/swaps#*", "host-swap", "a swap area"),
    Exempt("module.loaded", "/proc/modules#*", "module-*", "a module"),
    Exempt("netdev.sysfs", "/proc/net/bonding/bondN", "bond-* fleet-bond netdev-*", "a bond"),
    Exempt("netdev.*", "/proc/net/bonding/bondN#Slave", "bond-* fleet-bond netdev-*", "a member of a bond"),
    Exempt("netdev.sysfs", "*/device/uevent*", "fleet-bond netdev-* fleet-netdev-*",
           "it makes an interface that of a PCI device"),
    Exempt("netdev.routes", "*#*", "fleet-addressing", "a route or an address"),
    Exempt("roce.sysfs", "*/net/railN/mtu", "fleet-rdma-binding", "an interface of the device, by its file"),
    Exempt("numa.nodes", "*/cpulist#*", "numa-*", "a node of memory only has an empty list"),
    Exempt("numa.devices", "*/numa_node", "numa-*", "a device, by the only file that is read of it"),
    Exempt("pcie.config", "*/config", "pcie-* fleet-pcie-config",
           "a function, by the only file that is read of it"),
    Exempt("pcie.config", "*#driver", "pcie-* fleet-pcie-config",
           "a function that no driver runs is judged as no adapter"),
    Exempt("process.tasks", ".*", "process-* limits-*", "a process"),
    Exempt("nvme.temperature", "*/tempN_alarm", "disk-smart-temperature",
           "without the kernel's alarm smartctl's counts"),
    Exempt("raid.md", "*/dev-*/state", "raid-degraded", "a member of an array"),
    Exempt("raid.zfs", "*/state", "zpool-healthy", "a pool"),
    Exempt("service.units", "#*", "service-*", "a unit"),
    Exempt("disk.smart", "/sys/class/nvme/nvmeN", "disk-smart-*", "a disk that smartctl was asked of"),
    Exempt("disk.smart", "/sys/block/sd?", "disk-smart-*", "a disk that smartctl was asked of"),
    Exempt("disk.scsi", "*/removable", "disk-*", "it says that a disk is fixed"),
    Exempt("disk.scsi", "*/iodone_cnt", "disk-scsi-*", "a disk, by its counter"),
)

# Where a fault of one part is known only by a reading of another.
TOGETHER = (
    Exempt("nvme.sysfs", "*/[at][dr]*", "disk-nvme-driven",
           "which drive has no controller is known only where each controller says its drive"),
    Exempt("netdev.sysfs", "*/speed*", "netdev-speed", "of two interfaces one is slow by the other's speed"),
    Exempt("port.sysfs", "*/device/uevent*", "hca-present port-count",
           "which adapter has no device is known only where each device says its adapter"),
)

# Where nonsense is noticed and absence is not said, and why the rule may pass all the same.
SILENT = (
    *THINGS,
    Exempt("container.config", "toolkit*", "docker-gpu-runtime", "a program, by our own reader's list"),
    Exempt("cpu.throttle", "*/max_perf_pct", "cpu-frequency-setting",
           "with intel_pstate=per_cpu_perf_limits there is none "
           "(Documentation/admin-guide/pm/intel_pstate.rst)"),
    Exempt("cpu.governor", "*", "cpu-governor*", "a frequency policy, by the only file that is read of it"),
    Exempt("cpu.throttle", "*/temp*", "cpu-temperature",
           "a package's sensor, by its file; not all have a limit of their own"),
    Exempt("cpu.throttle", "*/acpi_cppc/*", "cpu-frequency-*", "few kinds of firmware say it"),
    Exempt("cpu.throttle", "*/cpufreq/*", "cpu-frequency-* fleet-cpu-frequency",
           "some of the CPUs are sampled"),
    Exempt("cpu.throttle", "*/physical_package_id", "cpu-throttled",
           "some of the CPUs are sampled, more than one of each package"),
    Exempt("disk.smart", "*.device*", "disk-smart-*", "it only says whom smartctl asked"),
    Exempt("disk.smart", "*.scsi_error_counter_log.*", "disk-smart-unrecovered",
           "drives count what they do: not all verify"),
    Exempt("hca.sysfs", "*/device/../max_*", "hca-pcie-*", "below a root complex there is no slot to read"),
    Exempt("nvme.sysfs", "*/device/../max_*", "disk-nvme-pcie*",
           "below a root complex there is no slot to read"),
    Exempt("nvme.temperature", "*/temp*", "disk-nvme-temperature disk-smart-temperature",
           "a drive has a limit, an alarm, or both"),
    Exempt("optics.hwmon", "*/temp*", "optics-*", "a sensor, by its file"),
    Exempt("pcie.iommu", "*/type", "pcie-iommu", "a device's group, by the only file that is read of it"),
    Exempt("port.counters", "*", "port-errors-* port-retries port-counter-full",
           "drivers have some of the table's counters"),
    Exempt("port.sysfs", "*/gids/N", "port-gid roce-gid", "tables are of different lengths"),
    Exempt("port.sysfs", "*/pkeys/N", "port-pkey", "tables are of different lengths"),
    Exempt("roce.*", "*", "roce-*", "drivers have some of the counters, and tables are of different lengths"),
    Exempt("host.sysctl", "*", "fleet-sysctl", "a setting that this kernel does not have"),
    Exempt("memory.edac", "*", "memory-ecc-*", "drivers show what their controllers count"),
    Exempt("nvme.sysfs", "*/transport", "disk-nvme-* fleet-disk-sizes",
           "a drive that does not say is in the machine; only one over a network says another"),
    Exempt("netdev.routes", "/proc/net/if_inetN", "fleet-addressing",
           "a kernel without IPv6 has no such file"),
    Exempt("netdev.sysfs", "/proc/net/bonding/*", "netdev-* fleet-addressing",
           "without a bond an interface is compared by itself"),
)


def exempt(table: Iterable[Exempt], probe: str, called: str, rule: str) -> bool:
    """Whether one of these is about it."""
    return any(one.names(probe, called, rule) for one in table)


def of_subject(probe: str, rule: str) -> bool:
    """Whether this rule is about what the probe reads."""
    return any(among(rule, rules) for pattern, rules in SUBJECTS.items() if fnmatchcase(probe, pattern))
