"""A golden set: our nodes go out and come back to the byte; what a person took or wrote stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.store.marks import CordonMark
from inventory.nodeset import expand
from provisioning.actions.base import ActionError, Holder, number_of, reason_with_mark
from provisioning.actions.golden import GoldenSet
from provisioning.actions.hostfile import HostFile
from provisioning.actions.lines import names_of
from tests.testbed.marks import muster, plain
from tests.testbed.memory import in_memory
from tests.tries import tries


def golden(folder: Path, text: str) -> GoldenSet:
    (folder / "good").write_bytes(text.encode("utf-8", "surrogateescape"))
    return GoldenSet(folder / "good")


def text_of(file: GoldenSet) -> str:
    return file.path.read_bytes().decode("utf-8", "surrogateescape")


@pytest.mark.parametrize(
    ("before", "node", "after"),
    [("gpu007\n", "gpu007", "# muster#12: fan  gpu007\n"),
     ("a\ngpu007  # row 9\r\nb\n", "gpu007", "a\n# muster#12: fan  gpu007  # row 9\r\nb\n"),
     ("gpu[001-512]\n", "gpu007", "gpu[001-006,008-512]\n# muster#12: fan  gpu007 of gpu[001-512]\n"),
     ("  gpu[001-512] , cpu[1-2]\t# all\n", "cpu1", None),
     ("\tgpu[001-512],cpu[1-2]\t# all\n", "cpu1",
      "\tgpu[001-512],cpu2\t# all\n# muster#12: fan  cpu1 of \tgpu[001-512],cpu[1-2]\n"),
     ("gpu[1-2] gpu[2-3]\n", "gpu2", "gpu1 gpu3\n# muster#12: fan  gpu2 of gpu[1-2] gpu[2-3]\n"),
     ("gpu[5-6],gpu[1-2]\ngpu1\n", "gpu1",
      "gpu[5-6],gpu2\n# muster#12: fan  gpu1 of gpu[5-6],gpu[1-2]\n# muster#12: fan  gpu1\n")])
def test_a_node_goes_out_of_every_line_and_nothing_else_changes(
    tmp_path: Path, before: str, node: str, after: str | None,
) -> None:
    file = golden(tmp_path, before)
    if after is None:
        with pytest.raises(ActionError, match="good:1: "):
            file.isolate(node, "muster#12: fan")
        assert text_of(file) == before
        return
    file.isolate(node, "muster#12: fan")
    assert text_of(file) == after
    held = file.held([node])[node]
    assert (held.holder, held.reason, held.number) == (Holder.US, "muster#12: fan", 12)
    file.release(node)
    assert text_of(file) == before and file.held([node])[node].holder is Holder.NO_ONE


def test_all_nodes_of_a_set_may_go_and_come_back_in_any_order(tmp_path: Path) -> None:
    file = golden(tmp_path, "# ours\n gpu[1-3]  # the row\nspare\n")
    for at, node in enumerate(("gpu2", "gpu1", "gpu3", "spare"), 1):
        file.isolate(node, f"muster#{at}: x")
    assert {held.holder for held in file.held(["gpu1", "gpu2", "gpu3", "spare"]).values()} == {Holder.US}
    assert [line for line in text_of(file).split("\n") if names_of(line, file.path)] == []
    for node in ("gpu1", "spare", "gpu3", "gpu2"):
        file.release(node)
    assert text_of(file) == "# ours\n gpu[1-3]  # the row\nspare\n"


def test_what_is_not_in_the_set_and_has_no_comment_of_ours_is_others(tmp_path: Path) -> None:
    file = golden(tmp_path,
                  "gpu1\n"
                  "# gpu2 is out, fan\n"
                  "# muster#0: x  gpu3\n"
                  "#muster#4: x  gpu4\n"
                  "# muster#5: x gpu5\n"
                  "# muster#6: x  gpu[6\n")
    held = file.held([f"gpu{n}" for n in range(1, 7)])
    assert held.pop("gpu1").holder is Holder.NO_ONE
    assert {(one.holder, one.reason, one.number) for one in held.values()} == {
        (Holder.OTHERS, "it is not in good", None)}
    before = text_of(file)
    for node in held:
        file.release(node)
    assert text_of(file) == before


def test_a_node_that_a_person_has_put_back_is_no_ones_and_can_go_out_again(tmp_path: Path) -> None:
    file = golden(tmp_path, "gpu1\ngpu2\n")
    file.isolate("gpu1", "muster#1: x")
    file.path.write_text(text_of(file) + "gpu1\n")
    assert file.held(["gpu1"])["gpu1"].holder is Holder.NO_ONE
    file.isolate("gpu1", "muster#2: y")
    assert text_of(file) == "gpu2\n# muster#2: y  gpu1\n"


@pytest.mark.parametrize(("edited", "after"), [
    ("gpu[001,003-009]", "gpu[001,003-009],gpu002"),      # more nodes: ours comes to them
    ("gpu[002-004]", "gpu[002-004]"),                     # a person has put it back already
    ("cpu1", "cpu1"),                                     # the whole set went: it stays out
    ("", ""),
])
def test_a_line_that_a_person_has_edited_meanwhile_is_kept_as_they_want_it(
    tmp_path: Path, edited: str, after: str,
) -> None:
    file = golden(tmp_path, "gpu[001-004]\n")
    file.isolate("gpu002", "muster#1: x")
    file.path.write_text(text_of(file).replace("gpu[001,003-004]", edited))
    file.release("gpu002")
    assert text_of(file) == f"{after}\n"


def test_a_comment_that_a_person_writes_between_parts_nothing(tmp_path: Path) -> None:
    file = golden(tmp_path, "spare\ngpu[001-004]\n")
    for at, node in enumerate(("gpu002", "gpu004"), 1):
        file.isolate(node, f"muster#{at}: x")
    file.path.write_text(
        text_of(file).replace("gpu[001,003]\n", "gpu[001,003]\n# they come back on Friday\n\n"))
    for node in ("gpu002", "gpu004"):
        file.release(node)
    assert text_of(file) == "spare\ngpu[001-004]\n# they come back on Friday\n\n"


def test_the_mode_and_a_link_to_the_file_stay(tmp_path: Path) -> None:
    file = golden(tmp_path, "gpu2  # \x0c\udcff\x85\r\ngpu1\n")
    file.path.chmod(0o664)
    (tmp_path / "link").symlink_to("good")
    linked = GoldenSet(tmp_path / "link")
    linked.isolate("gpu2", "muster#1: x")
    linked.isolate("gpu1", "muster#2: x")
    linked.release("gpu2")
    linked.release("gpu1")
    assert (text_of(file) == "gpu2  # \x0c\udcff\x85\r\ngpu1\n" and linked.path.is_symlink()
            and file.path.stat().st_mode & 0o777 == 0o664)


def test_no_file_is_no_empty_set(tmp_path: Path) -> None:
    file = GoldenSet(tmp_path / "good")
    for action in (lambda: file.held(["gpu1"]), lambda: file.isolate("gpu1", "muster#1: x"),
                 lambda: file.release("gpu1")):
        with pytest.raises(
            ActionError, match="good: no such file; write the nodes that jobs may use into it"):
            action()
    assert not file.path.exists()


def test_a_set_with_operators_is_read_and_not_edited(tmp_path: Path) -> None:
    file = golden(tmp_path, "gpu[1-9]!gpu3\n")
    assert [held.holder for held in file.held(["gpu2", "gpu3"]).values()] == [Holder.NO_ONE, Holder.OTHERS]
    with pytest.raises(ActionError, match="with !, & or \\^ cannot be edited"):
        file.isolate("gpu2", "muster#1: x")


def test_the_command_keeps_a_golden_set(tmp_path: Path) -> None:
    (tmp_path / "good").write_text("gpu[001-004]  # the row\n")
    done = muster("cordon", "gpu[003-005]", "--reason", "slow  link", "--golden", "good", home=tmp_path)
    assert (done.returncode, done.stderr) == (0, "") and done.stdout.splitlines() == [
        "gpu003: cordoned in golden as muster#1", "gpu004: cordoned in golden as muster#2",
        "gpu005: left alone, others hold it: it is not in good"]
    assert plain((tmp_path / "good").read_text()) == (
        "gpu[001-002]  # the row\n"
        "# muster#2: slow link  gpu004 of gpu[001-004]\n"
        "# muster#1: slow link  gpu003 of gpu[001-004]\n")
    done = muster("uncordon", "gpu[003-005]", "--golden", "good", home=tmp_path)
    assert done.returncode == 1 and (tmp_path / "good").read_text() == "gpu[001-004]  # the row\n"
    assert "gpu005: there is no cordon of ours; others hold it: it is not in good\n" in done.stdout


# any file, any order

NAMES = [f"n{at}" for at in range(1, 10)]
SETS = st.sampled_from([*NAMES[:5], "n[1-3]", "n[2-6]", "n[7-9]", "n[1,3,5]", "n[8-9]", "n[1-9]"])
LINE = st.builds("{}{}{}".format, st.sampled_from(["", " ", "\t"]),
                 st.lists(SETS, max_size=3).map(",".join) | st.lists(SETS, max_size=2).map(" ".join),
                 st.sampled_from(["", "  # by hand", "#", " # muster#0: x  n1", "\r", " # \udcff\x0c"]))
REASON = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)


@settings(max_examples=tries(400), deadline=None)
@given(lines=st.lists(LINE, max_size=6), order=st.permutations(NAMES), back=st.permutations(NAMES),
       number=st.integers(1, 9), reason=REASON)
def test_whatever_goes_out_in_any_order_comes_back_in_any_other_to_the_byte(
    lines: list[str], order: list[str], back: list[str], number: int, reason: str,
) -> None:
    before = "".join(f"{line}\n" for line in lines)
    with in_memory() as folder:
        file = golden(Path(folder), before)
        inside = {
            name for line in lines
            for name in expand(line.partition("#")[0].strip().replace(" ", ",") or "none")}
        gone = [node for node in order[:number] if node in inside]
        for at, node in enumerate(gone, 1):
            file.isolate(node, reason_with_mark(CordonMark("", at), reason))
            held = file.held(NAMES)
            assert [name for name in NAMES if held[name].holder is Holder.US] == sorted(gone[:at])
            assert {name for name in NAMES if held[name].holder is Holder.NO_ONE} == (
                inside & set(NAMES)) - set(gone[:at])
            assert number_of(held[node].reason) == at
        for node in (node for node in back if node in gone):
            file.release(node)
            assert file.held([node])[node].holder is Holder.NO_ONE
        assert text_of(file) == before


@pytest.mark.parametrize("kind", [HostFile, GoldenSet])
def test_a_file_that_begins_with_a_byte_order_mark_is_read_and_keeps_it(
    tmp_path: Path, kind: type[HostFile] | type[GoldenSet],
) -> None:
    path = tmp_path / "hosts"
    before = b"\xef\xbb\xbfgpu1\r\ngpu2\r\n"
    path.write_bytes(before)
    file, other = kind(path), Holder.OTHERS if kind is HostFile else Holder.NO_ONE
    assert {held.holder for held in file.held(["gpu1", "gpu2"]).values()} == {other}
    node = "gpu3" if kind is HostFile else "gpu1"
    file.isolate(node, "muster#12: fan")
    assert file.held([node])[node].holder is Holder.US and path.read_bytes().startswith(b"\xef\xbb\xbf")
    file.release(node)
    assert path.read_bytes() == before


@pytest.mark.parametrize("kind", [HostFile, GoldenSet])
def test_a_line_that_names_no_node_is_reported_with_its_number(
    tmp_path: Path, kind: type[HostFile] | type[GoldenSet],
) -> None:
    path = tmp_path / "hosts"
    path.write_text("gpu1\n# all of row 9\ngpu2 slots=8\n")
    for ask in (lambda: kind(path).held(["gpu1"]), lambda: kind(path).isolate("gpu1", "muster#12: fan")):
        with pytest.raises(ActionError, match="hosts:3: "):
            ask()
