"""Captures of a fleet's nodes that differ in a few files: read and made into facts as if each were the only one (healthcheck.model.entryforms)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from healthcheck.judge.shared import Shared
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.collector.reply import within
from healthcheck.config.rulesfolder import packaged
from healthcheck.facts.base import BY_BUILDER, FACTS, Captures, FactSpec, build_fact
from healthcheck.facts.files import Files
from healthcheck.facts.values import Unmeasured
from healthcheck.model import entryforms
from healthcheck.model.probes import Kind, Probe, ProbeSet
from healthcheck.model.recording import Capture, Entries, FileCapture, Kin, Kindred, Outcome, Recording, from_json
from healthcheck.model.recordingread import loads, read, read_files
from healthcheck.ruleset.ruleset import load_ruleset
from healthcheck.sweep.looks import encode
from tests.healthcheck import machine

load_ruleset([packaged()])      # so that all facts are known
PLACES = [(probe, path) for probe, capture in sorted(machine.captures().items()) for path in capture.files]


@pytest.fixture(autouse=True)
def nothing_is_known() -> Iterator[None]:
    entryforms._FORMS.clear()
    yield
    entryforms._FORMS.clear()


def written(files: dict[str, FileCapture]) -> bytes:
    """The files as a node sends them."""
    sent = {path: [entry.outcome.value, entry.text] if entry.text else [entry.outcome.value] for path, entry in files.items()}
    return json.dumps(sent, separators=(",", ":")).encode()


def plainly(recording: Recording) -> Recording:
    return from_json(json.loads(encode(recording)))


def said(**texts: str) -> dict[str, FileCapture]:
    return {path: FileCapture(Outcome.DONE, text) for path, text in texts.items()}


def with_file(recording: Recording, probe: str, path: str, entry: FileCapture | None) -> Recording:
    """The recording with another file there; without it for None."""
    capture = recording.captures[probe]
    files = {**capture.files, path: entry} if entry is not None else {name: held for name, held in capture.files.items() if name != path}
    return replace(recording, captures={**recording.captures, probe: replace(capture, files=files)})


TEXTS = st.sampled_from(["1\n", "2\n", "", "x", '"],"', '\\"', '"]}', "\u20ac", "\udcff", "\x1f", "a" * 300])
ENTRIES = st.builds(FileCapture, st.sampled_from([Outcome.DONE] * 6 + list(Outcome)), TEXTS)
SETS = st.lists(st.dictionaries(st.sampled_from(["a", "b", "c", "d", '"e']), ENTRIES, min_size=1, max_size=5), min_size=1, max_size=40)


@settings(max_examples=200)
@given(SETS)
def test_files_are_what_json_says_however_many_like_them_came_before(captures: list[dict[str, FileCapture]]) -> None:
    entryforms._FORMS.clear()
    for files in captures:
        try:
            found = read_files(written(files))
        except ValueError:
            continue        # and json.loads reads it
        assert dict(found) == files and list(found) == list(files) and len(found) == len(files)
        assert list(found.items()) == list(files.items()) and list(found.values()) == list(files.values())
        assert found == files and files == found


@settings(max_examples=200)
@given(st.integers(0, 3), st.lists(st.tuples(st.integers(0, 80), st.integers(0, 6), st.binary(max_size=3) | st.sampled_from([b'"', b'"],"', b'"]}', b"\\"])),
                                   min_size=1, max_size=3))
def test_bytes_that_are_nearly_of_a_known_form_are_read_as_plainly_or_not_at_all(number: int, changes: list[tuple[int, int, bytes]]) -> None:
    entryforms._FORMS.clear()
    for count in range(12):
        read_files(written(said(a="1\n", b=f"{count}\n", c="3\n", d=f"{count}")))
    data = written(said(a="1\n", b=f"{number}\n", c="3\n", d=f"{number}"))
    for at, gone, put in changes:
        data = data[:at] + put + data[at + gone:]
    try:
        found = read_files(data)
    except ValueError:
        return
    # Bytes that are no UTF-8 json.loads takes as surrogates as well.
    plain = json.loads(data.decode("utf-8", "surrogatepass"))
    assert {path: [entry.outcome.value, entry.text] if entry.text else [entry.outcome.value] for path, entry in found.items()} == {
        path: entry if entry[1:] != [""] else entry[:1] for path, entry in plain.items()}


class Counted(bytes):
    """Bytes that know how many of them were searched."""

    searched = 0

    def find(self, sub: bytes, start: int = 0, end: int | None = None) -> int:  # type: ignore[override]
        found = super().find(sub, start, end)
        self.searched += max(0, (found if found >= 0 else min(len(self), len(self) if end is None else end)) - start)
        return found


def test_many_small_captures_are_read_without_searching_the_document_for_each() -> None:
    for other in "bcdef":
        for count in range(6):
            read_files(written(said(a=f"{count}", **{other: "1"})))
    captures = {f"{number}": {"files": {"a": ["truncated" if number % 2 else "done", f"{number}"]}} for number in range(2000)}
    data = Counted(json.dumps({"captures": captures}, separators=(",", ":")).encode())
    assert set(loads(data)["captures"]) == set(captures)
    assert data.searched < 100 * len(data)


def test_files_that_differ_on_each_node_are_told_apart_from_those_that_differ_on_one() -> None:
    for count in range(40):
        odd = "9\n" if count in (1, 20) else "1\n"
        found = read_files(written(said(a=odd, b=f"{count}\n", c="3\n")))
        assert found["b"].text == f"{count}\n" and found["a"].text == odd
    assert isinstance(found, Kindred) and list(found.texts) == ["b"]


def test_a_file_that_begins_to_differ_from_node_to_node_is_each_nodes_own_in_the_end() -> None:
    for count in range(60):
        found = read_files(written(said(a="1\n" if count < 20 else f"{count}\n", b=f"{count}\n", c="3\n")))
    assert isinstance(found, Kindred) and list(found.texts) == ["a", "b"]


def test_what_is_equal_to_the_letter_is_one_object() -> None:
    one, other, third = (read_files(written(said(a="1\n", b="2\n"))) for _ in range(3))
    assert isinstance(third, Entries) and third is other and one == other


def test_no_more_forms_are_kept_than_the_bound() -> None:
    for number in range(500):
        read_files(written(said(**{f"p{number}": "1\n"})))
        read_files(written(said(a=f"{number}", **{f"b{number % 20}": "1\n"})))
    assert len(entryforms._FORMS) <= entryforms._MOST_KEYS
    assert all(len(forms) <= entryforms._MOST for forms in entryforms._FORMS.values())


def test_no_more_text_is_kept_in_forms_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entryforms, "_MOST_TEXT", 100_000)
    for number in range(60):
        read_files(written(said(**{f"p{number}": "1" * 9_000})))
        held = sum(form.size for forms in entryforms._FORMS.values() for form in forms)
        assert held < 110_000
    assert held > 9_000


ODD = st.sampled_from([FileCapture(outcome, text) for outcome in Outcome for text in ("", "1\n", "rubbish \u20ac")]) | st.none()


@settings(max_examples=15, deadline=None)
@given(own=st.lists(st.sampled_from(PLACES), max_size=6, unique=True),
       odd=st.lists(st.tuples(st.integers(3, 9), st.booleans(), st.sampled_from(PLACES), ODD), max_size=4))
def test_facts_are_those_of_a_node_alone(
    own: list[tuple[str, str]], odd: list[tuple[int, bool, tuple[str, str], FileCapture | None]],
) -> None:
    """Some files differ on each node, and between its looks; on some nodes others do, or are not there."""
    entryforms._FORMS.clear()
    shared = Shared()
    for node in range(10):
        looks = []
        for now in (True, False):
            look = machine.recording(f"n{node}")
            for probe, path in own:
                text = look.captures[probe].files[path].text.translate(str.maketrans("0123456789", "0123456789"[node:] + "0123456789"[:node]))
                look = with_file(look, probe, path, FileCapture(Outcome.DONE, text if now else text + "0"))
            for at, of_now, (probe, path), entry in odd:
                if (at, of_now) == (node, now):
                    look = with_file(look, probe, path, entry)
            looks.append(look)
        found = shared.facts([(read(encode(look)), tuple(FACTS)) for look in looks])
        for look, facts in zip(looks, found, strict=True):
            alone = Captures(plainly(look))
            for name, fact in facts.items():
                assert fact == build_fact(FACTS[name], alone), name


def test_of_what_differs_no_fact_is_taken_for_common_that_reads_it() -> None:
    """Each file of each capture, changed on one node of those whose others differ in it as well."""
    told: dict[str, set[str]] = {}
    for probe, path in PLACES[::7]:
        entryforms._FORMS.clear()
        shared = Shared()
        for node in range(5):
            look = with_file(machine.recording("n1"), probe, path, FileCapture(Outcome.DONE, f"{node}\n"))
            (facts,) = shared.facts([(read(encode(look)), tuple(FACTS))])
            alone = Captures(plainly(look))
            for name, fact in facts.items():
                assert fact == build_fact(FACTS[name], alone), (probe, path, name)
        told.setdefault(probe, set()).add(path)
    assert len(told) > 10


def test_a_fact_that_comes_to_read_what_is_a_nodes_own_is_no_longer_anothers(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it asked of another part does not tell of all that it depends on any more."""
    probe = Probe("p", Kind.FILES, paths=("/*",), seconds=1.0, limit=1000)

    def kind(captures: Captures) -> str:
        return "many" if captures.files(probe).text("a") > "5" else "few"

    def size(captures: Captures) -> Unmeasured:
        return Unmeasured(captures.files(probe).text("b") if captures.once(kind) == "many" else "small")

    monkeypatch.setitem(BY_BUILDER, kind, FactSpec("kind", (probe,), kind))
    monkeypatch.setitem(BY_BUILDER, size, FactSpec("size", (probe,), size))
    monkeypatch.setitem(FACTS, "size", BY_BUILDER[size])
    shared = Shared()
    for a, b in (("1", "1"), ("2", "2"), ("3", "3"), ("4", "4"), ("6", "5"), ("7", "6"), ("8", "7"), ("1", "8"), ("9", "9"), ("9", "8")):
        capture = Capture(Outcome.DONE, files=said(a=a, b=b, c="1"))
        look = read(encode(Recording("n1", 1.0, machine.HOST, None, {"p": capture})))
        assert shared.facts([(look, ("size",))]) == [{"size": Unmeasured(b if a > "5" else "small")}]


def test_a_file_of_a_nodes_own_is_read_by_whoever_reads_it_and_by_no_other() -> None:
    for count in range(3):
        entries = read_files(written({**said(a=f"{count}\n", b="2\n"), "c": FileCapture(Outcome.DENIED)}))
    asked: list[None] = []
    files = Files(entries, lambda: asked.append(None))
    assert files.has("a") and files.outcome("a") is Outcome.DONE and not files.truncated("a") and files.text("b") == "2"
    files.must("a", "b")
    assert files.unseen() == "c: permission denied" and files.found(len) == 3 and not asked
    assert files.text("a") == "2" and len(asked) == 1
    assert files.optional("a", int) == 2 and files.alike(("a",), lambda part: part.text("a")) == "2" and len(asked) == 3
    assert files.but("a".__eq__, lambda part: part.text("b")) == "2" and len(asked) == 3
    assert files.but("b".__eq__, lambda part: part.text("a")) == "2" and len(asked) == 4


def test_a_saved_look_of_a_node_among_others_is_written_as_it_was_read() -> None:
    for node in range(4):
        look = with_file(machine.recording("n1"), *PLACES[0], FileCapture(Outcome.DONE, f"{node}\n"))
        assert encode(read(encode(look))) == encode(look)
    assert isinstance(read(encode(look)).captures[PLACES[0][0]].files, Kindred)


def test_what_a_probe_may_bring_holds_for_captures_of_known_form_as_well() -> None:
    def look(text: str) -> Recording:
        return read(encode(Recording("n1", 1.0, machine.HOST, None, {"p": Capture(Outcome.DONE, files=said(a=text, b="2"))})))

    probes = ProbeSet.of([Probe("p", Kind.FILES, paths=("/a",), seconds=1.0, limit=100_000)], 1.0)
    for text, outcome in (("1", Outcome.DONE), ("2", Outcome.DONE), ("3", Outcome.DONE), ("4" * 150_000, Outcome.DONE), ("5" * 170_000, Outcome.TRUNCATED)):
        sent = look(text)
        (capture,) = within(sent, probes).captures.values()
        assert capture.outcome is outcome
    assert isinstance(sent.captures["p"].files, Kindred)


def test_what_was_named_by_an_identity_is_not_kept_when_all_is_forgotten_while_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    probe, store, forget = Probe("x.p", Kind.FILES, paths=("/a",)), Shared(), [False]

    def part_of(captures: Captures) -> tuple[str, ...]:
        return (captures.files(probe).text("/a"),)

    def made(captures: Captures) -> tuple[str, ...]:
        part = captures.once(part_of)
        if forget[0]:
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr("healthcheck.judge.shared._MOST", 0)
                store._make_room()
        return ("of", *part)

    monkeypatch.setitem(BY_BUILDER, part_of, FactSpec("x.part", (probe,), part_of))
    monkeypatch.setitem(BY_BUILDER, made, FactSpec("x.made", (probe,), made))
    kin = Kin(Entries(said(**{"/a": "0", "/b": "1"})), ["/a"])

    def look(text: str) -> None:
        store._beside.clear()
        files = Capture(Outcome.DONE, files=Kindred(kin, {"/a": text}, 9))
        Captures(replace(machine.recording(), captures={"x.p": files}), store).once(made)

    for _ in range(3):
        look("one")
    look("two")
    look("two")
    forget[0] = True
    look("two")
    assert all(number in store._common for key in [*store._facts, *store._beside] if key[0] == "x.made"
               for number in key[2:] if type(number) is int)
