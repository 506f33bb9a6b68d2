"""The metrics of each node, as rows of each family.

A node without a fresh snapshot is `unknown`, never seen or not lately. Older values are not shown as
current: states, results, temperatures are left out. Counters continue, as they count past events.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from healthcheck.exporter.source import NodeNow, fresh
from healthcheck.model.exposition import COUNTER, GAUGE, MetricFamily, Row, Sample
from healthcheck.model.outcome import NodeState, Status
from healthcheck.store.newest import EXPLAINED, Newest, NotPassed, Packed
from healthcheck.store.telemetry import Telemetry

INFO = MetricFamily("muster_node_info", GAUGE, "A node's location, role and SKU from the inventory, else the "
                                               "SKU by which it was judged; always 1.",
                    ("leaf", "node", "nvlink_domain", "power", "profile", "rack", "sku"))
LIFECYCLE = MetricFamily("muster_node_lifecycle", GAUGE,
                         "A node's lifecycle from the inventory; always 1. Only service counts in alerts.",
                         ("lifecycle", "node"))
STATE = MetricFamily("muster_node_state", GAUGE,
                     "Whether a node is in this state, by its newest result; unknown if that is not fresh.",
                     ("node", "state"))
NEWEST = MetricFamily("muster_node_newest_result_timestamp_seconds", GAUGE,
                      "When the sweep of a node's newest result began, in seconds since 1970; 0 for "
                      "none.",
                      ("node",))
STALE = MetricFamily("muster_node_stale", GAUGE, "Whether a node has no fresh result: its newest is too old, "
                                                 "or there is none.", ("node",))
RESULTS = MetricFamily("muster_node_results", GAUGE,
                       "Rules by status in a node's newest result; explained: unknown only because of what "
                       "another rule found, such as a lost GPU.",
                       ("node", "status"))
UNSEEN = MetricFamily("muster_node_probes_unseen", GAUGE,
                      "Probes without a result in a node's newest snapshot.", ("node",))
PROBING = MetricFamily("muster_node_probe_seconds", GAUGE,
                       "Total duration of the probes in a node's newest snapshot.", ("node",))
SOFTWARE = MetricFamily("muster_node_software_info", GAUGE,
                        "The versions that a node runs, from its newest snapshot; always 1.",
                        ("driver", "kernel", "node"))
XIDS = MetricFamily("muster_node_xids_total", COUNTER, "Xids in a node's kernel log, over all snapshots.",
                    ("node",))
ECC = MetricFamily("muster_node_gpu_ecc_uncorrected_errors_total", COUNTER,
                   "Uncorrectable memory errors of a node's GPUs between snapshots.", ("node",))
REMAPS = MetricFamily("muster_node_gpu_row_remaps_total", COUNTER,
                      "Memory rows that a node's GPUs remapped between snapshots.", ("cause", "node"))
SLOWDOWN = MetricFamily("muster_node_gpu_slowdown_seconds_total", COUNTER,
                        "Time that a node's GPUs were throttled between snapshots, summed over GPUs.",
                        ("node", "reason"))
POWER = MetricFamily("muster_node_gpu_power_watts", GAUGE,
                     "Power of all GPUs of a node in its newest snapshot.", ("node",))
GPU = MetricFamily("muster_gpu_info", GAUGE, "A GPU and its location; always 1.",
                   ("gpu", "model", "node", "pci", "serial", "uuid", "vbios"))
TEMPERATURE = MetricFamily("muster_gpu_temperature_celsius", GAUGE,
                           "A GPU's temperature in its node's newest snapshot.", ("node", "pci"))
CORRECTED = MetricFamily("muster_gpu_ecc_corrected_errors_total", COUNTER,
                         "Corrected memory errors of a GPU over the life of its board.", ("node", "pci"))
DOWNED = MetricFamily("muster_port_link_downed_total", COUNTER,
                      "How often a port's link went down, by its own counter, which stays at 255.",
                      ("node", "pci", "port"))
CORDONED = MetricFamily("muster_node_cordoned", GAUGE,
                        "Our cordon on a node, by who set it (triage or person); always 1.",
                        ("backend", "by", "node"))
BY_NUMBER = MetricFamily("muster_node_xids_by_number_total", COUNTER,
                         "Xids by their number; one that was never seen on a node has no series.",
                         ("node", "xid"))
NOT_PASSED = MetricFamily("muster_node_rule_not_passed", GAUGE,
                          "A rule that failed or could not be judged in a node's newest result, without what "
                          "is explained and did not fail before; worst first "
                          "if there are too many: how "
                          "many things it found wrong, and 0 where it was not measured.",
                          ("node", "owner", "rule", "severity", "status"))

# In the order of the page. The last exist only for problems, so their number varies.
FAMILIES = (INFO, LIFECYCLE, STATE, NEWEST, STALE, RESULTS, UNSEEN, PROBING, SOFTWARE, XIDS, ECC, REMAPS,
            SLOWDOWN, POWER, GPU, TEMPERATURE, CORRECTED, DOWNED, CORDONED, BY_NUMBER, NOT_PASSED)
_AT = {family.name: number for number, family in enumerate(FAMILIES)}
_STATUSES = (*(status.value for status in Status), EXPLAINED)
_SEVERITIES = ("critical", "warning", "info")
_TOTALS = (("ecc_uncorrected", ECC, ()), ("rows_corrected", REMAPS, ("corrected",)),
           ("rows_uncorrected", REMAPS, ("uncorrected",)))
_SLOW = (("slow_thermal", "thermal"), ("slow_power_brake", "power_brake"))


@dataclass(frozen=True)
class NodeMetrics:
    """One node's rows in the order of FAMILIES; of rules that did not pass, worst first.

    `probes` are (ids, outcomes, seconds) of a fresh snapshot; nodes with equal probes
    share one tuple of ids."""

    of: tuple[tuple[Row, ...], ...]
    probes: tuple[tuple[str, ...], tuple[str, ...], Sequence[float]]


_SHARED: dict[tuple[str, ...], tuple[str, ...]] = {}
_MOST_SHARED = 1024


def rows(at: NodeNow, now: float, stale: float) -> NodeMetrics:
    """All rows of one node."""
    newest = at.newest.opened() if isinstance(at.newest, Packed) else at.newest
    is_fresh = fresh(newest, now, stale)
    found: tuple[list[Row], ...] = tuple([] for _ in FAMILIES)
    for family, row in _samples(at, newest, is_fresh):
        found[_AT[family.name]].append(row)
    probes = newest.shown.probes if newest is not None and is_fresh else ()
    ids, outcomes = _shared(tuple(probe[0] for probe in probes)), _shared(tuple(probe[1] for probe in probes))
    seconds = array("d", (probe[2] for probe in probes))
    return NodeMetrics(tuple(map(tuple, found)), (ids, outcomes, seconds))


def _shared(words: tuple[str, ...]) -> tuple[str, ...]:
    if len(_SHARED) >= _MOST_SHARED:
        _SHARED.clear()
    return _SHARED.setdefault(words, words)


def _samples(at: NodeNow, newest: Newest | None, is_fresh: bool) -> Iterator[Sample]:
    name, node = at.name, at.node
    if node is not None:
        # Alerts compare within a SKU, so one that the inventory leaves out is the one of the judgement.
        sku = node.sku or (newest.sku if newest is not None else None) or ""
        said = (",".join(node.leaf), name, node.nvlink_domain or "", node.power or "", node.profile or "",
                node.rack or "", sku)
        yield INFO, INFO.sample(1, *said)
        yield LIFECYCLE, LIFECYCLE.sample(1, node.lifecycle.state.value, name)
    else:
        yield INFO, INFO.sample(1, "", name, "", "", "", "",
                                (newest.sku if newest is not None else None) or "")
        yield LIFECYCLE, LIFECYCLE.sample(1, "service", name)
    state = newest.state if newest is not None and is_fresh else NodeState.UNKNOWN.value
    for each in NodeState:
        yield STATE, STATE.sample(each.value == state, name, each.value)
    yield NEWEST, NEWEST.sample(newest.time if newest is not None else 0, name)
    yield STALE, STALE.sample(not is_fresh, name)
    for backend, by in at.cordons:
        yield CORDONED, CORDONED.sample(1, backend, by, name)
    if newest is None:
        return
    for key, family, labels in _TOTALS:
        if key in newest.totals:
            yield family, family.sample(newest.totals[key], *labels, name)
    for key, reason in _SLOW:
        if key in newest.totals:
            yield SLOWDOWN, SLOWDOWN.sample(newest.totals[key], name, reason)
    if newest.xids is not None:
        yield XIDS, XIDS.sample(sum(newest.xids.values()), name)
        for number, count in newest.xids.items():
            yield BY_NUMBER, BY_NUMBER.sample(count, name, number)
    if not is_fresh:
        return
    if newest.stage is None:
        for status in _STATUSES:
            yield RESULTS, RESULTS.sample(newest.statuses.get(status, 0), name, status)
        for one in ranked(newest.not_passed):
            yield NOT_PASSED, NOT_PASSED.sample(one.findings, name, one.owner, one.rule, one.severity,
                                                one.status)
    if newest.probes_unseen is not None:
        yield UNSEEN, UNSEEN.sample(newest.probes_unseen, name)
    yield from _shown(name, newest.shown)


def ranked(found: Iterable[NotPassed]) -> list[NotPassed]:
    """Failed before unmeasured, then by severity."""
    return sorted(found, key=lambda one: (one.status != Status.FAIL.value, _SEVERITIES.index(one.severity),
                                          one.rule))


def _shown(name: str, shown: Telemetry) -> Iterator[Sample]:
    if shown.probes:
        yield PROBING, PROBING.sample(sum(seconds for _, _, seconds in shown.probes), name)
    if shown.driver or shown.kernel:
        yield SOFTWARE, SOFTWARE.sample(1, shown.driver, shown.kernel, name)
    # A duplicate address from a node counts once.
    gpus = {gpu.pci: gpu for gpu in shown.gpus}
    for gpu in gpus.values():
        yield GPU, GPU.sample(1, str(gpu.index), gpu.model, name, gpu.pci, gpu.serial, gpu.id, gpu.vbios)
        if gpu.temperature is not None:
            yield TEMPERATURE, TEMPERATURE.sample(gpu.temperature, name, gpu.pci)
        if gpu.ecc_corrected_lifetime is not None:
            yield CORRECTED, CORRECTED.sample(gpu.ecc_corrected_lifetime, name, gpu.pci)
    watts = [gpu.watts for gpu in gpus.values() if gpu.watts is not None]
    if watts and len(watts) == len(gpus):
        yield POWER, POWER.sample(sum(watts), name)
    for port in {(port.pci, port.name): port for port in shown.ports}.values():
        if port.link_downed is not None:
            yield DOWNED, DOWNED.sample(port.link_downed, name, port.pci, port.name)
