"""How much of anything a burn-in reads, keeps and shows; limits of the wire are in `healthcheck.burnin.wire`.
"""

from __future__ import annotations

# In accusations and remarks: names, tests and characters.
NAMES, CANDIDATES, NODES_NAMED = 8, 16, 4
TESTS, WHY_TEXT = 16, 600
COUNTER_LINES, COUNTER_NAMES = 8, 6

# On pages and pictures.
PAGE_ENTRIES, PAGE_TESTS, REASONS, SVG_LABELS = 20, 6, 12, 64

# In a rank's report.
REPORT_ENTRIES, REPORT_RANKS, REPORT_ITERATIONS = 64, 1024, 64
REPORT_OWNERS, REPORT_PLACES = 16, 32
REPORT_TEXT, REPORT_FACT = 400, 2000

# In a document, and how many documents are searched for a node's newest one.
DOCUMENT_BYTES = 256 * 1024 * 1024
FIELD_TEXT, FIELD_ITEMS = 2000, 1_000_000
METRIC_DOCUMENTS = 16

# In the output of nccl-tests; of a line so many characters are read.
NCCL_BYTES = 64 * 1024 * 1024
NCCL_RUNS, NCCL_ROWS, NCCL_HALVES, NCCL_DEVICES = 1000, 10_000, 20_000, 100_000
NCCL_TIMES, NCCL_LINES, NCCL_LINE = 100_000, 16, 4096
