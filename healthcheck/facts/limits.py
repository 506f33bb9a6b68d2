"""What fact builders take of a node's output at most, so that no node can make more of itself."""

from __future__ import annotations

ANCESTORS = 64                      # of one process
BLOCK_ORDERS = 32                   # sizes of free blocks of a zone; MAX_PAGE_ORDER is 10 to 13
CACHED_CAPTURE = 32 * 1024          # characters; longer captures hold times and temperatures and never repeat
CACHE, CACHE_ENTRY = 8 * 1024 * 1024, 512       # characters of all entries, and what an entry itself counts
COMPONENTS = 64                     # of a kind; the largest machines have 16 GPUs and some 20 adapters
CPUS = 8192                         # CONFIG_NR_CPUS of the largest configurations
DCGM_ERRORS = 16                    # of one test
DOCKER_WARNINGS = 16
FINGERPRINTS = 1000                 # of one boot
JOURNAL_LINES = 4000
KERNEL_RECORD = 8192                # characters; the kernel's own limit
NAME_SERVERS = 16
SMI_DEPTH, SMI_ELEMENTS, SMI_GPUS, SMI_TEXT = 32, 200_000, 1024, 200     # SMI_TEXT: characters of an element
