"""The newest snapshot of each node: one row per node, overwritten by the next one,
for views of the current fleet.

Beside it stand counters that only grow: what this node's GPUs counted from one look to the next, and the Xids
of its kernel log. A GPU that is lost for a while, or exchanged, or whose driver is loaded again, takes
nothing away from them, as it would from a plain sum. And the rules that failed when they were last measured.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from healthcheck.model.cause import is_explained
from healthcheck.model.outcome import NodeReport, Status
from healthcheck.store.telemetry import MOST_DEVICES, GpuTelemetry, PortTelemetry, Telemetry
from inventory.text import clean

if TYPE_CHECKING:       # an agent keeps the same of its own node, and has no store
    import sqlite3

    from healthcheck.store.file import Store

_NOT_PASSED = (Status.FAIL, Status.UNKNOWN)
# Beside the statuses: unknown for nothing but a critical finding of another rule.
EXPLAINED = "explained"
_MOST_XIDS = 64


@dataclass(frozen=True)
class NotPassed:
    """A rule that failed or could not be judged; `findings` counts what is wrong,
    0 where nothing was measured."""

    rule: str
    status: str
    severity: str
    owner: str
    findings: int


@dataclass(frozen=True)
class Newest:
    """The newest snapshot of one node. `time` is its sweep's, in epoch seconds;
    `stage` is None if it was reached.

    `statuses` counts its results, each once: those under EXPLAINED are unknown, too. `probes_unseen` is how
    many probes brought nothing, None where it was not reached.
    """

    node: str
    time: float
    rules: str
    state: str
    reason: str
    stage: str | None
    sku: str | None
    statuses: Mapping[str, int]
    not_passed: tuple[NotPassed, ...]
    probes_unseen: int | None
    shown: Telemetry
    totals: Mapping[str, float]
    xids: Mapping[str, int] | None
    sku_basis: str = ""


def write(
    db: sqlite3.Connection, node: int, now: float, rules: str, report: NodeReport, seen: Telemetry | None,
) -> None:
    """Replaces the previous snapshot, inside a transaction."""
    row = db.execute("SELECT kept FROM newest WHERE node = ?", (node,)).fetchone()
    snapshot, kept = packed(row[0] if row is not None else None, report, seen)
    db.execute("INSERT INTO newest (node, time, rules, snapshot, kept) VALUES (?, ?, ?, ?, ?) "
               "ON CONFLICT DO UPDATE SET time = excluded.time, rules = excluded.rules, snapshot = "
               "excluded.snapshot, kept = excluded.kept",
               (node, now, rules, snapshot, kept))
    if seen is not None:        # what a node that is not reached ran when it was is known still
        db.execute("UPDATE newest SET driver = ?, kernel = ?, firmware = ? WHERE node = ?",
                   (seen.driver, seen.kernel, firmware(seen), node))


def firmware(seen: Telemetry) -> str:
    """What its GPUs run, as one version of the node."""
    return ", ".join(sorted({gpu.vbios for gpu in seen.gpus if gpu.vbios}))[:80]


def packed(before: str | None, report: NodeReport, seen: Telemetry | None) -> tuple[bytes, str]:
    """The snapshot and the counters as `decoded` takes them;
    `before` are the previous snapshot's counters, if any."""
    held = json.loads(before) if before is not None else {}
    kept = held if seen is None else _kept(held, seen)
    failed = frozenset(held.get("failed", ()))
    if report.results:
        kept = {key: value for key, value in kept.items() if key != "failed"}
        if still := [result.rule for result in report.results if result.status is Status.FAIL
                     or (result.status is Status.UNKNOWN and result.rule in failed)]:
            kept["failed"] = still
    snapshot = zlib.compress(json.dumps(_document(report, seen, failed), separators=(",", ":")).encode(), 1)
    return snapshot, json.dumps(kept, separators=(",", ":"))


@dataclass(frozen=True)
class Packed:
    """A newest snapshot as stored, in a twentieth of the memory."""

    node: str
    time: float
    rules: str
    snapshot: bytes
    kept: str

    def opened(self) -> Newest:
        """The look itself."""
        return decoded(self.node, self.time, self.rules, self.snapshot, self.kept)


def rows(store: Store) -> Iterable[tuple[str, float, str, bytes, str]]:
    """Every node's newest snapshot as stored, for `decoded` or `Packed`."""
    return [tuple(row)
            for row in store.rows(
                "SELECT name, time, rules, snapshot, kept FROM newest JOIN node ON node.id = newest.node")]


def decoded(node: str, time: float, rules: str, snapshot: bytes, kept: str) -> Newest:
    """One row of `rows` as a value."""
    found: dict[str, Any] = json.loads(zlib.decompress(snapshot))
    held: dict[str, Any] = json.loads(kept)
    shown = found["shown"]
    seen = Telemetry() if shown is None else Telemetry(
        tuple((name, outcome, seconds) for name, outcome, seconds in shown["probes"]),
        tuple(GpuTelemetry.from_document(gpu) for gpu in shown["gpus"]),
        tuple(PortTelemetry(**port) for port in shown["ports"]),
        shown["driver"], shown["kernel"], shown["boot"])
    return Newest(node, time, rules, found["state"], found["reason"], found["stage"], found["sku"],
                  found["statuses"], tuple(NotPassed(*each) for each in found["not_passed"]),
                  found["probes_unseen"], seen, held.get("totals", {}), held.get("xids"),
                  found.get("sku_basis", ""))


def _document(report: NodeReport, seen: Telemetry | None, failed: Collection[str]) -> dict[str, Any]:
    """`failed` are the rules that failed when they were last measured: such a fault stands, also where
    another one is why it is not measured any more."""
    statuses = dict.fromkeys((*(status.value for status in Status), EXPLAINED), 0)
    for result in report.results:
        statuses[EXPLAINED if is_explained(result) else result.status.value] += 1
    return {
        "state": report.state.value, "reason": clean(report.reason), "stage": report.stage, "sku": report.sku,
        **({"sku_basis": report.sku_basis} if report.sku_basis else {}),
        "statuses": statuses,
        "not_passed": [(result.rule, result.status.value, result.severity.value,
                        result.owner.value if result.owner is not None else "", len(result.findings))
                       for result in report.results
                       if result.status in _NOT_PASSED
                       and (result.rule in failed or not is_explained(result))],
        "probes_unseen": report.probes.asked - report.probes.captured if report.probes is not None else None,
        "shown": {**vars(seen), "xids": None, "gpus": [gpu.to_document() for gpu in seen.gpus],
                  "ports": [asdict(port) for port in seen.ports]}
        if seen is not None else None,
    }


def _kept(before: Mapping[str, Any], seen: Telemetry) -> dict[str, Any]:
    """The counters including this snapshot's additions."""
    totals: dict[str, float] = dict(before.get("totals", {}))
    gpus: dict[str, dict[str, float]] = dict(before.get("gpus", {}))
    for gpu in seen.gpus:
        held = gpus.pop(gpu.id, {})
        for name, value in gpu.counts.items():
            # A GPU that is seen for the first time brings its past along, which is not this node's; one below
            # its own last word began anew.
            last = held.get(name, value)
            totals[name] = totals.get(name, 0) + (value - last if value >= last else value)
        gpus[gpu.id] = {**held, **gpu.counts}
    kept: dict[str, Any] = {"totals": totals, "gpus": dict(list(gpus.items())[-MOST_DEVICES:])}
    xids: dict[str, int] | None = before.get("xids")
    again = before.get("boot") == seen.boot
    at: float = before.get("xid_at", -1.0) if again else -1.0
    if seen.xids is not None:
        xids = dict(xids or {})
        for seconds, number in seen.xids:
            if seconds > at:
                name = str(number) if str(number) in xids or len(xids) < _MOST_XIDS else "other"
                xids[name] = xids.get(name, 0) + 1
        kept["boot"], kept["xid_at"] = seen.boot, max([at, *(seconds for seconds, _ in seen.xids)])
    else:
        kept["boot"], kept["xid_at"] = ((seen.boot, at) if again
                                        else (before.get("boot"), before.get("xid_at", -1.0)))
    kept["xids"] = xids
    return kept
