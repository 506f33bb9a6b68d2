"""Which firmware a snapshot tells of: every component in its place, and what could not be read says why."""

from __future__ import annotations

from healthcheck.facts.base import Captures
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
    assert named(look, "vbios")[0].name == "gpu 0000:18:00.0" and named(look, "hca")[0].name == "hca 0000:40:00.0"
    assert all(one.version for one in look.versions)


def test_what_cannot_be_read_is_no_version_and_its_kind_is_not_whole_where_the_parts_are_not_known() -> None:
    look = of(gpu_nvml=Capture(Outcome.TIMEOUT), host_firmware=Capture(Outcome.DENIED))
    assert not named(look, "vbios") and "vbios" not in look.whole and "bios" not in look.whole and "hca" in look.whole
    assert all(one.version is None and one.why for one in named(look, "bios"))


def test_a_gpu_that_refuses_its_version_is_named_with_the_reason() -> None:
    look = of(gpu_nvml=machine.nvml(8, gpu3={"vbios": {"error": "GPU is lost"}}))
    lost = [one for one in named(look, "vbios") if one.version is None]
    assert len(named(look, "vbios")) == 8 and "vbios" in look.whole and len(lost) == 1 and lost[0].why
