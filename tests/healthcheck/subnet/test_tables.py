"""Readers of forwarding tables, and the ways that they give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.merge import merge
from healthcheck.subnet.model import DeviceKind, FabricDevice, FabricEnd, FabricPort
from healthcheck.subnet.readers import routes as tables
from healthcheck.subnet.readers.building import SubnetReading
from healthcheck.subnet.routes import EvenRoutes, NoRouteError, TableRoutes
from tests.healthcheck.subnet.trees import Tree, host, leaf, spine

_HERE = Path(__file__).parents[2] / "recordings" / "fabric-tables"


def recorded(name: str) -> str:
    return (_HERE / name).read_text()


def test_dump_lfts_gives_every_switch_and_ibroute_the_same_for_one() -> None:
    every, one = tables.read(recorded("dump_lfts.txt")), tables.read(recorded("ibroute.txt"))
    assert not every.unread and not every.partial and len(every.routes) == 8
    assert every.routes["0000000000200007"][22] == 1 and len(every.routes["0000000000200007"]) == 24
    assert one.routes == {"0000000000200007": every.routes["0000000000200007"]} and not one.unread


def test_a_table_without_destinations_is_the_same() -> None:
    """As `dump_fts --no_dests` of infiniband-diags 44 prints it."""
    text = recorded("ibroute.txt")
    bare = "".join(f"{line.partition(':')[0]}\n" if line.startswith("0x") else line
                   for line in text.splitlines(keepends=True))
    assert bare != text and tables.read(bare) == tables.read(text)


def test_records_of_the_sa_are_read_by_the_switches_lids() -> None:
    every = tables.read(recorded("dump_lfts.txt")).routes
    found = tables.read_records(recorded("saquery-lftr.txt"))
    switch = FabricDevice("0000000000200000", DeviceKind.SWITCH,
                          ports={1: FabricPort(FabricEnd("0000000000200000", 1), lid=1)})
    subnet = merge("", [SubnetReading("x", {switch.guid: switch}), found])
    assert (subnet.routes == {"0000000000200000": every["0000000000200000"]} and not found.unread
            and 2 in found.routes_by_lid)


def test_a_table_without_its_end_or_with_another_count_is_not_believed() -> None:
    lines = recorded("ibroute.txt").splitlines(keepends=True)
    cut = tables.read("".join(lines[:-3]))
    assert (not cut.routes and cut.partial
            and cut.unread == ("dump_fts: the table of switch 0000000000200007 has no end",))
    short = tables.read("".join([*lines[:5], *lines[6:]]))
    assert not short.routes and "says that it has 24 LIDs, and 23 were read" in short.unread[0]


@given(
    st.text()
    | st.builds(
        lambda head, tail: f"Unicast lids [0x0-0x1] of switch Lid 1 guid 0x1 (a):\n{head}\n0x0001 {tail}",
        st.text(), st.text()))
def test_any_text_is_read_without_an_error(text: str) -> None:
    for found in (tables.read(text), tables.read_records(text)):
        assert all(0 < lid < tables.MOST_LIDS and 0 <= port < tables.NO_PORT
                   for table in (*found.routes.values(), *found.routes_by_lid.values())
                   for lid, port in table.items())
        assert len(found.unread) <= 22 and all(line.isprintable() for line in found.unread)


@given(st.dictionaries(st.integers(1, tables.MOST_LIDS - 1), st.integers(0, 254), max_size=30),
       st.text("abc'() :", max_size=20))
def test_what_was_printed_is_read_back(table: dict[int, int], name: str) -> None:
    rows = "".join(f"0x{lid:04x} {port:03d} : (Switch portguid 0x{lid:016x}: '{name}')\n"
                   for lid, port in table.items())
    text = (
        f"Unicast lids [0x0-0xff] of switch Lid 7 guid 0x00000000000000ab ({name}):\n  Lid  Out   "
        f"Destination\n       Port     Info \n"
        f"{rows}{len(table)} valid lids dumped \n")
    found = tables.read(text)
    assert found.routes == {"00000000000000ab": table} and not found.unread


def test_a_way_follows_the_tables_and_its_end_is_the_host_s_port() -> None:
    tree = Tree(2, 2, 2)
    subnet = tree.by_destination()
    assert list(TableRoutes(subnet).shares(leaf(0), FabricEnd(host(3), 1))) == [
        FabricEnd(leaf(0), 4), FabricEnd(spine(1), 2), FabricEnd(leaf(1), 2)]
    assert EvenRoutes(subnet).shares(leaf(0), FabricEnd(host(3), 1)) == {
        FabricEnd(leaf(0), 3): 0.5, FabricEnd(leaf(0), 4): 0.5, FabricEnd(spine(0), 2): 0.5,
        FabricEnd(spine(1), 2): 0.5,
        FabricEnd(leaf(1), 2): 1.0}


@pytest.mark.parametrize(("switch", "table", "why"), [
    (spine(1), {}, "101 has no way to LID"),
    (spine(1), None, "the forwarding table of 101 is not known"),
    (leaf(0), "loop", "goes around")])
def test_a_way_that_leads_nowhere_says_where_it_ends(switch: str, table: dict[int, int] | str | None,
                                                     why: str) -> None:
    subnet = Tree(2, 2, 2).by_destination()
    routes = {guid: dict(each) for guid, each in subnet.routes.items()}
    lid = subnet.devices[host(3)].ports[1].lid
    assert lid is not None
    if table == "loop":
        routes[spine(1)][lid] = 1
    elif isinstance(table, dict):
        routes[switch] = table
    else:
        del routes[switch]
    with pytest.raises(NoRouteError, match=why):
        TableRoutes(replace(subnet, routes=routes)).shares(leaf(0), FabricEnd(host(3), 1))
