"""A login with low limits makes our own programs fail: no rule may accuse the node for it, and the reason is named.

The real collector looks at a healthy simulated DGX H100 under each limit, and the packaged rules judge what it brought.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.collector import reply
from healthcheck.model.outcome import NodeReport, NodeState, Status
from healthcheck.model.recording import Recording
from inventory.transport.base import Failure, Reply, Stage
from provisioning.demo import build
from provisioning.demo.machine import write
from tests.scenarios import node
from tests.scenarios.conftest import Room
from tests.testbed import collector

# A user without any process; `ulimit -u` does not bind root.
USER = "61234"
LIMITS = [
    *(("n", number) for number in (*range(4, 17), 20, 32, 48, 63, 64, 100)),
    *(("v", number) for number in (8_000, 12_000, 16_000, 20_000, 25_000, 30_000, 35_000, 40_000, 60_000, 100_000, 400_000)),
    *(("d", number) for number in (1_000, 3_000, 6_000, 12_000, 50_000)),
    *(("u", number) for number in (1, 2, 3, 4, 5, 6, 8)),
    *(("f", number) for number in (0, 1, 16, 200)),
    *(("s", number) for number in (64, 128, 300)),
    ("t", 0), ("t", 1),
]
REASON = re.compile(r"(EMFILE|ENFILE|ENOMEM|EAGAIN|EFBIG|E2BIG|SIGKILL|may (open|run|use|write) only \d+ .*\(ulimit -[a-z]\))")


@pytest.fixture(scope="module")
def tree(room: Room) -> Iterator[Path]:
    at = room.folder / "limited"
    room.folder.chmod(0o755)    # for another user, too
    write(node.machine(), at, {name: shutil.which(name) or sys.executable for name in ("python3", "cat", "sleep")})
    libraries = build.build()
    shutil.copytree(libraries.folder, at / "libraries")
    shutil.copy(libraries.syscalls, at / "libraries" / "syscalls.so")
    yield at
    shutil.rmtree(at)


def looked(tree: Path, option: str, number: int) -> Recording:
    """What the collector brings from a login whose limit is so low; its failure, where it could not even start."""
    env = {"PATH": f"{tree}/usr/bin", "MUSTER_NVML_SCENARIO": f"{tree}/.muster/nvml", "LD_LIBRARY_PATH": f"{tree}/libraries",
           "LD_PRELOAD": f"{tree}/libraries/syscalls.so"}
    user = [shutil.which("setpriv") or "setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if option == "u" else []
    before = [*user, "/bin/sh", "-c", f'ulimit -{option} {number}; exec "$@"', "sh"]
    with collector.running(node.rules().probe_set(45.0).probes, tree, env=env, before=before, seconds=20.0) as started:
        answer: Reply = started.reply(60.0)
        if answer.failure is not None:
            started.hang_up()
            started.process.wait(20)
            assert started.process.stderr is not None
            last = started.process.stderr.read().decode("utf-8", "replace").strip()
            return Recording(node.NODE.name, 1.0, None, Failure(Stage.REPLY, f"{answer.failure.reason}: {last}"))
    seen = reply.decode(answer)
    assert seen.failure is None and seen.host is not None, seen.failure
    return replace(seen, node=node.NODE.name, received=seen.host.time)


def judged(seen: Recording, room: Room) -> NodeReport:
    return node.judged(seen, node.earlier(room.healthy), room.peers)


@pytest.mark.parametrize(("option", "number"), LIMITS, ids=[f"ulimit-{option}-{number}" for option, number in LIMITS])
def test_a_low_limit_of_the_login_is_no_fault_of_the_node_and_is_named(tree: Path, room: Room, option: str, number: int) -> None:
    seen = looked(tree, option, number)
    report = judged(seen, room)
    assert [(result.rule, result.findings) for result in report.results if result.status is Status.FAIL] == []
    if seen.failure is not None:
        assert report.state is NodeState.UNKNOWN
        return
    healthy = judged(node.at(room.healthy, seen.received), room)
    before = {result.rule: result.status for result in healthy.results}
    lost = {result.rule: result.reason for result in report.results
            if result.status is Status.UNKNOWN is not before[result.rule]}
    assert {rule: said for rule, said in lost.items() if not REASON.search(said)} == {}
    became = {result.rule for result in report.results
              if result.status is Status.SKIPPED is not before[result.rule]}
    assert became == set(), "skipped, as if the node had no such thing"
