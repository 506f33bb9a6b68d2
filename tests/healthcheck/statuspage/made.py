"""A state folder as a week of sweeps, a burn-in and a run of triage leave it, for tests and the benchmark of
the status page."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from healthcheck.burnin.document import write as write_burnin
from healthcheck.certify.certificate import Passed
from healthcheck.certify.keys import new_key
from healthcheck.certify.manifest import issue
from healthcheck.config.rulesfolder import packaged
from healthcheck.model.outcome import (
    Finding,
    NodeReport,
    NodeState,
    Origin,
    Owner,
    Result,
    Severity,
    Status,
    state_of,
)
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.store import verdicts
from healthcheck.store.file import opened
from healthcheck.store.readings import CounterReading, NodeReadings
from healthcheck.store.sweeps import SweepRecord, record
from healthcheck.store.telemetry import Telemetry
from healthcheck.triage.gather import gather
from healthcheck.triage.plan import make
from healthcheck.triage.policyload import load_policy
from inventory.load import load_inventory
from tests.healthcheck.burnin import made as burnins

NOW = 1_795_800_000.0
HOUR = 3600.0
PER_RACK = 8
# What nodes and logs may say: markup, escapes, quotes, direction marks, a null, halves of characters.
HOSTILE = ("<script>alert(1)</script>", "</script><img src=x onerror=alert(1)>", "\x1b[31mred\x1b[0m \x9b2J",
           "\"'`&amp;${7*7}{{7*7}}",
           "\u202egnp.exe\u2066 \u200f", "\x00\ufffe \U0001f525", "]]><!--<svg onload=alert(1)>",
           "javascript:alert(1) \u2028 \u2029")


@dataclass(frozen=True)
class World:
    """A state folder, its inventory and the time of its newest sweep."""

    state: Path
    inventory: Path
    now: float


def fail(rule: str, severity: Severity, owner: Owner, subject: str, observed: str, expected: str,
         remedy: str = "") -> Result:
    return Result(rule, rule.replace("-", ".", 1), Status.FAIL, severity,
                  (Finding(observed, expected, subject),), remedy=remedy,
                  owner=owner)


def _ecc(at: int) -> Result:
    return fail("gpu-row-remap-failed", Severity.CRITICAL, Owner.VENDOR,
                f"GPU {at % 8} (0000:{0x18 + at % 8:02x}:00.0)",
                "a row remap failed", "none", "Drain, and return the board to the vendor.")


def _port(at: int) -> Result:
    return fail("port-state", Severity.CRITICAL, Owner.NETWORK,
                f"mlx5_{at % 8}/1 (0000:{0x40 + at % 8:02x}:00.0)", "down", "active",
                "Look at cable, transceiver and switch port.")


def _lost(at: int) -> Result:
    return fail("gpu-count", Severity.CRITICAL, Owner.OPERATOR, "", "7 GPUs", "8",
                "Reboot; if it is still lost, reseat it.")


def _disk(at: int) -> Result:
    return fail("filesystem-space", Severity.WARNING, Owner.OPERATOR, "/var", f"{90 + at % 9} % used",
                "at most 90 %", "Make room.")


def _user(at: int) -> Result:
    return fail("gpu-process-stray", Severity.WARNING, Owner.USER, f"pid {4000 + at} (python)",
                "runs outside a job", "no such process",
                "End it, or have its owner end it.")


def _hot(at: int) -> Result:
    return fail("gpu-temperature", Severity.WARNING, Owner.DATACENTRE, f"GPU {at % 8}", f"{88 + at % 5} °C",
                "at most 87 °C",
                "Look at air flow and fans.")


def _novel(at: int) -> Result:
    return fail("kernel-novel", Severity.INFO, Owner.OPERATOR, "kernel",
                "nvme nvme<n>: I/O <n> QID <n> timeout, completion polled",
                "known messages only")


def _unread(at: int) -> Result:
    return Result("nvlink-state", "nvlink.state", Status.UNKNOWN, Severity.CRITICAL,
                  reason="nvidia-smi nvlink -s: timed out after 20 s",
                  origin=Origin.NODE)


KINDS = (_ecc, _port, _lost, _disk, _user, _hot, _unread)


def world(folder: Path, count: int, *, now: float, hostile: Sequence[str] = (), sick: int = 0,
          certified: bool = True,
          burnt: bool = True) -> World:
    """`count` nodes, of which every `sick`-th has a fault; some hang on a leaf that is down, one was never
    seen, one is old, one in repair. `hostile` are texts that findings show."""
    names = [f"gpu{number:0{len(str(count))}d}" for number in range(1, count + 1)]
    sick = sick or max(5, min(60, count // 6))
    racks = [names[at:at + PER_RACK] for at in range(0, count, PER_RACK)]
    small = racks[-1] if len(racks) > 3 else []
    lines = ["version: 1", "cordon: {hostfile: bad}", "nodes:"]
    for at, group in enumerate(racks):
        sku = "hgx-a100" if group is small else "hgx-h100"
        for name in group:
            life = ", lifecycle: {state: maintenance, owner: ops}" if name == names[-2] and count > 8 else ""
            lines.append(
                f"  {name}: {{rack: r{at + 1:02d}, leaf: [leaf{at // 2 + 1:02d}], sku: {sku}{life}}}")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "muster.yaml").write_text("\n".join(lines) + "\n")
    (folder / "bad").write_text("# by hand\n")
    inventory = load_inventory(folder / "muster.yaml")
    chance = random.Random(7)
    failing = {name: KINDS[(at // sick) % len(KINDS)](at)
               for at, name in enumerate(names) if at % sick == sick - 1}
    leaf = racks[1] if len(racks) > 3 else []
    times = [now - 7 * 24 * HOUR, now - 26 * HOUR, now - 12 * HOUR, now - 2 * HOUR, now - 300]
    with opened(folder, make=True) as store:
        for turn, at in enumerate(times):
            reports, readings = [], {}
            for number, name in enumerate(names):
                if name == names[0] and count > 8:
                    continue        # never seen
                if name == names[min(2, count - 1)] and turn > 1 and count > 8:
                    continue        # not seen for long
                results = [Result(f"rule-{n:02d}", "a.rule", Status.PASS, Severity.WARNING) for n in range(3)]
                if name in failing and turn >= 2 + number % 2:
                    results.append(failing[name])
                    if number % 3 == 0:
                        results.append(_disk(number))
                if name in leaf and turn >= 3:
                    results.append(fail("port-state", Severity.CRITICAL, Owner.NETWORK,
                                        "mlx5_0/1 (0000:18:00.0)", "down", "active",
                                        "Look at cable, transceiver and switch port."))
                if number % 50 == 9 and turn >= 3:
                    results.append(_novel(number))
                if number == 4 and turn >= 1:
                    results += [fail(f"kernel-xid-{n}", Severity.WARNING, Owner.OPERATOR, text,
                                     text, text, text)
                                for n, text in enumerate(hostile)]
                dark = number % 97 == 12 and turn == 4
                results.sort(key=lambda one: one.rule)
                state, reason = state_of(results), next((f"{one.rule}: {one.findings[0].observed}"
                                                         for one in results if one.findings), "")
                reports.append(NodeReport(name, NodeState.UNKNOWN, "connect: timed out after 10 s", (),
                                          stage="connect", sku="hgx-h100")
                               if dark else NodeReport(name, state, reason, tuple(results), sku="hgx-h100"))
                if not dark:
                    grows = name in failing or number % 40 == 3
                    counters = [CounterReading(f"0000:{0x18 + gpu:02x}:00.0", counter, float(
                        (turn * turn * (number % 7 + 1) if gpu == number % 8 and grows else 0)
                        + (40 if counter.startswith("ecc") else 0)))
                        for gpu in range(8) for counter in ("ecc_corrected_lifetime", "rows_corrected")]
                    readings[name] = NodeReadings((), tuple(counters), frozenset(), "b1", shown=Telemetry(
                        driver="570.86" if chance.random() > .01 else "550.54", kernel="6.8.0-45-generic"))
            record(store, SweepRecord(at, at + 20, False, "ssh", "0" * 64), reports, readings,
                   clock=lambda at=at: at + 21)
        policy = load_policy([packaged()], load_ruleset([packaged()]))
        verdicts.write(store, make(gather(store, list(inventory), policy, now - 200), policy), opens=False)
        with store.writing() as db:
            for at, name in enumerate([*failing][:3]):
                db.execute(
                    "INSERT INTO ledger (time, who, action, node, why, evidence, outcome, finished) VALUES "
                    "(?, ?, ?, ?, ?, '', ?, ?)",
                    (now - 900 - at, "triage", "cordon", name,
                     hostile[at] if at < len(hostile) else "critical", "done", now - 890))
    if certified:
        new_key(folder, "alpha", "test", now - 6 * 24 * HOUR)
        passed = [name for at, name in enumerate(names) if at % 11 != 5]
        issue(folder, [Passed(name, "soak", int(now - 5 * 24 * HOUR), boot="b1") for name in passed],
              {name: {} for name in passed},
              now - 5 * 24 * HOUR)
    if burnt:
        places = tuple(replace(place, node=names[at % count])
                       for at, place in enumerate(burnins.places(min(count, 32))))
        results = burnins.sound(places)
        slow = results[-1].task.seats[0].node
        write_burnin(folder, burnins.burnin(places, burnins.changed(results, results[0].task.id, f"{slow}:0",
                                                                    figures={"tflops_bf16": 300.0}),
                                            began=now - 20 * HOUR, run="20261122T030000-1"))
    return World(folder, folder / "muster.yaml", now)
