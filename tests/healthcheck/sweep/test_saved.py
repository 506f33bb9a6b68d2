"""Saved sweeps: replay gives the live results byte for byte, reads only the folder, and writes nothing."""

from __future__ import annotations

import errno
import json
import os
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.collector.reply import within
from healthcheck.config.files import write_whole
from healthcheck.facts.base import FACTS
from healthcheck.facts.boot import BOOT_CAPTURE
from healthcheck.facts.carried_log import LOG_CAPTURE
from healthcheck.facts.gpusigns import GPUS_CAPTURE
from healthcheck.facts.seen_before import UNUSUAL_CAPTURE
from healthcheck.model.recording import Capture, Outcome, Recording, RecordingError, from_json, to_json
from healthcheck.report.document import as_json
from healthcheck.report.progress import progress
from healthcheck.sweep import sweep
from healthcheck.sweep.saved import Saver
from healthcheck.sweep.snapshots import KeptSnapshots, encode
from healthcheck.sweep.sweep import SweepPlan
from healthcheck.sweep.sweep import SweepResult as Swept
from inventory.errors import UsageError
from inventory.model import Lifecycle, LifecycleState, Node, PortPlan
from inventory.transport.base import Failure, Limits, Program, Reply, Stage
from tests.healthcheck import machine
from tests.packagedrules import RULES
from tests.tries import tries

# The captures that some rule compares with an earlier snapshot, and what is kept of boots and unusual log
# lines.
COMPARED = {probe.id for rule in RULES.rules for name in rule.checked.earlier
            for probe in FACTS[name].probes} | {BOOT_CAPTURE, UNUSUAL_CAPTURE, LOG_CAPTURE, GPUS_CAPTURE}
NODES = (Node(name="gpu001", sku="hgx-h100"), Node(name="gpu002"),
         Node(name="gpu003", sku="hgx-h100", lifecycle=Lifecycle(LifecycleState.RMA)),
         Node(name="gpu004", sku="hgx-h100", ports={"0000:40:00.0": PortPlan(rail=0, leaf="leaf01")},
              labels={"zone": "a"}), Node(name="gpu005", sku="hgx-h100"))


class Canned:
    """A transport that answers with recordings: the seam where a network would be, for what needs none."""

    def __init__(self, answers: dict[str, Recording]) -> None:
        self.answers = answers

    def run(self, nodes: Any, program: Program, limits: Limits) -> Iterator[Reply]:
        for node in reversed(list(nodes)):
            yield Reply(node.name, b"", None, 0.0, 0.0)


@pytest.fixture
def swept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[SweepPlan, Swept, Path]:
    answers = {
        "gpu001": machine.recording("gpu001", gpu_nvml=machine.nvml(gpu3={"ecc_uncorrected": {"ok": 12}})),
        "gpu002": machine.recording("gpu002"),
        "gpu003": machine.recording("gpu003", docker_info=Capture(Outcome.TIMEOUT),
                                    port_sysfs=machine.ports(**{"mlx5_1.link_downed": "4"})),
        "gpu004": machine.recording("gpu004",
                                    kernel_log=machine.done(**{"/dev/kmsg": machine.KMSG
                                                               + "2,99,99,-;NVRM: Xid (PCI:0000:3b:00): 79, "
                                                               "\udc80\x1b[31m\n"})),
        "gpu005": Recording("gpu005", 5.0, None, Failure(Stage.CONNECT, "refused"))}
    transport = Canned(answers)
    monkeypatch.setattr("healthcheck.collector.reply.decode", lambda answer, limit: answers[answer.node])
    stored = KeptSnapshots(tmp_path / "state")
    stored.prepare()
    stored.write(machine.recording("gpu003"), None)
    plan = SweepPlan(NODES, RULES, "hgx-h100", "a test")
    saver = Saver(tmp_path / "saved")
    return plan, sweep.live(plan, transport, Limits(), progress(5, "x", quiet=True), snapshots=stored,
                            saver=saver), tmp_path


def text(outcome: Swept) -> str:
    return "".join(as_json(outcome.assessed.reports, started=outcome.started, finished=outcome.finished,
                           partial=outcome.partial))


def snapshot(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_replay_of_a_saved_sweep_is_the_live_one_byte_for_byte_and_writes_nothing(
    swept: tuple[SweepPlan, Swept, Path]
) -> None:
    _, live, folder = swept
    before = snapshot(folder)
    _, again = sweep.replay(folder / "saved", RULES, (), (), None)
    assert text(again) == text(live)
    assert "lost its link 4 times" in text(live) and '"unknown": 2' in text(live)
    assert snapshot(folder) == before


def test_replay_needs_no_state_folder_for_the_trend(swept: tuple[SweepPlan, Swept, Path]) -> None:
    _, live, folder = swept
    for path in (folder / "state").rglob("*.json"):
        path.unlink()
    assert text(sweep.replay(folder / "saved", RULES, (), (), None)[1]) == text(live)


def test_the_newest_snapshot_is_kept_and_a_node_that_was_not_reached_keeps_its_last_one(
    tmp_path: Path
) -> None:
    stored = KeptSnapshots(tmp_path)
    stored.prepare()
    stored.write(machine.recording("gpu001"), None)
    stored.write(Recording("gpu001", 9.0, None, Failure(Stage.CONNECT, "refused")), None)
    kept = stored.read("gpu001")
    assert kept is not None and kept.host is not None
    assert {"gpu.nvml", "port.sysfs"} <= set(kept.captures) <= COMPARED


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b"{}", b"\xff", b"[" * 100_000])
def test_a_damaged_snapshot_is_no_earlier_snapshot(tmp_path: Path, damage: bytes) -> None:
    stored = KeptSnapshots(tmp_path)
    stored.prepare()
    stored.write(machine.recording("gpu001"), None)
    (tmp_path / "snapshots" / "gpu001.json").write_bytes(damage)
    assert stored.read("gpu001") is None


def _kept(state: Path, name: str, **received: float) -> None:
    """A folder of snapshots with these nodes' times."""
    (state / name).mkdir(mode=0o700, parents=True)
    for node, time in received.items():
        (state / name / f"{node}.json").write_bytes(encode(replace(machine.recording(node), received=time)))


def _times(state: Path) -> dict[str, float | None]:
    return {node: None if (kept := KeptSnapshots(state).read(node)) is None else kept.received
            for node in ("a", "b", "c", "d")}


def test_snapshots_in_the_folder_of_earlier_versions_are_read_and_then_kept_in_the_new_one(
        tmp_path: Path) -> None:
    _kept(tmp_path, "looks", a=1.0, b=2.0)
    assert _times(tmp_path) == {"a": 1, "b": 2, "c": None, "d": None}
    assert (tmp_path / "looks").exists()            # who only reads moves nothing
    KeptSnapshots(tmp_path).prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["snapshots"]
    assert _times(tmp_path) == {"a": 1, "b": 2, "c": None, "d": None}


def test_of_both_folders_each_nodes_newer_snapshot_is_kept(tmp_path: Path) -> None:
    """As after a return to an earlier version, which wrote its own folder anew."""
    _kept(tmp_path, "looks", a=1.0, b=9.0, c=3.0)
    _kept(tmp_path, "snapshots", a=2.0, b=2.0, d=4.0)
    expected = {"a": 2, "b": 9, "c": 3, "d": 4}
    assert _times(tmp_path) == expected
    KeptSnapshots(tmp_path).prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["snapshots"]
    assert _times(tmp_path) == expected


def test_two_commands_that_move_the_snapshots_at_once_lose_none(tmp_path: Path) -> None:
    for turn in range(20):
        state = tmp_path / str(turn)
        _kept(state, "looks", a=1.0, b=9.0)
        if turn % 2:
            _kept(state, "snapshots", b=2.0)
        begin, found = threading.Barrier(4), []

        def take(state: Path = state, begin: threading.Barrier = begin, found: list[float] = found) -> None:
            kept = KeptSnapshots(state)
            begin.wait()
            kept.prepare()
            found.extend(one.received for node in ("a", "b") if (one := kept.read(node)) is not None)

        with ThreadPoolExecutor(4) as pool:
            for done in [pool.submit(take) for _ in range(4)]:
                done.result()
        assert sorted(found) == [1.0] * 4 + [9.0] * 4
        assert [path.name for path in state.iterdir()] == ["snapshots"]


def test_a_state_folder_that_cannot_be_written_is_read_in_its_old_form(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _kept(tmp_path, "looks", a=1.0)

    def refused(path: Path, *_: object, **__: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    for name in ("rename", "replace", "mkdir", "unlink", "rmdir"):
        monkeypatch.setattr(os, name, refused)
    stored = KeptSnapshots(tmp_path)
    stored.prepare()
    assert _times(tmp_path)["a"] == 1
    with pytest.raises(OSError, match=r"Read-only file system: '.*/snapshots'"):
        stored.write(machine.recording("a"), None)


def test_a_node_takes_its_snapshot_of_an_earlier_version_to_its_new_name(tmp_path: Path) -> None:
    _kept(tmp_path, "looks", a=1.0)
    assert KeptSnapshots(tmp_path).rename("a", "b")
    assert _times(tmp_path) == {"a": None, "b": 1, "c": None, "d": None}


def test_a_sweep_that_was_not_finished_is_no_saved_sweep(swept: tuple[SweepPlan, Swept, Path]) -> None:
    folder = swept[2] / "saved"
    (folder / "manifest.json").unlink()
    with pytest.raises(UsageError, match=r"no manifest\.json: the sweep that wrote it did not end"):
        sweep.replay(folder, RULES, (), (), None)


@pytest.mark.parametrize("damage",
                         ["", "{", "[]", '{"schema": "muster.sweep/2"}', '{"schema": "muster.sweep/1"}'])
def test_a_damaged_manifest_is_one_line(swept: tuple[SweepPlan, Swept, Path], damage: str) -> None:
    (swept[2] / "saved" / "manifest.json").write_text(damage)
    with pytest.raises(UsageError) as error:
        sweep.replay(swept[2] / "saved", RULES, (), (), None)
    assert "\n" not in str(error.value)


def test_a_recording_that_is_missing_or_of_another_node_is_an_error_not_a_healthy_node(
    swept: tuple[SweepPlan, Swept, Path]
) -> None:
    nodes = swept[2] / "saved" / "nodes"
    (nodes / "gpu001.json").write_bytes((nodes / "gpu002.json").read_bytes())
    with pytest.raises(UsageError, match="another node"):
        sweep.replay(swept[2] / "saved", RULES, (), (), None)
    (nodes / "gpu001.json").unlink()
    with pytest.raises(UsageError, match=r"gpu001\.json is missing"):
        sweep.replay(swept[2] / "saved", RULES, (), (), None)


def test_a_folder_with_something_in_it_is_not_written_into(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    with pytest.raises(UsageError, match="not an empty folder"):
        Saver(tmp_path)


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.json"
    write_whole(path, b"old")

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        write_whole(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["x.json"] and path.read_bytes() == b"old"


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats()
                    | st.text(max_size=8), lambda inner: st.lists(inner, max_size=3)
                    | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=8)
PLACES = [("schema",), ("node",), ("received",), ("host",), ("captures",), ("failure",), ("host", "time"),
          ("host", "uid"), ("captures", "docker.info"), ("captures", "docker.info", "outcome"),
          ("captures", "gpu.pci", "files")]


@settings(deadline=None, max_examples=tries(300))
@given(place=st.sampled_from(PLACES), value=JSON)
def test_any_document_is_a_recording_or_a_one_line_error(place: tuple[str, ...], value: Any) -> None:
    whole = json.loads(encode(machine.recording()))
    at = whole
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = value
    try:
        assert to_json(from_json(whole))
    except RecordingError as error:
        assert "\n" not in str(error)


def test_what_is_kept_and_saved_is_for_its_owner_only(swept: tuple[SweepPlan, Swept, Path]) -> None:
    for part in ("state", "saved"):
        for path in (swept[2] / part).rglob("*"):
            assert path.stat().st_mode & 0o077 == 0, path


def test_a_snapshot_that_cannot_be_kept_is_one_line_and_costs_no_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "healthcheck.collector.reply.decode", lambda answer, limit: machine.recording(answer.node))
    stored = KeptSnapshots(tmp_path / "state")
    (tmp_path / "state" / "snapshots" / "gpu001.json").mkdir(parents=True)
    plan = SweepPlan(NODES[:1], RULES, "hgx-h100", "a test")
    outcome = sweep.live(plan, Canned({}), Limits(), progress(1, "x", quiet=True), snapshots=stored)
    assert outcome.troubles == (
        "the newest snapshot of gpu001 could not be kept in the state folder: "
        f"{tmp_path}/state/snapshots/gpu001.json: Is a directory",)
    assert outcome.assessed.reports[0].results


def test_a_sweep_of_few_rules_keeps_what_the_others_compare_with(tmp_path: Path) -> None:
    stored = KeptSnapshots(tmp_path)
    stored.prepare()
    whole = machine.recording("gpu001")
    stored.write(whole, None)
    stored.write(replace(whole, captures={"host.swap": whole.captures["host.swap"]}),
                   stored.read("gpu001"))
    kept = stored.read("gpu001")
    assert kept is not None and {"gpu.nvml", "port.sysfs"} <= set(kept.captures) <= COMPARED


def test_a_node_that_brings_more_than_it_was_asked_for_is_cut_to_it() -> None:
    probes = RULES.probe_set(10)
    asked = {probe.id for probe in probes.probes}
    every = machine.recording()
    honest = replace(every,
                     captures={name: capture for name, capture in every.captures.items() if name in asked})
    assert within(honest, probes) is honest
    flood = machine.recording(docker_info=Capture(Outcome.DONE, exit=0, text="x" * 3_000_000),
                              what_ever=Capture(Outcome.DONE))
    cut = within(flood, probes)
    assert "what.ever" not in cut.captures
    assert cut.captures["docker.info"].outcome is Outcome.TRUNCATED
    assert len(cut.captures["docker.info"].text) == 1 << 20


def test_a_name_from_a_saved_folder_that_is_no_name_is_refused(swept: tuple[SweepPlan, Swept, Path]) -> None:
    path = swept[2] / "saved" / "manifest.json"
    path.write_text(path.read_text().replace('"gpu001"', '"gpu\\u001b[31m001"', 1))
    with pytest.raises(UsageError) as error:
        sweep.replay(swept[2] / "saved", RULES, (), (), None)
    assert "\x1b" not in str(error.value)


# The rules of the first version, which captured nothing for others.
FIRST = ("docker-answers", "filesystem-inodes", "filesystem-read-only", "filesystem-space", "fleet-driver",
         "fleet-kernel", "gpu-answers", "gpu-count", "gpu-ecc-enabled", "gpu-ecc-uncorrected",
         "host-clock-synchronised", "host-memory", "host-swap", "kernel-hardware-error", "kernel-xid",
         "port-count", "port-link-downed", "port-rate", "port-state")


def test_a_sweep_saved_by_the_first_version_is_still_read_and_judged_the_same() -> None:
    """tests/recordings/demo-sweep: four nodes of the demo fleet, saved with --save; one faulty, one with a
    link lost since, one refusing.
    """
    here = Path(__file__).resolve().parents[2]
    ruleset = RULES.select(FIRST)
    first = replace(ruleset, rules=tuple(rule for rule in ruleset.rules if not rule.left_out))
    again = text(sweep.replay(here / "recordings" / "demo-sweep", first, (), (), None)[1])
    golden = here / "golden" / "demo-sweep.json"
    if os.environ.get("MUSTER_GOLDEN") == "update":
        golden.write_text(again)
    assert again == golden.read_text()
