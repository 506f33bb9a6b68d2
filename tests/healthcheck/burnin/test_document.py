"""muster.burnin/1: a round trip, bounded, without secrets; a mistake is one line with its place."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.burnin.document import NOT_KEPT, as_bytes, document, kept, write
from healthcheck.burnin.documentread import load, read
from healthcheck.burnin.judge import judge
from healthcheck.burnin.judgement import BurnInOutcome
from healthcheck.burnin.limits import DOCUMENT_BYTES
from healthcheck.burnin.model import Accusation, Object, RankEnd, WrongData
from inventory.errors import ConfigError, UsageError
from tests.documents import schema
from tests.healthcheck.burnin.faulty import faulty
from tests.healthcheck.burnin.made import FLOORS, GIB, burnin, changed, places, sound
from tests.tries import tries

SCHEMA = schema("burnin-1")
SOUND = as_bytes(burnin())
FAULTY = as_bytes(faulty())


@pytest.mark.parametrize("data", [SOUND, FAULTY], ids=["sound", "faulty"])
def test_the_document_is_as_its_schema_says(data: bytes) -> None:
    jsonschema.validate(json.loads(data), SCHEMA)


@pytest.mark.parametrize("data", [SOUND, FAULTY], ids=["sound", "faulty"])
def test_what_is_read_is_written_again_to_the_letter(data: bytes) -> None:
    assert as_bytes(read(data, "x")) == data


def test_a_burn_in_that_was_read_is_judged_as_it_was() -> None:
    before = faulty()
    after = read(FAULTY, "x")
    again = judge(after.burnt, FLOORS)
    assert (again.accusations, again.remarks) == (after.judgement.accusations, after.judgement.remarks)
    assert [(one.node, one.outcome, one.why) for one in again.outcomes] == [
        (one.node, one.outcome, one.why) for one in before.judgement.outcomes]
    assert [one.name for one in after.judgement.accusations] == [one.name
                                                                 for one in before.judgement.accusations]
    assert after.judgement.verdict is BurnInOutcome.FAIL and after.burnt.places == before.burnt.places


def test_a_rank_that_reports_a_size_that_cannot_be_spoils_the_document_of_no_other() -> None:
    there = places(8)
    results = changed(sound(there), "node-allreduce-gpu003", "*", figures={"size_bytes": 1e30})
    assert len(read(as_bytes(burnin(there, results)), "x").judgement.outcomes) == 8


def test_who_may_share_in_what_is_unexplained_is_kept() -> None:
    whole = burnin()
    open_ = Accusation(Object.UNEXPLAINED, "gpu003, what leads out of leaf03", "slow", "either", ("all-1",),
                       nodes=("gpu003", "gpu004"))
    data = as_bytes(replace(whole, burnt=replace(whole.burnt, found=(open_,))))
    jsonschema.validate(json.loads(data), SCHEMA)
    assert read(data, "x").burnt.found == (open_,)


def test_how_a_rank_ended_and_where_it_was_is_kept() -> None:
    task = next(one for one in read(FAULTY, "x").burnt.results if one.task.id == "cross-gpu006-gpu010")
    dead = next(one for one in task.reports if one.end is RankEnd.SIGNAL)
    assert (str(dead.seat), dead.code, dead.last.iteration, dead.last.phase,
            dead.error) == ("gpu006:3", 9, 15, "compute", "Killed")
    assert task.named_after == 0.4 and sum(one.end is RankEnd.RAISED for one in task.reports) == 15


def test_where_data_was_wrong_is_kept_beside_what_older_readers_know() -> None:
    wrong = (WrongData(3, 1, (2,)), WrongData(61, 2, (3,), True, "all-reduce float32 summed in place",
                                              ((4096, 3), (4100, -1)), (4096, 4100)))
    whole = burnin(results=changed(sound(places(8)), "node-allreduce-gpu003", "gpu003:5", wrong=wrong,
                                   wrong_total=3))
    data = as_bytes(whole)
    jsonschema.validate(json.loads(data), SCHEMA)
    task = next(one for one in read(data, "x").burnt.results if one.task.id == "node-allreduce-gpu003")
    assert task.reports[5].wrong == wrong and as_bytes(read(data, "x")) == data
    edited = json.loads(data)
    [odd] = next(one for one in edited["tasks"] if one["id"] == task.task.id)["reports"]["odd"]
    assert odd["wrong"] == [[3, 1, [2], False], [61, 2, [3], True]]
    del odd["where"]
    assert next(one for one in read(json.dumps(edited).encode(), "x").burnt.results if one.task.id
                == task.task.id).reports[5].wrong == (WrongData(3, 1, (2,)), WrongData(61, 2, (3,), True))
    odd["where"] = []
    with pytest.raises(ConfigError, match=r"odd\[0\].where: expected 2 of them, as in wrong"):
        read(json.dumps(edited).encode(), "x")


def test_seats_that_did_not_report_are_not_invented() -> None:
    whole = burnin()
    first, *rest = whole.burnt.results
    part = replace(first, reports=first.reports[3:1:-1])
    again = read(as_bytes(replace(whole, burnt=replace(whole.burnt, results=(part, *rest)))), "x")
    assert again.burnt.results[0].reports == part.reports and not again.burnt.results[0].whole


def test_no_secret_is_written() -> None:
    text = FAULTY.decode()
    assert "hf_secret" not in text and "0123456789abcdef" not in text and f'"HF_TOKEN":"{NOT_KEPT}"' in text
    assert '"NCCL_IB_HCA":"=mlx5_0,mlx5_1"' in text


def test_sizes_are_exact_and_figures_have_six_digits() -> None:
    whole = document(burnin())
    figures = next(one for one in whole["tasks"] if one["kind"] == "allreduce")["reports"]["figures"]
    assert figures["size_bytes"] == 8 * GIB and figures["seconds_p50"] == 0.0320083


def test_a_report_takes_a_hundred_bytes_for_what_is_equal_is_written_once() -> None:
    reports = sum(len(one.reports) for one in burnin().burnt.results)
    assert len(SOUND) / reports < 120


def test_what_is_no_number_is_left_out() -> None:
    whole = burnin()
    first, *rest = whole.burnt.results
    odd = replace(first, reports=tuple(replace(one, figures={"tflops_bf16": float("nan"), "verified": 1.0})
                                       for one in first.reports))
    again = read(as_bytes(replace(whole, burnt=replace(whole.burnt, results=(odd, *rest)))), "x")
    assert again.burnt.results[0].reports[0].figures == {"verified": 1.0}


def test_it_is_kept_whole_in_the_state_folder_and_the_newest_comes_first(tmp_path: Path) -> None:
    import os

    assert kept(tmp_path) == []
    first, second = write(tmp_path, burnin(run="a")), write(tmp_path, burnin(run="b"))
    os.utime(first, ns=(2, 2))
    os.utime(second, ns=(1, 1))
    (tmp_path / "burnin" / ".b.burnin.json.tmp").write_text("half")
    assert kept(tmp_path) == [first, second] and load(first).run == "a"
    assert first.stat().st_mode & 0o777 == 0o600


def test_an_id_that_is_no_file_name_and_a_folder_that_cannot_be_written_are_reported(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not a run's id"):
        write(tmp_path, burnin(run="../x"))
    (tmp_path / "burnin").write_text("")
    with pytest.raises(UsageError):
        write(tmp_path, burnin())


@pytest.mark.parametrize(("change", "said"), [
    (lambda d: d.update(schema="muster.burnin/2"), "schema: expected muster.burnin/1, got 'muster.burnin/2'"),
    (lambda d: d.pop("places"), "places: expected a list, got nothing"),
    (lambda d: d["tasks"][3].update(stage="nodes"), "tasks[3].stage: expected one of node, rail"),
    (lambda d: d["tasks"][3]["seats"].__setitem__(1, "gpu001"),
     "tasks[3].seats[1]: expected a seat such as gpu001:0, got 'gpu001'"),
    (lambda d: d["tasks"][3]["reports"]["figures"]["tflops_bf16"].pop(),
     "tasks[3].reports.figures.tflops_bf16: expected 8 values"),
    (lambda d: d["tasks"][3]["reports"]["figures"].update(x=["a"] * 8),
     "tasks[3].reports.figures.x: expected a number, got 'a'"),
    (lambda d: d["tasks"][3]["reports"].update(ranks=[99]), "tasks[3].reports.ranks: expected ranks below 8"),
    (lambda d: d["nodes"][0].update(outcome="good"),
     "nodes[0].outcome: expected one of pass, fail, unknown, got 'good'"),
    (lambda d: d.update(verdict="pass"), "verdict: expected fail, as follows"),
    (lambda d: d.update(began="yesterday"), "began: expected a time such as"),
    (lambda d: d["accusations"][0].update(why="x" * 5000),
     "accusations[0].why: expected text of at most 2000 characters"),
    (lambda d: d["held"][0]["setting"].update(gpus=True),
     "held[0].setting.gpus: expected a whole number, got 'True'"),
])
def test_a_document_that_was_tampered_with_is_refused_with_the_place(change: Any, said: str) -> None:
    whole = json.loads(FAULTY)
    change(whole)
    with pytest.raises(ConfigError) as error:
        read(json.dumps(whole).encode(), "run.json")
    assert (str(error.value).startswith("run.json: ") and said in str(error.value)
            and "\n" not in str(error.value))


@pytest.mark.parametrize("data", [b"", b"{", b"\xff\xfe", b"[" * 100_000, b"nan", b'{"schema": NaN}',
                                  b"1" * 5000, FAULTY[:-40], b"null"])
def test_what_is_no_document_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(ConfigError) as error:
        read(data, "run.json")
    assert (str(error.value).startswith("run.json: ") and "\n" not in str(error.value)
            and len(str(error.value)) < 300)


def test_a_file_that_is_too_large_or_not_there_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        load(tmp_path / "none.json")
    large = tmp_path / "large.json"
    with large.open("wb") as file:
        file.truncate(DOCUMENT_BYTES + 2)
    with pytest.raises(ConfigError, match="over the size limit"):
        load(large)


def test_what_a_document_says_cannot_act_on_a_terminal() -> None:
    whole = json.loads(FAULTY)
    whole["accusations"][0]["why"] = "\x1b[2J\u202eevil"
    found = read(json.dumps(whole).encode(), "x").judgement.accusations[0].why
    assert found == "\\x1b[2J\\u202eevil"


def _places_in(thing: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    items = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, inner in items:
        found += _places_in(inner, (*at, key))
    return found


SMALL = json.loads(as_bytes(burnin(places(2, gpus=2), sound(places(2, gpus=2)))))
PLACES_IN = _places_in(SMALL)


@settings(max_examples=tries(300), deadline=None)
@given(st.sampled_from(PLACES_IN),
       st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just([])
       | st.just({}) | st.just([[]]) | st.just({"x": {}}) | st.just(10**400) | st.just("\udc80"))
def test_whatever_stands_in_a_place_it_is_read_or_refused_in_one_line(
    at: tuple[Any, ...], thing: Any,
) -> None:
    whole = copy.deepcopy(SMALL)
    inner = whole
    for key in at[:-1]:
        inner = inner[key]
    inner[at[-1]] = thing
    try:
        as_bytes(read(json.dumps(whole).encode(), "run.json"))
    except ConfigError as error:
        assert "\n" not in str(error) and str(error).startswith("run.json: ")
