"""What NCCL logs of the network that it chose, in a file of its own that has no name: the proof that RDMA was used, or was not.

Python 3.8. The lines are NCCL's ("NET/IB : Using [0]mlx5_0:1/IB", "via NET/IB/0/GDRDMA"), documented with NCCL_DEBUG; it was not run on
a GPU. NCCL opens the path that NCCL_DEBUG_FILE names, which here leads to memory of this process.
"""

from __future__ import annotations

import os
from typing import Any

MOST_LOG = 4 << 20


class NcclLog:
    """Counts lines of NCCL's log. Without NCCL_DEBUG in the environment there is none, nor where the site has it written elsewhere."""

    def __init__(self, environment: Any) -> None:
        self.file = -1
        if "NCCL_DEBUG" in environment and "NCCL_DEBUG_FILE" not in environment:
            self.file = os.memfd_create("nccl")
            environment["NCCL_DEBUG_FILE"] = "/proc/self/fd/%d" % self.file

    def facts(self) -> dict[str, str]:
        """How many lines speak of RDMA, of RDMA to the GPU's memory, and of plain sockets; none where nothing was logged."""
        if self.file < 0:
            return {}
        lines = os.pread(self.file, MOST_LOG, 0).split(b"\n")
        if lines == [b""]:
            return {"nccl_log": "nothing was logged"}
        return {"nccl_" + word.decode().lower().replace("/", "_"): str(sum(word in line for line in lines))
                for word in (b"NET/IB", b"NET/OFI", b"NET/gIB", b"GDRDMA", b"NET/Socket", b"NVLS")}
