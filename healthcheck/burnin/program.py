"""Builds the program that burn-in sends to nodes: the agent, and in its document the nursery."""

from __future__ import annotations

import functools
import json
import secrets
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from healthcheck.burnin.wire import TOKEN, token_of
from healthcheck.collector.joined import joined
from healthcheck.collector.loader import LOADER, payload
from inventory.transport.base import Program

SIDES = "sides"     # what a node asks for that runs ib_write_bw
_HERE = Path(__file__).parent
_WIRE = (_HERE / "wire.py",)
_AGENT = ("agent",)
# In order of dependency.
_NURSERY = ("slots", "environment", "store", "device", "numa", "times", "data", "flight", "ncclog", "ras",
            "sample", "gemm", "memory", "copy", "host", "storage", "exchange", "allreduce", "sizes", "train",
            "work", "rank", "snapshot", "nursery")


def build(*, run: str, secret: str, nodes: Iterable[str], hosts: Sequence[str], port: int,
          python: Sequence[str]) -> Program:
    """The program of one run for these nodes; each learns its name by the word node=NAME (`wire.NODE_WORD`).

    `hosts` are addresses of the head's key server, the likeliest first; `python` the words of a Python with
    PyTorch, which words python=WORD (`wire.PYTHON_WORD`) override for a node. Each node gets its own token on
    request (`wire.TOKEN`): it is not in the payload, the words or an environment.
    """
    document = {"run": run, "hosts": list(hosts), "port": port, "python": list(python),
                "nursery": nursery_text()}
    own = {node: {TOKEN: token_of(secret, node).encode()} for node in nodes}
    return Program(secrets.token_hex(8), LOADER,
                   payload(agent_text().encode(), json.dumps(document).encode()), own=own)


def writing(sides: Mapping[str, Sequence[Mapping[str, Any]]]) -> Program:
    """The program that runs each node's sides of a round of ib_write_bw (`onnode.writebw`), by node."""
    own = {node: {SIDES: json.dumps(list(each)).encode()} for node, each in sides.items()}
    return Program(secrets.token_hex(8), LOADER, payload(writing_text().encode(), b"{}"), own=own)


@functools.cache
def writing_text() -> str:
    """What runs ib_write_bw on a node."""
    return joined(_paths(("writebw",)))


@functools.cache
def agent_text() -> str:
    """What the transport starts on a node: the standard library's Python is enough."""
    return joined((*_WIRE, *_paths(_AGENT)))


@functools.cache
def nursery_text() -> str:
    """What a Python with PyTorch runs there."""
    return joined((*_WIRE, _HERE / "params.py", *_paths(_NURSERY)))


def _paths(names: Sequence[str]) -> tuple[Path, ...]:
    return tuple(_HERE / "onnode" / f"{name}.py" for name in names)
