"""The ways to a node, all asked alike: paramiko, the system's ssh, each kept, and this machine."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from inventory.model import Node
from inventory.sshconfig import SshConfig
from inventory.transport.base import Limits, Program, Reply, Transport
from inventory.transport.local import LocalTransport
from inventory.transport.openssh import OpensshTransport
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS
from tests.testbed.planted import private
from tests.testbed.require import require

ALL = ("paramiko", "paramiko kept", "openssh", "openssh kept")


class Way:
    """One of the transports, with no configuration but what a test gives."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self.openssh = name.startswith("openssh")
        self.local = name == "local"
        self._folder = folder
        self._keep = name.endswith("kept")

    def transport(self, config: str = "") -> OpensshTransport | SshTransport | LocalTransport:
        """To be closed, where it can be."""
        if self.local:
            return LocalTransport()
        if not self.openssh:
            return SshTransport(SshConfig.parse(config), keep=self._keep)
        path = private(self._folder / "ssh_config", config)
        return OpensshTransport([path], keep=20.0 if self._keep else None)

    @contextmanager
    def opened(self, config: str = "") -> Iterator[Transport]:
        """The transport, closed afterwards."""
        transport = self.transport(config)
        try:
            yield transport
        finally:
            if not isinstance(transport, LocalTransport):
                transport.close()

    def replies(self, nodes: Iterable[Node], program: Program, limits: Limits = LIMITS) -> Iterator[Reply]:
        """As they come; closed with the iterator."""
        with self.opened() as transport:
            replies = transport.run(nodes, program, limits)
            try:
                yield from replies
            finally:
                replies.close()  # type: ignore[attr-defined]

    def sweep(
        self, nodes: Iterable[Node], program: Program | None = None, *, config: str = "", **limits: Any,
    ) -> dict[str, Reply]:
        """One reply per node, by name."""
        with self.opened(config) as transport:
            return {reply.node: reply
                    for reply in transport.run(nodes, program or speaker(), replace(LIMITS, **limits))}

    def one(self, node: Node, program: Program | None = None, *, config: str = "", **limits: Any) -> Reply:
        return self.sweep([node], program, config=config, **limits)[node.name]


def ways(*names: str, slow: Iterable[str] = ()) -> Any:
    """A fixture: these ways, one after the other; those of `slow` in the slow tier alone."""
    @pytest.fixture(params=[*names, *(pytest.param(name, marks=pytest.mark.slow) for name in slow)])
    def way(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Way:
        require(shutil.which("ssh"), "no ssh on this machine: apt-get install -y openssh-client")
        return Way(request.param, tmp_path_factory.mktemp("way"))

    return way
