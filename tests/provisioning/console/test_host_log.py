"""The console's log that a Redfish service keeps: what is new is read, also where old lines were dropped; and
a service without one says how else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.console.choose import HostLogSource, opened
from provisioning.console.source import ConsoleUnavailable
from tests.testbed.planted import private
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, MAKERS, USER
from tests.testbed.redfish.service import Service

ENTRIES = "/redfish/v1/Systems/system/LogServices/HostLogger/Entries"


@pytest.fixture
def service() -> Service:
    found = MAKERS["openbmc"]()
    found.add(USER, DELIVERED)
    return found


@pytest.fixture
def node(tmp_path: Path, service: Service) -> Iterator[Node]:
    secret = private(tmp_path / "password", f"{DELIVERED}\n")
    with served(tmp_path, {"n1": service}) as places:
        address, port, ca = places["n1"]
        yield Node("n1", bmc=Bmc(address, USER, port, secret=Secret(SecretFrom.FILE, (str(secret),)), tls=ca))


def with_log(service: Service, lines: list[str]) -> None:
    log = ENTRIES.rpartition("/")[0]
    collection = service.documents[log.rpartition("/")[0]]
    collection["Members"] = [*collection["Members"], {"@odata.id": log}]
    service.documents[log] = {"@odata.id": log, "Id": "HostLogger", "Entries": {"@odata.id": ENTRIES}}
    service.host_log = (ENTRIES, lines)


def read(source: HostLogSource) -> list[str]:
    source._next = 0.0
    return source.read(1.0).decode().splitlines()


def test_only_what_is_new_is_read_page_after_page(tmp_path: Path, service: Service, node: Node) -> None:
    lines = [f"old {at}" for at in range(120)]
    with_log(service, lines)
    source = opened(node, tmp_path / "state")
    assert isinstance(source, HostLogSource)
    assert read(source) == []
    assert read(source) == []
    lines += [f"new {at}" for at in range(130)]
    assert read(source) == [f"new {at}" for at in range(130)]
    lines.append("one more")
    assert read(source) == ["one more"]
    source.close()
    assert not service.tokens


def test_where_the_oldest_lines_were_dropped_what_is_new_is_found_behind_the_last(
        tmp_path: Path, service: Service, node: Node) -> None:
    lines = [f"old {at}" for at in range(60)]
    with_log(service, lines)
    source = opened(node, tmp_path / "state")
    assert isinstance(source, HostLogSource)
    read(source)
    del lines[:30]
    lines.append("after the drop")
    assert read(source) == ["after the drop"]
    lines[:] = ["all", "is", "new"]
    found = read(source)
    assert found[1:] == ["all", "is", "new"] and "not in the controller's log" in found[0]
    source.close()


def test_a_service_without_a_log_says_which_ways_it_has(tmp_path: Path, service: Service, node: Node) -> None:
    with pytest.raises(ConsoleUnavailable) as raised:
        opened(node, tmp_path / "state")
    assert not raised.value.passing and "offers no serial over LAN" in raised.value.message
    service.documents[service.system]["SerialConsole"] = {"SSH": {"ServiceEnabled": True, "Port": 2200},
                                                          "IPMI": {"ServiceEnabled": False}}
    with pytest.raises(ConsoleUnavailable) as raised:
        opened(node, tmp_path / "state")
    assert "it offers it by SSH, which muster does not use" in raised.value.message


def test_a_log_of_hostile_texts_and_no_count_is_refused_in_one_line(tmp_path: Path, service: Service,
                                                                    node: Node) -> None:
    with_log(service, ["\x1b[31m\x00" + "x" * 9000])
    source = opened(node, tmp_path / "state")
    assert isinstance(source, HostLogSource)
    assert service.host_log is not None
    read(source)
    service.host_log[1].append("\x1b]0;title\x07boo\n# ended: x")
    (line,) = read(source)
    assert "\\x1b" in line and "\n" not in line
    service.host_log = None
    with pytest.raises(ConsoleUnavailable):
        read(source)
    source.close()
