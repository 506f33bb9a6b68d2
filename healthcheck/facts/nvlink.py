"""NVLink facts: what NVML says of each link, of its errors, and of who may reach whose memory.

A GPU that was not read, or that has no such links or counters at all, is one subject ("GPU 5 NVLinks"), so that it is told once.
"""

from __future__ import annotations

from dataclasses import dataclass

from healthcheck.facts.base import Fact


@dataclass(frozen=True)
class GpuLinks(Fact):
    """How many NVLinks a GPU has, and how many of them are up; UNSUPPORTED where NVML knows no NVLink on it."""

    name: str
    index: int
    links: int
    active: int


@dataclass(frozen=True)
class NvLink(Fact):
    """One NVLink of one GPU ("GPU 3 NVLink 7"). Speed and remote end mean something only while it is `active`.

    `gigabytes_per_second` is one direction's (NVML's field 164, in MB/s, by 1000); `version` is NVML's number of the generation, not
    the generation; `remote_type` is gpu, npu, switch or unknown; `remote_pci` is as the kernel writes it.
    """

    name: str
    gpu: int
    link: int
    active: bool
    version: int
    gigabytes_per_second: float
    remote_type: str
    remote_pci: str


@dataclass(frozen=True)
class NvLinkErrors(Fact):
    """The error counters of one NVLink up to its fourth generation, since the driver was loaded; Blackwell has `NvLink5Errors`."""

    name: str
    gpu: int
    link: int
    replay: int
    recovery: int
    crc_flit: int
    crc_data: int
    ecc_data: int


@dataclass(frozen=True)
class NvLink5Errors(Fact):
    """The error counters of one NVLink of the fifth generation; UNSUPPORTED, one subject a GPU, on what is older.

    A bit error ratio is a share of all bits: 1.5e-254 stands for none.
    """

    name: str
    gpu: int
    link: int
    malformed_packets: int
    buffer_overruns: int
    rx_errors: int
    local_integrity_errors: int
    link_recovery_failed: int
    link_recovery_events: int
    effective_errors: int
    effective_ber: float
    symbol_errors: int
    symbol_ber: float


@dataclass(frozen=True)
class GpuPair(Fact):
    """Whether one GPU may read, write and reach over NVLink the memory of another ("GPU 0 to GPU 3"); each order is a pair.

    Each is an nvmlGpuP2PStatus_t in lower case: ok, chipset_not_supported, gpu_not_supported, ioh_topology_not_supported,
    disabled_by_regkey, not_supported, unknown. A GPU that is alone is one subject, for which there is nothing to support.
    """

    name: str
    gpu: int
    peer: int
    read: str
    write: str
    nvlink: str
