"""Inventories without a file: names from the command line, or the nodes that Slurm knows."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import NamedTuple

from inventory.errors import UsageError
from inventory.model import Inventory, Lifecycle, Node
from inventory.nodeset import MAX_NODES, NAME, expand, natural
from inventory.slurmstates import meaning, states_in
from inventory.text import clean, short

SINFO = ("sinfo", "-h", "-N", "-o", "%N %T")
SINFO_SECONDS = 30.0
MAX_OUTPUT = 32 * 1024 * 1024      # 100,000 nodes in some partitions each, with room
MAX_STDERR = 64 * 1024


class CommandOutput(NamedTuple):
    """What a command returned: its exit status (negative for a signal) and what it printed, at most
    `MAX_OUTPUT` bytes and one."""

    exit: int
    stdout: bytes
    stderr: bytes


Run = Callable[[Sequence[str]], CommandOutput]
"""Runs an argv list; raises OSError, of which TimeoutError says that it did not end in time."""


def from_names(text: str) -> Inventory:
    """The nodes of a node set, known by name only: ssh_config and the resolver decide how each is reached.
    Raises InventoryError for bad syntax, UsageError for no node, and for groups, which need an inventory."""
    if "@" in text or "*" in text or "?" in text:
        raise UsageError(f"{short(text)}: groups and wildcards need an inventory, and none was found: use "
                         "--inventory FILE")
    names = expand(text)
    if not names:
        raise UsageError(f"{short(text)} names no node")
    return _inventory(names, "names on the command line")


def from_slurm(run: Run | None = None) -> Inventory:
    """The nodes that `sinfo` lists, in natural order; one whose machine is powered down is `planned`. Raises
    UsageError, one line with the next step, when sinfo is missing, fails, takes over 30 seconds, prints too
    much or nothing, or lists a bad node name."""
    names: dict[str, str] = {}
    for line in output(SINFO, run).decode("utf-8", "backslashreplace").splitlines():
        if line.strip():
            name, _, state = line.strip().partition(" ")
            names[name] = state
    for name in names:
        if NAME.fullmatch(name) is None:
            raise UsageError(f"sinfo lists {short(name)}, which is not a node name")
    if not names:
        raise UsageError("sinfo lists no node; see: sinfo -N")
    if len(names) > MAX_NODES:
        raise UsageError(f"sinfo lists over {MAX_NODES} nodes")
    found = _inventory(sorted(names, key=natural), "nodes of Slurm")
    return replace(found, nodes=MappingProxyType({
        node.name: node if (means := meaning(states_in(names[node.name]))) is None
        else replace(node, lifecycle=Lifecycle(means[1].lifecycle)) for node in found}))


def output(argv: Sequence[str], run: Run | None = None) -> bytes:
    """What a command of Slurm prints. Raises UsageError, one line with the next step, when it is missing,
    fails, takes over 30 seconds or prints more than `MAX_OUTPUT` bytes."""
    name = argv[0]
    try:
        answer = (run or _run)(argv)
    except FileNotFoundError:
        raise UsageError(
            f"{name} was not found; run this where Slurm's commands are, or name the nodes: muster check "
            "'gpu[001-064]'",
        ) from None
    except TimeoutError:
        raise UsageError(f"{name} did not answer within {SINFO_SECONDS:g} s; check that slurmctld runs: "
                         "scontrol ping") from None
    except OSError as problem:
        raise UsageError(f"{name} cannot be run: {problem.strerror}") from None
    if len(answer.stdout) > MAX_OUTPUT:
        raise UsageError(f"{name} printed over {MAX_OUTPUT} bytes, expected a list of nodes")
    if answer.exit != 0:
        raise UsageError(
            f"{name} failed (exit {answer.exit}): {_first_line(answer.stderr)}; see: scontrol ping")
    return answer.stdout


def _environment() -> dict[str, str]:
    """Dates in one form, in a time that no summer shifts (slurm.conf(5), sinfo(1): SLURM_TIME_FORMAT)."""
    return {**os.environ, "LC_ALL": "C", "TZ": "UTC0", "SLURM_TIME_FORMAT": "standard"}


def _run(argv: Sequence[str]) -> CommandOutput:
    deadline = time.monotonic() + SINFO_SECONDS
    outputs: dict[str, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    with subprocess.Popen(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment(),
    ) as child, selectors.DefaultSelector() as selector:
        try:
            selector.register(child.stdout or -1, selectors.EVENT_READ, "stdout")
            selector.register(child.stderr or -1, selectors.EVENT_READ, "stderr")
            while selector.get_map() and len(outputs["stdout"]) <= MAX_OUTPUT:
                ready = selector.select(max(deadline - time.monotonic(), 0))
                if not ready:
                    raise TimeoutError
                for key, _ in ready:
                    data = os.read(key.fd, 65536)
                    if not data:
                        selector.unregister(key.fileobj)
                    elif key.data == "stdout" or len(outputs["stderr"]) < MAX_STDERR:
                        outputs[key.data] += data
            if not selector.get_map():
                child.wait(max(deadline - time.monotonic(), 0))
        except subprocess.TimeoutExpired:
            raise TimeoutError from None
        finally:
            if child.poll() is None:
                child.kill()
    return CommandOutput(child.returncode, bytes(outputs["stdout"]), bytes(outputs["stderr"]))


def _inventory(names: Iterable[str], source: str) -> Inventory:
    return Inventory(MappingProxyType({name: Node(name) for name in names}), MappingProxyType({}), source)


def _first_line(output: bytes) -> str:
    lines = output.decode("utf-8", "surrogateescape").split("\n")
    text = next((line.strip() for line in lines if line.strip()), "no message")
    return clean(text, 200)
