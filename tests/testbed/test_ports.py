"""Ports for daemons: what keeps two tests that run at once from having the same one."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed import ports
from tests.testbed.ports import free_port

_ROOT = Path(__file__).parents[2]
# All look at the same ports in the same order.
_TAKES = """
import random
from tests.testbed.ports import free_port
random.seed(1)
print(*(free_port() for _ in range(100)), flush=True)
input()
"""


def test_no_two_processes_are_given_one_port() -> None:
    processes = [subprocess.Popen([sys.executable, "-c", _TAKES], cwd=_ROOT, stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True)
                 for _ in range(4)]
    given = [free_port() for _ in range(100)]
    for process in processes:
        assert process.stdout is not None
        given += map(int, process.stdout.readline().split())
    for process in processes:
        process.communicate("\n")
    assert len(given) == 500
    assert len(set(given)) == 500
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(given) < lowest


def test_a_port_that_somebody_listens_on_is_given_to_no_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", free_port())) as server:
        taken = server.getsockname()[1]
        monkeypatch.setattr(ports, "_given", set())
        monkeypatch.setattr(ports, "_PORTS", range(taken, taken + 1))
        with pytest.raises(AssertionError, match=f"none of the ports {taken} to {taken} is free"):
            free_port()
    monkeypatch.setattr(ports, "_given", set())
    assert free_port() == taken
