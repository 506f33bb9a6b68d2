"""Checks of RDMA adapters: that each on the bus works, its PCI Express link, its firmware, and its reports in
the kernel log.

Lines are those of mlx5_core (drivers/net/ethernet/mellanox/mlx5/core: health.c, events.c, cmd.c).
NVIDIA/NVSentinel (syslog detection) and gpud (its infiniband component) decide which of them mean a lost
adapter and which need a person's attention.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping

from healthcheck.checks.base import NotJudged, Peers, check, fleet_check, selection
from healthcheck.checks.fleet import Comparison, by_peers
from healthcheck.checks.kernel_lines import evidence, quoted, when
from healthcheck.checks.port import INFINIBAND, compute_ports, odd_ones
from healthcheck.facts.hca import Adapter, AdapterBus, Hca
from healthcheck.facts.kernel import KernelLine, KernelLog, MessagePattern
from healthcheck.facts.port import Port
from healthcheck.facts.site import PortPlans
from healthcheck.kernellog.ending import Ending, EndKind
from healthcheck.model.outcome import Finding, LogEvidence, Owner


@selection("compute_adapters")
def compute_adapters(hcas: tuple[Hca, ...], ports: Peers[Port], port_plans: PortPlans) -> list[Hca]:
    """The adapters of the compute ports."""
    devices = {port.device for port in compute_ports(ports, port_plans)}
    return [hca for hca in hcas if hca.device in devices]


@check("hca.present")
def hca_present(adapter_bus: AdapterBus, *, expected: int) -> Iterator[Finding]:
    """Every InfiniBand adapter on the PCI bus has a driver and an RDMA device.

    So has every Ethernet adapter of a model if another one of that model on the node has; where none has,
    RDMA is not in use. Of other makers than NVIDIA (Broadcom, Intel, AMD, Amazon) more than half must have
    one, since RDMA is switched on by port there. A machine whose SKU has no port is not judged; nor is an
    adapter whose device is that of the other function of its card (RoCE LAG), or that was passed on (DPDK,
    virtual machines).
    """
    wanted = {adapter.kind for adapter in adapter_bus.adapters if adapter.rdma and (adapter.own or _most_have(
        [other for other in adapter_bus.adapters if other.kind == adapter.kind and not other.elsewhere]))}
    for adapter in adapter_bus.adapters if expected else ():
        if not adapter.rdma and not adapter.elsewhere and (adapter.infiniband or adapter.kind in wanted):
            driver = f"driver {adapter.driver}, no RDMA device" if adapter.driver else "no driver bound to it"
            yield Finding(driver, "an RDMA device", f"adapter at {adapter.pci}")


def _most_have(equals: Collection[Adapter]) -> bool:
    return 2 * sum(adapter.rdma for adapter in equals) > len(equals)


@check("hca.pcie_width", over="compute_adapters")
def hca_pcie_width(hca: Hca) -> Iterator[Finding]:
    """The PCI Express link of every compute adapter has as many lanes as adapter and slot support."""
    if hca.width < hca.width_best:
        yield Finding(f"x{hca.width}", f"x{hca.width_best}")


@check("hca.pcie_speed", over="compute_adapters")
def hca_pcie_speed(hca: Hca) -> Iterator[Finding]:
    """The PCI Express link of every compute adapter runs at the rate that adapter and slot support, also when
    idle."""
    if hca.gigatransfers < hca.gigatransfers_best:
        yield Finding(f"{hca.gigatransfers:g} GT/s", f"{hca.gigatransfers_best:g} GT/s")


@check("hca.firmware")
def hca_firmware(hcas: Peers[Hca]) -> Iterator[Finding]:
    """All adapters of the node that are of one board (PSID, or PCI model where the driver shows none) have
    the firmware that most of them have."""
    real = hcas.where(lambda hca: not hca.virtual)
    yield from odd_ones(real, lambda hca: hca.model, lambda hca: hca.firmware, "adapters")


@check("hca.psid", over="compute_adapters")
def hca_psid(hcas: Peers[Hca], port_plans: PortPlans) -> Iterator[Finding]:
    """The planned compute adapters of one PCI model are all of the board (PSID) that most of them are.

    Without a plan, the adapters of storage and compute may rightly be of one model and of two boards.
    """
    if not port_plans.compute:
        raise NotJudged("no plan of the ports says which adapters are for compute")
    yield from odd_ones(hcas, lambda hca: hca.kind, lambda hca: hca.board, "adapters")


@check("port.devices", over="compute_adapters")
def port_devices(hcas: Peers[Hca], ports: Peers[Port], port_plans: PortPlans) -> Iterator[Finding]:
    """Every compute adapter has its device for user space (uverbs), and with an InfiniBand port one for
    management datagrams (umad).

    Without the first no program can use it, without the second perfquery and ibdiagnet cannot.
    """
    layers = Peers(compute_ports(ports, port_plans)).read(lambda port: port.link_layer)
    infiniband = {port.device for port, layer in layers if layer == INFINIBAND}
    for hca, verbs in hcas.read(lambda hca: hca.verbs):
        if not verbs:
            remedy = "modprobe ib_uverbs; if it is there already, restart openibd or reboot."
            yield Finding("no uverbs device", "one", hca.name, remedy)
    for hca, mads in hcas.where(lambda hca: hca.device in infiniband).read(lambda hca: hca.mads):
        if not mads:
            yield Finding("no umad device", "one for each port", hca.name)


_WHO = r"mlx5_core (?P<pci>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])[^\n]{0,120}?"
_LOST = {
    "health compromised": r"device's health compromised",
    "command timeout": r"timeout\. Will cause a leak of a command resource",
    "fatal error": r"Fatal error \d+ detected|Health issue observed, [^\n]{0,80}severity\([0-2]\)",
    "unrecoverable hardware error": r"unrecoverable hardware error",
    "PCI slot unavailable": r"PCI slot is unavailable",
}
_POWER = ("Compare the slot's power limit (lspci -vv, SlotPowerLimit) with what the card needs; some boards "
          "report 0 W and throttle nothing.")
_HEAT = ("Look at the transceiver's temperature (mlxlink -m), fans and blanking panels; reseat or replace "
         "the module.")
_LOOK: Mapping[str, tuple[str, str, Owner]] = {
    "insufficient slot power": (r"Detected insufficient power on the PCIe slot", _POWER, Owner.DATACENTRE),
    "module too hot": (r"Port module event[^\n]{0,60}High Temperature", _HEAT, Owner.DATACENTRE),
    "adapter too hot": (r"High temperature on sensors|[Tt]emperature warning"
                        r"|Health issue observed, High temperature, severity\([3-7]\)",
                        _HEAT, Owner.DATACENTRE),
    "bad cable or module": (r"Port module event\[error\]: module \d+, Cable error",
                            "Clean, reseat or replace cable and transceiver.", Owner.NETWORK),
    "firmware error": (r"Health issue observed, [^\n]{0,80}severity\([3-7]\)", "Keep the firmware's dump "
                       "(devlink health dump show), then reset the adapter.", Owner.VENDOR)}
_UNPLUGGED, _PLUGGED = (r"Port module event: module \d+, Cable unplugged",
                        r"Port module event: module \d+, Cable plugged")
REFUSED_LINES = MessagePattern(_WHO + r"ACCESS_REG[^\n]{0,60}failed", "ACCESS_REG")


def _pattern(parts: Iterable[str], *words: str) -> MessagePattern:
    return MessagePattern(
        _WHO + "(?:" + "|".join(f"(?P<k{number}>{part})" for number, part in enumerate(parts)) + ")", *words)


LOST_LINES = _pattern(
    _LOST.values(), "health compromised", "Will cause a leak of a command resource", "Fatal error ",
    "Health issue observed, ",
    "unrecoverable hardware error", "PCI slot is unavailable",
)
LOOK_LINES = _pattern(
    [pattern for pattern, _, _ in _LOOK.values()], "insufficient power on the PCIe slot", "High Temperature",
    "High temperature on sensors",
    "emperature warning", "Cable error", "Health issue observed, ",
)
_OUT = "Cable unplugged"
MODULE_LINES = _pattern((_UNPLUGGED, _PLUGGED), _OUT, "Cable plugged")
_LONGEST = 160
_EMITTER = "mlx5"


def _lines(log: KernelLog, pattern: MessagePattern, ends: Ending) -> Iterator[tuple[str, int, KernelLine]]:
    """The matching lines that still count: the adapter's address, the number of the pattern's part, and the
    line."""
    for line, found in log.matching(pattern):
        if not ends.over(log.age_hours(line.seconds)):
            kinds = [int(name[1:]) for name, text in found.groupdict().items() if name != "pci" and text]
            yield found["pci"].lower(), kinds[0] if kinds else 0, line


def _by_adapter(log: KernelLog, pattern: MessagePattern, words: tuple[str, ...],
                ends: Ending) -> Iterator[tuple[str, str, str, LogEvidence]]:
    """Lines of one kind and adapter, once: the address, the kind's name, their count with the first, and the
    evidence."""
    found: dict[tuple[str, str], list[KernelLine]] = {}
    for pci, kind, line in _lines(log, pattern, ends):
        found.setdefault((pci, words[kind]), []).append(line)
    for (pci, what), lines in found.items():
        yield pci, what, f"{what}: {quoted(log, lines, _LONGEST)}", evidence(_EMITTER, ends, lines)


@check("hca.log_fatal")
def hca_log_fatal(kernel_log: KernelLog) -> Iterator[Finding]:
    """In this boot, mlx5's driver did not report that an adapter no longer answers or has failed."""
    for pci, _, text, rests_on in _by_adapter(kernel_log, LOST_LINES, tuple(_LOST), Ending(EndKind.BOOT)):
        yield Finding(text, "no such line", f"adapter at {pci}", log=rests_on)


@check("hca.log")
def hca_log(kernel_log: KernelLog, *, hours: float) -> Iterator[Finding]:
    """In the last `hours` of the kernel log, mlx5's driver reports no lack of power, heat, bad cable or
    firmware error.

    No cable was unplugged either, unless it was plugged in again, or its last event is older than `hours` or
    overwritten.
    """
    quiet = Ending(EndKind.QUIET, hours)
    for pci, what, text, rests_on in _by_adapter(kernel_log, LOOK_LINES, tuple(_LOOK), quiet):
        yield Finding(text, "no such line", f"adapter at {pci}", _LOOK[what][1], _LOOK[what][2], log=rests_on)
    if not kernel_log.contains(_OUT):       # as on nearly all nodes
        return
    last = {pci: (kind, line) for pci, kind, line in _lines(kernel_log, MODULE_LINES, quiet)}
    for pci, (kind, line) in last.items():
        if kind == 0:
            observed = f"cable unplugged {when(kernel_log, line)}, and not plugged in since"
            yield Finding(observed, "plugged in", f"adapter at {pci}",
                          log=evidence(_EMITTER, quiet, [line]))


@check("hca.log_refused")
def hca_log_refused(kernel_log: KernelLog, *, hours: float) -> Iterator[Finding]:
    """Reading counters does not fill the kernel log: a function with restricted rights logs a refusal for
    each reading."""
    counts = Counter(pci for pci, _, _ in _lines(kernel_log, REFUSED_LINES, Ending(EndKind.QUIET, hours)))
    for pci, number in counts.items():
        yield Finding(f"{number} lines say that ACCESS_REG failed", "no such line", f"adapter at {pci}")


@fleet_check("fleet.hca_firmware")
def fleet_hca_firmware(hcas: Mapping[str, tuple[Hca, ...]]) -> Comparison:
    """Every adapter has the firmware that most of the cohort's adapters of the same board have (PSID, or PCI
    model where the driver shows none)."""
    yield from by_peers(hcas, "firmware", lambda hca: None if hca.virtual else (
        f"adapters of board {hca.model}", f"firmware {hca.firmware}"))


@fleet_check("fleet.hca_psid")
def fleet_hca_psid(hcas: Mapping[str, tuple[Hca, ...]]) -> Comparison:
    """Every adapter is of the board (PSID) that most of the cohort's nodes have at the same PCI address."""
    yield from by_peers(hcas, "board", lambda hca: None if hca.virtual else (
        f"nodes at {hca.pci}", f"board {hca.board}"))
