"""Step credentials with passwords of their own: set first, refused for people, and tried once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store.bringupnotes import LOGIN, REFUSED
from inventory.model import Bmc, Lifecycle, LifecycleState, Node, Secret, SecretFrom
from provisioning.bmc.accounts import DesiredAccounts
from provisioning.bmc.connect import accounts_of, controller
from provisioning.bringup.engine.model import Machine, Observation, StepState
from provisioning.bringup.steps.credentials import Credentials
from tests.provisioning.bringup.controllers import POLICY, past, sku_of
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, MAKERS, USER
from tests.testbed.redfish.service import Service


class Site:
    def __init__(self, folder: Path, service: Service, place: tuple[str, int, str]) -> None:
        self.service, self.passwords = service, folder / "pw"
        (folder / "first").write_text(DELIVERED)
        (folder / "first").chmod(0o600)
        where = Secret(SecretFrom.FILE, (str(self.passwords / "{node}"),))
        self.node = Node("gx01", bmc=Bmc(place[0], USER, place[1], secret=where, tls=place[2]),
                         lifecycle=Lifecycle(LifecycleState.BRINGUP))
        desired = DesiredAccounts(random=True, folder=self.passwords, first=Secret(
            SecretFrom.FILE, (str(folder / "first"),)))
        self.step = Credentials(POLICY.steps["credentials"],
                                lambda node: controller(node, folder=folder), POLICY,
                                sku_of, accounts_of(desired, folder))
        service.add(USER, DELIVERED)

    def machine(self, *operations: object) -> Machine:
        return Machine(self.node, 1000.0, 1000.0, {}, tuple(operations))    # type: ignore[arg-type]

    def looked(self, *operations: object) -> Observation:
        (_, found), = self.step.observe([self.machine(*operations)])
        return found


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    service = MAKERS["openbmc"]()
    with served(tmp_path, {"gx01": service}) as places:
        yield Site(tmp_path, service, places["gx01"])


def test_one_without_a_password_of_its_own_gets_it_and_then_says_what_it_is(site: Site) -> None:
    found = site.looked()
    assert found.stand is StepState.NOT_SO and found.operation is not None
    assert found.operation.change == ("BMC: none -> a password of its own",)
    assert site.service.asked == []         # a look tries no delivered password
    made = site.step.make(site.machine(), found.operation)
    assert (made.done, made.message) == (True, "it has a password of its own")
    again = site.looked(past("accounts"))
    assert again.stand is StepState.SO and again.keep["serial"] == "SN1"
    assert (site.passwords / "gx01").read_text().strip() == site.service.password(USER)


def test_one_that_asks_for_a_new_password_later_gets_it(site: Site) -> None:
    found = site.looked()
    assert found.operation is not None
    site.step.make(site.machine(), found.operation)
    next(one for one in site.service.accounts.values() if one.user == USER).must_change = True
    found = site.looked(past("accounts"))
    assert found.operation is not None and "which it asks for" in found.message
    assert site.step.make(site.machine(), found.operation).done is True
    assert site.looked(past("accounts")).stand is StepState.SO


def test_a_login_that_is_refused_is_kept_so_and_not_tried_again(site: Site) -> None:
    next(one for one in site.service.accounts.values() if one.user == USER).password = "some-0ther"
    found = site.looked()
    assert found.operation is not None
    made = site.step.make(site.machine(), found.operation)
    assert made.done is False
    before = len(site.service.asked)
    again = site.looked(past("accounts", False, message=made.message))
    assert again.stand is StepState.TROUBLE and again.keep == {LOGIN: REFUSED}
    assert len(site.service.asked) == before


def test_one_that_was_exchanged_since_says_by_which_command_it_gets_a_password_again(site: Site) -> None:
    found = site.looked()
    assert found.operation is not None
    site.step.make(site.machine(), found.operation)
    next(one for one in site.service.accounts.values() if one.user == USER).password = DELIVERED
    site.service.tokens.clear()
    again = site.looked(past("accounts"))
    assert again.stand is StepState.TROUBLE and again.keep == {LOGIN: REFUSED}
    assert "muster bmc accounts gx01 --apply" in again.troubles[0].hand


def test_where_a_password_cannot_be_kept_nothing_is_asked_and_a_person_is_reported(site: Site) -> None:
    site.step._accounts.desired.__dict__["folder"] = Path("/elsewhere")     # type: ignore[union-attr]
    found = site.looked()
    assert found.stand is StepState.TROUBLE and "say there: bmc:" in found.message
    assert site.service.asked == []
