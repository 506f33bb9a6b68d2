"""Explains what nccl-tests measured: wrong data, a run that failed or did not end, too few ranks, and bandwidths that cannot be right.

busbw = algbw * 2(n-1)/n for all_reduce (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from healthcheck.explainfile.model import Cause, Quote, Sure
from healthcheck.explainfile.ncclperf import Row, Run
from healthcheck.outcome import Owner, Severity
from inventory.text import clean

LOOKED_FOR = (
    "elements with wrong values (#wrong, out of bounds)", "failures and timeouts of the test", "a table that ends before its footer",
    "fewer ranks than devices", "bandwidths far below or above what such GPUs reach", "NCCL's warnings in the same output",
)
CANNOT_SHOW = (
    "which rank, GPU or node a wrong value is from: all are summed", "links that this run's rings did not use",
    "one stall among many iterations: times are means",
)

_LARGE = 1 << 30        # bytes from which bandwidth hardly grows any more within a node

# GB/s of busbw within one node of 8, all_reduce from 1 GiB: what rings reach, and what a link could carry at most (with NVLS). Published:
# SuperBench's A100 fixture (235), NVIDIA/nccl-tests #212, #272 and #290 (H100, H200), stas00/ml-engineering (H200, B200, NVLS off).
_WITHIN: tuple[tuple[str, float, float], ...] = (
    ("A100", 225.0, 300.0), ("H100", 360.0, 490.0), ("H200", 360.0, 490.0), ("H20", 360.0, 490.0), ("B200", 670.0, 910.0),
    ("B300", 670.0, 910.0),
)
_ONE_ADAPTER = 50.0     # GB/s that one adapter of 400 Gbit/s carries; nccl-tests #267 and #290: 46 to 49


def explain(run: Run) -> list[Cause]:
    """What is wrong with it."""
    return [*_wrong(run), *_failed(run), *_few_ranks(run), *_slow(run), *_uneven(run)]


def _cause(subject: str, meaning: str, sure: Sure, severity: Severity, owner: Owner, remedy: str, by: str, quotes: Sequence[Quote],
           count: int = 1, *, symptom: bool = False) -> Cause:
    return Cause(subject, meaning, sure, severity, owner, remedy, f"nccl-tests {by}", tuple(quotes[:3]), count, symptom)


def _quote(row: Row) -> Quote:
    return Quote(row.line, row.text)


def _wrong(run: Run) -> Iterator[Cause]:
    rows = [row for row in run.rows if any(half.wrong for half in row.halves)]
    failed = run.bounds is not None and not run.bounds[1]
    if rows or failed:
        count = sum(half.wrong or 0 for row in rows for half in row.halves) or (run.bounds[0] if run.bounds is not None else 0)
        quotes = [_quote(row) for row in rows] or ([run.bounds[2]] if run.bounds is not None else [])
        yield _cause(
            _on(run), f"Data came out wrong: {count} elements" + (f" at {len(rows)} of {len(run.rows)} sizes" if rows else ""),
            Sure.CERTAIN, Severity.CRITICAL, Owner.VENDOR,
            "Keep all these nodes from jobs. Run it on each node alone, then in pairs; a GPU whose node alone gives wrong data is reset "
            "and tested (dcgmi diag -r 4), and replaced if it comes back.", "wrong", quotes, max(1, len(rows)))


def _failed(run: Run) -> Iterator[Cause]:
    if run.failures:
        yield _cause(_on(run), "The test failed, and says so at its end; the reason stands in NCCL's own lines, where there are some",
                     Sure.CERTAIN, Severity.CRITICAL, Owner.OPERATOR, "Run it again with NCCL_DEBUG=WARN, and explain that output.",
                     "failed", run.failures, len(run.failures), symptom=True)
    elif not run.ended:
        last = [_quote(run.rows[-1])] if run.rows else []
        where = f"after size {run.rows[-1].size}" if run.rows else "before its first size"
        yield _cause(_on(run), f"The test did not end: its table stops {where}; it hung, was killed, or the output was cut", Sure.LIKELY,
                     Severity.WARNING, Owner.OPERATOR, "Look at the nodes for Xids and dead processes at that time; run it with -T 300.",
                     "cut", last)


def _few_ranks(run: Run) -> Iterator[Cause]:
    large = [row for row in run.rows if row.size >= 1 << 20 and row.halves[0].algbw > 1]
    if not run.test.startswith("all_reduce") or not large or run.ranks < 2:
        return
    half = large[-1].halves[0]
    ratio = half.busbw / half.algbw
    # 2(n-1)/n; a ratio of 1.95 or more cannot be told from larger ones by four digits.
    ran = round(2 / (2 - ratio)) if ratio < 1.95 else None
    if ran is not None and ran != run.ranks:
        yield _cause(_on(run), f"The figures are of {ran} ranks, and {run.ranks} devices are listed", Sure.CERTAIN, Severity.WARNING,
                     Owner.USER, "See how it was launched: several runs of fewer ranks look like one (an nccl-tests built without MPI).",
                     "ranks", [_quote(large[-1])])


def _slow(run: Run) -> Iterator[Cause]:
    large = [row for row in run.rows if row.size >= _LARGE]
    if not large or not run.test.startswith("all_reduce"):
        return
    best = max(large, key=lambda row: max(half.busbw for half in row.halves))
    busbw = max(half.busbw for half in best.halves)
    known = next((known for known in _WITHIN if known[0] in run.gpu), None)
    alone = len(run.hosts) == 1 and run.ranks == 8
    if alone and known is not None and busbw < 0.92 * known[1] and busbw > 0:
        far = busbw < 0.6 * known[1]
        yield _cause(
            _on(run), f"Too slow: {busbw:g} GB/s at {best.size >> 20} MiB, where eight {known[0]} reach {known[1]:g} or more",
            Sure.LIKELY if far else Sure.GUESS, Severity.CRITICAL if far else Severity.WARNING, Owner.OPERATOR,
            "See nvidia-smi nvlink --status, Fabric Manager, NCCL_P2P_DISABLE and NCCL_NVLS_ENABLE, and clocks (muster check NODE).",
            "slow", [_quote(best)])
    if known is not None and len(run.hosts) == 1 and busbw > 1.1 * known[2]:
        yield _cause(_on(run), f"Cannot be: {busbw:g} GB/s, more than the links of {known[0]} carry", Sure.LIKELY, Severity.WARNING,
                     Owner.USER, "See whether all ranks were in one communicator, and the version of nccl-tests.", "fast", [_quote(best)])
    if len(run.hosts) > 1 and known is not None and known[0] != "A100" and 0 < busbw <= _ONE_ADAPTER:
        yield _cause(
            _on(run), f"Too slow: {busbw:g} GB/s between nodes, no more than one adapter of 400 Gbit/s carries", Sure.GUESS,
            Severity.WARNING, Owner.NETWORK,
            "See with NCCL_DEBUG=INFO which adapters NCCL uses (NET/IB : Using, via NET/Socket), then test in pairs of nodes.",
            "slow-between", [_quote(best)])


def _uneven(run: Run) -> Iterator[Cause]:
    large = [row for row in run.rows if row.size >= 1 << 28]
    rates = [max(half.busbw for half in row.halves) for row in large]
    if len(large) < 3 or not max(rates):
        return
    best = max(rates)
    peak = large[rates.index(best)].size
    dips = [row for row, rate in zip(large, rates, strict=True) if rate < 0.6 * best and row.size > peak]
    if dips:
        yield _cause(_on(run), "Bandwidth falls below 0.6 of its best at larger sizes; something stalled, or clocks fell", Sure.GUESS,
                     Severity.WARNING, Owner.OPERATOR, "Run it again; look at clocks, temperatures and port counters while it runs.",
                     "dip", [_quote(row) for row in dips], len(dips))


def _on(run: Run) -> str:
    hosts = sorted(run.hosts)
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} nodes ({hosts[0]}, ...)" if hosts else ""
    return clean(", ".join(filter(None, (run.test, where))), 200)
