"""The data of collectives: every element has one right value, known without asking. Python 3.8.

A buffer is rows of a tile; an element is its tile's value times its row's factor, so that a block at the
wrong place is wrong, too. Whole numbers are drawn from the element's column, the turn and the rank by a fixed
mixing function: no generator's state, no communication. What is at `place` p of a buffer stands in row p //
tile and column p % tile of the whole, also where a rank holds only a part of it.

Why sums are exact in every order of addition. A float type of p significant bits (fp32 24, fp16 11, bf16 8)
holds each whole number up to 2^p, and each such number times 2^e, without rounding. Contributions are whole
numbers times one 2^e for all ranks (the row's factor), and the absolute values of all ranks' contributions to
an element add up to at most 2^p. So the sum of any subset of them is a whole number of at most 2^p times 2^e:
whatever is added first, no partial sum is rounded, and an adder that gives anything else is wrong.

    owner-coded     element by element one rank brings a number of all p bits, the others 0. Whose an
                    element is changes with the turn: in `world` turns each rank has each place once, in an
                    order that has no period
    summed          `contributors` ranks bring numbers other than 0: in half of the columns so large that the
                    sum fills all p bits, in the others of any sign and size. Of more ranks than 2^(p-2) that
                    many, others each turn
    stamped         what is moved and not added: all 32 bits, other ones for each sender and receiver

Whole-number types use all their bits and wrap; their sums say nothing of a floating-point adder. Exponents:
2^-8 to 2^4 by row, so that the largest value is 2^15 in fp16, which ends at 65,504, and the least is far from
where floats lose bits.
"""

from __future__ import annotations

from typing import Any, Iterator

TILE = 4096     # elements of a tile, about: rows are long enough to be fast
LEAST_ROWS = 2048       # of a large buffer: the rest of a row is left out, less than a thousandth
FACTORS = 13    # a prime, so that rows at a distance of a collective's chunk differ
EXPONENT = -8   # exponent of the least factor
STEP = 1 << 26  # elements compared at a time, to bound memory
PATTERNS = 8    # different sums; each is made once, which takes longer with more ranks
RANKS_AT_ONCE = 64
MOST_OWNERS = 16
MOST_PLACES = 32
LEAST_BITS = 4  # fewer are too few to draw from
# Powers of two by which a value may grow and stay far from the largest one.
ROOM = {"torch.float32": 96, "torch.bfloat16": 96}
BITS = {"float32": 24, "float16": 11, "bfloat16": 8}
DRAWN = (1 << 31) - 1


def drawn(column: Any, *keys: Any) -> Any:
    """Numbers of 31 bits for these columns (int64, or one int), equal for equal keys."""
    for key in keys:
        column = (column * 0x2545F491 + key * 0x3C6EF372 + 0x1B873593) & DRAWN
        for _ in range(2):
            column = ((column >> 15) ^ column) * 0x45D9F3B & DRAWN
        column = (column >> 16) ^ column
    return column


class Tiles:
    """Buffers of about `elements`: `rows` (a multiple of `parts`) of `tile` elements. `exact`: exactly so
    many, or whole rows; for collectives without parts of single ranks."""

    def __init__(self, torch: Any, world: int, elements: int, device: str, dtype: Any, parts: int = 1,
                 rows: int = LEAST_ROWS, exact: bool = False) -> None:
        self.torch, self.world, self.device, self.dtype = torch, world, device, dtype
        self.tile = min(TILE, elements) if exact else world * max(1, min(TILE, elements // rows) // world)
        self.rows = parts * max(1, elements // self.tile // parts)
        self.count = self.rows * self.tile
        self.column = torch.arange(self.tile, device=device)
        self.bits: int | None = BITS.get(str(dtype).partition(".")[2])
        powers = [2.0 ** (EXPONENT + at) if self.bits else 2 * at + 1 for at in range(FACTORS)]
        self.powers = torch.tensor(powers, device=device).to(dtype)
        self.step = max(1, STEP // self.tile)

    def empty(self, parts: int = 1) -> Any:
        """Memory for one of `parts` parts of the whole."""
        return self.torch.zeros(self.count // parts, dtype=self.dtype, device=self.device)

    def factors(self, turn: int, first: int, rows: int) -> Any:
        """The factor of each of these rows, the first of them number `first` of the whole."""
        row = self.torch.arange(first, first + rows, device=self.device)
        return self.powers[(row + turn) % FACTORS].unsqueeze(1)

    def fill(self, buffer: Any, tile: Any, turn: int, first: int = 0) -> None:
        """Fills the buffer with this tile, from row `first` on."""
        view = buffer.view(-1, self.tile)
        self.torch.mul(tile.unsqueeze(0), self.factors(turn, first, len(view)), out=view)

    def differs(self, buffer: Any, tile: Any, turn: int, first: int = 0) -> tuple[int, list[int]]:
        """How many elements differ from the tile, and the first 32 places in order."""
        torch, view = self.torch, buffer.view(-1, self.tile)
        count = 0
        places: list[int] = []
        for at in range(0, len(view), self.step):
            part = view[at:at + self.step]
            # Factors repeat, so no second buffer of full size is needed.
            block = tile.unsqueeze(0) * self.factors(turn, first + at, min(FACTORS, len(part)))
            bad = torch.empty(part.shape, dtype=torch.bool, device=self.device)
            whole = len(part) // FACTORS * FACTORS
            # NaN differs from everything, as it should.
            if whole:
                blocks = -1, FACTORS, self.tile
                torch.ne(part[:whole].view(blocks), block, out=bad[:whole].view(blocks))
            if whole < len(part):
                torch.ne(part[whole:], block[:len(part) - whole], out=bad[whole:])
            found = int(torch.count_nonzero(bad))
            if not found:
                continue
            count += found
            for row in bad.any(dim=1).nonzero()[:MOST_PLACES - len(places), 0].tolist():
                begin = (first + at + row) * self.tile
                columns = bad[row].nonzero()[:MOST_PLACES - len(places), 0].tolist()
                places += [begin + each for each in columns]
        return count, places

    def whole_numbers(self, numbers: Any) -> Any:
        """Numbers below 2^bits as they are; of a whole-number type as many bits as it has."""
        if self.bits is not None:
            return numbers.to(self.dtype)
        # An odd number: times an odd factor it never wraps to 0.
        return ((numbers << 33) ^ (drawn(numbers, 1) << 12) ^ drawn(numbers, 2) | 1).to(self.dtype)


class OwnerCoded:
    """Each element non-zero from one rank alone, of `bits` where not of all that the type has."""

    encoding_name = "owner-coded"

    def __init__(self, tiles: Tiles, rank: int, bits: int | None = None) -> None:
        self.tiles, self.rank = tiles, rank
        self.most = (1 << (bits or tiles.bits or 31)) - 1
        self.cycle, self.order = -1, [0]
        self.made: tuple[int, Any] = (-1, None)

    def shift(self, turn: int) -> int:
        """By how much owners are shifted: each of 0 to world - 1 once in `world` turns."""
        cycle, at = divmod(turn, self.tiles.world)
        if cycle != self.cycle:
            self.cycle = cycle
            self.order = sorted(range(self.tiles.world), key=lambda each: int(drawn(each, cycle, 7)))
        return self.order[at]

    def owners(self, turn: int) -> Any:
        """The owner of each column."""
        return (self.tiles.column + self.shift(turn)) % self.tiles.world

    def owner(self, place: int, turn: int) -> int:
        """The owner of the element at this place."""
        return (place % self.tiles.tile + self.shift(turn)) % self.tiles.world

    def whole(self, turn: int) -> Any:
        """The tile of the sum, never 0."""
        if self.made[0] != turn:
            numbers = drawn(self.tiles.column, turn, 3)
            if self.tiles.bits is not None:
                numbers = (1 + numbers % self.most) * (1 - 2 * (drawn(numbers, 1) & 1))
            self.made = turn, self.tiles.whole_numbers(numbers)
        return self.made[1]

    def own(self, turn: int) -> Any:
        """The tile with what this rank brings, and 0 for what the others do."""
        whole, mine = self.whole(turn), self.owners(turn) == self.rank
        return self.tiles.torch.where(mine, whole, self.tiles.torch.zeros_like(whole))


class Summed:
    """Each element the sum of many ranks' numbers, of `bits` in all where not of all that the type has."""

    encoding_name = "summed"

    def __init__(self, tiles: Tiles, rank: int, bits: int | None = None) -> None:
        self.tiles, self.rank = tiles, rank
        given = bits or tiles.bits
        self.contributors = tiles.world if given is None else min(tiles.world, 1 << (given - 2))
        self.most = 0 if given is None else (1 << given) // self.contributors
        self.made: dict[int, tuple[Any, Any]] = {}

    def parts(self, pattern: int, ranks: Any) -> Any:
        """What these ranks (a column of int64) bring: whole numbers, a row for each."""
        column = self.tiles.column.unsqueeze(0)
        numbers = drawn(column, pattern, ranks, 5)
        if self.tiles.bits is None:
            return self.tiles.whole_numbers(numbers)
        large = column % 4 < 2
        width = numbers % max(1, self.most.bit_length() - 1)
        small = 1 + (drawn(numbers, 1) & ((2 << width) - 1)) % (self.most - 1)
        size = self.tiles.torch.where(large, self.most - numbers % max(1, self.most // 4), small)
        sign = 1 - 2 * self.tiles.torch.where(large, column % 2, drawn(numbers, 2) & 1)
        member = (ranks + 7 * column + 3 * pattern) % self.tiles.world < self.contributors
        return size * sign * member

    def tile_pair(self, turn: int) -> tuple[Any, Any]:
        """The tiles of this rank's part and of the sum, made of whole numbers: no float is added."""
        pattern = turn % PATTERNS
        if pattern not in self.made:
            torch, world = self.tiles.torch, self.tiles.world
            ranks = torch.arange(world, device=self.tiles.device).unsqueeze(1)
            total = sum(self.parts(pattern, some).sum(dim=0) for some in ranks.split(RANKS_AT_ONCE))
            own = self.parts(pattern, ranks[self.rank:self.rank + 1])[0]
            self.made[pattern] = own.to(self.tiles.dtype), total.to(self.tiles.dtype)
        return self.made[pattern]

    def own(self, turn: int) -> Any:
        """The tile with what this rank brings."""
        return self.tile_pair(turn)[0]

    def whole(self, turn: int) -> Any:
        """The tile of the sum."""
        return self.tile_pair(turn)[1]

    def owner(self, place: int, turn: int) -> int:
        """It has none."""
        return -1


def chain_bits(tiles: Tiles, length: int) -> int | None:
    """Of how many bits sums may be that are all-reduced `length` times in all and stay exact; None: of none.

    From the second time on each of the n ranks brings the same sum S n^i: every partial sum is m S n^i, m <=
    n. A power of two in n costs no bit, its odd part costs its length each time, and m costs that of n once.
    What grows must stay below the largest exponent, too.
    """
    world = tiles.world
    odd = world // (world & -world)
    if tiles.bits is None or length < 2:
        return tiles.bits
    left = tiles.bits - (world - 1).bit_length() - (length - 1) * (odd.bit_length() if odd > 1 else 0)
    grows = (length - 1) * (world - 1).bit_length()
    return left if left >= LEAST_BITS and grows <= ROOM.get(str(tiles.dtype), 0) else None


def stamped(tiles: Tiles, sender: int, receiver: int, turn: int) -> Any:
    """The tile that one rank sends another (-1: all others), of a whole-number type."""
    return tiles.whole_numbers(drawn(tiles.column, turn, sender + 1, receiver + 2))


def owned(data: Any, places: list[int], turn: int) -> Iterator[list[int]]:
    """Each place with its owner, -1 where it has none."""
    for place in places:
        yield [place, data.owner(place, turn)]
