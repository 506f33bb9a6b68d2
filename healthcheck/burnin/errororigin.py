"""Whether an error is a rank's own or that of a connection, by its words. Pure.

Words of gloo (third_party/gloo/transport/tcp), NCCL (src/include/debug.h, ncclGetErrorString), libc
(strerror) and CUDA (cudaGetErrorString). Both ends of a path fail the same way: who raises first says little.
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


def is_connection_error(text: str) -> bool:
    """Whether an error is about a connection, or about its other end."""
    return _SHARED.search(text) is not None


def is_own_error(text: str) -> bool:
    """Whether an error is about the rank's own memory, device, files or program, and no connection."""
    return _OWN.search(text) is not None and not is_connection_error(text)
