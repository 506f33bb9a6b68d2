"""Whose an error is, by its words: a rank's own, or that of a connection that it shares with another. Pure.

Words of gloo (third_party/gloo/transport/tcp), of NCCL (src/include/debug.h and ncclGetErrorString), of libc
(strerror) and of CUDA (cudaGetErrorString). Both ends of a path fail alike: who raises first says nothing of
which end, or what between them, is at fault.
"""

from __future__ import annotations

import re

_SHARED = re.compile(
    r"connection (?:was )?(?:reset|refused|closed|aborted|timed out|lost)|closed by peer|reset by peer|"
    r"broken pipe|no route to host|unreachable|host is down|transport endpoint|timed? ?out|timeout|"
    r"cannot reach|hung up|connect\w* (?:to|failed|full mesh)|connectfullmesh|remote (?:process|error)|"
    r"nccl ?remote ?error|nccl ?system ?error|unhandled system error|socket|"
    r"ibv_poll_cq|work completion|\bpeer\b|rendezvous|the key ", re.IGNORECASE)
_OWN = re.compile(
    r"out of memory|cannot allocate memory|memoryerror|cuda error|cuda driver|unhandled cuda error|cublas|"
    r"cudnn|illegal (?:memory|instruction|address)|device-side assert|no kernel image|invalid device|"
    r"uncorrectable|\becc\b|\bxid\b|"
    r"no module named|cannot import|no such file|permission denied|too many open files|no space left|"
    r"valueerror|typeerror|attributeerror|importerror", re.IGNORECASE)


def of_a_connection(text: str) -> bool:
    """Whether an error speaks of a connection, or of whoever is at its other end."""
    return _SHARED.search(text) is not None


def of_its_own(text: str) -> bool:
    """Whether an error speaks of the rank's own memory, device, files or program, and of no connection."""
    return _OWN.search(text) is not None and not of_a_connection(text)
