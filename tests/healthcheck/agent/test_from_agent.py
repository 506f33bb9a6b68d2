"""What home makes of an agent's file: whatever is wrong with it, the node is unknown, and a reason says
why."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.collector import reply as replies
from healthcheck.model.outcome import NodeState, Origin, Status, origin_of
from healthcheck.model.probes import Probe, ProbeKind, ProbeSet
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording, to_json
from healthcheck.sweep.agents import PATH, PROBE, Agents
from inventory.load import load_inventory
from inventory.release import VERSION
from inventory.transport.base import Failure, Stage
from provisioning.demo.fleet import DemoFleet
from tests.command import muster
from tests.healthcheck.agent.world import World, bundle, install
from tests.healthcheck.assessing import assessed
from tests.packagedrules import RULES
from tests.testbed.memory import base_in_memory
from tests.testbed.require import require_fleet

OWN = VERSION
NOW = 1_795_000_000.0
HOST = Host("gpu001", "boot-1", NOW, 0, "3.11.2", "x86_64", 0.1)
WANTED = ProbeSet.of([Probe("host.swap", ProbeKind.FILES, paths=("/proc/swaps",)),
                      Probe("host.uptime", ProbeKind.FILES, paths=("/proc/uptime",))])
SWAP = Capture(Outcome.DONE, files={"/proc/swaps": FileCapture(Outcome.DONE, "Filename\n")})


def recorded(age: float = 100.0, **changes: Any) -> Recording:
    host = replace(HOST, **{"time": NOW - age, **changes})
    return Recording("gpu001", NOW - age, host, None, {"host.swap": SWAP})


def document(look: Recording | None = None, **changes: Any) -> dict[str, Any]:
    told = to_json(look or recorded())
    return {"schema": "muster.agent/1", "node": "gpu001", "time": NOW - 100, "version": OWN, "period": 300,
            "recording": told, "previous": None, **changes}


def packed(said: Any) -> bytes:
    return gzip.compress(json.dumps(said).encode(), 1, mtime=0)


def answer(data: bytes, outcome: Outcome = Outcome.DONE, **changes: Any) -> Recording:
    """The collector's answer that brings this file."""
    file = FileCapture(outcome, data.decode("utf-8", "surrogateescape"))
    return Recording("gpu001", NOW, replace(HOST, **changes), None,
                     {PROBE.id: Capture(Outcome.DONE, files={PATH: file})})


def why(reply: Recording, max_age: float | None = None) -> str:
    recording, previous = Agents(max_age).snapshots(reply, WANTED)
    assert (recording.host is None and recording.failure is not None and previous is None
            and recording.captures == {})
    ours = ("none has left a snapshot", "readable for root only", "of another version")
    # What we have not installed, or may not read, is no fault of the node.
    assert recording.failure.stage is (Stage.NO_AGENT if any(word in recording.failure.reason
                                                             for word in ours) else Stage.AGENT)
    return recording.failure.reason


def test_a_fresh_look_is_taken_as_it_was_recorded() -> None:
    recording, previous = Agents().snapshots(answer(packed(document())), WANTED)
    assert recording == recorded() and previous is None
    before = recorded(400.0)
    recording, previous = Agents().snapshots(answer(packed(document(previous=to_json(before)))), WANTED)
    assert (recording, previous) == (recorded(), before)


def test_an_answer_that_the_node_could_not_make_a_recording_of_is_read_at_home() -> None:
    text = {"schema": replies.SCHEMA, "host": vars(replace(HOST, time=NOW - 9)), "captures": {
        "host.swap": {"outcome": "done", "seconds": 0.0, "bytes": 9, "text": "x"}}}
    body = base64.b64encode(zlib.compress(json.dumps(text).encode())).decode()
    said = document(recording=None, reply=body, time=NOW - 9, previous_reply=body, previous_time=NOW - 309)
    del said["previous"]
    recording, previous = Agents().snapshots(answer(packed(said)), WANTED)
    assert (recording.host is not None and recording.captures["host.swap"].text == "x"
            and recording.received == NOW - 9)
    assert previous is not None and previous.received == NOW - 309
    assert "not base64" in why(answer(packed(dict(said, reply="?"))))


def test_a_look_that_is_older_than_two_periods_says_nothing() -> None:
    for age, good in ((599.0, True), (601.0, False)):
        recording, _ = Agents().snapshots(answer(packed(document(recorded(age)))), WANTED)
        assert (recording.host is not None) is good
    assert (why(answer(packed(document(recorded(601)))))
            == "its agent's snapshot is 10 min old, and at most 10 min is accepted (muster agent status)")
    assert "at most 60 s" in why(answer(packed(document(recorded(61)))), 60.0)
    assert Agents(3600.0).snapshots(answer(packed(document(recorded(601)))), WANTED)[0].host is not None


@pytest.mark.parametrize("period", [None, "300", True, 0, -5, 1e9, float("inf")])
def test_an_agent_that_does_not_say_how_often_it_looks_is_believed_for_no_time(period: Any) -> None:
    assert "how often" in why(answer(packed(document(period=period))))


@pytest.mark.parametrize("off", [-120.0, 61.0, 86400.0])
def test_a_node_whose_clock_is_wrong_is_unknown_however_fresh_its_look_seems(off: float) -> None:
    said = answer(packed(document(recorded(-off + 10))), time=NOW + off)
    assert f"clock is {abs(off):.0f} s {'ahead' if off > 0 else 'behind'}" in why(said)


def test_a_look_from_the_future_was_made_by_a_wrong_clock() -> None:
    assert "30 s in the future" in why(answer(packed(document(recorded(-30.0)))))
    assert Agents().snapshots(answer(packed(document(recorded(-1.0)))), WANTED)[0].host is not None


@pytest.mark.parametrize(("said", "expected"), [
    (document(node="gpu002"), "belongs to node 'gpu002'"),
    (document(node=None), "belongs to node None"),
    (document(replace(recorded(), node="gpu002")), "its agent's snapshot is of node 'gpu002'"),
    (document(recorded(hostname="gpu002")), "calls itself 'gpu002', and this one is 'gpu001'"),
    (document(recorded(boot_id="boot-0")), "booted after its agent's snapshot"),
    (document(schema="muster.agent/0"),
     "of another version ('muster.agent/0', expected muster.agent/1): muster agent upgrade gpu001"),
    (document(schema="\x1b[2J"), "of another version"),
    (document(schema="muster.agent/2"), "update muster here, or muster agent rollback gpu001"),
    (document(version="999.0"), "of another version (999.0, "),
    (document(version=None), "of another version (None, which is none"),
    (document(recording=None), "holds no recording"),
    (document(recording={"schema": "muster.recording/9"}), "schema is 'muster.recording/9'"),
    (document(recording=[]), "not a JSON object"),
    ([], "of another version"), (7, "of another version"), (None, "of another version"),
])
def test_what_is_of_another_node_boot_machine_or_version_is_unknown(said: Any, expected: str) -> None:
    reason = why(answer(packed(said)))
    assert expected in reason and reason.isprintable()


@pytest.mark.parametrize(("outcome", "expected"), [
    (Outcome.MISSING, "muster agent install gpu001"), (Outcome.DENIED, "readable for root only"),
    (Outcome.TRUNCATED, "over 4 MiB"),
    (Outcome.WEDGED, "cannot be read (wedged"), (Outcome.CRASHED, "cannot be read (crashed"),
    (Outcome.TIMEOUT, "cannot be read (timeout"),
])
def test_a_file_that_could_not_be_read_is_unknown_with_its_reason(outcome: Outcome, expected: str) -> None:
    assert expected in why(answer(b"", outcome))
    whole = replace(answer(b""), captures={PROBE.id: Capture(outcome, note="x")})
    assert expected in why(whole)
    assert "did not report" in why(replace(answer(b""), captures={}))


def test_a_file_that_grows_past_its_bound_is_not_unpacked() -> None:
    assert "grows past 32 MiB" in why(answer(gzip.compress(b" " * (33 << 20), 9)))


def test_a_look_that_came_to_nothing_stays_what_it_was() -> None:
    failed = Recording("gpu001", NOW, None,
                       Failure(Stage.DEADLINE, "the collector did not answer within its time, and was ended"))
    recording, _ = Agents().snapshots(answer(packed(document(failed))), WANTED)
    assert recording.failure == failed.failure and recording.host is None


def test_a_node_that_was_not_reached_stays_so() -> None:
    unreached = Recording("gpu001", NOW, None, Failure(Stage.CONNECT, "no route"))
    assert Agents().snapshots(unreached, WANTED) == (unreached, None)


def test_what_no_rule_asks_for_is_left_out() -> None:
    more = replace(recorded(), captures=MappingProxyType({"host.swap": SWAP, "evil": SWAP}))
    assert set(Agents().snapshots(answer(packed(document(more))), WANTED)[0].captures) == {"host.swap"}


GOOD = packed(document())


@given(at=st.integers(0, len(GOOD) - 1))
def test_a_file_that_is_cut_anywhere_is_unknown(at: int) -> None:
    assert why(answer(GOOD[:at]))


@given(at=st.integers(0, len(GOOD) - 1), bit=st.integers(0, 7))
def test_one_bit_more_or_less_is_found_or_changes_nothing(at: int, bit: int) -> None:
    data = bytearray(GOOD)
    data[at] ^= 1 << bit
    recording, _ = Agents().snapshots(answer(bytes(data)), WANTED)
    assert recording.host is None or recording == recorded()     # some bits of gzip's header mean nothing


PLAIN = st.recursive(st.none() | st.just(10**400) | st.booleans() | st.floats() | st.text(max_size=8)
                     | st.integers(), lambda inner: st.lists(inner, max_size=3)
                     | st.dictionaries(st.sampled_from(("node", "host", "captures", "received", "time",
                                                        "boot_id", "schema")), inner, max_size=4))


@given(said=st.dictionaries(st.sampled_from(("schema", "node", "period", "time", "recording", "previous",
                                             "reply", "previous_reply")), PLAIN))
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_whatever_a_node_writes_there_ends_no_sweep_and_makes_no_node_healthy(said: dict[str, Any]) -> None:
    recording, previous = Agents().snapshots(
        answer(packed({"schema": "muster.agent/1", "node": "gpu001", "version": OWN, **said})), WANTED)
    (report,) = assessed(recording, sku="cpu-only", before={"gpu001": previous}).reports
    assert report.state is NodeState.UNKNOWN and report.reason


def test_what_an_agent_of_another_version_does_not_record_is_unknown_of_our_making_and_all_else_counts(
) -> None:
    agents = Agents(head="0.2.0")
    recording, _ = agents.snapshots(answer(packed(document(version="0.1.9"))), WANTED)
    assert recording.captures["host.swap"] == SWAP
    lacking = recording.captures["host.uptime"]
    assert (lacking.outcome is Outcome.UNABLE
            and lacking.note.endswith("(0.1.9, 0.2.0 here): muster agent upgrade gpu001"))
    assert "host.uptime" not in agents.snapshots(answer(packed(document(version="0.2.0"))),
                                                 WANTED)[0].captures
    # Judged: the rule that rests on it is unknown of muster, and so is a node of which nothing else is.
    wanted = RULES.probe_set(30.0)
    older, _ = agents.snapshots(answer(packed(document(version="0.1.9"))), wanted)
    (report,) = assessed(older, sku="cpu-only").reports
    unknown = [one for one in report.results if one.status is Status.UNKNOWN]
    assert unknown and {one.origin for one in unknown} == {Origin.MUSTER}
    assert all("muster agent upgrade gpu001" in one.reason
               for one in unknown if "does not record" in one.reason)
    assert report.state is NodeState.UNKNOWN and origin_of(report) is Origin.MUSTER


@given(text=st.text(st.characters()) | st.text("\ud800\udc80\udcff\udfff"))
def test_a_file_that_is_no_bytes_is_unknown(text: str) -> None:
    file = FileCapture(Outcome.DONE, text)
    assert why(replace(answer(b""), captures={PROBE.id: Capture(Outcome.DONE, files={PATH: file})}))


@pytest.mark.parametrize("time", [10**400, -(10**400), 1e300, None, "now", [], float("nan")])
def test_a_time_that_is_none_ends_no_sweep(time: Any) -> None:
    assert why(answer(packed(document(recording=None, reply="", time=time))))
    assert why(
        answer(packed(document(recording=None, reply="", time=NOW, previous_reply="", previous_time=time))))




def test_over_ssh_home_judges_what_agents_left_and_replays_it_alike(tmp_path: Path) -> None:
    require_fleet()
    made = bundle()
    with DemoFleet(base=base_in_memory(tmp_path),
                   planted={"gpu001": [], "gpu002": ["ecc-uncorrectable"], "gpu003": []}) as fleet:
        inventory = load_inventory(fleet.inventory)
        first: World | None = None
        for name in ("gpu001", "gpu002"):
            node = fleet.nodes[name]
            at = tmp_path / name
            at.mkdir()
            installed = install(at, made, inventory.nodes[name], node.tree)
            if first is not None:
                installed.compiled(first)
            first = installed
            assert installed.run().returncode in (0, 1, 3)
        words = ("check", "--inventory", str(fleet.inventory), "--from-agent", "--format", "json", "--full")
        live = muster(*words, "--save", "kept", "--store", home=tmp_path)
        assert live.returncode == 1, live.stderr
        told = {one["node"]: one for one in json.loads(live.stdout)["nodes"]}
        assert {one["rule"]
                for one in told["gpu002"]["results"] if one["status"] == "fail"} >= {"gpu-ecc-uncorrected"}
        assert (sum(one["status"] == "pass" for one in told["gpu001"]["results"]) > 80
                and told["gpu001"]["state"] != "unknown")
        assert told["gpu003"]["state"] == "unknown"
        assert (told["gpu003"]["reason"]
                == "no agent: none has left a snapshot there (muster agent install gpu003)")
        (fleet.nodes["gpu001"].tree / PATH.lstrip("/")).write_bytes(b"")
        emptied = json.loads(muster(*words, home=tmp_path).stdout)["nodes"][0]
        assert (emptied["state"], emptied["reason"]) == ("unknown", "agent: its agent's file is cut")
    again = muster("check", "--replay", "kept", "--format", "json", "--full", home=tmp_path)
    assert json.loads(again.stdout)["nodes"] == json.loads(live.stdout)["nodes"]
    assert "gpu002" in muster("history", "--still", home=tmp_path).stdout
