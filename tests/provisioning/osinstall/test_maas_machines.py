"""Which machine of MAAS a node is, and what is made of its documents, whatever they hold."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory.model import Bmc, Node, Secret, SecretFrom
from inventory.text import clean
from provisioning.osinstall.base import OsError, OsReport, OsState
from provisioning.osinstall.maas.identity import find
from provisioning.osinstall.maas.machines import MaasMachine, machine, machines, number, power_addresses
from provisioning.osinstall.maas.options import MaasOptions
from provisioning.osinstall.maas.statuses import next_step, report
from tests.testbed.maas import POWER_PASSWORD, Hardware, Maas
from tests.tries import tries

NODE = Node("gpu001", bmc=Bmc("10.2.0.1"), labels={"serial": "SN0001"})
KEY = Secret(SecretFrom.FILE, ("/nowhere",))


def one(system_id: str, hostname: str = "", **more: Any) -> MaasMachine:
    return MaasMachine(system_id, hostname, f"{hostname}.maas", 4, "Ready", **more)


def found(node: Node, *there: MaasMachine, **addresses: str) -> str:
    match = find(node, there, addresses)
    return match.machine.system_id if match is not None else ""


@pytest.mark.parametrize(("there", "addresses"), [
    (one("aaa", "amusing-cat", serials=("SN0001",)), {}), (one("aaa", "GPU001"), {}),
    (one("aaa", "amusing-cat"), {"aaa": "10.2.0.1"}),
    (one("aaa", "gpu001", serials=("CHASSIS", "SN0001")), {"aaa": "10.2.0.1"}),
])
def test_a_machine_is_found_by_serial_number_controller_or_name(there: MaasMachine,
                                                                addresses: dict[str, str]) -> None:
    assert found(NODE, one("zzz", "gpu002", serials=("SN0002",)), there, zzz="10.2.0.2", **addresses) == "aaa"


def test_a_machine_is_found_by_uuid_and_by_its_full_name() -> None:
    assert found(Node("x", labels={"uuid": "ab-cd"}), one("aaa", "y", uuid="AB-CD")) == "aaa"
    assert found(Node("gpu001.maas"), one("aaa", "gpu001")) == "aaa"
    assert found(Node("gpu001.dc2"), one("aaa", "gpu001")) == "" and found(NODE) == ""


@pytest.mark.parametrize(("there", "addresses", "said"), [
    ((one("aaa", "cat", serials=("SN0001",)), one("bbb", "dog", serials=("SN0001",))), {},
     "cat (aaa) by its serial number SN0001; dog (bbb) by its serial number SN0001"),
    ((one("aaa", "cat", serials=("SN0001",)), one("bbb", "gpu001")), {},
     "gpu001 (bbb) by its host name gpu001"),
    ((one("aaa", "cat"), one("bbb", "gpu001")), {"aaa": "10.2.0.1"},
     "cat (aaa) by its controller at 10.2.0.1"),
    ((one("aaa", "gpu001"), one("bbb", "gpu001")), {}, "gpu001 (aaa) by its host name gpu001; gpu001 (bbb)"),
])
def test_two_machines_that_may_be_it_are_an_error_that_names_both(there: tuple[MaasMachine, ...],
                                                                  addresses: dict[str, str],
                                                                  said: str) -> None:
    with pytest.raises(OsError) as caught:
        found(NODE, *there, **addresses)
    assert (said in str(caught.value) and "aaa" in str(caught.value) and "bbb" in str(caught.value)
            and "labels: {maas_id: ...}" in str(caught.value))


def test_the_label_maas_id_decides_between_two_and_is_held_against_the_serial_number() -> None:
    twins = (one("aaa", "cat", serials=("SN0001",)), one("bbb", "dog", serials=("SN0001",)),
             one("ccc", "gpu001", serials=("SN3",)))
    node = Node("gpu001", labels={"serial": "SN0001", "maas_id": "bbb"})
    assert found(node, *twins) == "bbb"
    with pytest.raises(OsError, match="the inventory says serial number SN0001, MAAS says SN3"):
        found(Node("gpu001", labels={"serial": "SN0001", "maas_id": "ccc"}), *twins)
    assert found(Node("gpu001", labels={"maas_id": "ddd"}), *twins) == ""


def test_another_machine_in_its_place_is_not_taken_for_it() -> None:
    with pytest.raises(OsError,
                       match=r"gpu001 \(aaa\) by its controller at 10\.2\.0\.1 and host name gpu001, but the "
                             r"inventory says serial"):
        found(NODE, one("aaa", "gpu001", serials=("SN0999",)), aaa="10.2.0.1")


@pytest.mark.parametrize("text", ["Unknown", "", "  ", "0000", "To be filled by O.E.M.", "None",
                                  "Default string", None, 7])
def test_what_makers_and_maas_write_where_there_is_no_number_is_none(text: object) -> None:
    assert number(text) == "" and number("sn1 ") == "SN1"


@pytest.mark.parametrize(("given_address", "host"), [
    ("10.0.0.1", "10.0.0.1"), ("10.0.0.1:623", "10.0.0.1"), ("https://10.0.0.1/redfish/v1/", "10.0.0.1"),
    ("BMC1.example.", "bmc1.example"),
    ("fd00::1", "fd00::1"), ("[fd00:0::1]:443", "fd00::1"),
    ("qemu+ssh://ubuntu@172.16.1.28/system", "172.16.1.28"),
])
def test_a_controllers_address_is_compared_however_maas_holds_it(given_address: str, host: str) -> None:
    assert (power_addresses({"a": {"power_address": given_address, "power_pass": POWER_PASSWORD}})
            == {"a": host})


def test_a_list_keeps_the_machines_of_which_it_says_enough() -> None:
    good = Maas().enlist("abc", "gpu001", Hardware("SN1"))
    assert [one.hostname
            for one in machines([good, {}, None, {"system_id": "../x"}, {"system_id": 5}])] == ["gpu001"]
    for wrong in ({}, "x", None, 5):
        with pytest.raises(OsError, match="no list of machines"):
            machines(wrong)


TEXT = st.text(max_size=40) | st.sampled_from(["gpu001", "SN0001", "deployed", "Deployed", "\x1b[2J", "a\nb",
                                               "\udcff", "muster"])
JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | TEXT,
                    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
                    max_leaves=20)
FIELDS = st.fixed_dictionaries({},
                               optional=dict.fromkeys(("hostname", "fqdn", "status_name", "status_message",
                                                       "owner", "osystem", "distro_series", "power_state",
                                                       "locked", "hardware_uuid", "tag_names",
                                                       "error_description", "testing_status",
                                                       "workload_annotations", "owner_data", "hwe_kernel"),
                                                      JSON | TEXT) | {
                                                          "system_id": TEXT | st.just("abc123"),
                                                          "status": JSON | st.integers(-2, 30),
                                                          "hardware_info": JSON
                                                          | st.dictionaries(st.sampled_from(
                                                              ["system_serial", "chassis_serial"]), JSON),
                                                          "zone": JSON | st.fixed_dictionaries(
                                                              {"name": JSON}), "pool": JSON,
                                                          "interface_set": JSON | st.lists(st.dictionaries(
                                                              st.sampled_from(["type", "name",
                                                                               "mac_address"]),
                                                              JSON | st.just("physical")), max_size=3)})


@settings(max_examples=tries(400))
@given(FIELDS | JSON)
def test_any_document_is_a_machine_whose_texts_are_safe_or_one_line_of_error(document: Any) -> None:
    try:
        read = machine(document)
    except OsError as error:
        assert str(error) == clean(str(error), 1500)
        return
    options = MaasOptions("https://maas", KEY, "ubuntu", "jammy")
    found = report(read, options)
    step = next_step(read, options, "muster", "gpu001")
    for text in (found.message, found.image, found.advice, step.refused, read.called, read.zone,
                 read.pool, *read.tags,
                 *(part for one in read.interfaces for part in (one.name, one.mac))):
        assert text == clean(text, 2000)
    assert isinstance(found, OsReport) and found.host_keys == ()
    assert found.state is not OsState.INSTALLED or (document["status"] == 6
                                                    and document["distro_series"].strip() == "jammy")


@settings(max_examples=tries(200))
@given(st.dictionaries(TEXT, JSON | st.fixed_dictionaries({"power_address": JSON | TEXT,
                                                           "power_pass": st.just(POWER_PASSWORD)})) | JSON)
def test_any_answer_about_power_gives_clean_addresses_and_no_password(document: Any) -> None:
    for host in power_addresses(document).values():
        assert host == clean(host) and POWER_PASSWORD not in host

