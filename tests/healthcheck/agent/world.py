"""An installed agent on a simulated H100 node: its tree, what was installed,
and an environment that holds nothing else."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from healthcheck.config.rulesfolder import packaged
from healthcheck.ruleset.ruleset import Ruleset, load_ruleset
from inventory.model import Node
from provisioning.agent.bundle import Bundle, build
from provisioning.demo import h100, machine
from provisioning.demo.build import build as build_libraries
from provisioning.demo.machine import DemoMachine

PYENV = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"


def rules() -> Ruleset:
    return load_ruleset([packaged()])


def bundle() -> Bundle:
    return build(rules())


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

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(["/usr/bin/python3", *self.argv, *words], env=self.env,
                                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)

    def check(self, home: Path, *words: str) -> dict[str, Any]:
        """What `muster check --local` says of the same tree."""
        done = subprocess.run(
            [str(Path(sys.executable).parent / "muster"), "check", "--local", "--format", "json", "--full", *words],
            cwd=home, text=True, env={**self.env, "HOME": str(home), "MUSTER_STATE": str(home / "state"),
                                      "MUSTER_ROOT": str(self.tree)}, capture_output=True,
            timeout=120, check=False, stdin=subprocess.DEVNULL)
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
