"""`muster inventory discover` against a rack of emulated Redfish controllers, and ipmi_sim beside them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.command import muster
from tests.testbed.bmcs import Bed, Machine, Wrong, rack, require_rack
from tests.testbed.ipmisim import SERIAL, IpmiSim, ipmi_sim, require_ipmi

MACHINES = [
    Machine("gpu001"), Machine("gpu002"), Machine("gpu003"), Machine("gpu004", Wrong.TWIN),
    Machine("gpu005", Wrong.PASSWORD), Machine("gpu006", Wrong.NO_ONE), Machine("gpu007", Wrong.REDIRECTS)]


@dataclass
class Site:
    """A rack, an IPMI controller at the end of its range, and a home folder."""

    bed: Bed
    sim: IpmiSim
    home: Path

    def range(self, first: str, last: str) -> str:
        """From the controller of one machine to that of another."""
        return f"{self.bed.address(first)}-{self.bed.address(last)}"

    def discover(
        self, *words: str, password: str | None = None, code: int | None = None,
    ) -> CompletedProcess[str]:
        """The finished command; no password may be in what it prints."""
        done = muster(
            "inventory", "discover", "--port", str(self.bed.port), "--ipmi-port", str(self.sim.port), *words,
            home=self.home, code=code, BMC_PASSWORD=password if password is not None else self.bed.password)
        assert self.bed.password not in done.stdout + done.stderr
        return done

    def json(self, *words: str) -> dict[str, Any]:
        done = self.discover("--json", *words)
        document: dict[str, Any] = json.loads(done.stdout)
        assert document["exit"] == done.returncode
        return document

    def serial(self, name: str) -> str:
        """The number that the machine's controller tells after a login."""
        return self.bed.machines[name].number

    def inventory(self, *names: str, **more: str) -> None:
        """An inventory of these machines, planned; `defaults` name the account."""
        entries = "".join(f"  {name}: {{bmc: {self.bed.address(name)}, lifecycle: "
                          f"planned{more.get(name, '')}}}\n" for name in names)
        (self.home / "muster.yaml").write_text(
            "version: 1\n"
            f"defaults: {{bmc: {{user: {self.bed.user}, port: {self.bed.port}, password: {{env: "
            f"BMC_PASSWORD}}}}}}\n"
            "nodes:\n"
            f"  spare: {{lifecycle: planned}}\n"
            f"{entries}")

    def delivered(self, *rows: str) -> str:
        (self.home / "rack7.csv").write_text(
            "Serial Number,Hostname,Rack\n" + "".join(f"{row}\n" for row in rows))
        return "rack7.csv"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bed, IpmiSim]]:
    require_rack()
    require_ipmi()
    folder = tmp_path_factory.mktemp("rack")
    with rack(folder / "rack", MACHINES) as bed:
        # The last of the addresses, where the rack's own end.
        address = bed.address("gpu001").rpartition(".")[0] + ".40"
        with ipmi_sim(folder / "ipmi", address) as sim:
            yield bed, sim


@pytest.fixture
def site(built: tuple[Bed, IpmiSim], tmp_path: Path) -> Site:
    return Site(*built, tmp_path)


def test_without_a_login_it_says_who_answers_and_how(site: Site) -> None:
    first = site.bed.address("gpu001")
    found = site.json("--range", f"{first.rpartition('.')[0]}.1-{site.sim.address}")
    by = {one["address"]: one for one in found["found"]}
    assert (by[first]["speaks"], by[first]["vendor"], by[first]["fingerprint"]) == (
        ["redfish"], "Contoso", site.bed.fingerprints["gpu001"])
    assert by[site.sim.address]["speaks"] == ["ipmi"]
    assert site.bed.address("gpu006") not in by
    assert "redirects to" in by[site.bed.address("gpu007")]["said"]
    assert found["schema"] == "muster.discovered/1" and found["asked"] == 40
    assert not any(
        request.login for request in site.bed.log() if request.machine in ("gpu001", "gpu002", "gpu003"))


def test_it_starts_nothing_that_was_not_named(site: Site) -> None:
    done = site.discover()
    assert done.returncode == 2 and "--range 10.1.0.0/24" in done.stderr and done.stderr.count("\n") == 1
    for words in (("--login", "--leases", "x"), ("--range", "10.0.0.1", "--trust-certificates"),
                  ("--range", "10.0.0.1", "--names", "a[1-2]"), ("--leases", "x", "--delivery", "y"),
                  ("--range", "10.0.0.1", "--write", "x", "--json"), ("--range", "10.0.0.1", "--login")):
        done = site.discover(*words)
        assert done.returncode == 2 and done.stderr.startswith("muster: --"), words


def test_a_rack_as_it_was_ordered_is_all_as_listed(site: Site) -> None:
    site.inventory("gpu001", "gpu002", "gpu003")
    rows = [f"{site.serial(name)},{name}," for name in ("gpu003", "gpu001", "gpu002")]
    done = site.discover("--range", site.range("gpu001", "gpu003"), "--login", "--trust-certificates",
                         "--delivery", site.delivered(*rows), code=0)
    assert "rack7.csv: 3 delivered: 3 as listed" in done.stdout


def test_missing_extra_swapped_and_doubled_are_each_said(site: Site) -> None:
    site.inventory("gpu001", "gpu002", "gpu003")
    rows = (f"{site.serial('gpu001')},gpu002,", f"{site.serial('gpu002')},gpu002,", "LOST1,gpu009,r07")
    found = site.json("--range", site.range("gpu001", "gpu004"), "--login", "--trust-certificates",
                      "--delivery", site.delivered(*rows))
    delivery = found["delivery"]
    # gpu004 has the number of gpu001
    assert [row["state"] for row in delivery["rows"]] == ["doubled", "as listed", "missing"]
    assert delivery["extra"] == [site.bed.address("gpu003")]
    assert [
        (one["kind"], one["value"]) for one in found["doubled"]] == [("serial number", site.serial("gpu001"))]
    assert found["exit"] == 1
    swapped = site.json(
        "--range", site.range("gpu001", "gpu002"), "--login", "--trust-certificates", "--delivery",
        site.delivered(f"{site.serial('gpu001')},gpu002,", f"{site.serial('gpu002')},gpu001,"))
    assert [row["state"] for row in swapped["delivery"]["rows"]] == ["swapped", "swapped"]


def test_without_a_pin_no_password_goes_out_and_nothing_is_called_missing(site: Site) -> None:
    before = len([request for request in site.bed.log("gpu001") if request.login])
    site.inventory("gpu001")
    found = site.json("--range", site.bed.address("gpu001"), "--login", "--delivery", site.delivered("S1,,"))
    assert "certificate" in found["found"][0]["login"]
    assert found["delivery"]["rows"][0]["state"] == "not read" and found["exit"] == 3
    assert len([request for request in site.bed.log("gpu001") if request.login]) == before


def test_a_wrong_password_is_tried_on_one_controller_once(site: Site) -> None:
    def refusals() -> int:
        return sum(request.status == 401 for request in site.bed.log())

    site.inventory("gpu001", "gpu002", "gpu003")
    before = refusals()
    done = site.discover("--range", site.range("gpu001", "gpu003"), "--login", "--trust-certificates",
                         password="planted-not-it", code=3)
    assert refusals() - before == 1
    assert done.stdout.count("not tried: the account was refused at") == 2
    assert "planted-not-it" not in done.stdout + done.stderr


def test_what_was_found_becomes_planned_entries_after_a_look_at_the_difference(site: Site) -> None:
    site.inventory("gpu001")
    words = ("--range", site.range("gpu001", "gpu003"), "--login", "--trust-certificates", "--write",
             "muster.yaml", "--names", "gpu[002-003]")
    before = (site.home / "muster.yaml").read_text()
    done = site.discover(*words, "--dry-run")
    assert (f"+  gpu002: {{bmc: {site.bed.address('gpu002')}, labels: {{serial: {site.serial('gpu002')}"
            in done.stdout)
    assert "+  gpu[002-003]: {lifecycle: planned" in done.stdout
    assert (site.home / "muster.yaml").read_text() == before
    assert site.discover(*words, "--yes").returncode == 0
    assert "nothing to change" in site.discover(*words, "--yes").stdout
    shown = json.loads(muster("inventory", "show", "gpu003", "--format", "json", home=site.home).stdout)
    assert site.serial("gpu003") in json.dumps(shown) and '"planned"' in json.dumps(shown)


def test_an_ipmi_controller_tells_its_serial_number_through_ipmitool(site: Site) -> None:
    from tests.testbed.ipmisim import PASSWORD, USER

    (site.home / "muster.yaml").write_text(
        "version: 1\n"
        "nodes:\n"
        f"  old001: {{lifecycle: planned, bmc: {{address: {site.sim.address}, port: {site.sim.port}, "
        f"protocol: ipmi, user: {USER}, password: {{env: BMC_PASSWORD}}}}}}\n")
    done = site.discover("--range", site.sim.address, "--login", "--delivery",
                         site.delivered(f"{SERIAL},old001,"), password=PASSWORD, code=0)
    assert "1 delivered: 1 as listed" in done.stdout and PASSWORD not in done.stdout + done.stderr


def test_leases_by_themselves_ask_no_one_and_name_what_is_doubled(site: Site) -> None:
    before = len(site.bed.log())
    (site.home / "dnsmasq.leases").write_text(
        f"0 7c:c2:55:00:00:01 {site.bed.address('gpu001')} bmc-7 *\n"
        "0 7c:c2:55:00:00:02 10.1.0.2 bmc-7 *\n"
        "1 7c:c2:55:00:00:03 10.1.0.3 bmc-9 *\n")
    done = site.discover("--leases", "dnsmasq.leases", code=1)
    assert "host name bmc-7: 7c:c2:55:00:00:01" in done.stdout and "expired or given back" in done.stdout
    assert len(site.bed.log()) == before
    found = site.json("--leases", "dnsmasq.leases", "--range", site.bed.address("gpu001"))
    assert found["found"][0]["macs"] == ["7c:c2:55:00:00:01"]


def test_a_number_that_the_store_has_of_another_node_is_doubled(site: Site) -> None:
    from healthcheck.model.hardware import Now
    from healthcheck.store.file import opened
    from healthcheck.store.hardware import write_hardware

    site.inventory("gpu001", "gpu002")
    with opened(site.home / "state", make=True) as store, store.writing() as db:
        db.execute("INSERT INTO node (id, name) VALUES (1, 'gpu002')")
        write_hardware(db, 1, 1_795_000_000.0,
                       Now({"board": {"serial": site.serial("gpu001")}}, frozenset(), "boot", {}))
    found = site.json("--range", site.bed.address("gpu001"), "--login", "--trust-certificates")
    assert [claim["where"] for claim in found["doubled"][0]["claims"]] == [
        f"the controller at {site.bed.address('gpu001')}", "the look of 2026-11-18"]
    assert found["exit"] == 1
