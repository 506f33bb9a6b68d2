"""Names and units of what a burn-in measures, by rank unless the text says otherwise."""

from __future__ import annotations

import re

LATENCY = "latency_us_"     # of a sweep, followed by a size in bytes
WRITE_RATE, SUSTAINED = "write_gb_s", "sustained_gb_s"
_LATENCY = re.compile(rf"{LATENCY}[1-9]\d{{0,14}}")

FIGURES = {
    "tflops_fp64": "GEMM rate, 1e12 operations a second (2 n^3 per product)",
    "tflops_fp32": "the same in single precision, TF32 off",
    "tflops_tf32": "the same in TF32",
    "tflops_fp16": "the same in half precision",
    "tflops_bf16": "the same in bfloat16",
    "tflops_fp8": "the same in 8-bit floats (e4m3), where the device and torch have them",
    "memory_gb_s": "bytes written and read back by the pattern test, a second, in 1e9",
    "memory_share": "how much of the device's memory was covered, 0 to 1",
    "copy_to_gb_s": "host to device, pinned, 1e9 bytes a second",
    "copy_from_gb_s": "device to host, pinned",
    "copy_within_gb_s": "within a GPU's memory, bytes read and written, 1e9 bytes a second",
    "host_gb_s": "read and written in the host's memory by copies of all ranks at once, 1e9 bytes a second; "
    "of a node their sum",
    "host_numa_gb_s": "of a node: the same, of the least of its NUMA nodes",
    "storage_write_gb_s": "written to a mount, past the page cache or synced, 1e9 bytes a second",
    "storage_read_gb_s": "read back from there, past the page cache",
    "clock_mhz": "SM clock while at work, median of the samples",
    "power_w": "power while at work, median",
    "temperature_c": "temperature while at work, highest",
    "throttle_bits": "NVML's throttle reasons seen, or-ed, as a number",
    "train_steps_s": "steps of the training a second by the median of its own work: forward, backward, "
    "optimizer, without the all-reduce",
    "train_loss_first": "loss of the batch that all ranks share, in the first step",
    "train_loss": "the same, when it was last computed",
    "step_p50": "time of one step of the training: own work and all-reduce, without checks, median",
    "step_p99": "the same, 99th percentile",
    "step_max": "the same, the longest",
    "step_often": "the same, that at least 5 steps and 5 % of them reach: what jitter is judged by; 0 for "
    "fewer than 10 steps",
    "size_bytes": "of an all-reduce: bytes of the buffer of each rank; of storage: those that were to be "
    "written",
    "iterations": "how many were timed",
    "seconds_p50": "time of one collective as this rank saw it, median over its iterations",
    "seconds_p99": "the same, 99th percentile",
    "seconds_max": "the same, the longest",
    "seconds_often": "the same, that at least 5 iterations and 5 % of them reach: what jitter is judged by; "
    "0 for fewer than 10 iterations",
    "compute_p50": "time of its own work between two collectives, median",
    "compute_p10": "the same, that 9 of 10 iterations or steps reach: who is late with nearly all, and not "
    "by a busy CPU",
    "busbw_gb_s": "2 (n-1)/n x bytes / seconds_p50, in 1e9 (nccl-tests, PERFORMANCE.md); 0 for one rank",
    "algbw_gb_s": "bytes / seconds_p50",
    "sustained_gb_s": "2 (n-1)/n x bytes x iterations / the time from the first to the last, checks "
    "included; a link burn is judged by it",
    "write_gb_s": "sent by ib_write_bw each way while both send: half of what it shows, 1e9 bytes a "
    "second",
    "busbw_by_size_gb_s": "of a sweep over sizes, made by the head of latency_us_SIZE: a floor of it is a "
    "ceiling of that latency",
    "verified": "iterations whose every element was verified",
    "checks": "collectives that were run and verified for their arithmetic alone, after the timed ones",
    "check_share": "of the timed work's time: making data known beforehand, and looking at it before and "
    "after",
    "overhead_share": "own bookkeeping as a share of an iteration",
}


def known(name: str) -> bool:
    """Whether a rank may report a figure of this name: one of FIGURES, or `latency_us_SIZE`, the median time
    in microseconds of an all-reduce of so many bytes, launched and waited for."""
    return name in FIGURES or _LATENCY.fullmatch(name) is not None
