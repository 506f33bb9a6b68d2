"""Patterns over most of the device's memory: written, held, read back. Python 3.8.

Words are 64 bits, so that each of them can hold its own address. The patterns: 0x55.. and 0xAA.., the address
and its complement, random by seed, and a single one that walks through the word.
"""

from __future__ import annotations

from typing import Any

from healthcheck.burnin.onnode.times import Spent

# words (256 MiB): making and comparing a pattern needs a few of these beside the tested memory
CHUNK = 1 << 25
LEAST = 1 << 17         # words (1 MiB): a smaller rest is left out
ALTERNATING = 0x5555555555555555
WORD_MASK = (1 << 64) - 1


class MemoryPattern:
    """What is written to words and expected back; a chunk's first word has the number `at`."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def write(self, chunk: Any, at: int) -> None:
        """Writes the pattern to a chunk."""
        raise NotImplementedError

    def expected(self, chunk: Any, at: int) -> Any:
        """What a chunk should contain, in memory of its own."""
        found = self.torch.empty_like(chunk)
        self.write(found, at)
        return found

    def differs(self, chunk: Any, at: int) -> Any:
        """Which words of the chunk differ from what was written."""
        return chunk != self.expected(chunk, at)

    def word(self, chunk: Any, at: int, index: int) -> int:
        """The right value of one word of the chunk."""
        return int(self.expected(chunk, at)[index])


class ConstantPattern(MemoryPattern):
    """One value everywhere."""

    def __init__(self, torch: Any, value: int) -> None:
        super().__init__(torch)
        self.value = value

    def write(self, chunk: Any, at: int) -> None:
        chunk.fill_(self.value)

    def differs(self, chunk: Any, at: int) -> Any:
        return chunk != self.value      # without memory for a second chunk

    def word(self, chunk: Any, at: int, index: int) -> int:
        return self.value       # not as the device would write it again


class AddressPattern(MemoryPattern):
    """Each word's own number, or its complement: shows a word that was written to the wrong place."""

    def __init__(self, torch: Any, complement: bool) -> None:
        super().__init__(torch)
        self.complement = complement

    def write(self, chunk: Any, at: int) -> None:
        first, step = (~at, -1) if self.complement else (at, 1)
        self.torch.arange(first, first + step * len(chunk), step, out=chunk)

    def word(self, chunk: Any, at: int, index: int) -> int:
        return ~(at + index) if self.complement else at + index


class RandomPattern(MemoryPattern):
    """Random words by seed, which the same device makes again."""

    def __init__(self, torch: Any, seed: int) -> None:
        super().__init__(torch)
        self.seed = seed

    def write(self, chunk: Any, at: int) -> None:
        maker = self.torch.Generator(device=chunk.device).manual_seed((self.seed * 1000003 + at) % (1 << 62))
        chunk.random_(-(1 << 63), (1 << 63) - 1, generator=maker)


class WalkingOnePattern(MemoryPattern):
    """A single set bit in each word, one further in each next word, from `turn` on; chunks of 64 words."""

    def __init__(self, torch: Any, device: str, turn: int) -> None:
        super().__init__(torch)
        bits = [(bit + turn) % 64 for bit in range(64)]
        self.ones = torch.tensor([1 << bit if bit < 63 else -(1 << 63) for bit in bits], dtype=torch.int64,
                                 device=device)

    def write(self, chunk: Any, at: int) -> None:
        chunk.view(-1, 64).copy_(self.ones.unsqueeze(0).expand(len(chunk) // 64, 64))

    def differs(self, chunk: Any, at: int) -> Any:
        return (chunk.view(-1, 64) != self.ones).view(-1)       # without memory for a second chunk

    def word(self, chunk: Any, at: int, index: int) -> int:
        return int(self.ones[index % 64])


def patterns(torch: Any, device: str, seed: int, walks: int, turn: int) -> dict[str, MemoryPattern]:
    """The patterns of one pass, by name; those with a seed or a turn differ from pass to pass."""
    made: dict[str, MemoryPattern] = {
        "0x55": ConstantPattern(torch, ALTERNATING), "0xaa": ConstantPattern(torch, ~ALTERNATING),
        "address": AddressPattern(torch, False), "~address": AddressPattern(torch, True),
        "random": RandomPattern(torch, seed + (turn << 20))}
    for walk in range(min(walks, 64)):
        # 37 and 64 have no common divisor: 64 walks set each bit of each word once, and fewer walks are far
        # apart.
        step = (walk * 37 + turn) % 64
        made["walking+%d" % step] = WalkingOnePattern(torch, device, step)
    return made


def chunks_of(rank: Any, device: Any) -> list[Any]:
    """The memory under test in pieces, as much as asked for and available; reports the share covered."""
    torch, params = device.torch, rank.params
    free, whole = device.free_bytes()
    if not params["bytes"] and not whole:
        raise ValueError("bytes is 0, expected the size of the memory to test: there is no GPU")
    spare = 4 * CHUNK * 8
    left = (params["bytes"] or min(int(free * params["share"]), max(0, free - spare))) // 512 * 64
    chunks: list[Any] = []
    while left >= (LEAST if chunks else 64):
        size = min(CHUNK, left)
        try:
            chunks.append(torch.empty(size, dtype=torch.int64, device=device.at))
        except RuntimeError:    # also torch.cuda.OutOfMemoryError: memory is fragmented or in use
            break
        left -= size
    if not chunks:
        raise MemoryError("no memory could be allocated: %d of %d bytes are free" % (free, whole))
    covered = 8 * sum(map(len, chunks))
    rank.facts["memory_bytes"] = str(covered)
    if whole:
        rank.figures["memory_share"] = covered / whole
    return chunks


def memory_patterns(rank: Any, device: Any) -> None:
    """Runs all patterns over the memory; counts each wrong word and reports the first."""
    params = rank.params
    rank.pause(params["ramp_s"] * rank.number / rank.world)
    chunks = chunks_of(rank, device)
    placed = [(sum(map(len, chunks[:number])), chunk) for number, chunk in enumerate(chunks)]
    verified, spent = 0, Spent()
    for turn in range(max(1, params["passes"])):
        for name, pattern in patterns(device.torch, device.at, params["seed"], params["walks"], turn).items():
            spent.begin()
            rank.at("compute", rank.iteration + 1)
            for start, chunk in placed:
                pattern.write(chunk, start)
            device.wait()
            spent.worked()
            rank.pause(params["dwell_s"])
            spent.begin()
            for start, chunk in placed:
                rank.at("verify")
                differs = pattern.differs(chunk, start)
                wrong = int(differs.sum())
                if wrong:
                    rank.found_wrong(rank.iteration, wrong, [rank.number], False)
                    rank.facts.setdefault("wrong_in",
                                          "%s, %s" % (name, first_wrong(pattern, chunk, start, differs)))
            spent.checked()
            verified += 1
    rank.figures.update(
        {"memory_gb_s": 16.0 * verified * sum(map(len, chunks)) / (spent.work_s + spent.check_s) / 1e9,
         "verified": float(verified), "check_share": spent.share})


def first_wrong(pattern: MemoryPattern, chunk: Any, start: int, differs: Any) -> str:
    """The first wrong word and its wrong bits."""
    first = int(differs.nonzero()[0])
    return "word %d, bits %#x" % (start + first,
                                  (int(chunk[first]) ^ pattern.word(chunk, start, first)) & WORD_MASK)
