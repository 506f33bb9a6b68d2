"""The collectives under test: a table of inputs and right results. Python 3.8.

Inputs are checked right before, and also right after where the collective keeps them, so that wrong data in a
rank's own memory is reported as its own. Results are checked element by element. Collectives that add
(all-reduce, reduce-scatter) run on owner-coded data and on sums, in each float type and both whole-number
types; the others move 32-bit words that use every bit. PyTorch has all-reduce and broadcast in place only,
and all-to-all and send/receive out of place only; reduce-scatter and all-gather run both ways. PyTorch's gloo
implements reduce-scatter by its all-reduce; it runs all the same, and tests no other adder.
"""

from __future__ import annotations

from typing import Any, Iterator

from healthcheck.burnin.onnode.data import MOST_OWNERS, MOST_PLACES, OwnerCoded, Summed, Tiles, owned, stamped

ADDED = ("float32", "float16", "bfloat16", "int32", "int64")
WORDS = "int32"
MOST_SWAPPING = 512     # all-to-all connects every two ranks, which takes long with more
ROWS_OF_A_PART = 4      # at least: with more, tiles are too short to differ
GLOO_SCATTERS = "gloo implements reduce-scatter by its all-reduce, so it tests no other adder"


class Exchange:
    """One collective in one manner. `keeps`: whether it leaves its inputs unchanged. A piece is a part of a
    buffer, the tile that it must hold, its first row in the whole, and its owner (None: by the data's
    code)."""

    keeps = True

    def __init__(self, rank: Any, tiles: Tiles, data: Any, in_place: bool) -> None:
        self.rank, self.tiles, self.data, self.in_place = rank, tiles, data, in_place
        self.dist: Any = tiles.torch.distributed

    def inputs(self, turn: int) -> Iterator[Any]:
        """The pieces that this rank sends."""
        raise NotImplementedError

    def results(self, turn: int) -> Iterator[Any]:
        """The pieces that this rank must have afterwards."""
        raise NotImplementedError

    def run(self, turn: int) -> None:
        """The collective."""
        raise NotImplementedError

    def make(self, turn: int) -> None:
        """Room for results holds what no result is, and inputs what they must be."""
        for buffer, *_ in self.results(turn):
            buffer.fill_(-1)
        for buffer, tile, first, _ in self.inputs(turn):
            self.tiles.fill(buffer, tile, turn, first)

    def wrong_inputs(self, turn: int) -> tuple[int, list[int]]:
        """How many elements of what it sends are not what they must be, and where."""
        count = 0
        places: list[int] = []
        for buffer, tile, first, _ in self.inputs(turn):
            found, where = self.tiles.differs(buffer, tile, turn, first)
            count, places = count + found, places + where
        return count, places

    def wrong_results(self, turn: int) -> tuple[int, list[list[int]]]:
        """How many received elements are wrong, where, and whose."""
        count = 0
        places: list[list[int]] = []
        for buffer, tile, first, sender in self.results(turn):
            found, where = self.tiles.differs(buffer, tile, turn, first)
            count += found
            whose = owned(self.data, where, turn) if sender is None else ([place, sender] for place in where)
            places += whose
        return count, places

    def own_part(self, buffer: Any) -> Any:
        """This rank's part of a buffer that has one for each."""
        size = len(buffer) // self.rank.world
        return buffer[self.rank.number * size:(self.rank.number + 1) * size]


class AllReduce(Exchange):
    """In place: PyTorch has no other. What was sent is not there afterwards."""

    keeps = False

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.buffer = self.tiles.empty()

    def inputs(self, turn: int) -> Iterator[Any]:
        yield self.buffer, self.data.own(turn), 0, None

    def results(self, turn: int) -> Iterator[Any]:
        yield self.buffer, self.data.whole(turn), 0, None

    def run(self, turn: int) -> None:
        self.dist.all_reduce(self.buffer)


class ReduceScatter(Exchange):
    """Each rank gets the sum of its own part."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.keeps = not self.in_place
        self.sent = self.tiles.empty()
        self.got = self.own_part(self.sent) if self.in_place else self.tiles.empty(self.rank.world)

    def inputs(self, turn: int) -> Iterator[Any]:
        yield self.sent, self.data.own(turn), 0, None

    def results(self, turn: int) -> Iterator[Any]:
        yield self.got, self.data.whole(turn), self.rank.number * self.tiles.rows // self.rank.world, None

    def run(self, turn: int) -> None:
        self.dist.reduce_scatter_tensor(self.got, self.sent)


class AllGather(Exchange):
    """Each rank gets the parts of all."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.got = self.tiles.empty()
        self.sent = self.own_part(self.got) if self.in_place else self.tiles.empty(self.rank.world)

    def piece(self, buffer: Any, sender: int, turn: int) -> Any:
        """A sender's part, as it must be."""
        first = sender * self.tiles.rows // self.rank.world
        return buffer, stamped(self.tiles, sender, -1, turn), first, sender

    def inputs(self, turn: int) -> Iterator[Any]:
        yield self.piece(self.sent, self.rank.number, turn)

    def results(self, turn: int) -> Iterator[Any]:
        for sender, part in enumerate(self.got.chunk(self.rank.world)):
            yield self.piece(part, sender, turn)

    def run(self, turn: int) -> None:
        self.dist.all_gather_into_tensor(self.got, self.sent)


class AllToAll(Exchange):
    """Each rank gets a part of its own from each."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.sent, self.got = self.tiles.empty(), self.tiles.empty()

    def inputs(self, turn: int) -> Iterator[Any]:
        for receiver, part in enumerate(self.sent.chunk(self.rank.world)):
            yield part, stamped(self.tiles, self.rank.number, receiver, turn), 0, self.rank.number

    def results(self, turn: int) -> Iterator[Any]:
        for sender, part in enumerate(self.got.chunk(self.rank.world)):
            yield part, stamped(self.tiles, sender, self.rank.number, turn), 0, sender

    def run(self, turn: int) -> None:
        self.dist.all_to_all_single(self.got, self.sent)


class Broadcast(Exchange):
    """All get what one has; which one changes with the turn."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.buffer = self.tiles.empty()

    def inputs(self, turn: int) -> Iterator[Any]:
        if self.rank.number == turn % self.rank.world:
            yield from self.results(turn)

    def results(self, turn: int) -> Iterator[Any]:
        root = turn % self.rank.world
        yield self.buffer, stamped(self.tiles, root, -1, turn), 0, root

    def run(self, turn: int) -> None:
        self.dist.broadcast(self.buffer, turn % self.rank.world)


class SendReceive(Exchange):
    """Each rank sends to one and gets from another; how far apart they are changes with the turn."""

    def __init__(self, *words: Any) -> None:
        super().__init__(*words)
        self.sent, self.got = self.tiles.empty(), self.tiles.empty()

    def partners(self, turn: int) -> tuple[int, int]:
        """The rank to send to, and the rank to receive from."""
        own, world = self.rank.number, self.rank.world
        apart = 1 + turn % (world - 1)
        return (own + apart) % world, (own - apart) % world

    def inputs(self, turn: int) -> Iterator[Any]:
        own = self.rank.number
        yield self.sent, stamped(self.tiles, own, self.partners(turn)[0], turn), 0, own

    def results(self, turn: int) -> Iterator[Any]:
        sender = self.partners(turn)[1]
        yield self.got, stamped(self.tiles, sender, self.rank.number, turn), 0, sender

    def run(self, turn: int) -> None:
        to, sender = self.partners(turn)
        sends = self.dist.P2POp(self.dist.isend, self.sent, to)
        gets = self.dist.P2POp(self.dist.irecv, self.got, sender)
        for work in self.dist.batch_isend_irecv([sends, gets]):
            work.wait()


# name: (class, whether it adds, its manners: in place or not)
TABLE: dict[str, tuple[type[Exchange], bool, tuple[bool, ...]]] = {
    "all-reduce": (AllReduce, True, (True,)),
    "reduce-scatter": (ReduceScatter, True, (False, True)),
    "all-gather": (AllGather, False, (False, True)),
    "all-to-all": (AllToAll, False, (False,)),
    "broadcast": (Broadcast, False, (True,)),
    "send-receive": (SendReceive, False, (False,)),
}


def exchanges(rank: Any, device: Any, size: int) -> Iterator[tuple[str, Exchange]]:
    """Each entry of the table in each manner, type and data, on buffers of about `size` bytes of its own."""
    torch = device.torch
    for name, (kind, adds, manners) in TABLE.items():
        if why_not(name, rank.world):
            continue
        for dtype in ADDED if adds else (WORDS,):
            of = getattr(torch, dtype)
            for form in (OwnerCoded, Summed) if adds and of.is_floating_point else (Summed,):
                for in_place in manners:
                    elements = max(1, size // torch.empty(0, dtype=of).element_size())
                    rows = ROWS_OF_A_PART * rank.world
                    tiles = Tiles(torch, rank.world, elements, device.at, of, rank.world, rows)
                    data = form(tiles, rank.number)
                    manner = "in place" if in_place else "out of place"
                    check = " ".join((name, dtype, data.encoding_name if adds else "moved", manner))
                    yield check, kind(rank, tiles, data, in_place)


def why_not(name: str, world: int) -> str:
    """Why a collective is not run with so many ranks; "" where it is."""
    if name == "send-receive" and world < 2:
        return "one rank has no one to send to"
    if name == "all-to-all" and world > MOST_SWAPPING:
        return "with more than %d ranks its connections take too long" % MOST_SWAPPING
    return ""


def checked(rank: Any, device: Any, exchange: Exchange, check: str, iteration: int, turn: int) -> None:
    """Runs it once, as one iteration, and remembers what was wrong."""
    rank.at("compute", iteration)
    exchange.make(turn)
    device.wait()
    before = exchange.wrong_inputs(turn)
    rank.at("send")
    exchange.run(turn)
    device.wait()
    rank.at("verify")
    after = exchange.wrong_inputs(turn) if exchange.keeps and not before[0] else (0, [])
    remember(rank, iteration, check, before if before[0] else after, exchange.wrong_results(turn))


def remember(
    rank: Any, iteration: int, check: str, inputs: tuple[int, list[int]],
    results: tuple[int, list[list[int]]],
) -> None:
    """Has the rank report what was wrong, if anything: in what, how many of inputs and results, where."""
    if inputs[0] or results[0]:
        count, places = results
        owners = sorted({owner for _, owner in places if owner >= 0})[:MOST_OWNERS]
        rank.found_wrong(iteration, count or inputs[0], owners, bool(inputs[0]), check,
                         places[:MOST_PLACES], inputs[1][:MOST_PLACES])
