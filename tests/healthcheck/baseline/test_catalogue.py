"""The catalogue of known faults: its form, what it refuses, which entry wins, and that no line can make it
slow."""

from __future__ import annotations

import json
import random
import re
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.baseline.catalogue import _WITHOUT_RUNS, Catalogue, CompiledEntry
from healthcheck.baseline.catalogueload import load_catalogue
from healthcheck.config import linear
from healthcheck.config.codec import from_plain, to_plain
from healthcheck.config.pattern import Pattern, pieces
from healthcheck.kernellog import masking
from healthcheck.kernellog.emitter import Emitter
from healthcheck.kernellog.ending import Ending, EndKind
from healthcheck.kernellog.model import CatalogueEntry
from healthcheck.kernellog.quoting import COMM, USER, messages
from healthcheck.model.outcome import Severity
from inventory.errors import RulesError
from tests import packagedrules
from tests.command import muster
from tests.healthcheck.baseline.packaged import part

ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@cache
def packaged() -> Catalogue:
    assert packagedrules.RULES.kernel is not None
    return Catalogue(packagedrules.RULES.kernel.catalogue.entries)


@cache
def indexed() -> Catalogue:
    """The same, after so many texts that it looks for words by their runs."""
    made = Catalogue(packaged().entries)
    for number in range(_WITHOUT_RUNS + 1):
        made.find(f"text {number}")
    return made


def examples() -> list[tuple[CatalogueEntry, str]]:
    return [(entry, line) for entry in packaged().entries for line in entry.examples]


@cache
def each() -> list[CompiledEntry]:
    return [CompiledEntry(entry) for entry in packaged().entries]


def plain(text: str) -> CatalogueEntry | None:
    """What the catalogue is to find, by trying every entry."""
    found = []
    for message in messages(text):
        known = sorted((known.entry for known in each() if known.knows(message)),
                       key=lambda entry: ORDER.index(entry.severity))
        own = [entry for entry in known if not {other.id for other in known} & set(entry.yields)]
        found += (own or known)[:1]
    return min(found, key=lambda entry: ORDER.index(entry.severity), default=None)


# A number that stands alone, and the digits of a hexadecimal one. Not the number of systemd's process, by
# which a user's own is told apart.
_NUMBER = re.compile(r"(?<![\w-])(?<!^systemd\[)[0-9]+(?!\w)|(?<=\b0x)[0-9a-f]+(?!\w)")


def another(line: str, chance: random.Random) -> str:
    """A line of the same template: numbers of as many digits stand where the masks hide them."""
    made, at = masking.template(line), 0
    while found := _NUMBER.search(line, at):
        number = "".join(chance.choice("01234567") if sign.isdigit() else sign for sign in found[0])
        other = line[:found.start()] + number + line[found.end():]
        line, at = other if masking.template(other) == made else line, found.end()
    return line


# What the packaged entries hold.

def test_there_are_hundreds_of_entries_and_each_id_stands_once() -> None:
    ids = [entry.id for entry in packaged().entries]
    assert len(ids) >= 450 and len(set(ids)) == len(ids)


def test_an_example_is_found_as_bad_as_its_entry_is() -> None:
    wrong = [(entry.id, line) for entry, line in examples() if (found := packaged().find(line)) is None
             or ORDER.index(found.severity) > ORDER.index(entry.severity)]
    assert wrong == []


def test_lines_of_one_template_are_all_known_or_none() -> None:
    chance = random.Random(8)
    others = [(entry, line, another(line, chance)) for entry, line in examples()]
    assert sum(line != other for _, line, other in others) > len(others) / 2
    assert [(entry.id, other) for entry, _, other in others
            if not any(map(CompiledEntry(entry).knows, messages(other)))] == []


def test_each_entry_says_how_its_fault_ends_and_who_writes_its_lines() -> None:
    assert {entry.ending.ends for entry in packaged().entries} == set(EndKind)
    assert [entry.id for entry in packaged().entries if not entry.emitters or not entry.ending.proofs] == []


@pytest.mark.parametrize("before", [
    "x ", "\t", "<6>", "[   12.345678] ", "(udev-worker)[312]: ", "python3[77]: ", "it was told long ago: ",
    "mydisk: so it says: ", "0x18 ",
])
def test_an_entry_knows_no_line_in_which_its_message_stands_further_on(before: str) -> None:
    """What comes before may be the name of a process, in lines that begin with one: no one takes it for more
    than that."""
    shown = [(entry, line, message)
            for entry, line in examples() for message in messages(before + line)
            if CompiledEntry(entry).knows(message)]
    assert [(entry.id, line) for entry, line, message in shown if not message.startswith(USER)
            and entry.severity is not Severity.INFO] == []
    assert [(entry.id, line) for entry, line, _ in shown if entry.severity is not Severity.INFO
            and len(before.encode()) > COMM + 2] == []


def test_what_a_process_can_call_itself_is_no_fault_in_a_line_of_any_form() -> None:
    lines = {line.encode()[:COMM].decode(errors="ignore") for _, line in examples()}
    wrong = [(name, end, found.id) for name in lines
             for end in (" (77) does what nobody has heard of", "[77]: it is so: 5", ": 0x18, 4")
             if (found := packaged().find(name + end)) is not None and found.severity is not Severity.INFO]
    assert wrong == []


@pytest.mark.parametrize(("line", "severity"), [
    ("NVRM: Xid (PCI:0000:1b:00): 63, pid=77, name=python3, Row Remapper: New row marked for remapping",
     Severity.CRITICAL),
    ("nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 22013, Non-fatal, Link 61 minion ALARM", Severity.CRITICAL),
    ("NVRM: GPU 0000:9b:00.0: RmInitAdapter failed! (0x25:0x65:1477)", Severity.CRITICAL),
    ("mlx5_core 0000:9b:00.0: wait_func:1151:(pid 9): QUERY_VPORT_COUNTER(0x770) timeout. Will cause a leak "
     "of a command resource",
     Severity.CRITICAL),
    ("mlx5_core 0000:9b:00.0: Port module event[error]: module 3, Cable error, Bus stuck(I2C or data "
     "shorted)", Severity.CRITICAL),
    ("NETDEV WATCHDOG: enp3s0 (r8169): transmit queue 0 timed out", Severity.WARNING),
    ("pcieport 0000:10:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver "
     "ID)", Severity.CRITICAL),
    ("DMAR: [DMA Write] Request device [81:00.0] fault addr 7f0000 [fault reason 05] PTE Write access is not "
     "set", Severity.WARNING),
    ("sd 1:0:3:0: [sdf] tag#77 Sense Key : Medium Error [current] [descriptor] ", Severity.CRITICAL),
    ("EXT4-fs error (device nvme3n1p2): __ext4_iget:5080: inode #12: block 77: comm rm: invalid block",
     Severity.CRITICAL),
    ("md/raid10:md3: Disk failure on nvme5n1p1, disabling device.", Severity.CRITICAL),
    ("WARNING: Pool 'scratch' has encountered an uncorrectable I/O failure and has been suspended.",
     Severity.CRITICAL),
])
def test_a_fault_of_each_class_is_known(line: str, severity: Severity) -> None:
    found = packaged().find(line)
    assert found is not None and found.severity is severity


@pytest.mark.parametrize("line", [
    "mlx5_core 0000:9b:00.0: Rate limit: 127 rates are supported",
    "pcieport 0000:00:01.0: AER: enabled with IRQ 34",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03",
    "nvme nvme0: missing or invalid SUBNQN field.", "nvme nvme0: Shutdown timeout set to 10 seconds",
    "md/raid1:md0: active with 2 out of 2 mirrors", "XFS (sda1): Ending clean mount",
    "mlx5_core 0000:9b:00.0: mlx5_pcie_event:301:(pid 8): PCIe slot advertised sufficient power (75W).",
    "pcieport 0000:00:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+ "
    "RP PIO Log 4, DL_ActiveErr+",
    "DMAR: DRHD base: 0x000000fbffc000 flags: 0x0", "AMD-Vi: Interrupt remapping enabled", "scsi host0: ahci",
])
def test_what_healthy_machines_say_of_the_same_devices_is_left_alone(line: str) -> None:
    assert packaged().find(line) is None


# Which entry wins.

def made(name: str, match: str, severity: Severity = Severity.WARNING, **more: Any) -> CatalogueEntry:
    first = packaged().entries[0]
    return CatalogueEntry(name, match, severity, first.meaning, first.remedy, first.owner, first.source, (),
                          needs=linear.required_words(match), **more)


def named(entries: tuple[CatalogueEntry, ...], text: str) -> str | None:
    return getattr(Catalogue(entries).find(text), "id", None)


def test_the_worst_wins_and_of_equals_the_first() -> None:
    entries = (made("info", "one disk is gone", Severity.INFO), made("one", "one disk is gone: sd"),
               made("two", "one disk is gone: "), made("bad", "one disk is gone: s", Severity.CRITICAL))
    assert named(entries, "one disk is gone: sda") == "bad"
    assert named(entries[:3], "one disk is gone: sda") == "one"
    assert named(entries[:3], "one disk is gone: hda") == "two"
    assert named(entries[:3], "one disk is gone") == "info"
    assert named(entries, "one dist is gone: sda") is None


def test_a_message_is_known_from_its_start_alone() -> None:
    entries = (made("one", "one disk is gone"), made("two", "one disk .*is lost"))
    assert [named(entries, line) for line in ("one disk is gone: sda", "one disk of two is lost")] == [
        "one", "two"]
    assert [named(entries, line)
            for line in ("a: one disk is gone", " one disk is gone", "the one disk is lost")] == [None] * 3


def test_what_fits_into_a_process_name_is_enough_only_where_the_line_ends_with_it() -> None:
    entries = (made("short", "disk is gone"), made("as-long", "disk-is-gone-now"),
               made("tail", "bus .*is gone"))
    assert len("disk-is-gone-now") == COMM + 1
    assert [named(entries, line) for line in ("disk is gone", "disk is gone[77]: ok")] == ["short", None]
    assert [named(entries, line) for line in ("disk-is-gone-now", "disk-is-gone-now and ever")] == [
        "as-long"] * 2
    assert [named(entries, line) for line in ("bus 1 is gone", "bus 1 is gone[77]: ok",
                                              "bus 12345 is gone[77]: ok")] == ["tail", None, "tail"]


def test_an_entry_holds_behind_the_prefix_of_one_of_its_emitters_and_behind_no_other() -> None:
    mine, other = Emitter("mine", r"mydisk\d+: ", "ours"), Emitter("other", r"bus (?:\d+: )?", "ours")
    one = (made("one", "is gone for good", emitters=(mine, other)),)
    assert [named(one, line) for line in ("mydisk3: is gone for good", "bus 3: is gone for good",
                                          "bus is gone for good")] == ["one"] * 3
    assert [named(one, line) for line in ("is gone for good", "mydisk: is gone for good",
                                          "mydisk3: it is gone for good")] == [None] * 3
    catalogue = Catalogue(one)
    assert [catalogue.emitter(one[0], line) for line in ("bus 3: is gone for good", "no")] == [other, None]


def test_an_entry_yields_to_one_that_says_more_of_a_line_which_both_know() -> None:
    rough = made("rough", "one disk is gone", Severity.CRITICAL, yields=("fine",))
    fine = made("fine", "one disk is gone: sd", Severity.INFO)
    assert named((rough, fine), "one disk is gone: sda") == named(
        (fine, rough), "one disk is gone: sda") == "fine"
    assert named((rough, fine), "one disk is gone: hda") == "rough"
    assert named((rough, made("fine", "another disk is gone", Severity.INFO)),
                 "one disk is gone: sda") == "rough"


def test_entries_that_yield_to_each_other_hide_no_fault() -> None:
    one, two = (made("one", "one disk is gone", yields=("two",)),
                made("two", "one disk is gone", Severity.CRITICAL, yields=("one",)))
    assert named((one, two), "one disk is gone: sda") == "two"


def test_a_fault_in_any_message_of_a_record_is_found_and_what_follows_a_users_line_feed_is_none() -> None:
    entries = (made("one", "mydisk: it is gone for good"),
               made("bad", "mydisk: and so is its array", Severity.CRITICAL))
    assert named(entries, "mydisk: it is gone for good\nmydisk: and so is its array") == "bad"
    assert named(entries, "mydisk: all is well\nmydisk: it is gone for good") == "one"
    assert named(entries, "bus: all is well\nmydisk: it is gone for good") is None
    assert named(entries, "all is well\nmydisk: it is gone for good") is None


def test_what_unless_holds_is_left_to_other_entries() -> None:
    entries = (made("bad", "one disk is gone", Severity.CRITICAL, unless="floppy"),
               made("mild", "one disk is gone"))
    assert [named(entries, line) for line in ("one disk is gone", "one disk is gone: floppy")] == [
        "bad", "mild"]
    quiet = (made("bad", "is gone for good", unless="disk", emitters=(Emitter("mine", "mydisk: ", "ours"),)),)
    assert named(quiet, "mydisk: is gone for good") == "bad", "unless holds behind the prefix"


def test_an_entry_that_is_disabled_knows_nothing_and_is_there_to_be_explained() -> None:
    catalogue = Catalogue((made("one", "disk", disabled="disabled in x.yaml"),))
    assert catalogue.find("disk") is None and catalogue.by_id("one") is not None
    assert named((made("one", "disk"),), "disk") == "one"


@settings(deadline=None)
@given(st.lists(st.sampled_from([line for _, line in examples()]), min_size=1, max_size=2),
       st.integers(0, 60), st.integers(0, 8), st.booleans(),
       st.sampled_from(["", " ", "\x1b[2J\x00", "ſK", "İ"]))
def test_looking_for_words_first_hides_nothing(
    lines: list[str], cut: int, pad: int, upper: bool, junk: str,
) -> None:
    text = "~" * pad + junk + " ".join(lines)[cut:]
    text = text.upper() if upper else text
    assert packaged().find(text) == plain(text) == indexed().find(text)


def test_the_first_texts_are_asked_for_every_word_and_later_ones_by_runs() -> None:
    fresh = Catalogue(packaged().entries)
    assert all(fresh.find(line) == packaged().find(line) for _, line in examples()[:_WITHOUT_RUNS])
    assert "_index" not in vars(fresh)
    assert all(fresh.find(line) == packaged().find(line) for _, line in examples()[_WITHOUT_RUNS:])
    assert "_index" in vars(fresh)


@settings(deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_looked_through(data: bytes) -> None:
    packaged().find(data.decode("utf-8", "surrogateescape"))


def test_a_line_of_a_megabyte_is_looked_at_as_far_as_the_kernel_writes_one() -> None:
    start = time.process_time()
    assert packaged().find("nvme nvme0: " + "x" * 1_000_000) is None
    assert getattr(packaged().find("nvme nvme0: Abort status: 0x371" + "y" * 1_000_000), "id",
                   None) == "nvme-abort-status"
    assert time.process_time() - start < 1
    one = (made("one", "one disk .*is gone"),)
    assert [named(one, f"one disk {'x' * count} is gone") for count in (8000, 8192)] == ["one", None]


def test_the_catalogue_travels_to_a_node_and_is_the_same_there() -> None:
    there = from_plain(Catalogue, json.loads(json.dumps(to_plain(packaged()))))
    assert (there == packaged()
            and all(there.find(line) == packaged().find(line) for _, line in examples()[::20]))


# Time.

def test_searching_is_many_times_faster_than_a_list_of_the_same_patterns() -> None:
    lines = (Path(__file__).parent / "healthy.txt").read_text().splitlines()
    patterns = [re.compile(entry.match, re.ASCII) for entry in packaged().entries]

    def took(run: Any) -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    ours = min(took(lambda: [indexed().find(line) for line in lines]) for _ in range(3))
    theirs = took(lambda: [pattern.search(line) for line in lines[::10] for pattern in patterns]) * 10
    assert ours * 8 < theirs


def sample(tree: Any) -> Iterator[str]:
    """The parts of a text that the tree matches."""
    for op, value in tree:
        name = str(op)
        if name == "LITERAL":
            yield chr(value)
        elif name in ("MAX_REPEAT", "MIN_REPEAT"):
            yield from [*sample(value[2])] * max(value[0], min(int(value[1]), 3))
        elif name == "SUBPATTERN":
            yield from sample(value[3])
        elif name == "BRANCH":
            yield from sample(value[1][-1])
        elif name in ("ANY", "NOT_LITERAL"):
            yield "a"
        elif name == "IN":
            yield next(chr(code) for code in (*b"a1 A-=:", *range(33, 127))
                       if linear._set(op, value, caseless=False) & 1 << code)


def hostile(piece: str) -> list[str]:
    """Beginnings of what a piece matches, to be repeated: each makes it start over and over without ever
    coming to its end."""
    parts = list(sample(linear._tree(piece)))
    return ["".join(parts[:length]) for length in {len(parts) // 3, len(parts) * 2 // 3, len(parts) - 1}
            if length > 0]


def seconds(search: Any, text: str) -> float:
    start = time.process_time()
    search(text)
    return time.process_time() - start


def slow(piece: str) -> list[str]:
    """The texts of 8,000 characters that take it far more than eight times as long as those of 1,000, each
    time that it is measured."""
    search = re.compile(piece, re.ASCII).search

    def seems_slow(part: str) -> bool:
        longer = seconds(search, (part * 8000)[:8000])
        # A search that takes less than this is not slow, whatever the clock says of a shorter one.
        return longer > 0.5 or (longer > 0.001 and longer > 20 * seconds(search, (part * 1000)[:1000]))

    return [part for part in hostile(piece) if all(seems_slow(part) for _ in range(5))]


@pytest.mark.parametrize("every", [8, pytest.param(1, marks=pytest.mark.slow)])     # `linear.check` asks all
def test_no_pattern_takes_more_than_linear_time(every: int) -> None:
    assert [(entry.id, piece, parts) for entry in packaged().entries[::every]
            for pattern in (entry.match, entry.unless) if pattern for piece in pieces(pattern)
            if (parts := slow(piece))] == []


def test_the_measure_of_time_finds_a_pattern_that_is_slow() -> None:
    assert slow("disk .*gone") and not slow("disk .{0,99}gone")


@pytest.mark.parametrize(("pattern", "said"), [
    ("(a+)+ sorry", "repeats a group that itself repeats"),
    ("(?:a|ab)* sorry", "repeats a group that itself repeats or has alternatives"),
    (r"disk \S+:\S+ gone", "two repeats can share characters"),
    ("disk [a-c]+[b-d]+[c-e]+ gone", "two repeats can share characters"),
    (r"disk (\w)\1", "groupref"), ("(?<=disk )gone", "looks behind"),
    (r"disk (?P<n>\w+) (?(n)gone|back)", "groupref"),
])
def test_what_could_be_slow_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(linear.TooSlow, match=said):
        linear.check(pattern)


@pytest.mark.parametrize("pattern", [r"disk \S+ \d+ gone", "disk .* on .* gone .* at", r"a\+b.*c",
                                     "[^]]+ disk", "(?i)disk .*(?:gone|lost)", "disk (?:a.*b|c)",
                                     "disk .{0,80} at .{0,80} gone", r"disk(?: \d{4}){2,} gone"])
def test_what_is_linear_is_taken(pattern: str) -> None:
    linear.check(pattern)


@settings(deadline=None)
@given(st.sampled_from(list(packaged().entries)), st.integers(0, 40))
def test_pieces_find_what_the_whole_pattern_would(entry: CatalogueEntry, cut: int) -> None:
    for line in (line for _, line in examples()[::40]):
        assert Pattern(entry.match).found(line[cut:]) == bool(re.search(entry.match, line[cut:], re.ASCII))
    for line in entry.examples:
        assert Pattern(entry.match).found(line[cut:]) == bool(re.search(entry.match, line[cut:], re.ASCII))
        assert (Pattern(entry.match).begins(line, cut) >= cut) == bool(
            re.compile(entry.match, re.ASCII).match(line, cut))


# Files.

GOOD = """- id: my-fault
  match: 'mydisk \\d+ gone'
  severity: critical
  meaning: A disk is gone.
  remedy: Replace it.
  owner: operator
  source: our own driver
  examples: ['mydisk 7 gone']
  from: kernel
  ends: repair
"""
MINE = """- id: mydisk
  begins: 'mydisk\\d+: '
  source: our own driver
"""


def folder(tmp_path: Path, text: str, name: str = "mine") -> Path:
    (tmp_path / "kernel").mkdir(parents=True, exist_ok=True)
    (tmp_path / "kernel" / f"{name}.yaml").write_text(text)
    return tmp_path


@pytest.fixture(scope="module")
def shipped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return part(tmp_path_factory.mktemp("shipped"))


def test_a_sites_entry_goes_before_those_that_ship(shipped: Path, tmp_path: Path) -> None:
    text = GOOD.replace("my-fault", "our-nvme").replace(r"mydisk \d+ gone", "Abort status").replace(
        "mydisk 7 gone", "nvme nvme0: Abort status: 0x7")
    text = text.replace("from: kernel", "from: nvme")
    found = load_catalogue([shipped, folder(tmp_path, text.replace("critical", "warning"))]).find(
        "nvme nvme0: Abort status: 0x371")
    assert found is not None and (found.id, found.group) == ("our-nvme", "mine")


def test_a_sites_entry_names_an_emitter_of_its_own_and_how_it_ends(shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "emitter").mkdir()
    (tmp_path / "emitter" / "mine.yaml").write_text(MINE)
    text = GOOD.replace("from: kernel", "from: [nvme, mydisk]").replace(
        "ends: repair", "ends: quiet 3d").replace(r"mydisk \d+ gone", "drive is gone")
    catalogue = load_catalogue(
        [shipped, folder(tmp_path, text.replace("mydisk 7 gone", "mydisk7: drive is gone"))])
    entry = catalogue.by_id("my-fault")
    assert entry is not None and [one.id for one in entry.emitters] == ["nvme", "mydisk"]
    assert entry.ending == Ending(EndKind.QUIET, 72)
    assert [getattr(catalogue.find(line), "id", None)
            for line in ("mydisk8: drive is gone", "nvme nvme0: drive is gone", "drive is gone")] == [
                "my-fault", "my-fault", None]


def test_a_site_has_an_entry_yield_to_another(tmp_path: Path) -> None:
    fine = GOOD.replace("my-fault", "fine").replace(r"\d+ gone", r"7 gone").replace("critical", "info")
    catalogue = load_catalogue([folder(tmp_path, GOOD + "  yields: [fine]\n" + fine)])
    assert [getattr(catalogue.find(line), "id", None) for line in ("mydisk 7 gone", "mydisk 8 gone")] == [
        "fine", "my-fault"]


def test_an_emitter_without_a_word_of_its_own_gives_its_entries_none(tmp_path: Path) -> None:
    (tmp_path / "emitter").mkdir()
    (tmp_path / "emitter" / "mine.yaml").write_text(MINE.replace(r"mydisk\\d+: ", r"\\d+-\\d+: "))
    text = GOOD.replace("from: kernel", "from: mydisk").replace(r"mydisk \d+ gone", r"\d+ \w \d+").replace(
        "mydisk 7 gone", "mydisk7: 123456789 a 5")
    (tmp_path / "emitter" / "mine.yaml").write_text(MINE)
    entry = load_catalogue([folder(tmp_path, text)]).by_id("my-fault")
    assert entry is not None and entry.needs == (("mydisk",),)
    (tmp_path / "emitter" / "mine.yaml").write_text(MINE.replace("mydisk\\d", "\\d+-\\d"))
    with pytest.raises(RulesError, match="match: requires no word of 3 characters"):
        load_catalogue([folder(tmp_path, text)])


def test_a_site_changes_an_entry_key_by_key_and_switches_one_off(shipped: Path, tmp_path: Path) -> None:
    text = "- {id: nvme-down, severity: warning}\n- {id: nvme-abort-status, enabled: false}\n"
    catalogue = load_catalogue([shipped, folder(tmp_path, text)])
    changed, off = catalogue.by_id("nvme-down"), catalogue.by_id("nvme-abort-status")
    assert changed is not None and off is not None
    assert (changed.severity, changed.group, changed.line, changed.overridden) == (
        Severity.WARNING, "nvme", 1, (str(shipped / "kernel" / "nvme.yaml"),))
    assert (off.disabled == f"disabled in {tmp_path}/kernel/mine.yaml"
            and catalogue.find("nvme nvme0: Abort status: 0x371") is None)


@pytest.mark.parametrize(("old", "new", "said"), [
    ("severity: critical", "severity: critcal",
     "3:13: entry my-fault: severity: expected one of info, warning, critical; got 'critcal'; "
     "did you mean 'critical'?"),
    ("  severity: critical\n", "",
     "1:3: entry my-fault: severity: is missing: expected one of info, warning, critical"),
    ("meaning:", "meanin:", "4:3: unknown key 'meanin'; did you mean 'meaning'?"),
    ("remedy: Replace it.", "remedy: []", "5:11: entry my-fault: remedy: expected a sentence, got a list"),
    ("'mydisk 7 gone'", "'mydisk 7 here'",
     "8:13: entry my-fault: examples: match does not match 'mydisk 7 here'"),
    ("  owner", "  unless: 7\n  owner", "6:11: entry my-fault: unless: expected a regular expression, got 7"),
    ("  owner", "  unless: '\\d gone'\n  owner",
     "9:13: entry my-fault: examples: unless excludes 'mydisk 7 gone'"),
    (r"mydisk \d+ gone", "(?:mydisk+)+ gone",
     "2:10: entry my-fault: match: repeats a group that itself repeats"),
    (r"mydisk \d+ gone", "mydisk ( gone", "2:10: entry my-fault: match: is no regular expression: missing )"),
    (r"mydisk \d+ gone", r"\w \d+ \w", "2:10: entry my-fault: match: requires no word of 3 characters"),
    ("my-fault", "My Fault", "1:7: id: expected small letters, digits and hyphens, as nvme-timeout, got 'My "
                             "Fault'"),
    ("  owner", "  xid: gpu\n  owner", "6:8: entry my-fault: xid: expected one of xid, sxid, got 'gpu'"),
    ("  owner", "  repair: pray\n  owner",
     "6:11: entry my-fault: repair: expected one of watch, restart-service"),
    ("  owner", "  enabled: perhaps\n  owner",
     "6:12: entry my-fault: enabled: expected true or false, got 'perhaps'"),
    ("  from: kernel\n", "",
     "1:3: entry my-fault: from: is missing: expected the id of the emitter (emitter/*.yaml), or kernel"),
    ("from: kernel", "from: kernl",
     "9:9: entry my-fault: from: there is no emitter 'kernl'; did you mean 'kernel'?"),
    ("from: kernel", "from: [kernel, mydisk]", "9:9: entry my-fault: from: there is no emitter 'mydisk'"),
    ("from: kernel", "from: []", "9:9: entry my-fault: from: expected an emitter or a list, got a list"),
    ("from: kernel", "from: 7", "9:9: entry my-fault: from: expected an emitter or a list, got 7"),
    ("  ends: repair\n", "", "1:3: entry my-fault: ends: is missing: expected boot, reset, repair, or quiet "
                             "with hours or days, as in quiet 24h"),
    ("ends: repair", "ends: never", "10:9: entry my-fault: ends: expected boot, reset, repair, or quiet with "
                                    "hours or days, as in quiet 24h, got 'never'"),
    ("ends: repair", "ends: quiet",
     "10:9: entry my-fault: ends: expected boot, reset, repair, or quiet with hours"),
    ("ends: repair", "ends: 24", "10:9: entry my-fault: ends: expected boot, reset, repair, or quiet with "
                                 "hours or days, as in quiet 24h, got 24"),
    ("  owner", "  yields: [nobody]\n  owner",
     "6:11: entry my-fault: yields: there is no other entry 'nobody'"),
    ("  owner", "  yields: [my-fault]\n  owner",
     "6:11: entry my-fault: yields: there is no other entry 'my-fault'"),
    ("  owner", "  yields: nobody\n  owner",
     "6:11: entry my-fault: yields: expected a list of ids of entries, got 'nobody'"),
    (r"mydisk \d+ gone", r".*mydisk \d+ gone",
     "2:10: entry my-fault: match: begins with anything: give the text right behind the emitter's prefix"),
    (r"mydisk \d+ gone", r"(?:.{1,9}|the) mydisk \d+ gone",
     "2:10: entry my-fault: match: begins with anything"),
    (r"mydisk \d+ gone", r"[^:]+: mydisk \d+ gone", "2:10: entry my-fault: match: begins with anything"),
    ("'mydisk 7 gone'", "'mydisk 7 gone[77]: so'", "8:13: entry my-fault: examples: match covers only 15 "
                                                   "characters, which may be the name of a process, of"),
    ("'mydisk 7 gone'", "'the mydisk 7 gone'",
     "8:13: entry my-fault: examples: match does not match 'the mydisk 7 gone'"),
    ("- id", "id", "expected a list of entries, got a map"),
    ("examples: ['mydisk 7 gone']", "examples: mydisk", "expected a list of lines"),
])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = GOOD.replace(old, new) if old != "- id" else "id: my-fault\n"
    with pytest.raises(RulesError) as problem:
        load_catalogue([folder(tmp_path, text)])
    assert (said in str(problem.value) and str(problem.value).startswith(f"{tmp_path}/kernel/mine.yaml:")
            and "\n" not in str(problem.value))


def test_one_id_in_two_files_of_a_folder_is_a_mistake(tmp_path: Path) -> None:
    folder(tmp_path, GOOD, "a")
    with pytest.raises(RulesError,
                       match=r"b\.yaml:1:3: id my-fault is defined twice; the first is at .*a\.yaml:1:3"):
        load_catalogue([folder(tmp_path, GOOD, "b")])


# muster explain kernel

def test_an_entry_is_explained_with_the_file_that_won(tmp_path: Path) -> None:
    folder(tmp_path, "- {id: nvme-down, remedy: Call us.}\n")
    shown = muster("explain", "kernel", "nvme-down", "--rules", str(tmp_path), home=tmp_path)
    assert (shown.returncode == 0 and "nvme-down  (nvme)" in shown.stdout
            and "remedy      Call us." in shown.stdout)
    assert "kernel/mine.yaml:1, which overrides " in shown.stdout and "rules/kernel/nvme.yaml" in shown.stdout


def test_the_entry_that_knows_a_line_is_explained(tmp_path: Path) -> None:
    shown = muster("explain", "kernel", "nvme nvme0: Abort status: 0x371", "--format", "json", home=tmp_path)
    assert json.loads(shown.stdout)["id"] == "nvme-abort-status"


@pytest.mark.parametrize("stamp",
                         ["[  123.456789] ", "[  123.4] ", "<4>[  123.456789] ",
                          "Nov 23 02:00:01 gpu001 kernel: ", "[Mon Nov 23 02:00:01 2026] ",
                          "4,123,456789,-;"])
def test_a_line_is_known_as_a_person_copies_it_from_a_log(stamp: str, tmp_path: Path) -> None:
    shown = muster("explain", "kernel", f"{stamp}nvme nvme10: Abort status: 0x371", "--format", "json",
                  home=tmp_path)
    assert json.loads(shown.stdout)["id"] == "nvme-abort-status"


def test_all_entries_are_listed_with_those_switched_off(tmp_path: Path) -> None:
    folder(tmp_path, "- {id: nvme-down, enabled: false}\n")
    shown = muster("explain", "kernel", "--rules", str(tmp_path), home=tmp_path).stdout
    assert (len(shown.splitlines()) == len(packaged().entries)
            and re.search(r"^nvme-down +disabled ", shown, re.MULTILINE))


@pytest.mark.parametrize(("asked", "said"), [
    ("nvme-dwn", "no such entry: 'nvme-dwn'; did you mean 'nvme-down'?"),
    ("zzz", "no such entry: 'zzz'; `muster explain kernel` lists all"),
    ("all is well", "no entry of the catalogue matches the line 'all is well'"),
])
def test_what_no_entry_knows_is_one_line_and_exit_2(asked: str, said: str, tmp_path: Path) -> None:
    shown = muster("explain", "kernel", asked, home=tmp_path)
    assert shown.returncode == 2 and said in shown.stderr and shown.stderr.count("\n") == 1
