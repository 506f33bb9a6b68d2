"""Matrix products: with a known result, equal bit by bit, and as fast as possible. Python 3.8.

The known matrices are blocks of a small one, A = s x a and B = b, repeated over the whole: C is then (the sum
of the signs s) times a.b, which the CPU computes in whole numbers, so that nothing of the device takes part
in its own judgement. Entries are -2..2 and |a.b| <= 256, so each element is exact with fp64, fp32, TF32,
fp16, bf16 and fp8 (e4m3) factors and in fp32, fp16 and bf16 results, however the sum is split.
"""

from __future__ import annotations

import time
from typing import Any

from healthcheck.burnin.onnode.device import DTYPES
from healthcheck.burnin.onnode.times import Spent

BLOCK = 64
MASK = (1 << 64) - 1
WHOLE = {8: "int64", 4: "int32", 2: "int16"}


class Gemm:
    """Products in one precision; fp8 uses torch._scaled_mm, whose result is bf16."""

    def __init__(self, device: Any, precision: str) -> None:
        torch = self.torch = device.torch
        self.device, self.precision = device, precision
        self.dtype = getattr(torch, DTYPES[precision])
        self.result = torch.bfloat16 if precision == "fp8" else self.dtype
        if device.cuda:
            torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"

    def ready(self, left: Any, right: Any) -> tuple[Any, Any]:
        """Both factors on the device, in its precision; fp8 wants the second one by columns."""
        left, right = (factor.to(self.device.at).to(self.dtype) for factor in (left, right))
        return left, right.t().contiguous().t() if self.precision == "fp8" else right

    def product(self, left: Any, right: Any, out: Any) -> Any:
        """left x right, in `out` where the library can."""
        if self.precision == "fp8":
            one = self.torch.ones((), device=self.device.at)
            return self.torch._scaled_mm(left, right, scale_a=one, scale_b=one, out_dtype=self.result)
        return self.torch.mm(left, right, out=out)

    def room(self, n: int) -> Any:
        """Room for a result."""
        return self.torch.empty((n, n), dtype=self.result, device=self.device.at)


def checksum(torch: Any, result: Any) -> tuple[int, int]:
    """Two sums over a result's bits, one weighted by place: changes that cancel in one show in the other."""
    bits = result.view(getattr(torch, WHOLE[result.element_size()]))
    total = weighted = 0
    # An element's weight is its row + 65537 x its column: unique for up to that many rows.
    for dim, step in ((1, 1), (0, 65537)):
        sums = bits.sum(dim=dim, dtype=torch.int64)
        weighted += step * int((sums * torch.arange(1, len(sums) + 1, device=sums.device)).sum())
        total = int(sums.sum())
    return total & MASK, weighted & MASK


def as_text(sums: tuple[int, int]) -> str:
    """A checksum as text for reports."""
    return "%016x:%016x" % sums


def known_blocks(torch: Any, times: int, seed: int) -> tuple[Any, Any, Any, Any]:
    """Signs of A's blocks, the blocks of A and B (int8), and the block that C = A.B repeats (int64)."""
    maker = torch.Generator().manual_seed(seed)
    a, b = (torch.randint(-2, 3, (BLOCK, BLOCK), generator=maker, dtype=torch.int64) for _ in range(2))
    # One more plus than minus for an odd number of blocks, two more for an even one: the rest is exact in
    # bf16 too.
    signs = torch.ones(times, dtype=torch.int64)
    signs[torch.randperm(times, generator=maker)[:(times - 1) // 2]] = -1
    return signs.to(torch.int8), a.to(torch.int8), b.to(torch.int8), int(signs.sum()) * (a @ b)


def known_factors(signs: Any, a: Any, b: Any, device: str) -> tuple[Any, Any]:
    """A and B (int8), expanded on the device: the CPU would take longer than the GPU's product."""
    times = len(signs)
    signs, a, b = (part.to(device) for part in (signs, a, b))
    return signs.repeat_interleave(BLOCK).unsqueeze(0) * a.repeat(times, times), b.repeat(times, times)


def each_precision(rank: Any, device: Any) -> Any:
    """The precisions to run; reports those that are left out."""
    have, without = device.precisions(rank.params["precisions"])
    rank.facts["precisions"] = ",".join(have)
    rank.facts["without"] = "; ".join("%s: %s" % pair for pair in without.items())
    if not have:
        raise ValueError("none of the precisions %s is available" % rank.params["precisions"])
    # The ranks begin and end one after the other: power rises and falls in steps.
    rank.pause(rank.params["ramp_s"] * rank.number / rank.world)
    return have


def gemm_known(rank: Any, device: Any) -> None:
    """Products with a known result for every element, in each precision."""
    torch, n = device.torch, rank.params["n"]
    if n % BLOCK or not n:
        raise ValueError("n is %d, expected a multiple of %d" % (n, BLOCK))
    precisions = each_precision(rank, device)
    verified, spent = 0, Spent()
    for precision in precisions:
        gemm = Gemm(device, precision)
        end = time.monotonic() + rank.params["run_s"] / len(precisions)
        done = 0
        while done < max(1, rank.params["repeats"]) or time.monotonic() < end:
            if done % 16 == 0:
                signs, a, b, block = known_blocks(torch, n // BLOCK, done // 16 + 1)
                left, right = gemm.ready(*known_factors(signs, a, b, device.at))
                expected, out = block.to(device.at).to(gemm.result), gemm.room(n)
            rank.at("compute", rank.iteration + 1)
            spent.begin()
            result = gemm.product(left, right, out)
            device.wait()
            spent.worked()
            rank.at("verify")
            # Compares block by block, without a second matrix of full size.
            view = result.view(n // BLOCK, BLOCK, n // BLOCK, BLOCK)
            wrong = int((view != expected.view(1, BLOCK, 1, BLOCK)).sum())
            if wrong:
                rank.found_wrong(rank.iteration, wrong, [rank.number], False)
                rank.facts.setdefault("wrong_in", precision)
            if done == 0:
                rank.checksums["known_%s_%d" % (precision, n)] = as_text(checksum(torch, result))
            spent.checked()
            done += 1
            verified += 1
    rank.figures.update({"verified": float(verified), "check_share": spent.share})


def gemm_random(rank: Any, device: Any) -> None:
    """Products of random floats: the same bits every time, and the same checksums among equals."""
    torch, n = device.torch, rank.params["n"]
    maker = torch.Generator().manual_seed(int(rank.params["seed"]))
    factors = [torch.randn((n, n), generator=maker, dtype=torch.float32) for _ in range(2)]
    precisions = each_precision(rank, device)
    verified, spent = 0, Spent()
    for precision in precisions:
        gemm = Gemm(device, precision)
        left, right = gemm.ready(*factors)
        out = gemm.room(n)
        first = gemm.product(left, right, gemm.room(n))
        sums = checksum(torch, first)
        rank.checksums["random_%s_%d_%d" % (precision, n, rank.params["seed"])] = as_text(sums)
        end = time.monotonic() + rank.params["run_s"] / len(precisions)
        done = 0
        while done < max(1, rank.params["repeats"]) or time.monotonic() < end:
            rank.at("compute", rank.iteration + 1)
            spent.begin()
            result = gemm.product(left, right, out)
            device.wait()
            spent.worked()
            rank.at("verify")
            whole = getattr(torch, WHOLE[result.element_size()])
            # By bits: NaN would differ from itself, and -0 not from 0.
            wrong = int((result.view(whole) != first.view(whole)).sum())
            if wrong:
                rank.found_wrong(rank.iteration, wrong, [rank.number], False)
                rank.facts.setdefault("wrong_in", precision)
            spent.checked()
            done += 1
            verified += 1
        # It stayed in memory all the time, which may have changed it too.
        if checksum(torch, first) != sums:
            rank.found_wrong(rank.iteration, 1, [rank.number], False)
    rank.figures.update({"verified": float(verified), "check_share": spent.share})


def gemm_rate(rank: Any, device: Any) -> None:
    """Operations a second in each precision: 2 n^3 a product."""
    torch, n = device.torch, rank.params["n"]
    precisions = each_precision(rank, device)
    factors = [torch.randn((n, n), dtype=torch.float32, device=device.at) for _ in range(2)]
    for position, precision in enumerate(precisions):
        gemm = Gemm(device, precision)
        left, right = gemm.ready(*factors)
        out = gemm.room(n)
        pace = timed_products(rank, gemm, left, right, out, 1)
        if position == 0 and rank.params["warm_s"]:
            timed_products(rank, gemm, left, right, out, max(1, int(rank.params["warm_s"] / pace)))
        pace = timed_products(rank, gemm, left, right, out, 3)
        best = timed_products(rank, gemm, left, right, out, max(3, int(rank.params["run_s"] / pace)))
        rank.figures["tflops_" + precision] = 2.0 * n ** 3 / best / 1e12


def timed_products(rank: Any, gemm: Gemm, left: Any, right: Any, out: Any, count: int) -> float:
    """The average seconds of one product; the device runs ahead and is waited for some times a second."""
    batch = 1
    done = 0
    began = time.perf_counter()
    while done < count:
        rank.at("compute", rank.iteration + 1)
        before = time.perf_counter()
        for _ in range(min(batch, count - done)):
            gemm.product(left, right, out)
        gemm.device.wait()
        done += min(batch, count - done)
        if time.perf_counter() - before < 0.1:
            batch *= 2
    return max(1e-9, (time.perf_counter() - began) / count)
