"""Driver checks: whether it comes up, and whether its parts fit together.

The remedy of a refusal depends on its cause, so the finding has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import NotJudged, NotMeasured, Peers, check
from healthcheck.facts.driver import Driver
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.port import Port
from healthcheck.facts.service import Services
from healthcheck.facts.unanswered import Unanswered
from healthcheck.model.outcome import Finding, Owner

_REMEDIES = {
    "not-loaded": (
        "Load the module (modprobe nvidia) and read the kernel log for why it was not: a kernel update "
        "without the rebuilt module, a module that Secure Boot refused, nouveau in its place.",
        Owner.OPERATOR),
    "mismatch": (
        "Drain. The libraries were updated under a loaded module: unload and load the nvidia modules, or "
        "reboot; keep unattended updates off the driver's packages.", Owner.OPERATOR),
    "library": (
        "Install the driver's user-space libraries (libnvidia-ml.so.1) of the loaded module's version; where "
        "the driver lives in a container, make its libraries known to the host's linker.", Owner.OPERATOR),
    "no-devices": (
        "Drain and read the kernel log for why the module took none of the GPUs on PCI (RmInitAdapter "
        "failed, BAR too small, Xid 79). Power the node off for a minute; still none, it goes to the vendor.",
        Owner.DATACENTRE),
    "silent": (
        "Drain and read the kernel log for why the driver reaches none of its GPUs (GSP or RmInitAdapter "
        "failures, Xid 79 on all). Reload the driver or reboot; again none, power the node off for a minute.",
        Owner.OPERATOR),
    "crashed": (
        "Drain. Reinstall the driver's user-space libraries: they, or what is left of an older version, end "
        "in a crash with this module.", Owner.OPERATOR),
}


@check("driver.loads", answers=True)
def driver_loads(driver: Driver) -> Iterator[Finding]:
    """NVIDIA's driver comes up: it does not refuse NVML, or else nvidia-smi, and reaches a GPU. A timeout is
    not a refusal."""
    if not driver.loads:
        remedy, owner = _REMEDIES.get(driver.cause, ("", None))
        yield Finding(driver.trouble, "a driver that answers", remedy=remedy, owner=owner)


@check("driver.answers", answers=True)
def driver_answers(driver: Driver, unanswered: Unanswered, *, snapshots: int) -> Iterator[Finding]:
    """The driver, and each GPU of it, answered within the collector's limits in at least one of the last
    `snapshots` snapshots of this boot. One slow answer is not a fault; a driver that hangs is."""
    for subject, reason, number in unanswered.hung:
        if number >= snapshots:
            yield Finding(f"{reason}; so in {number} snapshots in a row", "an answer", subject=subject)
    for subject, reason, number in unanswered.hung:
        if number < snapshots:
            raise NotMeasured(driver, f"{subject}: {reason} ({number} of {snapshots} snapshots in a row)")
    if unanswered.unasked:
        raise NotMeasured(driver, unanswered.unasked)
    if not unanswered.hung and not driver.loads:
        return      # it refused, which is an answer


@check("driver.nvml")
def driver_nvml(driver: Driver) -> Iterator[Finding]:
    """NVML's library can be loaded by its name and fits the driver, where the driver is up: else monitoring,
    containers and job prologs see no GPU, though nvidia-smi does."""
    if driver.nvml_trouble:
        yield Finding(f"{driver.nvml_trouble}, while nvidia-smi answers", "an NVML that answers")
    elif driver.caveat or not driver.loads:
        raise NotJudged(driver.caveat or "the driver does not come up")


@check("driver.module_matches")
def driver_module_matches(driver: Driver) -> Iterator[Finding]:
    """The driver's library and the loaded module are of one version; the driver itself reports whether they
    are."""
    if driver.loads or driver.cause in ("no-devices", "silent"):
        return
    if driver.cause != "mismatch":
        raise NotMeasured(driver, f"the driver does not come up: {driver.trouble}", asked=(driver.name,))
    yield Finding(driver.trouble, "library and module of one version")


@check("driver.peermem")
def driver_peermem(driver: Driver, ports: Peers[Port]) -> Iterator[Finding]:
    """A node with RDMA ports lets its adapters reach GPU memory: nvidia-peermem is loaded, or DMA-BUF is
    possible.

    DMA-BUF needs the open kernel module and Linux 5.12 or newer. Without either, every message goes through
    the host's memory.
    """
    if not driver.loads:
        raise NotMeasured(driver, "the driver does not come up", asked=(driver.name,))
    number = len(ports.where(lambda port: port.number > 0))
    if number and not driver.peermem_loaded and not driver.dmabuf:
        yield Finding(f"no nvidia-peermem, no DMA-BUF, and {number} RDMA ports", "one of the two")


@check("driver.persistence_daemon")
def driver_persistence_daemon(gpu: Gpu, services: Services) -> Iterator[Finding]:
    """Something keeps the driver's state between jobs: persistence mode on every GPU, or
    nvidia-persistenced."""
    if not gpu.persistence and services.persistenced.active != "active":
        observed = f"persistence mode is off, nvidia-persistenced is {services.persistenced.description}"
        yield Finding(observed, "one of the two is on")


@check("driver.gsp")
def driver_gsp(gpu: Gpu, driver: Driver) -> Iterator[Finding]:
    """Every GPU's system processor runs firmware of the driver's version; a GPU without that firmware is not
    judged."""
    if not driver.loads:
        raise NotMeasured(driver, "the driver does not come up", asked=(driver.name,))
    if gpu.gsp_firmware != driver.version:
        yield Finding(f"GSP firmware {gpu.gsp_firmware}", f"{driver.version}, as the driver")
