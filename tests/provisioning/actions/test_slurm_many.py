"""128 nodes of a real Slurm at once: the same ownership, and how many calls and how long it takes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from healthcheck.store.cordons import open_cordons
from healthcheck.store.file import opened
from healthcheck.store.ledger import lines
from inventory.discover import CommandOutput, _run
from provisioning.actions.base import Holder
from provisioning.actions.cordon import cordon, uncordon
from provisioning.actions.reboot import reboot, resolve_reboots
from provisioning.actions.slurm import SlurmBackend as Backend
from tests.testbed.planted import executable
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run
from tests.testbed.slurm import slurm as cluster
from tests.testbed.sshd import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
NODES = [f"gpu{n:03}" for n in range(1, 129)]


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require(can_run(), WHY_NOT)
    folder = tmp_path_factory.mktemp("slurm")
    program = executable(folder / "reboot", "#!/bin/sh\n")
    with cluster(folder, NODES, extra=f"RebootProgram={program}\nResumeTimeout=3600") as running:
        yield running


def test_128_nodes_are_taken_and_given_back_beside_a_person(
    bed: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:
    for key, value in bed.environment.items():
        monkeypatch.setenv(key, value)
    calls: list[str] = []

    def run(argv: Sequence[str]) -> CommandOutput:
        calls.append(" ".join([word for word in argv if word[0] != "-"][:2]))
        return _run(argv)

    def timed(what: str, act: Callable[[], object]) -> Counter[str]:
        calls.clear()
        began = time.monotonic()
        act()
        with capsys.disabled():
            print(f"\n  {what}: {time.monotonic() - began:.2f} s, {len(calls)} calls: {dict(Counter(calls))}",
                  end="")
        return Counter(calls)

    slurm = Backend(run)
    theirs, ours = NODES[:3], NODES[3:]
    for node, words in zip(
        theirs, ("bad DIMM", "muster: looks like ours", "muster#7: of another store"), strict=True):
        bed.ask("scontrol", "update", f"nodename={node}", "state=drain", f"reason={words}")
    before = bed.ask("sinfo", "-h", "-N", "-n", ",".join(theirs), "-o", "%N %T %E")
    with opened(tmp_path, make=True) as store:
        assert timed("held", lambda: slurm.held(NODES)) == {"scontrol show": 1}
        made = timed("cordon", lambda: cordon(store, slurm, NODES, "new cables", "me", time.time))
        # each once more just before its change
        assert made == {"scontrol show": 2 + 125, "scontrol update": 125}
        held = slurm.held(NODES)
        assert {node: one.number for node, one in held.items() if node in ours} == {
            one.node: one.id for one in open_cordons(store)}
        assert [held[node].holder for node in theirs] == [
            Holder.OTHERS, Holder.OTHERS, Holder.US] and held[theirs[2]].number == 7
        assert len(open_cordons(store)) == 125
        assert set(bed.states().values()) == {"drained"}
        asked = timed("reboot", lambda: reboot(store, slurm, ours[:8], "driver", "me", time.time))
        assert asked["scontrol reboot"] == 1
        wait_until(lambda: all(slurm.held(NODES)[node].number for node in ours[:8]) and _issued(bed) == 8,
                   what="the reboots")
        bed.booted(*ours[:8])
        wait_until(lambda: not any(boot.under_way for boot in slurm.boots(NODES).values()), 60, "the nodes")
        assert timed(
            "what became of them", lambda: resolve_reboots(store, slurm, time.time)) == {"scontrol show": 2}
        given = timed("uncordon", lambda: uncordon(store, slurm, None, "done", "me", time.time))
        assert given == {"scontrol show": 2 + 125, "scontrol update": 125}
        assert open_cordons(store) == [] and all(line.outcome for line in lines(store))
        assert {line.outcome for line in lines(store) if line.action == "uncordon"} == {"released"}
    assert bed.ask("sinfo", "-h", "-N", "-n", ",".join(theirs), "-o", "%N %T %E") == before
    wait_until(
        lambda: {state for node, state in bed.states().items() if node in ours} == {"idle"}, 60, "idle nodes")


def _issued(bed: Slurm) -> int:
    return bed.ask("scontrol", "-o", "show", "node").count("REBOOT_ISSUED")
