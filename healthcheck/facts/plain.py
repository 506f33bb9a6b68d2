"""What people call facts and their fields, whose own names are for programs."""

from __future__ import annotations

# Where the words are not the name's own without its underscores.
_NAMES = {
    "bmc_log": "event log of the management controller",
    "bmc_log_use": "use of the management controller's log",
    "bmc_sensors": "sensors of the management controller", "cdi_specs": "CDI specifications",
    "container_gpus": "GPUs of containers", "cri_ready": "readiness of the container runtime",
    "gpu_links": "NVLinks by GPU", "gpu_loads": "GPUs under load", "gpu_pairs": "pairs of GPUs",
    "gpu_presence": "counts of GPUs", "imex_domain": "IMEX domain", "imex_nodes": "IMEX nodes",
    "mount_answers": "answers of mounts", "numa_nodes": "NUMA nodes",
    "nvlink5_errors": "NVLink 5 error counters",
    "nvlink_errors": "NVLink error counters", "nvlink_fabric_log": "log of the Fabric Manager",
    "nvme_bus": "NVMe devices on PCI", "nvme_heat": "temperatures of NVMe devices",
    "nvme_namespaces": "NVMe namespaces", "own_name": "addresses of the node's own name",
    "pci_bus": "NVIDIA devices on PCI", "pcie_config": "PCI Express settings",
    "pcie_errors": "PCI Express error counters", "port_fatal_counters": "fatal counters of ports",
    "port_job_counters": "counters of ports that jobs move", "port_rate_counters": "error rates of ports",
    "raid_batteries": "batteries of RAID controllers", "raid_controllers": "RAID controllers",
    "raid_drives": "drives of RAID controllers", "raid_volumes": "volumes of RAID controllers",
    "rdma_binding": "drivers of RDMA adapters", "roce_ports": "RoCE ports", "scsi_disks": "SCSI disks",
    "xid_table": "Xid table",
}
_WORDS = {"ecc": "ECC", "gpu": "GPU", "gsp": "GSP", "mig": "MIG", "pci": "PCI", "pcie": "PCI Express",
          "sram": "SRAM", "dram": "DRAM", "dcgm": "DCGM", "cpu": "CPU", "crc": "CRC",
          "c2c": "C2C", "sm": "SM", "ber": "BER", "dbm": "dBm"}
_UNITS = ("bytes", "c", "gbps", "hours", "mhz", "ns", "percent", "s", "watts")       # of a field


def plain(name: str) -> str:
    """A fact's or field's name in words; one without underscores is one already."""
    if "_" not in name:
        return name
    words = name.split("_")
    if words[-1] in _UNITS:
        del words[-1]
    return _NAMES.get(name) or " ".join(_WORDS.get(word, word) for word in words)
