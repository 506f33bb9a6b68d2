"""What is taken of MAAS's commissioning results: the newest run that passed, and of it only what is in the
known form."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.entry import pci_address
from provisioning.osinstall.maas.commissioning import addresses, commissioned
from tests.provisioning.osinstall.maassite import NODE, Site
from tests.testbed import maas
from tests.testbed.maas import script_set


def lldp(site: Site, *sets: dict[str, Any]) -> str:
    site.machine(maas.READY)
    site.bed.results["abc123"] = list(sets)
    return commissioned(site.backend(), NODE).lldp


@pytest.mark.parametrize("name", ["maas-capture-lldpd", "99-maas-02-capture-lldp"])
def test_the_newest_run_that_passed_counts_wherever_it_stands_in_the_list(site: Site, name: str) -> None:
    runs = [script_set(number, "Commissioning", {name: f"run {number}".encode()}) for number in (9, 12, 7)]
    failed = script_set(20, "Commissioning", {name: b"half of it"}, exit_status=1, status=3)
    testing = script_set(30, "Testing", {name: b"not commissioning"})
    assert lldp(site, *runs, failed, testing) == "run 12"


def test_a_machine_without_such_a_result_says_so(site: Site) -> None:
    assert lldp(site, script_set(3, "Commissioning", {"maas-lshw": b"<list/>"})) == ""
    found = commissioned(site.backend(), NODE)
    assert (found.unread == ("MAAS kept no output of lldpctl for gpu001 (abc123): commission it with lldpd",)
            and found.pci == {})


@pytest.mark.parametrize("results",
                         [{}, "x", [1, None, {"id": "x", "results": []}, {"id": 5},
                                    {"id": 6, "results": [{"name": "maas-capture-lldpd", "exit_status": 0,
"stdout": "no base64 \x1b", "output": 5}]}]])
def test_results_in_another_form_hold_nothing(site: Site, results: Any) -> None:
    site.machine(maas.READY)
    site.bed.faults = lambda method, path, op: json.dumps(results).encode() if path.startswith(
        "nodes/") else None
    assert commissioned(site.backend(), NODE).lldp == ""


@pytest.mark.parametrize(("zone", "pool", "tags", "expected"), [
    ("default", "default", ["gpu"], ("", "", ())),
    ("room-b", "train", ["rack-r07", "RACK_r08", "rack-"], ("room-b", "train", ("r07", "r08"))),
])
def test_tags_name_racks_and_what_is_called_default_is_no_place(site: Site, zone: str, pool: str,
                                                                tags: list[str],
                                                                expected: tuple[Any, ...]) -> None:
    site.machine(maas.READY, zone={"name": zone}, pool={"name": pool}, tag_names=tags)
    found = commissioned(site.backend(), NODE)
    assert (found.zone, found.pool, tuple(rack for rack, _ in found.racks)) == expected


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=20)
                    | st.sampled_from(["0000:18:00.0", "ens1f0"]),
                    lambda inner: st.lists(inner,
                                           max_size=3)
                    | st.dictionaries(st.sampled_from(["cards", "ports", "id", "pci_address", "x"]),
                                      inner, max_size=3))


@given(
    JSON
    | st.fixed_dictionaries(
        {"resources": JSON | st.fixed_dictionaries(
            {"network": JSON | st.fixed_dictionaries({"cards": st.lists(JSON, max_size=3)})})}))
def test_any_resources_give_addresses_of_pci_or_none(document: Any) -> None:
    for name, address in addresses(json.dumps(document)).items():
        assert pci_address(address) == address and name
    assert addresses("no json") == {} and addresses("[" * 100_000) == {}
