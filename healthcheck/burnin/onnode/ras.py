"""Asks NCCL's RAS service on this node which ranks are missing or do not answer. Python 3.8.

NCCL has it since 2.24, on localhost:28028 or NCCL_RAS_ADDR; commands are lines (NCCL's src/ras/client.cc and
user guide, "RAS"). Its text is for people and changes between versions: it is stored, and decides nothing.
"""

from __future__ import annotations

import os
import socket
import time

RAS_PORT = 28028
RAS_S = 1.2             # in all: a rank that is called off has two seconds
MOST_RAS = 1 << 16
KEYWORDS = ("error", "warning", "missing", "dead", "unresponsive", "incomplete", "mismatch", "rank")


def ras(seconds: float = RAS_S) -> str:
    """The lines with a keyword, in one line; "" without an answer. Never raises."""
    host, _, port = os.environ.get("NCCL_RAS_ADDR", "").rpartition(":")
    end = time.monotonic() + seconds
    text = b""
    try:
        with socket.create_connection((host.strip("[]") or "127.0.0.1", int(port or RAS_PORT)),
                                      timeout=seconds) as sock:
            # Its timeout for other processes, in whole seconds; the answer is "OK".
            sock.sendall(b"TIMEOUT 1\n")
            sock.recv(64)
            sock.sendall(b"STATUS\n")
            while len(text) < MOST_RAS:
                sock.settimeout(max(0.01, end - time.monotonic()))
                data = sock.recv(1 << 16)
                if not data:
                    break
                text += data
    except (OSError, ValueError):
        pass
    lines = (" ".join(line.split()) for line in text.decode("utf-8", "replace").split("\n"))
    return "; ".join(line for line in lines if any(word in line.lower() for word in KEYWORDS))[:1500]
