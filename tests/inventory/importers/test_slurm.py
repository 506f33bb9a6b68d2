"""Slurm's nodes: a real 22.05 asked live and read back, newer formats, and bytes of no meaning."""

from __future__ import annotations

import datetime as dt
import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.discover import CommandOutput
from inventory.errors import InventoryError, MusterError, UsageError
from inventory.importers import slurm
from inventory.importers.base import MAX_BYTES, MAX_NOTES, Imported
from tests.testbed.require import require
from tests.testbed.slurm import WHY_NOT, Slurm, can_run
from tests.testbed.slurm import slurm as cluster
from tests.tries import tries

RECORDINGS = Path(__file__).parents[2] / "recordings" / "slurm"


def plain(found: Imported) -> dict[str, dict[str, Any]]:
    return {name: dict(values) for name, values in found.nodes.items()}


def parse(text: str) -> Imported:
    return slurm.parse(text.encode(), "nodes.txt")


def refused(text: str | bytes) -> str:
    with pytest.raises(InventoryError) as caught:
        slurm.parse(text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape"), "nodes.txt")
    assert str(caught.value).isprintable()
    return str(caught.value)


# a real cluster

@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slurm]:
    require(can_run(), WHY_NOT)
    future = "NodeName=new[1-2] State=FUTURE CPUs=1"
    with cluster(tmp_path_factory.mktemp("slurm"), ["gpu001", "gpu002", "gpu003"], extra=future,
                 partitions={"train": ["gpu001", "gpu002"], "debug": ["gpu003", "gpu001"]}) as running:
        running.ask("scontrol", "update", "nodename=gpu002", "state=drain",
                    "reason=bad DIMM NodeAddr=192.0.2.66\nState=FUTURE")
        yield running


KNOWN = {"address": "127.0.0.1", "labels": {"gres": "gpu:h100:8", "features": "h100,rack1"}}


def test_a_live_cluster_and_all_that_it_prints_give_the_same_nodes(
    bed: Slurm, monkeypatch: pytest.MonkeyPatch,
) -> None:
    for key, value in bed.environment.items():
        monkeypatch.setenv(key, value)
    live = slurm.live()
    assert plain(live) == {"gpu001": KNOWN, "gpu002": KNOWN, "gpu003": KNOWN,
                           "new1": {"lifecycle": "planned"}, "new2": {"lifecycle": "planned"}}
    assert live.groups == {"train": ("gpu001", "gpu002"), "debug": ("gpu001", "gpu003")}
    for argv in (["scontrol", "-aF", "show", "node"], ["scontrol", "-aFo", "show", "node"]):
        saved = parse(bed.ask(*argv))
        assert (saved.nodes, saved.groups) == (live.nodes, live.groups), argv
    there = {name: values for name, values in plain(live).items() if not name.startswith("new")}
    # neither shows what is still to come
    for argv in (["sinfo", "--json"], ["scontrol", "show", "node"]):
        saved = parse(bed.ask(*argv))
        assert (plain(saved), saved.groups) == (there, live.groups), argv


def test_a_drained_node_stays_in_service_and_its_reason_is_a_note_that_forges_nothing(bed: Slurm) -> None:
    for argv in (["scontrol", "show", "node"], ["scontrol", "-o", "show", "node"], ["sinfo", "--json"]):
        found = parse(bed.ask(*argv))
        assert dict(found.nodes["gpu002"]) == KNOWN
        (note,) = found.notes
        assert note.startswith("gpu002: a state with the reason 'bad DIMM")
        assert note.isprintable()


def test_a_controller_that_is_down_is_one_line_with_the_next_step(
    bed: Slurm, monkeypatch: pytest.MonkeyPatch, tmp_path: Path,
) -> None:
    conf = tmp_path / "slurm.conf"
    conf.write_text(bed.conf.read_text().replace("SlurmctldPort=",
                                                 "SlurmctldTimeout=2\nMessageTimeout=2\nSlurmctldPort=1 #"))
    monkeypatch.setenv("SLURM_CONF", str(conf))
    with pytest.raises(UsageError) as caught:
        slurm.live()
    assert str(caught.value).isprintable()
    assert "scontrol failed (exit 1): " in str(caught.value)
    assert "scontrol ping" in str(caught.value)


# what it prints

@pytest.mark.parametrize("name", ["scontrol.txt", "scontrol-o.txt", "sinfo.json"])
def test_recordings_of_slurm_22_05_are_read_alike(name: str) -> None:
    """As real commands printed them; only the name of the host and of its kernel are others."""
    found = slurm.parse((RECORDINGS / name).read_bytes(), name)
    assert plain(found) == {"gpu001": KNOWN, "gpu002": KNOWN, "gpu003": KNOWN}
    assert found.groups == {"train": ("gpu001", "gpu002"), "debug": ("gpu001", "gpu003")}


# Fields and forms as data_parser v0.0.40 (Slurm 23.11) and v0.0.41 write them: state,
# features and partitions as lists.
NEWER = {
    "nodes": [
        {"architecture": "x86_64", "name": "host1", "address": "10.1.0.1", "hostname": "host1",
         "state": ["IDLE", "DRAIN"], "features": ["h100", "ib"], "active_features": ["h100"],
         "gres": "gpu:h100:8(S:0-1),nic:2", "gres_drained": "N/A", "partitions": ["train"],
         "reason": "Not responding", "reason_set_by_user": "slurm",
         "reason_changed_at": {"set": True, "infinite": False, "number": 1769096589}, "owner": "",
         "port": 6818},
        {"name": "host2", "address": "host2", "hostname": "juju-2", "state": ["DOWN", "DYNAMIC_NORM"],
         "features": [], "gres": "", "partitions": [], "reason": ""},
        {"name": "host3", "address": "10.1.0.3", "hostname": "host3", "state": ["IDLE", "CLOUD"],
         "features": [], "gres": "N/A", "partitions": ["train"], "reason": ""},
        {"name": "host4", "address": "", "hostname": "", "state": ["FUTURE"], "features": [], "gres": "",
         "partitions": []},
    ],
    "last_update": {"set": True, "infinite": False, "number": 1769096589}, "warnings": [], "errors": [],
    "meta": {"plugin": {"type": "", "name": "", "data_parser": "data_parser/v0.0.41"},
             "slurm": {"version": {"major": "24"}}},
}


def test_newer_slurm_writes_lists_where_22_05_writes_text() -> None:
    found = parse(json.dumps(NEWER))
    assert plain(found) == {
        "host1": {"address": "10.1.0.1", "labels": {"gres": "gpu:h100:8,nic:2", "features": "h100,ib"}},
        "host2": {}, "host3": {}, "host4": {"lifecycle": "planned"},
    }
    assert found.groups == {"train": ("host1", "host3")}
    assert found.notes == (
        "host1: a state with the reason 'Not responding' is ignored: Slurm keeps it (sinfo -R)",
        "host3: the address is ignored: a CLOUD node gets another with each start")


def test_the_table_of_a_newer_sinfo_is_refused_with_the_command_to_use() -> None:
    assert "scontrol show nodes --json" in refused('{"sinfo": [], "meta": {}}')


def test_a_node_that_was_future_when_it_registered_is_in_service() -> None:
    assert dict(parse("NodeName=a NodeAddr=a State=IDLE+DYNAMIC_FUTURE\n").nodes["a"]) == {}
    assert (dict(parse("NodeName=a NodeAddr=(null) NodeHostName=N/A Gres=(null) State=FUTURE\n").nodes["a"])
            == {"lifecycle": "planned"})


def test_a_partition_called_all_is_no_group_of_ours() -> None:
    found = parse("NodeName=a NodeAddr=a State=IDLE Partitions=all,b\n")
    assert found.groups == {"b": ("a",)}
    assert found.notes == ("the group all is ignored: @all is every node",)


def test_what_a_node_says_of_its_system_cannot_forge_its_record() -> None:
    lying = ("NodeName=a NodeAddr=10.0.0.1 OS=Linux NodeAddr=6.6.6.6 RealMemory=1 AllocMem=0 State=FUTURE  "
             "RealMemory=100 AllocMem=0 State=IDLE")
    assert dict(parse(lying + "\n").nodes["a"]) == {"address": "10.0.0.1"}
    assert "no State" in refused(
        "NodeName=a NodeAddr=b OS=Linux Reason=x RealMemory=1 AllocMem=0 State=IDLE\n")
    assert "is here twice" in refused("NodeName=a NodeAddr=10.0.0.1 NodeAddr=6.6.6.6 State=IDLE\n")


@pytest.mark.timeout(20)
@pytest.mark.parametrize("tail", [" OS=a" + " " * 1_000_000 + "Z", " Gres=" + "(" * 1_000_000,
                                  " Reason=" + " [a" * 400_000])
def test_a_long_line_of_a_node_takes_no_long_time(tail: str) -> None:
    assert list(parse(f"NodeName=a State=IDLE{tail}\n").nodes) == ["a"]


@pytest.mark.parametrize(("text", "error"), [
    ("", "nodes.txt: names no node"),
    ("hello\n", "nodes.txt:1:1: 'hello' is not a line of scontrol"),
    ("NodeName=a State=IDLE\nJobId=7\n", "nodes.txt:2:1: 'JobId=7'"),
    ("NodeName=a State=IDLE\nNodeName=a State=IDLE\n",
     "nodes.txt:2:1: duplicate node a: it is already at nodes.txt:1:1"),
    ("NodeName=a State=IDLE\nNodeName=-x State=IDLE\n", "nodes.txt:2:1: '-x' is not a node name"),
    ("NodeName= State=IDLE\n", "nodes.txt:1:1: '' is not a node name"),
    ("NodeName=a\n   NodeAddr=b\n", "nodes.txt:1:1: 'a' has no State: is the output cut off?"),
    ("NodeName=a NodeAddr=b;c State=IDLE\n", "nodes.txt:1:1: address is 'b;c', expected a host name"),
    ('{"nodes": [', "nodes.txt:1:12: not valid JSON"),
    ('{"nodes": {}}', "nodes.txt: has no list of nodes"),
    ("[]", "nodes.txt: has no list of nodes"),
    ('{"nodes": [{}]}', "nodes.txt: nodes[0] has no name"),
    ('{"nodes": [{"name": "a", "state": 3}]}', "nodes.txt: state of 'a' is neither text nor a list of texts"),
    ('{"nodes": [{"name": "a b"}]}', "nodes.txt: 'a b' is not a node name"),
    ('{"nodes": [{"name": "a", "address": "b c"}]}', "nodes.txt: a: address is 'b c'"),
    ('{"nodes": NaN}', "nodes.txt: not valid JSON: NaN"),
    ("[" * 100_000, "nodes.txt: not valid JSON: nested too deep"),
    (b"{" + b" " * MAX_BYTES, "nodes.txt: is over the size limit of 16777216 bytes"),
])
def test_bad_output_is_one_line_that_names_the_place(text: str | bytes, error: str) -> None:
    assert refused(text).startswith(error)


def test_a_reason_of_very_many_lines_takes_no_long_time() -> None:
    text = "NodeName=n1 State=IDLE Reason=x\n" + " \n" * 100_000 + "y\n" * 100_000
    began = time.monotonic()
    assert list(parse(text).nodes) == ["n1"]
    assert time.monotonic() - began < 5       # it was a minute


def test_many_reasons_are_shared_and_bounded_notes() -> None:
    same = "".join(f"NodeName=n{at} State=DOWN Reason=no power [root@2026-01-01T00:00:0{at % 10}]\n"
                   for at in range(300))
    assert parse(same).notes == (
        "n[0-299]: a state with the reason 'no power' is ignored: Slurm keeps it (sinfo -R)",)
    other = "".join(f"NodeName=n{at} State=DOWN Reason=fault {at}\n" for at in range(3000))
    assert len(parse(other).notes) == MAX_NOTES
    assert "more notes" in parse(other).notes[-1]


@pytest.mark.parametrize(("answer", "error"), [
    (FileNotFoundError(), "scontrol was not found"), (TimeoutError(), "scontrol did not answer"),
    (CommandOutput(1, b"", b"slurm_load_node: \x1b[31mUnable to contact"),
     "scontrol failed (exit 1): slurm_load_node: \\x1b[31mUnable"),
])
def test_a_controller_that_gives_no_nodes_is_a_usage_error(
    answer: CommandOutput | Exception, error: str,
) -> None:
    def run(argv: object) -> CommandOutput:
        if isinstance(answer, Exception):
            raise answer
        return answer

    with pytest.raises(UsageError) as caught:
        slurm.live(run)
    assert str(caught.value).startswith(error)


# what nodes are doing now

@pytest.mark.parametrize("name", ["scontrol-o.txt", "sinfo.json"])
def test_recordings_of_22_05_say_what_each_node_is_doing(name: str) -> None:
    text = slurm.states_of((RECORDINGS / "scontrol.txt").read_bytes(), "nodes.txt")
    seen = slurm.states_of((RECORDINGS / name).read_bytes(), "nodes.txt")
    shared = text.keys() & seen.keys()
    assert shared and {node: seen[node][:2] for node in shared} == {node: text[node][:2] for node in shared}
    # The recordings were made in UTC, where a date means what the number does.
    assert {node: seen[node].booted for node in shared} == {node: text[node].booted for node in shared}


# As scontrol show nodes --json writes it (data_parser v0.0.41, Slurm 24.05): states and flags in one list,
# numbers that may not be set.
DOING = {"nodes": [
    {"name": "a", "state": ["IDLE", "DRAIN", "REBOOT_REQUESTED"], "reason": "muster#12: fan",
     "reason_set_by_user": "root",
     "reason_changed_at": {"set": True, "infinite": False, "number": 1763717390},
     "boot_time": {"set": True, "infinite": False, "number": 1763717387}},
    {"name": "b", "state": ["DOWN", "DRAIN", "NOT_RESPONDING"], "reason": "x",
     "boot_time": {"set": False, "infinite": False, "number": 5}},
    {"name": "c", "state": ["MIXED", "MAINTENANCE"], "reason": "",
     "boot_time": {"set": True, "infinite": True, "number": 0}},
]}


def test_newer_slurm_says_what_nodes_are_doing_in_lists_and_numbers_that_may_not_be_set() -> None:
    assert slurm.states_of(json.dumps(DOING).encode(), "nodes.json") == {
        "a": slurm.SlurmNodeState(frozenset({"IDLE", "DRAIN", "REBOOT_REQUESTED"}), "muster#12: fan",
                                  1763717387, "root", 1763717390),
        "b": slurm.SlurmNodeState(frozenset({"DOWN", "DRAIN", "NOT_RESPONDING"}), "x", None),
        "c": slurm.SlurmNodeState(frozenset({"MIXED", "MAINTENANCE"}), None, None),
    }


@pytest.mark.parametrize(("text", "booted"),
                         [("2026-11-21T09:29:47", 1795253387), ("None", None), ("Unknown", None),
                          ("2026-02-31T00:00:00", None), ("09:29:47", None), ("", None)])
def test_since_when_a_node_is_up_is_a_date_in_utc_or_not_known(text: str, booted: float | None) -> None:
    assert slurm.states_of(f"NodeName=a State=IDLE BootTime={text} x=1".encode(), "x")["a"].booted == booted


@pytest.mark.parametrize("value", [0, -1, 0xFFFFFFFE, 0xFFFFFFFF, 2**70, True, "1763717387", 1.5, [], {},
                                   {"set": True, "number": "1"}])
def test_what_is_no_time_in_json_is_not_known(value: object) -> None:
    assert slurm.states_of(json.dumps({"nodes": [{"name": "a", "boot_time": value}]}).encode(),
                           "x")["a"].booted is None


def test_a_live_cluster_says_the_same_of_its_nodes_as_text_and_as_json(bed: Slurm) -> None:
    text = bed.ask("env", "TZ=UTC0", "scontrol", "--all", "-o", "show", "node")
    seen, as_json = (slurm.states_of(out.encode(), "x") for out in (text, bed.ask("sinfo", "--json")))
    assert seen.keys() >= as_json.keys() >= {"gpu001", "gpu002", "gpu003"}
    for name, one in as_json.items():
        assert (one.states - {"NOT_RESPONDING"} == seen[name].states - {"NOT_RESPONDING", ""}
                and one.booted == seen[name].booted)
    assert "DRAIN" in as_json["gpu002"].states and seen["gpu002"].booted is not None


# any bytes, and any nodes

@given(st.binary(max_size=400) | st.text(max_size=400).map(str.encode)
       | st.text(alphabet='NodeName=a ReasonState\nOSIDLE[]{}":,', max_size=300).map(
           lambda text: b"NodeName=a State=b " + text.encode()))
def test_no_bytes_raise_anything_but_one_line(data: bytes) -> None:
    for read in (slurm.parse, slurm.states_of):
        try:
            read(data, "nodes.txt")
        except MusterError as problem:
            assert str(problem).isprintable()


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=9),
                    lambda inner: st.lists(inner,
                                           max_size=3)
                    | st.dictionaries(st.sampled_from(["nodes", "name", "state", "features", "gres",
                                                       "address", "partitions", "reason", "state",
                                                       "boot_time", "set", "number"]), inner, max_size=5)))
def test_no_json_raises_anything_but_one_line(document: Any) -> None:
    for whole in (document, {"nodes": document}, {"nodes": [document]}):
        for read in (slurm.parse, slurm.states_of):
            try:
                read(json.dumps(whole).encode(), "nodes.txt")
            except MusterError as problem:
                assert str(problem).isprintable()


WORD = st.text("abcdefghij0123456789_", min_size=1, max_size=8)
FREE = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF, exclude_characters="\x7f"), max_size=30)
NODE = st.fixed_dictionaries({
    "address": st.none() | st.from_regex(r"10\.[0-9]{1,2}\.0\.[1-9]", fullmatch=True),
    "gres": st.none() | st.builds("gpu:{}:{}".format, WORD, st.integers(1, 16)),
    "features": st.lists(WORD.map("f".__add__), max_size=3, unique=True),
    "flags": st.lists(st.sampled_from(["DRAIN", "NOT_RESPONDING", "POWERED_DOWN", "MAINTENANCE"]),
                      unique=True, max_size=2),
    "future": st.booleans(),
    "partitions": st.lists(WORD.map("p".__add__), max_size=3, unique=True),
    "reason": FREE, "os": FREE, "booted": st.none() | st.integers(1, 0x7FFFFFFF),
})
NODES = st.dictionaries(WORD, NODE, min_size=1, max_size=5)


def as_scontrol(nodes: Mapping[str, Mapping[str, Any]], between: str) -> str:
    """Nodes as scontrol prints them: `between` parts is a space with -o and a line end without."""
    def record(name: str, node: Mapping[str, Any]) -> str:
        state = "+".join(["FUTURE" if node["future"] else "IDLE", *node["flags"]])
        parts = [
            f"NodeName={name} Arch=x86_64 CoresPerSocket=1 ",
            f"AvailableFeatures={','.join(node['features']) or '(null)'}",
            f"Gres={node['gres'] or '(null)'}",
            f"NodeAddr={node['address'] or name} NodeHostName={name} Version=22.05.8",
            f"OS={node['os']} ", "RealMemory=100 AllocMem=0 FreeMem=N/A Sockets=1 Boards=1",
            f"State={state} ThreadsPerCore=1 TmpDisk=0",
            f"BootTime={dt.datetime.fromtimestamp(node['booted'], dt.timezone.utc):%Y-%m-%dT%H:%M:%S}"
            if node["booted"] else "BootTime=None",
            *([f"Partitions={','.join(node['partitions'])} "] if node["partitions"] else []),
            "CfgTRES=cpu=1 AllocTRES=",
            *([f"Reason={node['reason']} [root@2026-11-21T10:04:15]"] if node["reason"] else []),
        ]
        return between.join(parts) + "\n"
    return ("" if between == " " else "\n").join(record(name, node) for name, node in nodes.items())


def as_json(nodes: Mapping[str, Mapping[str, Any]], newer: bool) -> str:
    def state(node: Mapping[str, Any]) -> dict[str, Any]:
        base = "FUTURE" if node["future"] else "IDLE"
        return ({"state": [base, *node["flags"]]} if newer
                else {"state": base.lower(), "state_flags": node["flags"]})

    def booted(node: Mapping[str, Any]) -> object:
        return ({"set": node["booted"] is not None, "infinite": False, "number": node["booted"] or 0} if newer
                else node["booted"] or 0)

    return json.dumps({"nodes": [{
        "name": name, "address": node["address"] or name, "hostname": name, "gres": node["gres"] or "",
        "operating_system": node["os"], "features": node["features"] if newer else ",".join(node["features"]),
        "partitions": node["partitions"], "reason": node["reason"], "boot_time": booted(node), **state(node)}
                                 for name, node in nodes.items()]})


@settings(max_examples=tries(200))
@given(NODES)
def test_every_format_of_the_same_nodes_gives_the_same_nodes(nodes: dict[str, dict[str, Any]]) -> None:
    for node in nodes.values():
        if " Reason=" in f" {node['os']}" or " Comment=" in f" {node['os']}" or " Extra=" in f" {node['os']}":
            node["os"] = "Linux"
    expected: dict[str, dict[str, Any]] = {}
    groups: dict[str, list[str]] = {}
    for name, node in nodes.items():
        labels = {key: value for key, value in (("gres", node["gres"]),
                                                ("features", ",".join(node["features"]))) if value}
        expected[name] = {**({"address": node["address"]} if node["address"] else {}),
                          **({"lifecycle": "planned"} if node["future"] or "POWERED_DOWN" in node["flags"]
                             else {}),
                          **({"labels": labels} if labels else {})}
        for partition in node["partitions"]:
            groups.setdefault(partition, []).append(name)
    for text in (as_scontrol(nodes, " "), as_scontrol(nodes, "\n   "), as_json(nodes, True),
                 as_json(nodes, False)):
        found = parse(text)
        assert plain(found) == expected, text
        assert {name: list(members) for name, members in found.groups.items()} == groups
        seen = slurm.states_of(text.encode(), "nodes.txt")
        for name, node in nodes.items():
            assert (seen[name].states == {"FUTURE" if node["future"] else "IDLE", *node["flags"]}
                    and seen[name].booted == node["booted"])
