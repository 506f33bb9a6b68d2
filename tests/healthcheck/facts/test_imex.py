"""IMEX as a node's own tool shows it: the documents of NVIDIA's guide, of its tests of the tool, and anything
else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts import imex
from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.imex import ADDRESSES, DOMAIN, NODES, PATH, ImexDomain, ImexMember, domain, node_list
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, reading
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.nvl72.rack import asked
from tests.testbed import collector
from tests.tries import tries

# What nvidia-imex-ctl -N -j -H said of two nodes, and of two whose services were of another version than the
# tool (NVIDIA's isvctl tests).
UP = json.dumps({"nodes": {
    "0": {"status": "READY", "host": "10.0.0.1", "hostName": "gpu-node-a", "connections": {
        "0": {"host": "10.0.0.1", "status": "CONNECTED", "changed": True},
        "1": {"host": "10.0.0.2", "status": "CONNECTED", "changed": True}}},
    "1": {"status": "READY", "host": "10.0.0.2", "hostName": "gpu-node-b", "connections": {
        "0": {"host": "10.0.0.1", "status": "CONNECTED", "changed": True},
        "1": {"host": "10.0.0.2", "status": "CONNECTED", "changed": True}}},
}, "timestamp": "9/4/2026 00:00:00.000", "status": "UP"})
DOWN = json.dumps({"nodes": {
    "1": {"status": "UNAVAILABLE", "host": "10.0.0.2", "connections": {
        "0": {"host": "10.0.0.1", "status": "INVALID", "changed": False},
        "1": {"host": "10.0.0.2", "status": "INVALID", "changed": False}},
        "hostName": "N/A"},
    "0": {"status": "UNAVAILABLE", "host": "10.0.0.1", "connections": {
        "1": {"host": "10.0.0.2", "status": "INVALID", "changed": False},
        "0": {"host": "10.0.0.1", "status": "INVALID", "changed": False}},
        "hostName": "gpu-node-a"},
}, "timestamp": "9/4/2026 00:00:00.000", "status": "DOWN"})


def seen(answer: Capture, addresses: Capture | None = None, hostname: str = "gpu001") -> ImexDomain:
    look = machine.recording(imex_domain=answer,
                             **({} if addresses is None else {"imex_addresses": addresses}))
    assert look.host is not None
    found: Any = build_fact(FACTS["imex_domain"],
                            Captures(replace(look, host=replace(look.host, hostname=hostname))))
    assert isinstance(found, ImexDomain)
    return found


def test_a_domain_is_its_state_and_its_members_in_their_order() -> None:
    assert domain(UP) == ("UP", (ImexMember("10.0.0.1", "gpu-node-a", "READY", "", ()),
                                 ImexMember("10.0.0.2", "gpu-node-b", "READY", "", ())))
    cut = (("10.0.0.1", "INVALID"), ("10.0.0.2", "INVALID"))
    assert domain(DOWN) == ("DOWN", (ImexMember("10.0.0.1", "gpu-node-a", "UNAVAILABLE", "", cut),
                                     ImexMember("10.0.0.2", "", "UNAVAILABLE", "", cut)))


@pytest.mark.parametrize(("addresses", "hostname", "own"), [
    ("10.0.0.2 192.168.1.9 2001:db8::5 \n", "gpu001", "10.0.0.2"),
    ("192.168.1.9", "gpu-node-b", "10.0.0.2"),              # the tool shows host names
    ("", "GPU-Node-A.cluster.example", "10.0.0.1"),
    ("192.168.1.9", "gpu001", None), ("10.0.0.1 10.0.0.2", "gpu001", None),
])
def test_a_node_finds_itself_by_its_addresses_or_else_its_name_or_not_at_all(addresses: str, hostname: str,
                                                                             own: str | None) -> None:
    found = reading(seen(asked(UP), asked(addresses), hostname), "own")
    assert (found.host if isinstance(found, ImexMember) else None) == own
    assert own is not None or isinstance(found, Unmeasured)


def test_a_node_that_is_configured_by_name_finds_itself_by_that() -> None:
    named = UP.replace("10.0.0.1", "trays-1.imex.svc").replace("10.0.0.2", "trays-2.imex.svc")
    assert reading(seen(asked(named), None, "trays-2"), "own").host == "trays-2.imex.svc"


@pytest.mark.parametrize(("answer", "why"), [
    (Capture(Outcome.MISSING), "nvidia-imex-ctl is not there"),
    (asked("", 1), "nvidia-imex-ctl ended with exit status 1 and showed no domain"),
    (asked("Failed to read node configuration file\n", 0), "Failed to read node configuration file"),
    (asked(UP[:-20]), "showed no domain"),
    (Capture(Outcome.DONE, files={PATH: FileCapture(Outcome.TIMEOUT, "")}), "outcome is timeout"),
    (Capture(Outcome.DENIED), "permission denied (needs root)"),
    (Capture(Outcome.TIMEOUT, seconds=12.0), ""),
])
def test_a_node_that_cannot_be_asked_has_no_domain_and_says_why(answer: Capture, why: str) -> None:
    found = build_fact(FACTS["imex_domain"], Captures(machine.recording(imex_domain=answer)))
    value = reading(found.value if hasattr(found, "value") else found, "status")
    assert (value is UNSUPPORTED if answer.outcome is Outcome.TIMEOUT else isinstance(value, Unmeasured)
            and why in value.reason)
    assert answer.outcome is not Outcome.TIMEOUT or "did not answer" in found.reason


def test_without_a_list_of_nodes_there_is_no_imex() -> None:
    nothing = Capture(Outcome.DONE)
    captures = Captures(machine.recording(imex_domain=nothing, imex_addresses=nothing, imex_nodes=Capture(
        Outcome.DONE, files={PATH: FileCapture(Outcome.MISSING)})))
    assert reading(build_fact(FACTS["imex_domain"], captures), "status") is UNSUPPORTED
    assert reading(build_fact(FACTS["imex_nodes"], captures), "nodes") is UNSUPPORTED
    denied = Captures(machine.recording(imex_nodes=machine.denied(PATH)))
    assert isinstance(reading(build_fact(FACTS["imex_nodes"], denied), "nodes"), Unmeasured)


def test_a_list_of_nodes_is_one_a_line_without_comments_and_in_one_spelling() -> None:
    assert node_list("# rack 3\n10.0.0.1\n\n  10.0.0.2  # spare\nfe80:0:0:0::1\nTray-3.Example\n") == (
        "10.0.0.1", "10.0.0.2", "fe80::1", "tray-3.example")


def test_both_questions_are_asked_only_where_imex_has_a_list_of_nodes_and_change_nothing() -> None:
    assert DOMAIN.each == ADDRESSES.each == (PATH,)
    assert not {"-s", "-d", "-m", "-n"} & set(DOMAIN.argv)      # they end, dump or go on for ever


def test_a_domain_of_more_nodes_than_there_can_be_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(imex, "MOST_NODES", 2)
    assert len(domain(UP)[1]) == 2
    monkeypatch.setattr(imex, "MOST_NODES", 1)
    with pytest.raises(ValueError, match="not the document"):
        domain(UP)


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(
                        ["nodes", "status", "host", "hostName", "version", "connections", "0",
                         "1"]) | st.text(max_size=3), inner, max_size=5),
                    max_leaves=12)


@given(JSON.map(json.dumps) | st.text(max_size=60) | st.integers(0, len(UP)).map(lambda end: UP[:end]))
@settings(max_examples=tries(150), deadline=None)
def test_whatever_a_tool_prints_is_a_domain_or_a_reason(text: str) -> None:
    found = seen(asked(text))
    status = reading(found, "status")
    assert isinstance(status, Unmeasured) or (isinstance(status, str) and all(
        isinstance(member.host, str) for member in found.members))


def test_the_collector_asks_a_node_with_a_list_of_nodes_and_leaves_others_alone(tmp_path: Path) -> None:
    config, tools = tmp_path / "etc/nvidia-imex", tmp_path / "usr/bin"
    for folder in (config, tools):
        folder.mkdir(parents=True)
    for name, lines in (("nvidia-imex-ctl", f"[ \"$*\" = '-N -j' ] && echo '{UP}'"),
                        ("hostname", "echo 10.0.0.2")):
        (tools / name).write_text(f"#!/bin/sh\n{lines}\n")
        (tools / name).chmod(0o755)
    probes = (NODES, DOMAIN, ADDRESSES)
    without = Captures(collector.collect(probes, tmp_path))
    assert reading(build_fact(FACTS["imex_domain"], without), "status") is UNSUPPORTED
    (config / "nodes_config.cfg").write_text("10.0.0.1\n10.0.0.2\n")
    asked_it = Captures(collector.collect(probes, tmp_path))
    found = build_fact(FACTS["imex_domain"], asked_it)
    assert (found.status, found.own.host) == ("UP", "10.0.0.2")
    assert build_fact(FACTS["imex_nodes"], asked_it).nodes == ("10.0.0.1", "10.0.0.2")
