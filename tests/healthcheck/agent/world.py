"""An installed agent on a simulated H100 node: its tree, what was installed,
and an environment that holds nothing else."""

from __future__ import annotations

import functools
import gzip
import json
import os
import random
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from inventory.model import Node
from provisioning.agent.bundle import Bundle, build
from provisioning.demo import h100, machine
from provisioning.demo.build import build as build_libraries
from provisioning.demo.machine import DemoMachine
from tests import forked
from tests.command import MUSTER, environment
from tests.packagedrules import RULES

PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


@functools.cache
def bundle() -> Bundle:
    return build(RULES)


def python(version: str) -> Path | None:
    """A Python of this version, where pyenv or this machine has one."""
    found = [*sorted(PYENV.glob(f"{version}.*/bin/python3")), Path(f"/usr/bin/python{version}")]
    return next((path for path in found if path.exists()), None)


@dataclass
class World:
    """`at` is where the three files lie; `tree` is the node."""

    at: Path
    tree: Path
    env: dict[str, str]

    @property
    def state(self) -> Path:
        return self.tree / "var/lib/muster/agent"

    @property
    def argv(self) -> list[str]:
        return ["-I", "-S", str(self.at / "muster.pyz"), "run", "--root", str(self.tree), "--state",
                str(self.state)]

    def run(
        self, *words: str, interpreter: str | Path = "/usr/bin/python3", timeout: float = 90,
    ) -> subprocess.CompletedProcess[str]:
        """The agent, in an environment of nothing but what simulates the node."""
        return subprocess.run([str(interpreter), *self.argv, *words], env=self.env, capture_output=True,
                              text=True, timeout=timeout, check=False, stdin=subprocess.DEVNULL)

    def compiled(self, other: World) -> World:
        """This node, where this machine's Python has compiled the agent's code before, as it did on the
        other; nothing else was."""
        shutil.copytree(other.state / "code", self.state / "code")
        return self

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/usr/bin/python3", *self.argv, *words], env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def check(self, home: Path, *words: str) -> dict[str, Any]:
        """What `muster check --local` says of the same tree. Only the collector, which it starts, sees the
        simulated node."""
        done = forked.run(
            [str(MUSTER), "check", "--local", "--format", "json", "--full", *words], cwd=home, timeout=120,
            env=environment(home, **self.env, MUSTER_ROOT=str(self.tree)))
        assert done.stdout, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        (node,) = document["nodes"]
        return dict(node, code=done.returncode)

    @property
    def result(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads((self.state / "result.json").read_bytes())
        return document

    @property
    def look(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(
            gzip.decompress((self.state / "recording.json.gz").read_bytes()))
        return document


def world(folder: Path, made: Bundle, node: Node, sick: DemoMachine | None = None) -> World:
    """The agent installed below `folder` for this node, of which the tree is made there."""
    tree = folder / "root"
    machine.write(sick or h100.healthy(node.name, random.Random(1)), tree,
                  {"cat": "/bin/cat", "sleep": "/bin/sleep"})
    return install(folder, made, node, tree)


def install(folder: Path, made: Bundle, node: Node, tree: Path) -> World:
    """The agent installed below `folder` for the node of this tree."""
    at = folder / "opt"
    at.mkdir()
    for name, data in made.of(node).files.items():
        (at / name).write_bytes(data)
    libraries = build_libraries()
    env = {"PATH": f"{tree}/usr/bin", "LD_LIBRARY_PATH": str(libraries.nvml.parent),
           "LD_PRELOAD": str(libraries.syscalls), "MUSTER_NVML_SCENARIO": str(tree / ".muster/nvml")}
    return World(at, tree, env)
