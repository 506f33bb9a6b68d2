"""Patterns over most of the device's memory: written, held, read back. Python 3.8.

Words are 64 bits, so that each of them can hold its own address. The patterns: 0x55.. and 0xAA.., the address and its complement, random by
seed, and a single one that walks through the word.
"""

from __future__ import annotations

import time
from typing import Any, Callable

CHUNK = 1 << 25         # words (256 MiB): what a comparison needs beside the memory under test
LEAST = 1 << 17         # words (1 MiB): less is left free


def patterns(torch: Any, device: str, seed: int, walks: int, turn: int) -> dict[str, Callable[[int, int], Any]]:
    """Each pattern by name: a function of (first word's number, words) to what belongs there."""

    def constant(value: int) -> Callable[[int, int], Any]:
        return lambda at, words: torch.full((words,), value, dtype=torch.int64, device=device)

    def address(at: int, words: int) -> Any:
        return torch.arange(at, at + words, dtype=torch.int64, device=device)

    def chance(at: int, words: int) -> Any:
        maker = torch.Generator(device=device).manual_seed(seed + at + (turn << 48))
        return torch.randint(-(1 << 63), (1 << 63) - 1, (words,), generator=maker, dtype=torch.int64, device=device)

    def walking(step: int) -> Callable[[int, int], Any]:
        ones = torch.tensor([1 << bit if bit < 63 else -(1 << 63) for bit in range(64)], dtype=torch.int64, device=device)
        return lambda at, words: ones[(torch.arange(words, device=device) + at + step) % 64]

    made = {"0x55": constant(0x5555555555555555), "0xaa": constant(~0x5555555555555555), "address": address,
            "~address": lambda at, words: ~address(at, words), "random": chance}
    for walk in range(min(walks, 64)):
        # A prime's multiples: all 64 turns come up, and neighbouring passes are far apart.
        made["walking+%d" % ((walk * 37 + turn) % 64)] = walking(walk * 37 + turn)
    return made


def chunks_of(rank: Any, device: Any) -> list[Any]:
    """The memory under test, in pieces, as much as was asked for and can be had; says what share of the device it is."""
    torch, params = device.torch, rank.params
    free, whole = device.free_bytes()
    if not params["bytes"] and not whole:
        raise ValueError("bytes is 0, expected how much memory to go over: there is no GPU")
    # What a comparison needs beside it: the expected words, what differs, and the generator's.
    room = max(0, free - 4 * CHUNK * 8) if free else 0
    left = (params["bytes"] or min(int(free * params["share"]), room)) // 8
    chunks = []
    while left >= min(LEAST, left or 1) and left:
        size = min(CHUNK, left)
        try:
            chunks.append(torch.empty(size, dtype=torch.int64, device=device.at))
        except RuntimeError:    # torch.cuda.OutOfMemoryError is one: memory is fragmented, or somebody else's
            if not chunks:
                raise
            break
        left -= size
        rank.at("setup")
    covered = 8 * sum(map(len, chunks))
    rank.facts["memory_bytes"] = str(covered)
    if whole:
        rank.figures["memory_share"] = covered / whole
    return chunks


def memory_patterns(rank: Any, device: Any) -> None:
    """All patterns over the memory, so often; each word that is not what was written counts, and the first one is told."""
    torch, params = device.torch, rank.params
    rank.pause(params["ramp_s"] * rank.number / rank.world)
    chunks = chunks_of(rank, device)
    moved = 0
    took = 0.0
    verified = 0
    for turn in range(max(1, params["passes"])):
        for name, made in patterns(torch, device.at, params["seed"], params["walks"], turn).items():
            rank.at("compute", rank.iteration + 1)
            began = time.perf_counter()
            at = 0
            for chunk in chunks:
                chunk.copy_(made(at, len(chunk)))
                at += len(chunk)
                rank.at("compute")
            device.wait()
            took += time.perf_counter() - began
            rank.pause(params["dwell_s"])
            rank.at("verify")
            began = time.perf_counter()
            at = 0
            for chunk in chunks:
                expected = made(at, len(chunk))
                differs = chunk != expected
                wrong = int(differs.sum())
                if wrong:
                    first = int(differs.nonzero()[0])
                    bits = (int(chunk[first]) ^ int(expected[first])) & ((1 << 64) - 1)
                    rank.found_wrong(rank.iteration, wrong, [rank.number], False)
                    rank.facts.setdefault("wrong_in", "%s, word %d, bits %#x" % (name, at + first, bits))
                at += len(chunk)
                rank.at("verify")
            took += time.perf_counter() - began
            moved += 2 * 8 * at
            verified += 1
    rank.figures["memory_gb_s"] = moved / took / 1e9
    rank.figures["verified"] = float(verified)
