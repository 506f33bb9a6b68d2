"""What fwupdmgr and mlxfwmanager print: as recorded, and whatever else they may print."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.text import clean
from provisioning.firmware.inband import fwupd, mlxfwmanager
from provisioning.firmware.inband.device import BandDevice, ToolOutputError, look_of
from tests.testbed.fwupd import WEBCAM

RECORDED = Path(__file__).parents[3] / "recordings" / "firmware"


def recorded(name: str) -> str:
    return (RECORDED / name).read_text()


def of_tool(device: str, text: str) -> str:
    """One device of recorded XML, as the tool tells of it when it is asked about it alone."""
    start = text.index(f'<Device pciName="{device}"')
    return f"<Devices>\n{text[start:text.index('</Device>', start)]}</Device>\n</Devices>"


def test_devices_of_fwupd_are_those_that_have_firmware() -> None:
    assert (fwupd.devices(recorded("fwupd-2.0.20-devices.json"))
            == (BandDevice(WEBCAM, "Integrated Webcam™", "", "1.2.2"),))


def test_a_version_that_fwupd_has_written_and_that_runs_after_a_restart_waits() -> None:
    (one,) = fwupd.devices(recorded("fwupd-2.0.20-needs-reboot.json"))
    assert one.version == "1.2.2" and one.waits and one.written == ""
    look, _ = look_of("fwupd", [one])
    assert (look.versions[0].version == "1.2.2"
            and look.versions[0].why == "what was written waits for a restart")


def test_drives_that_would_need_a_restart_wait_for_none_and_are_drives() -> None:
    found = fwupd.devices(recorded("fwupd-1.x-nvme.json"))
    assert [(one.name, one.kind, one.version, one.waits) for one in found] == [
        ("MZVLB256HBHQ-000H1", "nvme", "HPS0NEXH", False), ("WD BLACK SN770 1TB", "nvme", "731120WD", False),
        ("SanDisk 3.2Gen1", "", "1.00", False)]


def test_devices_of_one_name_are_told_apart() -> None:
    drives = [BandDevice(letter * 40, "SSD", "nvme", "1") for letter in "ab"]
    look, named = look_of("fwupd", drives)
    assert [one.name for one in look.versions] == ["SSD", "SSD #2"] and named["SSD #2"].address == "b" * 40


def test_what_fwupd_could_not_do_is_said_in_its_own_words() -> None:
    text = '{"Error": {"Domain": "g-io-error-quark", "Code": 1, "Message": "Failed to connect to daemon"}}'
    with pytest.raises(ToolOutputError, match="Failed to connect to daemon"):
        fwupd.devices(text)


@pytest.mark.parametrize("text", ["", "[]", "{}", "Idle…", '{"Devices": 1}', "[" * 100_000])
def test_what_is_no_list_of_devices_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        fwupd.devices(text)


def test_an_adapter_tells_what_runs_and_what_is_on_its_flash() -> None:
    text = recorded("mlxfwmanager-running.xml")
    staged = mlxfwmanager.device("0000:18:00.0", of_tool("0000:18:00.0", text))
    assert staged == BandDevice("0000:18:00.0", "hca 0000:18:00.0", "hca", "28.39.1002", waits=True,
                                written="28.43.1014")
    assert mlxfwmanager.device("0000:29:00.0", of_tool("0000:29:00.0", text)).version == "28.39.1002"


@pytest.mark.parametrize(("name", "version", "written"), [
    ("mlxup-4.30-cx6lx.xml", "26.33.1048", ""), ("mlxup-4.30-cx6lx.txt", "26.33.1048", ""),
    ("mlxfwmanager-running.txt", "22.43.1020", "22.45.3608"),
    ("mlxfwmanager-up-to-date.txt", "2.42.5016", "2.42.5700")])
def test_text_of_older_ones_says_the_same_as_xml(name: str, version: str, written: str) -> None:
    one = mlxfwmanager.device("0000:01:00.0", recorded(name))
    assert (one.version, one.written, one.waits) == (version, written, bool(written))


@pytest.mark.parametrize("device", ["0000:9d:00.0", "0000:b4:00.0"])
def test_an_adapter_that_cannot_be_opened_has_no_version_and_says_why(device: str) -> None:
    one = mlxfwmanager.device(device, of_tool(device, recorded("mlxfwmanager-failed.xml")))
    assert one.version is None and one.why == "Failed to open device"


@pytest.mark.parametrize("text", ["", "<Devices></Devices>", "<Devices><Device",
                                  "-E- No devices found or specified", recorded("mlxfwmanager-failed.xml"),
                                  '<Devices><!DOCTYPE a [<!ENTITY b "c">]><Device pciName="&b;"/></Devices>'])
def test_what_is_not_about_one_adapter_is_refused(text: str) -> None:
    with pytest.raises(ToolOutputError):
        mlxfwmanager.device("0000:18:00.0", text)


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                     lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                         st.sampled_from(["Devices", "DeviceId", "Name", "Version", "Flags", "UpdateState",
                                          "Plugin", "Error", "Message"]), inner, max_size=5), max_leaves=20)
_FOREIGN = st.text(st.characters(), max_size=60) | st.sampled_from(["1.2\x1b[31m", "a" * 5000, "\u202e1.0"])


def plain(one: BandDevice) -> bool:
    said = [one.name, one.why, one.written, one.version or ""]
    return all(clean(text, 200) == text for text in said) and one.version != ""


@given(_JSON | st.text(max_size=40).map(str))
def test_whatever_fwupd_prints_is_devices_or_refused(found: object) -> None:
    with suppress(ToolOutputError):
        assert all(map(plain, fwupd.devices(json.dumps(found))))


@given(st.fixed_dictionaries({"DeviceId": st.just(WEBCAM) | _FOREIGN, "Name": _FOREIGN | st.integers(),
                              "Version": _FOREIGN | st.none(),
                              "Flags": st.lists(st.sampled_from(["updatable", "needs-reboot"])
                                                | st.integers(), max_size=3) | st.none(),
                              "UpdateState": st.integers(-1, 6) | st.booleans() | st.none()}))
def test_a_device_of_fwupd_is_plain_text_and_waits_only_where_something_was_written(
        found: dict[str, object]) -> None:
    for one in fwupd.devices(json.dumps({"Devices": [found]})):
        assert plain(one) and one.address == WEBCAM
        assert not one.waits or found["UpdateState"] in (2, 4)


@given(_FOREIGN, _FOREIGN, _FOREIGN, st.booleans())
def test_whatever_an_adapters_tool_prints_is_one_device_or_refused(flash: str, running: str, status: str,
                                                                   as_text: bool) -> None:
    text = (
        f"Device #1:\n     FW             {flash}     N/A\n     FW (Running)   {running}  N/A\n  Status:     "
        f"      {status}\n" if as_text else
        f'<Devices><Device pciName="x"><Versions><FW current="{flash}"/><FW_Running '
        f'current="{running}"/></Versions><Status>{status}</Status></Device></Devices>')
    try:
        one = mlxfwmanager.device("0000:18:00.0", text)
    except ToolOutputError:
        return
    assert plain(one) and (one.version is None) == (one.why != "") and one.waits == (one.written != "")
