"""One simulated DGX H100 on disk, looked at by the real collector and judged by the packaged rules among
healthy peers.

No network: the program runs here, under the node's tree, against the simulated driver. What a look brought is
kept in the folder that MUSTER_SCENARIO_LOOKS names, if it is set, so that judging can be repeated without
looking again.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from healthcheck.config.rulesfolder import packaged
from healthcheck.facts import boot, kernel
from healthcheck.model import recording as recordings
from healthcheck.model.outcome import NodeReport
from healthcheck.model.probes import Needs, Probe, ProbeKind
from healthcheck.model.recording import Capture, Recording
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from healthcheck.sweep.assess import Assessment
from inventory.model import Lifecycle, LifecycleState, Node
from provisioning.demo import build, h100
from provisioning.demo.machine import OWN, DemoMachine, write
from tests.testbed import collector

NODE = Node(name="gpu001", sku="dgx-h100")
PEERS = tuple(Node(name=f"gpu{number:03d}", sku="dgx-h100") for number in range(2, 9))
# Between two looks: what a timer's period is, and enough for rates by the second and by the hour.
BETWEEN_S = 600.0


@cache
def rules() -> Ruleset:
    """The packaged rules, loaded once."""
    return load_ruleset([packaged()])


@cache
def _chosen(only: tuple[str, ...]) -> Ruleset:
    return rules().select(only) if only else rules()


def machine(name: str = NODE.name) -> DemoMachine:
    """The healthy node of this name, always the same one."""
    return h100.healthy(name, random.Random(f"scenario {name}"))


def look(node: DemoMachine, folder: Path, kept: Path | None = None) -> Recording:
    """What the real collector says of this machine, under a tree in `folder`; the tree stays, for the next
    machine.

    A machine that is made of the very same files, programs and driver's values says the same, so it is looked
    at once; later looks differ in their time only. With `kept`, a folder, once for all who name it, one after
    the other.
    """
    # a set has no order that lasts
    told = repr(replace(node, programs=set())) + repr(sorted(node.programs))
    name = f"{node.name}-{hashlib.sha256(told.encode()).hexdigest()[:24]}"
    if name not in _LOOKS:
        where = os.environ.get("MUSTER_SCENARIO_LOOKS") or kept
        file = Path(where, f"{name}.json") if where else None
        if file is not None and file.exists():
            _LOOKS[name] = recordings.from_json(json.loads(file.read_text()))
        else:
            _LOOKS[name] = _look(node, folder)
            if file is not None:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(json.dumps(recordings.to_json(_LOOKS[name])))
    return at(_LOOKS[name], time.time())


_LOOKS: dict[str, Recording] = {}
# What commands printed, and what was read of files, by all that they could see of a machine: that is most of
# a look.
_SEEN: dict[int, dict[str, Capture]] = {}


def _command(probe: Probe) -> bool:
    return probe.kind is ProbeKind.COMMAND and probe.needs is Needs.NOTHING


def _file(probe: Probe) -> bool:
    return probe.kind is ProbeKind.FILES and probe.paths != kernel.LOG.paths


def _visible(node: DemoMachine) -> dict[int, Callable[[Probe], bool]]:
    """By a hash of all that some probes can see of this machine: which these are. What the driver and the
    kernel's log say is in none."""
    assert all(_top(path) == "sys" and target.startswith((".", "/sys/"))
               for path, target in node.links.items())
    held: dict[str, dict[str, str | bytes]] = {}
    for path, content in (*node.files.items(), *node.blobs.items()):
        held.setdefault(_top(path), {})[path] = content
    common = node.name, frozenset(node.links.items())
    by_top = {top: frozenset(files.items()) for top, files in held.items()}
    found: dict[int, Callable[[Probe], bool]] = {
        hash((common, frozenset(node.tools.items()), frozenset(node.programs),
              frozenset([*node.files, *node.blobs]), by_top[OWN])): _command}
    for tops in {_tops(probe) for probe in rules().probe_set(45.0).probes if _file(probe)}:
        found[hash((common, (*node.mounts,), tops, *(by_top.get(top) for top in tops)))] = (
            lambda probe, tops=tops: _file(probe) and _tops(probe) == tops)
    return found


def _top(path: str) -> str:
    return path.split("/", 2)[1]


def _tops(probe: Probe) -> tuple[str, ...]:
    """The folders at the root that it looks into."""
    return tuple(sorted({_top(path) for path in probe.paths}))


def _look(node: DemoMachine, folder: Path) -> Recording:
    visible = _visible(node)
    known = {probe: capture for what in visible for probe, capture in _SEEN.get(what, {}).items()}
    probes = [probe for probe in rules().probe_set(45.0).probes if probe.id not in known]
    tree = folder / "tree"
    libraries = build.build()
    _build(node, tree)
    env = {
        "PATH": f"{tree}/usr/bin", "MUSTER_NVML_SCENARIO": f"{tree}/.muster/nvml",
        "LD_LIBRARY_PATH": str(libraries.folder),
        "LD_PRELOAD": str(libraries.syscalls),
    }
    seen = collector.collect(probes, tree, env=env, timeout=90.0, seconds=45.0)
    shutil.rmtree(tree / "run/muster")      # what the collector leaves
    _BUILT[tree] = replace(node, files={**node.files}, blobs={**node.blobs}, links={**node.links},
                           tools={**node.tools},
                           mounts=[*node.mounts], programs={*node.programs})
    assert seen.host is not None
    for what, which in visible.items():
        _SEEN.setdefault(what, {probe.id: seen.captures[probe.id] for probe in probes if which(probe)})
    return replace(seen, node=node.name, received=seen.host.time, captures={**seen.captures, **known})


# The machine that each tree is of.
_BUILT: dict[Path, DemoMachine] = {}


def _build(node: DemoMachine, tree: Path) -> None:
    """The tree is this machine's and no other's: of over a thousand files only those are written that differ
    from what stands there."""
    was = _BUILT.pop(tree, None)
    if was is None or (was.mounts, was.programs) != (node.mounts, node.programs):
        shutil.rmtree(tree, ignore_errors=True)
        write(node, tree,
              {name: shutil.which(name) or sys.executable for name in ("python3", "cat", "sleep")})
        return
    changed: dict[str, Any] = {}
    for kind in ("files", "blobs", "links", "tools"):
        old, new = getattr(was, kind), getattr(node, kind)
        changed[kind] = {path: content
                         for path, content in new.items() if path not in old or old[path] != content}
        for path in old:
            if path not in new or path in changed[kind]:
                at = Path(f"{tree}/usr/bin/{path}" if kind == "tools" else f"{tree}{path}")
                at.unlink()
                with suppress(OSError):     # others are in its folder
                    os.removedirs(at.parent)
    write(replace(node, **changed, programs=set()), tree, {})


def earlier(seen: Recording, seconds: float = BETWEEN_S) -> Recording:
    """The same look, so long before."""
    return at(seen, seen.received - seconds)


def at(seen: Recording, moment: float) -> Recording:
    """The same look at another time."""
    assert seen.host is not None
    return replace(seen, received=moment, host=replace(seen.host, time=moment))


def kept(seen: Recording, previous: Recording | None,
         state: LifecycleState = LifecycleState.SERVICE) -> Recording:
    """A look with what the state folder adds to it: what the node was meant for, and of its boots."""
    return replace(seen,
                   captures={**seen.captures, boot.BOOT_CAPTURE: boot.boot_capture(seen, previous, state)})


class Peers:
    """The healthy nodes among which one is judged. They are judged once themselves, and only compared with it
    each time.

    All are judged with one cache of facts, as the nodes of a sweep are: what was captured alike is read once.
    """

    def __init__(self, looks: Sequence[Recording]) -> None:
        self._judged = Assessment((NODE, *PEERS), rules())
        for look in looks:
            self._judged.add(look, earlier(look))

    def beside(self, node: Node, chosen: Ruleset) -> Assessment:
        """An assessment of this node by these rules that holds its peers already."""
        assessment = Assessment((node, *PEERS), chosen)
        assessment._cache, assessment._catalogue = self._judged._cache, self._judged._catalogue
        left_out = assessment._views[node.profile].left_out
        assessment._judged.update({
            name: replace(waiting, results={**left_out, **waiting.results})
            for name, waiting in self._judged._judged.items()})
        return assessment


def judged(
    seen: Recording, previous: Recording, peers: Peers, state: LifecycleState = LifecycleState.SERVICE,
    only: Sequence[str] = (),
) -> NodeReport:
    """The node's report in a sweep with healthy peers; as `muster check --only` has it, where rules are
    named."""
    assessment = peers.beside(replace(NODE, lifecycle=Lifecycle(state)), _chosen(tuple(only)))
    assessment.add(seen, previous)
    return assessment.finish().reports[0]
