"""Owner-coded data and known products in a Python with PyTorch; the sampler with the demo's NVML."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from healthcheck.burnin.onnode.ras import ras
from provisioning.demo.build import build
from tests.testbed import badgpu, torches
from tests.testbed.require import require_fleet

ROOT = Path(__file__).resolve().parents[3]

OWNERS = """
import json, random, torch
from healthcheck.burnin.onnode.data import OwnerCoded, Tiles, owned
random.seed(7)
cases, set_bits = 0, {torch.float32: 0, torch.float16: 0, torch.bfloat16: 0}
for _ in range(40):
    world = random.choice([1, 2, 3, 5, 7, 8, 13, 19, 64, 100, 5000])
    dtype = random.choice(list(set_bits))
    turn = random.randrange(1 << 20)
    elements = random.choice([1, 10, 4096, 30000])
    some = list(range(world))
    if world > 64:
        some = sorted({0, world - 1, *random.sample(range(world), 6)})
    tiles = Tiles(torch, world, elements, "cpu", dtype)
    ranks = {rank: OwnerCoded(tiles, rank) for rank in some}
    one = ranks[0]
    assert tiles.count % tiles.tile == 0 == tiles.tile % world
    assert tiles.count >= min(elements * 0.998, elements - world)
    parts = {}
    for rank, data in ranks.items():
        parts[rank] = torch.full((tiles.count,), float("nan"), dtype=dtype)
        tiles.fill(parts[rank], data.own(turn), turn)
        assert tiles.differs(parts[rank], data.own(turn), turn) == (0, [])
        owners = data.owners(turn).repeat(tiles.rows)
        assert torch.equal(parts[rank] != 0, owners == rank)
        assert torch.isfinite(parts[rank]).all()
    whole = tiles.empty()
    tiles.fill(whole, one.whole(turn), turn)
    mantissa = whole.view(torch.int32 if dtype == torch.float32 else torch.int16).tolist()
    for bits in mantissa:
        set_bits[dtype] |= bits
    if len(ranks) == world:
        assert torch.equal(sum(parts.values()), whole)
    # One wrong element, whatever it is, names its owner.
    at = random.randrange(tiles.count)
    owner = int(one.owners(turn)[at % tiles.tile])
    for value in (0.0, float("nan"), float(whole[at]) * 2, -float(whole[at])):
        bad = whole.clone()
        bad[at] = value
        count, places = tiles.differs(bad, one.whole(turn), turn)
        assert (count, list(owned(one, places, turn))) == (1, [[at, owner]]), (world, dtype, turn, at, value)
    # Another turn's data, and rows in the wrong place, are wrong.
    assert tiles.differs(whole, one.whole(turn + 1), turn + 1)[0] > 0
    if tiles.rows > 1:
        assert tiles.differs(whole.view(tiles.rows, -1).flip(0).reshape(-1), one.whole(turn), turn)[0] > 0
    # In as many turns as there are ranks each of them has had each place once.
    first = turn // world * world
    if world <= 100:
        assert {one.owner(at, each) for each in range(first, first + world)} == set(range(world))
    cases += 1
for dtype, bits in ((torch.float32, 0x7FFFFF), (torch.float16, 0x3FF), (torch.bfloat16, 0x7F)):
    assert set_bits[dtype] & bits == bits
tiles = Tiles(torch, 3, 40000, "cpu", torch.float32)
tiles.step = 1      # compared in more than one piece
data, whole = OwnerCoded(tiles, 0), tiles.empty()
tiles.fill(whole, data.whole(5), 5)
whole[0] = whole[-1] = whole[20000] = 0
assert tiles.differs(whole, data.whole(5), 5) == (3, [0, 20000, tiles.count - 1])
# A part of the whole is known by its first row.
assert tiles.differs(whole[tiles.tile:3 * tiles.tile], data.whole(5), 5, first=1) == (0, [])
assert tiles.differs(whole[tiles.tile:3 * tiles.tile], data.whole(5), 5, first=2)[0] > 0
print(json.dumps(cases))
"""

SUMS = """
import json, random, torch
from fractions import Fraction
from healthcheck.burnin.onnode.data import BITS, PATTERNS, OwnerCoded, Summed, Tiles, chain_bits
from tests.testbed.badgpu import ADDERS, added
random.seed(11)
found = dict.fromkeys(ADDERS, 0)
cases = 0
for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int32, torch.int64):
    bits = BITS.get(str(dtype).partition(".")[2])
    for world in (2, 3, 5, 8, 13, 96):
        turn = random.randrange(1 << 16)
        tiles = Tiles(torch, world, 2048, "cpu", dtype, rows=16)
        data = [Summed(tiles, rank) for rank in range(world)]
        parts = [tiles.empty() for _ in range(world)]
        for part, each in zip(parts, data):
            tiles.fill(part, each.own(turn), turn)
        right = data[0].whole(turn)
        assert all(torch.equal(each.whole(turn), right) for each in data[:3])
        contributors = sum((part != 0).long() for part in parts)
        most = min(world, 1 << (bits - 2) if bits else world)
        assert int(contributors.min()) == int(contributors.max()) == most
        for _ in range(4):
            # Any order, and any way of adding up parts of it first.
            left = random.sample(parts, world)
            while len(left) > 1:
                left.append(left.pop(random.randrange(len(left))) + left.pop(random.randrange(len(left))))
            assert tiles.differs(left[0], right, turn) == (0, []), (dtype, world)
        if bits:
            for at in range(4):
                assert Fraction(float(left[0][at])) == sum(Fraction(float(part[at])) for part in parts)
            # The largest sum of any subset is still exact: whole numbers of one unit, below 2^bits of it.
            total = sum(part.abs().double() for part in parts)
            assert float(total.div(tiles.powers.double().max()).max()) <= 2.0 ** bits
            whole = tiles.empty()
            tiles.fill(whole, right, turn)
            assert bool((whole < 0).any()) and bool((whole > 0).any())
        for kind in ADDERS if bits else ():
            if world <= 13:
                assert tiles.differs(added(torch, parts, kind), right, turn)[0] > 0, (kind, dtype, world)
                found[kind] += 1
        spared = next(rank for rank in range(world) if bool((parts[rank] != 0).any()))
        others = sum(part for rank, part in enumerate(parts) if rank != spared)
        assert tiles.differs(others, right, turn)[0] > 0
        cases += 1
# Every bit that the type has is set in some sum, and clear in another.
for dtype, width, words in (
        (torch.float32, 23, torch.int32), (torch.float16, 10, torch.int16), (torch.bfloat16, 7, torch.int16),
        (torch.int32, 32, torch.int32), (torch.int64, 64, torch.int64)):
    tiles = Tiles(torch, 8, 1 << 13, "cpu", dtype, rows=16)
    data, buffer = Summed(tiles, 0), tiles.empty()
    ones, zeros = 0, 0
    for turn in range(PATTERNS):
        tiles.fill(buffer, data.whole(turn), turn)
        for bits in buffer.view(words)[buffer != 0].tolist():
            ones, zeros = ones | bits, zeros | ~bits
    mask = (1 << width) - 1
    if dtype in (torch.int32, torch.int64):
        mask -= 1       # sums of eight odd numbers are even
    assert ones & mask == zeros & mask == mask, (dtype, bin(ones & mask), bin(zeros & mask))
# Sums of sums: as often as is allowed, every partial sum of equal numbers is exact.
for world in (2, 3, 6, 8, 24, 48):
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        tiles = Tiles(torch, world, 1024, "cpu", dtype, rows=4)
        length = max(each for each in range(1, 33) if chain_bits(tiles, each) is not None)
        assert dtype is not torch.float16 or length == 1
        for form in (OwnerCoded, Summed):
            data = form(tiles, 0, chain_bits(tiles, length))
            value = data.whole(3)
            for _ in range(length - 1):
                total, exact = torch.zeros_like(value), [Fraction(float(each)) for each in value[:8]]
                for number in range(1, world + 1):
                    total = total + value
                    sums = [Fraction(float(each)) for each in total[:8]]
                    assert sums == [number * each for each in exact], (world, dtype, length)
                value = total
            assert bool(torch.isfinite(value).all())
assert chain_bits(Tiles(torch, 8, 1024, "cpu", torch.float32), 10) == 21
assert chain_bits(Tiles(torch, 48, 1024, "cpu", torch.float32), 9) is None
print(json.dumps([cases, found]))
"""

PRODUCTS = """
import json, torch
from healthcheck.burnin.onnode.gemm import checksum, known_blocks, known_factors
for n in (64, 128, 192, 256):
    for seed in range(1, 4):
        *blocks, block = known_blocks(torch, n // 64, seed)
        a, b = known_factors(*blocks, "cpu")
        assert int(a.abs().max()) == 2 and int(b.abs().max()) == 2
        exact = a.to(torch.int64) @ b.to(torch.int64)
        assert torch.equal(exact, block.repeat(n // 64, n // 64))
        for dtype in (torch.float64, torch.float32, torch.bfloat16, torch.float16):
            assert torch.equal(exact.to(dtype).to(torch.int64), exact), (n, seed, dtype)
            assert torch.equal((a.to(dtype) @ b.to(dtype)).to(torch.int64), exact), (n, seed, dtype)
        if hasattr(torch, "float8_e4m3fn"):
            assert torch.equal(a.to(torch.float8_e4m3fn).to(torch.int8), a)
# Every bit counts, and so does every place.
plain = torch.randn(32, 32)
sums = checksum(torch, plain)
for bit in range(32):
    bad = plain.clone()
    bad.view(torch.int32)[5, 7] ^= (1 << bit) if bit < 31 else -(1 << 31)
    assert checksum(torch, bad) != sums, bit
swapped = plain.clone()
swapped[3, 4], swapped[4, 3] = plain[4, 3].clone(), plain[3, 4].clone()
assert checksum(torch, swapped)[0] == sums[0] and checksum(torch, swapped)[1] != sums[1]
moved = plain.clone()
moved[3, 4], moved[9, 9] = plain[9, 9].clone(), plain[3, 4].clone()
assert checksum(torch, moved) != sums
print(json.dumps("fine"))
"""

MEMORY = """
import json, random, torch
from healthcheck.burnin.onnode.memory import patterns
random.seed(3)
wrong = 0
bits = torch.zeros(64, dtype=torch.int64)
for turn in range(3):
    seen = {}
    for name, pattern in patterns(torch, "cpu", 1, 64, turn).items():
        chunks = [torch.empty(128, dtype=torch.int64), torch.empty(64, dtype=torch.int64)]
        for start, chunk in zip((0, 128), chunks):
            pattern.write(chunk, start)
        for start, chunk in zip((0, 128), chunks):
            assert not pattern.differs(chunk, start).any(), name
            assert [pattern.word(chunk, start, at) for at in (0, 17, 63)] == chunk[[0, 17, 63]].tolist(), name
            for bit in random.sample(range(64), 8):
                at = random.randrange(len(chunk))
                chunk[at] ^= (1 << bit) if bit < 63 else -(1 << 63)
                assert pattern.differs(chunk, start).nonzero().tolist() == [[at]], (name, bit)
                chunk[at] ^= (1 << bit) if bit < 63 else -(1 << 63)
        seen[name] = chunks
    assert len(seen) == 5 + 64
    walked = torch.stack([chunks[0] for name, chunks in seen.items() if name.startswith("walking")])
    assert all(len(set(column)) == 64 for column in walked.t().tolist())    # each word has had each bit
    assert torch.equal(seen["address"][1], torch.arange(128, 192))
    assert torch.equal(seen["~address"][1], ~torch.arange(128, 192))
    assert len(set(seen["random"][0].tolist())) == 128
print(json.dumps("fine"))
"""

SAMPLES = """
import json, sys, time
from healthcheck.burnin.onnode.sample import Sampler
sampler = Sampler(sys.argv[1], sys.argv[2])
sampler.start()
end = time.monotonic() + 20
while not (sampler.bits_seen or sampler.facts.get("sampling")) and time.monotonic() < end:
    time.sleep(0.01)
print(json.dumps([sampler.figures(), sampler.facts]))
"""


def ran(python: tuple[str, ...], script: str, *words: str, **environment: str) -> Any:
    done = subprocess.run([*python, "-c", script, *words], cwd=ROOT,
                          env={"PATH": "/usr/bin:/bin", "OMP_NUM_THREADS": "1", **environment},
                          capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


def test_every_element_has_one_owner_all_its_bits_are_used_and_a_wrong_one_names_it() -> None:
    assert ran(torches.forked(), OWNERS) == 40


def test_sums_are_exact_in_every_order_and_wrong_adders_give_others() -> None:
    cases, found = ran(torches.forked(), SUMS)
    assert cases == 30 and found == dict.fromkeys(badgpu.ADDERS, 15)


def test_a_known_product_is_exact_in_every_type_and_its_checksum_sees_every_bit() -> None:
    assert ran(torches.forked(), PRODUCTS) == "fine"


def test_each_pattern_of_memory_sees_every_bit_of_every_word() -> None:
    assert ran(torches.forked(), MEMORY) == "fine"


UUID = "GPU-00000000-0000-4000-8000-000000000003"


def sampled(tmp_path: Path, uuid: str, *lines: str) -> tuple[dict[str, float], dict[str, str]]:
    require_fleet()
    (tmp_path / "scenario").write_text("".join(line + "\n" for line in lines))
    figures, facts = ran((sys.executable,), SAMPLES, uuid, str(build().nvml),
                         MUSTER_NVML_SCENARIO=str(tmp_path / "scenario"))
    return figures, facts


def test_clock_power_temperature_and_throttle_reasons_are_sampled_through_nvml(tmp_path: Path) -> None:
    figures, facts = sampled(tmp_path, UUID, "gpu.3.clocks.reasons = 72", "gpu.2.clocks.reasons = 1",
                             "gpu.3.power.usage = 691000")
    assert (figures["clock_mhz"], figures["power_w"], figures["throttle_bits"]) == (1980, 691, 72)
    assert 10 < figures["temperature_c"] < 110
    assert facts["driver"] and facts["serial"] == "1650000000003" and facts["power_limit_w"] == "700"


def test_what_a_gpu_does_not_tell_is_not_made_up(tmp_path: Path) -> None:
    figures, facts = sampled(tmp_path, UUID, "gpu.3.power.usage = unsupported",
                             "gpu.3.power.limit.enforced = unsupported")
    assert set(figures) == {"clock_mhz", "temperature_c", "throttle_bits"}
    assert "power_limit_w" not in facts


def test_a_gpu_that_nvml_does_not_know_is_not_sampled_and_that_is_reported(tmp_path: Path) -> None:
    figures, facts = sampled(tmp_path, "GPU-none")
    assert figures == {}
    assert facts["sampling"].startswith("not sampled: NVML error")


def test_without_nvml_nothing_is_sampled_and_that_is_reported() -> None:
    figures, facts = ran((sys.executable,), SAMPLES, UUID, "libnvidia-ml-missing.so.1")
    assert figures == {}
    assert facts["sampling"].startswith("not sampled: ")


@pytest.mark.parametrize(("entries", "said"), [
    ([], ""), ([{"collective_seq_id": 7, "profiling_name": "nccl:all_reduce", "state": "started"}],
               "7 nccl:all_reduce started"),
])
def test_the_flight_recorder_is_reported_in_one_line(monkeypatch: pytest.MonkeyPatch, entries: list[Any],
                                                 said: str) -> None:
    from types import SimpleNamespace

    from healthcheck.burnin.onnode.flight import flight
    dump = SimpleNamespace(_dump_fr_trace_json=lambda: json.dumps({"entries": entries}))
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=SimpleNamespace(_distributed_c10d=dump)))
    assert flight() == said


def test_nccl_is_asked_which_ranks_are_missing_and_only_what_tells_something_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        asked: list[bytes] = []

        def serve() -> None:
            sock, _ = server.accept()
            with sock:
                asked.append(sock.recv(4096))
                sock.sendall(b"OK\n")
                asked.append(sock.recv(4096))
                sock.sendall(
                    b"NCCL version 2.27.3\nErrors\n======\n\nINCOMPLETE\n  Missing communicator data\n"
                    b"  Rank 4 -- GPU 0   on gpu003 \x1b[1m\n")

        thread = threading.Thread(target=serve)
        thread.start()
        monkeypatch.setenv("NCCL_RAS_ADDR", f"localhost:{server.getsockname()[1]}")
        assert ras() == "Errors; INCOMPLETE; Missing communicator data; Rank 4 -- GPU 0 on gpu003 \x1b[1m"
        thread.join()
        assert asked == [b"TIMEOUT 1\n", b"STATUS\n"]


def test_where_nccl_does_not_answer_nothing_is_reported_and_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NCCL_RAS_ADDR", "127.0.0.1:no-port")
    assert ras() == ""
    with socket.create_server(("127.0.0.1", 0)) as server:
        monkeypatch.setenv("NCCL_RAS_ADDR", f"127.0.0.1:{server.getsockname()[1]}")
        began = time.monotonic()
        assert ras(0.2) == ""
        assert time.monotonic() - began < 5
