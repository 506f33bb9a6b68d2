"""What there is on a node for burn-in: PyTorch's version, how many GPUs it sees and which. Python 3.8."""

from __future__ import annotations

import glob
import os
import select
import signal
import sys
import warnings
from typing import Any

from healthcheck.burnin.onnode.environment import scrubbed
from healthcheck.burnin.onnode.rank import one_line

CUDA_S = 60.0
DRIVERS_GPUS = "/proc/driver/nvidia/gpus/*"


def look() -> dict[str, Any]:
    """What PyTorch says of this node, found in a child of its own."""
    scrubbed_names = scrubbed(os.environ)
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ.setdefault("OMP_NUM_THREADS", "1")   # a thread pool would not survive the fork
    found: dict[str, Any] = {"python": "%d.%d.%d" % sys.version_info[:3], "host": os.uname().nodename,
                             "gpus": 0, "torch": None, "facts": {}, "scrubbed": scrubbed_names}
    warnings.simplefilter("ignore")     # PyTorch's, of what it could not find
    try:
        import torch
        import torch.distributed
    except Exception as error:
        found["why"] = one_line("%s: %s" % (type(error).__name__, error))
        return found
    found["torch"] = str(torch.__version__)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            count = torch.cuda.device_count() if torch.cuda.is_available() else 0
            names = sorted({torch.cuda.get_device_name(at) for at in range(count)})
            os.write(writing, ("%d %s" % (count, ", ".join(names))).encode()[:4000])
        finally:
            os._exit(0)
    os.close(writing)
    told, _, devices = answer(reading).partition(" ")
    os.close(reading)
    if not told:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0 if told else os.WNOHANG)      # what hangs in a driver does not even die
    found["gpus"] = int(told or 0)
    found["facts"] = {"torch": str(torch.__version__), "cuda": str(torch.version.cuda or ""),
                      "devices": devices}
    there = len(glob.glob(DRIVERS_GPUS))
    if not told or there > found["gpus"]:
        # On the CPU instead it would measure something, and say that all is well.
        found["torch"] = None
        found["why"] = ("PyTorch %s sees %d of this node's %d NVIDIA "
                        "GPUs" % (torch.__version__, found["gpus"], there)
                        if told else "CUDA did not say which GPUs there are")
    return found


def answer(reading: int) -> str:
    """What the child says, "" where it ends or hangs instead: a wedged driver keeps it for good."""
    if not select.select([reading], [], [], CUDA_S)[0]:
        return ""
    return os.read(reading, 4096).decode("utf-8", "replace")
