"""A store as sweeps leave it, which a bench makes from one seed: its rows are written in bulk."""

from __future__ import annotations

import json
import random
import sqlite3
import time
from pathlib import Path
from typing import Any, ClassVar

from harness import Clock, peak

HOUR = 3600.0
DAY = 24 * HOUR
# The share of nodes that fail in a week, and of those failures that are of nodes which failed before.
WEEKLY, REPEAT = 0.03, 0.5
# What fails, by rule: where, and for how long a node then has it.
FAULTS = (("kernel-xid", "GPU {}", "reset-gpu"), ("gpu-ecc-uncorrected", "GPU {}", None),
          ("gpu-row-remap-failed", "GPU {}", None), ("gpu-count", "", "reboot"),
          ("port-state", "mlx5_{}", None), ("nvlink-state", "GPU {}", None),
          ("disk-nvme-state", "nvme{}n1", None), ("host-memory", "", None))
PARTS = [*(("gpu", f"00000000:{at:02x}:00.0") for at in range(8)),
         *(("nvme", f"nvme{at}n1") for at in range(8)),
         *(("port", f"mlx5_{at}") for at in range(3)), ("chassis", "chassis")]


class Rows:
    """Writes the rows of `count` nodes over DAYS until `now`; a bench adds its own in `more`."""

    DAYS: ClassVar[int]
    BOOTS: ClassVar[int]       # of a node, evenly

    def __init__(self, db: sqlite3.Connection, count: int, now: float) -> None:
        self._db, self._count, self._now = db, count, now
        self._chance = random.Random(7)  # noqa: S311
        self._begin = now - self.DAYS * DAY
        self._busy: dict[int, float] = {}       # until when a node is held

    def more(self) -> None:
        """What only this bench has."""

    def write(self) -> None:
        """All of it."""
        nodes, each = range(1, self._count + 1), self.DAYS / self.BOOTS * DAY
        self.put("sweep", "started, finished, partial, source, rules, profiles, nodes, unreached", (
            (self._begin + at * 300, self._begin + at * 300 + 20, 0, "ssh", "0" * 64, "", self._count, 0)
            for at in range(self.DAYS * 288)))
        self.put("node", "id, name", ((at, f"gpu{at:05d}") for at in nodes))
        self.put("component", "id, kind, serial", (
            (self.part(at, n), kind, f"{kind[0].upper()}{at:07d}{n:02d}") for at in nodes
            for n, (kind, _) in enumerate(PARTS)))
        self.put("seat", "component, node, slot, began, seen", (
            (self.part(at, n), at, slot, self._begin, self._now - 300) for at in nodes
            for n, (_, slot) in enumerate(PARTS)))
        self.put("boot", "node, boot, began, seen", (
            (at, f"{at:08x}-{n}", self._begin + n * each, self._begin + (n + 1) * each)
            for at in nodes for n in range(self.BOOTS)))
        self.put("snapshot", "node, profile, time, state", (
            (at, "bringup", self._now - (n + 1) * HOUR, "healthy") for at in nodes for n in range(4)))
        self.more()
        offenders = self._chance.sample(nodes, max(1, self._count // 100))
        for at in sorted(self._chance.random() for _ in range(int(self._count * WEEKLY * self.DAYS / 7))):
            offends = self._chance.random() < REPEAT
            node = self._chance.choice(offenders) if offends else self._chance.randint(1, self._count)
            self.failure(node, self._begin + at * self.DAYS * DAY)
        for _ in range(20):
            names = [f"gpu{self._chance.randint(1, self._count):05d}" for _ in range(10)]
            self.put("silence", "nodes, rule, why, who, began, until",
                     [(json.dumps(names), "fleet-*", "known", "op", self._begin, self._now + DAY)])

    def put(self, table: str, columns: str, rows: Any) -> None:
        marks = ", ".join("?" * len(columns.split(", ")))
        self._db.executemany(f"INSERT INTO {table} ({columns}) VALUES ({marks})", rows)  # noqa: S608

    def spells(self, count: int, length: float, sweeps: int) -> None:
        """Each node's states, one after the other, every second of them bad; the last holds."""
        self.put("spell", "node, state, reason, began, seen, ended, sweeps", (
            (at, "degraded" if n % 2 else "healthy", "", self._begin + n * length,
             self._begin + (n + 1) * length - 300,
             None if n == count - 1 else self._begin + (n + 1) * length, sweeps)
            for at in range(1, self._count + 1) for n in range(count)))

    def part(self, node: int, number: int) -> int:
        """The component that a node had in this place when the store began."""
        return (node - 1) * len(PARTS) + number + 1

    def problem(self, node: int, rule: str, subject: str, status: str, severity: str, began: float,
                ended: float | None, sweeps: int, component: int | None = None,
                repair: str | None = None) -> None:
        """One row as sweeps write it."""
        origin = "node" if status == "unknown" else None
        self._db.execute(
            "INSERT INTO problem (node, rule, subject, component, status, severity, origin, owner, observed, "
            "expected, reason, remedy, began, seen, ended, sweeps, repair) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (node, rule, subject, component, status, severity, origin, "operator", "7", "at most 0",
             "it did not answer" if origin else "", "Drain, reset the GPU, requalify.", began,
             self._now - 300 if ended is None else ended, ended, sweeps, repair))

    def failure(self, node: int, began: float) -> None:
        """A fault, its cordon, its repair and its release; what began within the last day still holds."""
        rule, subject, repair = self._chance.choice(FAULTS)
        slot = self._chance.randrange(8)
        last = began + self._chance.uniform(1, 24) * HOUR
        if self._busy.get(node, 0.0) > began:
            return
        holds = last + 2 * HOUR > self._now
        number = {"GPU": slot, "nvm": 8 + slot}.get(subject[:3])
        component = None
        if number is not None:
            (component,) = self._db.execute(
                "SELECT component FROM seat WHERE node = ? AND slot = ? AND ended IS NULL",
                (node, PARTS[number][1])).fetchone()
        self.problem(node, rule, subject.format(slot), "fail", "critical", began, None if holds else last,
                     max(1, int((last - began) / 300)), component, repair)
        name, why = f"gpu{node:05d}", f"{rule}: 7 (expected at most 0)"
        ended = None if holds else last + 2 * HOUR
        verdict = self._db.execute(
            "INSERT INTO verdict (node, fault, isolation, repair, owner, why, evidence, began, seen, ended) "
            "VALUES (?, 'gpu-error', 'no-new-jobs', 'reset-gpu', 'operator', ?, '[]', ?, ?, ?)",
            (node, why, began, last, ended)).lastrowid
        line = self.line(began, "cordon", name, why, "cordoned")
        self._db.execute(
            "INSERT INTO cordon (node, backend, why, who, state, began, ended, line, verdict) "
            "VALUES (?, 'hostfile', ?, 'triage', ?, ?, ?, ?, ?)",
            (name, why, "held" if holds else "released", began, ended, line, verdict))
        self._busy[node] = last + 2 * HOUR
        if number is not None and component is not None:
            self.of_part(node, number, component, began, ended, last)
        if not holds:
            self.line(last, "reboot", name, why, "rebooted, and held still")
            self.line(last + 2 * HOUR, "uncordon", name, "clean in its last 2 looks", "released")

    def of_part(self, node: int, number: int, component: int, began: float, ended: float | None,
                last: float) -> None:
        """What else comes of a failure of a component."""

    def line(self, when: float, action: str, node: str, why: str, outcome: str) -> int:
        return self._db.execute(
            "INSERT INTO ledger (time, who, action, node, why, evidence, outcome, finished) "
            "VALUES (?, 'triage', ?, ?, ?, 'hostfile', ?, ?)",
            (when, action, node, why, outcome, when + 1)).lastrowid or 0


def build(folder: Path, count: int, rows: type[Rows]) -> None:
    """A store with the past of `count` nodes, what marks those that are held, and their inventory."""
    from healthcheck.store.file import opened

    per = max(count // 32, 1)
    racks = [f"  gpu[{first:05d}-{min(first + per, count + 1) - 1:05d}]: "
             f"{{rack: r{at}, leaf: [leaf{at % 16}], power: p{at // 4}}}"
             for at, first in enumerate(range(1, count + 1, per))]
    (folder / "muster.yaml").write_text(
        "\n".join(["version: 1", "cordon: {hostfile: bad}", "nodes:", *racks]) + "\n")
    with opened(folder, make=True) as store, store.writing() as db:
        rows(db, count, time.time()).write()
        held = db.execute("SELECT id, node, why FROM cordon WHERE ended IS NULL").fetchall()
    (folder / "bad").write_text("# by hand\n" + "".join(f"{node}  # muster#{number}: {why}\n"
                                                        for number, node, why in held))


def fetched(folder: str) -> None:
    """A part of a bench: sqlite3 alone fetches what the statements in statements.json ask for."""
    statements = json.loads(Path(folder, "statements.json").read_text())
    with Clock() as clock:
        connection = sqlite3.connect(Path(folder, "muster.db"))
        found = sum(len(connection.execute(statement).fetchall()) for statement in statements)
    print(json.dumps({"cpu": clock.cpu, "wall": clock.wall, "rows": found, "rss": peak()}))
