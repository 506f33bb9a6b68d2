"""Parameters of each kind of task: names, defaults, and values for each length of burn-in.

Pure data, and Python 3.8: nodes are sent it, too, and fill in what a task leaves open, by GPU or CPU.
"""

from __future__ import annotations

from typing import Any

ROW = 16384     # bytes of a row of 4,096 elements: larger buffers consist of whole rows

# kind: {name: (value on a GPU, value on the CPU, meaning)}; a task's value must have the same type, or be a
# whole number for either.
PARAMS: dict[str, dict[str, tuple[Any, Any, str]]] = {
    "known": {
        "precisions": ("all", "all", "all, or some of fp64,fp32,tf32,fp16,bf16,fp8; those that the device "
                       "lacks are reported, not failed"),
        "n": (8192, 256, "rows and columns of the matrices; a multiple of 64"),
        "run_s": (40.0, 0.0, "for how long in all, shared among the precisions"),
        "repeats": (3, 3, "products at least, in each precision"),
        "ramp_s": (0.0, 0.0, "over how long the ranks begin, one after the other, so that power rises and "
                   "falls in steps"),
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
    "host": {
        "bytes": (2147483648, 33554432,
                  "of each rank's two buffers together; more where `caches` asks for it"),
        "caches": (4.0, 0.0,
                   "times the processor's last-level caches, that all ranks' buffers take at least together"),
        "share": (0.25, 0.25, "of the memory that is free, which all ranks take at most together"),
        "threads": (0, 1, "of each rank; 0: its share of the processor's cores"),
        "run_s": (5.0, 0.2, "for how long all copy at once"),
        "ramp_s": (0.0, 0.0, "as for known; what is timed begins after it"),
    },
    "storage": {
        "path": ("", "", "the mount, as the inventory names it"),
        "folder": ("", "", "the folder below it in which that is done"),
        "bytes": (4294967296, 16777216, "how much is written, and then read"),
        "run_s": (60.0, 10.0, "for how long at most, each way; 0: until the bytes are through"),
        "threads": (4, 2, "how many transfers of 4 MiB are under way at once"),
        "leave_share": (0.1, 0.1, "of the file system, that stays free"),
        "tests": (1, 1, "as for allreduce: one for each mount"),
        "nodes": (1, 1, "how many nodes do so at the same time, as a label, and for the space that they need "
                  "together where they share it"),
        "ramp_s": (0.0, 0.0, "as for known"),
    },
    "allreduce": {
        "bytes": (4294967296, 1048576,
                  "of each rank's buffer; a little less where the ranks do not divide it"),
        "dtype": ("fp32", "fp32", "fp32, bf16 or fp16"),
        "iterations": (50, 20, "how many are timed and verified, where run_s is 0"),
        "run_s": (0.0, 0.0, "for how long instead"),
        "warmup": (5, 2, "iterations before, at least 2, verified and not timed"),
        "compute_n": (2048, 64, "rows and columns of the product between two collectives, that a late rank "
                      "is late with; 0: none"),
        "check_share": (0.05, 1.0, "of the time that checking may take: several all-reduces in a row go to "
                        "one check; 1: each has its own"),
        "checks": (3, 2, "how often each collective is tested in each manner afterwards; 0: none but the "
                   "timed one is"),
        "check_bytes": (67108864, 65536, "of each rank's buffer in those"),
        "tests": (1, 1, "how many such tests the node does in this stage, of which this is one, as a label: "
                  "all have to be whole"),
        "rail": (-1, -1, "which rail alone carries it, as a label: the environment says by which device; -1: "
                 "all of them may"),
        "round": (0, 0, "of a link burn: which round it is of, as a label"),
        "ports": ("", "", "of a link burn: the two ports, as a label"),
        "ramp_s": (0.0, 0.0, "of rising load before and falling load after: pauses between iterations, "
                   "verified and not timed"),
    },
    "sizes": {
        "bytes": (4294967296, 1048576,
                  "the largest size, which comes first; above 16 KiB a multiple of that"),
        "factor": (8, 8, "from one size to the next, from 8 bytes on; at least 2"),
        "run_s": (0.4, 0.4, "for how long each size is timed and verified at most, but for five iterations"),
        "iterations": (200, 20, "how many of each size at most"),
        "warmup": (5, 2, "iterations of each size before, at least 2, verified and not timed"),
        "check_share": (0.05, 1.0, "as for allreduce"),
        "tests": (1, 1, "as for allreduce: two, where NVLS is on in one and off in the other"),
        "ramp_s": (0.0, 0.0, "of rising load before the largest size, as for allreduce; afterwards it falls "
                   "with the sizes"),
    },
    "train": {
        "steps": (200, 60, "forward, backward, all-reduce, optimizer"),
        "warmup": (5, 2, "of them, at the beginning, that are not timed"),
        "same_every": (2, 2, "every so many steps all ranks compute one same batch, else each its own"),
        "precision": ("bf16", "fp32", "of the products: fp32, tf32 or bf16; all else is fp32"),
        "layers": (8, 2, "of the transformer"),
        "width": (1024, 32, "of a layer; a multiple of the heads"),
        "heads": (16, 2, "of each layer"),
        "length": (512, 16, "tokens of a sequence"),
        "batch": (8, 2, "sequences of a rank in a step"),
        "vocab": (1024, 64, "how many tokens there are"),
        "seed": (1, 1, "of weights and batches: equal seeds, equal steps, on every node"),
        "ramp_s": (0.0, 0.0, "of rising load before and falling load after, by pauses: at most a quarter of "
                   "the steps each, not timed"),
    },
    "write": {
        "bytes": (65536, 65536, "of one message of ib_write_bw"),
        "run_s": (10.0, 10.0, "for how long both send"),
        "qp_timeout": (14, 14, "as its -u: 4 us x 2^n pass before a lost packet is sent again"),
        "device_a": ("", "", "the RDMA device of the first port on its node"),
        "device_b": ("", "", "of the second one"),
        "port_a": (1, 1, "the first port's number on its device"),
        "port_b": (1, 1, "the second one's"),
        "gid_a": (-1, -1, "the index of the first port's GID, where RoCE needs one; -1: ib_write_bw chooses"),
        "gid_b": (-1, -1, "the second one's"),
        "round": (0, 0, "as for allreduce"),
        "ports": ("", "", "as for allreduce"),
        "ramp_s": (0.0, 0.0, "unused"),
    },
}

# length: {kind: changes}. quick: about ten minutes for a node, standard 45, soak hours (at the end, on all
# nodes). screen, for nodes in service, takes two to three minutes and has only the kinds named here, those
# that find wrong arithmetic and wrong data. Memory patterns, rates and copies need longer; the checks of
# every sweep see ECC errors and throttling.
LENGTHS: dict[str, dict[str, dict[str, Any]]] = {
    "screen": {"known": {"run_s": 20.0}, "random": {"run_s": 15.0},
               "allreduce": {"iterations": 20, "checks": 1}},
    "quick": {
        "known": {"run_s": 40.0}, "random": {"run_s": 30.0},
        "memory": {"passes": 1, "walks": 2, "dwell_s": 2.0},
        "rate": {"run_s": 8.0, "warm_s": 5.0}, "copy": {"repeats": 20}, "host": {"run_s": 5.0}, "storage": {},
        "allreduce": {"iterations": 50}, "sizes": {"iterations": 200}, "train": {"steps": 200},
    },
    "standard": {
        "known": {"run_s": 480.0}, "random": {"run_s": 480.0},
        "memory": {"passes": 3, "walks": 8, "dwell_s": 15.0},
        "rate": {"run_s": 60.0, "warm_s": 60.0}, "copy": {"repeats": 200}, "host": {"run_s": 10.0},
        "storage": {"bytes": 34359738368, "run_s": 120.0}, "allreduce": {"iterations": 300},
        "sizes": {"iterations": 1000, "run_s": 2.0}, "train": {"steps": 500},
    },
    "soak": {
        "known": {"run_s": 1800.0}, "random": {"run_s": 1800.0},
        "memory": {"passes": 8, "walks": 64, "dwell_s": 60.0},
        "rate": {"run_s": 300.0, "warm_s": 120.0}, "copy": {"repeats": 1000}, "host": {"run_s": 60.0},
        "storage": {"bytes": 34359738368, "run_s": 120.0}, "allreduce": {"run_s": 14400.0},
        "sizes": {"iterations": 1000, "run_s": 2.0}, "train": {"steps": 2000},
    },
}


def params_for(kind: str, length: str, **given: Any) -> dict[str, Any]:
    """The parameters of a task of this kind and length, with `given` over them. Raises ValueError."""
    if length not in LENGTHS:
        raise ValueError(f"length {length!a}, expected one of {', '.join(LENGTHS)}")
    given = {**LENGTHS[length].get(kind, {}), **given}
    completed(kind, given, gpu=True)
    return given


def completed(kind: str, given: Any, gpu: bool) -> dict[str, Any]:
    """All parameters of a kind: the given ones, else the defaults for GPUs or the CPU. Raises ValueError."""
    known = PARAMS[kind]
    whole: dict[str, Any] = {name: row[0 if gpu else 1] for name, row in known.items()}
    for name, value in given.items():
        if name not in known:
            raise ValueError(f"{name!a} is no parameter of {kind}, expected one of {', '.join(known)}")
        wanted = type(known[name][0])
        if isinstance(value, int) and not isinstance(value, bool) and wanted is float:
            value = float(value)
        if type(value) is not wanted or (wanted is not str
                                         and not (0 <= value < 1e18 or value == known[name][0])):
            expected = "text" if wanted is str else "a number of at least 0"
            raise ValueError(f"{name} of {kind} is {ascii(value)[:80]}, expected {expected}")
        whole[name] = value
    if kind == "sizes" and (whole["factor"] < 2 or whole["bytes"] < 8):
        given = f"from 8 to {whole['bytes']} bytes by a factor of {whole['factor']}"
        raise ValueError(f"sizes {given}: expected at least 8 bytes and a factor of at least 2")
    return whole


def ladder(most: int, factor: int) -> list[int]:
    """The sizes of a sweep in bytes, ascending: 8, times the factor repeatedly, and at last the largest. Each
    is a buffer of whole 4-byte elements, of whole rows where it is larger than one."""
    most = most // ROW * ROW if most > ROW else most // 4 * 4
    found = []
    size = 8
    while size < most:
        found.append(size if size < ROW else size // ROW * ROW)
        size *= factor
    return [*found, most]
