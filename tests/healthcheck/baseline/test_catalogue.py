"""The catalogue of known faults: its form, what it refuses, which entry wins, and that no line can make it slow."""

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

from healthcheck.agent.codec import from_plain, to_plain
from healthcheck.baseline import linear, masking
from healthcheck.baseline.catalogue import _WITHOUT_RUNS, Catalogue, Known
from healthcheck.baseline.catalogueload import load_catalogue
from healthcheck.baseline.model import Entry
from healthcheck.baseline.pattern import Pattern, pieces
from healthcheck.outcome import Severity
from inventory.errors import RulesError
from tests.command import muster

RULES = Path(__file__).parents[3] / "rules"
ORDER = (Severity.CRITICAL, Severity.WARNING, Severity.INFO)


@cache
def packaged() -> Catalogue:
    return load_catalogue([RULES])


@cache
def indexed() -> Catalogue:
    """The same, after so many texts that it looks for words by their runs."""
    made = Catalogue(packaged().entries)
    for number in range(_WITHOUT_RUNS + 1):
        made.find(f"text {number}")
    return made


def examples() -> list[tuple[Entry, str]]:
    return [(entry, line) for entry in packaged().entries for line in entry.examples]


@cache
def each() -> list[Known]:
    return [Known(entry) for entry in packaged().entries]


def plain(text: str) -> Entry | None:
    """What the catalogue is to find, by trying every entry."""
    return min((known.entry for known in each() if known.knows(text)), key=lambda entry: ORDER.index(entry.severity), default=None)


# What the packaged entries hold.

def test_there_are_hundreds_of_entries_and_each_id_stands_once() -> None:
    ids = [entry.id for entry in packaged().entries]
    assert len(ids) >= 450 and len(set(ids)) == len(ids)


def test_an_example_is_found_as_bad_as_its_entry_is() -> None:
    wrong = [(entry.id, line) for entry, line in examples()
             if (found := packaged().find(line)) is None or ORDER.index(found.severity) > ORDER.index(entry.severity)]
    assert wrong == []


def test_lines_of_one_template_are_all_known_or_none() -> None:
    chance = random.Random(8)
    wrong = []
    for entry, line in examples():
        known, template = Known(entry), masking.template(line)
        wrong += [(entry.id, filled) for _ in range(5) if not known.knows(filled := masking.fill(template, chance))]
    assert wrong == []


@pytest.mark.parametrize(("line", "severity"), [
    ("NVRM: Xid (PCI:0000:1b:00): 63, pid=77, name=python3, Row Remapper: New row marked for remapping", Severity.CRITICAL),
    ("nvidia-nvswitch1: SXid (PCI:0000:c4:00.0): 22013, Non-fatal, Link 61 minion ALARM", Severity.CRITICAL),
    ("NVRM: API mismatch: the client 'dcgm' (pid 31)", Severity.CRITICAL),
    ("NVRM: GPU 0000:9b:00.0: RmInitAdapter failed! (0x25:0x65:1477)", Severity.CRITICAL),
    ("mlx5_core 0000:9b:00.0: wait_func:1151:(pid 9): QUERY_VPORT_COUNTER(0x770) timeout. Will cause a leak of a command resource",
     Severity.CRITICAL),
    ("mlx5_core 0000:9b:00.0: Port module event[error]: module 3, Cable error, Bus stuck(I2C or data shorted)", Severity.CRITICAL),
    ("NETDEV WATCHDOG: enp3s0 (r8169): transmit queue 0 timed out", Severity.WARNING),
    ("bond1: now running without any active interface!", Severity.CRITICAL),
    ("pcieport 0000:10:01.1: pciehp: Slot(21): Link Down", Severity.CRITICAL),
    ("pcieport 0000:10:01.1: PCIe Bus Error: severity=Uncorrected (Fatal), type=Data Link Layer, (Receiver ID)", Severity.CRITICAL),
    ("pcieport 0000:10:01.1: AER: Correctable error message received from 0000:11:00.0", Severity.INFO),
    ("DMAR: [DMA Write] Request device [81:00.0] fault addr 7f0000 [fault reason 05] PTE Write access is not set", Severity.WARNING),
    ("nvme nvme4: I/O 77 QID 12 timeout, reset controller", Severity.WARNING),
    ("sd 1:0:3:0: [sdf] tag#77 Sense Key : Medium Error [current] [descriptor] ", Severity.CRITICAL),
    ("EXT4-fs error (device nvme3n1p2): __ext4_iget:5080: inode #12: block 77: comm rm: invalid block", Severity.CRITICAL),
    ("XFS (dm-7): log I/O error -5", Severity.CRITICAL),
    ("md/raid10:md3: Disk failure on nvme5n1p1, disabling device.", Severity.CRITICAL),
    ("WARNING: Pool 'scratch' has encountered an uncorrectable I/O failure and has been suspended.", Severity.CRITICAL),
    ("infiniband mlx5_7: dump_cqe:290:(pid 0): dump error cqe", Severity.WARNING),
])
def test_a_fault_of_each_class_is_known(line: str, severity: Severity) -> None:
    found = packaged().find(line)
    assert found is not None and found.severity is severity


@pytest.mark.parametrize("line", [
    "mlx5_core 0000:9b:00.0: Port module event: module 0, Cable plugged", "mlx5_core 0000:9b:00.0: Rate limit: 127 rates are supported",
    "mlx5_core 0000:9b:00.0: 252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)",
    "pcieport 0000:00:01.0: AER: enabled with IRQ 34", "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03",
    "nvidia-nvlink: Nvlink Core is being initialized, major device number 511", "nvme nvme0: missing or invalid SUBNQN field.",
    "nvme nvme0: Shutdown timeout set to 10 seconds", "md/raid1:md0: active with 2 out of 2 mirrors", "XFS (sda1): Ending clean mount",
    "EXT4-fs (sda2): mounted filesystem with ordered data mode. Opts: errors=remount-ro", "ata3: SATA link down (SStatus 0 SControl 300)",
    "mlx5_core 0000:9b:00.0: mlx5_pcie_event:301:(pid 8): PCIe slot advertised sufficient power (75W).",
    "pcieport 0000:00:01.0: DPC: error containment capabilities: Int Msg #0, RPExt+ PoisonedTLP+ SwTrigger+ RP PIO Log 4, DL_ActiveErr+",
    "DMAR: DRHD base: 0x000000fbffc000 flags: 0x0", "AMD-Vi: Interrupt remapping enabled", "scsi host0: ahci",
])
def test_what_healthy_machines_say_of_the_same_devices_is_left_alone(line: str) -> None:
    assert packaged().find(line) is None


# Which entry wins.

def made(name: str, match: str, severity: Severity = Severity.WARNING, **more: Any) -> Entry:
    first = packaged().entries[0]
    return Entry(name, match, severity, first.meaning, first.remedy, first.owner, first.source, (), needs=linear.words(match), **more)


def test_the_worst_wins_and_of_equals_the_first() -> None:
    entries = (made("info", "disk", Severity.INFO), made("one", "disk sd"), made("two", "disk"), made("bad", "disk s", Severity.CRITICAL))
    assert getattr(Catalogue(entries).find("a disk sda"), "id", None) == "bad"
    assert getattr(Catalogue(entries[:3]).find("a disk sda"), "id", None) == "one"
    assert getattr(Catalogue(entries[:3]).find("a disk hda"), "id", None) == "two"
    assert Catalogue(entries).find("a dist") is None


def test_what_unless_holds_is_left_to_other_entries() -> None:
    entries = (made("bad", "disk", Severity.CRITICAL, unless="floppy"), made("mild", "disk"))
    assert [getattr(Catalogue(entries).find(line), "id", None) for line in ("disk", "floppy disk")] == ["bad", "mild"]


def test_an_entry_that_is_disabled_knows_nothing_and_is_there_to_be_explained() -> None:
    catalogue = Catalogue((made("one", "disk", disabled="disabled in x.yaml"),))
    assert catalogue.find("disk") is None and catalogue.by_id("one") is not None


@settings(deadline=None)
@given(st.lists(st.sampled_from([line for _, line in examples()]), min_size=1, max_size=2), st.integers(0, 60), st.integers(0, 8),
       st.booleans(), st.sampled_from(["", " ", "\x1b[2J\x00", "ſK", "İ"]))
def test_looking_for_words_first_hides_nothing(lines: list[str], cut: int, pad: int, upper: bool, junk: str) -> None:
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
    assert packaged().find("x" * 9000 + "nvme nvme0: Abort status: 0x371" + "y" * 1_000_000) is None
    assert time.process_time() - start < 1


def test_the_catalogue_travels_to_a_node_and_is_the_same_there() -> None:
    there = from_plain(Catalogue, json.loads(json.dumps(to_plain(packaged()))))
    assert there == packaged() and all(there.find(line) == packaged().find(line) for _, line in examples()[::20])


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
            yield next(chr(code) for code in (*b"a1 A-=:", *range(33, 127)) if linear._set(op, value, caseless=False) & 1 << code)


def hostile(piece: str) -> list[str]:
    """Beginnings of what a piece matches, to be repeated: each makes it start over and over without ever coming to its end."""
    parts = list(sample(linear._tree(piece)))
    return ["".join(parts[:length]) for length in {len(parts) // 3, len(parts) * 2 // 3, len(parts) - 1} if length > 0]


def seconds(search: Any, text: str) -> float:
    best = 9.0
    for _ in range(2):
        start = time.process_time()
        search(text)
        best = min(best, time.process_time() - start)
    return best


def slow(piece: str) -> list[str]:
    """The texts of 8,000 characters that take it far more than eight times as long as those of 1,000."""
    search = re.compile(piece, re.ASCII).search
    found = []
    for part in hostile(piece):
        longer = seconds(search, (part * 8000)[:8000])
        # A search that takes less than this is not slow, whatever the clock says of a shorter one.
        if longer > 0.5 or (longer > 0.001 and longer > 20 * seconds(search, (part * 1000)[:1000])):
            found.append(part)
    return found


def test_no_pattern_takes_more_than_linear_time() -> None:
    assert [(entry.id, piece, parts) for entry in packaged().entries for pattern in (entry.match, entry.unless) if pattern
            for piece in pieces(pattern) if (parts := slow(piece))] == []


def test_the_measure_of_time_finds_a_pattern_that_is_slow() -> None:
    assert slow("disk .*gone") and not slow("disk .{0,99}gone")


@pytest.mark.parametrize(("pattern", "said"), [
    ("(a+)+ sorry", "repeats a group that itself repeats"), ("(?:a|ab)* sorry", "repeats a group that itself repeats or has alternatives"),
    (r"disk \S+:\S+ gone", "two repeats can share characters"), ("disk [a-c]+[b-d]+[c-e]+ gone", "two repeats can share characters"),
    (r"disk (\w)\1", "groupref"), ("(?<=disk )gone", "looks behind"), (r"disk (?P<n>\w+) (?(n)gone|back)", "groupref"),
])
def test_what_could_be_slow_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(linear.TooSlow, match=said):
        linear.judge(pattern)


@pytest.mark.parametrize("pattern", [r"disk \S+ \d+ gone", "disk .* on .* gone .* at", r"a\+b.*c", "[^]]+ disk", "(?i)disk .*(?:gone|lost)",
                                     "disk (?:a.*b|c)", "disk .{0,80} at .{0,80} gone", r"disk(?: \d{4}){2,} gone"])
def test_what_is_linear_is_taken(pattern: str) -> None:
    linear.judge(pattern)


@settings(deadline=None)
@given(st.sampled_from(list(packaged().entries)), st.integers(0, 40))
def test_pieces_find_what_the_whole_pattern_would(entry: Entry, cut: int) -> None:
    for line in (line for _, line in examples()[::40]):
        assert Pattern(entry.match).found(line[cut:]) == bool(re.search(entry.match, line[cut:], re.ASCII))
    for line in entry.examples:
        assert Pattern(entry.match).found(line[cut:]) == bool(re.search(entry.match, line[cut:], re.ASCII))


# Files.

GOOD = """- id: my-fault
  match: 'mydisk \\d+ gone'
  severity: critical
  meaning: A disk is gone.
  remedy: Replace it.
  owner: operator
  source: our own driver
  examples: ['mydisk 7 gone']
"""


def folder(tmp_path: Path, text: str, name: str = "mine") -> Path:
    (tmp_path / "kernel").mkdir(parents=True, exist_ok=True)
    (tmp_path / "kernel" / f"{name}.yaml").write_text(text)
    return tmp_path


def test_a_sites_entry_goes_before_those_that_ship(tmp_path: Path) -> None:
    text = GOOD.replace("my-fault", "our-nvme").replace(r"mydisk \d+ gone", "Abort status").replace("mydisk 7 gone", "Abort status: 0x7")
    found = load_catalogue([RULES, folder(tmp_path, text.replace("critical", "warning"))]).find("nvme nvme0: Abort status: 0x371")
    assert found is not None and (found.id, found.group) == ("our-nvme", "mine")


def test_a_site_changes_an_entry_key_by_key_and_switches_one_off(tmp_path: Path) -> None:
    text = "- {id: nvme-down, severity: warning}\n- {id: nvme-abort-status, enabled: false}\n"
    catalogue = load_catalogue([RULES, folder(tmp_path, text)])
    changed, off = catalogue.by_id("nvme-down"), catalogue.by_id("nvme-abort-status")
    assert changed is not None and off is not None
    assert (changed.severity, changed.group, changed.line, changed.overridden) == (
        Severity.WARNING, "nvme", 1, (str(RULES / "kernel" / "nvme.yaml"),))
    assert off.disabled == f"disabled in {tmp_path}/kernel/mine.yaml" and catalogue.find("nvme nvme0: Abort status: 0x371") is None


@pytest.mark.parametrize(("old", "new", "said"), [
    ("severity: critical", "severity: critcal", "3:13: entry my-fault: severity: expected one of info, warning, critical; got 'critcal'; "
     "did you mean 'critical'?"),
    ("  severity: critical\n", "", "1:3: entry my-fault: severity: is missing: expected one of info, warning, critical"),
    ("meaning:", "meanin:", "4:3: unknown key 'meanin'; did you mean 'meaning'?"),
    ("remedy: Replace it.", "remedy: []", "5:11: entry my-fault: remedy: expected a sentence, got a list"),
    ("'mydisk 7 gone'", "'mydisk 7 here'", "8:13: entry my-fault: examples: match does not match 'mydisk 7 here'"),
    ("  owner", "  unless: 7\n  owner", "6:11: entry my-fault: unless: expected a regular expression, got 7"),
    ("  owner", "  unless: '\\d gone'\n  owner", "9:13: entry my-fault: examples: unless takes out 'mydisk 7 gone'"),
    (r"mydisk \d+ gone", "(?:mydisk+)+ gone", "2:10: entry my-fault: match: repeats a group that itself repeats"),
    (r"mydisk \d+ gone", "mydisk ( gone", "2:10: entry my-fault: match: is no regular expression: missing )"),
    (r"mydisk \d+ gone", r"\w \d+ \w", "2:10: entry my-fault: match: holds no word of 3 characters that each line must have"),
    ("my-fault", "My Fault", "1:7: id: expected small letters, digits and hyphens, as nvme-timeout, got 'My Fault'"),
    ("  owner", "  xid: gpu\n  owner", "6:8: entry my-fault: xid: expected one of xid, sxid, got 'gpu'"),
    ("  owner", "  repair: pray\n  owner", "6:11: entry my-fault: repair: expected one of watch, restart-service"),
    ("  owner", "  enabled: perhaps\n  owner", "6:12: entry my-fault: enabled: expected true or false, got 'perhaps'"),
    ("- id", "id", "expected a list of entries, got a map"), ("examples: ['mydisk 7 gone']", "examples: mydisk", "expected a list of lines"),
])
def test_a_mistake_is_one_line_with_its_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = GOOD.replace(old, new) if old != "- id" else "id: my-fault\n"
    with pytest.raises(RulesError) as problem:
        load_catalogue([folder(tmp_path, text)])
    assert said in str(problem.value) and str(problem.value).startswith(f"{tmp_path}/kernel/mine.yaml:") and "\n" not in str(problem.value)


def test_one_id_in_two_files_of_a_folder_is_a_mistake(tmp_path: Path) -> None:
    folder(tmp_path, GOOD, "a")
    with pytest.raises(RulesError, match=r"b\.yaml:1:3: id my-fault is defined twice; the first is at .*a\.yaml:1:3"):
        load_catalogue([folder(tmp_path, GOOD, "b")])


# muster explain kernel

def test_an_entry_is_explained_with_the_file_that_won(tmp_path: Path) -> None:
    folder(tmp_path, "- {id: nvme-down, remedy: Call us.}\n")
    told = muster("explain", "kernel", "nvme-down", "--rules", str(tmp_path), home=tmp_path)
    assert told.returncode == 0 and "nvme-down  (nvme)" in told.stdout and "remedy      Call us." in told.stdout
    assert "kernel/mine.yaml:1, which overrides " in told.stdout and "rules/kernel/nvme.yaml" in told.stdout


def test_the_entry_that_knows_a_line_is_explained(tmp_path: Path) -> None:
    told = muster("explain", "kernel", "nvme nvme0: Abort status: 0x371", "--format", "json", home=tmp_path)
    assert json.loads(told.stdout)["id"] == "nvme-abort-status"


def test_all_entries_are_listed_with_those_switched_off(tmp_path: Path) -> None:
    folder(tmp_path, "- {id: nvme-down, enabled: false}\n")
    told = muster("explain", "kernel", "--rules", str(tmp_path), home=tmp_path).stdout
    assert len(told.splitlines()) == len(packaged().entries) and re.search(r"^nvme-down +disabled ", told, re.MULTILINE)


@pytest.mark.parametrize(("asked", "said"), [
    ("nvme-dwn", "no such entry: 'nvme-dwn'; did you mean 'nvme-down'?"), ("zzz", "no such entry: 'zzz'; `muster explain kernel` lists all"),
    ("all is well", "no entry of the catalogue knows the line 'all is well'"),
])
def test_what_no_entry_knows_is_one_line_and_exit_2(asked: str, said: str, tmp_path: Path) -> None:
    told = muster("explain", "kernel", asked, home=tmp_path)
    assert told.returncode == 2 and said in told.stderr and told.stderr.count("\n") == 1
