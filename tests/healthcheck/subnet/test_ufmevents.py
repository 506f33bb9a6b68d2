"""UFM's events are read by code, from its log and from its REST interface; what is not understood is said and
nothing is guessed.

Lines marked with a source are as they were published there.
"""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.subnet.linkhistory import DeviceEvent, LinkEvent
from healthcheck.subnet.model import FabricEnd
from healthcheck.subnet.readers.ufmevents import read

# IBM/CAST, csmd/src/ras: the text of msgid ufmevents.iblink.linkdown, with the time in front.
CAST = (
    "2015-10-26 12:09:25.000 [14599] [329] WARNING [Fabric_Topology] Link [Source f4521403008817f0_12  TO "
    "Dest: e41d2d0300a4f482_1]: "
    "Link went down: f4521403008817f0 (Switch: mellanox-SX6036) : 12 - e41d2d0300a4f482 (Computer: fsgb001 "
    "HCA-1) : 1")
# imbue-ai/cluster-health, ufm_events/find_problematic_events.py: the message of the example, as it stands.
MESSAGE = (
    "Link went down: (Switch:T3-E21-N-U47:1/17/1)9c0591030090e000:33 - "
    "(Switch:T4-E45-L-U51:1/4/2)fc6a1c0300244e00:8, "
    "cable S/N: MT2330FT09118")
# UFM Enterprise REST API guide 6.22.1 and 6.12.1, "Events REST API": the form of one event each.
NEW = {"id": 97213, "name": "MCast Group Deleted", "type": "Site", "event_type": "67", "severity": "Info",
       "timestamp": "2024-05-28 08:03:05",
       "counter": "N/A", "category": "Fabric Notification", "object_name": "default",
       "object_path": "default(2)", "write_to_syslog": False,
       "description": "Mcast group is deleted: ff12601bffff0000, 1fffc6ec2"}
OLD = {"category": "Logical Model", "severity": "Info", "timestamp": "2017-09-19 10:49:03.018",
       "counter": None, "object_name": "Grid",
       "object_path": "Grid", "name": "Network Added", "write_to_syslog": False, "type": "352", "id": 227,
       "description": "Network management is added"}
SWITCH, HOST = FabricEnd("f4521403008817f0", 12), FabricEnd("e41d2d0300a4f482", 1)


def node(code: int, guid: str = "e41d2d0300a4f482") -> str:
    return (f"2023-08-13 22:08:53.704 [45] [{code}] INFO [Fabric_Topology] Computer [default / Computer: "
            f"gpu001] [dev_id: {guid}]: Node is there")


def test_a_published_line_of_the_log_names_both_ends_and_its_time() -> None:
    found = read(CAST + "\n", "event.log")
    assert found.links == (LinkEvent(1445861365.0, SWITCH, False),) and found.links[0].peer == HOST
    assert (found.unread, found.number, found.first) == ((), 1, 1445861365.0)


def test_what_the_object_does_not_name_is_taken_from_the_description_of_either_age() -> None:
    later = (f"2023-12-20 07:46:24.442 [1] [329] WARNING [Fabric_Topology] Link [default / Switch: T3 / "
             f"1/17/1] [dev_id: 9c0591030090e000]: {MESSAGE}")
    earlier = CAST.replace("Source f4521403008817f0_12  TO Dest: e41d2d0300a4f482_1", "x")
    found = read(f"{later}\n{earlier}\n", "event.log")
    assert [(one.end, one.peer) for one in found.links] == [
        (FabricEnd("9c0591030090e000", 33), FabricEnd("fc6a1c0300244e00", 8)), (SWITCH, HOST)]


@pytest.mark.parametrize(("code", "up"),
                         [(332, True), (331, False), (908, True), (907, False), (910, True), (909, False)])
def test_devices_come_and_go_by_code(code: int, up: bool) -> None:
    assert read(node(code), "event.log").devices == (DeviceEvent(1691964533.704, HOST.guid, up),)


def test_events_of_the_rest_interface_are_read_in_both_of_its_forms() -> None:
    down = {**NEW, "event_type": "329", "object_name": "f4521403008817f0_12:e41d2d0300a4f482_1",
            "object_path": "x", "description": "x"}
    up = {**OLD, "type": "328", "object_name": "x", "object_path": "x",
          "description": MESSAGE.replace("down", "up")}
    found = read(json.dumps([NEW, OLD, down, up]), "events.json")
    assert [(one.end, one.up) for one in found.links] == [(SWITCH, False),
                                                          (FabricEnd("9c0591030090e000", 33), True)]
    assert (found.number, found.unread) == (4, ())


@pytest.mark.parametrize(("text", "said"), [
    ("no event\n", "line 1 is not understood: 'no event'"),
    (CAST.replace("Source f4521403008817f0_12  TO", "Source x TO").replace("0f4 ",
                                                                           "").replace("(Computer",
                                                                                       "Computer"),
     "event 1 names no link"),
    (CAST.replace("2015-10-26", "2015-13-26"), "event 1 has no time or no code"),
    (node(331).replace(" [dev_id: e41d2d0300a4f482]", ""), "event 1 names no GUID of a device"),
    ("[{]", "is no JSON, or ends early"), ("{}", "is no list of events"), ("[3]", "event 1 is no object"),
    ("[" * 100_000, "is no JSON"),
    (json.dumps([{**NEW, "event_type": None, "type": []}]), "has no time or no code"),
])
def test_what_is_not_understood_is_said_and_gives_no_event(text: str, said: str) -> None:
    found = read(text, "e")
    assert found.links == () and found.devices == () and said in "\n".join(found.unread)


def test_a_name_that_looks_like_an_event_names_no_other_link() -> None:
    evil = CAST.replace("mellanox-SX6036", "x) : 1 - 00000000000000aa (y) : 9")
    assert [(one.end, one.peer) for one in read(evil, "e").links] == [(SWITCH, HOST)]
    assert read(evil.replace("Source", "From"), "e").links == ()


def test_a_file_that_was_cut_is_said() -> None:
    assert "its end was not read" in read(CAST, "e", cut=True).unread[0]


_WORDS = st.sampled_from(["2023-08-13 22:08:53.704", " [45] ", "[329] ", "[331] ", "WARNING ",
                          "[Fabric_Topology] ", "Link [", "]: ", MESSAGE, CAST, "\n", "(",
                          ") : 1", " - ", "f4521403008817f0", "_12", "\x1b[2J", "\udcff", "{", "[",
                          "\"type\": \"329\""])


@given(st.one_of(st.text(), st.lists(_WORDS, max_size=30).map("".join)))
def test_any_text_is_read_or_said_to_be_unread(text: str) -> None:
    found = read(text, "e")
    assert all(len(line) < 400 and line.isprintable() for line in found.unread)
    assert text.strip() == "" or found.number or found.unread or text.strip() == "[]"


@given(st.lists(st.one_of(st.none(), st.integers(), st.dictionaries(
    st.sampled_from(["type", "event_type", "timestamp", "object_name", "object_path", "description"]),
    st.one_of(st.none(), st.integers(), st.text(),
              st.sampled_from(["328", "332", "2024-05-28 08:03:05", MESSAGE, HOST.guid]),
              st.lists(st.integers()))))))
def test_any_document_is_read_or_said_to_be_unread(document: list[object]) -> None:
    found = read(json.dumps(document), "e")
    assert found.number or found.unread or not document
