"""Plants the commonest faults of the machine around the GPUs: CPUs, main memory, processes, limits, PCI
Express links.

In the run of Llama 3 405B (table 5 of its paper) 13 of 419 unplanned stops were a CPU's, 6 main memory's, and
hung or corrupted file systems another handful; forms of files and lines are those of the kernel that the
modules of the facts name.
"""

from __future__ import annotations

from provisioning.demo import hostfiles
from provisioning.demo.h100 import GPUS, HCAS, MEMORY_KB, device_folder
from provisioning.demo.hostfiles import CPU, EDAC, NUMA
from provisioning.demo.machine import DemoMachine
from tests.scenarios import node as scenario
from tests.scenarios.plant import files, plant, planted, says
from tests.scenarios.repair import reboot, wait

HUGE, CLOCKS = "/sys/kernel/mm/hugepages/hugepages", "/sys/devices/system/clocksource/clocksource0"
_OURS = (CPU, EDAC, NUMA, HUGE, CLOCKS, "/sys/devices/pci", "/proc/")


def _mend(node: DemoMachine) -> None:
    """Files are as on the healthy node again, but for what goes on counting."""
    healthy = scenario.machine(node.name).files
    for path in [path for path in node.files if path.startswith(_OURS) and "_count" not in path
                 and "/aer_dev_" not in path]:
        if path in healthy:
            node.files[path] = healthy[path]
        else:
            del node.files[path]


def _cold_boot(node: DemoMachine) -> None:
    """Powered off, the part replaced, powered on: every counter and the log begin anew."""
    node.files |= scenario.machine(node.name).files
    _mend(node)
    reboot(node)


def _day_later(node: DemoMachine) -> None:
    _mend(node)
    wait(node, 25)


plant("cpu-taken-away", "Two CPUs were taken offline after corrected errors of their cache.", _cold_boot,
      files({f"{CPU}/online": "0-16,18-128,130-223\n"}))


@planted(_mend)
def cpu_throttled_for_heat(node: DemoMachine) -> None:
    """The second socket was throttled 212 times since the last look."""
    for path in node.files:
        if (path.endswith("package_throttle_count")
            and hostfiles.package(int(path.split("/cpu")[2].partition("/")[0])) == 1):
            node.files[path] = "216\n"


def _board_replaced(node: DemoMachine) -> None:
    """The board went to the vendor; the node came back with another, of Intel's CPUs."""
    node.files = {path: text for path, text in node.files.items() if "/k10temp/" not in path
                  and not path.endswith(("/bios_limit", "/nominal_freq"))}
    _cold_boot(node)


@planted(_board_replaced)
def amd_cpu_throttled(node: DemoMachine) -> None:
    """The second socket, an AMD CPU, is at 97 C; the board lets both run at 1500 MHz at most, and at work
    they reach 544."""
    for path in [path for path in node.files if "/thermal_throttle/" in path or "/coretemp/" in path
                 or path.endswith("/base_frequency")]:
        del node.files[path]
    for socket, millidegrees in enumerate((71125, 97125)):
        place = f"/sys/bus/pci/drivers/k10temp/0000:00:{0x18 + socket:x}.3/hwmon/hwmon{4 + socket}"
        node.files[f"{place}/temp1_input"] = f"{millidegrees}\n"
    node.files |= {f"{CPU}/cpufreq/policy{policy}/bios_limit": "1500000\n" for policy in range(8)}
    node.files |= {f"{CPU}/cpu0/acpi_cppc/nominal_freq": "2400\n",
                   f"{CPU}/cpufreq/policy0/scaling_cur_freq": "544000\n",
                   "/proc/loadavg": "119.20 96.31 60.24 118/2931 41206\n"}


@planted(_mend)
def cpu_saves_power(node: DemoMachine) -> None:
    """An update set every CPU's governor to powersave."""
    node.files |= {path: "powersave\n" for path in node.files if path.endswith("/scaling_governor")}


plant("turbo-off", "Somebody switched turbo off.", _mend, files({f"{CPU}/intel_pstate/no_turbo": "1\n"}))


@planted(_mend)
def frequency_set_low(node: DemoMachine) -> None:
    """A power daemon set every CPU to 2.4 GHz at most, which is above the base frequency."""
    node.files |= {path: "2400000\n" for path in node.files if path.endswith("/scaling_max_freq")}


plant("single-core-hot",
      "One core of the first socket was throttled for its own heat, and its package was not.", _mend,
      files({f"{CPU}/cpu20/thermal_throttle/core_throttle_count": "31\n"}))


def _quota(node: DemoMachine) -> None:
    """The limit is taken away; the group keeps its counters."""
    _mend(node)


plant("services-stopped-by-a-quota",
      "System services together may use two cores, and stand still for half of the time.", _quota,
      files({"/sys/fs/cgroup/system.slice/cpu.stat": hostfiles.QUOTA.format(periods=14000, throttled=3012)}))
plant("clock-read-from-hpet", "The kernel found the TSC unstable and reads the time from the HPET.", _mend,
      files({f"{CLOCKS}/current_clocksource": "hpet\n",
             f"{CLOCKS}/available_clocksource": "hpet acpi_pm \n"}))


@planted(_mend)
def memory_in_pieces(node: DemoMachine) -> None:
    """Half of the memory is free, and lies in pages of 4 KiB between the kernel's own."""
    small = MEMORY_KB // 4 // 4
    node.files["/proc/buddyinfo"] = "".join(f"Node {number}, zone   Normal {small}" + " 0" * 10 + " \n"
                                            for number in range(2))


@planted(_mend)
def one_socket_full(node: DemoMachine) -> None:
    """Files in /dev/shm fill the memory beside the first socket."""
    path = f"{NUMA}/node0/meminfo"
    total = node.files[path].partition("\n")[0]
    node.files[path] = total + "".join(f"\nNode 0 {name}: {kib} kB" for name, kib in (
        ("MemFree", 4096000), ("Active(file)", 0), ("Inactive(file)", 102400),
        ("SReclaimable", 204800))) + "\n"


plant("huge-pages-left-behind", "A program that was killed left 32 GiB of huge pages in a file.", _mend,
      files({f"{HUGE}-1048576kB/nr_hugepages": "32\n", f"{HUGE}-1048576kB/free_hugepages": "0\n"}))


@planted(_cold_boot)
def dimm_lost(node: DemoMachine) -> None:
    """A DIMM of 64 GiB beside the second socket was disabled at boot."""
    left = MEMORY_KB - 64 * 1024 * 1024
    node.files["/proc/meminfo"] = node.files["/proc/meminfo"].replace(str(MEMORY_KB), str(left))
    node.files[f"{NUMA}/node1/meminfo"] = f"Node 1 MemTotal:       {MEMORY_KB // 2 - 64 * 1024 * 1024} kB\n"


@planted(_cold_boot)
def dimm_uncorrected(node: DemoMachine) -> None:
    """A DIMM met an uncorrected error, of which a page was taken out of use."""
    node.files |= {f"{EDAC}/mc2/dimm4/dimm_ue_count": "1\n", f"{EDAC}/mc2/ue_count": "1\n"}
    node.files["/proc/meminfo"] = node.files["/proc/meminfo"].replace("HardwareCorrupted:       0",
                                                                      "HardwareCorrupted:       4")
    node.say(
        "EDAC MC2: 1 UE memory read error on CPU_SrcID#0_MC#2_Chan#1_DIMM#0 (channel:1 slot:0 page:0x8a21 "
        "offset:0x0 grain:32)", 0)


@planted(_cold_boot)
def dimm_corrects(node: DemoMachine) -> None:
    """A DIMM corrected 400 errors since the last look, and the kernel logged 60 of them."""
    node.files |= {f"{EDAC}/mc5/dimm0/dimm_ce_count": "401\n", f"{EDAC}/mc5/ce_count": "401\n"}
    for _ in range(60):
        node.say(
            "EDAC MC5: 1 CE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x1f "
            "offset:0x0 grain:32)", 3)


@planted(_mend)
def memory_not_given_back(node: DemoMachine) -> None:
    """A job's files in /dev/shm hold half of the memory, and the job has ended."""
    lines = node.files["/proc/meminfo"].splitlines(keepends=True)
    node.files["/proc/meminfo"] = "".join(f"MemAvailable: {MEMORY_KB // 2} kB\n"
                                          if line.startswith("MemAvailable") else line for line in lines)


@planted(_mend)
def memory_reserved(node: DemoMachine) -> None:
    """Somebody reserved 400 GiB of huge pages, and uses none of them."""
    pages = 200 * 1024
    node.files["/proc/meminfo"] = node.files["/proc/meminfo"].replace(
        "HugePages_Total:       0", f"HugePages_Total:  {pages}").replace("HugePages_Free:        0",
                                                                          f"HugePages_Free:   {pages}")


plant("killed-for-memory",
      "The kernel killed a training process that had grown past its job's limit.", _day_later,
      says("python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0", 4),
      says(
          "Memory cgroup out of memory: Killed process 30417 (python3) total-vm:812345678kB, "
          "anon-rss:402653184kB, UID:1001", 3))


def _asleep(node: DemoMachine, pid: int, name: str) -> None:
    node.files |= {
        f"/proc/{pid}/stat": hostfiles.stat(pid, name, "D", 900),
        f"/proc/{pid}/wchan": "rpc_wait_bit_killable",
        f"/proc/{pid}/status": f"Name:\t{name}\nState:\tD (disk sleep)\nvoluntary_ctxt_switches:\t818\n"
                               f"nonvoluntary_ctxt_switches:\t3\n",
    }


plant("stuck-on-a-dead-server",
      "A process waits for a file server that is gone, and nobody can kill it; after two minutes the kernel "
      "says so, too.", _cold_boot,
      says("INFO: task python3:30418 blocked for more than 120 seconds.", 3),
      before=lambda node: _asleep(node, 30418, "python3"))


@planted(_cold_boot, before=lambda node: _asleep(node, 911, "nvidia-smi"))
def driver_wedged(node: DemoMachine) -> None:
    """nvidia-smi has waited in the driver since before the last look."""


plant("zombies", "A daemon does not wait for its children: 1,200 of them have ended.", _mend,
      files({f"/proc/{pid}/stat": hostfiles.stat(pid, "health-probe", "Z", 900)
             for pid in range(50000, 51200)}))
plant("files-all-open", "A leak has filled the kernel's table of open files.", _mend,
      files({"/proc/sys/fs/file-nr": "1048000\t0\t1048576\n"}))
plant("slurmd-may-not-lock-memory",
      "slurmd was started without its unit's limits: ranks cannot register memory for RDMA.", _mend,
      files({"/proc/2210/limits": hostfiles.limits("8388608", 1024)}))
plant("pcie-link-corrects", "The port above GPU 4 corrected 9,000 errors since the last look.", _mend,
      files({f"{device_folder(GPUS[4]).rpartition('/')[0]}/aer_dev_correctable": hostfiles.aer("correctable",
                                                                                               9002)}))
plant("pcie-link-lost",
      "An adapter's link went down by surprise and came back; the adapter counts a lost transaction as well.",
      _cold_boot,
      files({f"{device_folder(HCAS[6]).rpartition('/')[0]}/aer_dev_fatal": hostfiles.aer("fatal", 1)}),
      files({f"{device_folder(HCAS[6])}/aer_dev_nonfatal": hostfiles.aer("nonfatal", 2)}))
plant("affinity-lost", "After a firmware update nothing says on which NUMA node GPU 7 sits.", _mend,
      files({f"{device_folder(GPUS[7])}/numa_node": "-1\n"}))


@planted(_mend)
def iommu_translates(node: DemoMachine) -> None:
    """The node was booted without iommu=pt."""
    node.files |= {path: "DMA-FQ\n" for path in node.files if path.endswith("/iommu_group/type")}
