"""Sweeps over SSH for tests: no one's configuration, short limits, answers by node name."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.transport.base import Limits, Program, Reply, Stage
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.speaker import speaker
from tests.testbed.planted import executable

LIMITS = Limits(sweep_s=40, node_s=30, connect_s=10, auth_s=10, login_s=10)


def sweep(
    nodes: Iterable[Node], program: Program | None = None, *, config: str = "", **limits: Any,
) -> dict[str, Reply]:
    """One reply per node, by name."""
    transport = SshTransport(SshConfig.parse(config))
    return {reply.node: reply
            for reply in transport.run(nodes, program or speaker(), replace(LIMITS, **limits))}


def one(node: Node, program: Program | None = None, *, config: str = "", **limits: Any) -> Reply:
    return sweep([node], program, config=config, **limits)[node.name]


def refusal(reply: Reply, stage: Stage) -> str:
    """The reason of a reply that failed at `stage`, which is one line for a person."""
    assert reply.failure is not None, reply
    assert reply.failure.stage is stage, reply.failure
    assert reply.failure.reason and reply.failure.reason.isprintable()
    return reply.failure.reason


def hung_python(folder: Path) -> Path:
    """Something that is called Python, and starts, and then waits."""
    return executable(folder / "python3", "#!/bin/sh\nexec cat >/dev/null\n")


def known(folder: Path, text: str) -> dict[str, Any]:
    """What makes this text the known_hosts of a node."""
    file = folder / "known_hosts"
    file.write_text(text)
    return {"known_hosts_file": (str(file),)}
