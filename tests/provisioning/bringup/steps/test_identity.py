"""Whether a machine is the one that is meant: doubled, cloned, swapped; and who has to do what about it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.model.outcome import Owner
from healthcheck.model.trouble import Trouble
from provisioning.base.identity import NodeIdentity
from provisioning.bringup.steps.identity import mixed, proven, swapped

UUID = "4c4c4544-0035-3010-8048-b7c04f503333"


def machine(name: str, called: str | None = None, number: int = 0) -> NodeIdentity:
    number = number or int(name[-1])
    return NodeIdentity(name, name if called is None else called, f"{number:032x}", f"b{number}",
                        f"S{number}", f"4c4c4544-0035-3010-8048-{number:012x}", True)


ALL = {name: machine(name) for name in ("gpu1", "gpu2", "gpu3")}
BOARDS = {name: {"serial": who.serial, "uuid": who.uuid} for name, who in ALL.items()}


def troubles(who: NodeIdentity, others: dict[str, NodeIdentity] | None = None,
             boards: dict[str, dict[str, str]] | None = None) -> list[Trouble]:
    rest = {name: other for name, other in (ALL if others is None else others).items() if name != who.node}
    return list(mixed(who, rest, boards or {}, sorted(ALL)))


def test_machines_that_are_themselves_have_no_trouble() -> None:
    for who in ALL.values():
        assert troubles(who, boards=BOARDS) == []
        assert troubles(who) == []
        # Fresh from an installer, they are all called alike.
        assert (troubles(replace(who, name="ubuntu"),
                         {name: replace(one, name="ubuntu") for name, one in ALL.items()}) == [])
        assert troubles(replace(who, name=f"{who.name.upper()}.cluster.example")) == []


def test_cables_that_are_swapped_are_the_data_centres_and_both_machines_are_named() -> None:
    (one,) = troubles(replace(ALL["gpu2"], node="gpu1"), boards=BOARDS)
    assert (one.owner, one.part, one.serial) == (Owner.DATACENTRE, "cable", "S2")
    assert (one.what
            == "its controller says S1, and behind its address answers S2, which is gpu2: are the cables of "
               "gpu1 and gpu2 swapped?")
    assert "muster bringup retry gpu1,gpu2" in one.hand
    # No one's: a machine that is not in the inventory.
    (one,) = troubles(machine("gpu1", number=9), boards=BOARDS)
    assert (one.owner, one.part) == (Owner.DATACENTRE, "cable")


def test_without_controllers_a_swap_is_seen_by_the_names() -> None:
    met = {"gpu1": replace(ALL["gpu2"], node="gpu1"), "gpu2": replace(ALL["gpu1"], node="gpu2")}
    for who in met.values():
        (one,) = troubles(who, met)
        assert (one.owner, one.part) == (Owner.DATACENTRE, "cable")
        assert "swapped" in one.what


def test_of_two_addresses_of_one_machine_the_one_that_it_is_called_by_is_right() -> None:
    met = {"gpu1": ALL["gpu1"], "gpu2": replace(ALL["gpu1"], node="gpu2")}
    assert troubles(met["gpu1"], met) == []
    (one,) = troubles(met["gpu2"], met)
    assert (one.owner, one.part, one.serial) == (Owner.OPERATOR, "node", "S1")
    assert one.what == "the addresses of gpu[1-2] reach the same machine (serial S1)"
    # Where it is called neither, no one can tell.
    met = {name: replace(who, name="ubuntu") for name, who in met.items()}
    assert [len(troubles(who, met)) for who in met.values()] == [1, 1]
    # A restart of it between the two looks hides nothing: the board is the same.
    met["gpu2"] = replace(met["gpu2"], boot="another")
    assert len(troubles(met["gpu2"], met)) == 1


def test_a_cloned_image_is_the_operators() -> None:
    met = {**ALL, "gpu2": replace(ALL["gpu2"], machine=ALL["gpu1"].machine)}
    for name in ("gpu1", "gpu2"):
        (one,) = troubles(met[name], met, BOARDS)
        assert one.owner is Owner.OPERATOR
        assert "systemd-machine-id-setup" in one.hand
    assert troubles(met["gpu3"], met, BOARDS) == []


@pytest.mark.parametrize(
    ("boards", "meant"),
    [(BOARDS, "its board is the one that is meant"), ({}, "make sure that it is the one that is meant")])
def test_a_host_name_of_another_machine_is_the_operators(
    boards: dict[str, dict[str, str]], meant: str,
) -> None:
    met = {**ALL, "gpu2": replace(ALL["gpu2"], name="gpu3")}
    (one,) = troubles(met["gpu2"], met, boards)
    assert (one.owner, one.what) == (Owner.OPERATOR, "its host name is gpu3, as of gpu3")
    assert one.hand.startswith(meant)
    assert troubles(met["gpu3"], met, boards) == []
    # Of one that was not checked, too; and of one that no one planned.
    assert len(troubles(met["gpu2"], {}, boards)) == 1
    met = {name: replace(who, name="oven") for name, who in ALL.items()}
    assert all("as of gpu" in one.what for who in met.values() for one in troubles(who, met, boards))


def test_a_uuid_is_the_same_whichever_way_round_the_controller_reads_it() -> None:
    assert swapped(UUID) == "44454c4c-3500-1030-8048-b7c04f503333"
    who = replace(ALL["gpu1"], serial="", uuid=UUID)
    assert proven(who, {"uuid": UUID.upper()})
    assert proven(who, {"uuid": swapped(UUID)})
    assert proven(who, {"uuid": BOARDS["gpu2"]["uuid"]}) is False
    assert proven(who, {"serial": "S1"}) is None
    assert proven(replace(who, serial="s1"), {"serial": " S1"}) is True
    assert proven(replace(who, serial="S1", uuid=""), {"serial": "Default string"}) is None


texts = st.sampled_from(
    ("", "a", "gpu1", "gpu2", "gpu3", "ubuntu", "S1", "S2", UUID, "1")) | st.text(max_size=6)
whos = st.builds(NodeIdentity, st.sampled_from(("gpu1", "gpu2", "gpu3")), texts, texts, texts, texts, texts)


@given(st.lists(whos, max_size=4), whos, st.dictionaries(st.sampled_from(("gpu1", "gpu2")), st.dictionaries(
    st.sampled_from(("serial", "uuid")), texts)))
def test_whatever_machines_say_no_one_falls_and_a_proof_to_the_contrary_is_never_passed(
    rest: list[NodeIdentity], who: NodeIdentity, boards: dict[str, dict[str, str]],
) -> None:
    found = troubles(who, {one.node: one for one in rest}, boards)
    assert all(one.what and one.hand and one.owner in (Owner.OPERATOR, Owner.DATACENTRE) for one in found)
    if proven(who, boards.get(who.node, {})) is False:
        assert [one.owner for one in found] == [Owner.DATACENTRE]
