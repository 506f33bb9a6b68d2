"""Edits of the inventory's text: only what was asked for changes, and no file is half or another's."""

from __future__ import annotations

import difflib
import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory.edit import equal, read_document, rewrite
from inventory.errors import InventoryError
from inventory.inventoryfile import InventoryFile, write_new
from inventory.yamltext import render
from tests.inventory.test_load import ENTRY, WORD
from tests.tries import tries

FILE = """\
version: 1   # one
defaults: {user: muster, sku: hgx-h100}
groups: {train: "gpu[001-512]"}

nodes:
  # rack one
  gpu[001-032]: {rack: r01, leaf: [leaf01, leaf02], labels: {zone: 'a'}}
  gpu[033-512]:   # the rest
    rack: r02     # by the door
    leaf: [leaf03]
    # no PDU yet
  gpu007: {lifecycle: {state: rma, owner: vendor, until: 2026-12-01}}  # case 17
  gpu008:   # new
# end
"""


def edited(change: Any, text: str = FILE) -> list[str]:
    """The lines that an edit takes away and adds, as - and + lines."""
    document = read_document(text, "m.yaml")
    change(document)
    after = rewrite(text, document, "m.yaml")
    assert equal(read_document(after, "m.yaml"), document)
    return [line for line in difflib.unified_diff(text.splitlines(), after.splitlines(), n=0, lineterm="")
            if not line.startswith(("---", "+++", "@@"))]


def put(*path: str, value: Any) -> Any:
    def change(document: dict[str, Any]) -> None:
        for key in path[:-1]:
            document = document[key]
        document[path[-1]] = value
    return change


def drop(*path: str) -> Any:
    def change(document: dict[str, Any]) -> None:
        for key in path[:-1]:
            document = document[key]
        del document[path[-1]]
    return change


@pytest.mark.parametrize(("change", "lines"), [
    (put("nodes", "gpu[001-032]", "rack", value="r 9"),
     ["-  gpu[001-032]: {rack: r01, leaf: [leaf01, leaf02], labels: {zone: 'a'}}",
      "+  gpu[001-032]: {rack: \"r 9\", leaf: [leaf01, leaf02], labels: {zone: 'a'}}"]),
    (put("nodes", "gpu[001-032]", "power", value="07"),
     ["-  gpu[001-032]: {rack: r01, leaf: [leaf01, leaf02], labels: {zone: 'a'}}",
      "+  gpu[001-032]: {rack: r01, leaf: [leaf01, leaf02], labels: {zone: 'a'}, power: \"07\"}"]),
    (drop("nodes", "gpu[001-032]", "leaf"),
     ["-  gpu[001-032]: {rack: r01, leaf: [leaf01, leaf02], labels: {zone: 'a'}}",
      "+  gpu[001-032]: {rack: r01, labels: {zone: 'a'}}"]),
    (put("nodes", "gpu[033-512]", "rack", value="r03"),
     ["-    rack: r02     # by the door", "+    rack: r03     # by the door"]),
    (put("nodes", "gpu[033-512]", "power", value="p"), ["+    power: p"]),
    (drop("nodes", "gpu[033-512]", "rack"), ["-    rack: r02     # by the door", "+    # by the door"]),
    (put("nodes", "gpu007", "lifecycle", value={"state": "maintenance"}),
     ["-  gpu007: {lifecycle: {state: rma, owner: vendor, until: 2026-12-01}}  # case 17",
      "+  gpu007: {lifecycle: {state: maintenance}}  # case 17"]),
    (drop("nodes", "gpu007", "lifecycle"),
     ["-  gpu007: {lifecycle: {state: rma, owner: vendor, until: 2026-12-01}}  # case 17",
      "+  gpu007: {}  # case 17"]),
    (put("nodes", "gpu008", value={"rack": "r1"}), ["-  gpu008:   # new", "+  gpu008: {rack: r1}   # new"]),
    (put("nodes", "gpu[513-520]", value={"rack": "r9"}), ["+  gpu[513-520]: {rack: r9}"]),
    (put("groups", "spares", value="gpu[001-002]"),
     ['-groups: {train: "gpu[001-512]"}', '+groups: {train: "gpu[001-512]", spares: "gpu[001-002]"}']),
    (lambda document: None, []),
])
def test_an_edit_touches_the_lines_it_must_and_no_others(change: Any, lines: list[str]) -> None:
    assert edited(change) == lines


def test_a_missing_section_is_written_before_the_nodes() -> None:
    text = "version: 1\nnodes:\n  a1:\n"
    document = read_document(text, "m.yaml") | {"groups": {"g": "a1"}}
    assert rewrite(text, document, "m.yaml") == "version: 1\ngroups:\n  g: a1\nnodes:\n  a1:\n"


def test_an_entry_that_gets_another_name_keeps_its_place() -> None:
    def change(document: dict[str, Any]) -> None:
        document["nodes"] = {key.replace("512", "511"): value for key, value in document["nodes"].items()}
    assert edited(change) == ["-  gpu[033-512]:   # the rest", "+  gpu[033-511]:   # the rest"]


def test_windows_line_ends_and_a_missing_last_one_stay_as_they_are() -> None:
    text = "version: 1\r\nnodes:\r\n  a1: {rack: x}\r\n  a2:\r\n    rack: y"
    document = read_document(text, "m.yaml")
    document["nodes"]["a2"]["power"] = "p"
    document["nodes"]["a3"] = {"rack": "z"}
    assert rewrite(text, document, "m.yaml") == text + "\r\n    power: p\r\n  a3: {rack: z}"


def test_a_comment_after_the_last_key_in_braces_stays_a_comment() -> None:
    text = "version: 1\nnodes:\n  a1: {\n    rack: x,  # why\n  }\n"
    assert edited(drop("nodes", "a1", "rack"), text) == ["-  a1: {", "-    rack: x,  # why",
                                                         "+  a1: {  # why"]


@pytest.mark.parametrize(("entries", "change", "place"), [
    ("a1: &x {rack: r1}\na2: *x", put("nodes", "a2", "rack", value="r2"),
     "m.yaml:4:7: there is an alias here"),
    ("a1: &x {rack: r1}\na2: *x", put("nodes", "a1", "rack", value="r2"),
     "m.yaml:3:7: there is an anchor or a tag here"),
    ("a1: {rack: &x r1}\na2: {rack: *x}", put("nodes", "a1", "rack", value="r2"),
     "m.yaml:3:14: there is an anchor or a tag here"),
    ("a1: !!map {rack: r1}", put("nodes", "a1", "rack", value="r2"),
     "m.yaml:3:7: there is an anchor or a tag"),
    ("a1: {leaf: [a, # x\n  b]}", put("nodes", "a1", "leaf", value="c"),
     "m.yaml:3:14: there is a comment inside"),
])
def test_what_cannot_be_edited_safely_names_its_line_and_asks_for_a_hand(
    entries: str, change: Any, place: str,
) -> None:
    text = "version: 1\nnodes:\n" + "".join(f"  {line}\n" for line in entries.split("\n"))
    with pytest.raises(InventoryError, match="edit it by hand") as caught:
        edited(change, text)
    assert str(caught.value).startswith(place)


def test_an_alias_elsewhere_is_no_obstacle() -> None:
    text = "version: 1\nnodes:\n  a1: &x {rack: r1}\n  a2: *x\n  a3: {rack: r1}\n"
    assert edited(put("nodes", "a3", "rack", value="r2"), text) == ["-  a3: {rack: r1}", "+  a3: {rack: r2}"]


SPACE = st.sampled_from(["", " ", "   "])
NAMES = st.sampled_from(["a1", "a2", "a10", "b[1-3]", "c[01-02],d1", "07", "on"])


@st.composite
def texts(draw: st.DrawFn) -> str:
    """Inventories as people write them: entries in braces or blocks, comments anywhere, odd spacing."""
    count = 0

    def comment() -> str:
        nonlocal count
        count += 1
        return draw(st.sampled_from(["", "", f"  # c{count}: {{x}}, it's", f" #c{count}"]))

    def own_line(indent: str) -> str:
        nonlocal count
        count += 1
        return draw(st.sampled_from(["", "", f"{indent}# l{count}\n", "\n"]))

    def value(held: Any, indent: str) -> str:
        style = draw(st.sampled_from(["flow", "flow", "block", "spread"]))
        if isinstance(held, dict) and held:
            if style == "flow":
                return " {" + ", ".join(f"{key}:{value_flow(inner)}" for key, inner in held.items()) + draw(
                    SPACE) + "}" + comment()
            if style == "spread":
                inner = f",\n{indent}  ".join(f"{key}:{value_flow(each)}" for key, each in held.items())
                return " {" + comment() + f"\n{indent}  {inner}" + draw(
                    st.sampled_from(["", ","])) + comment() + f"\n{indent}}}" + comment()
            return comment() + "\n" + own_line(indent) + ("".join(
                f"{indent}{key}:{value(inner, indent + '  ')}\n{own_line(indent)}"
                for key, inner in held.items()
            )).rstrip("\n")
        if isinstance(held, list) and style == "block":
            return comment() + "".join(f"\n{indent}- {word(each)}{comment()}" for each in held)
        return value_flow(held) + comment()

    def value_flow(held: Any) -> str:
        if isinstance(held, dict):
            return " {" + ", ".join(f"{word(key)}:{value_flow(inner)}" for key, inner in held.items()) + "}"
        if isinstance(held, list):
            return " [" + ", ".join(word(each) for each in held) + "]"
        return " " + word(held)

    def word(held: Any) -> str:
        if isinstance(held, bool):
            return str(held).lower()
        return (f"'{held}'" if isinstance(held, str)
                and (draw(st.booleans()) or not re.fullmatch("[a-z][a-z0-9]*", held)) else str(held))

    entries = draw(st.dictionaries(NAMES, ENTRY, min_size=1, max_size=4))
    indent = draw(st.sampled_from(["  ", "    "]))
    nodes = "".join(
        f"{own_line(indent)}{indent}'{name}':{comment() if not held else value(held, indent * 2)}\n"
        for name, held in entries.items()
    )
    top = draw(st.sampled_from(["", "defaults: {user: x}\n", "groups: {}\n", "groups:\n  g: a1  # g\n"]))
    return f"# head\nversion: 1\n{top}nodes:\n{nodes}{own_line('')}"


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=tries(150))
@given(texts(), st.data())
def test_any_edit_gives_exactly_that_document_and_loses_no_comment(text: str, data: st.DataObject) -> None:
    document = read_document(text, "m.yaml")
    nodes = document["nodes"]
    for _ in range(data.draw(st.integers(1, 4))):
        name = data.draw(st.sampled_from([*nodes, "new1", "x[1-9]"]))
        kind = data.draw(st.sampled_from(["put", "put", "drop", "entry", "remove", "group"]))
        if kind == "group":
            document["groups"] = {**(document.get("groups") or {}), data.draw(WORD): "a1"}
        elif kind == "entry" or not isinstance(nodes.get(name), dict):
            nodes[name] = data.draw(ENTRY)
        elif kind == "remove" and len(nodes) > 1:
            del nodes[name]
        elif kind == "drop" and nodes[name]:
            del nodes[name][data.draw(st.sampled_from(list(nodes[name])))]
        else:
            nodes[name].update(data.draw(ENTRY))
    try:
        after = rewrite(text, document, "m.yaml")
    except InventoryError as refused:
        assert "there is a comment" in str(refused)
        return
    assert equal(read_document(after, "m.yaml"), document)
    comments = re.compile(r"(?:^|(?<=[\s]))#[^\n]*", re.MULTILINE)
    assert sorted(comments.findall(after)) == sorted(comments.findall(text))


@settings(deadline=None, max_examples=tries(200))
@given(st.dictionaries(WORD, st.text(max_size=12).filter(str.isprintable) | st.integers(
    -10**17, 10**17) | st.booleans() | WORD, min_size=1))
def test_whatever_is_rendered_is_read_as_it_was(values: dict[str, Any]) -> None:
    document = {"version": 1, "defaults": {"labels": values},
                "nodes": {"a[1-2],b": {"labels": values}, "c": None, "@g": {"leaf": list(values)}}}
    assert equal(read_document(render(document), "m.yaml"), document)


def test_writing_keeps_mode_symbolic_link_and_byte_order_mark(tmp_path: Path) -> None:
    real = tmp_path / "site" / "real.yaml"
    real.parent.mkdir()
    real.write_bytes(b"\xef\xbb\xbfold")
    real.chmod(0o640)
    link = tmp_path / "muster.yaml"
    link.symlink_to("site/real.yaml")
    given = InventoryFile.read(link)
    given.write(given.text + "er")
    assert link.is_symlink()
    assert real.read_bytes() == b"\xef\xbb\xbfolder"
    assert real.stat().st_mode & 0o7777 == 0o640
    assert [path.name for path in real.parent.iterdir()] == ["real.yaml"]


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_writing_keeps_the_owner(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("old")
    os.chown(path, 12345, 54321)
    InventoryFile.read(path).write("new")
    assert (path.stat().st_uid, path.stat().st_gid, path.read_text()) == (12345, 54321, "new")


def test_a_file_that_someone_changed_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("old")
    given = InventoryFile.read(path)
    path.write_text("mine")
    with pytest.raises(InventoryError, match="someone else changed it meanwhile"):
        given.write("new")
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]


_ADDS_LINES = """
import sys
from pathlib import Path
from inventory.inventoryfile import InventoryFile
from inventory.errors import InventoryError
done = 0
while done < 60:
    given = InventoryFile.read(Path(sys.argv[1]))
    try:
        given.write(given.text + f"# {sys.argv[2]} {done}\\n")
        done += 1
    except InventoryError as problem:
        assert "someone else changed it" in str(problem), problem
"""


def test_writers_at_the_same_time_undo_nothing_of_each_other(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("version: 1\n")
    root = Path(__file__).parents[2]
    writers = [subprocess.Popen([sys.executable, "-c", _ADDS_LINES, str(path), str(number)], cwd=root)
               for number in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    assert len(set(path.read_text().splitlines())) == 1 + 3 * 60


def test_a_file_whose_lock_another_holds_is_refused_in_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("old")
    monkeypatch.setattr("inventory.lock.SECONDS", 0.05)
    with path.open() as holder:
        fcntl.flock(holder, fcntl.LOCK_SH)
        with pytest.raises(InventoryError, match="another program holds its lock"):
            InventoryFile.read(path).write("new")
    InventoryFile.read(path).write("new")
    assert path.read_text() == "new"


def test_a_new_file_never_replaces_one(tmp_path: Path) -> None:
    path = tmp_path / "m.yaml"
    write_new(path, "one")
    with pytest.raises(InventoryError, match="exists already"):
        write_new(path, "two")
    assert path.read_text() == "one"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("make", "said"), [
    (lambda path: os.mkfifo(path), "not a regular file"),
    (lambda path: path.write_bytes(b"\xff"), "not UTF-8 text at byte 1"),
    (lambda path: None, "cannot be read: No such file"),
])
def test_what_is_no_text_file_is_not_edited(tmp_path: Path, make: Any, said: str) -> None:
    make(tmp_path / "m.yaml")
    with pytest.raises(InventoryError, match=said):
        InventoryFile.read(tmp_path / "m.yaml")
