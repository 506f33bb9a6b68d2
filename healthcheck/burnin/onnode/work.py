"""Which function does the work of which kind of task. Python 3.8."""

from __future__ import annotations

from typing import Any, Callable

from healthcheck.burnin.onnode.allreduce import allreduce
from healthcheck.burnin.onnode.copy import copies
from healthcheck.burnin.onnode.gemm import gemm_known, gemm_random, gemm_rate
from healthcheck.burnin.onnode.host import host_memory
from healthcheck.burnin.onnode.memory import memory_patterns
from healthcheck.burnin.onnode.sizes import sizes
from healthcheck.burnin.onnode.storage import storage_speed
from healthcheck.burnin.onnode.train import train

WORK: dict[str, Callable[[Any, Any], None]] = {
    "known": gemm_known, "random": gemm_random, "rate": gemm_rate, "memory": memory_patterns,
    "copy": copies,
    "host": host_memory, "storage": storage_speed, "allreduce": allreduce, "sizes": sizes,
    "train": train,
}
