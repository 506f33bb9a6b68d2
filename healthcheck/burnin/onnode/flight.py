"""Reads PyTorch's flight recorder: the last collectives in one bounded line. Python 3.8.

The format is PyTorch's (torch/csrc/distributed/c10d/FlightRecorder.hpp: entries with collective_seq_id,
profiling_name, state). It records gloo and NCCL where TORCH_FR_BUFFER_SIZE is set.
"""

from __future__ import annotations

import json
import sys

FLIGHT_ENTRIES = 3


def flight() -> str:
    """The last collectives: number, name and state each; "" without any. Never raises."""
    try:
        c10d = sys.modules["torch"]._C._distributed_c10d
        for name in ("_dump_fr_trace_json", "_dump_nccl_trace_json"):
            if hasattr(c10d, name):
                entries = json.loads(getattr(c10d, name)()).get("entries", [])
                if entries:
                    break
        else:
            return ""
        return ", ".join("%s %s %s" % (entry.get("collective_seq_id"), entry.get("profiling_name"),
                                       entry.get("state")) for entry in entries[-FLIGHT_ENTRIES:])[:300]
    except Exception:
        return ""
