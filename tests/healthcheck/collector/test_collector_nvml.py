"""The NVML reader: on bindings that answer in every way, and on the real pynvml with a stand-in for NVIDIA's
library."""

from __future__ import annotations

import dataclasses
import json
import os
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pynvml
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.collector import program
from healthcheck.collector.onnode import nvml as collector_nvml
from healthcheck.facts.gpu import NVML
from healthcheck.facts.gpureadings import READINGS
from healthcheck.model.probes import Probe, ProbeKind
from healthcheck.model.recording import Capture, Outcome
from inventory.errors import MusterError
from provisioning.demo.build import Libraries, build
from tests.healthcheck import machine
from tests.testbed.collector import await_none_with, running
from tests.testbed.require import require
from tests.tries import tries


class NVMLError(Exception):
    """As pynvml's: the number is in `value`."""

    def __init__(self, value: int, words: str) -> None:
        super().__init__(words)
        self.value = value


def fail(code: int, words: str) -> Any:
    def call(*_: Any) -> Any:
        raise NVMLError(code, words)

    return call


class Field(SimpleNamespace):
    """A value of nvmlDeviceGetFieldValues: of type unsigned long long, unless told otherwise."""

    def __init__(self, number: int = 0, code: int = 0, kind: int = 3) -> None:
        super().__init__(nvmlReturn=code, valueType=kind,
                         value=SimpleNamespace(ullVal=number, uiVal=number & 0xFFFFFFFF,
                                               siVal=(number + 2**31) % 2**32 - 2**31))


def fields(**changed: Field) -> Any:
    """nvmlDeviceGetFieldValues of a GPU that has none but those given, by "fN", or "fN_L" for those of link
    L."""
    def call(gpu: Any, asked: list[Any]) -> list[Field]:
        names = [f"f{each[0]}_{each[1]}" if isinstance(each, tuple) else f"f{each}" for each in asked]
        return [changed.get(name, Field(code=3)) for name in names]

    return call


def binding(**changed: Any) -> Any:
    """Something that answers like pynvml with one GPU; what it is not told, it refuses as NOT_SUPPORTED; None
    is not there at all."""
    answers: dict[str, Any] = {
        "NVMLError": NVMLError, "NVML_VOLATILE_ECC": 0, "NVML_AGGREGATE_ECC": 1,
        "NVML_MEMORY_ERROR_TYPE_CORRECTED": 0, "NVML_MEMORY_ERROR_TYPE_UNCORRECTED": 1,
        "NVML_MEMORY_LOCATION_SRAM": 7, "NVML_MEMORY_LOCATION_DRAM": 2, "nvmlInit": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: b"535.1", "nvmlSystemGetNVMLVersion": lambda: "12",
        "nvmlDeviceGetCount": lambda: 1, "nvmlDeviceGetHandleByIndex": lambda index: index,
        "nvmlMemory_v2": 2, "byref": lambda found: found, "c_nvmlEccSramErrorStatus_v1_t": SimpleNamespace,
        "c_nvmlGpuFabricInfo_v3_t": SimpleNamespace, "c_nvmlGpuFabricInfo_v2_t": SimpleNamespace,
        "c_nvmlGpuFabricInfo_t": SimpleNamespace, "c_nvmlPlatformInfo_v2_t": SimpleNamespace,
        "nvmlDeviceGetName": lambda gpu: "H100", "nvmlDeviceGetUUID": lambda gpu: f"GPU-{gpu}",
        "nvmlDeviceGetSerial": lambda gpu: "1",
        "nvmlDeviceGetPciInfo": lambda gpu: SimpleNamespace(busId=b"00000001:9D:00.0"),
        "nvmlDeviceGetMemoryInfo": lambda gpu, version=1: SimpleNamespace(total=80, used=version),
        "nvmlDeviceGetEccMode": lambda gpu: [1, 0],
        "nvmlDeviceGetTotalEccErrors": lambda gpu, kind, counter: (kind + 1) * 10 + counter,
        "nvmlDeviceGetFieldValues": fields(), "nvmlDeviceGetComputeRunningProcesses_v3": lambda gpu: [],
    }
    answers.update(changed)
    return Binding({name: answer for name, answer in answers.items() if answer is not None},
                   {name for name in changed if changed[name] is None})


class Binding:
    def __init__(self, answers: dict[str, Any], missing: set[str]) -> None:
        self.__dict__.update(answers)
        self.missing = missing

    def __getattr__(self, name: str) -> Any:
        if name in self.missing or not name.startswith("nvmlDevice"):
            raise AttributeError(f"module 'pynvml' has no attribute {name!r}")
        return fail(3, "Not Supported")


def gpu_of(**changed: Any) -> dict[str, Any]:
    """The line of the one GPU of such a binding."""
    _, gpu = collector_nvml.lines(binding(**changed))
    return gpu


def test_a_gpu_is_a_line_of_readings(host: None) -> None:
    head, gpu = collector_nvml.lines(binding())
    assert head == {"driver": {"ok": "535.1"}, "nvml": {"ok": "12"}, "count": {"ok": 1}}
    assert {key: value for key, value in gpu.items() if value != {"na": True}} == {
        "index": 0, "name": {"ok": "H100"}, "uuid": {"ok": "GPU-0"}, "serial": {"ok": "1"},
        "pci": {"ok": "0001:9d:00.0"}, "memory_bytes": {"ok": 80}, "memory_used_bytes": {"ok": 2},
        "ecc_mode": {"ok": 1}, "ecc_pending": {"ok": 0}, "ecc_uncorrected": {"ok": 20},
        "ecc_corrected": {"ok": 10}, "ecc_uncorrected_lifetime": {"ok": 21},
        "ecc_corrected_lifetime": {"ok": 11}, "processes": {"ok": []}, "p2p": {"ok": []},
    }


def test_every_reading_that_facts_are_made_of_is_read_and_no_other() -> None:
    assert set(gpu_of()) - {"index", "nvlinks", "processes", "p2p"} == {key
                                                                        for key, _, _ in READINGS.values()}


GONE = fail(13, "Function Not Found")


def test_a_function_of_a_newer_driver_is_not_supported_and_any_other_that_is_missing_is_an_error() -> None:
    gpu = gpu_of(
        nvmlDeviceGetMarginTemperature=GONE, nvmlDeviceGetGpuFabricInfoV=GONE,
        nvmlDeviceGetGpuFabricInfo=GONE, nvmlDeviceGetGspFirmwareVersion=GONE,
        nvmlDeviceGetSramEccErrorStatus=GONE, nvmlDeviceGetMemoryErrorCounter=lambda *_: 4,
        nvmlDeviceGetRowRemapperHistogram=GONE, nvmlDeviceGetPowerUsage=GONE, nvmlDeviceGetRepairStatus=GONE,
        nvmlDeviceGetPlatformInfo=GONE, nvmlDeviceGetC2cModeInfoV=GONE, nvmlDeviceGetTotalEccErrors=GONE)
    for key in ("temperature_margin_c", "fabric_state", "fabric_health", "fabric_summary", "gsp_firmware",
                "sram_threshold_exceeded", "banks_none", "channel_repair_pending", "tpc_repair_pending",
                "chassis_serial", "module_id", "c2c_enabled"):
        assert gpu[key] == {"na": True}, key
    for key in ("sram_uncorrected_lifetime", "sram_corrected", "dram_uncorrected", "dram_corrected_lifetime"):
        assert gpu[key] == {"ok": 4}
    assert gpu["power_mw"] == gpu["ecc_uncorrected"] == {"error": [13, "Function Not Found"]}


def test_used_memory_is_not_known_from_a_driver_that_counts_what_it_reserves_as_used() -> None:
    def memory(gpu: Any, version: int = 1) -> Any:
        if version == 2:
            raise NVMLError(13, "Function Not Found")
        return SimpleNamespace(total=80, used=3)

    gpu = gpu_of(nvmlDeviceGetMemoryInfo=memory)
    assert (gpu["memory_bytes"], gpu["memory_used_bytes"]) == ({"ok": 80}, {"na": True})


def test_an_older_driver_tells_the_fabric_without_its_health_and_the_clocks_by_their_old_name() -> None:
    def first(gpu: Any, out: Any) -> None:
        out.__dict__.update(state=2, status=0, cliqueId=7, clusterUuid=bytes(range(16)))

    gpu = gpu_of(
        nvmlDeviceGetGpuFabricInfoV=GONE, nvmlDeviceGetGpuFabricInfo=first,
        nvmlDeviceGetCurrentClocksEventReasons=GONE, nvmlDeviceGetCurrentClocksThrottleReasons=lambda gpu: 8)
    assert (gpu["fabric_state"], gpu["fabric_status"], gpu["fabric_clique"]) == (
        {"ok": "in_progress"}, {"ok": 0}, {"ok": 7})
    assert (gpu["fabric_cluster"], gpu["fabric_health"]) == ({"ok": "00010203-0405-0607-0809-0a0b0c0d0e0f"},
                                                             {"na": True})
    assert gpu["clock_reasons"] == {"ok": 8}


@pytest.mark.parametrize(("field", "told"), [
    (Field(code=3), {"na": True}),                                      # NVML says so
    (Field(code=2), {"na": True}),                                      # an id that is newer than the driver
    (Field(code=15), {"error": [15, "NVML's words"]}),
    (Field(4, kind=1), {"ok": "drain_and_reset"}),
    (Field(4 + (9 << 32), kind=1), {"ok": "drain_and_reset"}),          # the rest of the union is anything
    (Field(99), {"ok": "unknown (99)"}),
])
def test_a_field_is_reported_by_its_own_return_code_and_type(field: Field, told: dict[str, Any]) -> None:
    assert gpu_of(NVMLError=Named, nvmlDeviceGetFieldValues=fields(f230=field))["recovery_action"] == told


@pytest.mark.parametrize("number", sorted(collector_nvml.FIELDS.values()))
@pytest.mark.parametrize("code", [2, 3])
def test_a_field_that_an_older_driver_lacks_is_not_supported(number: int, code: int) -> None:
    gpu = gpu_of(NVMLError=Named, nvmlDeviceGetFieldValues=fields(**{f"f{number}": Field(code=code)}))
    (key,) = [key for key, field in collector_nvml.FIELDS.items() if field == number]
    assert gpu[key] == ({"error": [2, "NVML's words"]} if code == 2 and number < 161 else {"na": True})


class Named(NVMLError):
    """As pynvml makes them: of a code alone."""

    def __init__(self, value: int, words: str = "NVML's words") -> None:
        super().__init__(value, words)


@pytest.mark.parametrize(("field", "told"), [
    (Field(2**64 - 3, kind=5), -3), (Field(2**32 - 8, kind=1), -8), (Field(0, kind=5), 0),
    (Field(7, kind=3), 7)])
def test_a_limit_below_zero_is_a_number_and_no_error(field: Field, told: int) -> None:
    assert gpu_of(nvmlDeviceGetFieldValues=fields(f194=field))["tlimit_slowdown_c"] == {"ok": told}


# The times of slowdowns, which two numberings have at different places: NVIDIA's own bindings, by release.

BINDINGS = json.loads((Path(__file__).parents[2] / "recordings/nvml/bindings.json").read_text())
TIMES = {f"slowdown_{key}_ns": f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{name}_SLOWDOWN" for key, name in (
    ("sw_thermal", "SW_THERM"), ("hw_thermal", "HW_THERM"), ("hw_power_brake", "HW_POWER_BRAKE"))}
UNDECIDED = "do not show which of them is this time"
NUMBERINGS = ("12.560.30", "12.570.172", "13.580.65", "13.580.82")
# Within what a setting can be, by a part of its name; else any rate or temperature.
RANGES = {"ENABLED": 1, "PRIV_LVL": 3, "PERCENT": 100, "PRESET_PROFILE": 5}


def answers(release: str, bits: int, times: tuple[int, ...],
            setting: Callable[[str], int]) -> dict[str, Field]:
    """What a GPU of a driver of this release answers; it has power smoothing, of so many bits, or 0."""
    said = BINDINGS[release]["fields"]
    found = {f"f{said[name]}": Field(time) for name, time in zip(TIMES.values(), times, strict=True)
             if name in said}
    smooth = {name: number for name, number in said.items() if "PWR_SMOOTHING" in name and bits}
    return found | {f"f{number}": Field(setting(name), kind=3 if bits == 64 else 1)
                    for name, number in smooth.items()}


def slowdowns(found: dict[str, Field]) -> list[dict[str, Any]]:
    read = collector_nvml.field_readings(
        binding(NVMLError=Named, nvmlDeviceGetFieldValues=fields(**found)), 0)
    return [read[key] for key in TIMES]


def usual(name: str) -> int:
    """A setting of a healthy GPU: off, all of its life left."""
    return 100 if "LIFETIME" in name else 90 if "MAX_PERCENT" in name else 0 if "ACTIVE" in name else (
        5 if "PROFILES" in name else 50 if "PERCENT" in name else 5_000_000 if "RATE" in name else 0)


@pytest.mark.parametrize("times", [(0, 0, 0), (41_300_000_000, 0, 12_000)])
@pytest.mark.parametrize("bits", [0, 32, 64])
@pytest.mark.parametrize("release", NUMBERINGS)
def test_times_of_slowdowns_are_read_from_either_numbering(release: str, bits: int,
                                                           times: tuple[int, ...]) -> None:
    there = TIMES["slowdown_sw_thermal_ns"] in BINDINGS[release]["fields"]
    assert slowdowns(answers(release, bits, times, usual)) == [
        {"ok": time} if there else {"na": True} for time in times]


@given(release=st.sampled_from(NUMBERINGS), bits=st.sampled_from((0, 32, 64)), data=st.data())
@settings(max_examples=tries(300))
def test_no_setting_of_power_smoothing_is_ever_taken_for_a_time(release: str, bits: int, data: Any) -> None:
    def setting(name: str) -> int:
        most = next((most for part, most in RANGES.items() if part in name), 10**9)
        # The highest floor is never a floor of 1 per cent or none.
        return int(data.draw(st.integers(2 if "MAX_PERCENT" in name else 0, most)))

    times = tuple(data.draw(st.tuples(*[st.one_of(st.just(0), st.integers(0, 10**16))] * 3)))
    there = TIMES["slowdown_sw_thermal_ns"] in BINDINGS[release]["fields"]
    for read, time in zip(slowdowns(answers(release, bits, times, setting)), times, strict=True):
        assert read == ({"ok": time} if there else {"na": True}) or UNDECIDED in read["error"][1]


def test_answers_that_contradict_each_other_are_unmeasured_with_that_reason() -> None:
    both = {f"f{number}": Field(5_000_000) for number in (251, 252, 253)} | {
        f"f{number}": Field(7_000_000) for number in (269, 270, 271)}
    assert slowdowns(both) == [{"error": [-1, f"fields {251 + at} and {269 + at} {UNDECIDED}"]}
                               for at in range(3)]
    # What both give is the time, whichever it is.
    assert slowdowns(both | {"f269": Field(5_000_000)})[0] == {"ok": 5_000_000}


def test_an_error_of_a_time_is_that_times_error() -> None:
    found = answers("13.580.82", 0, (1, 2, 3), usual) | {"f270": Field(code=15)}
    assert slowdowns(found) == [{"ok": 1}, {"error": [15, "NVML's words"]}, {"ok": 3}]


@pytest.mark.parametrize("code", [0, 25, 2])
def test_the_fabrics_summary_is_asked_for_first_and_an_older_driver_keeps_its_mask(code: int) -> None:
    def told(gpu: Any, out: Any) -> None:
        if code and out.version == 3:
            fail(code, "no such version")()
        out.__dict__.update(state=3, status=0, cliqueId=7, clusterUuid=bytes(16), healthMask=0x1AA)
        if out.version == 3:
            out.healthSummary = 2

    gpu = gpu_of(
        nvmlDeviceGetGpuFabricInfoV=told, c_nvmlGpuFabricInfo_v3_t=lambda: SimpleNamespace(version=3),
        c_nvmlGpuFabricInfo_v2_t=lambda: SimpleNamespace(version=2))
    assert gpu["fabric_health"] == {"ok": 0x1AA}
    assert gpu["fabric_summary"] == ({"na": True} if code else {"ok": "unhealthy"})


@pytest.mark.parametrize("call", ["nvmlDeviceGetPlatformInfo", "nvmlDeviceGetRepairStatus",
                                  "nvmlDeviceGetMarginTemperature",
                                  "nvmlDeviceGetC2cModeInfoV"])
def test_a_structure_that_is_newer_than_the_driver_is_not_supported(call: str) -> None:
    gpu = gpu_of(**{call: fail(25, "Argument Version Mismatch")})
    assert [gpu[key]
            for key in ("chassis_serial", "tpc_repair_pending", "temperature_margin_c", "c2c_enabled")] == [
                {"na": True}] * 4


def test_links_to_the_cpu_are_counted_and_their_errors_added() -> None:
    links = fields(f170=Field(3), f171_0=Field(1), f171_1=Field(0), f171_2=Field(1), f231_0=Field(4),
                   f231_2=Field(5))
    gpu = gpu_of(nvmlDeviceGetFieldValues=links)
    assert [gpu[f"c2c_{key}"] for key in ("links", "links_active", "crc_errors", "replays")] == [
        {"ok": 3}, {"ok": 2}, {"ok": 9}, {"na": True}]
    gpu = gpu_of(nvmlDeviceGetFieldValues=fields(f170=Field(0)))
    assert gpu["c2c_links"] == gpu["c2c_links_active"] == {"na": True}
    gpu = gpu_of(NVMLError=Named, nvmlDeviceGetFieldValues=fields(f170=Field(1), f171_0=Field(code=15)))
    assert gpu["c2c_links_active"] == {"error": [15, "NVML's words"]}


def test_when_all_fields_fail_each_reports_it() -> None:
    gpu = gpu_of(nvmlDeviceGetFieldValues=fail(15, "GPU is lost"))
    assert gpu["temperature_memory_c"] == gpu["recovery_action"] == gpu["nvlinks"] == {
        "error": [15, "GPU is lost"]}


def test_a_link_is_a_row_of_numbers_in_which_an_error_is_negative() -> None:
    gpu = gpu_of(
        nvmlDeviceGetFieldValues=fields(f91=Field(3), f166_0=Field(7), f164_0=Field(26562), f161_0=Field(5),
                                        f162_0=Field(code=999)),
        nvmlDeviceGetNvLinkState=lambda gpu, link: (1, 0)[link] if link < 2 else fail(15, "GPU is lost")(),
        nvmlDeviceGetNvLinkRemoteDeviceType=lambda gpu, link: 2,
        nvmlDeviceGetNvLinkRemotePciInfo=lambda gpu, link: SimpleNamespace(busId="00000000:07:00.0"),
        nvmlDeviceGetNvLinkErrorCounter=lambda gpu, link, kind: 1 << 40 if kind == 2 else kind)
    assert gpu["nvlinks"]["ok"] == [
        [1, 7, 26562, 2, "0000:07:00.0", 5, -999, 1 << 40, 3, 4], [0, -3, -3, -3, -3, -3, -3, 1 << 40, 3, 4],
        [-15, -3, -3, -3, -3, -3, -3, 1 << 40, 3, 4],
    ]


@pytest.mark.parametrize("architecture", [None, 10])
def test_counters_of_the_fifth_generation_follow_where_there_may_be_any(architecture: int | None) -> None:
    told = fields(f91=Field(1), f215_0=Field(2), f220_0=Field(15 << 8 | 255), f235_0=Field(9),
                  f238_0=Field(4),
                  f239_0=Field(0), f293_0=Field(1 << 8 | 5))
    changed: dict[str,
                  Any] = {} if architecture is None else {
                      "nvmlDeviceGetArchitecture": lambda gpu: architecture}
    gpu = gpu_of(nvmlDeviceGetFieldValues=told, **changed)
    assert gpu["nvlinks"]["ok"] == [[-3] * 10 + [-3, -3, -3, -3, -3, 2, -3, 15 << 8 | 255, -3, -3, 1 << 8 | 5,
                                                 [9, -3, -3, 4]]]


def test_an_older_gpu_is_not_asked_for_counters_of_the_fifth_generation() -> None:
    asked: list[Any] = []

    def told(gpu: Any, numbers: list[Any]) -> Any:
        asked.extend(numbers)
        return fields(f91=Field(18), f215_0=Field(2))(gpu, numbers)

    gpu = gpu_of(nvmlDeviceGetFieldValues=told, nvmlDeviceGetArchitecture=lambda gpu: 9)
    assert gpu["nvlinks"]["ok"] == [[-3] * 10] * 18
    assert {each[0] for each in asked if isinstance(each, tuple)} == {161, 162, 164, 166}


def test_pairs_are_reported_by_the_later_gpu_in_both_orders() -> None:
    def status(one: Any, other: Any, kind: int) -> int:
        return fail(
            15, "GPU is lost")() if (one,
                                     kind) == (2, 1) else int(one) * 10 + kind  # type: ignore[no-any-return]

    _, *gpus = collector_nvml.lines(binding(
        nvmlDeviceGetCount=lambda: 3, nvmlDeviceGetP2PStatus=status,
        nvmlDeviceGetHandleByIndex=lambda index: fail(15, "GPU is lost")() if index == 1 else index))
    assert [gpu.get("p2p") for gpu in gpus] == [{"ok": []}, None, {"ok": [[20, -15, 22, 0, 1, 2], None]}]


# Processes

def pids(*numbers: int) -> Any:
    return lambda gpu: [SimpleNamespace(pid=number, usedGpuMemory=1) for number in numbers]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host: these tests may themselves run in a container."""
    monkeypatch.delenv("MUSTER_ROOT", raising=False)
    monkeypatch.setattr(collector_nvml, "FIRST_NAMESPACE", str(Path("/proc/self/ns/pid").readlink()))


def test_processes_are_reported_with_their_state_and_name(host: None) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as living, \
            subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        gpu = gpu_of(
            nvmlDeviceGetComputeRunningProcesses_v3=pids(ended.pid),
            nvmlDeviceGetMPSComputeRunningProcesses_v3=pids(living.pid, ended.pid))
        found = {number: (state, name) for number, state, name in gpu["processes"]["ok"]}
        living.communicate(b"\n")
    assert set(found) == {living.pid, ended.pid}
    assert found[ended.pid][0] == "Z" and found[ended.pid][1].startswith("python")
    assert found[living.pid][0] in ("R", "S", "D")


def test_a_process_that_the_driver_goes_on_listing_is_gone_and_one_that_it_forgets_is_not(host: None) -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    answers = iter([pids(ended.pid, 1)(0), pids(1)(0), pids(ended.pid)(0), pids(ended.pid)(0)])
    nvml = binding(nvmlDeviceGetComputeRunningProcesses_v3=lambda gpu: next(answers))
    assert [row[0] for row in collector_nvml.processes(nvml, 0)] == [1]
    assert collector_nvml.processes(nvml, 0) == [[ended.pid, "", ""]]


def test_a_process_that_proc_hides_exists_all_the_same(host: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def hidden(*_: Any) -> Any:
        raise FileNotFoundError

    monkeypatch.setattr(collector_nvml, "open", hidden, raising=False)
    assert collector_nvml.process(os.getpid()) == ("?", "")


def test_in_a_pid_namespace_of_its_own_no_one_is_called_gone_and_no_process_is_no_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A container is shown none of the others' processes: the memory that they hold is no leak."""
    monkeypatch.delenv("MUSTER_ROOT", raising=False)
    monkeypatch.setattr(collector_nvml, "FIRST_NAMESPACE", "another")
    assert collector_nvml.process(4194304) == ("-", "")
    assert gpu_of()["processes"] == {"error": [-1, (
        "RuntimeError: the collector runs in a PID namespace of its own and sees no process outside of it")]}
    assert gpu_of(nvmlDeviceGetComputeRunningProcesses_v3=pids(7))["processes"] == {"ok": [[7, "-", ""]]}


def test_a_display_server_is_a_process_that_holds_memory(host: None) -> None:
    gpu = gpu_of(nvmlDeviceGetGraphicsRunningProcesses_v3=pids(os.getpid()))
    assert [row[0] for row in gpu["processes"]["ok"]] == [os.getpid()]


def test_older_drivers_are_asked_for_processes_by_the_second_version(host: None) -> None:
    gpu = gpu_of(
        nvmlDeviceGetComputeRunningProcesses_v3=GONE, nvmlDeviceGetComputeRunningProcesses_v2=pids(),
        nvmlDeviceGetMPSComputeRunningProcesses_v3=GONE)
    assert gpu["processes"] == {"ok": []}


@pytest.mark.parametrize("code", [4, 15])
def test_processes_that_may_not_be_listed_are_no_idle_gpu(code: int) -> None:
    assert gpu_of(nvmlDeviceGetComputeRunningProcesses_v3=fail(code,
                                                               "no"))["processes"] == {"error": [code, "no"]}


def test_what_the_device_has_not_what_failed_and_what_the_binding_lacks_cost_one_reading_each() -> None:
    gpu = gpu_of(
        nvmlDeviceGetSerial=fail(3, "Not Supported"), nvmlDeviceGetEccMode=fail(15, "GPU is lost"),
        nvmlDeviceGetMemoryInfo=None)
    assert gpu["serial"] == {"na": True}
    assert gpu["ecc_mode"] == {"error": [15, "GPU is lost"]}
    assert (gpu["memory_bytes"]["error"][0] == -1
            and "nvmlDeviceGetMemoryInfo" in gpu["memory_bytes"]["error"][1])
    assert gpu["name"] == {"ok": "H100"}


def test_a_gpu_that_cannot_be_had_is_still_a_line() -> None:
    assert gpu_of(nvmlDeviceGetHandleByIndex=fail(15, "GPU is lost")) == {"index": 0,
                                                                          "error": [15, "GPU is lost"]}


def test_a_library_that_does_not_come_up_is_the_only_line() -> None:
    assert list(collector_nvml.lines(binding(nvmlInit=fail(9, "Driver Not Loaded")))) == [
        {"error": [9, "Driver Not Loaded"]}]


def test_without_a_count_no_gpu_is_guessed() -> None:
    (head,) = collector_nvml.lines(binding(nvmlDeviceGetCount=fail(999, "Unknown Error")))
    assert head["count"] == {"error": [999, "Unknown Error"]}


# In the collector

@pytest.fixture
def tree(tmp_path: Path) -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
    (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: 535\n")
    return tmp_path


def look(
    tree: Path, reader: str = "", library: str = "", *, probe: Probe = NVML,
    extras: dict[str, bytes] | None = None, env: dict[str, str] | None = None,
) -> tuple[Capture, int]:
    """The capture, and how often the extra was asked for."""
    with running([probe], tree, mark=str(tree), env=env) as started:
        if extras is None and reader:
            extras = {"nvml": zlib.compress(reader.encode() + b"\0" + library.encode())}
        asked = Asked(started.program.extras if extras is None else extras)
        started.program = dataclasses.replace(started.program, extras=asked)
        capture = started.recording().captures[probe.id]
        started.hang_up()
    await_none_with(str(tree))
    return capture, asked.times


class Asked(dict[str, bytes]):
    """Counts what is asked for."""

    times = 0

    def get(self, key: Any, default: Any = None) -> Any:
        self.times += 1
        return super().get(key, default)


LINES = "import time\ndef lines(nvml, *_):\n    yield {'count': {'ok': 2}}\n    yield {'index': 0}\n    "


def test_the_reader_gets_its_binding_as_the_module_pynvml(tree: Path) -> None:
    reader = ("import sys\ndef lines(nvml, *_):\n    import pynvml\n    yield [nvml.ANSWER, pynvml is nvml, "
              "sys.modules['pynvml'].__name__]\n")
    capture, _ = look(tree, reader, "ANSWER = 42")
    assert (capture.outcome, capture.text) == (Outcome.DONE, '[42, true, "pynvml"]\n')


def test_a_gpu_that_hangs_leaves_those_that_were_read_before(tree: Path) -> None:
    capture, _ = look(tree, LINES + "time.sleep(1000)\n",
                      probe=Probe("gpu.nvml", ProbeKind.NVML, seconds=0.5))
    assert (capture.outcome, capture.text) == (Outcome.TIMEOUT, '{"count": {"ok": 2}}\n{"index": 0}\n')


def test_a_library_that_crashes_reports_it(tree: Path) -> None:
    capture, _ = look(tree, LINES + "import os; os.abort()\n")
    assert (capture.outcome, capture.exit) == (Outcome.CRASHED, -6)


def test_a_reader_that_fails_tells_its_error(tree: Path) -> None:
    capture, _ = look(tree, LINES + "raise KeyError('what')\n")
    assert capture.outcome is Outcome.UNABLE and capture.note == "KeyError: 'what'"


def test_a_python_without_a_module_is_no_fault_of_the_driver(tree: Path) -> None:
    capture, _ = look(tree, "import no_such_module\n" + LINES)
    assert capture.outcome is Outcome.UNABLE and "lacks a module of its standard library" in capture.note


def test_what_the_library_prints_does_not_get_into_the_answer(tree: Path) -> None:
    capture, _ = look(tree,
                      "import os\ndef lines(nvml, *_):\n    os.system('echo noise')\n    print('noise', "
                            "flush=True)\n    yield {}\n")
    assert (capture.outcome, capture.text) == (Outcome.DONE, "{}\n")


def test_past_the_limit_whole_lines_are_kept(tree: Path) -> None:
    reader = "def lines(nvml, *_):\n    for index in range(1000):\n        yield {'index': index}\n"
    capture, _ = look(tree, reader, probe=Probe("gpu.nvml", ProbeKind.NVML, limit=1000))
    assert capture.outcome is Outcome.TRUNCATED and len(capture.text) <= 1000
    assert [json.loads(line)["index"] for line in capture.text.splitlines()] == list(
        range(capture.text.count("\n")))


@pytest.mark.parametrize("source", [b"not compressed", zlib.compress(b"def lines(\0")])
def test_a_damaged_source_is_a_failure_of_ours_and_not_the_end_of_the_answer(tree: Path,
                                                                             source: bytes) -> None:
    capture, _ = look(tree, extras={"nvml": source})
    assert capture.outcome is Outcome.UNABLE and "rror" in capture.note


def test_a_head_without_the_binding_is_reported_apart_from_a_node_without_gpus(tree: Path) -> None:
    capture, asked = look(tree, extras={})
    assert (capture.outcome, capture.note, asked) == (Outcome.MISSING, "the NVML reader was not sent", 1)


def test_a_node_without_an_nvidia_device_asks_for_nothing(tmp_path: Path) -> None:
    for name, fields in (("0000:01:00.0", "PCI_CLASS=20000\nPCI_ID=15B3:1021\n"),
                         ("0000:02:00.0", "PCI_CLASS=68000\nPCI_ID=10DE:22A3\n")):
        folder = tmp_path / "sys/bus/pci/devices" / name
        folder.mkdir(parents=True)
        (folder / "uevent").write_text(fields)
    capture, asked = look(tmp_path)
    assert (capture.outcome, capture.note, asked) == (Outcome.MISSING, "no NVIDIA device", 0)


def test_a_gpu_without_a_driver_is_found_on_the_pci_bus(tmp_path: Path) -> None:
    folder = tmp_path / "sys/bus/pci/devices/0000:18:00.0"
    folder.mkdir(parents=True)
    (folder / "uevent").write_text("PCI_CLASS=30200\nPCI_ID=10DE:2330\n")
    capture, asked = look(tmp_path, env={"LD_LIBRARY_PATH": ""})
    head = json.loads(capture.text)
    assert asked == 1 and capture.outcome is Outcome.DONE and head["error"][0] in (9, 12)


# The real binding

@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Libraries:
    try:
        return build(tmp_path_factory.mktemp("cache"))
    except MusterError as error:
        require(False, str(error))
        raise


def scenario(tree: Path, libraries: Libraries, *lines: str) -> dict[str, str]:
    (tree / "scenario").write_text("\n".join(lines))
    return {"LD_LIBRARY_PATH": str(libraries.folder), "MUSTER_NVML_SCENARIO": str(tree / "scenario")}


def test_eight_gpus_are_read_through_the_real_binding(tree: Path, libraries: Libraries) -> None:
    env = scenario(tree, libraries, "gpu.3.ecc.volatile.uncorrected = 12", "gpu.2.ecc.mode = unsupported",
                   "gpu.5.error = 15")
    capture, _ = look(tree, env=env)
    assert capture.outcome is Outcome.DONE, capture
    head, *gpus = (json.loads(line) for line in capture.text.splitlines())
    assert head["count"] == {"ok": 8} and [gpu["index"] for gpu in gpus] == list(range(8))
    assert gpus[3]["ecc_uncorrected"] == {"ok": 12} and gpus[0]["ecc_uncorrected"] == {"ok": 0}
    assert gpus[2]["ecc_mode"] == {"na": True}
    assert 15 in [found["error"][0] for found in gpus[5].values() if isinstance(found, dict)
                  and "error" in found] + [gpus[5].get("error", [0])[0]]
    assert len({gpu["pci"]["ok"] for gpu in gpus if gpu["index"] != 5}) == 7


def test_a_healthy_h100_is_read_through_the_real_binding_as_the_tests_machine_has_it(
    tree: Path, libraries: Libraries,
) -> None:
    identity = [line for n in range(8) for line in (
        f"gpu.{n}.uuid = GPU-{n}", f"gpu.{n}.serial = 16{n}", f"gpu.{n}.pci = 0000:{0x18 + n:02x}:00.0")]
    # The driver from which on all readings are there; its firmware is the machine's.
    env = scenario(tree, libraries, "driver.version = 580.65.06", "gpu.*.gsp.version = 550.54.15", *identity)
    capture, _ = look(tree, env=env)
    read = [json.loads(line) for line in capture.text.splitlines()]
    assert read[1:] == [json.loads(line) for line in machine.nvml().text.splitlines()][1:]
    assert len(capture.text) < NVML.limit / 16


@pytest.mark.parametrize("driver", ["535.161.08", "550.54.15", "570.86.10"])
def test_what_an_older_driver_has_not_is_not_supported_and_no_failure(
    tree: Path, libraries: Libraries, driver: str,
) -> None:
    env = scenario(tree, libraries, f"driver.version = {driver}", "gpu.*.field.230 = unsupported", *(
        f"fail.{call} = 13" for call in ("nvmlDeviceGetMarginTemperature", "nvmlDeviceGetGpuFabricInfoV",
                                         "nvmlDeviceGetPlatformInfo", "nvmlDeviceGetRepairStatus",
                                         "nvmlDeviceGetC2cModeInfoV")))
    capture, _ = look(tree, env=env)
    gpu = json.loads(capture.text.splitlines()[1])
    assert {key for key, value in gpu.items() if isinstance(value, dict)
            and "na" in value} == {*machine.UNSUPPORTED_HERE, "recovery_action", "temperature_margin_c",
                                   "fabric_health", "fabric_summary", "channel_repair_pending",
                                   "tpc_repair_pending", "slowdown_sw_thermal_ns", "slowdown_hw_thermal_ns",
                                   "slowdown_hw_power_brake_ns"}
    assert not any("error" in value for value in gpu.values() if isinstance(value, dict))


def test_links_pairs_and_processes_are_read_through_the_real_binding(
    tree: Path, libraries: Libraries,
) -> None:
    (tree / "proc/4711").mkdir()
    (tree / "proc/4711/stat").write_text("4711 (a (b) c) Z 1 4711 4711 0\n")
    env = scenario(
        tree, libraries, "gpu.count = 2", "gpu.0.nvlink.3.state = 0", "gpu.0.nvlink.4.speed = 25000",
        "gpu.0.nvlink.5.crc_flit = 12", "gpu.0.nvlink.6.replay = 99999999999", "gpu.1.nvlink.*.rx_errors = 5",
        "gpu.1.nvlink.count = 2", "gpu.1.architecture = 10", "gpu.1.p2p.0.nvlink = 2",
        "gpu.0.processes = 4712 4711:1048576",
        "gpu.0.processes.mps = 4711:1048576", "gpu.1.processes = error 4")
    capture, _ = look(tree, env=env)
    _, first, second = (json.loads(line) for line in capture.text.splitlines())
    links = first["nvlinks"]["ok"]
    assert (links[3][0], links[3][3:5], links[4][2], links[5][7], links[6][5]) == (
        0, [-3, -3], 25000, 12, 99999999999)
    assert [row[10:] for row in second["nvlinks"]["ok"]] == [[-3, -3, 5, *[-3] * 8, [-3]]] * 2
    assert second["p2p"] == {"ok": [[0, 0, 2, 0, 0, 0]]}
    assert first["processes"] == {"ok": [[4711, "Z", "a (b) c"], [4712, "", ""]]}
    assert second["processes"] == {"error": [4, "Insufficient Permissions"]}


@pytest.mark.parametrize("value", ["0", "unsupported"])
def test_a_gpu_without_nvlinks_has_none(tree: Path, libraries: Libraries, value: str) -> None:
    capture, _ = look(tree, env=scenario(tree, libraries, "gpu.count = 1", f"gpu.*.nvlink.count = {value}"))
    assert json.loads(capture.text.splitlines()[1])["nvlinks"] == (
        {"ok": []} if value == "0" else {"na": True})


def test_the_part_of_the_binding_that_travels_reads_what_the_whole_of_it_reads(
    tree: Path, libraries: Libraries,
) -> None:
    env = scenario(tree, libraries, "gpu.3.ecc.volatile.uncorrected = 12", "gpu.2.ecc.mode = unsupported",
                   "gpu.5.error = 15")
    reader = Path(collector_nvml.__file__).read_text()
    part, whole = look(tree, env=env)[0], look(tree, reader, Path(pynvml.__file__).read_text(), env=env)[0]
    assert part.outcome is Outcome.DONE and part.text == whole.text


def test_a_driver_that_does_not_answer_for_one_gpu_keeps_the_others(tree: Path, libraries: Libraries) -> None:
    env = scenario(tree, libraries, "delay.nvmlDeviceGetHandleByIndex_v2 = 1000")
    capture, _ = look(tree, env=env, probe=Probe("gpu.nvml", ProbeKind.NVML, seconds=2.0))
    assert capture.outcome is Outcome.TIMEOUT
    assert json.loads(capture.text.splitlines()[0])["count"] == {"ok": 8}


def test_the_binding_travels_as_text_and_is_not_imported_on_the_head() -> None:
    script = (
        "import sys\nfrom healthcheck.collector import program\nfrom healthcheck.model.probes import "
        "ProbeSet\n"
        "extra = program.build(ProbeSet(())).extras['nvml']\nprint(len(extra) > 10000, 'pynvml' in "
        "sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=Path(program.__file__).parents[2],
                          capture_output=True, text=True, check=True)
    assert done.stdout == "True False\n"
