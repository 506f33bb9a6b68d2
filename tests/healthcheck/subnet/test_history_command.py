"""`muster fabric history` as a user types it, on a fabric in which a host restarts, a switch restarts, one
link flaps and one stays down."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.command import muster
from tests.documents import validate
from tests.testbed import fabricoutputs
from tests.testbed.ibfabric import net_ports, node_guids, two_tiers

PLAN = two_tiers(4, 2, 2, rails=2)
PORTS = net_ports(PLAN)


def cable(a: str, b: str) -> str:
    """A link as UFM names it, by GUID and port of both ends."""
    one = next(one for one in PLAN.cables if (one.a.device, one.b.device) == (a, b))
    first, second = PORTS[one.a], PORTS[one.b]
    return f"Source {first.node[2:]}_{first.number}  TO Dest: {second.node[2:]}_{second.number}"


def line(time: str, code: int, link: str) -> str:
    return f"2026-11-20 {time} [1] [{code}] WARNING [Fabric_Topology] Link [{link}]: Link is another now"


def links_of(device: str) -> list[str]:
    return [cable(one.a.device, one.b.device)
            for one in PLAN.cables if device in (one.a.device, one.b.device)]


def bounce(links: list[str], down: str, up: str) -> list[str]:
    return [line(down, 329, link) for link in links] + [line(up, 328, link) for link in links]


RESTARTS = bounce(links_of("gpu001"), "08:00:01.5", "08:06:00") + bounce(links_of("leaf02"),
                                                                         "09:00:00", "09:03:00")
FAULTS = [*bounce([cable("gpu002", "leaf01")], "10:00:00", "10:00:02"),
          *bounce([cable("gpu002", "leaf01")], "11:00:00", "11:00:03"),
          line("12:00:00", 329, cable("leaf03", "spine01"))]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    fabricoutputs.write(PLAN, tmp_path / "outputs")
    (tmp_path / "muster.yaml").write_text("version: 1\nnodes:\n  gpu[001-004]: {}\n")
    (tmp_path / "event.log").write_text("\n".join(RESTARTS + FAULTS) + "\n")
    (tmp_path / "quiet.log").write_text("\n".join(RESTARTS) + "\n")
    (tmp_path / "events.json").write_text(json.dumps([{
        "id": 1, "event_type": "329", "type": "Link", "timestamp": "2026-11-20 10:00:00",
        "object_name": cable("gpu002", "leaf01"),
        "object_path": "", "description": ""}]))
    return tmp_path


def history(home: Path, *words: str) -> tuple[int, list[str], str]:
    done = muster("fabric", "history", "--from", "outputs", *words, home=home)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_links_that_were_down_by_themselves_are_reported_from_restarts(home: Path) -> None:
    code, lines, _ = history(home, "--events", "event.log")
    assert (code, lines) == (1, [
        "leaf01 port 2 to gpu002 mlx5_0: down 2 times, 5 s in all, last at 2026-11-20 11:00:00",
        "leaf03 port 3 to spine01 port 3: down 1 time, since 2026-11-20 12:00:00 and not up again",
        "restarted: gpu001 at 2026-11-20 08:00:01, 2 links down for 358 s",
        "restarted: leaf02 at 2026-11-20 09:00:00, 4 links down for 180 s",
        "17 events from 2026-11-20 08:00:01 to 2026-11-20 12:00:00 (UFM's clock): 3 outages that no restart "
        "explains, 2 restarts"])


def test_the_document_has_each_outage(home: Path) -> None:
    code, lines, _ = history(home, "--events", "event.log", "--format", "json")
    document = json.loads("\n".join(lines))
    validate(document, "fabric-history-1")
    assert code == document["exit"] == 1 and [len(one["outages"]) for one in document["links"]] == [2, 1]
    assert document["links"][0]["nodes"] == ["gpu002"] and document["links"][0]["outages"][0]["seconds"] == 2
    assert document["links"][1]["outages"] == [{"began": "2026-11-20T12:00:00", "ended": None,
                                                "seconds": None}]
    assert [one["who"] for one in document["restarts"]] == ["gpu001", "leaf02"]


def test_restarts_alone_are_no_outage(home: Path) -> None:
    code, lines, _ = history(home, "--events", "quiet.log")
    assert code == 0 and len(lines) == 3


@pytest.mark.parametrize(("words", "code", "first"), [
    (("--node", "gpu002"), 1, "leaf01 port 2 to gpu002"), (("--node", "gpu001"), 0, "restarted: gpu001"),
    (("--node", "spine01"), 1, "leaf03 port 3"),
    (("--node", node_guids(PLAN)["leaf03", ""]), 1, "leaf03 port 3"),
    (("--link", "leaf01 port 2"), 1, "leaf01 port 2"),
    (("--link", "gpu003"), 0, "restarted: leaf02" if "leaf02" in str(links_of("gpu003")) else "17 events")])
def test_only_what_is_asked_for_is_shown(home: Path, words: tuple[str, ...], code: int, first: str) -> None:
    found, lines, _ = history(home, "--events", "event.log", *words)
    assert found == code and lines[0].startswith(first), lines


def test_a_link_that_outputs_no_longer_show_is_not_forgotten(home: Path) -> None:
    gone = next(one for one in PLAN.cables if (one.a.device, one.b.device) == ("leaf03", "spine01"))
    shutil.rmtree(home / "outputs")
    fabricoutputs.write(type(PLAN)(PLAN.devices, tuple(one for one in PLAN.cables if one != gone)),
                        home / "outputs")
    _, lines, _ = history(home, "--events", "event.log", "--node", "leaf03")
    assert (lines[0]
            == "leaf03 port 3 to spine01 port 3: down 1 time, since 2026-11-20 12:00:00 and not up again")


def test_events_saved_from_the_rest_interface_are_read_beside_the_log(home: Path) -> None:
    code, lines, _ = history(home, "--events", "quiet.log", "--events", "events.json")
    assert code == 1 and lines[0].endswith("since 2026-11-20 10:00:00 and not up again")


def test_without_an_inventory_a_host_that_restarted_is_no_host_and_that_is_said(home: Path) -> None:
    (home / "muster.yaml").unlink()
    code, lines, _ = history(home, "--events", "quiet.log")
    assert code == 1 and [one for one in lines if one.startswith("unknown: whose the adapters are")]


@pytest.mark.parametrize(("text", "said"),
                         [("", "no event was read"),
                          ("x\x1b[2J\n", "unknown: e.log: line 1 is not understood: 'x\\x1b[2J'")])
def test_what_is_not_understood_is_unknown_and_not_good(home: Path, text: str, said: str) -> None:
    (home / "e.log").write_text(text)
    code, lines, _ = history(home, "--events", "e.log")
    assert code == 3 and lines[0] == said


@pytest.mark.parametrize(("words", "said"), [
    ((), "give --from FOLDER and --events FILE"),
    (("--events", "none.log"), "--events none.log: No such file"),
    (("--events", "event.log", "--node", "gpu9"),
     "--node gpu9: neither outputs nor events show a link of it"),
    (("--events", "event.log", "--link", "leaf9"), "--link leaf9: is in the name of no link"),
    (("--events", "event.log.gz"), "is compressed")])
def test_what_cannot_be_read_is_one_line(home: Path, words: tuple[str, ...], said: str) -> None:
    (home / "event.log.gz").write_bytes(b"\x1f\x8b\x08")
    code, _, error = history(home, *words)
    assert code == 2 and said in error and "Traceback" not in error
