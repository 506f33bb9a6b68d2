"""The matrix of pairs: which two nodes were measured together, and how fast beside their equals.

With more nodes than columns it is folded by leaf, and a cell is the worst of its pairs.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from healthcheck.burnin.model import BurnInStage, Participant, TaskKind, TaskResult
from healthcheck.burnin.published import BUSBW, learning_stage
from inventory.nodeset import natural
from inventory.text import clean

if TYPE_CHECKING:
    from rich.console import Console

_STAGES = (BurnInStage.LEAF_PAIRS, BurnInStage.LEAF_CONFIRM, BurnInStage.CROSS_PAIRS)
SLOWER, SLOW = 0.97, 0.9        # of the median of equals


class PairState(Enum):
    """How a pair did, worst first, as the letter that is printed without colour."""

    FAILED = "X"
    SLOW = "S"
    SLOWER = "s"
    GOOD = "o"
    UNTESTED = "."


MEANING = {
    PairState.FAILED: "failed: not finished, or wrong data",
    PairState.SLOW: f"below {SLOW:.0%} of the median of its equals",
    PairState.SLOWER: f"below {SLOWER:.0%}", PairState.GOOD: f"{SLOWER:.0%} or more",
    PairState.UNTESTED: "not measured together",
}
# Distinguishable with red-green colour blindness.
COLOURS = {PairState.FAILED: "#a50026", PairState.SLOW: "#f46d43", PairState.SLOWER: "#fee090",
           PairState.GOOD: "#4575b4", PairState.UNTESTED: "#e4e4e4"}
_WORST = tuple(PairState)


@dataclass(frozen=True)
class Cell:
    """One pair: its state, the bandwidth of its worst task in GB/s (None: not measured), and task ids."""

    state: PairState
    busbw: float | None = None
    share: float | None = None
    tasks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Matrix:
    """`names` are both rows and columns, in the order of their `leaves`; `cells` are by (lower, higher)
    number; `medians` by stage, in GB/s. `folded`: rows are leaves, and the diagonal is within one leaf."""

    names: tuple[str, ...]
    leaves: tuple[str, ...]
    cells: Mapping[tuple[int, int], Cell]
    medians: Mapping[str, float]
    folded: bool = False

    def at(self, row: int, column: int) -> Cell:
        """One cell, from either side of the diagonal."""
        return self.cells.get((min(row, column), max(row, column)), _NONE)

    @property
    def counts(self) -> dict[PairState, int]:
        """How many pairs are in each state that was measured, worst first."""
        found = Counter(cell.state for cell in self.cells.values())
        return {state: found[state] for state in _WORST if found[state]}


_NONE = Cell(PairState.UNTESTED)


def matrix(places: Iterable[Participant], results: Iterable[TaskResult]) -> Matrix:
    """The pairs of a burn-in."""
    order = sorted(places, key=lambda place: (natural(place.leaf or ""), natural(place.node)))
    at = {place.node: number for number, place in enumerate(order)}
    pairs = [result for result in results if result.task.kind is TaskKind.ALLREDUCE
             and result.task.stage in _STAGES and len(result.task.nodes) == 2
             and all(node in at for node in result.task.nodes)]
    rates: dict[str, list[float]] = defaultdict(list)
    for result in pairs:
        if (busbw := _busbw(result)) is not None:
            rates[learning_stage(result.task.stage).value].append(busbw)
    medians = {stage: statistics.median(values) for stage, values in rates.items()}
    cells: dict[tuple[int, int], Cell] = {}
    for result in pairs:
        one, other = sorted(at[node] for node in result.task.nodes)
        cell = _cell(result, medians)
        cells[one, other] = _worse(cells[one, other], cell) if (one, other) in cells else cell
    return Matrix(tuple(place.node for place in order), tuple(place.leaf or "" for place in order), cells,
                  medians)


def by_leaf(whole: Matrix) -> Matrix:
    """The same, a row for each leaf."""
    leaves = tuple(dict.fromkeys(whole.leaves))
    at = {leaf: number for number, leaf in enumerate(leaves)}
    cells: dict[tuple[int, int], Cell] = {}
    for (row, column), cell in whole.cells.items():
        one, other = sorted((at[whole.leaves[row]], at[whole.leaves[column]]))
        cells[one, other] = _worse(cells[one, other], cell) if (one, other) in cells else cell
    return Matrix(tuple(leaf or "no leaf" for leaf in leaves), tuple(leaves), cells, whole.medians,
                  folded=True)


def within(whole: Matrix, leaf: str) -> Matrix:
    """The same, the nodes of one leaf alone."""
    numbers = [number for number, one in enumerate(whole.leaves) if one == leaf]
    at = {number: place for place, number in enumerate(numbers)}
    return Matrix(tuple(whole.names[number] for number in numbers), tuple(leaf for _ in numbers),
                  {(at[row], at[column]): cell for (row, column), cell in whole.cells.items()
                   if row in at and column in at}, whole.medians)


def troubled(whole: Matrix) -> list[str]:
    """The leaves in which a pair was slow or failed, the most such pairs first."""
    found = Counter(whole.leaves[row] for (row, column), cell in whole.cells.items()
                    if whole.leaves[row] == whole.leaves[column]
                    and cell.state in (PairState.FAILED, PairState.SLOW, PairState.SLOWER))
    return [leaf for leaf, _ in found.most_common()]


def _busbw(result: TaskResult) -> float | None:
    values = [value for report in result.reports if (value := report.figures.get(BUSBW, 0)) > 0]
    return statistics.median(values) if result.whole and values else None


def _cell(result: TaskResult, medians: Mapping[str, float]) -> Cell:
    busbw, id_ = _busbw(result), (result.task.id,)
    if busbw is None or any(report.wrong_total for report in result.reports):
        return Cell(PairState.FAILED, busbw, None, id_)
    share = busbw / medians[learning_stage(result.task.stage).value]
    return Cell(PairState.SLOW if share < SLOW else PairState.SLOWER if share < SLOWER else PairState.GOOD,
                busbw, share, id_)


def _worse(one: Cell, other: Cell) -> Cell:
    first, second = sorted((one, other), key=lambda cell: (_WORST.index(cell.state), cell.busbw or 0))
    return Cell(first.state, first.busbw, first.share, (*first.tasks, *second.tasks))


def draw(console: Console, whole: Matrix) -> None:
    """Prints it, by leaf where too wide: in colour two rows to a line, else a letter for each cell."""
    from rich.text import Text

    if not whole.cells:
        console.print("no two nodes were measured together", soft_wrap=True, highlight=False)
        return
    label = max(len(clean(name, 24)) for name in whole.names)
    shown = whole if label + 1 + len(whole.names) <= console.width else by_leaf(whole)
    label = max(len(clean(name, 24)) for name in shown.names)
    coloured = console.color_system is not None and not console.no_color
    if label + 1 + len(shown.names) > console.width:
        console.print(f"{len(shown.names)} leaves do not fit in {console.width} columns: see the SVG",
                      soft_wrap=True, highlight=False)
    else:
        for text in _coloured(shown, label) if coloured else _plain(shown, label):
            console.print(Text.assemble(*text), soft_wrap=True, highlight=False)
    for text in _legend(shown, coloured=coloured):
        console.print(Text.assemble(*text), soft_wrap=True, highlight=False)


Piece = str | tuple[str, str]


def _plain(of: Matrix, label: int) -> Iterator[list[Piece]]:
    for row, name in enumerate(of.names):
        yield [f"{clean(name, 24):<{label}} "
               + "".join("\\" if row == column and not of.folded else of.at(row, column).state.value
                         for column in range(len(of.names)))]


def _coloured(of: Matrix, label: int) -> Iterator[list[Piece]]:
    """Upper halves of blocks: the letter's colour is the upper row, its ground the lower one."""
    for row in range(0, len(of.names), 2):
        pieces: list[Piece] = [f"{clean(of.names[row], 24):<{label}} "]
        for column in range(len(of.names)):
            lower = f" on {COLOURS[of.at(row + 1, column).state]}" if row + 1 < len(of.names) else ""
            pieces.append(("▀", f"{COLOURS[of.at(row, column).state]}{lower}"))
        yield pieces


def _legend(of: Matrix, *, coloured: bool) -> Iterator[list[Piece]]:
    yield [f"rows and columns: {'leaves, the worst pair of each' if of.folded else 'nodes'}, in the same "
           "order"]
    counts = of.counts
    for state, meaning in MEANING.items():
        sign: Piece = ("█", COLOURS[state]) if coloured else state.value
        yield [" ", sign,
               f" {meaning}" + (f": {counts.get(state, 0)}" if state is not PairState.UNTESTED else "")]
    for stage, median in of.medians.items():
        yield [f"median of {stage}: {median:.4g} GB/s"]
