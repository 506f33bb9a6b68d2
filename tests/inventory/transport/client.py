"""A sweep in a process of its own, for tests of its end: `python -m` this with nodes as JSON."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from inventory.model import Node, Privilege
from inventory.sshconfig import SshConfig
from inventory.transport.ssh import SshTransport
from tests.inventory.transport.speaker import speaker
from tests.inventory.transport.sweeps import LIMITS
from tests.testbed.sshd import Sshd

_KEYS = ("address", "port", "user", "identity_file", "known_hosts_file", "python")


def client(server: Sshd, source: str, **nodes: dict[str, Any]) -> subprocess.Popen[str]:
    """Starts it; `nodes` are changes by name. It prints one line per reply: the name and the body."""
    found = {name: server.node(name, **changes) for name, changes in nodes.items()}
    asked = [{"name": name, "privilege": node.privilege.value,
              **{key: getattr(node, key) for key in _KEYS}} for name, node in found.items()]
    return subprocess.Popen([sys.executable, "-m", "tests.inventory.transport.client", json.dumps(asked),
                             source], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            cwd=Path(__file__).parents[3])


def main() -> None:
    nodes = [Node(privilege=Privilege(each.pop("privilege")),
                  **{key: tuple(value) if isinstance(value, list) else value for key, value in each.items()})
             for each in json.loads(sys.argv[1])]
    for reply in SshTransport(SshConfig.parse("")).run(nodes, speaker(sys.argv[2]), LIMITS):
        print(reply.node, reply.body, flush=True)


if __name__ == "__main__":
    main()
