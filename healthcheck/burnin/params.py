"""What each kind of task can be told, what it does when it is not told, and how much of it each length of burn-in asks for.

Pure data, and Python 3.8: the nodes are sent it, too, and fill in what a task leaves open, by whether they have GPUs or work on the CPU.
"""

from __future__ import annotations

from typing import Any

# kind: {name: (value on a GPU, value on the CPU, what it means)}; a task's value must be of the same type (a whole number does for both).
PARAMS: dict[str, dict[str, tuple[Any, Any, str]]] = {
    "known": {
        "precisions": ("all", "all", "all, or some of fp64,fp32,tf32,fp16,bf16,fp8; those that the device lacks are told, not failed"),
        "n": (8192, 256, "rows and columns of the matrices; a multiple of 64"),
        "run_s": (40.0, 0.0, "for how long in all, shared among the precisions"),
        "repeats": (3, 3, "products at least, in each precision"),
        "ramp_s": (0.0, 0.0, "over how long the ranks begin, one after the other, so that power rises and falls in steps"),
    },
    "random": {
        "precisions": ("all", "all", "as for known"),
        "n": (4096, 256, "rows and columns"),
        "seed": (1, 1, "of the matrices: equal seeds, equal matrices, on every node"),
        "run_s": (30.0, 0.0, "for how long in all, shared among the precisions"),
        "repeats": (20, 3, "products at least, in each precision; all must be bit-identical"),
        "ramp_s": (0.0, 0.0, "as for known"),
    },
    "memory": {
        "share": (0.95, 0.0, "of the GPU's free memory; on the CPU `bytes` says how much"),
        "bytes": (0, 16777216, "how much, where it is not 0"),
        "passes": (1, 1, "how often all patterns are gone through"),
        "walks": (2, 1, "how many of the 64 turns of the walking ones, in each pass"),
        "dwell_s": (2.0, 0.0, "between writing a pattern and reading it back"),
        "seed": (1, 1, "of the random pattern"),
        "ramp_s": (0.0, 0.0, "as for known"),
    },
    "rate": {
        "precisions": ("all", "all", "as for known"),
        "n": (8192, 256, "rows and columns"),
        "run_s": (10.0, 0.1, "for how long, in each precision"),
        "warm_s": (5.0, 0.0, "of work before the first measurement, so that clocks and temperature settle"),
        "ramp_s": (0.0, 0.0, "as for known"),
    },
    "copy": {
        "bytes": (1073741824, 4194304, "of one copy"),
        "repeats": (20, 3, "copies each way"),
        "ramp_s": (0.0, 0.0, "as for known"),
    },
    "allreduce": {
        "bytes": (4294967296, 1048576, "of each rank's buffer; a little less where the ranks do not divide it"),
        "dtype": ("fp32", "fp32", "fp32, bf16 or fp16"),
        "iterations": (50, 20, "how many are timed and verified, where run_s is 0"),
        "run_s": (0.0, 0.0, "for how long instead"),
        "warmup": (5, 2, "iterations before, at least 2, verified and not timed"),
        "compute_n": (2048, 64, "rows and columns of the product between two collectives, that a late rank is late with; 0: none"),
        "check_share": (0.05, 1.0, "of the time that checking may take: several all-reduces in a row go to one check; 1: each has its own"),
        "checks": (3, 2, "how often each collective is tested in each manner afterwards; 0: none but the timed one is"),
        "check_bytes": (67108864, 65536, "of each rank's buffer in those"),
        "rail": (-1, -1, "which rail alone carries it, as a label: the environment says by which device; -1: all of them may"),
        "ramp_s": (0.0, 0.0, "of rising load before and falling load after: pauses between iterations, verified and not timed"),
    },
}

# length: {kind: what it changes}. quick: about eight minutes for a node, standard 45, soak hours (at the end, on all nodes).
LENGTHS: dict[str, dict[str, dict[str, Any]]] = {
    "quick": {
        "known": {"run_s": 40.0}, "random": {"run_s": 30.0}, "memory": {"passes": 1, "walks": 2, "dwell_s": 2.0},
        "rate": {"run_s": 8.0, "warm_s": 5.0}, "copy": {"repeats": 20}, "allreduce": {"iterations": 50},
    },
    "standard": {
        "known": {"run_s": 480.0}, "random": {"run_s": 480.0}, "memory": {"passes": 3, "walks": 8, "dwell_s": 15.0},
        "rate": {"run_s": 60.0, "warm_s": 60.0}, "copy": {"repeats": 200}, "allreduce": {"iterations": 300},
    },
    "soak": {
        "known": {"run_s": 1800.0}, "random": {"run_s": 1800.0}, "memory": {"passes": 8, "walks": 64, "dwell_s": 60.0},
        "rate": {"run_s": 300.0, "warm_s": 120.0}, "copy": {"repeats": 1000}, "allreduce": {"run_s": 14400.0},
    },
}


def params_for(kind: str, length: str, **given: Any) -> dict[str, Any]:
    """What a task of this kind is told for this length, with `given` over it. Raises ValueError for what is not known."""
    if length not in LENGTHS:
        raise ValueError(f"length {length!a}, expected one of {', '.join(LENGTHS)}")
    told = {**LENGTHS[length][kind], **given}
    completed(kind, told, gpu=True)
    return told


def completed(kind: str, told: Any, gpu: bool) -> dict[str, Any]:
    """All of a kind's parameters: what was told, else what holds for GPUs or for the CPU. Raises ValueError."""
    known = PARAMS[kind]
    whole: dict[str, Any] = {name: row[0 if gpu else 1] for name, row in known.items()}
    for name, value in told.items():
        if name not in known:
            raise ValueError(f"{name!a} is no parameter of {kind}, expected one of {', '.join(known)}")
        wanted = type(known[name][0])
        if isinstance(value, int) and not isinstance(value, bool) and wanted is float:
            value = float(value)
        if type(value) is not wanted or (wanted is not str and not (0 <= value < 1e18 or value == known[name][0])):
            expected = "text" if wanted is str else "a number of at least 0"
            raise ValueError(f"{name} of {kind} is {ascii(value)[:80]}, expected {expected}")
        whole[name] = value
    return whole
