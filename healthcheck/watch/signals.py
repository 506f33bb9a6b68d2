"""What a node says beside a job's step times: signals, each a measurement over some time, for a cause. It
counts only beyond its `least` and beyond the job's other nodes: a whole fleet at its cap explains nothing."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from healthcheck.watch.model import StepPhase, WatchCause

_COMPUTE = (StepPhase.FORWARD, StepPhase.BACKWARD)
_NETWORK = (StepPhase.COMMUNICATION,)
_HOST = (StepPhase.DATA, *_COMPUTE)


class SignalKind(Enum):
    """What is measured: its words, the cause that it speaks for, from how much on, the phases that it can
    slow, and its unit. Shares are of time, rates of the time between two samples."""

    THERMAL = ("time in thermal slowdown", WatchCause.THERMAL, 0.05, _COMPUTE, "%")
    THERMAL_SEEN = ("samples in thermal slowdown", WatchCause.THERMAL, 0.5, _COMPUTE, "%")
    POWER_BRAKE = ("time in hardware power slowdown", WatchCause.POWER, 0.05, _COMPUTE, "%")
    POWER_CAP = ("time below full clocks at the power cap", WatchCause.POWER, 0.20, _COMPUTE, "%")
    POWER_SEEN = ("samples in power slowdown or at the power cap", WatchCause.POWER, 1.0, _COMPUTE, "%")
    CLOCKS = ("clocks below those of the other GPUs", WatchCause.POWER, 0.07, _COMPUTE, "%")
    CORRECTED = ("corrected memory errors", WatchCause.CORRECTED_MEMORY, 1.0, _HOST, "/s")
    LINK_DOWN = ("link downs", WatchCause.LINK, 1 / 3600, _NETWORK, "/s")
    LINK_ERRORS = ("errors on a link", WatchCause.LINK, 0.1, _NETWORK, "/s")
    LINK_SPEED = ("link below its own speed before, or others' of its kind", WatchCause.LINK, 0.2, _NETWORK,
                  "%")
    NVLINK_ERRORS = ("replays and recoveries of an NVLink", WatchCause.LINK, 0.1, _NETWORK, "/s")
    RETRANSMITS = ("segments sent again by TCP", WatchCause.LINK, 0.002, _NETWORK, "%")
    REPEATS = ("timeouts and repeats of an RDMA port", WatchCause.LINK, 0.1, _NETWORK, "/s")
    PCIE = ("PCIe link below its own best", WatchCause.PCIE, 0.25, _HOST, "%")
    PCIE_REPLAYS = ("PCIe replays", WatchCause.PCIE, 1.0, _HOST, "/s")
    ADAPTER_PCIE = ("PCIe link of an adapter below its own best", WatchCause.PCIE, 0.25, _NETWORK, "%")
    MEMORY_PRESSURE = ("time with tasks stalled for memory", WatchCause.HOST_MEMORY, 0.05, _HOST, "%")
    SWAPPING = ("pages swapped in", WatchCause.HOST_MEMORY, 50.0, _HOST, "/s")
    CPU_PRESSURE = ("time with tasks waiting for a CPU", WatchCause.CPU, 0.20, _HOST, "%")
    CPU_STEAL = ("CPU time stolen by the hypervisor", WatchCause.CPU, 0.05, _HOST, "%")
    CPU_QUOTA = ("time throttled by a CPU quota", WatchCause.CPU, 0.05, _HOST, "%")
    IO_PRESSURE = ("time with tasks stalled for disks", WatchCause.STORAGE, 0.10,
                   (StepPhase.DATA, StepPhase.CHECKPOINT), "%")
    DISK_LATENCY = ("time of a disk request", WatchCause.STORAGE, 0.05,
                    (StepPhase.DATA, StepPhase.CHECKPOINT), "s")

    def __init__(self, words: str, cause: WatchCause, least: float, phases: tuple[StepPhase, ...],
                 unit: str) -> None:
        self.words, self.cause, self.least, self.phases, self.unit = words, cause, least, phases, unit

    @property
    def of_path(self) -> bool:
        """Whether it counts what was lost on the way to a peer: at either host's link, or between them."""
        return self in (SignalKind.RETRANSMITS, SignalKind.REPEATS)

    def shown(self, value: float) -> str:
        """The value in words, such as `time in thermal slowdown 34 %`."""
        if self.unit == "%":
            return f"{self.words}: {100 * value:.3g} %"
        return f"{self.words}: {value:.3g}{self.unit if self.unit == '/s' else ' ' + self.unit}"


@dataclass(frozen=True, slots=True)
class NodeSignal:
    """One measurement of one host between two times (epoch seconds); `part` names the device. A share has
    the value 1 for all of the time. `gpu` are the names (`gpu_name`) of the GPU that it is of: its PCI
    address, UUID and number; empty for what is of no GPU. `beside` is what else people want to know of it."""

    host: str
    kind: SignalKind
    value: float
    since: float
    until: float
    part: str = ""
    gpu: frozenset[str] = frozenset()
    beside: str = ""


def gpu_name(text: str) -> str:
    """A PCI address, UUID or number of a GPU in the form in which they are compared: lower case, without the
    zeros before a PCI domain and without the "GPU-" that some write before a UUID."""
    name = text.strip().lower().removeprefix("gpu-")
    return f"{name.lstrip('0').rjust(12, '0')}" if name.count(":") == 2 else name
