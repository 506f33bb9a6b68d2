"""What a healthy HGX H100 node's kernel says of CPUs, NUMA, memory, processes and PCIe links. Two packages of
56 cores with two threads each; the first half of the devices sits beside the first. Counters are not all at
zero: a corrected memory error and a few corrected errors of links belong to a healthy node."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from provisioning.demo.machine import DemoMachine

CPUS = 224
CPU = "/sys/devices/system/cpu"
NUMA = "/sys/devices/system/node"
EDAC = "/sys/devices/system/edac/mc"
DRIVERS = "/sys/bus/pci/drivers"
# Of a group with a quota: system services together may use some cores only, which suffices.
QUOTA = ("usage_usec 81310450\nuser_usec 60210450\nsystem_usec 21100000\nnr_periods {periods}\n"
         "nr_throttled {throttled}\nthrottled_usec 900123\n")
PROCESSES = {
    1: "systemd", 2: "kthreadd", 17: "migration/0", 1204: "systemd-journal", 1733: "dbus-daemon",
    1801: "nvidia-persiste", 2096: "sshd", 2210: "slurmd", 2304: "containerd", 2388: "dockerd",
    2511: "nv-hostengine", 2620: "nvidia_modeset/"}
LIMITS = {2210: ("unlimited", 131072), 2304: ("8388608", 1048576), 2388: ("8388608", 1048576)}


def install(
    machine: DemoMachine, memory_kb: int, devices: Sequence[tuple[str, str]], folder: Callable[[str], str],
) -> None:
    """Adds them. `devices` are drivers and PCI addresses, `folder` says where sysfs keeps one."""
    # Of its own: others get the numbers that they always had.
    rng = random.Random(f"host {machine.name}")     # noqa: S311  (repeatable on purpose, no secret)
    machine.files.update(_cpus())
    machine.files.update(_numa(memory_kb))
    machine.files.update(_edac(rng))
    machine.files.update(_free(memory_kb))
    machine.files.update(_processes(rng))
    for driver, address in devices:
        _device(machine, driver, address, folder(address), rng)


def _cpus() -> dict[str, str]:
    files = {
        f"{CPU}/present": f"0-{CPUS - 1}\n", f"{CPU}/online": f"0-{CPUS - 1}\n", f"{CPU}/smt/control": "on\n",
        f"{CPU}/cpu0/microcode/version": "0x2b000571\n"}
    for policy in range(8):
        files[f"{CPU}/cpufreq/policy{policy}/scaling_governor"] = "performance\n"
        files |= {f"{CPU}/cpufreq/policy{policy}/{name}": "3800000\n"
                  for name in ("scaling_max_freq", "cpuinfo_max_freq")}
    files |= {f"{CPU}/cpufreq/policy0/base_frequency": "2000000\n",
              f"{CPU}/cpufreq/policy0/scaling_cur_freq": "2900000\n",
              f"{CPU}/cpufreq/policy0/scaling_driver": "intel_pstate\n",
              f"{CPU}/intel_pstate/no_turbo": "0\n", f"{CPU}/intel_pstate/max_perf_pct": "100\n"}
    for socket in range(2):
        sensor = f"/sys/bus/platform/drivers/coretemp/coretemp.{socket}/hwmon/hwmon{4 + socket}"
        files |= {f"{sensor}/temp1_input": f"{58 + socket}000\n", f"{sensor}/temp1_crit": "100000\n"}
    for cpu in range(0, CPUS, 20):
        files[f"{CPU}/cpu{cpu}/topology/physical_package_id"] = f"{package(cpu)}\n"
        files[f"{CPU}/cpu{cpu}/thermal_throttle/package_throttle_count"] = f"{4 * package(cpu)}\n"
        files[f"{CPU}/cpu{cpu}/thermal_throttle/core_throttle_count"] = f"{package(cpu)}\n"
    return files


def package(cpu: int) -> int:
    """The package of a CPU: cores first, then their second threads, as the kernel numbers them."""
    return cpu % (CPUS // 2) // (CPUS // 4)


def _numa(memory_kb: int) -> dict[str, str]:
    files = {f"{NUMA}/online": "0-1\n"}
    for node, total in enumerate((memory_kb // 2 - 8_000_000, memory_kb - memory_kb // 2 + 8_000_000)):
        files[f"{NUMA}/node{node}/cpulist"] = (
            f"{node * 56}-{node * 56 + 55},{112 + node * 56}-{167 + node * 56}\n")
        files[f"{NUMA}/node{node}/meminfo"] = (
            f"Node {node} MemTotal:       {total} kB\nNode {node} MemFree:        {total // 10 * 9} kB\n"
            f"Node {node} Active(file):   8192000 kB\nNode {node} Inactive(file): 40960000 kB\n"
            f"Node {node} SReclaimable:   1024000 kB\n")
    return files


def _free(memory_kb: int) -> dict[str, str]:
    """Free memory, nine tenths of all and nearly all of it in blocks of 4 MiB; no huge pages."""
    largest = memory_kb // 2 // 10 * 9 // 4096
    counts = (900, 450, 210, 90, 40, 20, 11, 6, 3, 2, largest)
    zones = "".join(f"Node {node}, zone {'Normal':>8}" + "".join(f" {count:6}" for count in counts) + " \n"
                    for node in range(2))
    return {"/proc/buddyinfo": zones, **{
        f"/sys/kernel/mm/hugepages/hugepages-{kib}kB/{name}_hugepages": "0\n"
        for kib in (1048576, 2048) for name in ("nr", "free", "resv")}}


def _edac(rng: random.Random) -> dict[str, str]:
    files: dict[str, str] = {}
    once = rng.randrange(8)
    for controller in range(8):
        for dimm in range(2):
            corrected = int(controller == once and dimm == 0)
            at = f"{EDAC}/mc{controller}/dimm{dimm * 4}"
            label = f"CPU_SrcID#{controller // 4}_MC#{controller % 4}_Chan#{dimm}_DIMM#0"
            files |= {
                f"{at}/dimm_label": f"{label}\n", f"{at}/dimm_ce_count": f"{corrected}\n",
                f"{at}/dimm_ue_count": "0\n"}
        files |= {
            f"{EDAC}/mc{controller}/ce_count": f"{int(controller == once)}\n",
            f"{EDAC}/mc{controller}/ue_count": "0\n"}
    return files


def stat(pid: int, name: str, state: str, started: int) -> str:
    """/proc/PID/stat (proc(5))."""
    return (f"{pid} ({name}) {state} 1 {pid} {pid} 0 -1 4194560 0 0 0 0 12 31 0 0 20 0 1 0 {started} 0 0 "
            "18446744073709551615\n")


def limits(memlock: str, nofile: int) -> str:
    """/proc/PID/limits (proc(5)): the lines that are asked for, in the kernel's columns."""
    return (f"{'Limit':<26}{'Soft Limit':<21}{'Hard Limit':<21}Units     \n"
            f"{'Max open files':<26}{nofile:<21}{nofile:<21}files     \n"
            f"{'Max locked memory':<26}{memlock:<21}{memlock:<21}bytes     \n")


def status(uid: int, huge_kib: int = 0) -> str:
    """/proc/PID/status (proc(5)): the lines that are asked for of a process that runs."""
    users = "\t".join([str(uid)] * 4)
    return f"Umask:\t0022\nState:\tS (sleeping)\nUid:\t{users}\nHugetlbPages:\t{huge_kib:8d} kB\n"


def _processes(rng: random.Random) -> dict[str, str]:
    files = {f"/proc/{pid}/stat": stat(pid, name, "S", 100 + pid) for pid, name in PROCESSES.items()}
    files |= {f"/proc/{pid}/status": status(0) for pid in PROCESSES}
    files |= {f"/proc/{pid}/limits": limits(memlock, nofile) for pid, (memlock, nofile) in LIMITS.items()}
    files |= {
        "/sys/fs/cgroup/system.slice/slurmd.service/cpu.stat": QUOTA.format(periods=0, throttled=0),
        "/sys/fs/cgroup/system.slice/cpu.stat": QUOTA.format(periods=8000, throttled=12),
        "/proc/loadavg": f"0.{rng.randrange(10, 90)} 0.31 0.24 1/2931 41206\n",
        "/proc/sys/kernel/pid_max": "4194304\n", "/proc/sys/kernel/threads-max": "16506944\n",
        "/proc/sys/fs/file-nr": f"{rng.randrange(6000, 9000)}\t0\t9223372036854775807\n"}
    return files


_SEVERITIES = {"fatal": "FATAL", "nonfatal": "NONFATAL", "correctable": "COR"}


def aer(kind: str, first: int = 0) -> str:
    """One of a device's files of AER counters; `first` counts the first error of the list."""
    names = ["Receiver Error", "Bad TLP", "Bad DLLP", "RELAY_NUM Rollover", "Replay Timer Timeout",
             "Advisory Non-Fatal"]
    if kind != "correctable":
        names = [
            "Undefined", "Data Link Protocol", "Surprise Down Error", "Poisoned TLP", "Completion Timeout"]
    counts = [f"{name} {first if number == 0 else 0}" for number, name in enumerate(names)]
    return "\n".join((*counts, f"TOTAL_ERR_{_SEVERITIES[kind]} {first}")) + "\n"


def _device(machine: DemoMachine, driver: str, address: str, at: str, rng: random.Random) -> None:
    port = at.rpartition("/")[0]
    bus = int(address[5:7], 16)
    for name, folder, what in ((driver, at, address), ("pcieport", port, port.rpartition("/")[2])):
        machine.links[f"{DRIVERS}/{name}/{what}"] = f"../../../../{folder.removeprefix('/sys/')}"
        for kind in _SEVERITIES:
            machine.files[f"{folder}/aer_dev_{kind}"] = aer(
                kind, rng.choice((0, 0, 0, 2)) if kind == "correctable" else 0)
    machine.files[f"{port}/secondary_bus_number"] = f"{bus}\n"
    machine.files[f"{at}/numa_node"] = f"{bus // 0x80}\n"
    machine.files[f"{at}/iommu_group/type"] = "identity\n"
