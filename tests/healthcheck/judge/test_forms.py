"""What was met before is known at sight: it says to the letter what it says when it is read whole."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from healthcheck.facts import bond, counter, disk, edac, files, gpuline, netdev, nvme, optics, port
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.disk import read_disk, read_whole
from healthcheck.facts.files import Files, Said
from healthcheck.facts.forms import Forms
from healthcheck.facts.gpuline import Formed, Sent, in_pieces, sent
from healthcheck.facts.text import MOST_PATHS, lines_of, of_paths, remembered
from healthcheck.facts.values import Unmeasured, Unread
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-10**22, 10**22) | st.floats(allow_nan=True) | st.text(max_size=6)
    | st.sampled_from(["}", '"', "\\", '": ', "error", "\u2028", "é", 0, -3, 10**320]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(["ok", "na", "error", "x"]), inner, max_size=2), max_leaves=6)
RAW = st.sampled_from(["01", "1e5", "-0", " 5", "5 ", "NaN", "", "5}, \"x\": {\"ok\": 6", '"a\\u0041"', '"\x01"', "[1,\r2]", "²", "1" * 30])


def said(line: Any) -> str:
    """A parsed line as text: NaN is equal to nothing, and 1 to 1.0 and True."""
    return json.dumps(line, default=dict)


def texts_of(line: Any) -> dict[str, str]:
    """What is kept of the texts of a parsed line's rows."""
    return {key: text for key in ("nvlinks", "p2p") if (text := line.text(key)) is not None} if isinstance(line, (Formed, Sent)) else {}


def gpu_line(changes: dict[str, Any]) -> str:
    line = {**json.loads(machine.nvml(2).text.splitlines()[2]), **changes}
    return json.dumps(line)


KEYS = st.sampled_from(["uuid", "serial", "temperature_c", "power_mw", "processes", "nvlinks", "p2p", "fabric_health", "index", "pages_pending"])


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(KEYS, VALUES | st.integers(0, 99), st.booleans(), st.none() | RAW), min_size=3, max_size=12))
def test_lines_of_one_form_say_what_they_say_when_each_is_read_whole(changes: list[tuple[str, Any, bool, str | None]]) -> None:
    gpuline._FORMS.clear()
    for key, value, wrapped, raw in [change for change in changes for _ in range(2)]:
        text = gpu_line({key: {"ok": value} if wrapped else value})
        if raw is not None and wrapped:
            text = gpu_line({key: {"ok": "HERE"}}).replace('"HERE"', raw)
        try:
            whole = json.loads(text)
        except ValueError:
            with pytest.raises(json.JSONDecodeError):
                sent(text)
            continue
        try:
            slow = in_pieces(text)
        except OverflowError:
            with pytest.raises(OverflowError):
                sent(text)
            continue
        found = sent(text)
        assert said(found) == said(whole) == said(slow)
        assert repr(sorted(gpuline.all_fields(found, "NVML").items())) == repr(sorted(gpuline.all_fields(whole, "NVML").items()))
        assert gpuline.standing(found, "NVML") == gpuline.standing(whole, "NVML")
        known = getattr(found, "known", None)
        assert known is None or (known.answers, known.lost) == gpuline.standing(whole, "NVML")
        for rows, kept in texts_of(found).items():
            assert said({"ok": json.loads(kept)}) == said(whole[rows])


def test_what_differs_between_gpus_of_one_kind_is_learned() -> None:
    gpuline._FORMS.clear()
    lines = [gpu_line({"uuid": {"ok": f"GPU-{number}"}, "power_mw": {"ok": 70000 + number}}) for number in range(40)]
    known = [type(sent(line)) is Formed for line in lines]
    assert known[2:] == [True] * 38


def test_a_fleet_of_which_no_two_are_alike_is_not_learned_for_ever() -> None:
    forms: Forms[int] = Forms(lambda path: True)
    asked = 0

    def make(cut: Any) -> int:
        nonlocal asked
        asked += 1
        return 0

    for number in range(500):
        text = json.dumps({f"key{number}": {str(place): 0 for place in range(number % 50)}})
        assert forms.find("one", text) is None
        forms.learn("one", text, make)
    assert asked <= 64
    for number in range(2000):
        forms.learn(f"{number}", '{"a": 1}', make)
    assert len(forms._known) <= 256


@settings(deadline=None)
@given(st.text('{}": ,ab1\\', max_size=40), st.text('{}": ,ab1\\', max_size=40), st.text('{}": ,ab1\\', max_size=40))
@example('{"a": "x\\": 1, \\"b"}', '{"a": "x\\": 2, \\"b"}', '{"a": "x\\": "", \\"b"}')
@example('{"a": 1, "a": 2}', '{"a": 1, "a": 3}', '{"a": 1, "a": 4}')
@example('{"a": 1, "a": 2}', '{"a": 3, "a": 2}', '{"a": 4, "a": 2}')
def test_a_value_that_is_found_is_where_json_has_it(first: str, second: str, third: str) -> None:
    forms: Forms[tuple[Any, ...]] = Forms(lambda path: True)
    for text in (first, second, third):
        found = forms.find("", text)
        if found is not None:
            (document, paths), _, values = found
            for path, value in zip(paths, values, strict=True):
                *above, last = path
                at = document = json.loads(json.dumps(document))
                for key in above:
                    at = at[key]
                at[last] = value
            assert document == json.loads(text)
        else:
            try:
                whole = json.loads(text)
            except ValueError:
                continue
            forms.learn("", text, lambda cut, whole=whole: (whole, cut.paths))


SMART = machine.captures()["disk.smart"].files["/sys/class/nvme/nvme0"].text.partition("\n")[2]


@settings(deadline=None, max_examples=40)
@given(st.lists(st.tuples(
    st.sampled_from(["serial_number", "data_units_read", "temperature", "unsafe_shutdowns", "passed", "model_name", "percentage_used", "value",
                     "media_errors", "protocol", "exit_status"]), VALUES | st.integers(0, 99) | st.text("ab", max_size=4)), min_size=3, max_size=10))
def test_a_disk_that_says_what_another_said_is_read_as_if_it_were_the_first(changes: list[tuple[str, Any]]) -> None:
    for key, value in [change for change in changes for _ in range(2)]:
        told = json.dumps(value)
        text = re.sub(rf'"{key}": [^,}}]*', lambda _: f'"{key}": {told}', SMART, count=1)  # noqa: B023
        for status, complaint in ((0, ""), (2, "failed")):
            answer = Said(status, text, complaint)
            assert repr(read_disk("nvme0", answer)) == repr(read_whole("nvme0", answer))


@given(st.text("ab\n\r\v\f\x1c\x1d\x1e\x85\u2028é"))
def test_lines_are_those_of_python(text: str) -> None:
    assert lines_of(text) == text.splitlines()


def test_only_short_texts_are_remembered_and_no_failure_is() -> None:
    asked: list[str] = []

    @remembered(2, 3)
    def parse(text: str) -> int:
        asked.append(text)
        return int(text)

    assert [parse("12"), parse("12"), parse("1234"), parse("1234")] == [12, 12, 1234, 1234]
    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            parse("x")
    assert asked == ["12", "1234", "1234", "x", "x"]


BOND = machine.captures()["netdev.sysfs"].files["/proc/net/bonding/bond0"].text
LINES = st.sampled_from([*BOND.splitlines(keepends=True), "Permanent HW addr: 00:11\n", "Permanent HW addr: 00:11", "Permanent HW addr: x\rSlave queue ID: 0\n",
                         "MII Status: up\r", "Permanent HW addr: \n", "bond b has no active aggregator\n"])


@settings(deadline=None)
@given(st.permutations(BOND.splitlines(keepends=True)) | st.lists(LINES, max_size=40))
def test_a_bond_says_the_same_without_the_addresses_of_its_interfaces(lines: list[str]) -> None:
    def read(parse: Callable[[str, str], Any]) -> Any:
        try:
            return parse("bond0", "".join(lines))
        except (ValueError, KeyError) as error:
            return type(error)

    assert read(bond.parse_bond) == read(bond._parse_bond.__wrapped__)


# Facts that are made of whole captures at once, with the probe and what of it they look at apart.
WHOLLY = ("ports", "port_fatal_counters", "port_rate_counters", "port_job_counters", "nvmes", "nvme_bus", "sensors", "edac", "netdevs", "nvme_heat")
OF_FILES = [probe.id for probe in (port.SYSFS, counter.COUNTERS, nvme.NVME, nvme.HEAT, optics.HWMON, edac.EDAC, netdev.NETDEV)]
ENTRY = st.tuples(st.sampled_from([Outcome.DONE] * 4 + list(Outcome)), st.sampled_from(["0\n", "1", "4: ACTIVE\n", "", "x", "-5", "12000", "(EINVAL)"]))


@settings(deadline=None, max_examples=15)
@given(st.lists(st.tuples(st.sampled_from(OF_FILES), st.integers(0, 10**6), st.none() | ENTRY), max_size=6), st.integers(0, 2**32))
def test_facts_of_a_node_are_the_same_whatever_nodes_were_met_before(
    changes: list[tuple[str, int, tuple[Outcome, str] | None]], seed: int,
) -> None:
    held = {name: dict(capture.files) for name, capture in machine.captures().items() if name in OF_FILES}
    chance = random.Random(seed)
    looks = [Captures(machine.recording())]
    for name, at, entry in changes:
        path = sorted(held[name])[at % len(held[name])]
        if entry is None:
            del held[name][path]
        else:
            held[name][path] = FileCapture(*entry)
        looks.append(Captures(machine.recording(**{
            name.replace(".", "_", 1): Capture(Outcome.DONE, None, 0.0, 1, files=dict(files)) for name, files in held.items()})))
    chance.shuffle(looks)
    met = [[repr(build_fact(FACTS[name], look)) for name in WHOLLY] for look in looks]
    for look, facts in zip(looks, met, strict=True):
        files._WHOLE.clear()
        files._ALIKE.clear()
        assert [repr(build_fact(FACTS[name], Captures(look._recording))) for name in WHOLLY] == facts


def test_what_a_builder_asked_of_a_whole_capture_in_vain_counts_as_seen_each_time() -> None:
    entries = {"/a": FileCapture(Outcome.DENIED), "/b": FileCapture(Outcome.DONE, "1"), "/own": FileCapture(Outcome.DONE, "2")}

    def make(files: Files) -> Any:
        return files.read("/a", int)

    for _ in range(2):
        found = Files(entries)
        assert isinstance(found.but("/own".__eq__, make), Unmeasured)
        assert found.unseen() is None
    with pytest.raises(Unread):
        Files(entries).but("/own".__eq__, lambda files: files.text("/a"))
    assert all(len(known) <= 8 for known in files._WHOLE.values())


def test_a_capture_of_too_many_files_is_not_kept() -> None:
    entries = {f"/{number}": FileCapture(Outcome.DONE, "1") for number in range(3000)}

    def make(files: Files) -> int:
        return len(list(files))

    assert Files(entries).but("/0".__eq__, make) == 3000
    assert make not in files._WHOLE
    assert port._is_gid("/sys/class/infiniband/mlx5_0/ports/1/gids/0")


@pytest.mark.parametrize("exit_status", [2, 4, 6])
def test_a_disk_that_could_not_be_asked_has_no_readings_however_many_said_the_like(exit_status: int) -> None:
    for number in range(6):
        text = json.dumps({"device": {"protocol": "NVMe"}, "serial_number": f"S{number}",
                           "nvme_smart_health_information_log": {"available_spare": 100 - number, "percentage_used": number}})
        disk = read_disk("nvme0", Said(exit_status, text))
        assert disk == read_whole("nvme0", Said(exit_status, text)) and isinstance(disk.spare, Unmeasured)


def disks_of(*answers: tuple[str, str], outcome: Outcome = Outcome.DONE) -> Any:
    """The facts of a node of disks that said this, each with the first line before."""
    return disks_at({f"/sys/class/nvme/nvme{n}": f"{head}\n{text}" for n, (head, text) in enumerate(answers)}, outcome)


def disks_at(texts: dict[str, str], outcome: Outcome = Outcome.DONE) -> Any:
    files = {path: FileCapture(outcome, text) for path, text in texts.items()}
    return build_fact(FACTS["disk_health"], Captures(machine.recording(disk_smart=Capture(Outcome.DONE, None, 0.0, 1, files=files))))


def disk_text(spare: Any = 100, serial: Any = "S", temperature: Any = 30) -> str:
    return json.dumps({"device": {"protocol": "NVMe"}, "smart_status": {"passed": True}, "serial_number": serial, "temperature": temperature,
                       "nvme_smart_health_information_log": {"available_spare": spare}})


def test_disks_of_which_two_looks_say_the_same_are_the_very_same_and_others_are_not() -> None:
    for number in range(4):
        disks_of(*[("exit 0", disk_text(100 - number, f"S{number}", 30 + number))] * 2)
    for spare, serial in ((90, "A"), (90, "B"), (80, "B"), (True, "B"), (1, "B"), (1.0, "B"), ("B", "1"), ("1", "B")):
        first, second = (disks_of(*[("exit 0", disk_text(spare, serial, temperature))] * 2) for temperature in (30, 40))
        assert first is second
        assert [disk.serial for disk in first] == [serial] * 2
        assert [disk.spare for disk in first] == [spare] * 2 if type(spare) is int else all(isinstance(disk.spare, Unmeasured) for disk in first)


ANSWER = st.tuples(
    st.sampled_from(["exit 0"] * 6 + ["exit 64", "exit 4: x", "exit 2: x", "exit ", "exit 0\0", "exit 0\0exit 0"]),
    st.builds(disk_text, st.integers(0, 99) | VALUES, st.text("ab}\0\"\n", max_size=3) | st.integers(0, 99), st.integers(0, 99) | VALUES)
    | st.sampled_from(["", "{}", "\0", disk_text() + "\n", disk_text() + "\0exit 0\n" + disk_text(), disk_text().replace("30", "3\n"),
                       disk_text().replace("30", "[3,\n1]"), disk_text().replace("30", "03")]))


@settings(deadline=None, max_examples=80)
@given(st.lists(st.lists(ANSWER, min_size=1, max_size=2), max_size=6), st.sampled_from(list(Outcome)))
def test_all_disks_of_a_node_say_what_each_says_by_itself(nodes: list[list[tuple[str, str]]], outcome: Outcome) -> None:
    for number in range(4):
        disks_of(*[("exit 0", disk_text(100 - number, f"S{number}", 30 + number))] * 2)
    for answers in [*nodes, *nodes]:
        found = disks_of(*answers), disks_of(*answers, outcome=outcome)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(disk, "_at_sight", lambda files: None)
            patch.setattr(disk, "_disk_and_form", lambda name, answer: (
                read_whole(name, answer) if isinstance(answer, Said) else disk._all(name, answer), None))
            assert repr(found) == repr((disks_of(*answers), disks_of(*answers, outcome=outcome)))


def test_disks_are_told_in_the_order_of_their_names_in_whatever_order_they_answered() -> None:
    for number in range(6):
        texts = {f"/nvme{n}": f"exit 0\n{disk_text(90 - n, serial=f'S{number}{n}')}" for n in (10, 2, 1)}
        assert [(disk.name, disk.spare, disk.serial) for disk in disks_at(texts)] == [(f"nvme{n}", 90 - n, f"S{number}{n}") for n in (1, 2, 10)]


def test_a_disk_that_says_what_two_would_have_said_is_one_disk() -> None:
    for number in range(4):
        disks_of(*[("exit 0", disk_text(100 - number, f"S{number}", 30 + number))] * 2)
    (first, second) = disks_of(*[("exit 0", disk_text())] * 2)
    assert first.spare == second.spare == 100
    said = f"exit 0\n{disk_text()}"
    (one,) = disks_at({"/sys/class/nvme/nvme0\0/sys/class/nvme/nvme1": f"{said}\0{said}"})
    assert isinstance(one.spare, Unmeasured)


def test_a_disk_is_called_by_its_own_name_whatever_the_ones_before_it_complained_of() -> None:
    for number in range(6):
        said = f"exit 0\n{disk_text(serial=f'S{number}')}"
        assert [disk.name for disk in disks_at({"/nvme0": f"exit 0: a\0{said}", "/nvme1": said})] == ["nvme0", "nvme1"]
        assert [disk.name for disk in disks_at({"/nvme0": said, "/nvme1\0exit 0: a": said})] == ["nvme0", "nvme1\0exit 0: a"]


def test_what_a_disk_says_serves_no_disk_of_another_name() -> None:
    text = json.dumps({"device": {"protocol": "NVMe"}, "smart_status": {"passed": True}, "serial_number": "S"})
    for device in ("nvme0 0", "nvme0", "nvme0 0", "nvme0"):
        for serial in "ABC":
            assert read_disk(device, Said(0, text.replace('"S"', f'"{serial}"'), "2 foo")).name == device


def test_paths_of_a_node_that_sends_too_many_are_not_kept() -> None:
    asked: list[int] = []

    @of_paths(most=4)
    def number(paths: tuple[str, ...]) -> int:
        asked.append(len(paths))
        return len(paths)

    few, many = tuple(map(str, range(MOST_PATHS))), tuple(map(str, range(MOST_PATHS + 1)))
    assert [number(paths) for paths in (few, few, many, many)] == [2048, 2048, 2049, 2049] and asked == [2048, 2049, 2049]


def test_nothing_is_learned_under_a_name_without_end() -> None:
    forms: Forms[int] = Forms(lambda path: True)
    for number in range(4):
        forms.learn("x" * 300, f'{{"a": {number}}}', lambda paths: 1)
    assert forms.find("x" * 300, '{"a": 7}') is None
