"""Seven makers' controllers through `muster bringup run --apply` to the end of the BIOS step: delivered with
one password, which each demands to be changed, they end with a password of their own, as ordered, and with
the BIOS setting that the policy wants; each was touched as often as that takes, tasks and jobs included."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from tests.command import muster
from tests.provisioning.bringup.plantedrack import SKU
from tests.testbed.redfish.https import served
from tests.testbed.redfish.makers import DELIVERED, MAKERS, USER
from tests.testbed.redfish.service import Service

NAMES = {f"gx{at:02}": name for at, name in enumerate(MAKERS, 1)}
POLICY = """\
power: {off_seconds: 20, on_seconds: 20, bios_minutes: 1, answer_minutes: 1}
parts: {doubles_seconds: 0}
accounts: {password: random, store: {folder: pw}, first: {file: delivered}, operator: muster}
bios:
- {id: own, settings: {SriovGlobalEnable: Enabled}, source: here}
"""


@dataclass
class Ended:
    home: Path
    services: dict[str, Service]
    code: int
    output: str
    machines: dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    home = tmp_path_factory.mktemp("makers")
    services = {name: MAKERS[maker]() for name, maker in NAMES.items()}
    for name, one in services.items():
        one.add(USER, DELIVERED, must_change=True)
        one.documents[one.system]["SerialNumber"] = f"SN-{name}"
        one.documents[one.system]["UUID"] = f"00000000-0000-0000-0000-0000000000{name[2:]}"
        if NAMES[name] == "idrac":
            one.documents[one.system]["SKU"] = f"TAG-{name}"
        one.ways = replace(one.ways, tasks=frozenset({"power", *one.ways.tasks}))
    with served(home, services) as places:
        entries = "".join(
            f"  {name}: {{bmc: {{address: {place[0]}, port: {place[1]}, tls: {place[2]}, user: {USER}}}}}\n"
            for name, place in places.items())
        (home / "muster.yaml").write_text(
            f"version: 1\ndefaults: {{lifecycle: bringup, sku: gx8, bmc: {{password: {{file: "
            f"'{home}/site/pw/{{node}}'"
            f"}}}}}}\nnodes:\n{entries}")
        (home / "site/sku").mkdir(parents=True)
        (home / "site/sku/gx8.yaml").write_text(SKU)
        (home / "site/bringup.yaml").write_text(POLICY)
        (home / "site/delivered").write_text(DELIVERED)
        (home / "site/delivered").chmod(0o600)
        done = muster("bringup", "run", "gx[01-07]", "--apply", "--until", "bios", "--rules",
                      "site", home=home,
                      timeout=150)
        status = muster("bringup", "status", "--format", "json", home=home)
        machines = {one["node"]: one for one in json.loads(status.stdout)["machines"]}
        yield Ended(home, services, done.returncode, done.stdout + done.stderr, machines)


def test_all_of_them_come_to_the_end_of_the_bios_step(ended: Ended) -> None:
    assert {name: one["step"]
            for name, one in ended.machines.items()} == dict.fromkeys(NAMES, "boot"), ended.output
    assert not [one for one in ended.machines.values() if one["stand"] == "trouble"]


def test_each_has_a_password_of_its_own_and_an_operator(ended: Ended) -> None:
    own = {one.password(USER) for one in ended.services.values()}
    assert len(own) == len(NAMES) and DELIVERED not in own
    for name, service in ended.services.items():
        assert (ended.home / "site/pw" / name).read_text().strip() == service.password(USER)
        assert next(one.role for one in service.accounts.values() if one.user == "muster") == "Operator"
        assert service.refused == 0


def test_each_was_changed_as_often_as_it_takes(ended: Ended) -> None:
    for name, service in ended.services.items():
        assert service.documents[service.bios]["Attributes"]["SriovGlobalEnable"] == "Enabled"
        changes = [(method, path) for method, path, status in service.asked
                   if method in ("POST", "PATCH") and status < 300]
        assert changes.count(("PATCH", service.pending)) == 1, name
        # They came switched off: one order to switch on.
        assert changes.count(("POST", f"{service.system}/Actions/ComputerSystem.Reset")) == 1, name


def test_no_password_is_in_what_was_printed_or_in_the_state_folder(ended: Ended) -> None:
    secrets = {DELIVERED,
               *(account.password for one in ended.services.values() for account in one.accounts.values()
                 if account.password)}
    for path in (ended.home / "state").rglob("*"):
        if path.is_file():
            assert not [one for one in secrets if one.encode() in path.read_bytes()], path
    assert not [one for one in secrets if one in ended.output]
