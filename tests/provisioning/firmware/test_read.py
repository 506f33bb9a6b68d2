"""What controllers say of firmware when they are asked, in seven makers' ways and over IPMI, and what is kept
of it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store.file import Store, opened
from healthcheck.store.firmware import known_firmware
from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.bmc.ask import connector
from provisioning.bmc.base import BmcError, BmcErrorReason, FirmwareEntry
from provisioning.firmware.read import look, read_now
from tests.provisioning.bringup.controllers import Scripted
from tests.testbed.planted import private
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, MAKERS, USER


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path / "state", make=True) as held:
        yield held


def test_seven_makers_tell_of_their_bios_and_bmc_and_each_is_kept(store: Store, tmp_path: Path) -> None:
    password = private(tmp_path / "password", DELIVERED + "\n")
    services = {name: make() for name, make in MAKERS.items()}
    for one in services.values():
        one.add(USER, DELIVERED)
    began = time.time()
    with served(tmp_path, services) as places:
        nodes = [Node(name,
                      bmc=Bmc(address, USER, port, secret=Secret(SecretFrom.FILE, (str(password),)), tls=ca))
                 for name, (address, port, ca) in places.items()]
        assert read_now(store, nodes, connector(tmp_path, 20.0), 4) == {}
    found = known_firmware(store)
    assert found.keys() == MAKERS.keys() and len(found) == 7
    for name, known in found.items():
        told = {one.name: one.version for one in known.versions}
        assert told["bios"] == "2.1.5" and told["bmc"], name
        assert known.maker and all(one.time >= began for one in known.versions)


def test_an_answer_is_kept_and_a_refusal_changes_nothing_that_was(store: Store) -> None:
    node = Node("gx01", bmc=Bmc("198.51.100.7", "root"))
    controller = Scripted(versions=(FirmwareEntry("PSU_0", "1"),))
    assert read_now(store, [node, Node("gx02")], controller, 4) == {
        "gx02": "the inventory names no controller for it (`bmc:`)"}
    before = known_firmware(store)["gx01"]
    refusing = Scripted(fails={"firmware": BmcError(BmcErrorReason.TIMEOUT, "30 s")})
    assert read_now(store, [node], refusing, 4) == {"gx01": "timeout: 30 s"} and refusing.closed == 1
    assert known_firmware(store) == {"gx01": before}


def test_a_controller_without_an_inventory_of_firmware_says_its_own_version() -> None:
    ipmi = Scripted(fails={"firmware": BmcError(BmcErrorReason.UNSUPPORTED, "no")})
    assert {one.name: one.version for one in look(ipmi).versions} == {"bios": "2.1.5", "bmc": "7.00.60"}
