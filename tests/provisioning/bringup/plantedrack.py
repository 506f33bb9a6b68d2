"""Machines of which many have something wrong, their site, and muster run on them: the plan of what is
planted where.

What is expected of each stands in `plantedends`, and knows nothing of this file but the names of troubles.
"""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from tests.command import running
from tests.testbed.bmcs import Bed, Machine, Wrong, rack
from tests.testbed.boxes import boxes
from tests.testbed.planted import private
from tests.testbed.spawned import spawned
from tests.testbed.sshd import wait_until

PASSWORD = "Planted-0n-Purpose"
# How many machines have it; the rest is sound. All of them are as one finds them in a new rack.
PLANTED = {
    Wrong.NO_ONE: 4, Wrong.CERTIFICATE: 3, Wrong.PASSWORD: 4, Wrong.SICK: 3, Wrong.GPU_MISSING: 4,
    Wrong.PSU_FAILED: 4,
    Wrong.DRIVE_CRITICAL: 3, Wrong.TWIN: 4, Wrong.BIOS_REFUSED: 3, Wrong.BIOS_IGNORED: 2, Wrong.NO_POWER: 3,
    Wrong.NO_OS: 3,
    # What a run copes with by itself:
    Wrong.SICK_AT_FIRST: 3, Wrong.LOSES_ANSWERS: 3, Wrong.SLOW: 2,
}
# The same troubles on fewer machines: what becomes of one does not depend on how many there are. A twin is a
# pair.
FEW = {wrong: 2 if wrong is Wrong.TWIN else 1 for wrong in PLANTED}
_AS_WISHED = {"ProcTurboMode": "Enabled"}
SKU = """\
sku: gx8
title: 8 GPUs in a small test server
inherit: hgx-h100
numbers: {port_count: 2, nvswitch_count: null, dimm_count: 4, nvme_count: 2, memory_gib: 256}
source: a test's
"""
_BIOS = """\
bios:
- id: turbo
  vendor: Contoso
  settings: {ProcTurboMode: Enabled}
  absent: trouble
  source: a test's
"""
POLICY = """\
run: {grace_seconds: 2}
stop: {share: 1, least: 1000, refused_logins: 1000}
steps:
  bmc: {minutes: 0.15}
  os: {minutes: 0.3}
power: {off_seconds: 6, on_seconds: 6, bios_minutes: 0.2}
parts: {doubles_seconds: 40}
without: [base, agent, checks, kernel, leased, burnin, certificate]
"""


def machines(number: int = 64, planted: dict[Wrong, int] | None = None, gpus: int = 8) -> list[Machine]:
    """The rack, always the same; every other machine has other BIOS settings, and is on."""
    kinds: list[Wrong | None] = [
        wrong for wrong, many in (PLANTED if planted is None else planted).items() for _ in range(many)]
    kinds += [None] * (number - len(kinds))
    random.Random(number).shuffle(kinds)
    made, twins = [], 0
    for at, wrong in enumerate(kinds, 1):
        # Who has no power, or no system, is to come as far as where that shows.
        differs = wrong in (Wrong.BIOS_REFUSED, Wrong.BIOS_IGNORED, Wrong.LOSES_ANSWERS) or (
            at % 2 == 0 and wrong not in (Wrong.NO_POWER, Wrong.NO_OS))
        serial = ""
        if wrong is Wrong.TWIN:
            serial, twins = f"TWIN{twins // 2}", twins + 1
        made.append(Machine(f"gx{at:02}", wrong, on=differs, bios={} if differs else _AS_WISHED,
                            serial=serial, gpus=gpus, seconds=0.2, sick=3))
    return made


@dataclass(frozen=True)
class Moment:
    """After so many questions to a rack and so many changes of BIOS or power; logged before the answer."""

    requests: int
    changes: int

    def __add__(self, other: Moment) -> Moment:
        return Moment(self.requests + other.requests, self.changes + other.changes)

    @classmethod
    def of(cls, log: bytes) -> Moment:
        """How far a piece of a rack's log comes."""
        return cls(log.count(b"\n"), log.count(b"ComputerSystem.Reset") + log.count(b'"PATCH"'))


@dataclass
class Site:
    """The rack, its machines, and a home with an inventory from which muster is run on it."""

    home: Path
    bed: Bed
    output: list[str] = field(default_factory=list)     # of each command, as it came

    def muster(self, *words: str, seconds: float = 300) -> int:
        """Runs it to its end."""
        with self.begun(*words) as process:
            return process.wait(seconds)

    def killed(self, *words: str, when: Moment) -> bool:
        """Runs it, and kills it at that moment; whether it was killed before its end."""
        with self.begun(*words) as process, (self.bed.folder / "requests.jsonl").open("rb") as log:
            seen = Moment(0, 0)

            def come() -> bool:
                nonlocal seen
                seen = seen + Moment.of(log.read())
                return process.poll() is not None or (
                    seen.requests >= when.requests and seen.changes >= when.changes)

            wait_until(come, 120, "the moment to kill it")
            process.send_signal(signal.SIGKILL)
            return process.wait(10) == -signal.SIGKILL

    @contextmanager
    def begun(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """Runs it meanwhile; what it printed is kept."""
        at = self.home / f"output-{len(self.output)}"
        with at.open("wb") as file:
            process = running(*words, home=self.home, out=file, err=file)
        try:
            yield process
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
            self.output.append(at.read_text("utf-8", "replace"))


class Nodes(Protocol):
    """What stands behind the controllers; `marker` is a file that only an installed system has."""

    marker: str

    def entry(self, name: str) -> str: ...
    def power(self, name: str, on: bool) -> None: ...


def boxed(folder: Path, rack_: Sequence[Machine]) -> AbstractContextManager[Nodes]:
    """A box for each machine, with the serial number that its controller tells."""
    return boxes(folder, {one.name: one.number for one in rack_})


def real(folder: Path, rack_: Sequence[Machine]) -> AbstractContextManager[Nodes]:
    """A node with a real systemd for each machine."""
    return spawned(folder, [one.name for one in rack_])


@contextmanager
def site(
    home: Path, rack_: Sequence[Machine], policy: str,
    nodes: Callable[[Path, Sequence[Machine]], AbstractContextManager[Nodes]] = boxed, sku: str = SKU,
) -> Iterator[Site]:
    """All that stands and runs, by this policy."""
    with ExitStack() as stack:
        progress = stack.enter_context(nodes(home.parent / f"{home.name}-nodes", rack_))
        bed = stack.enter_context(
            rack(home.parent / f"{home.name}-rack", rack_, password=PASSWORD, on_power=progress.power))
        for machine in rack_:
            if machine.on:
                progress.power(machine.name, True)
        (home / "rules/sku").mkdir(parents=True)
        (home / "rules/sku/gx8.yaml").write_text(sku)
        (home / "rules/bringup.yaml").write_text(
            f"{policy}{_BIOS}os: {{marker: {{file: {progress.marker}}}}}\n")
        secret = private(home / "bmc-password", f"{PASSWORD}\n")
        (home / "muster.yaml").write_text(
            "version: 1\nnodes:\n" + "".join(
                f"  {name}: {{{progress.entry(name)}, sku: gx8, lifecycle: bringup, rack: r{at // 16}, "
                f"power: p{at // 8}, bmc: {{address: {bed.address(name)}, port: {bed.port}, user: "
                f"{bed.user}, password: {_from(secret, at)}}}}}\n" for at, name in enumerate(bed.machines)))
        made = Site(home, bed)
        _pin(made)
        yield made


def _from(secret: Path, at: int) -> str:
    """Where a machine's password is: in a file, and for some of them told by a program, as a keyring's is."""
    return f"{{command: [cat, {secret}]}}" if at % 8 == 0 else f"{{file: {secret}}}"


def _pin(made: Site) -> None:
    """As a delivery list would have it: what each controller's certificate was when it left the factory."""
    from provisioning.bmc import pins

    pins.write(made.home / "state", made.bed.fingerprints, {})


def processes(least: int = 1) -> Iterator[tuple[int, bytes]]:
    """Every process's command line and environment, as anybody with the right to look sees them."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal() and int(entry.name) > least:
            for part in ("cmdline", "environ"):
                with suppress(OSError):     # it ended
                    yield int(entry.name), (entry / part).read_bytes()
