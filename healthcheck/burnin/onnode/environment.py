"""The environment of a rank: inherited NCCL settings are removed, the task's set, and all reported."""

from __future__ import annotations

import fcntl
import os
import socket
import struct
from typing import Any

# A stale NCCL_P2P_DISABLE of a login shell is a classic false failure: none of these are inherited.
SCRUBBED = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "TORCH_DISTRIBUTED_", "GLOO_", "UCX_", "FI_", "OFI_NCCL_",
            "RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_")
# What a task may set: nothing that decides which code runs.
SETTABLE = ("NCCL_", "TORCH_NCCL_", "TORCH_FR_", "GLOO_", "UCX_", "CUDA_DEVICE_", "CUDA_VISIBLE_",
            "CUBLAS_WORKSPACE_", "OMP_NUM_", "FI_", "OFI_NCCL_")
# These could set any other variable. The head decides about the rest (inventory.ncclenv).
NEVER = ("NCCL_ENV_PLUGIN", "NCCL_GIN_PLUGIN", "NCCL_CONF_FILE")
# NCCL reads these itself: they cannot be scrubbed, so they are reported.
NCCL_FILES = ("/etc/nccl.conf", "~/.nccl.conf")
SIOCGIFADDR = 0x8915


def scrubbed(environment: Any) -> list[str]:
    """Takes what must not be inherited out of the environment; the names of what was there, sorted."""
    found = sorted(name for name in environment if name.startswith(SCRUBBED))
    for name in found:
        del environment[name]
    return found


def set_for(environment: Any, asked: Any, nccl: bool, interface: str) -> dict[str, str]:
    """Sets what the task asks for, else its default; everything that was set, by name. Raises ValueError."""
    wanted = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
              "TORCH_FR_BUFFER_SIZE": "256"}
    if interface:
        wanted["GLOO_SOCKET_IFNAME"] = interface
    if nccl:
        wanted.update({"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,NET,ENV",
                       "TORCH_NCCL_ASYNC_ERROR_HANDLING": "1", "TORCH_NCCL_DUMP_ON_TIMEOUT": "0"})
        if interface:
            wanted["NCCL_SOCKET_IFNAME"] = "=" + interface
    for name, value in asked.items():
        if not str(name).startswith(SETTABLE) or name in NEVER or "\0" in str(value):
            raise ValueError("a task may not set %s" % ascii(name))
        wanted[str(name)] = str(value)
    environment.update(wanted)
    return wanted


def conf_files() -> list[str]:
    """NCCL's own configuration files here, and what they set: nothing keeps NCCL from reading them."""
    found = []
    for path in NCCL_FILES:
        try:
            with open(os.path.expanduser(path), "rb") as file:
                text = file.read(4096).decode("utf-8", "replace")
        except OSError:
            continue
        lines = [line.strip() for line in text.split("\n") if line.strip() and not line.startswith("#")]
        found.append("%s: %s" % (path, " ".join(lines) or "empty"))
    return found


def interface_of(address: str) -> str:
    """The name of the network interface that has this IPv4 or IPv6 address; "" where none has it."""
    if ":" in address:
        return interface_of_6(address)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _, name in socket.if_nameindex():
            try:
                found = fcntl.ioctl(sock.fileno(), SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue    # it has no IPv4 address
            if socket.inet_ntoa(found[20:24]) == address:
                return name
    # All of 127.0.0.0/8 is the loopback interface, which lists only its first address.
    return "lo" if address.startswith("127.") else ""


def interface_of_6(address: str) -> str:
    """The same for an IPv6 address."""
    address = address.partition("%")[0]
    if address.startswith("::ffff:") and "." in address:
        return interface_of(address[7:])
    try:
        wanted = socket.inet_pton(socket.AF_INET6, address).hex()
        with open("/proc/net/if_inet6") as file:
            rows = [line.split() for line in file]
    except OSError:
        return ""
    return next((row[5] for row in rows if len(row) > 5 and row[0] == wanted), "")
