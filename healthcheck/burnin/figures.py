"""Names and units of what a burn-in measures; each is a figure of a rank's report unless its text says otherwise."""

from __future__ import annotations

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
    "clock_mhz": "SM clock while at work, median of the samples",
    "power_w": "power while at work, median",
    "temperature_c": "temperature while at work, highest",
    "throttle_bits": "NVML's throttle reasons seen, or-ed, as a number",
    "size_bytes": "of an all-reduce: bytes of the buffer of each rank",
    "iterations": "how many were timed",
    "seconds_p50": "time of one collective as this rank saw it, median over its iterations",
    "seconds_p99": "the same, 99th percentile",
    "seconds_max": "the same, the longest",
    "seconds_often": "the same, that at least 5 iterations and 5 % of them reach: what jitter is judged by; 0 for fewer than 10 iterations",
    "compute_p50": "time of its own work between two collectives, median",
    "busbw_gb_s": "2 (n-1)/n x bytes / seconds_p50, in 1e9 (nccl-tests, PERFORMANCE.md); 0 for one rank",
    "algbw_gb_s": "bytes / seconds_p50",
    "verified": "iterations whose every element was verified",
    "checks": "collectives that were run and verified for their arithmetic alone, after the timed ones",
    "check_share": "of the timed iterations' time: making data known beforehand, and looking at it before and after",
    "overhead_share": "own bookkeeping as a share of an iteration",
}
