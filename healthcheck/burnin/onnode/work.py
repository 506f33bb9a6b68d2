"""Which function does the work of which kind of task. Python 3.8."""

from __future__ import annotations

from typing import Any, Callable

from healthcheck.burnin.onnode.allreduce import allreduce
from healthcheck.burnin.onnode.copy import copy_both_ways
from healthcheck.burnin.onnode.gemm import gemm_known, gemm_random, gemm_rate
from healthcheck.burnin.onnode.memory import memory_patterns

WORK: dict[str, Callable[[Any, Any], None]] = {
    "known": gemm_known, "random": gemm_random, "rate": gemm_rate, "memory": memory_patterns, "copy": copy_both_ways,
    "allreduce": allreduce,
}
