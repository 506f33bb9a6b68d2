"""The matrix of pairs as an SVG picture: static, all text escaped, figures of each cell as a tooltip."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from healthcheck.burnin import limits
from healthcheck.burnin.listing import listed
from healthcheck.burnin.matrix import COLOURS, MEANING, Cell, Matrix, PairState
from inventory.text import clean

_LARGEST, _SMALLEST, _WIDE = 18.0, 1.5, 900.0     # of a cell, and of the whole, in pixels
_TEXT, _LEGEND = 11, 18


def svg(of: Matrix, title: str) -> str:
    """The picture as a document of its own."""
    count = max(1, len(of.names))
    cell = min(_LARGEST, max(_SMALLEST, _WIDE / count))
    names = of.names if count <= limits.SVG_LABELS else ()
    margin = 12 + 7 * max((len(clean(text, 24)) for text in names or of.leaves), default=0)
    side = cell * count
    top = 34 + margin
    width = max(margin + side + 20, 460)
    height = top + side + 30 + _LEGEND * (len(PairState) + len(of.medians))
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
             f'width="{width:.0f}" height="{height:.0f}" '
             f'font-family="sans-serif" font-size="{_TEXT}" role="img">', f"<title>{_text(title)}</title>",
             f'<rect width="{width:.0f}" height="{height:.0f}" fill="#ffffff"/>',
             f'<text x="12" y="20" font-size="14">{_text(title)}</text>', f'<rect x="{margin:.1f}" '
             f'y="{top:.1f}" width="{side:.1f}" height="{side:.1f}" fill="{COLOURS[PairState.UNTESTED]}"/>']
    for (row, column), one in of.cells.items():
        parts += _cells(of, row, column, one, margin, top, cell)
    parts += _labels(of, names, margin, top, cell)
    parts += _legend(of, top + side + 26)
    return "\n".join([*parts, "</svg>"]) + "\n"


def _cells(of: Matrix, row: int, column: int, one: Cell, left: float, top: float,
           cell: float) -> Iterator[str]:
    names = of.names[row] if row == column else f"{of.names[row]} - {of.names[column]}"
    rate = f"{one.busbw:.4g} GB/s" if one.busbw is not None else "no rate"
    share = f", {one.share:.0%} of the median" if one.share is not None else ""
    tip = _text(f"{names}: {rate}{share}, {MEANING[one.state]} ({listed(one.tasks, 4)})", 400)
    for x, y in {(column, row), (row, column)}:
        yield (f'<rect x="{left + cell * x:.1f}" y="{top + cell * y:.1f}" width="{cell:.1f}" '
               f'height="{cell:.1f}" '
               f'fill="{COLOURS[one.state]}"><title>{tip}</title></rect>')


def _labels(of: Matrix, names: tuple[str, ...], left: float, top: float, cell: float) -> Iterator[str]:
    """Names of rows and columns while they can be read, and a line where the next leaf begins."""
    size = min(_TEXT, cell)
    for number, name in enumerate(names):
        middle = cell * (number + 0.75)
        yield (f'<text x="{left - 4:.1f}" y="{top + middle:.1f}" text-anchor="end" '
               f'font-size="{size:.1f}">{_text(name, 24)}</text>')
        yield (f'<text transform="translate({left + middle:.1f} {top - 4:.1f}) rotate(-90)" '
               f'font-size="{size:.1f}">'
               f'{_text(name, 24)}</text>')
    if of.folded:
        return
    starts = [number for number, leaf in enumerate(of.leaves) if not number or leaf != of.leaves[number - 1]]
    side = cell * len(of.names)
    for number in starts:
        at = cell * number
        if number:
            yield (f'<path d="M{left:.1f} {top + at:.1f}h{side:.1f}M{left + at:.1f} {top:.1f}v{side:.1f}" '
                   'stroke="#555555" '
                   'stroke-width="0.6" fill="none"/>')
        if not names:
            yield f'<text x="4" y="{top + at + _TEXT:.1f}">{_text(of.leaves[number] or "no leaf", 24)}</text>'


def _legend(of: Matrix, top: float) -> Iterator[str]:
    counts = of.counts
    for number, (state, meaning) in enumerate(MEANING.items()):
        y = top + _LEGEND * number
        count = "" if state is PairState.UNTESTED else f": {counts.get(state, 0)}"
        yield f'<rect x="12" y="{y - 10:.1f}" width="12" height="12" fill="{COLOURS[state]}"/>'
        yield f'<text x="30" y="{y:.1f}">{_text(meaning + count)}</text>'
    for number, (stage, median) in enumerate(of.medians.items(), len(PairState)):
        yield (
            '<text x="12" '
            f'y="{top + _LEGEND * number:.1f}">'
            f'{_text(f"median of {stage}: {median:.4g} GB/s (bus bandwidth)")}</text>')


def _text(text: str, most: int = 200) -> str:
    return escape(clean(text, most))
