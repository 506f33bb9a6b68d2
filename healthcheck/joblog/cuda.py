"""Sorts the errors of CUDA calls, as programs and NCCL print them: the GPU's own failure, want of GPU memory,
or the program's. Words of cudaGetErrorString (CUDA Runtime API, 'Error handling'; NVIDIA, cudaError_t)."""

from __future__ import annotations

import re

from healthcheck.joblog.model import JobEventKind

# NCCL: "Cuda failure 'out of memory'", "Cuda failure 1 'invalid argument'" (src/include/checks.h); PyTorch:
# "CUDA error: ...", and of its own allocator "CUDA out of memory. Tried to allocate"
# (c10/cuda/CUDAException.cpp, CUDACachingAllocator.cpp).
_SAID = re.compile(r"Cuda failure(?: \d{1,4})? '([^'\n]{1,200})'|CUDA error: ([^\n]{1,300})|(CUDA out of "
                   r"memory)[^\n]{0,200}")
_OF_GPU = ("uncorrectable ecc error", "uncorrectable nvlink error", "gpu is lost", "unknown error",
           "no cuda-capable device", "busy or unavailable", "system not yet initialized",
           "system driver mismatch", "hardware stack error", "over nvlink or a hardware error",
           "driver/library version mismatch")


def said(text: str) -> tuple[JobEventKind, str] | None:
    """Of what kind the CUDA error in a line is, and its words; None where there is none."""
    match = _SAID.search(text)
    if match is None:
        return None
    words = (match[1] or match[2] or match[3]).strip()
    return kind(words), words


def kind(words: str) -> JobEventKind:
    """What an error's words accuse."""
    lower = words.lower()
    if "out of memory" in lower:
        return JobEventKind.GPU_MEMORY
    return JobEventKind.GPU if any(known in lower for known in _OF_GPU) else JobEventKind.CUDA
