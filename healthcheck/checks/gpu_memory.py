"""Checks of GPU memory: ECC and its counters, and what the GPU replaced (remapped rows, on older ones retired
pages).

Corrected and uncorrected errors are never judged by one limit: millions of the first are a nuisance, one of
the second is lost data.
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.checks.growth import HOUR, Growth
from healthcheck.facts.gpu import Gpu
from healthcheck.model.outcome import Finding, Repair


@check("gpu.ecc_enabled")
def gpu_ecc_enabled(gpu: Gpu, *, expected: bool) -> Iterator[Finding]:
    """Every GPU has ECC as the SKU says: with ECC off, memory errors are neither corrected nor counted."""
    if gpu.ecc_enabled != expected:
        yield Finding("ECC is off" if expected else "ECC is on", "on" if expected else "off")


@check("gpu.ecc_pending")
def gpu_ecc_pending(gpu: Gpu, *, expected: bool) -> Iterator[Finding]:
    """ECC stays as the SKU says after the next reset: else a reboot changes the node unnoticed.

    A GPU that has it wrong already is named by gpu.ecc_enabled alone.
    """
    words = ("off", "on")
    if gpu.ecc_pending != expected and gpu.ecc_enabled == expected:
        yield Finding(f"ECC will be {words[gpu.ecc_pending]} after the next reset", words[expected])


@check("gpu.ecc_uncorrected")
def gpu_ecc_uncorrected(gpu: Gpu, *, allow: int) -> Iterator[Finding]:
    """No GPU has had more uncorrectable memory errors than allowed since its driver was loaded."""
    if gpu.ecc_uncorrected > allow:
        yield Finding(gpu.ecc_uncorrected, f"at most {allow}")


@check("gpu.ecc_uncorrected_place")
def gpu_ecc_uncorrected_place(gpu: Gpu) -> Iterator[Finding]:
    """Where a GPU's uncorrectable memory errors were: a reset gives DRAM a spare row, and SRAM has none."""
    sram, dram = gpu.sram_uncorrected, gpu.dram_uncorrected
    if sram or dram:
        yield Finding(f"{sram} in SRAM, {dram} in DRAM", "none")


@check("gpu.ecc_uncorrected_lifetime")
def gpu_ecc_uncorrected_lifetime(gpu: Gpu, *, allow: int) -> Iterator[Finding]:
    """No GPU has had more uncorrectable memory errors in its life than allowed: repeated ones show here
    first."""
    if gpu.ecc_uncorrected_lifetime > allow:
        yield Finding(f"{gpu.ecc_uncorrected_lifetime} in the board's life", f"at most {allow}")


@check("gpu.ecc_corrected")
def gpu_ecc_corrected(gpu: Gpu, *, allow: int) -> Iterator[Finding]:
    """No GPU has corrected more memory errors than allowed since its driver was loaded."""
    if gpu.ecc_corrected > allow:
        yield Finding(f"{gpu.ecc_corrected} corrected", f"at most {allow}")


@check("gpu.ecc_corrected_rate")
def gpu_ecc_corrected_rate(gpu: Gpu, growth: Growth[Gpu], *, allow_per_hour: float) -> Iterator[Finding]:
    """No GPU corrects memory errors faster than allowed between two snapshots: a storm of them precedes the
    uncorrectable one."""
    hourly = growth.rate("ecc_corrected", per=HOUR)
    if hourly > allow_per_hour:
        yield Finding(f"{hourly:.0f} corrected an hour", f"at most {allow_per_hour:.0f} an hour")


@check("gpu.sram_threshold")
def gpu_sram_threshold(gpu: Gpu) -> Iterator[Finding]:
    """No GPU reports more uncorrectable SRAM errors than NVIDIA allows a board: SRAM has no spare rows."""
    if gpu.sram_threshold_exceeded:
        yield Finding("the SRAM error threshold is exceeded", "not exceeded")


@check("gpu.sram_uncorrected_lifetime")
def gpu_sram_uncorrected_lifetime(gpu: Gpu, *, allow: int) -> Iterator[Finding]:
    """No GPU has had more uncorrectable SRAM errors in its life than one bank of it may have; whether one
    bank has is for gpu.sram_threshold."""
    if gpu.sram_uncorrected_lifetime > allow:
        yield Finding(f"{gpu.sram_uncorrected_lifetime} in SRAM in the board's life", f"at most {allow}")


@check("gpu.row_remap_pending")
def gpu_row_remap_pending(gpu: Gpu) -> Iterator[Finding]:
    """No GPU waits for a reset to replace a faulty row; until then it avoids the row, and jobs are not
    harmed."""
    if gpu.rows_pending:
        yield Finding("a row remapping is pending", "none")


@check("gpu.row_remap_failed")
def gpu_row_remap_failed(gpu: Gpu) -> Iterator[Finding]:
    """No GPU has failed to replace a faulty row, for lack of spares or otherwise: jobs can hit it again."""
    if gpu.rows_failed:
        yield Finding("a row remapping failed", "none")


@check("gpu.row_remap_count")
def gpu_row_remap_count(gpu: Gpu, *, fewer_than: int) -> Iterator[Finding]:
    """Every GPU has replaced fewer rows for uncorrectable errors than the limit. Rows replaced for corrected
    ones do not count."""
    if gpu.rows_uncorrected >= fewer_than:
        remapped = f"{gpu.rows_uncorrected} rows remapped for uncorrectable errors"
        yield Finding(remapped, f"fewer than {fewer_than}")


@check("gpu.row_remap_banks")
def gpu_row_remap_banks(gpu: Gpu, *, allow_low: int) -> Iterator[Finding]:
    """Every bank of memory has spare rows left, and no more banks than allowed are low on them."""
    if gpu.banks_none:
        yield Finding(f"{gpu.banks_none} banks have no spare row", "spare rows in every bank")
    elif gpu.banks_low > allow_low:
        yield Finding(f"{gpu.banks_low} banks are low on spare rows", f"at most {allow_low}")


@check("gpu.repair_pending")
def gpu_repair_pending(gpu: Gpu) -> Iterator[Finding]:
    """No GPU waits for a reset to repair a channel of its memory or a part of its processor (TPC)."""
    if gpu.channel_repair_pending:
        yield Finding("the repair of a memory channel is pending", "none")
    if gpu.tpc_repair_pending:
        yield Finding("the repair of a TPC is pending", "none")


@check("gpu.bank_remap")
def gpu_bank_remap(gpu: Gpu) -> Iterator[Finding]:
    """No GPU that can replace whole banks of memory waits to do so, or has a group of banks without a spare
    one."""
    if gpu.bank_remap_pending:
        yield Finding("a bank remapping is pending", "none")
    if gpu.bank_remap_none:
        yield Finding(f"{gpu.bank_remap_none} groups of banks have no spare bank", "a spare one in each",
                      remedy="Run the field diagnostic at the next maintenance, and ask the vendor.",
                      repair=Repair.INSPECT)


@check("gpu.pages_pending")
def gpu_pages_pending(gpu: Gpu) -> Iterator[Finding]:
    """No GPU (older than Ampere) waits for a reset to retire a page."""
    if gpu.pages_pending:
        yield Finding("a page retirement is pending", "none")


@check("gpu.pages_retired")
def gpu_pages_retired(gpu: Gpu, *, fewer_than: int) -> Iterator[Finding]:
    """Every GPU (older than Ampere) has retired fewer pages than the limit, for either kind of error."""
    if (retired := gpu.pages_retired_corrected + gpu.pages_retired_uncorrected) >= fewer_than:
        yield Finding(f"{retired} pages retired", f"fewer than {fewer_than}")
