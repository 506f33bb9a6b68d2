"""Owner-coded data: every element of an all-reduce comes from one rank, so that a wrong one names its owner. Python 3.8.

Of n ranks, element i is non-zero from rank (i + shift) mod n alone, shift being the iteration mod n. The buffer is rows of a tile
whose length is a multiple of n; an element is its tile's value times its row's factor, so that a block at the wrong place is wrong,
too. |tile| <= 19 and 1 <= factor <= 13: at most 247, exact in fp32, fp16 and bf16, and as only zeros are added to it so is the sum.
"""

from __future__ import annotations

from typing import Any

TILE = 4096     # elements, about: rows are long enough to be fast
LEAST_ROWS = 2048       # where there is as much: what does not fill a row is left out, and that is then less than a thousandth
FACTORS = 13    # a prime: rows that a collective's chunk sizes keep apart differ
STEP = 1 << 26  # elements that are compared at a time, which bounds what a comparison takes in memory
MOST_OWNERS = 16


class OwnerCoded:
    """The data of one rank of `world`. `count` is a whole number of tiles, at least one, near the elements asked for."""

    def __init__(self, world: int, rank: int, elements: int, device: Any, dtype: Any) -> None:
        import torch
        self.torch: Any = torch
        self.world, self.rank, self.device, self.dtype = world, rank, device, dtype
        self.tile = world * max(1, min(TILE, elements // LEAST_ROWS) // world)
        self.rows = max(1, elements // self.tile)
        self.count = self.rows * self.tile
        self.column = torch.arange(self.tile, device=device)
        self.row = torch.arange(self.rows, device=device)
        self.step = max(1, STEP // self.tile)

    def owners(self, iteration: int) -> Any:
        """The owner of each column of the tile."""
        return (self.column + iteration % self.world) % self.world

    def values(self, iteration: int) -> Any:
        """The sum's value of each column, never 0."""
        mixed = self.column * 7 + self.owners(iteration) * 5 + iteration * 3
        return ((mixed % 19 + 1) * (1 - 2 * (mixed % 2))).to(self.dtype)

    def factors(self, iteration: int) -> Any:
        """The factor of each row."""
        return ((self.row + iteration) % FACTORS + 1).to(self.dtype).unsqueeze(1)

    def own(self, iteration: int) -> Any:
        """The tile with what this rank brings, and 0 for what the others do."""
        return self.torch.where(self.owners(iteration) == self.rank, self.values(iteration), self.torch.zeros_like(self.values(iteration)))

    def fill(self, buffer: Any, iteration: int) -> None:
        """Makes the buffer what this rank sends."""
        self.torch.mul(self.own(iteration).unsqueeze(0), self.factors(iteration), out=buffer.view(self.rows, self.tile))

    def wrong(self, buffer: Any, iteration: int) -> tuple[int, list[int]]:
        """How many elements of the sum are not what they must be, and whose they are (ranks, sorted, at most 16)."""
        return self._differs(buffer, self.values(iteration), iteration)

    def wrong_input(self, buffer: Any, iteration: int) -> bool:
        """Whether what this rank sent is not what it must have been."""
        return bool(self._differs(buffer, self.own(iteration), iteration)[0])

    def _differs(self, buffer: Any, tile: Any, iteration: int) -> tuple[int, list[int]]:
        view, factors, tile = buffer.view(self.rows, self.tile), self.factors(iteration), tile.unsqueeze(0)
        count, columns = 0, None
        for at in range(0, self.rows, self.step):
            # NaN differs from everything, as it should.
            differs = view[at:at + self.step] != tile * factors[at:at + self.step]
            found = int(differs.sum())
            if found:
                count += found
                there = differs.any(dim=0)
                columns = there if columns is None else columns | there
        if columns is None:
            return 0, []
        return count, sorted(set(self.owners(iteration)[columns].tolist()))[:MOST_OWNERS]
