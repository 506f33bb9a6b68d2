"""Explains nccl-tests output: wrong data, a failed or incomplete run, too few ranks,
and implausible bandwidths.

busbw = algbw * 2(n-1)/n for all_reduce (github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from healthcheck.burnin.nccltests import check
from healthcheck.burnin.nccltests.model import NcclRow, NcclRun
from healthcheck.explain.model import Cause, Quote
from healthcheck.explain.quoting import LineIndex
from healthcheck.joblog.meaning import Sure
from healthcheck.model.outcome import Owner, Severity
from inventory.text import clean

LOOKED_FOR = (
    "elements with wrong values (#wrong, out of bounds)", "failures and timeouts of the test",
    "a table that ends before its footer", "fewer ranks than devices, and figures that contradict each other",
    "bandwidths far below or above what such GPUs reach", "NCCL's warnings in the same output",
)
CANNOT_SHOW = (
    "which rank, GPU or node a wrong value is from: all are summed",
    "links that this run's rings did not use", "one stall among many iterations: times are means",
)

_LARGE = 1 << 30        # bytes from which bandwidth hardly grows any more within a node

# GB/s of busbw within one node of 8, all_reduce from 1 GiB: what rings reach, and the most a link could carry
# (with NVLS). Published: SuperBench's A100 fixture (235), NVIDIA/nccl-tests #212, #272 and #290 (H100, H200),
# stas00/ml-engineering (H200, B200, NVLS off).
_WITHIN: tuple[tuple[str, float, float], ...] = (
    ("A100", 225.0, 300.0), ("H100", 360.0, 490.0), ("H200", 360.0, 490.0), ("H20", 360.0, 490.0),
    ("B200", 670.0, 910.0), ("B300", 670.0, 910.0),
)
_ONE_ADAPTER = 50.0     # GB/s that one adapter of 400 Gbit/s carries; nccl-tests #267 and #290: 46 to 49


def explain(run: NcclRun, lines: LineIndex) -> list[Cause]:
    """What is wrong with it; `lines` are those of the output."""
    return [*_wrong(run, lines), *_failed(run, lines), *_few_ranks(run, lines), *_slow(run, lines),
            *_uneven(run, lines), *_untrue(run, lines)]


def about(run: NcclRun) -> str:
    """The command, and its best bandwidth at the largest size."""
    said = [run.test or "nccl-tests"]
    if run.ranks:
        said.append(f"{run.ranks} rank{'s' * (run.ranks != 1)}")
    said.append(f"{len(run.rows)} size{'s' * (len(run.rows) != 1)}")
    largest = max(run.rows, key=lambda row: row.size, default=None)
    if largest is not None and largest.halves and run.ranks != 1:
        said.append(f"busbw {max(half.busbw for half in largest.halves):g} GB/s at {largest.size} bytes")
    return ", ".join(said)


def _cause(
    subject: str, meaning: str, sure: Sure, severity: Severity, owner: Owner, remedy: str, by: str,
    quotes: Sequence[Quote], count: int = 1, *, symptom: bool = False,
) -> Cause:
    return Cause(subject, meaning, sure, severity, owner, remedy, f"nccl-tests {by}", tuple(quotes[:3]),
                 count, symptom)


def _quote(row: NcclRow, lines: LineIndex) -> Quote:
    return lines.line(row.line) if row.line else Quote(0, f"size {row.size}")


def _wrong(run: NcclRun, lines: LineIndex) -> Iterator[Cause]:
    rows = [row for row in run.rows if any(half.wrong for half in row.halves)]
    bounds = run.bounds
    if rows or (bounds is not None and not bounds.okay):
        quotes = [_quote(row, lines) for row in rows[:3]]
        if bounds is not None and not quotes:
            quotes = [lines.line(bounds.line) if bounds.line else Quote(0, f"out_of_bounds: {bounds.count}")]
        said = (f"{check.wrong(run)} elements at {len(rows)} of {len(run.rows)} sizes" if rows
                else f"out of bounds: {check.wrong(run)}")
        yield _cause(
            _on(run), f"Data came out wrong: {said}",
            Sure.CERTAIN, Severity.CRITICAL, Owner.VENDOR,
            "Keep all these nodes from jobs. Run it on each node alone, then in pairs; a GPU whose node "
            "alone gives wrong data is reset and tested (dcgmi diag -r 4), and replaced if it comes back.",
            "wrong", quotes, max(1, len(rows)))


def _failed(run: NcclRun, lines: LineIndex) -> Iterator[Cause]:
    if run.failures:
        yield _cause(_on(run), "The test failed, and says so at its end; the reason stands in NCCL's own "
                               "lines, where there are some", Sure.CERTAIN, Severity.CRITICAL, Owner.OPERATOR,
                               "Run it again with NCCL_DEBUG=WARN, and explain that output.", "failed",
                               [Quote(said.line, said.text) for said in run.failures], len(run.failures),
                               symptom=True)
    elif not run.complete and not run.endless:
        last = [_quote(run.rows[-1], lines)] if run.rows else []
        where = f"after size {run.rows[-1].size}" if run.rows else "before its first size"
        yield _cause(_on(run), f"The test did not end: its table stops {where}; it hung, was killed, or the "
                               "output was cut", Sure.LIKELY, Severity.WARNING, Owner.OPERATOR,
                               "Look at the nodes for Xids and dead processes at that time; run it with -T "
                               "300.", "cut", last)


def _few_ranks(run: NcclRun, lines: LineIndex) -> Iterator[Cause]:
    remedy = ("See how it was launched: several runs of fewer ranks look like one (an nccl-tests built "
              "without MPI).")
    said = check.ranks(run)
    if run.copies > 1:
        yield _cause(_on(run), f"Its rank 0 is listed {run.copies} times: these are runs of their own, not "
                               "one", Sure.CERTAIN, Severity.WARNING, Owner.USER, remedy, "ranks", [])
    elif run.ranks and said is not None and not said[0] <= run.ranks <= said[1]:
        yield _cause(_on(run), f"The figures are of {check.ranks_text(said)}, and {run.ranks} devices are "
                               "listed", Sure.CERTAIN, Severity.WARNING, Owner.USER, remedy, "ranks",
                               [_quote(max(run.rows, key=lambda row: row.size), lines)])


def _untrue(run: NcclRun, lines: LineIndex) -> Iterator[Cause]:
    slips = check.slips(run)
    if slips:
        yield _cause(_on(run), "The figures contradict each other: algbw is not size over time at "
                               f"{len(slips)} of {len(run.rows)} sizes",
                     Sure.CERTAIN, Severity.WARNING, Owner.USER,
                     "Take the output as the program printed it; columns moved, or it was changed.",
                               "columns", [_quote(row, lines) for row in slips[:3]], len(slips))
    if run.broken and run.complete:     # of a run that was cut off, the last line is broken, too
        yield _cause(_on(run), "Lines of its table are no rows: another program's words stand in them",
                     Sure.LIKELY, Severity.INFO, Owner.USER,
                     "Send NCCL's lines elsewhere: NCCL_DEBUG_FILE=%h.%p.", "broken",
                     [Quote(said.line, said.text) for said in run.broken], len(run.broken))
    if run.rows and not check.verified(run) and run.complete:
        yield _cause(_on(run), "No value was verified, so its OK says nothing of the data (-c 0)",
                     Sure.LIKELY, Severity.INFO, Owner.USER, "Run it with -c 1 or more.", "unverified", [])


def _slow(run: NcclRun, lines: LineIndex) -> Iterator[Cause]:
    large = [row for row in run.rows if row.size >= _LARGE and row.halves]
    if not large or check.collective(run) != "all_reduce":
        return
    best = max(large, key=lambda row: max(half.busbw for half in row.halves))
    busbw = max(half.busbw for half in best.halves)
    known = next((known for known in _WITHIN if known[0] in _gpu(run)), None)
    alone = len(run.hosts) == 1 and run.ranks == 8
    if alone and known is not None and busbw < 0.92 * known[1] and busbw > 0:
        far = busbw < 0.6 * known[1]
        yield _cause(
            _on(run), f"Too slow: {busbw:g} GB/s at {best.size >> 20} MiB, where eight {known[0]} reach "
            f"{known[1]:g} or more",
            Sure.LIKELY if far else Sure.GUESS, Severity.CRITICAL if far else Severity.WARNING,
            Owner.OPERATOR, "See nvidia-smi nvlink --status, Fabric Manager, NCCL_P2P_DISABLE and "
            "NCCL_NVLS_ENABLE, and clocks (muster check NODE).",
            "slow", [_quote(best, lines)])
    if known is not None and len(run.hosts) == 1 and busbw > 1.1 * known[2]:
        yield _cause(_on(run), f"Cannot be: {busbw:g} GB/s, more than the links of {known[0]} carry",
                     Sure.LIKELY, Severity.WARNING, Owner.USER,
                     "See whether all ranks were in one communicator, and the version of nccl-tests.", "fast",
                     [_quote(best, lines)])
    if len(run.hosts) > 1 and known is not None and known[0] != "A100" and 0 < busbw <= _ONE_ADAPTER:
        yield _cause(
            _on(run), f"Too slow: {busbw:g} GB/s between nodes, no more than one adapter of 400 Gbit/s "
            "carries", Sure.GUESS,
            Severity.WARNING, Owner.NETWORK,
            "See with NCCL_DEBUG=INFO which adapters NCCL uses (NET/IB : Using, via NET/Socket), then test "
            "in pairs of nodes.",
            "slow-between", [_quote(best, lines)])


def _uneven(run: NcclRun, lines: LineIndex) -> Iterator[Cause]:
    large = [row for row in run.rows if row.size >= 1 << 28 and row.halves]
    rates = [max(half.busbw for half in row.halves) for row in large]
    if len(large) < 3 or not max(rates):
        return
    best = max(rates)
    peak = large[rates.index(best)].size
    dips = [row for row, rate in zip(large, rates, strict=True) if rate < 0.6 * best and row.size > peak]
    if dips:
        yield _cause(_on(run), "Bandwidth falls below 0.6 of its best at larger sizes; something stalled, or "
                               "clocks fell", Sure.GUESS, Severity.WARNING, Owner.OPERATOR,
                               "Run it again; look at clocks, temperatures and port counters while it runs.",
                               "dip", [_quote(row, lines) for row in dips[:3]], len(dips))


def _gpu(run: NcclRun) -> str:
    return run.devices[0].name if run.devices else ""


def _on(run: NcclRun) -> str:
    hosts = sorted(run.hosts)
    where = hosts[0] if len(hosts) == 1 else f"{len(hosts)} nodes ({hosts[0]}, ...)" if hosts else ""
    return clean(", ".join(filter(None, (run.test, where))), 200)
