"""What makers' services say, in small: shapes and names as their own documentation and published dumps have
them, values of ours.

Dell: iDRAC9 Redfish API guide. HPE: iLO 6 Redfish reference. Supermicro: Redfish reference guide, and dumps
of X10 and of a GB300 board in github.com/spyroot/redfish_ctl (tests). NVIDIA: Infra Controller's Redfish
endpoints reference. DMTF: mockup public-rackmount1 (DSP2043).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.facts.values import UNSUPPORTED, Unmeasured
from inventory.transport.httponce import HttpAnswer
from provisioning.bmc.base import BmcError, BmcErrorReason, BootTarget, PowerAction, PowerState
from provisioning.bmc.redfish import sensors, vendors
from tests.provisioning.bmc.redfishdocs import of, ref, service, tree


def gpus(where: str, count: int) -> dict[str, Any]:
    names = [f"{where}/Processors/GPU_SXM_{at}" for at in range(1, count + 1)]
    return {
        f"{where}/Processors": of(*names),
        **{
            name: {
                "Id": name.rpartition("/")[2], "ProcessorType": "GPU", "Model": "NVIDIA H100 80GB HBM3",
                "SerialNumber": f"165{at}", "Status": {"Health": "OK", "State": "Enabled"}}
                for at, name in enumerate(names)}}


def hgx(**more: Any) -> dict[str, Any]:
    """A host, and beside it the baseboard with the GPUs."""
    return tree(
        **{
            "Systems": of("Systems/HGX_Baseboard_0", "Systems/1"),
            "system": {"Manufacturer": "Supermicro", "Processors": ref("Systems/1/Processors")},
            "Systems/HGX_Baseboard_0": {
                "Id": "HGX_Baseboard_0", "SystemType": "Physical", "PowerState": "On",
                "Processors": ref("Systems/HGX_Baseboard_0/Processors"),
                "Memory": ref("Systems/HGX_Baseboard_0/Memory")},
            "Systems/1/Processors": of("Systems/1/Processors/1"),
            "Systems/1/Processors/1": {
                "Id": "1", "Socket": "CPU1", "ProcessorType": "CPU", "Model": "Xeon", "TotalCores": 56},
            "Systems/HGX_Baseboard_0/Memory": of("Systems/HGX_Baseboard_0/Memory/GPU_SXM_1_DRAM_0"),
            "Systems/HGX_Baseboard_0/Memory/GPU_SXM_1_DRAM_0": {
                "Id": "GPU_SXM_1_DRAM_0", "CapacityMiB": 81920}, **gpus("Systems/HGX_Baseboard_0", 8),
            **more})


def test_gpus_are_found_on_the_baseboard_and_their_memory_is_no_module() -> None:
    controller, _ = service(hgx())
    parts = controller.hardware().parts
    assert [part.slot for part in parts["gpu"]] == [f"GPU_SXM_{at}" for at in range(1, 9)
                                                    ]  # type: ignore[union-attr]
    assert [(part.slot, part.amount) for part in parts["cpu"]] == [("CPU1", 56)]  # type: ignore[union-attr]
    assert parts["dimm"] == ()
    assert controller.power() is PowerState.ON


def test_gpus_that_host_and_baseboard_both_tell_of_are_counted_once() -> None:
    both = of("Systems/1/Processors/1", *(f"Systems/1/Processors/GPU{at}" for at in range(1, 9)))
    cards = {
        f"Systems/1/Processors/GPU{at}": {"Id": f"GPU{at}", "ProcessorType": "GPU"} for at in range(1, 9)}
    assert len(service(hgx(
        **{"Systems/1/Processors": both, **cards}))[0].hardware().parts["gpu"]) == 8  # type: ignore[arg-type]


def test_a_baseboard_that_does_not_answer_costs_the_gpus_and_not_the_cpus() -> None:
    documents = hgx()
    controller, papers = service(documents)
    controller.power()
    find = papers._find
    papers._find = lambda path: "no object" if path.endswith("HGX_Baseboard_0") else find(path)
    parts = controller.hardware().parts
    assert isinstance(parts["gpu"], Unmeasured)
    assert len(parts["cpu"]) == 1       # type: ignore[arg-type]


def test_one_gpu_that_cannot_be_read_keeps_its_seat_and_says_why() -> None:
    documents = hgx()
    del documents["/redfish/v1/Systems/HGX_Baseboard_0/Processors/GPU_SXM_3"]
    found = service(documents)[0].hardware().parts["gpu"]
    assert isinstance(found, tuple)
    assert len(found) == 8
    assert isinstance(found[2].serial, Unmeasured)
    assert "404" in found[2].serial.reason


def fabrics(*, typed: bool = True, fabric_typed: bool = True, missing: int = 0) -> dict[str, Any]:
    """Fabrics as an HGX H100 baseboard tells of them: NVSwitches beside PCIe switches and retimers. Names
    and types: NVIDIA's nvidia-bmcweb (Fabrics, SwitchType) and its HGX Redfish documentation."""
    made = (("HGX_NVLinkFabric_0", "NVLink", [f"NVSwitch_{at}" for at in range(4 - missing)]),
            ("HGX_PCIeSwitchFabric_0", "PCIe", ["PCIeSwitch_0"]),
            *((f"HGX_PCIeRetimerTopology_{at}", "PCIe", [f"PCIeRetimer_{at}"]) for at in range(8)))
    documents: dict[str, Any] = {"root": {"Fabrics": ref("Fabrics")},
                                 "Fabrics": of(*(f"Fabrics/{name}" for name, _, _ in made))}
    for name, kind, switches in made:
        where = f"Fabrics/{name}"
        documents[where] = {"@odata.id": f"/redfish/v1/{where}", "Id": name,
                            "Switches": ref(f"{where}/Switches"),
                            **({"FabricType": kind} if fabric_typed else {})}
        documents[f"{where}/Switches"] = of(*(f"{where}/Switches/{switch}" for switch in switches))
        for switch in switches:
            documents[f"{where}/Switches/{switch}"] = {"Id": switch,
                                                       **({"SwitchType": kind} if typed else {})}
    return documents


@pytest.mark.parametrize(("typed", "fabric_typed"),
                         [(True, True), (True, False), (False, True), (False, False)])
def test_pcie_switches_and_retimers_are_no_nvswitches(typed: bool, fabric_typed: bool) -> None:
    documents = fabrics(typed=typed, fabric_typed=fabric_typed)
    found = service(hgx(**documents))[0].hardware().parts["switch"]
    assert isinstance(found, tuple)
    assert [part.slot for part in found] == [f"NVSwitch_{at}" for at in range(4)]


def test_a_fabric_of_nvlink_without_a_switch_has_none_and_one_of_pcie_alone_says_nothing() -> None:
    documents = fabrics(missing=4)
    assert service(hgx(**documents))[0].hardware().parts["switch"] == ()
    documents["Fabrics"] = of("Fabrics/HGX_PCIeSwitchFabric_0")
    assert service(hgx(**documents))[0].hardware().parts["switch"] is UNSUPPORTED


def test_a_switch_that_tells_no_type_and_has_no_known_name_is_not_counted_and_not_left_out() -> None:
    documents = fabrics(typed=False, fabric_typed=False)
    documents["Fabrics/HGX_NVLinkFabric_0/Switches"] = of("Fabrics/X/Switches/Switch1")
    documents["Fabrics/X/Switches/Switch1"] = {"Id": "Switch1"}
    found = service(hgx(**documents))[0].hardware().parts["switch"]
    assert isinstance(found, Unmeasured)
    assert "Switch1" in found.reason


def test_a_machine_of_which_no_gpu_is_reported_has_not_none() -> None:
    assert service(tree())[0].hardware().parts["gpu"] is UNSUPPORTED


def multi(*ids: str, **more: Any) -> dict[str, Any]:
    """One controller of several machines, as of a chassis with several boards."""
    return tree(
        **{"Systems": of(*(f"Systems/{one}" for one in ids)),
           **{f"Systems/{one}": {"@odata.id": f"/redfish/v1/Systems/{one}", "Id": one,
                                 "SystemType": "Physical",
                                 "PowerState": "On", "SerialNumber": f"SN-{one}",
                                 "Actions": {"#ComputerSystem.Reset": {
                                     "target": f"/redfish/v1/Systems/{one}/Actions/ComputerSystem.Reset"}}}
              for one in ids}, **more})


def test_a_controller_of_several_machines_changes_none_until_the_inventory_names_one() -> None:
    controller, papers = service(multi("Node1", "Node2"))
    for ask in (controller.power, controller.identity, controller.hardware, controller.log,
                lambda: controller.set_power(PowerAction.OFF)):
        with pytest.raises(BmcError) as caught:
            ask()
        assert caught.value.wrong is BmcErrorReason.REFUSED
        assert "it is the controller of 2 machines: it has Node1, Node2" in caught.value.message
        assert "bmc: {system: Node1}" in caught.value.message
    assert all(method == "GET" for method, _, _ in papers.asked)


def test_the_system_that_the_inventory_names_is_the_one_that_is_read_and_changed() -> None:
    for one in ("Node1", "Node2"):
        controller, papers = service(multi("Node1", "Node2"), system=one)
        assert controller.identity().serial == f"SN-{one}"
        controller.set_power(PowerAction.OFF)
        changed = [path for method, path, _ in papers.asked if method == "POST" and "Reset" in path]
        assert changed == [f"/redfish/v1/Systems/{one}/Actions/ComputerSystem.Reset"]


def test_a_system_that_the_controller_does_not_have_is_named_with_those_that_it_has() -> None:
    with pytest.raises(BmcError, match="it has no system Node3; it has Node1, Node2"):
        service(multi("Node1", "Node2"), system="Node3")[0].power()


@pytest.mark.parametrize("lost", ["Node1", "Node2"])
def test_where_one_of_two_machines_cannot_be_read_the_other_is_not_taken_for_it(lost: str) -> None:
    documents = multi("Node1", "Node2")
    documents[f"/redfish/v1/Systems/{lost}"] = "no object"
    controller, papers = service(documents)
    with pytest.raises(BmcError):
        controller.set_power(PowerAction.OFF)
    assert all(method == "GET" for method, _, _ in papers.asked)


def test_a_baseboard_that_does_not_answer_from_the_start_costs_the_gpus_and_is_not_forgotten() -> None:
    documents = hgx()
    documents["/redfish/v1/Systems/HGX_Baseboard_0"] = "no object"
    parts = service(documents)[0].hardware().parts
    assert isinstance(parts["gpu"], Unmeasured)
    assert len(parts["cpu"]) == 1       # type: ignore[arg-type]


def test_empty_seats_are_seats() -> None:
    found = service(tree(system={"Memory": ref("M")}, M=of("M/1", "M/2", "M/3"),
                         **{
                             "M/1": {
                                 "DeviceLocator": "A1", "CapacityMiB": 65536,
                                 "Status": {"Health": "OK", "State": "Enabled"}},
                             "M/2": {"DeviceLocator": "A2", "Status": {"State": "Absent"}},
                             "M/3": {"DeviceLocator": "A3", "CapacityMiB": 0}}))[0].hardware().parts["dimm"]
    assert [(part.slot, part.present) for part in found] == [("A1", True), ("A2", False),
                                                             ("A3", False)]  # type: ignore[union-attr]


@pytest.mark.parametrize(("predicted", "health", "expected"), [
    (True, "OK", "Warning"), (True, None, "Warning"), (True, "Critical", "Critical"), (False, "OK", "OK"),
    (None, "OK", "OK")])
def test_a_drive_that_foretells_its_failure_is_not_well_whatever_its_health(
    predicted: bool | None, health: str | None, expected: str,
) -> None:
    """DMTF's schema Drive, FailurePredicted."""
    drive = {"Id": "0", "FailurePredicted": predicted, "CapacityBytes": 1, "Status": {"Health": health}}
    found = service(tree(system={"Storage": ref("S")}, S=of("S/1"), **{
        "S/1": {"Drives": [ref("S/1/D0")]}, "S/1/D0": drive}))[0].hardware().parts["drive"]
    assert [part.health for part in found] == [expected]  # type: ignore[union-attr]


def test_supplies_and_fans_are_read_in_the_older_and_in_the_newer_way() -> None:
    old = {
        "Chassis/1": {"Power": ref("P"), "Thermal": ref("T")},
        "P": {"PowerSupplies": [{"MemberId": "0", "Name": "PS1", "PowerCapacityWatts": 2200}]},
        "T": {"Fans": [{"FanName": "Fan1A", "Status": {"Health": "Critical"}}]}}
    new = {
        "Chassis/1": {"PowerSubsystem": ref("PS"), "ThermalSubsystem": ref("TS")},
        "PS": {"PowerSupplies": ref("PSU")}, "PSU": of("PSU/0"),
        "PSU/0": {"Id": "0", "Name": "PS1", "PowerCapacityWatts": 2200}, "TS": {"Fans": ref("F")},
        "F": of("F/1"), "F/1": {"Id": "1", "Name": "Fan1A", "Status": {"Health": "Critical"}}}
    for documents in (old, new):
        parts = service(tree(**documents))[0].hardware().parts
        assert [(part.slot, part.amount) for part in parts["psu"]] == [
            ("PS1", 2200)]  # type: ignore[union-attr]
        assert [(part.slot, part.health) for part in parts["fan"]] == [
            ("Fan1A", "Critical")]  # type: ignore[union-attr]


def test_addresses_of_an_adapter_come_from_interfaces_called_after_it_or_from_its_functions() -> None:
    adapter = {
        "Id": "NIC.Slot.3", "Model": "ConnectX-7", "SerialNumber": "MT1",
        "Controllers": [{"FirmwarePackageVersion": "28.39"}], "NetworkDeviceFunctions": ref("NDF")}
    documents = {
        "Chassis/1": {"NetworkAdapters": ref("NA")}, "NA": of("NA/NIC.Slot.3"), "NA/NIC.Slot.3": adapter,
        "NDF": of("NDF/0", "NDF/1"), "NDF/0": {"Id": "0", "Ethernet": {"MACAddress": "58:A2:E1:00:00:01"}},
        "NDF/1": {"Id": "1", "NetDevFuncType": "InfiniBand"}}
    named = tree(system={"EthernetInterfaces": ref("EI")}, EI=of("EI/NIC.Slot.3-1-1", "EI/NIC.Slot.31-1-1"),
                 **documents,
                 **{
                     "EI/NIC.Slot.3-1-1": {"Id": "1", "PermanentMACAddress": "58:A2:E1:00:00:09"},
                     "EI/NIC.Slot.31-1-1": {"Id": "2", "MACAddress": "58:A2:E1:00:00:08"}})
    expanding = tree(root={"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": True}}}, **documents)
    for found, mac in (
        (service(named), "58:a2:e1:00:00:09"), (service(expanding, expand=True), "58:a2:e1:00:00:01")):
        (nic,) = found[0].hardware().parts["nic"]       # type: ignore[misc]
        assert (nic.slot, nic.model, nic.serial, nic.firmware, nic.address) == (
            "NIC.Slot.3", "ConnectX-7", "MT1", "28.39", mac)


def test_dells_machine_is_called_by_its_service_tag_and_earlier_firmware_is_left_out() -> None:
    documents = tree(root={"Vendor": "Dell", "Product": "Integrated Dell Remote Access Controller"},
                     system={
                         "Manufacturer": "Dell Inc.", "Model": "PowerEdge XE9680", "SKU": "7JX2K04",
                         "SerialNumber": "CNFCP0000000AA"}, UpdateService={"FirmwareInventory": ref("F")},
                     F=of("F/Installed-159-2.1.5", "F/Previous-159-2.0.0"),
                     **{
                         "Managers/1": {"Model": "16G Monolithic", "FirmwareVersion": "7.10.30.00"},
                         "F/Installed-159-2.1.5": {"Name": "BIOS", "Version": "2.1.5", "Updateable": True},
                         "F/Previous-159-2.0.0": {"Name": "BIOS", "Version": "2.0.0"}})
    controller, _ = service(documents)
    identity = controller.identity()
    assert (identity.serial, identity.controller, identity.firmware) == (
        "7JX2K04", "iDRAC (16G Monolithic)", "7.10.30.00")
    assert [(one.name, one.version) for one in controller.firmware()] == [("BIOS", "2.1.5")]


@pytest.mark.parametrize(
    ("said", "name"),
    [({"Vendor": "Dell"}, "Dell"), ({"Oem": {"Hpe": {}}}, "HPE"), ({"Vendor": "Supermicro"}, "Supermicro"),
     ({"Vendor": "NVIDIA"}, "NVIDIA"), ({"Oem": {"Ami": {}}}, "AMI"), ({"Vendor": "Lenovo"}, "Lenovo"),
     ({"Product": "OpenBMC"}, "OpenBMC"), ({"Vendor": "Miami Servers"}, ""), ({}, ""),
     ({"Vendor": 7, "Oem": []}, "")])
def test_makers_are_known_by_what_their_service_root_says(said: dict[str, Any], name: str) -> None:
    assert vendors.maker(said).name == name


def bios(vendor: str, where: str, **more: Any) -> dict[str, Any]:
    pending = f"Systems/1/Bios/{where}"
    return tree(root={"Vendor": vendor}, system={"Bios": ref("Systems/1/Bios")},
                **{
                    "Systems/1/Bios": {
                        "@odata.id": "/redfish/v1/Systems/1/Bios", "Id": "Bios",
                        "Attributes": {"SriovGlobalEnable": "Disabled", "Cores": 0},
                        "@Redfish.Settings": {"SettingsObject": ref(pending), **more}},
                    pending: {
                        "@odata.id": f"/redfish/v1/{pending}", "Id": where,
                        "Attributes": {"SriovGlobalEnable": "Enabled", "Cores": 0}}})


@pytest.mark.parametrize(("vendor", "where", "apply"),
                         [("Dell", "Settings", True), ("HPE", "settings", False), ("Supermicro", "SD", False),
                          ("Lenovo", "Pending", False)])
def test_bios_settings_are_written_where_the_service_says_and_dells_with_the_time_to_apply_them(
    vendor: str, where: str, apply: bool,
) -> None:
    controller, papers = service(bios(vendor, where, SupportedApplyTimes=["OnReset"]))
    # what is repeated there waits for nothing
    assert controller.bios().pending == {"SriovGlobalEnable": "Enabled"}
    controller.set_bios({"SriovGlobalEnable": "Enabled"})
    (method, path, body), = [one for one in papers.asked if one[0] != "GET"]
    assert (method, path) == ("PATCH", f"/redfish/v1/Systems/1/Bios/{where}")
    assert body["Attributes"] == {"SriovGlobalEnable": "Enabled"}
    assert (body.get("@Redfish.SettingsApplyTime") or {}).get("ApplyTime") == ("OnReset" if apply else None)


def test_power_is_asked_for_by_a_word_that_the_machine_takes_and_never_when_it_is_so_already() -> None:
    def machine(power: str, *values: str) -> dict[str, Any]:
        return tree(system={
            "PowerState": power,
            "Actions": {
                "#ComputerSystem.Reset": {
                    "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
                    "ResetType@Redfish.AllowableValues": list(values)}}})

    for power, set_power, values, sent in (
        ("Off", PowerAction.ON, ("On", "ForceOff"), "On"), ("Off", PowerAction.ON, ("ForceOn",), "ForceOn"),
        ("On", PowerAction.OFF, ("On", "ForceOff"), "ForceOff"),
        ("On", PowerAction.SHUTDOWN, ("GracefulShutdown",), "GracefulShutdown"),
        ("On", PowerAction.ON, ("On",), None), ("Off", PowerAction.OFF, ("ForceOff",), None)):
        controller, papers = service(machine(power, *values))
        controller.set_power(set_power)
        assert [body for method, _, body in papers.asked if method == "POST"] == (
            [{"ResetType": sent}] if sent else [])
    with pytest.raises(BmcError, match="cannot be turned off; it takes Nmi"):
        service(machine("On", "Nmi"))[0].set_power(PowerAction.OFF)
    controller, papers = service(machine("Off", "PushPowerButton"))
    controller.set_power(PowerAction.ON)
    assert [
        body for method, _, body in papers.asked if method == "POST"] == [{"ResetType": "PushPowerButton"}]
    # the button of a machine that is on turns it off
    for unsure in ("PoweringOn", "PoweringOff", "It is not known"):
        controller, papers = service(machine(unsure, "PushPowerButton"))
        with pytest.raises(BmcError, match="only a button to push"):
            controller.set_power(PowerAction.ON)
        assert {method for method, _, _ in papers.asked} == {"GET"}


def test_supermicro_boots_a_virtual_cd_as_usb_cd_and_wants_if_match() -> None:
    controller, papers = service(
        tree(root={"Vendor": "Supermicro"},
             system={
                 "Manufacturer": "Supermicro",
                 "Boot": {
                     "BootSourceOverrideTarget": "None", "BootSourceOverrideEnabled": "Disabled",
                     "BootSourceOverrideTarget@Redfish.AllowableValues": [
                         "None", "Pxe", "Cd", "UsbCd", "Hdd"]}}))
    controller.set_boot(BootTarget.CD, True)
    (_, _, body), = [one for one in papers.asked if one[0] == "PATCH"]
    assert body == {"Boot": {"BootSourceOverrideTarget": "UsbCd", "BootSourceOverrideEnabled": "Once"}}
    assert controller.boot().allowed == (BootTarget.NONE, BootTarget.PXE, BootTarget.CD, BootTarget.DISK)


@pytest.mark.parametrize(("vendor", "shows", "wants"), [
    ("Supermicro", '"1"', '"1"'), ("Supermicro", "", "*"), ("Contoso", '"1"', '"1"')])
def test_a_change_names_the_tag_that_its_resource_shows_and_any_where_it_shows_none(
    vendor: str, shows: str, wants: str,
) -> None:
    controller, papers = service(tree(root={"Vendor": vendor}, system={
        "Manufacturer": vendor, "Boot": {"BootSourceOverrideTarget": "None"}}))
    ask, tags = papers.ask, []

    def strict(method: str, path: str, headers: Mapping[str, str], *rest: Any) -> HttpAnswer:
        answer = ask(method, path, headers, *rest)
        if method != "PATCH":
            return replace(answer, headers={"etag": shows} if shows else {})
        tags.append(headers.get("If-Match"))
        return answer if tags[-1] == wants else HttpAnswer(412, {}, b"{}")

    papers.ask = strict  # type: ignore[assignment,method-assign]
    controller.set_boot(BootTarget.PXE, True)
    assert tags[-1] == wants
    assert len(tags) <= 2


def test_a_virtual_drive_that_is_full_is_not_filled_over_and_no_password_goes_along() -> None:
    drive = {
        "@odata.id": "/redfish/v1/V/1", "Id": "1", "MediaTypes": ["CD"], "Image": "http://10.0.0.1/a.iso",
        "Inserted": True}
    controller, papers = service(
        tree(**{"Managers/1": {"VirtualMedia": ref("V")}, "V": of("V/1"), "V/1": drive}))
    controller.insert("1", "http://10.0.0.1/a.iso")     # it is there
    with pytest.raises(BmcError, match="another image in it"):
        controller.insert("1", "http://10.0.0.1/b.iso")
    with pytest.raises(BmcError, match="without one") as caught:
        controller.insert("1", "http://me:hunter2@10.0.0.1/b.iso")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(BmcError, match="no http"):
        controller.insert("1", "http://[10.0.0.1/b.iso")
    with pytest.raises(BmcError, match="has no virtual drive 9, but 1"):
        controller.eject("9")
    assert {method for method, _, _ in papers.asked} == {"GET"}


def test_without_sushy_facts_are_read_and_a_change_names_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "sushy"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "sushy", None)
    controller, papers = service(tree(system={"PowerState": "Off"}))
    assert controller.power() is PowerState.OFF
    with pytest.raises(BmcError, match=r"pip install 'cluster-muster\[redfish\]'"):
        controller.set_power(PowerAction.ON)
    assert {method for method, _, _ in papers.asked} == {"GET"}


# sensors

@pytest.mark.parametrize(
    ("document", "state", "reading"),
    [({
          "Name": "Inlet", "Reading": 47, "ReadingUnits": "Cel",
          "Thresholds": {"UpperCritical": {"Reading": 45}}}, "ucr", "47 degrees C"),
     ({
          "Name": "Inlet", "Reading": 44, "ReadingUnits": "Cel",
          "Thresholds": {"UpperCritical": {"Reading": 45}, "UpperCaution": {"Reading": 40}}}, "unc",
      "44 degrees C"),
     ({"Name": "Fan", "Reading": 0, "ReadingUnits": "RPM", "Thresholds": {"LowerCritical": {"Reading": 600}}},
      "lcr", "0 RPM"), ({"Name": "A", "Reading": 30, "Status": {"Health": "Critical"}}, "cr", "30"),
     ({
          "Name": "A", "Reading": 30, "Status": {"Health": "OK", "State": "Enabled"},
          "Thresholds": {"UpperCritical": {"Reading": 0}}}, "ok", "30"),
     ({
          "Name": "A", "Reading": 30,
          "Thresholds": {"UpperCritical": {"Reading": 10}, "LowerCritical": {"Reading": 20}}}, "ok", "30"),
     ({"Name": "A", "Reading": None, "Status": {"State": "Absent", "Health": "Critical"}}, "ns",
      "No Reading"), ({"Name": "A"}, "ns", "No Reading"),
     ({"Name": "A", "Reading": float("nan")}, "ns", "No Reading"),
     ({"Name": "A", "Reading": 10**400}, "ns", "No Reading"),
     ({"Name": "A", "Reading": -3.5, "ReadingUnits": "Cel"}, "ok", "-3.5 degrees C")])
def test_a_sensors_state_is_the_worse_of_its_health_and_its_thresholds(
    document: dict[str, Any], state: str, reading: str,
) -> None:
    found = sensors.sensor(document)
    assert (found.state, found.reading) == (state, reading)


def test_a_chassis_whose_sensors_cannot_be_read_is_not_left_out_in_silence() -> None:
    whole = tree(Chassis=of("Chassis/1", "Chassis/2"),
                 **{
                     "Chassis/1": {"Thermal": ref("T")}, "Chassis/2": {"Thermal": ref("T2")},
                     "T": {"Temperatures": [{"Name": "a", "ReadingCelsius": 30}]}, "T2": "no object"})
    with pytest.raises(BmcError, match="no JSON object"):
        service(whole)[0].sensors()
    whole["/redfish/v1/T2"] = {"Fans": [{"Name": "a", "Reading": 30, "ReadingUnits": "Percent"}]}
    assert [(one.name, one.reading) for one in service(whole)[0].sensors().sensors] == [
        ("a", "30 degrees C"), ("2 a", "30 percent")]


def test_where_a_service_expands_one_request_reads_a_collection() -> None:
    documents = hgx(root={"ProtocolFeaturesSupported": {"ExpandQuery": {"NoLinks": True, "Levels": True}}})
    slow, one_by_one = service(hgx())
    fast, in_parallel = service(documents, expand=True)
    assert fast.hardware() == slow.hardware()
    assert (len(one_by_one.asked), len(in_parallel.asked)) == (19, 9)
    assert "/redfish/v1/Systems?$expand=.($levels=1)" in [path for _, path, _ in in_parallel.asked]


def test_a_service_that_says_it_expands_and_does_not_is_read_one_by_one() -> None:
    documents = hgx(root={"ProtocolFeaturesSupported": {"ExpandQuery": {"ExpandAll": True}}})
    controller, papers = service(documents)
    find = papers.ask
    papers.ask = lambda method, path, headers, body, deadline: find(    # type: ignore[method-assign]
        method, "/redfish/v1/none" if "?" in path else path, headers, body, deadline)
    assert len(controller.hardware().parts["gpu"]) == 8      # type: ignore[arg-type]
