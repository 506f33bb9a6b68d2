"""Facts with a cache are those without: for every recording that there is, in whatever order they come, and
whatever is changed in one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from operator import is_
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.cache import FactCache, content_of
from healthcheck.facts.imex import DOMAIN, PATH
from healthcheck.facts.limits import CACHE_ENTRY, CACHED_CAPTURE
from healthcheck.facts.values import Fact, readings
from healthcheck.kernellog.fold import LazyDigest
from healthcheck.model.recording import SCHEMA, Capture, FileCapture, Outcome, Recording, read
from healthcheck.ruleset import plugins
from tests.healthcheck import machine
from tests.tries import tries

plugins.load()      # so that all facts are known, whatever rules are kept parsed
RECORDINGS = Path(__file__).resolve().parents[2] / "recordings"


def recorded() -> Iterator[Recording]:
    """Every reached node below tests/recordings."""
    for path in sorted(RECORDINGS.rglob("*.json")):
        data = path.read_bytes()
        if f'"schema":"{SCHEMA}"' in data.decode().replace(" ", ""):
            recording = read(data)
            if recording.host is not None:
                yield recording


def plain(value: Any) -> Any:
    """What is in a value, with the type of each part: NaN is equal to nothing, and 1 to True."""
    if isinstance(value, LazyDigest):
        return plain(value.messages)
    if isinstance(value, (tuple, list)):
        return [type(value), *map(plain, value)]
    if isinstance(value, (frozenset, Mapping)):
        return type(value), sorted(repr(plain(one))
                                   for one in (value.items() if isinstance(value, Mapping) else value))
    if isinstance(value, Fact):
        return type(value), {name: plain(held) for name, held in readings(value).items()}
    if is_dataclass(value):
        return type(value), {name: plain(held) for name, held in vars(value).items()
                             if name in {field.name for field in fields(value)}}
    return type(value), repr(value)


def facts(recording: Recording, cache: FactCache | None) -> dict[str, Any]:
    """All facts, as `plain`."""
    captures = Captures(recording, cache)
    return {name: plain(build_fact(spec, captures)) for name, spec in FACTS.items()}


def meet(recording: Recording, cache: FactCache) -> None:
    """All facts are made of it, or found in the cache."""
    captures = Captures(recording, cache)
    for spec in FACTS.values():
        build_fact(spec, captures)


def test_for_every_recording_facts_are_the_same_with_the_cache_and_without() -> None:
    cache, number = FactCache(), 0
    for recording in recorded():
        number += 1
        alone = facts(recording, None)
        assert facts(recording, cache) == alone
        assert facts(recording, cache) == alone     # now that it was met
    assert number > 3


HEALTHY = machine.recording()
PROBES = sorted(HEALTHY.captures)
OTHER = str.maketrans("0123456789", "1234567890")


def changed(capture: Capture, how: str, at: int) -> Capture:
    files = dict(capture.files)
    if files and how in ("text", "file", "lost"):
        path = sorted(files)[at % len(files)]
        entry = files.pop(path)
        if how != "lost":
            files[path] = (FileCapture(Outcome.DENIED, "")
                           if how == "file" else FileCapture(entry.outcome, entry.text.translate(OTHER)))
        return replace(capture, files=files)
    changes: dict[str, dict[str, Any]] = {
        "text": {"text": capture.text.translate(OTHER)}, "exit": {"exit": at % 256},
        "stderr": {"stderr": "permission denied"}, "note": {"note": "x"},
        "slow": {"outcome": Outcome.TIMEOUT, "seconds": at / 10},
        "outcome": {"outcome": list(Outcome)[at % len(Outcome)]},
        "order": {"files": dict(sorted(files.items(), reverse=at % 2 == 0))},
    }
    return replace(capture, **changes.get(how, {"text": capture.text[:at]}))


WAYS = st.sampled_from(["text", "file", "lost", "exit", "stderr", "note", "slow", "outcome", "order", "cut"])


@settings(max_examples=tries(25), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(PROBES), WAYS, st.integers(0, 300)), min_size=1, max_size=3))
def test_a_node_of_which_something_else_was_captured_has_its_own_facts(
    changes: list[tuple[str, str, int]],
) -> None:
    cache = FactCache()
    seen = HEALTHY
    for probe, how, at in changes:
        seen = replace(seen, captures={**seen.captures, probe: changed(seen.captures[probe], how, at)})
        meet(HEALTHY, cache)
        assert facts(seen, cache) == facts(seen, None)


def test_how_long_a_probe_took_and_how_many_bytes_it_brought_make_no_other_fact() -> None:
    other = replace(HEALTHY, captures={name: replace(held, seconds=held.seconds + 0.5, bytes=held.bytes + 1)
                                       for name, held in HEALTHY.captures.items()})
    assert facts(other, None) == facts(HEALTHY, None)


def test_what_was_met_before_is_the_very_same_fact_and_is_not_made_again() -> None:
    cache = FactCache()
    first, second = (build_fact(FACTS["hcas"], Captures(machine.recording(node), cache))
                     for node in ("n1", "n2"))
    assert first is second and first is not build_fact(FACTS["hcas"], Captures(HEALTHY))


def test_equal_links_and_counters_of_several_nodes_share_their_facts_although_the_rest_differs() -> None:
    cache = FactCache()
    warm = machine.recording("n2", gpu_nvml=machine.nvml(gpu3={"temperature_c": {"ok": 71}}))
    for name in ("nvlinks", "nvlink_errors", "nvlink5_errors", "gpu_pairs", "port_rate_counters"):
        first, second = (build_fact(FACTS[name], Captures(recording, cache)) for recording in (HEALTHY, warm))
        assert len(first) == len(second) > 1 and all(map(is_, first, second)), name


LINK = [1, 7, 26562, 2, "0000:05:00.0", 0, 0, 0, 0, 0]


@settings(max_examples=tries(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 17), st.integers(0, 9),
                          st.sampled_from([0, 1, True, False, 1.0, -3, -15, None, "1", [1], {}])),
                min_size=1, max_size=4))
def test_links_that_python_calls_equal_and_that_are_not_share_no_fact(
    changes: list[tuple[int, int, Any]],
) -> None:
    cache = FactCache()
    recordings = []
    for number in range(len(changes) + 1):
        rows = {f"link{link}": [*LINK[:place], value, *LINK[place + 1:]]
                for link, place, value in changes[:number]}
        recordings.append(machine.recording(gpu_nvml=machine.nvml(gpu2={"nvlinks": machine.nvlinks(**rows)})))
    names = ("gpu_links", "nvlinks", "nvlink_errors", "nvlink5_errors")
    alone = [[plain(build_fact(FACTS[name], Captures(seen))) for name in names] for seen in recordings]
    for _ in range(2):
        for seen, own in zip(recordings, alone, strict=True):
            assert [plain(build_fact(FACTS[name], Captures(seen, cache))) for name in names] == own


def test_only_facts_that_say_so_depend_on_more_than_captures(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("host", "node", "received"):
        monkeypatch.setattr(Captures, name, property(lambda self, name=name: asked.append(name)
                                                     or getattr(self._recording, name)))
    silent = replace(HEALTHY,
                     captures={name: replace(held, text="") for name, held in HEALTHY.captures.items()})
    of_snapshot = set()
    of_a_domain = replace(HEALTHY, captures={**HEALTHY.captures, DOMAIN.id: Capture(Outcome.DONE, files={
        PATH: FileCapture(Outcome.DONE, 'exit 0\n{"status": "UP", "nodes": {}}')})})
    for recording in (HEALTHY, silent, of_a_domain):
        for name, spec in FACTS.items():
            asked.clear()
            build_fact(spec, Captures(recording))
            of_snapshot |= {name} if asked else set()
    assert of_snapshot == {name for name, spec in FACTS.items() if spec.of_snapshot} == {
        "bmc_log", "nvlink_fabric_log", "host_name", "snapshot_time", "imex_domain"}


def test_a_fact_of_the_snapshot_is_each_snapshots_own() -> None:
    cache = FactCache()
    assert [build_fact(FACTS["host_name"], Captures(machine.recording(node), cache)).inventory
            for node in ("n1", "n2")] == ["n1", "n2"]


def test_what_is_raised_is_not_kept() -> None:
    cache, made = FactCache(), [0]

    def make() -> int:
        made[0] += 1
        if made[0] == 1:
            raise ValueError("first")
        return made[0]

    with pytest.raises(ValueError, match="first"):
        cache.fact("f", (1,), make)
    assert [cache.fact("f", (1,), make) for _ in range(2)] == [2, 2]
    assert cache.fact("g", (1,), make) == 3


def test_no_more_is_kept_than_the_bound_and_what_was_forgotten_is_made_again() -> None:
    cache = FactCache(most=10_000)
    for number in range(50):
        capture = Capture(Outcome.DONE, text=str(number) * 1000)
        assert cache.fact("f", (cache.number(capture),),
                          lambda number=number: number) == number  # type: ignore[misc]
        held = sum(content[0] for content in cache._numbers) + len(cache._facts) * CACHE_ENTRY
        assert cache._size == held <= 10_000
    first = cache.number(Capture(Outcome.DONE, text="0" * 1000))
    assert cache.fact("f", (first,), lambda: "again") == "again"
    assert cache.number(Capture(Outcome.DONE, text="x" * 40_000)) is None
    assert cache.fact("f", (None,), lambda: "made") == "made"


def test_the_bound_itself_may_be_held() -> None:
    cache = FactCache(most=2 * CACHE_ENTRY)
    made = [cache.part("f", number, lambda number=number: [number]) for number in (1, 2)
            ]  # type: ignore[misc]
    assert cache.part("f", 1, list) is made[0] and cache.part("f", 2, list) is made[1]
    assert cache.part("f", 3, list) == cache.part("f", 1, list) == []


def test_a_probe_that_brought_nothing_takes_no_room() -> None:
    cache = FactCache(most=CACHE_ENTRY)
    made: list[int] = []
    assert cache.fact("f", (cache.number(None),), lambda: made) is made
    cache.number(None)
    assert cache.fact("f", (cache.number(None),), list) is made


def test_contents_are_those_that_a_fact_can_depend_on_and_none_that_is_too_long() -> None:
    files = {"/a": FileCapture(Outcome.DONE, "12"), "/bc": FileCapture(Outcome.DONE, "345")}
    whole = content_of(Capture(Outcome.DONE, text="x" * 10, stderr="y" * 100, files=files))
    assert whole is not None and whole[0] == 10 + 100 + 5 + 5
    denied, missing = ({**files, "/a": FileCapture(outcome, "12")}
                       for outcome in (Outcome.DENIED, Outcome.MISSING))
    assert len({content_of(Capture(Outcome.DONE, files=held)) for held in (files, denied, missing)}) == 3
    assert content_of(Capture(Outcome.DONE, text="x" * CACHED_CAPTURE)) is not None
    assert content_of(Capture(Outcome.DONE, text="x" * (CACHED_CAPTURE + 1))) is None


@pytest.mark.parametrize(("outcome", "alike"),
                         [(Outcome.DONE, True), (Outcome.TRUNCATED, True), (Outcome.TIMEOUT, False)])
def test_the_seconds_count_where_the_time_was_over(outcome: Outcome, alike: bool) -> None:
    first, second = (content_of(Capture(outcome, seconds=seconds)) for seconds in (1.0, 2.0))
    assert (first == second) is alike
