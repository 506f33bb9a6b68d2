"""The emitters of kernel logs: their files, what is refused, and what the packaged ones know."""

from __future__ import annotations

from pathlib import Path

import pytest

from healthcheck.config import linear
from healthcheck.config.pattern import pieces
from healthcheck.kernellog.emitter import CORE, KERNEL, Emitter
from healthcheck.kernellog.emitterload import load_emitters
from healthcheck.kernellog.provenance import USER_SPACE
from inventory.errors import RulesError

RULES = Path(__file__).parents[3] / "rules"
GOOD = """\
- id: mydisk
  begins: 'mydisk\\d+: '
  subsystems: [mybus, pci]
  source: our own driver
"""


def folder(at: Path, text: str, name: str = "mine") -> Path:
    (at / "emitter").mkdir(parents=True, exist_ok=True)
    (at / "emitter" / f"{name}.yaml").write_text(text)
    return at


def test_an_emitter_is_read_and_the_core_kernel_is_always_there(tmp_path: Path) -> None:
    assert load_emitters([folder(tmp_path, GOOD)]) == {
        CORE: KERNEL, "mydisk": Emitter("mydisk", r"mydisk\d+: ", "our own driver", ("mybus", "pci"))}
    assert load_emitters([]) == load_emitters([tmp_path / "nowhere"]) == {CORE: KERNEL}


def test_a_later_folder_overrides_an_earlier_one_key_by_key(tmp_path: Path) -> None:
    later = folder(tmp_path / "b",
                   "- id: mydisk\n  begins: 'mydisk: '\n- {id: other, begins: 'other ', source: ours}\n")
    found = load_emitters([folder(tmp_path / "a", GOOD), later])
    assert found["mydisk"] == Emitter("mydisk", "mydisk: ", "our own driver", ("mybus", "pci"))
    assert list(found) == [CORE, "mydisk", "other"]


@pytest.mark.parametrize(("old", "new", "said"), [
    ("- id: mydisk\n  begins", "- begins", "1:3: id: expected a name, got nothing"),
    ("begins:", "begin:", "2:3: unknown key 'begin'; did you mean 'begins'?"),
    ("  begins: 'mydisk\\d+: '\n", "",
     "1:3: emitter mydisk: begins: expected a regular expression of 1 to 500 characters"),
    (r"'mydisk\d+: '", "''",
     "2:11: emitter mydisk: begins: expected a regular expression of 1 to 500 characters, got ''"),
    (r"'mydisk\d+: '", "7",
     "2:11: emitter mydisk: begins: expected a regular expression of 1 to 500 characters, got 7"),
    ("mydisk\\d+: ", "x" * 501,
     "2:11: emitter mydisk: begins: expected a regular expression of 1 to 500 characters"),
    (r"mydisk\d+: ", r"(?:mydisk\d+: )?",
     "2:11: emitter mydisk: begins: must begin with text that the emitter always writes"),
    (r"mydisk\d+: ", r"(?:mydisk: |)",
     "2:11: emitter mydisk: begins: must begin with text that the emitter always writes"),
    (r"mydisk\d+: ", r"\d*", "2:11: emitter mydisk: begins: must begin with text that the emitter always "
                             "writes"),
    (r"mydisk\d+: ", r".*mydisk: ",
     "2:11: emitter mydisk: begins: must begin with text that the emitter always writes"),
    (r"mydisk\d+: ", r"(?:.{1,20}|mydisk): ",
     "2:11: emitter mydisk: begins: must begin with text that the emitter always writes"),
    (r"mydisk\d+: ", r"[^:]{1,40}: ",
     "2:11: emitter mydisk: begins: must begin with text that the emitter always writes"),
    (r"mydisk\d+: ", r"(?:mydisk+)+: ", "2:11: emitter mydisk: begins: repeats a group that itself repeats"),
    (r"mydisk\d+: ", r"(?<=a)mydisk: ", "2:11: emitter mydisk: begins: looks behind, which is not allowed"),
    (r"mydisk\d+: ", "mydisk(: ", "2:11: emitter mydisk: begins: is no regular expression: missing )"),
    ("  source: our own driver\n", "", "1:3: emitter mydisk: source: expected where the prefix is written"),
    ("our own driver", "' '", "4:11: emitter mydisk: source: expected where the prefix is written, got ' '"),
    ("[mybus, pci]", "pci", "3:15: emitter mydisk: subsystems: expected a list of names, as [pci], got "
                            "'pci'"),
    ("[mybus, pci]", "[]", "3:15: emitter mydisk: subsystems: expected a list of names, as [pci], got a "
                           "list"),
    ("[mybus, pci]", "[pci, '']", "3:15: emitter mydisk: subsystems: expected a list of names"),
    ("[mybus, pci]", "[pci, 7]", "3:15: emitter mydisk: subsystems: expected a list of names"),
    ("id: mydisk", "id: kernel", "1:3: emitter kernel: is built in: the core of the kernel has no prefix"),
    (GOOD, GOOD + GOOD, "5:3: emitter mydisk is defined twice; the first is at "),
    (GOOD, "id: mydisk\n", "1:1: expected a list of emitters, got a map"),
])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in GOOD
    with pytest.raises(RulesError) as problem:
        load_emitters([folder(tmp_path, GOOD.replace(old, new, 1))])
    assert f"{tmp_path}/emitter/mine.yaml:{said}" in str(problem.value)
    assert "\n" not in str(problem.value)


def test_one_emitter_in_two_files_of_a_folder_is_a_mistake(tmp_path: Path) -> None:
    folder(tmp_path, GOOD, "a")
    with pytest.raises(RulesError,
                       match=r"b\.yaml:1:3: emitter mydisk is defined twice; the first is at .*a\.yaml:1:3"):
        load_emitters([folder(tmp_path, GOOD, "b")])


def test_a_record_of_another_subsystem_is_another_emitters_and_one_of_none_may_be_anyones() -> None:
    mine, any_ = Emitter("mine", "a", "ours", ("pci", "usb")), Emitter("any", "a", "ours")
    assert [mine.agrees(name) for name in ("pci", "usb", "", "net", "pc", "PCI")] == [
        True, True, True, False, False, False]
    assert any_.agrees("net")
    assert KERNEL.agrees("net")


def test_a_prefix_stands_at_the_start_and_the_core_kernels_is_nothing() -> None:
    mine = Emitter("mine", r"mydisk\d+: ", "ours")
    assert [found and found.end()
            for found in map(mine.prefix, ("mydisk12: a", "a mydisk12: a", "mydisk: a", "mydisk٣: a"))] == [
                10, None, None, None]
    found = KERNEL.prefix("anything")
    assert found is not None
    assert found.end() == 0


def test_the_packaged_emitters_are_linear_and_none_begins_with_anything() -> None:
    emitters = load_emitters([RULES])
    assert len(emitters) > 100
    for emitter in emitters.values():
        if emitter is KERNEL:
            continue
        linear.check(emitter.begins)
        assert len(pieces(emitter.begins)) == 1, f"{emitter.id} is cut in pieces, but matched whole"
        assert emitter.prefix("") is None


@pytest.mark.parametrize("text", [USER_SPACE, " ", "?: ", "<user>: ", "<user>[1]: ", "12:00:00 kernel: ",
                                  "[    1.000000] "])
def test_no_packaged_emitter_writes_what_someone_else_begins_with(text: str) -> None:
    begun = [emitter.id for emitter in load_emitters([RULES]).values() if emitter is not KERNEL
             and emitter.prefix(text + "x" * 40 + ": it is so")]
    assert begun == []
