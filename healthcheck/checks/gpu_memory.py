"""Checks of GPU memory: ECC and its counters, and what the GPU replaced (remapped rows, on older ones retired pages).

Corrected and uncorrected errors are never judged by one limit: millions of the first are a nuisance, one of the second is lost data.
"""

from __future__ import annotations

from collections.abc import Iterator

from healthcheck.checks.base import check
from healthcheck.checks.trend import rate, with_earlier
from healthcheck.facts.gpu import Gpu
from healthcheck.facts.look import Look
from healthcheck.model.outcome import Finding


@check("gpu.ecc_enabled")
def gpu_ecc_enabled(gpus: tuple[Gpu, ...], *, expected: bool) -> Iterator[Finding]:
    """Every GPU has ECC as the SKU says: with ECC off, memory errors are neither corrected nor counted."""
    for gpu in gpus:
        if gpu.ecc_enabled != expected:
            yield Finding(gpu.name, "ECC is off" if expected else "ECC is on", "on" if expected else "off")


@check("gpu.ecc_pending")
def gpu_ecc_pending(gpus: tuple[Gpu, ...], *, expected: bool) -> Iterator[Finding]:
    """ECC stays as the SKU says after the next reset: else a reboot changes the node behind one's back.

    A GPU that has it wrong already is named by gpu.ecc_enabled alone.
    """
    words = ("off", "on")
    for gpu in gpus:
        if gpu.ecc_pending != expected and gpu.ecc_enabled == expected:
            yield Finding(gpu.name, f"ECC will be {words[gpu.ecc_pending]} after the next reset", words[expected])


@check("gpu.ecc_uncorrected")
def gpu_ecc_uncorrected(gpus: tuple[Gpu, ...], *, allow: int) -> Iterator[Finding]:
    """No GPU has met more uncorrectable memory errors than allowed since its driver was loaded."""
    for gpu in gpus:
        if gpu.ecc_uncorrected > allow:
            yield Finding(gpu.name, gpu.ecc_uncorrected, f"at most {allow}")


@check("gpu.ecc_uncorrected_lifetime")
def gpu_ecc_uncorrected_lifetime(gpus: tuple[Gpu, ...], *, allow: int) -> Iterator[Finding]:
    """No GPU has met more uncorrectable memory errors in its life than allowed: what repeats on one board is seen here first."""
    for gpu in gpus:
        if gpu.ecc_uncorrected_lifetime > allow:
            yield Finding(gpu.name, f"{gpu.ecc_uncorrected_lifetime} in the board's life", f"at most {allow}")


@check("gpu.ecc_corrected")
def gpu_ecc_corrected(gpus: tuple[Gpu, ...], *, allow: int) -> Iterator[Finding]:
    """No GPU has corrected more memory errors than allowed since its driver was loaded."""
    for gpu in gpus:
        if gpu.ecc_corrected > allow:
            yield Finding(gpu.name, f"{gpu.ecc_corrected} corrected", f"at most {allow}")


@check("gpu.ecc_corrected_rate")
def gpu_ecc_corrected_rate(
    gpus: tuple[Gpu, ...], previous_gpus: tuple[Gpu, ...], look: Look, previous_look: Look, *, allow_per_hour: float,
) -> Iterator[Finding]:
    """No GPU corrects memory errors faster than allowed, from one look to the next: a storm of them precedes the uncorrectable one."""
    for gpu, earlier in with_earlier(gpus, previous_gpus):
        if (hourly := rate(gpu, earlier, "ecc_corrected", (look, previous_look), per=3600)) > allow_per_hour:
            yield Finding(gpu.name, f"{hourly:.0f} corrected an hour", f"at most {allow_per_hour:.0f} an hour")


@check("gpu.sram_threshold")
def gpu_sram_threshold(gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
    """No GPU says that its SRAM met more uncorrectable errors than NVIDIA allows a board: SRAM has no spare rows."""
    for gpu in gpus:
        if gpu.sram_threshold_exceeded:
            yield Finding(gpu.name, "the SRAM error threshold is exceeded", "not exceeded")


@check("gpu.row_remap_pending")
def gpu_row_remap_pending(gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
    """No GPU waits for a reset to replace a faulty row; until then it works around it, and jobs are not harmed."""
    for gpu in gpus:
        if gpu.rows_pending:
            yield Finding(gpu.name, "a row remapping is pending", "none")


@check("gpu.row_remap_failed")
def gpu_row_remap_failed(gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
    """No GPU has failed to replace a faulty row, for want of spares or otherwise: that row can be hit again."""
    for gpu in gpus:
        if gpu.rows_failed:
            yield Finding(gpu.name, "a row remapping failed", "none")


@check("gpu.row_remap_count")
def gpu_row_remap_count(gpus: tuple[Gpu, ...], *, fewer_than: int) -> Iterator[Finding]:
    """Every GPU has replaced fewer rows for uncorrectable errors than the limit. Rows replaced for corrected ones do not count."""
    for gpu in gpus:
        if gpu.rows_uncorrected >= fewer_than:
            yield Finding(gpu.name, f"{gpu.rows_uncorrected} rows remapped for uncorrectable errors", f"fewer than {fewer_than}")


@check("gpu.row_remap_banks")
def gpu_row_remap_banks(gpus: tuple[Gpu, ...], *, allow_low: int) -> Iterator[Finding]:
    """Every bank of memory has spare rows left, and no more banks than allowed are low on them."""
    for gpu in gpus:
        if gpu.banks_none:
            yield Finding(gpu.name, f"{gpu.banks_none} banks have no spare row", "spare rows in every bank")
        elif gpu.banks_low > allow_low:
            yield Finding(gpu.name, f"{gpu.banks_low} banks are low on spare rows", f"at most {allow_low}")


@check("gpu.pages_pending")
def gpu_pages_pending(gpus: tuple[Gpu, ...]) -> Iterator[Finding]:
    """No GPU (older than Ampere) waits for a reset to retire a page."""
    for gpu in gpus:
        if gpu.pages_pending:
            yield Finding(gpu.name, "a page retirement is pending", "none")


@check("gpu.pages_retired")
def gpu_pages_retired(gpus: tuple[Gpu, ...], *, fewer_than: int) -> Iterator[Finding]:
    """Every GPU (older than Ampere) has retired fewer pages than the limit, for either kind of error."""
    for gpu in gpus:
        if (retired := gpu.pages_retired_corrected + gpu.pages_retired_uncorrected) >= fewer_than:
            yield Finding(gpu.name, f"{retired} pages retired", f"fewer than {fewer_than}")
