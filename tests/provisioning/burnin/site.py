"""A site of CPU nodes that all are this machine, for whole burn-ins: an inventory, what keeps jobs away, and
rules that judge no speed.

Ranks of gloo share two cores with whatever runs there, so how fast they are says nothing; everything else of
a burn-in is real.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.command import MUSTER, environment, muster
from tests.testbed import badgpu
from tests.testbed.collector import MARK
from tests.testbed.planted import executable

# A program of the site's own: no job runs anywhere, and it keeps what it is told in a JSON file.
_CORDON = """#!{python} -IS
import json, sys
asked = json.load(sys.stdin)
site = json.load(open({path!r}))
answer = {{"schema": "muster.action/1", "done": True}}
if asked["action"] == "held":
    answer["nodes"] = {{node: {{"holder": "nobody", "busy": False}} if site.get(node) is None else
                       {{"holder": "us", "reason": site[node], "busy": False}} for node in asked["nodes"]}}
else:
    site.update(dict.fromkeys(asked["nodes"], asked["reason"] if asked["action"] == "isolate" else None))
    json.dump(site, open({path!r}, "w"))
print(json.dumps(answer))
"""
SMALL = {
    "known.n": 64, "known.run_s": 0, "known.precisions": "fp32", "random.n": 64, "random.run_s": 0,
    "random.precisions": "fp32", "memory.bytes": 65536, "memory.dwell_s": 0, "memory.walks": 1, "rate.n": 64,
    "rate.run_s": 0.02, "rate.warm_s": 0, "rate.precisions": "fp32", "copy.bytes": 65536, "copy.repeats": 3,
    "allreduce.bytes": 65536, "allreduce.iterations": 10, "allreduce.checks": 1, "sizes.factor": 64,
    "sizes.iterations": 5, "host.bytes": 65536, "host.run_s": 0.02, "train.steps": 24,
    **{
        f"{kind}.ramp_s": 0
            for kind in ("known", "random", "memory", "rate", "copy", "host", "allreduce", "sizes", "train")}}
RULES = """relative: {nccl: 0.97, gloo: null}
accept:
  gloo: [tflops_fp32 in node, memory_gb_s in node, copy_to_gb_s in node, copy_from_gb_s in node,
         host_gb_s in node, busbw_gb_s in node, checksums in node,
         train_steps_s in node, busbw_gb_s in leaf-pairs, busbw_gb_s in cross-pairs, busbw_gb_s in all,
         busbw_by_size_gb_s in node, busbw_by_size_gb_s in all]
  nccl: [busbw_gb_s in node, busbw_gb_s in leaf-pairs, busbw_gb_s in all, busbw_by_size_gb_s in node,
         busbw_by_size_gb_s in all]
"""


class Site:
    """In `home`: muster.yaml with nodes n1, n2 ... in leaves of two, and a Python whose ranks have the
    planted faults."""

    def __init__(
        self, home: Path, python: str | tuple[str, ...], nodes: int = 4, ranks: int = 1, *,
        cordon: str | None = None,
        marked: str = "", small: dict[str, Any] | None = None, sku: str = "cpu-only", rules: str = RULES,
    ) -> None:
        self.home = home
        self.names = [f"n{number}" for number in range(1, nodes + 1)]
        self.marks = {MARK: marked} if marked else {}
        self.held = home / "held.json"
        self.held.write_text("{}")
        program = executable(home / "site-cordon", _CORDON.format(python=sys.executable, path=str(self.held)))
        self.faults = home / "faults.json"
        self.plant()
        (home / "rules").mkdir()
        (home / "rules/burnin.yaml").write_text(rules)
        words = [*([python] if isinstance(python, str) else python), str(Path(badgpu.__file__).resolve()),
                 str(self.faults)]
        entries = {
            name: {"leaf": f"leaf{(at // 2) + 1}", "address": f"127.0.0.{at + 2}", "power": name}
                for at, name in enumerate(self.names)}
        (home / "muster.yaml").write_text(
            json.dumps({
                "version": 1, "cordon": cordon or {"command": [str(program)]},
                "burnin": {"params": {**SMALL, **(small or {})}, "head": "127.0.0.1"},
                "defaults": {
                    "sku": sku, "python": sys.executable,
                    "burnin": {"python": words, "ranks": ranks}}, "nodes": entries}))

    def plant(self, *faults: dict[str, Any]) -> None:
        """From now on ranks have these faults (tests.testbed.badgpu)."""
        self.faults.write_text(json.dumps(faults))

    def words(self, *more: str, launcher: str = "local", nodes: str = "@all") -> list[str]:
        return [str(MUSTER), "burnin", "run", nodes, "--launcher", launcher, "--rules", "rules", "--output",
                "doc.json", *more]

    def environment(self, **more: str) -> dict[str, str]:
        return environment(self.home, **self.marks, **more)

    def come_to(self, said: str, *more: str, **variables: str) -> subprocess.Popen[str]:
        """A burn-in at work that has just said this."""
        head = subprocess.Popen(
            self.words(*more), cwd=self.home, env=self.environment(**variables), stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert head.stderr is not None and any(said in line for line in head.stderr)
        return head

    def run(
        self, *more: str, launcher: str = "local", nodes: str = "@all", timeout: float = 110,
        code: int | None = None, **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        """A burn-in of these nodes, to its end."""
        words = self.words(*more, launcher=launcher, nodes=nodes)[1:]
        return self.muster(*words, timeout=timeout, code=code, **variables)

    def muster(
        self, *words: str, timeout: float = 60, code: int | None = None, **variables: str,
    ) -> subprocess.CompletedProcess[str]:
        return muster(*words, home=self.home, timeout=timeout, code=code, **self.marks, **variables)

    def document(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.home / "doc.json").read_text())
        return found

    def cordoned(self) -> Sequence[str]:
        """The nodes that someone holds."""
        return [node for node, reason in json.loads(self.held.read_text()).items() if reason is not None]


def kept(state: Path) -> list[Path]:
    """The documents in a state folder, the oldest first."""
    folder = state / "burnin"
    return sorted(folder.glob("*.burnin.json"), key=os.path.getmtime) if folder.is_dir() else []
