"""A burn-in's shares on a terminal: a row for each node, the worst first, a column for each stage."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from healthcheck.burnin import matrix as matrices
from healthcheck.burnin.matrix import SLOW, SLOWER, Matrix
from healthcheck.burnin.shares import NodeShares, Shares, ShareState

if TYPE_CHECKING:
    from rich.console import Console

MOST_ROWS = 16
_MOST_LEAVES = 2
_STYLES = {ShareState.FAILED: "bold red", ShareState.SLOW: "red", ShareState.SLOWER: "yellow",
           ShareState.GOOD: "", ShareState.UNTESTED: "dim"}
Piece = tuple[str, str]


def draw(console: Console, found: Shares, pairs: Matrix) -> None:
    """Prints them, and the pairs of leaves in which some were slow."""
    from rich.text import Text

    if not found.nodes or not found.stages:
        console.print("no node was measured in any stage", soft_wrap=True, highlight=False)
        return
    for row in _rows(found):
        console.print(Text.assemble(*row), soft_wrap=True, highlight=False)
    for leaf in matrices.troubled(pairs)[:_MOST_LEAVES]:
        console.print()
        console.print(Text(f"pairs within {leaf or 'no leaf'}:"), soft_wrap=True, highlight=False)
        matrices.draw(console, matrices.within(pairs, leaf))


def _rows(found: Shares) -> Iterator[list[Piece]]:
    shown = [row for number, row in enumerate(found.nodes) if number < MOST_ROWS or row.accused]
    wide = max(len(row.node) for row in shown)
    widths = [max(len(stage.value), 6) for stage in found.stages]
    yield [(f"  {'':{wide}}  " + "  ".join(f"{stage.value:>{width}}" for stage, width in zip(
        found.stages, widths, strict=True)), "bold")]
    for row in shown:
        yield [*_row(row, wide, widths)]
    if more := len(found.nodes) - len(shown):
        yield [(f"  and {more} more nodes, which are better", "dim")]
    yield [("  shares of the floor, or of the median of equals; S below the floor or "
            f"{SLOW:.0%} of the median, s below {SLOWER:.0%}, X not done, * accused", "dim")]


def _row(row: NodeShares, wide: int, widths: list[int]) -> Iterator[Piece]:
    yield f"{'*' if row.accused else ' '} {row.node:{wide}}", "bold" if row.accused else ""
    for cell, width in zip(row.stages, widths, strict=True):
        share = f"{cell.share:.0%}" if cell.share is not None else "-"
        yield f"  {share + cell.state.value.strip('.').rstrip():>{width}}", _STYLES[cell.state]
    if row.accused:
        yield f"  {row.accused}", ""
