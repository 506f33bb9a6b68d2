"""Changes as documents: what is written is read back, what others wrote is one line, and a kill leaves whole
files."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.change import keep, page
from healthcheck.change.document import document, judged
from healthcheck.change.documentread import read
from healthcheck.change.judge import judge
from healthcheck.change.model import FigureSeries, LogForm, LoggedForms, NodeStanding, SiteChange, Stood
from inventory.errors import ConfigError, UsageError
from inventory.nodeset import fold
from inventory.text import clean
from tests.documents import validate
from tests.healthcheck.change import planted
from tests.testbed.killing import changes as killed
from tests.tries import tries

ROOT = Path(__file__).resolve().parents[3]
TEXT = st.text(max_size=40).map(clean)
NAME = st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,20}", fullmatch=True)
NODES = st.lists(NAME, max_size=4, unique=True).map(tuple)
TIME = st.floats(0, 1e11)
LOG = st.builds(LoggedForms, st.frozensets(TEXT, max_size=4), st.frozensets(TEXT, max_size=4), st.booleans())
NODE = st.builds(NodeStanding, TIME, st.frozensets(TEXT, max_size=4), st.frozensets(TEXT, max_size=4),
                 st.dictionaries(TEXT, TEXT, max_size=3), TEXT, st.none() | LOG, TEXT, TEXT,
                 st.frozensets(TEXT, max_size=4), st.integers(0, 300))
FIGURE = st.builds(FigureSeries, TEXT, TEXT, NODES, st.lists(st.floats(-1e300, 1e300), max_size=3).map(tuple))
STOOD = st.builds(Stood, TEXT, TEXT, st.dictionaries(NAME, NODE, max_size=3),
                  st.dictionaries(TEXT, st.builds(LogForm, TEXT, st.none() | st.integers(0, 7),
                                                  st.booleans()), max_size=3),
                  st.lists(FIGURE, max_size=3).map(tuple), st.lists(TEXT, max_size=2).map(tuple))
CHANGE = st.builds(SiteChange, TEXT, TEXT, TIME, NODES, NODES, TEXT, st.lists(NODES, max_size=3).map(tuple),
                   st.lists(TEXT, max_size=2).map(tuple), STOOD)


def judged_one() -> SiteChange:
    fleet = planted.new_line(planted.fleet(1))
    return replace(fleet.change, judgements=(judge(fleet.change, fleet.after, planted.BEGAN + 7200, "ann"),))


@given(CHANGE)
def test_what_is_written_is_read_back_equal(change: SiteChange) -> None:
    assert read(json.dumps(document(change)).encode(), "file") == change


def test_a_judged_change_is_read_back_and_its_documents_are_as_their_schemas_say() -> None:
    change = judged_one()
    assert read(json.dumps(document(change)).encode(), "file") == change
    validate(document(change), "change-1")
    assert change.newest is not None
    validate(judged(change, change.newest), "change-judgement-1")
    validate(page.next_ring(change, fold), "change-next-1")


def values(whole: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths of all values in a document."""
    inner = whole.items() if isinstance(whole, dict) else enumerate(whole) if isinstance(whole, list) else ()
    return [path, *(each for key, value in inner for each in values(value, (*path, key)))]


SMALL = json.dumps(document(replace(judged_one(), before=replace(
    judged_one().before, nodes=dict(list(judged_one().before.nodes.items())[:1]),
    figures=judged_one().before.figures[:1],
    forms=dict(list(judged_one().before.forms.items())[:1])))))
PATHS = values(json.loads(SMALL))


@settings(max_examples=tries(300))
@given(st.sampled_from(PATHS),
       st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
       | st.lists(st.integers(), max_size=2) | st.dictionaries(st.text(max_size=3),
                                                               st.integers(), max_size=2))
def test_a_document_with_any_value_exchanged_is_read_or_refused_in_one_line(path: tuple[Any, ...],
                                                                            value: Any) -> None:
    whole: Any = json.loads(SMALL)
    if path:
        at = whole
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value
    else:
        whole = value
    try:
        found = read(json.dumps(whole).encode(), "file")
    except ConfigError as error:
        assert str(error).startswith("file: ") and clean(error, 10_000) == str(error)
    else:
        document(found)


@given(st.binary(max_size=60))
def test_bytes_that_are_no_document_are_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(ConfigError) as caught:
        read(data, "file")
    assert clean(caught.value, 10_000) == str(caught.value)


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../up", "-x", ".hidden", "a b", "a\nb", "\x1b[31m",
                                  "a\x00b", "é", "x" * 81, "a.json", "\udc80"])
def test_a_hostile_name_is_refused_in_one_line_and_writes_nothing(name: str, tmp_path: Path) -> None:
    for use in (lambda: keep.write(tmp_path, replace(planted.fleet(1).change, name=name)),
                lambda: keep.named(tmp_path, name),
                lambda: keep.exists(tmp_path, name)):
        with pytest.raises(UsageError) as caught:
            use()
        assert clean(caught.value, 10_000) == str(caught.value)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_a_change_that_is_killed_at_any_write_leaves_the_old_document_or_the_new_one(tmp_path: Path) -> None:
    old = planted.fleet(1).change
    new = replace(old, judgements=judged_one().judgements)
    keep.write(tmp_path, old)
    every = killed(lambda: (keep.write(tmp_path, new), None)[1])
    assert every > 3
    for at in range(1, every + 1):
        keep.write(tmp_path, old)
        killed(lambda: (keep.write(tmp_path, new), None)[1], at)
        assert keep.named(tmp_path, old.name) in (old, new) and keep.names(tmp_path) == (old.name,)


def test_a_damaged_document_is_named_and_the_others_are_listed(tmp_path: Path) -> None:
    keep.write(tmp_path, planted.fleet(1).change)
    (tmp_path / keep.FOLDER / "broken.json").write_text("{")
    (tmp_path / keep.FOLDER
     / "moved.json").write_text((tmp_path / keep.FOLDER / "driver-575.json").read_text())
    found = list(keep.every(tmp_path))
    assert [isinstance(one, SiteChange) for one in found] == [False, True, False]
    assert "expected moved" in str(found[2]) and "not a JSON document" in str(found[0])


def test_the_page_of_a_judgement_is_as_recorded() -> None:
    change = judged_one()
    assert change.newest is not None
    lines = [*page.began(change, fold), *page.judged(change, change.newest, fold), page.last(change)]
    golden = ROOT / "tests/golden/change.txt"
    assert "\n".join(lines) + "\n" == golden.read_text()


def test_the_next_ring_is_named_only_after_a_pass_and_starts_with_the_rings_after_it() -> None:
    worse = page.next_ring(judged_one(), fold)
    assert (worse["ring"], worse["command"], worse["why"]) == (None, None, "its newest verdict is: worse")
    assert page.next_ring(planted.fleet(1).change, fold)["why"] == "it was not judged"
    fleet = planted.fleet(1)
    passed = replace(fleet.change, without=("log",),
                     judgements=(judge(fleet.change, fleet.after, planted.BEGAN + 7200, "ann"),))
    found = page.next_ring(passed, fold)
    validate(found, "change-next-1")
    assert found["ring"] == list(fleet.change.rings[0]) and found["left"] == 2
    assert (found["command"]
            == ("muster change start driver-575.2 --nodes 'gpu[201-216]' --ring 'gpu[301-308]' "
                "--without log"))
    final = replace(passed, name="driver-575.2", rings=passed.rings[1:])
    assert "driver-575.3 --nodes 'gpu[301-308]' --no-rings" in page.next_ring(final, fold)["command"]
    assert page.next_ring(replace(passed, rings=()), fold)["ring"] is None
