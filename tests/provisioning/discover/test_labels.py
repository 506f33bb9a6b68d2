"""What is proposed for a node's rack, leaves and ports, and what is shown instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from healthcheck.facts.lldp import LLDP
from healthcheck.facts.lldpneighbours import LldpNeighbour
from healthcheck.facts.netdev import NETDEV
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording
from healthcheck.sweep.rootprobes import root_probes
from inventory.errors import UsageError
from inventory.load import parse_with_origins
from inventory.merge import merge
from inventory.model import PortPlan
from inventory.transport.base import Failure, Stage
from provisioning.discover.labels import (
    LabelEvidence,
    LabelPatterns,
    LabelProposal,
    LabelState,
    check_patterns,
    entries,
    propose,
)
from provisioning.discover.labelspage import FoundLabels, text
from provisioning.discover.neighbours import read

A, B, S = "0000:18:00.0", "0000:29:00.0", "0000:5e:00.0"
USUAL = {A: PortPlan("compute", 0), B: PortPlan("compute", 1), S: PortPlan("storage")}
PCI = {"ens1": A, "ens2": B, "ens3": S}


def end(interface: str, system: str, port: str = "", switches: bool | None = True) -> LldpNeighbour:
    return LldpNeighbour(interface, system, f"id of {system}", port or f"to-{interface}", switches)


def proposals(yaml: str, *ends: LldpNeighbour, usual: Mapping[str, PortPlan] | None = None,
              leaves: tuple[str, ...] = (), rack: str = "",
              others: tuple[LabelEvidence, ...] = (), **more: Any) -> dict[str, LabelProposal]:
    """Those of gpu001, by key."""
    inventory = parse_with_origins(f"version: 1\nnodes:\n{yaml}", "m.yaml").inventory
    found = (LabelEvidence("gpu001", "lldpctl", ends, PCI, **more), *others)
    made = propose(found, inventory, {"gpu001": usual if usual is not None else {}},
                   LabelPatterns(leaves, rack))
    return {one.key: one for one in made if one.node == "gpu001"}


def state(found: Mapping[str, LabelProposal]) -> dict[str, tuple[str, str]]:
    return {key: (one.state.value, " ".join(one.value)) for key, one in found.items()}


BARE = "  gpu001: {}\n  gpu002: {}\n"


def test_planned_compute_ports_give_the_leaf_of_each_and_those_of_the_node() -> None:
    found = proposals(BARE, end("ens1", "leaf10"), end("ens2", "leaf9"), end("ens3", "stor1"), usual=USUAL)
    assert state(found) == {"leaf": ("new", "leaf9 leaf10"), f"ports.{A}.leaf": ("new", "leaf10"),
                            f"ports.{B}.leaf": ("new", "leaf9"),
                            f"ports.{S}.leaf": ("new", "stor1")}
    assert found["leaf"].why == "lldpctl: leaf9 at ens2 to-ens2; leaf10 at ens1 to-ens1"
    assert found[f"ports.{A}.leaf"].why == "lldpctl: ens1 leads to leaf10 to-ens1"


def test_a_port_without_a_plan_gets_none_and_counts_only_by_the_pattern_of_its_switch() -> None:
    assert proposals(BARE, end("ens1", "leaf01"), end("ens2", "mgmt1")) == {}
    assert state(proposals(BARE, end("ens1", "leaf01"), end("ens2", "mgmt1"),
                           leaves=("LEAF*",))) == {"leaf": ("new", "leaf01")}


def test_what_the_inventory_says_is_never_changed() -> None:
    yaml = (
        f'  gpu001: {{rack: r01, leaf: [leaf01, leaf03], ports: {{"{A}": {{leaf: LEAF01}}, "{B}": {{leaf: '
        f'leaf07}}}}}}\n')
    found = proposals(yaml, end("ens1", "leaf01"), end("ens2", "leaf02"), end("eno1", "tor-r02"),
                      usual=USUAL, rack="tor-*")
    assert state(found) == {"rack": ("conflict", "r02"), "leaf": ("conflict", "leaf01 leaf02"),
                            f"ports.{A}.leaf": ("as it is", "leaf01"),
                            f"ports.{B}.leaf": ("conflict", "leaf02")}
    assert entries(list(found.values()),
                   parse_with_origins(f"version: 1\nnodes:\n{yaml}", "m.yaml").inventory, "x") is None


def test_a_port_that_is_dark_makes_no_conflict_of_the_leaves() -> None:
    found = proposals("  gpu001: {leaf: [leaf01, leaf02]}\n", end("ens1", "leaf01"), usual=USUAL)
    assert found["leaf"].state is LabelState.SAME


def test_a_switch_is_spelt_as_the_inventory_spells_it() -> None:
    found = proposals("  gpu001: {}\n  gpu002: {leaf: Leaf01}\n", end("ens1", "leaf01.dc1.example.com"),
                      end("ens2", "leaf02.dc1"), usual=USUAL)
    assert found["leaf"].value == ("Leaf01", "leaf02.dc1")


@pytest.mark.parametrize("other", [end("ens1", "gpu002"), end("ens1", "GPU002.cluster"),
                                   end("ens1", "bluefield", switches=False)])
def test_other_nodes_and_what_forwards_nothing_are_no_switches(other: LldpNeighbour) -> None:
    assert proposals(BARE, other, usual=USUAL, leaves=("*",)) == {}


@pytest.mark.parametrize(("ends", "said"), [
    ((end("ens1", "leaf01"), end("ens1", "leaf02")), "it leads to leaf01 to-ens1 and to leaf02 to-ens1"),
    ((end("ens1", ""),), "says no name"), ((end("ens1", "\\x1b[2J"),), "the switch calls itself"),
    ((end("ens1", "-rf /"),), "the switch calls itself"),
])
def test_what_is_not_known_for_certain_is_unclear_and_no_part_of_it_is_proposed(
        ends: tuple[LldpNeighbour, ...], said: str) -> None:
    found = proposals(BARE, *ends, end("ens2", "leaf09"), usual=USUAL)
    assert found[f"ports.{A}.leaf"].state is LabelState.UNCLEAR and said in found[f"ports.{A}.leaf"].why
    assert (found["leaf"].state is LabelState.UNCLEAR and found["leaf"].value == ()
            and said in found["leaf"].why)
    assert found[f"ports.{B}.leaf"].state is LabelState.NEW


def test_one_port_of_a_switch_that_two_nodes_see_is_believed_of_neither() -> None:
    other = LabelEvidence("gpu002", "lldpctl", (end("ens9", "leaf01", "Ethernet1"),), {})
    found = proposals(BARE, end("ens1", "leaf01", "Ethernet1"), usual=USUAL, others=(other,))
    assert (found["leaf"].state is LabelState.UNCLEAR
            and "gpu002 is at leaf01 Ethernet1, too" in found["leaf"].why)
    # Two interfaces of one node are one machine's, such as the two functions of a card.
    assert proposals(BARE, end("ens1", "leaf01", "Ethernet1"), end("ens2", "leaf01", "Ethernet1"),
                     usual=USUAL)["leaf"].state is LabelState.NEW


def test_the_rack_is_in_the_name_of_a_switch_or_in_a_tag_and_two_that_differ_are_unclear() -> None:
    assert state(proposals(BARE, end("eno1", "TOR-r07.dc1"), rack="tor-*")) == {"rack": ("new", "r07")}
    assert state(proposals(BARE, end("eno1", "tor-"), end("eno2", "xtor-r1"), rack="tor-*")) == {}
    tagged = proposals(BARE, end("eno1", "tor-r07"), rack="tor-*", racks=(("r08", "MAAS: tag rack-r08"),))
    assert (tagged["rack"].state is LabelState.UNCLEAR and "r07: lldpctl" in tagged["rack"].why
            and "r08: MAAS: tag rack-r08" in tagged["rack"].why)
    assert state(proposals(BARE, racks=(("r07", "a"), ("r07", "b")))) == {"rack": ("new", "r07")}


def test_a_rack_by_a_switch_that_is_not_certain_is_unclear() -> None:
    found = proposals(BARE, end("eno1", "tor-r07"), end("eno1", "tor-r08"), rack="tor-*")
    assert (found["rack"].state is LabelState.UNCLEAR
            and "it leads to tor-r07 to-eno1 and to tor-r08 to-eno1" in found["rack"].why)


@pytest.mark.parametrize("rack", ["tor", "*-*", "tor-[0-9]*", "t?r-*"])
def test_a_pattern_that_cannot_name_a_rack_is_refused(rack: str) -> None:
    with pytest.raises(UsageError, match="expected a name with one"):
        check_patterns(LabelPatterns((), rack))


def test_a_written_port_keeps_role_and_rail_and_what_expects_it_and_comments_stay() -> None:
    yaml = (
        f'  # the first rack\n  gpu[001-002]: {{ports: {{"{A}": {{role: compute, rail: 3, expect: up}}}}}}   '
        f'# as delivered\n')
    inventory = parse_with_origins(f"version: 1\nnodes:\n{yaml}", "m.yaml").inventory
    found = propose((LabelEvidence("gpu001", "lldpctl", (end("ens1", "leaf01"),), PCI,
                                   labels={"zone": ("z1", "zone")}),), inventory, {}, LabelPatterns())
    imported = entries(found, inventory, "what was found")
    assert imported is not None
    written = merge(f"version: 1\nnodes:\n{yaml}", "m.yaml", imported, overwrite=("ports",)).text
    after = parse_with_origins(written, "m.yaml").inventory
    assert after.nodes["gpu001"].ports[A] == PortPlan("compute", 3, "leaf01",
                                                      "up") and after.nodes["gpu002"].ports[A].leaf is None
    assert after.nodes["gpu001"].leaf == ("leaf01",) and after.nodes["gpu001"].labels["zone"] == "z1"
    assert "# the first rack\n" in written and "# as delivered\n" in written


NET = Capture(Outcome.DONE,
              files={"/sys/class/net/ens1/device/uevent": FileCapture(Outcome.DONE,
                                                                      f"DRIVER=mlx5_core\n"
                                                                      f"PCI_SLOT_NAME={A}\n"),
                     "/sys/class/net/ens2/device/uevent": FileCapture(Outcome.DONE, "DRIVER=hv_netvsc\n")})


@pytest.mark.parametrize(("capture", "said"), [
    (Capture(Outcome.MISSING), "lldpctl is not there; install and start lldpd"),
    (None, "lldpctl was not captured"),
    # what lldpctl 1.0.16 says to a user who is neither root nor in the group _lldpd
    (Capture(Outcome.DONE, exit=1,
             stderr="2026-11-27T22:20:28 [WARN/control] unable to connect to socket /run/lldpd.socket: "
                    "Permission denied\n"),
     "unable to connect to socket /run/lldpd.socket: Permission denied; lldpd answers root alone: --become"),
    (Capture(Outcome.TIMEOUT, seconds=10.0), "did not answer within 10 s"),
    (Capture(Outcome.DONE, exit=0, text="\x1b[2J"), "no JSON of lldpctl"),
    (Capture(Outcome.TRUNCATED, text="{"), "gave more than 1024 KiB"),
])
def test_a_node_whose_lldpd_cannot_be_asked_is_not_read_and_says_what_to_do(capture: Capture | None,
                                                                            said: str) -> None:
    captures = {NETDEV.id: NET, **({LLDP.id: capture} if capture is not None else {})}
    found = read(Recording("gpu001", 0.0, Host("gpu001", "boot", 0.0, 0, "3.11", "x86_64", 0.1),
                           None, captures))
    assert said in found.unread[0] and found.neighbours == () and found.pci == {"ens1": A}


def test_the_root_owned_helper_knows_the_probe() -> None:
    assert LLDP in root_probes()


def test_a_node_that_was_not_reached_is_not_read() -> None:
    found = read(Recording("gpu001", 0.0, None, Failure(Stage.AUTH, "no key was accepted")))
    assert found.unread == ("auth: no key was accepted",)


def test_the_page_counts_what_is_as_it_is_and_ends_by_what_is_to_be_done() -> None:
    one = LabelEvidence("gpu001", "lldpctl")
    def page(*states: LabelState, unread: bool = False, applied: bool = False) -> FoundLabels:
        made = tuple(LabelProposal("gpu001", f"labels.{at}", ("x",), (), each, "why")
                     for at, each in enumerate(states))
        return FoundLabels("m.yaml", (LabelEvidence("gpu001", "lldpctl", unread=("auth: no key",)) if unread
                                      else one,), made, applied)
    assert page().exit_code == page(LabelState.SAME).exit_code == page(LabelState.NEW,
                                                                       applied=True).exit_code == 0
    assert page(LabelState.NEW).exit_code == page(LabelState.CONFLICT, applied=True).exit_code == 1
    assert page(unread=True).exit_code == page(LabelState.UNCLEAR).exit_code == 3
    assert (list(text(page(LabelState.SAME, LabelState.SAME, unread=True)))
            == ["gpu001: not read: auth: no key", "1 node: 2 as it is"])
