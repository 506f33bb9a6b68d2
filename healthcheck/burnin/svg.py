"""A burn-in as an SVG picture: a row for each node, the worst first, a column for each stage, and the pairs
of the leaves in which some were slow. Static, for light and dark, all text escaped."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from healthcheck.burnin import matrix as matrices
from healthcheck.burnin.document import Burnin
from healthcheck.burnin.matrix import MEANING, SLOW, SLOWER, Cell, Matrix
from healthcheck.burnin.shares import NodeShares, Shares, ShareState, StageShare, shares
from inventory.text import clean, listed

MOST_ROWS = 64      # of nodes; those accused or behind are all shown
_MOST_LEAVES, _MOST_OF_LEAF = 4, 48
_ROW, _PAIR, _TEXT = 20, 16, 12
_COLUMN, _LETTER = 92, 7.2      # width of a stage, and of a letter
_LONGEST = 24       # letters of a name
_EDGE = 16
# Distinguishable with red-green colour blindness, and by the text in each cell. Each: ground and text in
# light, then in dark.
_COLOURS = {
    "failed": ("#a50026", "#ffffff", "#e5546a", "#14161a"),
    "slow": ("#f46d43", "#14161a", "#e8804f", "#14161a"),
    "slower": ("#fee090", "#14161a", "#c9a227", "#14161a"),
    "good": ("#d6e6f4", "#14161a", "#24435f", "#e6edf3"),
    "untested": ("#eeeeee", "#6a6a6a", "#2b2f36", "#9aa4b2"),
}
_KEY = (("failed", "not done, or wrong data"), ("slow", f"below its floor, or {SLOW:.0%} of the median"),
        ("slower", f"below {SLOWER:.0%} of the median"), ("good", "well"),
        ("untested", "nothing to compare with, or not measured"))


def svg(burnin: Burnin) -> str:
    """The picture as a document of its own."""
    found = shares(burnin)
    pairs = matrices.matrix(burnin.burnt.places, burnin.burnt.results)
    shown = [row for number, row in enumerate(found.nodes) if number < MOST_ROWS or row.accused
             or any(cell.state in (ShareState.FAILED, ShareState.SLOW) for cell in row.stages)]
    names = max((len(clean(row.node, _LONGEST)) for row in shown), default=4) * _LETTER + 30
    accused = max((len(clean(row.accused, 48)) for row in shown), default=0) * _LETTER
    width = max(names + _COLUMN * len(found.stages) + accused + 3 * _EDGE, 560)
    parts = list(_table(found, shown, names, f"burn-in {burnin.run}: {burnin.judgement.verdict.value}"))
    top = 76 + _ROW * len(shown) + 24
    if more := len(found.nodes) - len(shown):
        least = min((row.worst for row in found.nodes if row not in shown and row.worst is not None),
                    default=None)
        words = f", at {least:.0%} or more" if least is not None else ""
        parts.append(_words(_EDGE, top - 8, f"and {more} more nodes{words}", "dim"))
        top += 16
    for leaf in matrices.troubled(pairs)[:_MOST_LEAVES]:
        one = matrices.within(pairs, leaf)
        parts += _leaf(one, leaf, top)
        size = min(len(one.names), _MOST_OF_LEAF)
        width = max(width, _EDGE * 2 + _LETTER * _LONGEST + _PAIR * size)
        top += 60 + _PAIR * size
    for number, (name, meaning) in enumerate(_KEY):
        y = top + 18 * number
        parts.append(f'<rect class="{name}" x="{_EDGE}" y="{y:.0f}" width="12" height="12"/>')
        parts.append(_words(_EDGE + 20, y + 10, meaning, "dim"))
    height = top + 18 * len(_KEY) + 8
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" '
            f'width="{width:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="{_TEXT}" '
            'role="img">')
    ground = f'<rect class="ground" width="{width:.0f}" height="{height:.0f}"/>'
    return "\n".join([head, f"<title>{_text(f'burn-in {burnin.run}')}</title>", _style(), ground, *parts,
                      "</svg>"]) + "\n"


def _style() -> str:
    light = [_pair_of(name, *colours[:2]) for name, colours in _COLOURS.items()]
    dark = [_pair_of(name, *colours[2:]) for name, colours in _COLOURS.items()]
    return ("<style>.ground{fill:#ffffff}.ink{fill:#14161a}.dim{fill:#5a6270}.mark{fill:#a50026}"
            f"{''.join(light)}@media (prefers-color-scheme:dark){{.ground{{fill:#14161a}}.ink{{fill:#e6edf3}}"
            f".dim{{fill:#9aa4b2}}.mark{{fill:#ff8a95}}{''.join(dark)}}}</style>")


def _pair_of(name: str, ground: str, text: str) -> str:
    return f".{name}{{fill:{ground}}}.on-{name}{{fill:{text}}}"


def _table(found: Shares, shown: list[NodeShares], names: float, title: str) -> Iterator[str]:
    yield _words(_EDGE, 26, title, "ink", size=16)
    yield _words(_EDGE, 48, "Worst share of the floor in each stage, or of the median of equals", "dim")
    for number, stage in enumerate(found.stages):
        x = _EDGE + names + _COLUMN * (number + 0.5)
        yield _words(x, 70, stage.value, "ink", anchor="middle")
    for number, row in enumerate(shown):
        top = 76 + _ROW * number
        if row.accused:
            yield f'<rect class="mark" x="{_EDGE - 8}" y="{top + 2}" width="4" height="{_ROW - 4}"/>'
        yield _words(_EDGE, top + 14, clean(row.node, _LONGEST), "mark" if row.accused else "ink",
                     bold=bool(row.accused))
        for place, cell in enumerate(row.stages):
            yield from _cell(row, found.stages[place].value, cell, _EDGE + names + _COLUMN * place, top)
        if row.accused:
            yield _words(_EDGE * 2 + names + _COLUMN * len(row.stages), top + 14, clean(row.accused, 48),
                         "mark")


def _cell(row: NodeShares, stage: str, cell: StageShare, x: float, y: float) -> Iterator[str]:
    name = cell.state.name.lower()
    share = f"{cell.share:.0%}" if cell.share is not None else ""
    words = share or ("failed" if cell.state is ShareState.FAILED else "-")
    tip = _text(f"{row.node}, {stage}: {cell.words or words}", 400)
    yield (f'<rect class="{name}" x="{x + 1:.1f}" y="{y + 1:.1f}" width="{_COLUMN - 2}" height="{_ROW - 2}" '
           f'rx="2"><title>{tip}</title></rect>')
    yield _words(x + _COLUMN / 2, y + 14, words, f"on-{name}", anchor="middle")


def _leaf(of: Matrix, leaf: str, top: float) -> Iterator[str]:
    """The pairs within one leaf."""
    names = of.names[:_MOST_OF_LEAF]
    more = f", the first {len(names)} of {len(of.names)}" if len(of.names) > len(names) else ""
    yield _words(_EDGE, top + 14, f"Pairs within {clean(leaf, 40) or 'no leaf'}{more}", "ink", size=14)
    left, top = _EDGE + _LETTER * max(len(clean(name, _LONGEST)) for name in names) + 8, top + 24
    for number, name in enumerate(names):
        yield _words(_EDGE, top + _PAIR * number + 12, clean(name, _LONGEST), "ink")
    for (row, column), one in of.cells.items():
        if column < len(names):
            for x, y in ((column, row), (row, column)):
                yield (f'<rect class="{one.state.name.lower()}" x="{left + _PAIR * x:.1f}" '
                       f'y="{top + _PAIR * y:.1f}" width="{_PAIR - 1}" height="{_PAIR - 1}">'
                       f"<title>{_pair(of, row, column, one)}</title></rect>")


def _pair(of: Matrix, row: int, column: int, one: Cell) -> str:
    rate = f"{one.busbw:.4g} GB/s" if one.busbw is not None else "no rate"
    share = f", {one.share:.0%} of the median" if one.share is not None else ""
    return _text(f"{of.names[row]} - {of.names[column]}: {rate}{share}, {MEANING[one.state]} "
                 f"({listed(one.tasks, 4)})", 400)


def _words(
    x: float, y: float, text: str, kind: str, *, anchor: str = "", size: int = 0, bold: bool = False,
) -> str:
    more = (f' text-anchor="{anchor}"' if anchor else "") + (f' font-size="{size}"' if size else "") + (
        ' font-weight="bold"' if bold else "")
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}"{more}>{_text(text)}</text>'


def _text(text: str, most: int = 200) -> str:
    return escape(clean(text, most))
