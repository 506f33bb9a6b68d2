"""What a node has for burn-in: PyTorch's version, and the GPUs that it sees. Python 3.8."""

from __future__ import annotations

import gc
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


def snapshot() -> dict[str, Any]:
    """What PyTorch reports of this node; a child process asks it."""
    scrubbed_names = scrubbed(os.environ)
    os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    os.environ.setdefault("OMP_NUM_THREADS", "1")   # a thread pool would not survive the fork
    found: dict[str, Any] = {"python": "%d.%d.%d" % sys.version_info[:3], "host": os.uname().nodename,
                             "gpus": 0, "torch": None, "facts": {}, "scrubbed": scrubbed_names}
    warnings.simplefilter("ignore")     # PyTorch's warnings about missing things
    gc.disable()    # an import makes no garbage, and looking for it takes a tenth of its time
    try:
        import torch
        import torch.distributed
    except Exception as error:
        found["why"] = one_line("%s: %s" % (type(error).__name__, error))
        return found
    finally:
        gc.enable()
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
    answered, _, devices = answer(reading).partition(" ")
    os.close(reading)
    if not answered:
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0 if answered else os.WNOHANG)      # a process that hangs in a driver does not even die
    found["gpus"] = int(answered or 0)
    found["facts"] = {"torch": str(torch.__version__), "cuda": str(torch.version.cuda or ""),
                      "devices": devices}
    there = len(glob.glob(DRIVERS_GPUS))
    if not answered or there > found["gpus"]:
        # On the CPU it would measure something, and report success.
        found["torch"] = None
        seen = torch.__version__, found["gpus"], there
        found["why"] = ("PyTorch %s sees %d of this node's %d NVIDIA GPUs" % seen if answered
                        else "CUDA did not list the GPUs")
    return found


def answer(reading: int) -> str:
    """The child's answer; "" where it ends, or hangs in a broken driver."""
    if not select.select([reading], [], [], CUDA_S)[0]:
        return ""
    return os.read(reading, 4096).decode("utf-8", "replace")
