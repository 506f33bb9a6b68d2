"""What muster must say of each fault of the machine around the GPUs, by its name alone."""

from __future__ import annotations

from collections.abc import Mapping

from tests.scenarios.expect import Expected, only, together

EXPECTED: Mapping[str, Expected] = {
    "cpu-taken-away": together(
        only("cpu-offline", "CPUs", "2 offline: 17, 129|all 224 online", "bring it back|vendor", "warning"),
        only("cpu-count", "CPUs", "222 of 224 online|224", "compare lscpu", owner="vendor")),
    "cpu-throttled-for-heat": only("cpu-throttled", "CPU package 1", "throttled 212 times", "fans|heat sink",
                                   "warning", "datacentre"),
    "amd-cpu-throttled": together(
        only("cpu-temperature", "CPU package 1", "97.125 C|at most 95 C", "fans|heat sink", "warning",
             "datacentre"),
        only("cpu-frequency-cap", "CPU frequency", "1500 MHz|bios_limit|2400 MHz", "power cap|BMC", "warning",
             "datacentre"),
        only("cpu-frequency-low", "CPU frequency", "544 MHz|53% load", "PROCHOT|power supplies", "warning",
             "datacentre")),
    "cpu-saves-power": only("cpu-governor", "CPU frequency", "powersave on 8 of 8|performance",
                            "cpupower", "info"),
    "turbo-off": together(
        only("cpu-turbo", "CPU turbo", "off (no_turbo)|on", "no_turbo|expected: false", "warning"),
        only("fleet-turbo", "CPU turbo", "off|on, as on 7 of 8 nodes", "as on the others", "info")),
    "frequency-set-low": only("cpu-frequency-setting", "CPU frequency", "2400 MHz|3800 MHz",
                              "cpupower frequency-set -u", "warning"),
    "single-core-hot": only("cpu-core-throttled", "CPU package 0", "CPU 20 of 6|31 times", "heat sink",
                            "warning", "datacentre"),
    "services-stopped-by-a-quota": only("cpu-quota", "control group system.slice",
                                        "50 % of 6000 periods|at most 25 %", "CPUQuota", "warning"),
    "clock-read-from-hpet": only("host-clock-source", "clock source", "hpet", "TSC unstable|BIOS", "warning"),
    "memory-in-pieces": only("memory-fragmented", "NUMA node", "0.0 %|2 MiB", "compact_memory", "warning"),
    "one-socket-full": only("numa-free", "NUMA node 0", "0.4 % of its memory|at least 2 %",
                            "numastat|/dev/shm", "warning", "user"),
    "huge-pages-left-behind": only("memory-hugepages-leaked", "huge pages", "32.0 GiB|mapped by no process",
                                   "hugetlbfs|ipcs", "warning"),
    "dimm-lost": together(
        only("host-memory", "memory", "1952 GiB|of 2048 GiB", "reseat|replace", owner="vendor"),
        only("numa-memory", "NUMA node 1", "about", "reseat|replace", "warning", "vendor")),
    "dimm-uncorrected": together(
        only("memory-ecc-uncorrected", "DIMM CPU_SrcID#0_MC#2_Chan#1_DIMM#0", "1 uncorrected",
             "drain|replace the dimm", owner="vendor"),
        only("memory-poisoned", "memory", "4 KiB out of use", "replace the dimm|reboot keeps the page",
             "warning", "vendor"),
        only("kernel-hardware-error", "edac-", "1 UE memory read error", "drain|dimm", owner="vendor")),
    "dimm-corrects": together(
        only("memory-ecc-corrected", "DIMM CPU_SrcID#1_MC#1_Chan#0_DIMM#0", "corrected in 10 min",
             "reseat the dimm|replace", "warning", "vendor"),
        only("kernel-hardware-corrected", "kernel log", "60 in 24 h|at most 24", "dimm",
             "warning", "vendor")),
    "memory-not-given-back": only("memory-left-over", "memory", "50 % available|70 %", "/dev/shm", "warning"),
    "memory-reserved": only("memory-hugepages", "huge pages", "400.0 GiB|10 %",
                            "vm.nr_hugepages=0", "warning"),
    "killed-for-memory": only("kernel-told", "oom-", "python3", "memory", "info", "user"),
    "stuck-on-a-dead-server": together(
        only("process-stuck", "python3, process 30418", "rpc_wait_bit_killable for 10 min",
             "file server|reboot the drained", "warning"),
        only("kernel-trouble", "hung-task", "python3:30418 blocked for more than 120 seconds",
             "file system|reboot the node", "warning")),
    "driver-wedged": only("process-stuck-driver", "nvidia-smi, process 911", "for 10 min",
                          "drain the node and reboot"),
    "zombies": only("process-zombies", "processes", "1200 zombies, mostly health-probe|at most 1000",
                    "restart the parent", "warning"),
    "files-all-open": only("process-files", "open files", "1048000|80 % of 1048576",
                           "fs.file-max", "warning"),
    "slurmd-may-not-lock-memory": together(
        only("limits-memlock", "slurmd, process 2210", "8192 KiB|unlimited",
             "LimitMEMLOCK=infinity", "warning"),
        only("limits-nofile", "slurmd, process 2210", "1024 open files|65536", "LimitNOFILE", "warning")),
    "pcie-link-corrects": only(
        "pcie-aer-correctable", "above nvidia 0000:9d:00.0", "corrected errors a minute|at most 32",
        "reseat the board", "warning", "datacentre"),
    "pcie-link-lost": together(
        only("pcie-aer-fatal", "above mlx5_core 0000:ce:00.0", "1 fatal errors", "drain|reseat",
             owner="datacentre"),
        only("pcie-aer-nonfatal", "mlx5_core 0000:ce:00.0", "2 uncorrected errors", "reseat", "warning",
             "datacentre")),
    "affinity-lost": only("numa-affinity", "nvidia 0000:df:00.0", "on no NUMA node|one of 2",
                          "BIOS|NCCL_TOPO_FILE", "warning", "vendor"),
    "iommu-translates": only("pcie-iommu", "nvidia 0000:1b:00.0 and 15 more", "DMA-FQ|identity",
                             "iommu=pt", "info"),
}
