"""Which firmware a snapshot tells of: every component in its place, and what could not be read says why."""

from __future__ import annotations

from healthcheck.facts.base import Captures
from healthcheck.facts.firmware import MACHINE_ID, installation
from healthcheck.facts.firmwareversions import firmware_reading
from healthcheck.model.firmware import ComponentVersion, FirmwareReading
from healthcheck.model.recording import Capture, Outcome
from tests.healthcheck import machine


def of(**changes: Capture) -> FirmwareReading:
    return firmware_reading(Captures(machine.recording(**changes)))


def named(look: FirmwareReading, kind: str) -> list[ComponentVersion]:
    return [one for one in look.versions if one.kind == kind]


def test_a_healthy_node_tells_of_its_bios_gpus_adapters_and_drives_wholly() -> None:
    look = of()
    assert look.maker and look.whole == {"bios", "vbios", "hca", "nvme"}
    assert [len(named(look, kind)) for kind in ("bios", "vbios", "hca", "nvme")] == [1, 8, 8, 8]
    assert named(look, "vbios")[0].name == "gpu 0000:18:00.0" and named(look,
                                                                        "hca")[0].name == "hca 0000:40:00.0"
    assert all(one.version for one in look.versions)


def test_what_cannot_be_read_is_no_version_and_its_kind_is_not_whole_where_the_parts_are_not_known() -> None:
    look = of(gpu_nvml=Capture(Outcome.TIMEOUT), host_firmware=Capture(Outcome.DENIED))
    assert (not named(look, "vbios") and "vbios" not in look.whole and "bios" not in look.whole
            and "hca" in look.whole)
    assert all(one.version is None and one.why for one in named(look, "bios"))


def test_a_gpu_that_refuses_its_version_is_named_with_the_reason() -> None:
    look = of(gpu_nvml=machine.nvml(8, gpu3={"vbios": {"error": "GPU is lost"}}))
    lost = [one for one in named(look, "vbios") if one.version is None]
    assert len(named(look, "vbios")) == 8 and "vbios" in look.whole and len(lost) == 1 and lost[0].why


def test_a_gpu_without_a_version_has_none_to_tell_and_one_whose_place_is_unknown_leaves_its_kind_in_part(
) -> None:
    look = of(gpu_nvml=machine.nvml(8, gpu3={"vbios": {"na": True}}))
    assert len(named(look, "vbios")) == 7 and "vbios" in look.whole
    look = of(gpu_nvml=machine.nvml(8, gpu3={"pci": {"error": [999, "Unknown Error"]}}))
    assert len(named(look, "vbios")) == 7 and None not in look.versions and "vbios" not in look.whole


def test_a_version_is_reported_with_its_time_and_what_is_none_with_its_reason() -> None:
    first, second, third = named(of(gpu_nvml=machine.nvml(3, gpu1={"vbios": {"ok": " "}},
                                                          gpu2={"vbios": {"error": [999, "x"]}})), "vbios")
    assert first == ComponentVersion("gpu 0000:18:00.0", "vbios", "96.00.74.00.01", 0.0, "sweep")
    assert second == ComponentVersion("gpu 0000:19:00.0", "vbios", None, 0.0, "sweep",
                                      "the machine does not say it")
    assert third == ComponentVersion("gpu 0000:1a:00.0", "vbios", None, 0.0, "sweep",
                                     "NVML: vbios: x (error 999)")


def test_an_installation_is_told_by_a_hash_of_its_number_and_one_without_has_none() -> None:
    of_this = Captures(
        machine.recording(host_firmware=machine.done(**{MACHINE_ID: "0123456789abcdef" * 2 + "\n"})))
    assert installation(of_this) == "b5de8925ea26df56"
    for text in ("", "0123456789ABCDEF" * 2, "0123456789abcdef" * 2 + "0", "uninitialized"):
        assert (installation(Captures(machine.recording(host_firmware=machine.done(**{MACHINE_ID: text}))))
                == "")
