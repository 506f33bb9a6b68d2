"""One node whose kernel log grows, rotates and loses records, swept by the code of `muster check --store`
with files of its own."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, cast

import pytest

from healthcheck.collector import reply
from healthcheck.config.rulesfolder import packaged
from healthcheck.kernellog.carried import RepairStatement
from healthcheck.model.outcome import NodeReport, Result
from healthcheck.model.recording import Recording
from healthcheck.report.progress import progress
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.store import repairs
from healthcheck.store.file import opened
from healthcheck.store.readings import NodeReadings, readings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.sweep import sweep
from healthcheck.sweep.snapshots import KeptSnapshots
from inventory.model import Node
from inventory.transport.base import Limits, Reply
from tests.healthcheck import machine

NAME = "gpu001"
NODE = Node(name=NAME, sku="hgx-h100")
GPU = "0000:18:00"
HOUR = 3600.0
START = 1_800_000_000.0
XID = "NVRM: Xid (PCI:{pci}): {number}, pid='<unknown>', name=<unknown>, {rest}"
# ends: boot
FALLEN = XID.format(pci=GPU, number=79, rest="GPU has fallen off the bus.")
# ends: reset
ECC = XID.format(pci=GPU, number=48, rest="DBE (double bit error) ECC Error")
# ends: repair
POWER = XID.format(pci=GPU, number=54, rest="AUX power not connected")
# ends: quiet 24h
TIMED_OUT = "nvme nvme0: I/O 12 QID 3 timeout, aborting"
RESET = f"muster: GPU {GPU}.0 was reset"
WANTS_RESET = XID.format(pci=GPU, number=154,
                         rest="GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")


@cache
def rules() -> Ruleset:
    """The packaged rules that read a kernel log, and one of hardware."""
    return load_ruleset([packaged()]).select(only=("kernel-*", "disk-log-*", "hca-log*", "gpu-count"))


@cache
def _probes() -> frozenset[str]:
    """Whose captures these rules read."""
    return frozenset(probe.id for probe in rules().probe_set(45.0).probes)


class _Local:
    """In the place of a transport: gives replies, and in them recordings as they are."""

    def __init__(self, looks: Sequence[Recording]) -> None:
        self._looks = looks

    def run(self, nodes: Sequence[Node], payload: object, limits: Limits) -> Iterator[Any]:
        for look in self._looks:
            yield Reply(look.node, cast("bytes", look), None, 0.0, 0.0)


@dataclass
class LogWorld:
    """The node's log is `records`: number, microseconds since boot, priority and text. `now` is the time
    since START in seconds; `shown` the boot that the node names instead of its own, `note` what the collector
    adds to the log."""

    folder: Path
    patch: pytest.MonkeyPatch
    boot: str = "b00t-1"
    booted: float = 0.0
    now: float = 1000.0
    records: list[tuple[int, int, int, str]] = field(default_factory=list)
    next: int = 0
    more: dict[str, Any] = field(default_factory=dict)
    shown: str | None = None
    note: str = ""

    def say(self, *texts: str, root: bool = False) -> None:
        """The kernel, or root, writes these a second apart."""
        for text in texts:
            self.now += 1
            self.records.append((self.next, int((self.now - self.booted) * 1e6), 12 if root else 4, text))
            self.next += 1

    def chatter(self, lines: int = 3) -> None:
        """What a healthy node says now and then."""
        self.say(*["systemd[1]: Started Daily tasks."] * lines, root=True)

    def rotate(self, keep: int = 0) -> None:
        """The kernel overwrites what it held but for the newest; something it always holds."""
        if not keep:
            self.chatter(1)
        self.records = self.records[-max(keep, 1):]

    def lose(self, *texts: str) -> None:
        """These are written and overwritten before anybody reads them."""
        self.say(*texts)
        self.rotate()

    def reboot(self) -> None:
        """Another boot, of a healthy machine."""
        self.boot, self.booted, self.records, self.next = f"{self.boot}.", self.now, [], 0
        self.chatter()

    def recording(self) -> Recording:
        """What the collector says now."""
        if not self.records:
            self.chatter()
        log = "".join(f"{priority},{number},{at},-;{text}\n" for number, at, priority, text in self.records)
        up = f"{self.now - self.booted:.2f} 1.0\n"
        kmsg = replace(machine.done(**{"/dev/kmsg": log}), note=self.note)
        changes = {"kernel_log": kmsg, "host_uptime": machine.done(**{"/proc/uptime": up}), **self.more}
        found = machine.recording(NAME, **changes)
        assert found.host is not None
        boot = self.boot if self.shown is None else self.shown
        return replace(found, received=START + self.now,
                       captures={name: one for name, one in found.captures.items() if name in _probes()},
                       host=replace(found.host, boot_id=boot, time=START + self.now))

    def sweep(self, minutes: float = 11, *, profiles: tuple[str, ...] = ("bringup",),
              only: tuple[str, ...] = ()) -> NodeReport:
        """`muster check --store`, so many minutes later."""
        self.now += minutes * 60
        look = self.recording()
        found: dict[str, NodeReadings] = {}
        self.patch.setattr(reply, "decode", lambda answer, limit=0: answer.body)
        self.patch.setattr(sweep, "within", lambda recording, probes: recording)
        plan = sweep.SweepPlan([NODE], rules().select(only=only) if only else rules(), profiles=profiles)
        transport: Any = _Local([look])
        outcome = sweep.live(plan, transport, sweep.limits(None, 1), progress(1, "x", quiet=True),
                             snapshots=KeptSnapshots(self.folder),
                             on_recording=lambda one: found.update({one.node: readings(one)}),
                             repairs=repairs.words_in(self.folder))
        assert not outcome.troubles
        with self.store() as store:
            known = record(store, SweepRecord(START + self.now, START + self.now, False, "test", "digest",
                                              profiles, bool(only)),
                           outcome.assessed.reports, found)
        return known[0]

    def store(self) -> Any:
        return opened(self.folder, make=True)

    def repaired(self, component: str = "all") -> int:
        """A person's word; how much it ended."""
        self.now += 1
        with self.store() as store:
            found, _ = repairs.meant(store, NAME, component)
            with store.writing() as db:
                repairs.say(db, NAME, component, found, "mended", "ada", START + self.now)
            return len(found)

    def forget(self) -> None:
        """The looks folder is gone; the store is not."""
        shutil.rmtree(self.folder / "snapshots", ignore_errors=True)

    def alive(self) -> set[str]:
        """The rules of log faults that the store holds to."""
        with self.store() as store:
            return {one.rule for one in repairs.logged(store, NAME)}

    def state(self) -> str:
        """What the store calls the node."""
        with self.store() as store:
            return str(store.rows("SELECT state FROM spell WHERE ended IS NULL")[0][0])

    def words(self) -> Mapping[str, tuple[RepairStatement, ...]]:
        return repairs.words_in(self.folder)


def failing(report: NodeReport) -> dict[str, Result]:
    """By rule what fails and is no information."""
    return {one.rule: one for one in report.results if one.status.value == "fail"
            and one.severity.value != "info"}


