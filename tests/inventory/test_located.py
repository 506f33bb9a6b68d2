"""YAML with places: what is read, what is refused, and where the error says it stands."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from inventory.errors import ConfigError, InventoryError, Mark
from inventory.located import MAX_DEPTH, LocatedList, LocatedMap, load_yaml, parse_yaml


def refused(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        parse_yaml(text, "f.yaml")
    assert "\n" not in str(caught.value)
    return caught.value


def refused_file(path: Path | str, **options: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load_yaml(path, **options)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def at(line: int, column: int) -> Mark:
    return Mark("f.yaml", line, column)


def test_maps_and_lists_know_their_place_and_that_of_each_key_and_value() -> None:
    document = parse_yaml("a: 1\nb:\n  - x\n  - {c: d}\n", "f.yaml")
    assert isinstance(document, LocatedMap)
    assert document == {"a": 1, "b": ["x", {"c": "d"}]}
    assert document.mark == at(1, 1)
    assert document.key_marks == {"a": at(1, 1), "b": at(2, 1)}
    assert document.value_marks == {"a": at(1, 4), "b": at(3, 3)}
    assert isinstance(document["b"], LocatedList)
    assert document["b"].value_marks == {0: at(3, 5), 1: at(4, 5)}
    assert document["b"][1].value_marks["c"] == at(4, 9)


@pytest.mark.parametrize(("text", "value"), [
    ("true", True), ("False", False), ("no", "no"), ("on", "on"), ("Yes", "Yes"), ("null", None), ("~", None),
    ("1:30", "1:30"), ("2026-12-01", "2026-12-01"), ("12", 12), ("-3", -3), ("0", 0), ("010", "010"),
    ("007", "007"), ("0x1F", 31), ("0o17", 15), ("1_000", "1_000"), ("1.5", 1.5), ("1e3", 1000.0),
    ("1.", 1.0), (".5", 0.5), ("1" * 19, "1" * 19), ("0000:18:00.0", "0000:18:00.0"), ("'12'", "12"),
    ("!!str 12", "12"), ("!!int 12", 12),
])
def test_scalars_follow_yaml_1_2_but_keep_leading_zeros(text: str, value: Any) -> None:
    found = parse_yaml(f"k: {text}", "f.yaml")["k"]
    assert found == value
    assert type(found) is type(value)


def test_a_number_remembers_how_it_was_spelt() -> None:
    document = parse_yaml("a: 1.10\nb: [0x10, text]\n", "f.yaml")
    assert document.written == {"a": "1.10"}
    assert document["b"].written == {0: "0x10"}


def test_keys_are_text_as_written() -> None:
    assert parse_yaml("{12: a, no: b, 1.0: c}", "f.yaml") == {"12": "a", "no": "b", "1.0": "c"}


@pytest.mark.parametrize(("text", "mark", "word"), [
    ("", None, "empty"),
    ("# only a comment\n", None, "empty"),
    ("---\n", None, "empty"),
    ("a: 1\n---\nb: 2\n", at(2, 1), "second document"),
    ("a: [1\nb: 2", at(2, 2), "expected"),
    ("a: b: c", at(1, 5), "mapping values"),
    ("a: @train", at(1, 4), "quote text"),
    ("a: 1\nb: 2\na: 3", at(3, 1), "duplicate key 'a': it is already at f.yaml:1:1"),
    ("12: 1\n'12': 2", at(2, 1), "duplicate key"),
    ("? [a, b]\n: 1", at(1, 3), "a key must be text"),
    ("{[1]: 2}", at(1, 2), "a key must be text"),
    ("'': 1", at(1, 1), "a key is empty"),
    ("a: !!python/object/apply:os.system [id]", at(1, 4), "unknown tag"),
    ("a: !mine 1", at(1, 4), "unknown tag"),
    ("a: !!int x", at(1, 4), "does not fit its tag"),
    ("a: !!binary aGk=", at(1, 4), "unknown tag"),
    ("b: &x {a: 1}\nc:\n  <<: *x", at(3, 3), "merge keys"),
    ("a: &x [*x]", at(1, 8), "is inside its own anchor"),
    ("a: *x", at(1, 4), "no anchor"),
    ("a: 1\nb: \x1b[31m", at(2, 4), "control character U+001B"),
    ('a: 1\nb: "\\e[31m"', at(2, 4), "control character U+001B, as an escape"),
    ('"a\\x9b": 1', at(1, 1), "control character U+009B, as an escape"),
    ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), at(1, MAX_DEPTH + 1), "nested deeper"),
])
def test_what_is_refused_is_one_line_with_its_place(text: str, mark: Mark | None, word: str) -> None:
    error = refused(text)
    assert error.mark == mark
    assert word in str(error)
    assert str(error).startswith("f.yaml:")


def test_nesting_cannot_exhaust_the_stack() -> None:
    assert "nested deeper" in str(refused("[" * 100_000))
    assert "nested deeper" in str(
        refused("a:\n" + "".join(" " * depth + "- \n" for depth in range(1, 200)) + " " * 200 + "x"))


def test_a_yaml_bomb_is_refused_before_it_unfolds() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    error = refused("\n".join(lines))
    assert "with its aliases written out" in str(error)
    assert error.mark is not None
    assert error.mark.line == 6


def test_small_aliases_are_shared_values() -> None:
    document = parse_yaml("a: &x {b: 1}\nc: *x", "f.yaml")
    assert document["c"] == {"b": 1}


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    assert refused_file(tmp_path / "no.yaml") == f"{tmp_path}/no.yaml: no such file"


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    assert "is a directory" in refused_file(tmp_path)


def test_a_name_that_cannot_be_one_is_an_error_and_no_traceback() -> None:
    assert "cannot be read" in refused_file("a\0b")
    assert "cannot be read" in refused_file("x" * 5000)


def test_a_file_that_may_not_be_read_says_so(tmp_path: Path) -> None:
    path = tmp_path / "secret.yaml"
    path.write_text("a: 1")
    path.chmod(0)
    user = os.geteuid()
    if user == 0:
        os.seteuid(65534)       # root reads everything
    try:
        assert "permission denied" in refused_file(path)
    finally:
        os.seteuid(user)


def test_a_file_over_the_limit_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "big.yaml"
    with open(path, "wb") as file:
        file.truncate(1 << 40)      # a sparse terabyte: reading it would not end
    assert "over the size limit of 16777216 bytes" in refused_file(path)


def test_a_file_without_a_size_is_still_bounded() -> None:
    assert "over the size limit of 1000 bytes" in refused_file("/dev/zero", max_bytes=1000)


def test_a_file_of_exactly_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "exact.yaml"
    path.write_bytes(b"a: 1")
    assert load_yaml(path, max_bytes=4) == {"a": 1}
    assert "size limit" in refused_file(path, max_bytes=3)


def test_bytes_that_are_not_utf_8_are_placed(tmp_path: Path) -> None:
    path = tmp_path / "latin.yaml"
    path.write_bytes(b"a: 1\nb: M\xfcller\n")
    assert refused_file(path) == f"{path}:2:5: is not UTF-8 text: byte 0xfc"


def test_a_byte_order_mark_is_no_part_of_the_first_key(tmp_path: Path) -> None:
    path = tmp_path / "bom.yaml"
    path.write_bytes(b"\xef\xbb\xbfversion: 1\n")
    assert load_yaml(path) == {"version": 1}


def test_the_caller_chooses_the_kind_of_error(tmp_path: Path) -> None:
    with pytest.raises(InventoryError):
        load_yaml(tmp_path / "no.yaml", error=InventoryError)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-10**17, 10**17)
    | st.text(st.characters(exclude_categories=("Cs", "Cc", "Zl", "Zp"), exclude_characters="\ufffe\uffff"))
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(
        st.text("abc019._-[]@", min_size=1, max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(PLAIN.filter(lambda value: value is not None))
def test_any_json_document_is_read_as_what_it_is(value: Any) -> None:
    text = json.dumps({"k": value}, ensure_ascii=True)
    if "\\u" not in text:       # JSON spells characters beyond 16 bits as pairs, which YAML does not know
        assert parse_yaml(text, "f.yaml") == {"k": value}


@given(PLAIN)
def test_what_a_yaml_writer_writes_is_read_back(value: Any) -> None:
    text = yaml.safe_dump({"k": value}, allow_unicode=True)
    assert parse_yaml(text, "f.yaml") == {"k": value}


YAMLISH = st.text(st.sampled_from(list("ab01:-,[]{}&*!|>'\"%@`#? \n\t~<.é\x00\u2028")), max_size=60)


@given(st.text(max_size=200) | YAMLISH)
def test_no_text_raises_anything_but_a_one_line_config_error(text: str) -> None:
    try:
        parse_yaml(text, "f.yaml")
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_a_config_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes,
) -> None:
    path = tmp_path_factory.getbasetemp() / "fuzz.yaml"
    path.write_bytes(data)
    try:
        load_yaml(path)
    except ConfigError as error:
        assert len(str(error).splitlines()) == 1
