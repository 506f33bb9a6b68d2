"""All that bring-up asks of a controller, of seven makers' services behind TLS."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.model import Bmc, Node, Secret, SecretFrom
from provisioning.bmc.accounts import Accounts, DesiredAccounts
from provisioning.bmc.ask import ask_controllers, connector
from provisioning.bmc.base import (
    BmcError,
    BmcErrorReason,
    BootTarget,
    ChangeEnd,
    Controller,
    PowerAction,
    PowerState,
)
from provisioning.bmc.connect import accounts_of, controller
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, MAKERS, PARTS, USER
from tests.testbed.redfish.service import ROOT, Account, Service

NAMES = list(MAKERS)
# Those whose services differ most in how they are asked; the slow tier has all of them.
SOME = [pytest.param(name, marks=[] if name in ("idrac", "ilo", "openbmc") else pytest.mark.slow)
        for name in NAMES]


class Bed:
    """All services, freshly made, and what reaches them."""

    def __init__(self, folder: Path, services: dict[str, Service],
                 places: dict[str, tuple[str, int, str]]) -> None:
        self.folder, self.services, self._places = folder, services, places
        self.passwords = folder / "passwords"
        (folder / "delivered").write_text(DELIVERED + "\n")
        (folder / "delivered").chmod(0o600)
        for one in services.values():
            one.add(USER, DELIVERED)

    def node(self, name: str, *, own: bool = False, user: str = USER, entry: str = "{node}") -> Node:
        address, port, ca = self._places[name]
        where = str(self.passwords / entry) if own else str(self.folder / "delivered")
        return Node(name, bmc=Bmc(address, user, port, secret=Secret(SecretFrom.FILE, (where,)), tls=ca))

    def accounts(self, **desired: object) -> Accounts:
        wanted = DesiredAccounts(
            **{
                "random": True, "folder": self.passwords, "first": Secret(  # type: ignore[arg-type]
                    SecretFrom.FILE, (str(self.folder / "delivered"),)), **desired})
        return accounts_of(wanted, self.folder, 20.0)


@pytest.fixture
def bed(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bed]:
    """Of a test of one maker that one alone."""
    names = [request.node.callspec.params["name"]] if hasattr(request.node, "callspec") else NAMES
    services = {name: MAKERS[name]() for name in names}
    with served(tmp_path, services) as places:
        yield Bed(tmp_path, services, places)


@pytest.fixture
def reach(bed: Bed) -> Iterator[Callable[..., Controller]]:
    made: list[Controller] = []

    def make(name: str, **more: object) -> Controller:
        made.append(controller(bed.node(name, **more), folder=bed.folder,
                               seconds=20.0))  # type: ignore[arg-type]
        return made[-1]
    yield make
    for one in made:
        one.close()


Reach = Callable[..., Controller]


@pytest.mark.parametrize("name", NAMES)
def test_the_whole_inventory_is_read(reach: Reach, name: str) -> None:
    machine = reach(name)
    parts = machine.hardware().parts
    wanted = {**PARTS, **({"switch": 4} if name == "dgx" else {})}
    assert {kind: len(found) for kind, found in parts.items() if isinstance(found, tuple)} == wanted
    assert {one.name for one in machine.firmware()} == {"BIOS", "BMC"}
    identity = machine.identity()
    assert identity.bios == "2.1.5" and identity.serial == ("7JX2K04" if name == "idrac" else "SN1")
    assert machine.log().log.events == () and machine.sensors().sensors


@pytest.mark.parametrize("name", SOME)
def test_power_and_boot_come_true_and_each_is_asked_for_once(bed: Bed, reach: Reach, name: str) -> None:
    machine, service = reach(name), bed.services[name]
    machine.set_boot(BootTarget.PXE, True)
    assert machine.boot().target is BootTarget.PXE
    for action, state in ((PowerAction.ON, PowerState.ON), (PowerAction.OFF, PowerState.OFF)):
        machine.set_power(action)
        assert machine.power() is state
    resets = [one for one in service.asked if one[0] == "POST" and one[1].endswith("ComputerSystem.Reset")]
    assert len(resets) == 2 and machine.earlier() == ()


@pytest.mark.parametrize("name", NAMES)
def test_bios_settings_wait_for_the_reset_and_are_current_after_it(bed: Bed, reach: Reach, name: str) -> None:
    machine = reach(name)
    said = machine.set_bios({"SriovGlobalEnable": "Enabled"})
    assert machine.bios().pending == {"SriovGlobalEnable": "Enabled"}
    if name == "idrac":
        assert "Task successfully scheduled" in said
        assert [one.end for one in machine.earlier()] == [ChangeEnd.RESET]
    machine.set_power(PowerAction.ON)
    assert machine.bios().current["SriovGlobalEnable"] == "Enabled"      # type: ignore[index]
    if name == "idrac":
        assert [one.end for one in machine.earlier()] == [ChangeEnd.DONE] and machine.earlier() == ()


@pytest.mark.parametrize("name", SOME)
def test_a_change_that_any_of_them_makes_a_task_of_is_followed(bed: Bed, reach: Reach, name: str) -> None:
    service = bed.services[name]
    service.ways = replace(service.ways, tasks=frozenset({"power"}))
    machine = reach(name)
    machine.set_power(PowerAction.ON)
    assert machine.power() is PowerState.ON
    service.fails = "The supply did not answer."
    with pytest.raises(BmcError, match="The supply did not answer") as caught:
        machine.set_power(PowerAction.OFF)
    assert (caught.value.wrong, caught.value.done) == (BmcErrorReason.REFUSED, False)
    assert machine.power() is PowerState.ON


@pytest.mark.parametrize("name", SOME)
def test_each_gets_a_password_of_its_own_and_an_operator_who_can_do_what_is_needed(
    bed: Bed, reach: Reach, name: str,
) -> None:
    service, node = bed.services[name], bed.node(name, own=True)
    accounts = bed.accounts(operator="muster")
    assert accounts.plan(node) == "a password of its own and an operator's account muster"
    assert accounts.settle(node) == "it has a password of its own; it has an operator's account muster"
    assert service.password(USER) == (bed.passwords / name).read_text().strip() != DELIVERED
    assert (bed.passwords / name).stat().st_mode & 0o777 == 0o600
    assert len(service.password(USER)) == 16 and service.password(USER) != service.password("muster")
    made = next(one for one in service.accounts.values() if one.user == "muster")
    assert (made.role, made.enabled) == ("Operator", True)
    machine = reach(name, own=True, user="muster", entry="{node}.operator")
    machine.set_power(PowerAction.ON)
    machine.set_boot(BootTarget.PXE, True)
    machine.set_bios({"BootMode": "Legacy"})
    assert machine.power() is PowerState.ON
    # A second time there is nothing to do, and no one was refused.
    assert (accounts.plan(node), accounts.settle(node), service.refused) == ("", "", 0)
    assert sorted(path.name for path in bed.passwords.iterdir()) == [name, f"{name}.operator"]


@pytest.mark.parametrize("name", SOME)
def test_an_account_that_must_change_its_password_first_is_given_one(bed: Bed, reach: Reach,
                                                                     name: str) -> None:
    service = bed.services[name]
    next(one for one in service.accounts.values() if one.user == USER).must_change = True
    with pytest.raises(BmcError) as caught:
        reach(name).power()
    assert caught.value.wrong is BmcErrorReason.PASSWORD
    bed.accounts().settle(bed.node(name, own=True))
    assert reach(name, own=True).power() is PowerState.OFF


@pytest.mark.parametrize("name", ["openbmc", "ilo"])
def test_one_that_gives_no_session_before_the_change_is_asked_with_each_request(
    bed: Bed, reach: Reach, name: str,
) -> None:
    service = bed.services[name]
    service.ways = replace(service.ways, no_session_first=True)
    service.accounts[USER].must_change = True
    bed.accounts().settle(bed.node(name, own=True))
    assert reach(name, own=True).power() is PowerState.OFF and service.refused == 0


@pytest.mark.parametrize("name", ["idrac"])
def test_an_idrac_that_demands_a_new_password_takes_roots_among_its_attributes(
    bed: Bed, reach: Reach, name: str,
) -> None:
    service = bed.services[name]
    service.ways = replace(service.ways,
                           attributes=f"{ROOT}/Managers/iDRAC.Embedded.1/Oem/Dell/DellAttributes/"
                                                    "iDRAC.Embedded.1")
    service.accounts["2"].must_change = True
    bed.accounts().settle(bed.node(name, own=True))
    assert reach(name, own=True).power() is PowerState.OFF
    # Of another user no one knows which slot is his, and none is written unread.
    service.accounts["2"] = Account("ada", DELIVERED, must_change=True)
    written = [one for one in service.asked if one[0] == "PATCH"]
    (bed.passwords / name).unlink()
    with pytest.raises(BmcError) as caught:
        bed.accounts().settle(bed.node(name, own=True, user="ada"))
    assert caught.value.wrong is BmcErrorReason.PASSWORD
    assert [one for one in service.asked if one[0] == "PATCH"] == written


def test_all_of_them_at_once_are_read_within_seconds(bed: Bed) -> None:
    began = time.monotonic()
    nodes = [bed.node(name) for name in NAMES]
    found = [one for _,
             one in ask_controllers(nodes, connector(bed.folder, 30.0), lambda one: one.hardware(), 64)]
    assert len(found) == len(NAMES) and not any(isinstance(one, BmcError) for one in found)
    assert time.monotonic() - began < 20
