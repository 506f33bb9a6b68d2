"""The driver fact: whether NVIDIA's driver comes up, in its own words, and whether its parts fit together.

/sys/module and /proc/driver/nvidia are the driver's own interfaces (NVIDIA Linux driver README, chapters on
/proc and on the open kernel modules). Sharing GPU memory through DMA-BUF needs the open kernel module and
Linux 5.12 (NVIDIA GPU Operator documentation, "GPUDirect RDMA and GPUDirect Storage", prerequisites).
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace
from typing import Any

from healthcheck.facts import smi
from healthcheck.facts.base import Captures, fact, why
from healthcheck.facts.files import CapturedFiles
from healthcheck.facts.gpu import NVML, PCI, on_pci, silence
from healthcheck.facts.nvml_output import DRIVER, error_of, reading
from healthcheck.facts.parsing import matching, searched
from healthcheck.facts.smi import SMI
from healthcheck.facts.values import UNSUPPORTED, Fact, Unmeasured, Unread
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Outcome
from inventory.text import clean

MODULE = "/sys/module/nvidia/version"
PROC = "/proc/driver/nvidia/version"
PARAMS = "/proc/driver/nvidia/params"
PEERMEM = ("/sys/module/nvidia_peermem/initstate", "/sys/module/nv_peer_mem/initstate")
UVM = "/sys/module/nvidia_uvm/initstate"
OSRELEASE = "/proc/sys/kernel/osrelease"
FILES = Probe("driver.module", ProbeKind.FILES, paths=(MODULE, PROC, PARAMS, *PEERMEM, UVM, OSRELEASE))

DMABUF_KERNEL = (5, 12)

# Why a driver does not come up, by nvmlReturn_t (nvml.h); checks choose the remedy by these words.
CAUSES = {6: "no-devices", 9: "not-loaded", 12: "library", 18: "mismatch"}
# Errors of the query itself: permission, a timeout, the control device blocked by a cgroup, no memory.
_NO_VERDICT = (-1, 4, 10, 17, 20)
# What the process that asked finds on its own path: no library, or one without the function. Whether the
# driver is up is then for the second source to say.
_OF_OUR_VIEW = (12, 13)
# What the reader's first line holds of a driver that came up: without any of it nothing was said of one.
_OF_HEAD = frozenset(("driver", "nvml", "cuda", "count"))


class Driver(Fact):
    """The node's NVIDIA driver; all UNSUPPORTED where there is no NVIDIA GPU and no driver.

    `loads` is False where the driver itself refused or no GPU answers it, with its message in `trouble` and
    `cause` one of not-loaded, mismatch, library, no-devices, silent, crashed and refused. `nvml_trouble` is
    NVML's refusal of a driver that nvidia-smi shows to be up (the library that programs find by its name is
    none, or not this driver's), else empty. `version` is the loaded module's as NVML has it,
    `library_version` that of the library beside it. `dmabuf` says whether GPU memory can be shared with an
    RDMA adapter without nvidia-peermem.
    """

    name: str
    loads: bool
    trouble: str
    cause: str
    version: str
    library_version: str
    cuda: str
    module_version: str
    open_module: bool
    gsp_enabled: bool
    peermem_loaded: bool
    dmabuf: bool
    uvm_loaded: bool
    nvml_trouble: str
    caveat: str


_version = matching(r"[0-9]{1,4}(\.[0-9]{1,4}){1,4}")
_NVRM_VERSION = re.compile(r"\A[^\n]*? ([0-9]{3,4}\.[0-9.]{1,12})(?:\s|\Z)")
_GSP = re.compile(r"^EnableGpuFirmware: ([0-9]{1,10})$", re.MULTILINE)


def _open(text: str) -> bool:
    """Parses "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build ..."."""
    line = text.splitlines()[0]
    if not line.startswith("NVRM version:"):
        raise ValueError(text)
    return " Open Kernel Module " in line


def _proc_version(text: str) -> str:
    return _version(searched(_NVRM_VERSION, text)[1])


def _gsp(text: str) -> Any:
    """Parses "EnableGpuFirmware: 18": 0 is off; 18 leaves it to the driver, GPU by GPU (NVIDIA driver README,
    "GSP firmware")."""
    found = searched(_GSP, text)
    if found[1] == "0":
        return False
    return (True if found[1] in ("1", "17")
            else Unmeasured("the driver decides GPU by GPU whether it uses the GSP"))


def _kernel(text: str) -> tuple[int, int]:
    major, minor = text.split(".")[:2]
    return int(major), int(re.match(r"[0-9]{1,6}", minor)[0])  # type: ignore[index]


def _loaded(files: CapturedFiles, *paths: str) -> Any:
    """Whether a kernel module is loaded, by its own folder; Unmeasured where that was not captured."""
    if not all(path in files for path in paths):
        return Unmeasured(f"{paths[0]} was not captured")
    return any(files.has(path) for path in paths)


@dataclass(frozen=True)
class _DriverReport:
    """What NVML or nvidia-smi reports of the driver: `loads` is None where there is no verdict, and `trouble`
    then says why."""

    loads: bool | None
    trouble: str = ""
    cause: str = ""
    head: Any = None
    caveat: str = ""
    code: int = 0
    nvml: str = ""


def _by_nvml(captures: Captures) -> _DriverReport:
    capture = captures.capture(NVML)
    if (capture is None or capture.outcome not in (Outcome.DONE, Outcome.TIMEOUT, Outcome.TRUNCATED)
            or "\n" not in capture.text):
        crashed = capture is not None and capture.outcome is Outcome.CRASHED and capture.exit is not None
        return _DriverReport(None, why(NVML, capture), "crashed" if crashed else "")
    head = json.loads(capture.text[:capture.text.find("\n")])
    if not isinstance(head, dict):
        return _DriverReport(None, "the NVML reader's answer is not in our format")
    if head.get("error") is None and not _OF_HEAD.isdisjoint(head):
        return _DriverReport(True, head=head)
    error = error_of(head)
    if error is None:
        return _DriverReport(None, "NVML failed to start")
    return _refusal(error[0], f"NVML: {clean(error[1], 100)}")


def _refusal(code: int, words: str) -> _DriverReport:
    if code in _NO_VERDICT:
        return _DriverReport(None, words)
    return _DriverReport(False, words, CAUSES.get(code, "refused"), code=code)


def _by_smi(captures: Captures) -> _DriverReport:
    refusal = smi.trouble(captures)
    if refusal is not None:
        return _refusal(refusal[0], f"nvidia-smi: {refusal[1]}")
    capture = captures.capture(SMI)
    if capture is not None and capture.outcome is Outcome.CRASHED and capture.exit is not None:
        return _DriverReport(None, why(SMI, capture), "crashed")
    try:
        return _DriverReport(True, head=captures.once(smi.log).head)
    except Unread as error:
        return _DriverReport(None, str(error))


def _verdict(captures: Captures) -> _DriverReport:
    """NVML's report, else nvidia-smi's. A driver that lists GPUs for nvidia-smi is up, whatever NVML has
    said: NVML's refusal is then the library's that this process found. Where both crash, the library does not
    work with this driver."""
    first = _by_nvml(captures)
    if first.loads:
        return first
    second = _by_smi(captures)
    asked = (capture := captures.capture(SMI)) is not None and capture.outcome is not Outcome.MISSING
    if first.loads is False:
        listed = reading(second.head, "count", int, "nvidia-smi") if second.loads else 0
        if isinstance(listed, int) and listed > 0:
            return replace(second, caveat=f"reported by nvidia-smi ({first.trouble})", nvml=first.trouble)
        if first.code not in _OF_OUR_VIEW or not asked or second.code in _OF_OUR_VIEW:
            return first
    if second.loads is not None:
        return replace(second, caveat=f"reported by nvidia-smi ({first.trouble})")
    if first.cause == second.cause == "crashed":
        return _DriverReport(False, f"{first.trouble}; {second.trouble}", "crashed")
    return _DriverReport(None, f"{first.trouble}; {second.trouble}" if asked else first.trouble)


def _loads(report: _DriverReport, on_pci: Any, module: Any, asked: bool,
           silent: str) -> tuple[Any, str, str]:
    """Whether the driver came up, its trouble and the cause. Without a GPU on PCI NVML was not asked, and no
    driver is needed. `silent` are its words where none of the GPUs that it lists answers."""
    if report.loads is None:
        return (UNSUPPORTED if on_pci == 0 and not asked else Unmeasured(report.trouble)), "", ""
    if report.loads and on_pci and isinstance(on_pci, int) and reading(report.head, "count", int) == 0:
        return (False, f"No devices were found: {on_pci} GPUs are on PCI, and the driver lists none",
                CAUSES[smi.NO_DEVICES])
    if report.loads and silent:
        count = reading(report.head, "count", int)
        words = f"the driver lists {count} GPU{'s' * (count != 1)}, and none answers: {silent}"
        return False, words, "silent"
    trouble = report.trouble
    if report.cause == "mismatch" and isinstance(module, str):
        trouble += f"; the loaded module is {module}"
    return report.loads, trouble, report.cause


def _dmabuf(open_module: Any, kernel: Any) -> Any:
    if open_module is not True:
        return open_module
    return kernel if isinstance(kernel, Unmeasured) else kernel >= DMABUF_KERNEL


@fact("driver", NVML, SMI, PCI, FILES)
def driver(captures: Captures) -> Driver:
    """The driver by NVML (else nvidia-smi), the kernel and the PCI bus."""
    parts = captures.once(_parts)
    report, module = _verdict(captures), parts["module_version"]
    refused = (DRIVER,) if report.loads is False else ()
    reported: dict[str, Any] = {key: reading(report.head, key, str) if report.head
                                else Unmeasured(report.trouble, asked=refused)
                                for key in ("driver", "nvml", "cuda")}
    nvml = captures.capture(NVML)
    loads, trouble, cause = _loads(report, captures.once(on_pci), module,
                                   nvml is None or nvml.outcome is not Outcome.MISSING,
                                   captures.once(silence) if report.loads else "")
    # NVML's own version is CUDA's major number and the driver version that it belongs to: 12.550.54.15.
    library: Any = (reported["nvml"].partition(".")[2]
                    if isinstance(reported["nvml"], str) else reported["nvml"])
    return Driver(
        name="driver", loads=loads, trouble=trouble, cause=cause,
        version=reported["driver"] if isinstance(reported["driver"], str) else module,
        library_version=library, cuda=reported["cuda"], nvml_trouble=report.nvml,
        caveat=report.caveat, **parts,
    )


def _parts(captures: Captures) -> dict[str, Any]:
    """The fields that come from the kernel's files."""
    files = captures.files(FILES)
    module: Any = UNSUPPORTED
    if files.has(MODULE) or files.has(PROC):
        module = files.read(MODULE, _version) if files.has(MODULE) else files.read(PROC, _proc_version)
    open_module: Any = files.optional(PROC, _open)
    return {
        "module_version": module, "open_module": open_module, "gsp_enabled": files.optional(PARAMS, _gsp),
        "peermem_loaded": _loaded(files, *PEERMEM),
        "dmabuf": _dmabuf(open_module, files.read(OSRELEASE, _kernel)),
        "uvm_loaded": _loaded(files, UVM),
    }
