"""The ways to a node, all asked alike: paramiko, the system's ssh, and both with connections that are kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.transport.base import Limits, Program, Reply
from inventory.transport.openssh import OpensshTransport
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS


class Way:
    """One of the transports, with no configuration but what a test gives."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.openssh = name.startswith("openssh")
        self._folder = folder
        self._keep = name.endswith("kept")

    def transport(self, config: str = "") -> OpensshTransport | SshTransport:
        """To be closed."""
        if not self.openssh:
            return SshTransport(SshConfig.parse(config), keep=self._keep)
        path = self._folder / "ssh_config"
        path.write_text(config)
        path.chmod(0o600)
        return OpensshTransport([path], keep=20.0 if self._keep else None)

    def replies(self, nodes: Iterable[Node], program: Program, limits: Limits = LIMITS) -> Iterator[Reply]:
        """As they come; closed with the iterator."""
        with closing(self.transport()) as transport:
            yield from transport.run(nodes, program, limits)

    def sweep(self, nodes: Iterable[Node], program: Program | None = None, *, config: str = "", **limits: Any) -> dict[str, Reply]:
        """One reply per node, by name."""
        with closing(self.transport(config)) as transport:
            return {reply.node: reply for reply in transport.run(nodes, program or speaker(), replace(LIMITS, **limits))}

    def one(self, node: Node, program: Program | None = None, *, config: str = "", **limits: Any) -> Reply:
        """The reply of one node."""
        return self.sweep([node], program, config=config, **limits)[node.name]
