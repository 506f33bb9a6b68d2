"""A site of 64 nodes whose clock, parts and people the tests move: the real commands, in this process, on a
real state folder, before a host file and a pretend Slurm.

Sweeps are written by the function that `muster check --store` uses, of made-up results: what is so is in
`Machine`.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shutil
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any
from unittest.mock import patch

import click

from healthcheck.cli.main import root
from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Owner,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.ruleset import ruleset
from healthcheck.store.file import opened
from healthcheck.store.leases import open_leases
from healthcheck.store.readings import Component, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.versions import Version
from healthcheck.subnet.check.findings import FabricRule
from inventory.errors import MusterError
from provisioning.actions.choose import Options
from provisioning.lease.check import backend, manager
from provisioning.lease.holder import me
from provisioning.lease.take import LeaseManager, give_back, take
from tests.month.pretend import MARK, PretendSlurm
from tests.month.subnet import DEVICE, looked
from tests.testbed.marks import files_moved

BEGAN = 1_800_000_000.0
MINUTE, HOUR, DAY = 60.0, 3600.0, 86400.0
COUNT = 64
NAMES = tuple(f"gpu{number:02}" for number in range(1, COUNT + 1))
GPUS, DRIVES = 4, 1
# The rules of this world: how bad each is, and whose it is to mend.
RULES = {
    "gpu-row-remap-failed": (Severity.CRITICAL, Owner.VENDOR),
    "gpu-ecc-uncorrected": (Severity.CRITICAL, Owner.OPERATOR),
    "host-memory": (Severity.CRITICAL, Owner.VENDOR), "port-state": (Severity.CRITICAL, Owner.NETWORK),
    "disk-nvme-state": (Severity.CRITICAL, Owner.OPERATOR),
    "gpu-temperature": (Severity.CRITICAL, Owner.DATACENTRE),
    "fleet-driver": (Severity.WARNING, Owner.OPERATOR)}


@lru_cache(maxsize=4)
def _loaded(folders: tuple[str, ...]) -> Any:
    return _load([Path(folder) for folder in folders])


_load = ruleset.load_ruleset


@dataclass(frozen=True)
class Done:
    """A command that ended."""

    argv: tuple[str, ...]
    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        """All that a person would have read."""
        return self.out + self.err

    def json(self) -> Any:
        """Its document."""
        return json.loads(self.out)


@dataclass
class Machine:
    """One chassis with what is in it, as it is. `faults` are its own; `hot` is what only a strict rule
    minds."""

    chassis: str
    parts: dict[str, str]
    boot: int = 1
    faults: set[str] = field(default_factory=set)
    hot: bool = False
    dark: bool = False


def slot_of(number: int) -> str:
    """Where a GPU sits."""
    return f"00000000:{number + 1:02x}:00.0"


def place(name: str, at: int) -> dict[str, str]:
    """Where a node stands: 8 racks of 8, 4 leaves of 16 across them, 4 PDUs of two racks."""
    return {"rack": f"r{at // 8}", "leaf": f"l{at % 4}", "power": f"pdu{at // 16}"}


class World:
    """The site. `main` is the back end of the inventory: slurm or hostfile."""

    def __init__(self, folder: Path, main: str = "hostfile") -> None:
        self.folder, self.main = folder, main
        self.state = folder / "state"
        self.file = folder / "muster.yaml"
        self.hosts = folder / "bad"
        self.now = BEGAN
        self.machines = {name: Machine(f"C{at:03}", {
            **{slot_of(n): f"G{at:03}{n}" for n in range(GPUS)},
            **{f"nvme{n}n1": f"D{at:03}{n}" for n in range(DRIVES)}})
            for at, name in enumerate(NAMES)}
        self.places = {name: place(name, at) for at, name in enumerate(NAMES)}
        self.bad: dict[str, set[str]] = {}
        self.strict = False
        # by node what is wrong with its cable, as the subnet sees it
        self.sick: dict[str, FabricRule] = {}
        self.subnet = False     # whether anyone checks it
        self.slurm = PretendSlurm(NAMES, lambda: self.now)
        self.done: list[Done] = []
        self.backups: list[Path] = []
        with_host = f"{{hostfile: {self.hosts}}}" if main == "hostfile" else "slurm"
        self.file.write_text("version: 1\ncordon: " + with_host + "\nnodes:\n" + "".join(
            f"  {name}: {{sku: dgx-h100, rack: {at['rack']}, leaf: [{at['leaf']}], power: {at['power']}}}\n"
            for name, at in self.places.items()))

    # ---- commands

    def muster(self, *argv: str) -> Done:
        """Types a command; its exit code is that of the `muster` command."""
        out, err = io.StringIO(), io.StringIO()
        with self._clock(), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = root.main(list(argv), standalone_mode=False) or 0
            except click.exceptions.Exit as error:
                code = error.exit_code
            except click.ClickException as error:
                error.show()
                code = error.exit_code
            except MusterError as error:
                print(f"muster: {error}", file=err)
                code = error.exit_code if hasattr(error, "exit_code") else 2
        self.done.append(Done(argv, int(code), out.getvalue(), err.getvalue()))
        return self.done[-1]

    @contextlib.contextmanager
    def _clock(self) -> Iterator[None]:
        places = {"MUSTER_STATE": str(self.state), "MUSTER_INVENTORY": str(self.file), "NO_COLOR": "1"}
        with (patch("time.time", lambda: self.now), patch.dict(os.environ, places),
              patch("shutil.which", lambda name, **_: f"/usr/bin/{name}"),
              patch("inventory.discover._run", self.slurm.run),
              patch("healthcheck.ruleset.ruleset.load_ruleset",
                    lambda folders: _loaded(tuple(map(str, folders)))),
              patch("healthcheck.ruleset.rulenames.read_rule_names",
                    lambda folders: _loaded(tuple(map(str, folders))))):
            yield

    def triage(self, *more: str) -> Done:
        """`muster triage --apply`, as the timer types it."""
        return self.muster("triage", "--apply", *more)

    def has(self, *command: str) -> bool:
        """Whether this muster has such a command or option: its help names it."""
        done = self.muster(*command[:-1], "--help")
        self.done.pop()
        return re.search(rf"(?<![\w-]){re.escape(command[-1])}(?![\w-])", done.out) is not None

    # ---- leases

    @contextlib.contextmanager
    def _leases(self) -> Iterator[LeaseManager]:
        with self._clock(), opened(self.state, make=True) as store:
            yield manager("cordon", backend(str(self.file), Options()), "burn-in", lambda: self.now,
                          self.slurm.run)(store)

    def lease(self, node: str, minutes: float, *, killed: bool) -> str:
        """A burn-in leases the node for so long; the lease's name, "" where it is refused. `killed`: its
        process is gone since."""
        gone = json.dumps({**json.loads(me()), "start": -1})
        with self._leases() as leases, patch("provisioning.lease.take.me", lambda: gone if killed else me()):
            taken = take(leases, [node], minutes * MINUTE, "burn-in")
        return taken.entry.name if taken.entry is not None else ""

    def lease_ends(self, name: str) -> str:
        """The burn-in gives it back; why not, if not."""
        with self._leases() as leases:
            found = [one for one in open_leases(leases.store) if one.name == name]
            return "; ".join(filter(None, (give_back(leases, one, "the sweep is over") for one in found)))

    # ---- sweeps

    def names(self) -> list[str]:
        """Nodes that the inventory has and a sweep asks."""
        return [name for name, state in self.lifecycles().items() if state not in ("planned", "retired")]

    def lifecycles(self) -> dict[str, str]:
        """By node what the inventory file says."""
        found = {}
        for line in self.file.read_text().splitlines():
            if (match := re.match(r"  (gpu\w+):", line)) is not None:
                state = re.search(r"lifecycle: ?(?:\{[^}]*state: *)?(\w+)", line)
                found[match[1]] = state[1] if state is not None else "service"
        return found

    def sweep(self, minutes: float = 20.0, nodes: Collection[str] | None = None) -> tuple[NodeReport, ...]:
        """Some minutes later a look at all nodes, or at these, under the profile of requalification."""
        self.now += minutes * MINUTE
        lives = self.lifecycles()
        names = [name for name in self.names() if nodes is None or name in nodes]
        reports = [self.report(name, serving=lives[name] == "service") for name in names]
        seen = {name: self.readings(name) for name in names if not self.machines[name].dark}
        versions = tuple(Version("rule", rule, f"{rule} {self.strict and rule == 'gpu-temperature'}")
                         for rule in RULES)
        sweep = SweepRecord(self.now, self.now + 5, False, "test", f"digest {self.strict}", ("bringup",),
                            False, versions,
                            "timer")
        with opened(self.state, make=True) as store:
            done = record(store, sweep, reports, seen)
        if self.subnet:
            there = {name: self.places[name]["leaf"] for name in self.places}
            looked(self.state, {name: what for name, what in self.sick.items() if name in lives},
                   there, self.now)
        return done

    def wrong(self, name: str) -> dict[str, list[str]]:
        """What is wrong with the node at this name, by rule: the subjects."""
        machine = self.machines[name]
        found: dict[str, list[str]] = {}
        for rule in machine.faults:
            found.setdefault(rule, []).append(DEVICE if rule == "port-state" else "")
        if self.sick.get(name) is FabricRule.LINK:
            found.setdefault("port-state", [DEVICE])
        for slot, serial in machine.parts.items():
            for rule in self.bad.get(serial, ()):
                found.setdefault(rule, []).append(subject(slot))
        if machine.hot and self.strict:
            found["gpu-temperature"] = ["GPU 0"]
        return found

    def report(self, name: str, *, serving: bool) -> NodeReport:
        """What a sweep says of it."""
        if self.machines[name].dark:
            return NodeReport(name, NodeState.UNKNOWN, "connect: timed out", (), serving, "connect",
                              sku="dgx-h100")
        wrong = self.wrong(name)
        results = tuple(_result(rule, wrong.get(rule, ())) for rule in sorted(RULES))
        return NodeReport(name, state_of(results), "", results, serving, sku="dgx-h100")

    def readings(self, name: str) -> NodeReadings:
        """Its parts, its boot, its installation."""
        machine = self.machines[name]
        parts = tuple(Component("gpu" if slot[0] == "0" else "nvme", slot, serial, subject(slot))
                      for slot, serial in sorted(machine.parts.items()))
        return NodeReadings((*parts, Component("chassis", "chassis", machine.chassis, "chassis")), (),
                            frozenset({"gpu", "nvme", "chassis"}), f"{machine.chassis}-{machine.boot}",
                            machine=f"id-{machine.chassis}")

    # ---- what is there to see

    def held(self) -> dict[tuple[str, str], str]:
        """By back end and node the words that keep jobs away."""
        found = {("slurm", node): words for node, words in self.slurm.reasons().items()}
        if self.hosts.exists():
            for line in self.hosts.read_text().splitlines():
                name, _, words = line.partition("#")
                if name.strip():
                    found["hostfile", name.strip()] = words.strip()
        return found

    def marks(self) -> dict[tuple[str, str], str]:
        """By back end and node the mark of ours."""
        return {key: match[0] for key, words in self.held().items()
                if (match := MARK.match(words)) is not None}

    def held_by_muster(self, node: str) -> bool:
        """Whether a mark of ours keeps jobs away from the node, anywhere."""
        return any(name == node for _, name in self.marks())

    def rows_of(self, table: str) -> list[tuple[Any, ...]]:
        """What the store has in a table; nothing without a store."""
        if not (self.state / "muster.db").exists():
            return []
        with opened(self.state) as store:
            return [tuple(row) for row in store.rows(f"SELECT * FROM {table} ORDER BY 1")  # noqa: S608  (a name of ours)
                    ]

    # ---- people

    def person_holds(self, node: str, words: str) -> None:
        """A person drains the node in the main back end, in place of what is there."""
        if self.main == "slurm":
            self.slurm.hold(node, words)
            return
        self.person_frees(node)
        text = self.hosts.read_text() if self.hosts.exists() else ""
        self.hosts.write_text(f"{text}{node}  # {words}\n")

    def person_frees(self, node: str) -> None:
        """A person gives it back in the main back end, whoever held it."""
        if self.main == "slurm":
            self.slurm.free(node)
        elif self.hosts.exists():
            kept = [line for line in self.hosts.read_text().splitlines(True) if line.split()[:1] != [node]]
            self.hosts.write_text("".join(kept))

    def backup(self) -> Path:
        target = self.folder / f"copy{len(self.backups)}.db"
        done = self.muster("store", "backup", str(target))
        assert done.code == 0, done.text
        self.backups.append(target)
        return target

    def swap(self, one: str, other: str) -> None:
        """Two whole nodes change places: each machine answers to the other's name."""
        self.machines[one], self.machines[other] = self.machines[other], self.machines[one]
        for name in (one, other):
            self.machines[name].boot += 1

    def exchange(self, node: str, slot: str, other: str, there: str) -> None:
        """Two parts change places."""
        here, away = self.machines[node].parts, self.machines[other].parts
        here[slot], away[there] = away[there], here[slot]
        for name in {node, other}:
            self.machines[name].boot += 1

    def rename_by_hand(self, old: str, new: str) -> None:
        """A person edits the inventory file and slurm.conf."""
        self.file.write_text(re.sub(rf"^  {old}:", f"  {new}:", self.file.read_text(), flags=re.MULTILINE))
        self.renamed(old, new)
        self.slurm.rename(old, new)

    def renamed(self, old: str, new: str) -> None:
        """The machine answers to another name."""
        self.machines[new] = self.machines.pop(old)
        self.places[new] = self.places.pop(old)
        if old in self.sick:
            self.sick[new] = self.sick.pop(old)

    def remove(self, node: str) -> None:
        """A person takes the node out of the inventory file."""
        self.file.write_text(re.sub(rf"^  {node}:.*\n", "", self.file.read_text(), flags=re.MULTILINE))

    def readmit(self, node: str) -> None:
        """And puts it in again."""
        at = self.places[node]
        if node not in self.lifecycles():
            line = (f"  {node}: {{sku: dgx-h100, rack: {at['rack']}, leaf: [{at['leaf']}], power: "
                    f"{at['power']}}}\n")
            self.file.write_text(self.file.read_text() + line)

    def copy(self, folder: Path) -> World:
        """This site as it is, in another folder, for commands that are only tried."""
        made = object.__new__(World)
        made.__dict__.update(self.__dict__)
        folder.mkdir(parents=True, exist_ok=True)
        made.folder, made.state, made.hosts, made.file = (folder, folder / "state", folder / "bad",
                                                          folder / "muster.yaml")
        shutil.copytree(self.state, made.state, dirs_exist_ok=True)
        made.file.write_text(self.file.read_text().replace(str(self.hosts), str(made.hosts)))
        if self.hosts.exists():
            shutil.copyfile(self.hosts, made.hosts)
        files_moved(made.state / "muster.db", self.folder, made.folder)
        made.slurm = PretendSlurm(self.slurm.nodes, lambda: made.now)
        made.slurm.holds = dict(self.slurm.holds)
        made.done = []
        return made


def subject(slot: str) -> str:
    """What findings call the part in a slot."""
    return f"GPU {int(slot.split(':')[1], 16) - 1}" if slot[0] == "0" else slot


def _result(rule: str, subjects: Collection[str]) -> Result:
    severity, owner = RULES[rule]
    findings = tuple(Finding(7, "at most 0", one) for one in subjects)
    return Result(rule, rule.replace("-", ".", 1), Status.FAIL if findings else Status.PASS,
                  severity, findings, "",
                  None, "Drain and repair." if findings else "", owner if findings else None)
