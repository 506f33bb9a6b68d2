"""One simulated DGX H100 on disk, looked at by the real collector and judged by the packaged rules among healthy peers.

No network: the program runs here, under the node's tree, against the simulated driver. What a look brought is kept in the folder that
MUSTER_SCENARIO_LOOKS names, if it is set, so that judging can be repeated without looking again.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

from healthcheck import recording as recordings
from healthcheck.assess import Assessment
from healthcheck.facts import boot
from healthcheck.outcome import NodeReport
from healthcheck.recording import Recording
from healthcheck.ruleset import Ruleset, load_ruleset
from healthcheck.rulesfolder import packaged
from inventory.model import Lifecycle, LifecycleState, Node
from provisioning.demo import build, h100
from provisioning.demo.machine import Machine, write
from tests.testbed import collector

NODE = Node(name="gpu001", sku="dgx-h100")
PEERS = tuple(Node(name=f"gpu{number:03d}", sku="dgx-h100") for number in range(2, 9))
# Between two looks: what a timer's period is, and enough for rates by the second and by the hour.
BETWEEN_S = 600.0


@cache
def rules() -> Ruleset:
    """The packaged rules, loaded once."""
    return load_ruleset([packaged()])


def machine(name: str = NODE.name) -> Machine:
    """The healthy node of this name, always the same one."""
    return h100.healthy(name, random.Random(f"scenario {name}"))


def look(node: Machine, folder: Path) -> Recording:
    """What the real collector says of this machine, under a tree in `folder`; the tree is removed again."""
    kept = _kept(node)
    if kept is not None and kept.exists():
        return recordings.from_json(json.loads(kept.read_text()))
    tree = folder / "tree"
    libraries = build.build()
    write(node, tree, {name: shutil.which(name) or sys.executable for name in ("python3", "cat", "sleep")})
    env = {
        "PATH": f"{tree}/usr/bin", "MUSTER_NVML_SCENARIO": f"{tree}/.muster/nvml", "LD_LIBRARY_PATH": str(libraries.folder),
        "LD_PRELOAD": str(libraries.syscalls),
    }
    try:
        seen = collector.collect(rules().probe_set(45.0).probes, tree, env=env, timeout=90.0, seconds=45.0)
    finally:
        shutil.rmtree(tree)
    assert seen.host is not None
    seen = replace(seen, node=node.name, received=seen.host.time)
    if kept is not None:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_text(json.dumps(recordings.to_json(seen)))
    return seen


def earlier(seen: Recording, seconds: float = BETWEEN_S) -> Recording:
    """The same look, so long before."""
    assert seen.host is not None
    return replace(seen, received=seen.received - seconds, host=replace(seen.host, time=seen.host.time - seconds))


def kept(seen: Recording, previous: Recording | None, state: LifecycleState = LifecycleState.SERVICE) -> Recording:
    """A look with what the state folder adds to it: what the node was meant for, and of its boots."""
    return replace(seen, captures={**seen.captures, boot.KEPT: boot.kept(seen, previous, state)})


def judged(
    seen: Recording, previous: Recording, peers: Sequence[Recording], state: LifecycleState = LifecycleState.SERVICE,
) -> NodeReport:
    """The node's report in a sweep with healthy peers."""
    assessment = Assessment((replace(NODE, lifecycle=Lifecycle(state)), *PEERS), rules())
    assessment.add(seen, previous)
    for peer in peers:
        assessment.add(peer, earlier(peer))
    return assessment.finish().reports[0]


def _kept(node: Machine) -> Path | None:
    folder = os.environ.get("MUSTER_SCENARIO_LOOKS")
    if not folder:
        return None
    told = repr(replace(node, programs=set())) + repr(sorted(node.programs))     # a set has no order that lasts
    return Path(folder) / f"{node.name}-{hashlib.sha256(told.encode()).hexdigest()[:24]}.json"
