"""The variables that a site may set for a burn-in's all-reduces, by exact name; all others are removed.

Names and meanings: NVIDIA's NCCL user guide, "Environment Variables"; aws-ofi-nccl and libfabric's fi_efa(7)
for EFA; Google's nccl-gib and nccl-fastrak for its fabrics. What loads code, or reads or writes a file, is
allowed in the inventory, which the site's operator writes, but never in a SKU or a profile. NCCL_ALGO is not
allowed: stages choose it, and results are compared by it.
"""

from __future__ import annotations

import re
from typing import Any

_VALUE = re.compile(r"[ -~]{0,1024}")

# These tell NCCL and the library below it how to use the fabric.
SETTINGS = frozenset((
    "NCCL_NET", "NCCL_IB_HCA", "NCCL_IB_TC", "NCCL_IB_FIFO_TC", "NCCL_IB_SL", "NCCL_IB_GID_INDEX",
    "NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_TIMEOUT",
    "NCCL_IB_RETRY_CNT", "NCCL_IB_PKEY", "NCCL_IB_USE_INLINE", "NCCL_IB_QPS_PER_CONNECTION",
    "NCCL_IB_SPLIT_DATA_ON_QPS", "NCCL_IB_ADAPTIVE_ROUTING", "NCCL_IB_AR_THRESHOLD",
    "NCCL_IB_PCI_RELAXED_ORDERING", "NCCL_IB_ECE_ENABLE", "NCCL_IB_MERGE_VFS", "NCCL_IB_MERGE_NICS",
    "NCCL_IB_DATA_DIRECT", "NCCL_IB_CUDA_SUPPORT", "NCCL_IB_RETURN_ASYNC_EVENTS", "NCCL_IB_WARN_RAIL_LOCAL",
    "NCCL_SOCKET_IFNAME", "NCCL_SOCKET_FAMILY", "NCCL_SOCKET_NTHREADS", "NCCL_NSOCKS_PERTHREAD",
    "NCCL_OOB_NET_ENABLE", "NCCL_OOB_NET_IFNAME", "NCCL_CROSS_NIC", "NCCL_NET_GDR_LEVEL", "NCCL_NET_GDR_READ",
    "NCCL_NET_GDR_C2C", "NCCL_NET_FORCE_FLUSH", "NCCL_NET_SHARED_BUFFERS", "NCCL_NET_SHARED_COMMS",
    "NCCL_DMABUF_ENABLE", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_MIN_CTAS", "NCCL_MAX_CTAS",
    "NCCL_MIN_P2P_NCHANNELS", "NCCL_MAX_P2P_NCHANNELS", "NCCL_NCHANNELS_PER_NET_PEER",
    "NCCL_NCHANNELS_PER_PEER", "NCCL_BUFFSIZE", "NCCL_NTHREADS", "NCCL_PROTO", "NCCL_PXN_DISABLE",
    "NCCL_PXN_C2C", "NCCL_P2P_PXN_LEVEL", "NCCL_P2P_LEVEL", "NCCL_P2P_NET_CHUNKSIZE",
    "NCCL_P2P_PCI_CHUNKSIZE", "NCCL_P2P_NVL_CHUNKSIZE", "NCCL_P2P_DIRECT_DISABLE", "NCCL_NVLS_ENABLE",
    "NCCL_NVLS_CHUNKSIZE", "NCCL_NVLSTREE_MAX_CHUNKSIZE", "NCCL_COLLNET_ENABLE", "NCCL_SHARP_DISABLE",
    "NCCL_MNNVL_ENABLE", "NCCL_MNNVL_UUID", "NCCL_MNNVL_CLIQUE_ID", "NCCL_CUMEM_ENABLE",
    "NCCL_CUMEM_HOST_ENABLE", "NCCL_GRAPH_REGISTER", "NCCL_LOCAL_REGISTER", "NCCL_LEGACY_CUDA_REGISTER",
    "NCCL_LAUNCH_MODE", "NCCL_LAUNCH_ORDER_IMPLICIT", "NCCL_SET_STACK_SIZE", "NCCL_CGA_CLUSTER_SIZE",
    "NCCL_IGNORE_CPU_AFFINITY", "NCCL_WORK_FIFO_DEPTH", "NCCL_WORK_FIFO_BYTES", "NCCL_RAS_ENABLE",
    "NCCL_UID_STAGGER_THRESHOLD", "NCCL_UID_STAGGER_RATE", "NCCL_FASTRAK_CTRL_DEV", "NCCL_FASTRAK_IFNAME",
    "NCCL_FASTRAK_NUM_FLOWS", "NCCL_FASTRAK_USE_SNAP", "NCCL_FASTRAK_USE_LLCM",
    "NCCL_FASTRAK_ENABLE_CONTROL_CHANNEL", "NCCL_FASTRAK_ENABLE_HOTPATH_LOGGING",
    "NCCL_FASTRAK_PLUGIN_ACCEPT_TIMEOUT_MS",
    "NCCL_GPUDIRECTTCPX_CTRL_DEV", "NCCL_GPUDIRECTTCPX_SOCKET_IFNAME", "NCCL_GPUDIRECTTCPX_TX_BINDINGS",
    "NCCL_GPUDIRECTTCPX_RX_BINDINGS", "FI_PROVIDER", "FI_EFA_USE_DEVICE_RDMA", "FI_EFA_FORK_SAFE",
    "FI_EFA_USE_HUGE_PAGE", "FI_EFA_ENABLE_SHM_TRANSFER", "FI_EFA_SET_CUDA_SYNC_MEMOPS", "OFI_NCCL_PROTOCOL",
    "OFI_NCCL_NIC_DUP_CONNS", "OFI_NCCL_FORCE_NUM_RAILS", "UCX_NET_DEVICES", "UCX_TLS",
))
# These load a library, or read or write a file.
FROM_INVENTORY = frozenset((
    "NCCL_NET_PLUGIN", "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_TUNER_CONFIG_PATH",
    "NCCL_TOPO_FILE", "NCCL_GRAPH_FILE", "NCCL_DEBUG_FILE", "NCCL_TOPO_DUMP_FILE", "NCCL_GRAPH_DUMP_FILE",
    "NCCL_FASTRAK_LLCM_DEVICE_DIRECTORY",
))


def checked(name: Any, value: Any, *, inventory: bool) -> tuple[str, str]:
    """The variable as it is set, empty for one not to be set. Raises ValueError, with what is wrong."""
    if name in FROM_INVENTORY and not inventory:
        raise ValueError(f"{name} loads code, or reads or writes a file: it is allowed in the inventory only "
                         f"(burnin: {{env: ...}})")
    if name not in SETTINGS | FROM_INVENTORY:
        raise ValueError(f"{ascii(name)[:60]} is not an allowed variable (see inventory/ncclenv.py)")
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not _VALUE.fullmatch(text):
        raise ValueError(f"{name} is {ascii(value)[:60]}, expected text of at most 1024 printable ASCII "
                         "characters, or a whole number")
    return str(name), text
