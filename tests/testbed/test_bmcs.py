"""The rack of emulated controllers does what tests of bring-up believe of it."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from typing import Any

import pytest

from tests.testbed.bmcs import ELSEWHERE, Bed, Machine, Wrong, rack, require_rack
from tests.testbed.sshd import wait_until

_BIOS = {"Attributes": {"ProcTurboMode": "Enabled"}}


class Client:
    """One client of one machine, with a connection for each request."""

    def __init__(self, bed: Bed, name: str, seconds: float = 20.0) -> None:
        self.bed, self.name, self.seconds = bed, name, seconds
        basic = base64.b64encode(f"{bed.user}:{bed.password}".encode()).decode()
        self.headers = {"Authorization": f"Basic {basic}", "Content-Type": "application/json"}
        self.fingerprint = ""
        self.context = ssl.create_default_context(cafile=str(bed.ca))

    @property
    def system(self) -> str:
        return f"/redfish/v1/Systems/{self.bed.machines[self.name].uuid}"

    def ask(self, method: str, path: str, body: Any = None,
            **headers: str) -> tuple[int, Any, http.client.HTTPMessage]:
        with socket.create_connection((self.bed.address(self.name), self.bed.port), self.seconds) as plain, \
                self.context.wrap_socket(plain, server_hostname=self.bed.address(self.name),
                                         do_handshake_on_connect=False) as wrapped:
            wrapped.do_handshake()
            der = wrapped.getpeercert(binary_form=True)
            assert der is not None
            self.fingerprint = ssl.DER_cert_to_PEM_cert(der)
            connection = http.client.HTTPSConnection(self.bed.address(self.name))
            connection.sock = wrapped
            connection.request(method, path, None if body is None else json.dumps(body),
                               headers or self.headers)
            with connection.getresponse() as response:
                text = response.read(1 << 20)
                if len(text) < int(response.headers.get("Content-Length", 0)):
                    raise http.client.IncompleteRead(text)
                return response.status, json.loads(text) if text else None, response.headers

    def get(self, path: str) -> Any:
        status, value, _ = self.ask("GET", path)
        assert status == 200, (path, value)
        return value

    def reset(self, kind: str) -> int:
        return self.ask("POST", f"{self.system}/Actions/ComputerSystem.Reset", {"ResetType": kind})[0]

    def attributes(self, path: str = "/BIOS") -> Any:
        return self.get(self.system + path)["Attributes"]

    @property
    def power(self) -> str:
        return str(self.get(self.system)["PowerState"])


@pytest.fixture(scope="module")
def turned() -> list[tuple[str, bool]]:
    return []


@pytest.fixture(scope="module")
def bed(tmp_path_factory: pytest.TempPathFactory, turned: list[tuple[str, bool]]) -> Iterator[Bed]:
    require_rack()
    machines = [Machine("sound"), Machine("logs", log_entries=120, expands=True), Machine("door"), *(
        Machine(wrong.name.lower(), wrong, seconds=0.3, sick=2) for wrong in Wrong)]
    with rack(tmp_path_factory.mktemp("rack"), machines,
              on_power=lambda name, on: turned.append((name, on))) as running:
        yield running


def test_a_machine_shows_its_own_system_only(bed: Bed) -> None:
    sound, other = Client(bed, "sound"), Client(bed, "logs")
    assert [one["@odata.id"] for one in sound.get("/redfish/v1/Systems")["Members"]] == [sound.system]
    assert sound.ask("GET", other.system)[0] == 404
    assert sound.get(sound.system)["SerialNumber"] != other.get(other.system)["SerialNumber"]


@pytest.mark.slow      # thousands of requests
def test_every_link_of_a_machine_leads_somewhere(bed: Bed) -> None:
    sound, seen, left = Client(bed, "sound"), set(), ["/redfish/v1"]
    unlike = ("/Registries", "/CertificateService", "/Certificates", "/SoftwareInventory", "/Thermal")
    while left:
        path = left.pop()
        seen.add(path)
        links = _links(sound.get(path))
        left += [link for link in links if link not in seen and link not in left
                 and not any(word in link for word in unlike)]
    assert len(seen) > 60


def test_power_comes_and_goes_and_who_listens_is_reported(bed: Bed, turned: list[tuple[str, bool]]) -> None:
    logs = Client(bed, "logs")
    assert logs.power == "Off"
    assert logs.reset("On") == 204
    wait_until(lambda: ("logs", True) in turned, what="the power")
    assert logs.power == "On"
    assert logs.reset("ForceOff") == 204
    wait_until(lambda: logs.power == "Off", what="power off")
    assert turned[-1] == ("logs", False)
    assert logs.reset("Nonsense") == 400
    assert {key: count
            for key, count in bed.counts("logs").items()
            if key in ("on", "off", "restart")} == {"on": 1, "off": 1}


def test_a_bios_setting_waits_for_the_next_power_on(bed: Bed) -> None:
    sound = Client(bed, "sound")
    assert sound.ask("PATCH", f"{sound.system}/BIOS/Settings", {"Attributes": {"Unheard": "of"}})[0] == 400
    assert sound.ask("PATCH", f"{sound.system}/BIOS/Settings", {"Attributes": {"QuietBoot": 1}})[0] == 400
    assert sound.ask("PATCH", f"{sound.system}/BIOS/Settings", _BIOS)[0] == 204
    assert sound.attributes()["ProcTurboMode"] == "Disabled"
    assert sound.attributes("/BIOS/Settings")["ProcTurboMode"] == "Enabled"
    sound.reset("On")
    wait_until(lambda: sound.attributes()["ProcTurboMode"] == "Enabled", what="the setting")
    assert bed.counts("sound")["bios"] == 1
    assert [one.keys for one in bed.log("sound") if one.method == "PATCH"] == [("Unheard",), ("QuietBoot",),
                                                                               ("ProcTurboMode",)]


def test_a_boot_override_for_once_is_spent_by_one_boot(bed: Bed) -> None:
    door = Client(bed, "door")
    assert (door.ask("PATCH", door.system,
                     {"Boot": {"BootSourceOverrideTarget": "Pxe", "BootSourceOverrideEnabled": "Once"}})[0]
            == 204)
    assert door.get(door.system)["Boot"]["BootSourceOverrideTarget"] == "Pxe"
    door.reset("On")
    wait_until(lambda: door.get(door.system)["Boot"]["BootSourceOverrideEnabled"] == "Disabled",
               what="the boot")
    wait_until(lambda: "door" in bed.boots, what="word of the boot")
    assert bed.boots["door"] == "Pxe"


def test_an_event_log_comes_in_pages_and_collections_expanded(bed: Bed) -> None:
    logs = Client(bed, "logs")
    path: str | None = f"{logs.system}/LogServices/SEL/Entries"
    read: list[str] = []
    while path:
        page = logs.get(path)
        read += [one["Id"] for one in page["Members"]]
        path = page.get("Members@odata.nextLink")
    assert read == [str(number) for number in range(1, 121)]
    assert logs.get(f"{logs.system}/Memory?$expand=.")["Members"][0]["CapacityMiB"] == 65536


def test_a_session_opens_the_door_until_it_ends(bed: Bed) -> None:
    door = Client(bed, "door")
    status, _, headers = door.ask("POST", "/redfish/v1/SessionService/Sessions",
                                  {"UserName": bed.user, "Password": bed.password}, Accept="*/*")
    assert status == 201
    token = {"X-Auth-Token": headers["X-Auth-Token"]}
    assert door.ask("GET", door.system, **token)[0] == 200
    assert door.ask("DELETE", headers["Location"], **token)[0] == 204
    assert door.ask("GET", door.system, **token)[0] == 401
    assert door.ask("GET", "/redfish/v1", Accept="*/*")[0] == 200


def test_three_wrong_logins_lock_the_account(bed: Bed) -> None:
    bed.change("door", wrong=None)
    door = Client(bed, "door")
    for _ in range(3):
        assert door.ask("GET", door.system, Authorization="Basic cm9vdDpubw==")[0] == 401
    assert door.ask("GET", door.system)[0] == 401
    bed.change("door", wrong=None)      # somebody unlocks it
    assert door.ask("GET", door.system)[0] == 200


def test_the_log_never_has_the_password(bed: Bed) -> None:
    assert bed.password not in (bed.folder / "requests.jsonl").read_text()


@pytest.mark.parametrize(("name", "raised"), [
    ("no_one", ConnectionRefusedError), ("silent", TimeoutError),
    ("drops", (OSError, http.client.IncompleteRead)),
])
def test_a_connection_fails_as_planted(bed: Bed, name: str, raised: type[Exception]) -> None:
    with pytest.raises(raised):
        Client(bed, name, seconds=0.5).ask("GET", "/redfish/v1")


@pytest.mark.parametrize(("name", "status"),
                         [("password", 401), ("sick", 500), ("redirects", 307), ("slow", 200)])
def test_an_answer_is_as_planted(bed: Bed, name: str, status: int) -> None:
    client = Client(bed, name)
    assert client.ask("GET", client.system)[0] == status


def test_what_is_sick_at_first_is_well_after_some_answers(bed: Bed) -> None:
    client = Client(bed, "sick_at_first")
    assert [client.ask("GET", client.system)[0] for _ in range(3)] == [503, 503, 200]


def test_a_flood_never_ends(bed: Bed) -> None:
    with pytest.raises(ValueError):
        Client(bed, "floods").ask("GET", "/redfish/v1")


def test_a_certificate_changes_and_changes_back(bed: Bed) -> None:
    client = Client(bed, "certificate")
    client.ask("GET", "/redfish/v1")
    other = client.fingerprint
    bed.change("certificate", wrong=None)
    client.ask("GET", "/redfish/v1")
    assert client.fingerprint != other


def test_what_loses_answers_does_what_it_is_reported(bed: Bed) -> None:
    client = Client(bed, "loses_answers")
    with pytest.raises((OSError, http.client.HTTPException)):
        client.reset("On")
    wait_until(lambda: client.power == "On", what="the power")
    assert bed.counts("loses_answers")["on"] == 1


def test_power_does_not_come_and_bios_is_not_taken_as_planted(bed: Bed,
                                                              turned: list[tuple[str, bool]]) -> None:
    dark, refused, ignored, none = (Client(bed, name)
                                    for name in ("no_power", "bios_refused", "bios_ignored", "no_os"))
    assert dark.reset("On") == 204
    assert refused.ask("PATCH", f"{refused.system}/BIOS/Settings", _BIOS)[0] == 400
    assert ignored.ask("PATCH", f"{ignored.system}/BIOS/Settings", _BIOS)[0] == 204
    ignored.reset("On")
    none.reset("On")
    wait_until(lambda: ("bios_ignored", True) in turned, what="its POST")
    assert ignored.attributes() == ignored.attributes("/BIOS/Settings") == {**ignored.attributes(),
                                                                            "ProcTurboMode": "Disabled"}
    wait_until(lambda: none.get(none.system)["BootProgress"]["LastState"] == "OSRunning",
               what="the other's POST")
    assert dark.power == "Off"
    assert not {"no_power", "no_os"} & {name for name, _ in turned}


def test_parts_are_missing_or_ill_as_planted(bed: Bed) -> None:
    gpu, psu, drive, twin, sound = (Client(bed, name) for name in ("gpu_missing", "psu_failed",
                                                                   "drive_critical", "twin", "sound"))
    assert (len(gpu.get(f"{gpu.system}/Processors")["Members"])
            == len(sound.get(f"{sound.system}/Processors")["Members"]) - 1)
    chassis = psu.get("/redfish/v1/Chassis")["Members"][0]["@odata.id"]
    assert [one["Status"]["Health"]
            for one in psu.get(f"{chassis}/Power")["PowerSupplies"]] == ["OK", "Critical"]
    assert drive.get(f"{drive.system}/Storage/1/Drives/1")["Status"]["Health"] == "Critical"
    assert twin.get(twin.system)["SerialNumber"] == sound.get(sound.system)["SerialNumber"]


def test_who_follows_a_redirect_is_seen_elsewhere(bed: Bed) -> None:
    assert bed.log(ELSEWHERE) == []
    location = Client(bed, "redirects").ask("GET", "/redfish/v1")[2]["Location"]
    assert location == f"https://{bed.address(ELSEWHERE)}:{bed.port}/redfish/v1"


def _links(value: Any) -> list[str]:
    if isinstance(value, dict):
        own = [value["@odata.id"]] if list(value) == ["@odata.id"] and "#" not in value["@odata.id"] else []
        return own + [link for one in value.values() for link in _links(one)]
    return [link for one in value for link in _links(one)] if isinstance(value, list) else []
