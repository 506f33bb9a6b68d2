"""Whatever a service says, a reader gives a value or says why not; it raises BmcError alone."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from healthcheck.facts.bmc import BmcLogUse, BmcSensors
from provisioning.bmc import page
from provisioning.bmc.base import (
    Bios,
    BmcError,
    BootOverride,
    BootTarget,
    HardwareInventory,
    LogReading,
    MachineIdentity,
    PowerAction,
    PowerState,
)
from provisioning.bmc.redfish import log, sensors
from tests.provisioning.bmc.redfishdocs import of, ref, service, tree
from tests.tries import tries

KEYS = st.sampled_from(
    ["@odata.id", "Members", "Members@odata.nextLink", "Members@odata.count", "Links", "Id", "Name", "Status",
     "Health", "State", "Model", "Oem", "Hpe", "SerialNumber", "PowerState", "Boot",
     "BootSourceOverrideTarget", "BootSourceOverrideTarget@Redfish.AllowableValues", "Attributes",
     "@Redfish.Settings", "SettingsObject", "Processors", "ProcessorType", "Memory", "CapacityMiB", "Storage",
     "Drives", "NetworkAdapters", "Controllers", "LogServices", "Entries", "Created", "Message", "Severity",
     "SensorType", "SensorNumber", "EntryCode", "Sensors", "Reading", "Thresholds", "UpperCritical",
     "Thermal", "Temperatures", "Fans", "ReadingCelsius", "PowerSubsystem", "PowerSupplies", "VirtualMedia",
     "MediaTypes", "FirmwareInventory", "Version", "Location", "PartLocation", "ServiceLabel", "ManagedBy",
     "Chassis", "Fabrics", "Switches", "MaxNumberOfRecords", "ProtocolFeaturesSupported", "ExpandQuery",
     "NoLinks", "DateTime", "EthernetInterfaces", "MACAddress", "Bios", "Systems", "Managers",
     "UpdateService", "BootProgress", "LastState", "Actions", "#ComputerSystem.Reset", "target",
     "ResetType@Redfish.AllowableValues"])
TEXTS = st.sampled_from(
    ["/redfish/v1/Systems/1", "/redfish/v1/X", "http://evil/redfish/v1", "//evil", "/etc/passwd",
     "/redfish/../x", "None", "Once", "GPU", "On", "Critical", "2026-11-20T03:10:11Z", "0000-00-00T00:00:00Z",
     "9999-12-31T23:59:59-14:00", "\x1b[2J", "\ud800", "N/A", "/redfish/v1/Chassis#/0",
     "a" * 500]) | st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2**70, 2**70) | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=6), max_leaves=30)
LINKED = ("Processors", "Memory", "Storage", "LogServices", "Sensors", "Thermal", "Power", "PowerSubsystem",
          "VirtualMedia", "NetworkAdapters", "Bios", "EthernetInterfaces", "PCIeDevices")
ASKED: tuple[tuple[str, type], ...] = (
    ("identity", MachineIdentity), ("power", PowerState), ("boot", BootOverride), ("bios", Bios),
    ("media", tuple), ("hardware", HardwareInventory), ("firmware", tuple), ("log", LogReading),
    ("log_use", BmcLogUse), ("sensors", BmcSensors))


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=tries(150))
@given(st.lists(JSON, min_size=1, max_size=6), JSON, st.integers(0, 3))
def test_any_json_at_any_path_gives_values_or_a_bmc_error(answers: list[Any], odd: Any, real: int) -> None:
    """The first documents are sound, so that readers get far; what they lead to is anything."""
    sound = tree(
        system={key: ref(f"Systems/1/{key}") for key in LINKED},
        **{"Chassis/1": {key: ref(f"Chassis/1/{key}") for key in LINKED}}, root={"Fabrics": ref("Fabrics")},
        Fabrics=of("Fabrics/1"), UpdateService={"FirmwareInventory": ref("F")}, F=of("F/1", "F/2"),
        **{f"Systems/1/{key}": of(f"Systems/1/{key}/1", f"Systems/1/{key}/Sel") for key in LINKED[real:]})

    def find(path: str) -> Any:
        if path in sound:
            return sound[path]
        return odd if path.endswith("9") else answers[sum(map(ord, path)) % len(answers)]

    for name, kind in ASKED:
        try:
            found = getattr(service(find)[0], name)()
        except BmcError as problem:
            assert str(problem).isprintable()
            assert len(str(problem)) < 600
        else:
            assert isinstance(found, kind)
            shown = str(page.value(found))
            assert "\x1b" not in shown
            assert "\u202e" not in shown


@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=tries(40))
@given(JSON, st.sampled_from(["turn", "set_boot", "set_bios", "insert", "eject"]))
def test_a_change_of_a_service_that_says_anything_raises_nothing_but_bmc_error(odd: Any, name: str) -> None:
    sound = tree(
        system={"Bios": ref("B"), "VirtualMedia": ref("V")}, V=of("V/1"),
        **{"V/1": {"Id": "1", "Inserted": name == "eject", **(odd if isinstance(odd, dict) else {})}})
    controller, _ = service(lambda path: sound.get(path, odd))
    try:
        {
            "turn": lambda: controller.set_power(PowerAction.OFF),
            "set_boot": lambda: controller.set_boot(BootTarget.PXE, True),
            "set_bios": lambda: controller.set_bios({"A": 1}),
            "insert": lambda: controller.insert("1", "http://10.0.0.1/a.iso"),
            "eject": lambda: controller.eject("1")}[name]()
    except BmcError as problem:
        assert str(problem).isprintable()


@given(JSON)
def test_any_entry_of_a_log_is_an_event_or_nothing(odd: Any) -> None:
    entry = log.read(odd if isinstance(odd, dict) else {"Message": odd})
    if entry is not None:
        assert entry.event.text.isprintable()
        assert len(entry.event.text) <= 170
        log.held([entry, entry])


@given(JSON)
def test_any_sensor_has_a_state_and_a_reading(odd: Any) -> None:
    document = odd if isinstance(
        odd, dict) else {"Reading": odd, "Thresholds": {"UpperCritical": {"Reading": odd}}}
    for found in (sensors.sensor(document), sensors.older(document, "Reading", "RPM")):
        assert found.state in sensors._RANK
        assert found.reading.isprintable()


@given(st.datetimes(
    dt.datetime(2001, 1, 1), dt.datetime(2100, 1, 1)).map(lambda time: time.replace(microsecond=0)),
       st.integers(-14 * 60, 14 * 60))
def test_times_of_any_zone_are_read(time: dt.datetime, offset: int) -> None:
    aware = time.replace(tzinfo=dt.timezone(dt.timedelta(minutes=offset)))
    assert log.epoch(aware.isoformat()) == aware.timestamp()
    assert log.epoch(time.isoformat() + "Z") == time.replace(tzinfo=dt.timezone.utc).timestamp()


@pytest.mark.parametrize(
    "odd",
    ["2026-13-01T00:00:00Z", "2026-11-20", "yesterday", 7, None, "٢٠٢٦-11-20T00:00:00Z", "x" * 100_000])
def test_what_is_no_time_is_none(odd: Any) -> None:
    assert log.epoch(odd) is None


class Endless(dict[str, Any]):
    """A service whose collections have no end: each page leads to another."""

    def find(self, path: str) -> Any:
        if path in self:
            return self[path]
        return {"Members": [ref(f"More/{len(path)}")], "Members@odata.nextLink": path + "x", "Id": "1"}


def test_a_collection_without_an_end_is_ended() -> None:
    endless = Endless(tree(UpdateService={"FirmwareInventory": ref("Endless")}))
    controller, papers = service(endless.find)
    with pytest.raises(BmcError, match="over 64 pages"):
        controller.firmware()
    assert len(papers.asked) < 200


def test_a_page_that_leads_to_itself_is_read_once() -> None:
    page_ = {
        "Members": [{"@odata.id": "/redfish/v1/F/1", "Name": "BIOS", "Version": "1"}],
        "Members@odata.nextLink": "/redfish/v1/F"}
    controller, papers = service(tree(UpdateService={"FirmwareInventory": ref("F")}, F=page_))
    assert {one.name for one in controller.firmware()} == {"BIOS"}
    assert len(papers.asked) < 8


@pytest.mark.parametrize(
    "path",
    ["http://evil.example/redfish/v1/Systems", "//evil.example/redfish", "/etc/passwd", "/redfish/v1/../../x",
     "/redfish/v1/a b", "/redfish/v1/a\r\nX-Evil: 1", "/redfish/v1/" + "a" * 3000])
def test_a_link_that_leads_out_of_the_service_is_not_followed(path: str) -> None:
    controller, papers = service(tree(root={"Systems": {"@odata.id": path}}))
    with pytest.raises(BmcError, match="which is no path of its own"):
        controller.power()
    assert [path for _, path, _ in papers.asked] == ["/redfish/v1/"]
