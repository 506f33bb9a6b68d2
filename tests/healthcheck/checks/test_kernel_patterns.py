"""What rules look for in a kernel's log is found by its words, and what they say of it is the same for each
node as if it were alone."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.checks import disk, hca, memory
from healthcheck.checks.kernel_event import _ELSEWHERE
from healthcheck.config import linear
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.kernel import _RECORD, WORDS, KernelLog, MessagePattern, Records, unescape
from healthcheck.facts.kernel_event import KernelEvents
from healthcheck.facts.limits import KERNEL_RECORD
from healthcheck.facts.values import Partial
from healthcheck.kernellog.fold import LazyDigest
from healthcheck.kernellog.model import KernelEventKind
from healthcheck.model.recording import Recording
from healthcheck.sweep.assess import Assessment
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULESET
from tests.tries import tries

RULES = {rule.id for rule in RULESET.rules
         if {"kernel_log", "kernel_events", "xids"} & set(rule.checked.facts)}
HEALTHY = [
    "Linux version 6.5.0-1019 (gcc) #20 SMP", "Command line: BOOT_IMAGE=/vmlinuz root=UUID=1 ro",
    "Memory: 2113457024K/2147483648K available",
    "Run /init as init process", "systemd[1]: systemd 249.11-0ubuntu3.11 running in system mode (+PAM)",
    "DMI: Maker Board, BIOS 1.2 10/18/2023",
    "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023",
    "XFS (nvme0n1p2): Mounting V5 Filesystem",
    "mlx5_core 0000:18:00.0: Port module event: module 0, Cable plugged",
    "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode.",
]
# A line of each form, the Xids, reports of many lines, and what is like them.
FAULTS = [
    "Buffer I/O error on dev sda1, logical block 5", "I/O error, dev nvme1n1, sector 123",
    "I/O error, dev sda, sector 123 op 0x3:(DISCARD)",
    "block nvme0n1: no available path - failing I/O", "md/raid1:md0: Disk failure on sdb",
    "attempt to access beyond end of device",
    "nvme0n1: I/O Cmd(0x2) @ LBA 12, 8 blocks, I/O Error (sct 0x2 / sc 0x81) Unrecovered Read",
    "EXT4-fs error (device sda1): x", "EXT4-fs (sda1): Remounting filesystem read-only",
    "XFS (sda): Corruption of in-memory data",
    "XFS (sda): metadata I/O Error", "XFS (sda): Filesystem has been shut down",
    "BTRFS error (device sda): forced readonly",
    "nvme nvme0: I/O 12 QID 3 timeout, reset controller",
    "nvme nvme0: controller is down; will reset: CSTS=0x3",
    "nvme nvme0: Removing after probe failure status: -19",
    "mlx5_core 0000:18:00.0: device's health compromised - reached miss count",
    "mlx5_core 0000:18:00.0: Port module event: module 0, Cable unplugged",
    "mlx5_core 0000:18:00.0: temperature warning: x",
    "mlx5_core 0000:18:00.0: Health issue observed, x severity(3)",
    "mlx5_core 0000:18:00.0: ACCESS_REG(0x805) failed",
    "EDAC MC0: 1 CE memory read error", "[Hardware Error]: Corrected error, no action required.",
    "[Hardware Error]: event severity: fatal",
    "NVRM: Xid (PCI:0000:1b:00): 79, pid=7, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:1b:00): 13, Graphics Exception", "NVRM: Xid ?",
    "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
    "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30",
    "muster: all GPUs were reset", "BUG: unable to handle page fault for address: ffff8880", "Call Trace:",
    " <TASK>", "RIP: 0010:f+0x1/0x2",
    "x\\x0ay: I/O error, dev sda, sector 1",
    "mce: [Hardware Error]: CPU 0: Machine Check: 0 Bank 5: be00000000800400", "", "\\x1b[2J",
]


def log(lines: list[str], since: int, step: int = 3_000_000_000) -> str:
    return "".join(f"6,{number + since},{number * step},-;{text}\n" for number, text in enumerate(lines))


def snapshot(node: str, text: str) -> Recording:
    return machine.recording(node, kernel_log=machine.done(**{"/dev/kmsg": text}))


SAID = st.lists(st.one_of(st.sampled_from(HEALTHY), st.sampled_from(FAULTS), st.sampled_from(HEALTHY)),
                max_size=12)


@settings(deadline=None, max_examples=tries(15))
@given(st.lists(st.tuples(SAID, st.sampled_from([0, 0, 0, 7])), min_size=1, max_size=3))
def test_a_log_is_judged_among_others_as_it_is_alone(logs: list[tuple[list[str], int]]) -> None:
    # Each of them over and over, so that what others said is looked up; in between logs that say the same
    # with other numbers.
    texts = [log(lines, since, 3_000_000_000 + number) for number in range(3) for lines, since in logs]
    names = [f"n{number}" for number in range(len(texts))]
    rules = RULESET.select(only=tuple(RULES))
    together = Assessment([Node(name, sku="hgx-h100") for name in names], rules)
    for name, text in zip(names, texts, strict=True):
        together.add(snapshot(name, text))
    found = {report.node: [result for result in report.results if result.rule in RULES]
             for report in together.finish().reports}
    for name, text in list(zip(names, texts, strict=True))[-len(logs):]:
        alone = Assessment([Node(name, sku="hgx-h100")], rules)
        alone.add(snapshot(name, text))
        (report,) = alone.finish().reports
        assert found[name] == [result for result in report.results if result.rule in RULES]


@settings(deadline=None)
@given(SAID, st.text(max_size=40))
def test_lines_of_a_form_are_found_by_their_words_as_without_them(lines: list[str], more: str) -> None:
    text = log([*lines, more.replace("\n", " ")], 0)
    found = build_fact(FACTS["kernel_log"], Captures(snapshot("n0", text)))
    quick = found.value if isinstance(found, Partial) else found
    assert isinstance(quick, KernelLog)
    for form in _ELSEWHERE:
        found_in = [(line.text, match.span(), match.string) for line, match in quick.matching(form)]
        # As if each record were asked, whatever words it holds; and whoever asks one is told the same.
        assert found_in == [(text, match.span(), match.string) for text in quick.records().texts
                            if (match := form.match(text))]


@pytest.mark.parametrize(("form", "line"), [
    (disk.IO_LINES, "I/O error, dev sda, sector 123"),
    (disk.FILESYSTEM_LINES, "XFS (sda): Corruption of in-memory data (0x8) detected"),
    (disk.RESET_LINES, "nvme nvme0: I/O 12 QID 3 timeout, reset controller"),
    (disk.DEAD_LINES, "nvme nvme0: Removing after probe failure status: -19"),
    (hca.MODULE_LINES, "mlx5_core 0000:18:00.0: Port module event: module 0, Cable unplugged"),
    (memory.CORRECTED_LINES, "EDAC MC0: 1 CE memory read error"),
])
def test_a_form_holds_from_the_start_of_a_message_and_not_for_what_a_user_chose(
    form: MessagePattern, line: str,
) -> None:
    assert form.match(line) is not None
    crash = "ip 0000000000401126 sp 00007ffd5e4e5a30 error 6 in"
    for text in (f"something: {line}", f"python[1]: {line}", f"tmpfs: Unknown parameter '{line}'", f"tmpfs: "
                 f"Unknown parameter 'x\n{line}'", f"a.out[1]: segfault at 0 {crash} {line}[401000+1000]",
                 f"{line[:15]}[1]: segfault at 0 {crash} a.out[401000+1000]",
                 f"written by user space: {line}", f"x\n{line}"):
        assert form.match(text) is None, text


def test_of_a_record_of_several_lines_a_driver_may_have_written_each() -> None:
    record = ("mlx5_core 0000:18:00.0: a line before\nmlx5_core 0000:18:00.0: Port module event: module 0, "
              "Cable unplugged")
    found = hca.MODULE_LINES.match(record)
    assert found is not None and found.string == record.partition("\n")[2]


@settings(deadline=None)
@given(SAID, st.sampled_from(["", "x" * 9000, "a\\x5cb", "\\x0a"]))
def test_records_are_the_same_however_they_are_read(lines: list[str], more: str) -> None:
    text = "junk\n" + log([*lines, more], 3) + " CONTINUED=1\n"
    records = Records(text)
    whole = [unescape(match[5][:KERNEL_RECORD]) for match in _RECORD.finditer(text)]
    assert records.texts == whole == [line.text for line in records]
    assert (len(records) == len(lines) + 1
            and [line.sequence for line in records] == list(range(3, 4 + len(lines))))


@settings(deadline=None)
@given(SAID)
def test_where_no_line_may_be_of_a_report_each_event_is_a_line_and_its_template_is_among_the_logs(
    lines: list[str],
) -> None:
    events = build_fact(FACTS["kernel_events"],
                        Captures(snapshot("n0", log(["Linux version 6.5.0", *lines], 0))))
    assert isinstance(events, KernelEvents)
    assert {message.template for message in events.digest.messages} <= events.templates
    if events.alone:
        assert sorted(message.template for message in events.digest.messages) == sorted(events.templates)
        assert all(message.kind.value == "line" for message in events.digest.messages)


def test_logs_that_fold_to_the_same_are_equal() -> None:
    one, same, other = (LazyDigest(records, records.texts) for records in (
        Records(log(lines, 0)) for lines in (["a 1", "b 2"], ["a 1", "b 2"], ["a 1", "b 3"])))
    assert one == same and hash(one) == hash(same) and one != other


@settings(deadline=None)
@given(SAID, st.integers(0, 3))
def test_what_is_reported_of_some_templates_is_what_the_digest_tells_of_them(
    lines: list[str], every: int,
) -> None:
    records = Records(log(lines, 0, 1000))
    folding = LazyDigest(records, records.texts)
    some = sorted(folding.templates)[::every + 1]
    assert list(folding.select(some)) == [message for message in folding.messages if message.template in some
                                      or message.kind is not KernelEventKind.LINE]


@settings(deadline=None)
@given(st.lists(SAID, min_size=1, max_size=2))
def test_a_log_says_the_words_that_stand_in_one_of_its_lines(logs: list[list[str]]) -> None:
    text, earlier = (log(lines, 0) for lines in (*logs, [])[:2])
    quick = machine.kernel_log(text, earlier=earlier)
    assert {word for word in WORDS if quick.contains(word)} == {
        word for word in WORDS if any(word in line for line in chain.from_iterable(logs))}


def test_no_word_holds_a_digit() -> None:
    assert not any(character.isdigit() for word in WORDS for character in word)


def test_a_form_whose_words_no_one_looks_for_is_refused() -> None:
    with pytest.raises(ValueError, match="gone"):
        MessagePattern("x is gone", "gone")
    with pytest.raises(ValueError, match="WORDS"):
        MessagePattern("x is gone")


FORMS = {name: getattr(module, name) for module in (disk, hca, memory) for name in vars(module)
         if name.endswith("_LINES")}


@pytest.mark.parametrize("name", FORMS)
def test_no_line_of_a_form_is_without_one_of_its_words(name: str) -> None:
    form = FORMS[name]
    ways = list(least(linear._parser.parse(form.pattern.pattern)))
    assert ways and [way for way in ways if not any(word in way for word in form.words)] == []
    # And each word is there for a line that has no other.
    assert all(any(word in way and not any(other in way for other in form.words if other not in word)
                   for way in ways) for word in form.words)


def test_every_form_is_known_of_which_a_rule_of_its_own_tells() -> None:
    assert set(map(id, FORMS.values())) == set(map(id, _ELSEWHERE))


def least(tree: Any) -> Iterator[str]:
    """What a text that the pattern finds holds at the least, by each way through it; a NUL stands for what
    may be anything."""
    ways = [""]
    for op, value in tree:
        ways = [way + more for way in ways for more in _ways(str(op), value)]
    yield from ways


def _ways(name: str, value: Any) -> list[str]:
    if name == "LITERAL":
        return [chr(value)]
    if name == "IN" and all(str(kind) == "LITERAL" for kind, _ in value):
        return [chr(one) for _, one in value]
    if name == "BRANCH":
        return [way for branch in value[1] for way in least(branch)]
    if name == "SUBPATTERN":
        return list(least(value[3]))
    if name in ("MAX_REPEAT", "MIN_REPEAT"):
        once = list(dict.fromkeys(least(value[2])))
        return (["\0"] + (once if value[0] == 0 and value[1] == 1 else [])
                if value[0] == 0 else [f"{way}\0" for way in once])
    if name in ("ASSERT", "ASSERT_NOT", "AT"):
        return [""]
    return ["\0"]
