"""The device that a rank works on: a GPU by CUDA, or the CPU where there is none. Python 3.8."""

from __future__ import annotations

import os
from typing import Any

DTYPES = {"fp64": "float64", "fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16",
          "fp8": "float8_e4m3fn"}
ON_CPU = ("fp64", "fp32", "bf16")


class ComputeDevice:
    """Where tensors live. `gpu` counts in the order of PCI addresses."""

    def __init__(self, gpu: int) -> None:
        import torch
        self.torch: Any = torch
        self.cuda = bool(torch.cuda.is_available())
        if self.cuda:
            torch.cuda.set_device(gpu)
            self.at = "cuda:%d" % gpu
            torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
            torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        else:
            # One thread a rank, as there are as many ranks as GPUs.
            torch.set_num_threads(1)
            self.at = "cpu"

    def wait(self) -> None:
        """Returns when the device has done all queued work."""
        if self.cuda:
            self.torch.cuda.synchronize()

    def address(self) -> str:
        """The GPU's PCI address in full form; "" for the CPU, or where PyTorch does not report it."""
        if not self.cuda:
            return ""
        properties = self.torch.cuda.get_device_properties(self.at)
        if not all(hasattr(properties, "pci_%s_id" % part) for part in ("domain", "bus", "device")):
            return ""
        return "%04x:%02x:%02x.0" % (properties.pci_domain_id, properties.pci_bus_id,
                                     properties.pci_device_id)

    def free_bytes(self) -> Any:
        """Free bytes of memory, and all of them; (0, 0) for the CPU, whose memory is not under test."""
        return self.torch.cuda.mem_get_info() if self.cuda else (0, 0)

    def precisions(self, asked: str) -> tuple[list[str], dict[str, str]]:
        """Which requested precisions ("all", or "fp32,bf16") this device has, and why not the others."""
        names = list(DTYPES) if asked == "all" else [name.strip() for name in asked.split(",")]
        have, without = [], {}
        for name in names:
            if name not in DTYPES:
                raise ValueError("precision %s, expected all or some of "
                                 "%s" % (ascii(name), ", ".join(DTYPES)))
            if not self.cuda and name not in ON_CPU:
                without[name] = "not on a CPU"
            elif not hasattr(self.torch, DTYPES[name]):
                without[name] = "PyTorch %s has no such type" % self.torch.__version__
            elif self.cuda and self.capability() < {"fp8": (8, 9), "tf32": (8, 0),
                                                    "bf16": (8, 0)}.get(name, (0, 0)):
                without[name] = "the device has none"
            else:
                have.append(name)
        return have, without

    def capability(self) -> tuple[int, int]:
        """The compute capability of the GPU."""
        return self.torch.cuda.get_device_capability()  # type: ignore[no-any-return]

    def facts(self) -> dict[str, str]:
        """Versions and names, for the report."""
        torch = self.torch
        system = os.uname()
        found = {"torch": str(torch.__version__), "host": system.nodename, "kernel": system.release}
        if not self.cuda:
            # It decides which kernels run, and so the order of additions.
            return {**found, "backend": "gloo", "device": "cpu", "capability": str(getattr(
                torch.backends.cpu, "get_cpu_capability", str)())}
        properties = torch.cuda.get_device_properties(self.at)
        uuid = str(getattr(properties, "uuid", ""))
        nccl = torch.cuda.nccl.version() if torch.distributed.is_nccl_available() else ()
        return {**found, "backend": "nccl", "device": str(properties.name), "cuda": str(torch.version.cuda),
                "nccl": ".".join(map(str, nccl)), "capability": "%d.%d" % self.capability(),
                "uuid": uuid if uuid.startswith("GPU-") or not uuid else "GPU-" + uuid}
