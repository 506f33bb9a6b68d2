"""Talks to a running qemu: its monitor (QMP, docs/interop/qmp-spec.txt), and its gdb stub, to write over a
guest's memory."""

from __future__ import annotations

import json
import socket
from pathlib import Path


def monitor(path: Path, line: str) -> str:
    """What the human monitor prints for a line."""
    asked = {"execute": "human-monitor-command", "arguments": {"command-line": line}}
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(str(path))
        with sock.makefile("rw") as file:
            file.readline()
            for one in ({"execute": "qmp_capabilities"}, asked):
                file.write(json.dumps(one) + "\n")
                file.flush()
                while True:
                    answer = json.loads(file.readline())
                    assert "error" not in answer, f"{line}: {answer['error']['desc']}"
                    # Events come in between.
                    if "return" in answer:
                        break
            return str(answer["return"])


def poke(path: Path, address: int, data: bytes) -> None:
    """Writes these bytes to the guest's memory, at a virtual address of its kernel; it is stopped meanwhile,
    and runs on afterwards."""
    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(60)
        sock.connect(str(path))
        for packet in (f"M{address:x},{len(data):x}:{data.hex()}", "D"):
            sock.sendall(f"${packet}#{sum(packet.encode()) % 256:02x}".encode())
            answer = b""
            # That it has stopped, for us, may be said in between.
            while b"$OK#9a" not in answer:
                answer += sock.recv(4096)
                assert b"$E" not in answer, f"{packet[:40]}: {answer!r}"
            sock.sendall(b"+")
