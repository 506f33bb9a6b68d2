"""Back ends of cordons as a site has them, each with the hands of a person who works beside us on the same
nodes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Protocol

from healthcheck.store.marks import mark_of
from inventory.model import InKubernetes
from provisioning.actions.base import ActionError, Backend, Holder, NodeHold
from provisioning.actions.command import CommandBackend
from provisioning.actions.golden import GoldenSet
from provisioning.actions.hostfile import HostFile
from provisioning.actions.kubeapi import Api
from provisioning.actions.kubenode import KEY
from provisioning.actions.kubernetes import Kubernetes
from provisioning.actions.slurm import SlurmBackend
from tests.testbed.kubernetes import Serving
from tests.testbed.planted import executable
from tests.testbed.slurm import Slurm
from tests.testbed.sshd import wait_until


class Site(Protocol):
    """A back end with some nodes that no one holds, and a person. `unknown` is who holds a node that the site
    does not have."""

    backend: Backend
    unknown: Holder

    def hold(self, node: str, words: str) -> None:
        """The person keeps jobs away from a node, in these words."""

    def free(self, node: str) -> None:
        """The person gives a node back, whoever held it."""

    def shown(self, node: str) -> str:
        """All that is there to see of a node, where everybody can see it."""


class Memory:
    """A back end of one dictionary: node -> reason, None where no one holds it."""

    name = "memory"
    unknown = Holder.ABSENT

    def __init__(self, nodes: Collection[str]) -> None:
        self.reasons: dict[str, str | None] = dict.fromkeys(nodes)
        self.backend: Backend = self

    def held(self, nodes: Collection[str]) -> Mapping[str, NodeHold]:
        return {node: self._held(node) for node in nodes}

    def _held(self, node: str) -> NodeHold:
        if node not in self.reasons:
            return NodeHold(Holder.ABSENT)
        reason = self.reasons[node]
        if reason is None:
            return NodeHold(Holder.NO_ONE)
        mark = mark_of(reason)
        return NodeHold(Holder.OTHERS if mark is None else Holder.US, reason, mark)

    def isolate(self, node: str, reason: str) -> None:
        if self.reasons[node] is not None:
            raise ActionError(f"{node} is held already")
        self.reasons[node] = reason

    def release(self, node: str, shown: str = "") -> None:
        if shown and self.reasons[node] != shown:
            raise ActionError(f"others hold it now: {self.reasons[node]}")
        self.reasons[node] = None

    def rewrite(self, node: str, shown: str, reason: str) -> None:
        self.release(node, shown)
        self.reasons[node] = reason

    def hold(self, node: str, words: str) -> None:
        self.reasons[node] = words

    def free(self, node: str) -> None:
        self.reasons[node] = None

    def shown(self, node: str) -> str:
        return repr(self.reasons[node])


class HostFileSite:
    """A file of hosts to leave out."""

    unknown = Holder.NO_ONE

    def __init__(self, folder: Path) -> None:
        self.path = folder / "bad"
        self.path.write_text("# by hand\n\n")
        self.backend: Backend = HostFile(self.path)

    def hold(self, node: str, words: str) -> None:
        self.free(node)
        self.path.write_text(f"{self.path.read_text()}{node}  # {words}\n")

    def free(self, node: str) -> None:
        self.path.write_text("".join(line for line in self.path.read_text().splitlines(True)
                                     if not line.startswith(f"{node} ")))

    def shown(self, node: str) -> str:
        return self.path.read_text()


class GoldenSite:
    """A file of hosts to use. A person who takes one out leaves a comment, or in another muster's words that
    muster's."""

    unknown = Holder.OTHERS

    def __init__(self, folder: Path, nodes: Collection[str]) -> None:
        self.path = folder / "good"
        self.path.write_text("# racks 1 to 4\n" + "".join(f"{node}  # {at}\n"
                                                          for at, node in enumerate(nodes)))
        self.backend: Backend = GoldenSet(self.path)

    def hold(self, node: str, words: str) -> None:
        kept = [line for line in self.path.read_text().splitlines(True) if node not in line]
        self.path.write_text(f"{''.join(kept)}# {words}  {node}\n")

    def free(self, node: str) -> None:
        kept = [line for line in self.path.read_text().splitlines(True) if node not in line]
        self.path.write_text(f"{''.join(kept)}{node}\n")

    def shown(self, node: str) -> str:
        return self.path.read_text()


_PROGRAM = """#!{python} -IS
import json, re, sys
asked = json.load(sys.stdin)
assert asked["schema"] == "muster.action/1"
site = json.load(open({path!r}))

def held(node):
    if node not in site:
        return {{"holder": "absent"}}
    reason = site[node]
    if reason is None:
        return {{"holder": "nobody", "busy": False}}
    ours = re.match("muster(:[0-9a-f]{{4,16}})?#[1-9][0-9]{{0,11}}:( |$)", reason)
    return {{"holder": "us" if ours else "others", "reason": reason}}

answer = {{"schema": "muster.action/1", "done": True}}
if asked["action"] == "held":
    answer["nodes"] = {{node: held(node) for node in asked["nodes"]}}
elif asked["action"] == "list":
    answer["nodes"] = {{node: one for node in site if (one := held(node))["holder"] == "us"}}
else:
    site.update(dict.fromkeys(asked["nodes"], asked["reason"][:120] if asked["action"] == "isolate" else None))
    json.dump(site, open({path!r}, "w"))
print(json.dumps(answer))
"""  # noqa: E501


class CommandSite:
    """A program of the site's own that keeps a JSON file, and of a reason only 120 characters."""

    unknown = Holder.ABSENT

    def __init__(self, folder: Path, nodes: Collection[str]) -> None:
        self.path = folder / "site.json"
        self.path.write_text(json.dumps(dict.fromkeys(nodes)))
        program = executable(
            folder / "site-cordon", _PROGRAM.format(python=sys.executable, path=str(self.path)))
        self.backend: Backend = CommandBackend([str(program)], 30)

    def _set(self, node: str, reason: str | None) -> None:
        self.path.write_text(json.dumps({**json.loads(self.path.read_text()), node: reason}))

    def hold(self, node: str, words: str) -> None:
        self._set(node, words)

    def free(self, node: str) -> None:
        self._set(node, None)

    def shown(self, node: str) -> str:
        return self.path.read_text()


class KubernetesSite:
    """A cluster behind a real HTTPS server, or a real one. A person cordons with kubectl, and may write into
    our annotation."""

    unknown = Holder.ABSENT

    def __init__(self, bed: Serving, nodes: Collection[str]) -> None:
        self.bed = bed
        for node in nodes:
            bed.add(node, taints=[{"key": "nvidia.com/gpu", "effect": "NoSchedule"}])
        self.backend: Backend = Kubernetes(InKubernetes(), Api(str(bed.config)))

    def hold(self, node: str, words: str) -> None:
        self.free(node)
        mark = mark_of(words)
        taints = [*self.bed.node(node)["spec"]["taints"],
                  *([{"key": KEY, "value": f"{mark.store}.{mark.number}".lstrip("."), "effect": "NoSchedule"}]
                    if mark else [])]
        self.bed.patch(node, {"metadata": {"annotations": {KEY: words}},
                              "spec": {"unschedulable": True, "taints": taints}},
                       "muster" if mark else "kubectl-cordon")

    def free(self, node: str) -> None:
        taints = [taint for taint in self.bed.node(node)["spec"]["taints"] if taint["key"] != KEY]
        self.bed.patch(node, {"spec": {"unschedulable": None, "taints": taints}})

    def shown(self, node: str) -> str:
        found = self.bed.node(node)
        return json.dumps([found["spec"], found["metadata"].get("annotations", {}),
                           found["metadata"].get("labels", {})], sort_keys=True)


class SlurmSite:
    unknown = Holder.ABSENT

    def __init__(self, bed: Slurm) -> None:
        self.bed = bed
        self.backend: Backend = SlurmBackend()

    def hold(self, node: str, words: str) -> None:
        self.bed.ask("scontrol", "update", f"nodename={node}", "state=drain", f"reason={words}")

    def free(self, node: str) -> None:
        self.bed.ask("scontrol", "update", f"nodename={node}", "state=resume")

    def shown(self, node: str) -> str:
        return self.bed.ask("sinfo", "-h", "-n", node, "-o", "%T %E %H").replace("*", "")

    def restore(self) -> None:
        """Afterwards no one holds any node."""
        for node, state in self.bed.states().items():
            if state.rstrip("*") != "idle":
                subprocess.run(["scontrol", "update", f"nodename={node}", "state=resume"],
                               env=self.bed.environment, check=False)
        wait_until(lambda: set(self.bed.states().values()) == {"idle"}, what="idle nodes")
