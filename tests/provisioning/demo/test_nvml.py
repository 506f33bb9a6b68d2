"""The stand-in for NVIDIA's library, called through pynvml, and by ctypes where that hides."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from provisioning.demo.build import Libraries

Nvml = Callable[..., Any]
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND = 1, 2, 3, 6
INSUFFICIENT_SIZE, LOST, VERSION, UNKNOWN = 7, 15, 25, 999


@contextmanager
def refused(code: int) -> Iterator[None]:
    import pynvml

    with pytest.raises(pynvml.NVMLError) as error:
        yield
    assert error.value.value == code


def test_eight_healthy_h100_answer_without_a_scenario(libraries: Libraries) -> None:
    script = ("import pynvml as n; n.nvmlInit(); h = [n.nvmlDeviceGetHandleByIndex(i) for i in "
              "range(n.nvmlDeviceGetCount())]; print(len(h), len({n.nvmlDeviceGetUUID(x) for x in h}), "
              "len({n.nvmlDeviceGetSerial(x) for x in h}), n.nvmlDeviceGetName(h[7]))")
    environment = {"LD_LIBRARY_PATH": str(libraries.folder), "PATH": os.environ["PATH"]}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "8 8 8 NVIDIA H100 80GB HBM3\n"


def test_readings_come_from_the_scenario(nvml: Nvml) -> None:
    n = nvml("driver.version = 550.54.15", "gpu.count = 4", "gpu.3.ecc.volatile.uncorrected = 12",
             "gpu.*.power.usage = 1000", "gpu.1.power.usage = 2000", "gpu.2.pci = 0001:9d:00.0",
             "gpu.0.name = one # a comment", "# another", "")
    first, second, third, fourth = (n.nvmlDeviceGetHandleByIndex(index) for index in range(4))
    assert n.nvmlSystemGetDriverVersion() == "550.54.15"
    assert n.nvmlDeviceGetCount() == 4
    assert n.nvmlDeviceGetTotalEccErrors(
        fourth, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC) == 12
    assert n.nvmlDeviceGetTotalEccErrors(
        fourth, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_AGGREGATE_ECC) == 0
    assert n.nvmlDeviceGetTotalEccErrors(fourth, n.NVML_MEMORY_ERROR_TYPE_CORRECTED, n.NVML_VOLATILE_ECC) == 0
    assert [n.nvmlDeviceGetPowerUsage(handle) for handle in (first, second)] == [1000, 2000]
    pci = n.nvmlDeviceGetPciInfo(third)
    assert (pci.busId, pci.busIdLegacy, pci.domain, pci.bus) == ("00000001:9D:00.0", "0001:9D:00.0", 1, 0x9D)
    assert hex(pci.pciDeviceId) == "0x233010de"
    assert n.nvmlDeviceGetName(first) == "one"


def test_the_last_line_of_a_key_wins(nvml: Nvml) -> None:
    assert nvml("gpu.count = 2", "gpu.count = 3").nvmlDeviceGetCount() == 3


HEALTHY: dict[str, tuple[tuple[int, ...], object]] = {
    "nvmlDeviceGetEccMode": ((), [1, 1]),
    "nvmlDeviceGetRemappedRows": ((), (0, 0, 0, 0)),
    "nvmlDeviceGetMigMode": ((), [0, 0]),
    "nvmlDeviceGetPersistenceMode": ((), 1),
    "nvmlDeviceGetTemperature": ((0,), 31),
    "nvmlDeviceGetTemperatureThreshold": ((1,), 92),
    "nvmlDeviceGetClockInfo": ((2,), 2619),
    "nvmlDeviceGetMaxClockInfo": ((1,), 1980),
    "nvmlDeviceGetEnforcedPowerLimit": ((), 700000),
    "nvmlDeviceGetPowerManagementLimitConstraints": ((), [200000, 700000]),
    "nvmlDeviceGetCurrPcieLinkGeneration": ((), 5),
    "nvmlDeviceGetCurrPcieLinkWidth": ((), 16),
    "nvmlDeviceGetPcieReplayCounter": ((), 0),
    "nvmlDeviceGetCurrentClocksThrottleReasons": ((), 1),
    "nvmlDeviceGetNvLinkState": ((17,), 1),
    "nvmlDeviceGetNvLinkErrorCounter": ((3, 2), 0),
    "nvmlDeviceGetMemoryErrorCounter": ((1, 0, 7), 0),
    "nvmlDeviceGetCudaComputeCapability": ((), (9, 0)),
    "nvmlDeviceGetMinorNumber": ((), 0),
    "nvmlDeviceGetIndex": ((), 0),
    "nvmlDeviceGetComputeRunningProcesses": ((), []),
    "nvmlDeviceGetVbiosVersion": ((), "96.00.74.00.01"),
    "nvmlDeviceGetTotalEccErrors": ((1, 0), 0),
    "nvmlDeviceGetArchitecture": ((), 9),
    "nvmlDeviceGetGspFirmwareVersion": ((), b"535.161.08"),
    "nvmlDeviceGetMarginTemperature": ((), 56),
    "nvmlDeviceGetNvLinkRemoteDeviceType": ((7,), 2),
    "nvmlDeviceGetMPSComputeRunningProcesses": ((), []),
}


@pytest.mark.parametrize("function", HEALTHY)
def test_a_healthy_gpu_answers_as_an_h100(nvml: Nvml, function: str) -> None:
    arguments, answer = HEALTHY[function]
    n = nvml()
    assert getattr(n, function)(n.nvmlDeviceGetHandleByIndex(0), *arguments) == answer


def test_utilization_is_written_where_the_caller_has_it(nvml: Nvml) -> None:
    n = nvml("gpu.0.utilization.gpu = 98", "gpu.0.utilization.memory = 12")
    found = n.nvmlDeviceGetUtilizationRates(n.nvmlDeviceGetHandleByIndex(0))
    assert (found.gpu, found.memory) == (98, 12)


def test_sram_errors_and_their_threshold_come_in_one_structure(nvml: Nvml) -> None:
    n = nvml("gpu.0.ecc.aggregate.uncorrected.sram = 3", "gpu.0.ecc.sram.parity = 2",
             "gpu.0.ecc.sram.threshold_exceeded = 1")
    found = n.c_nvmlEccSramErrorStatus_v1_t()
    n.nvmlDeviceGetSramEccErrorStatus(n.nvmlDeviceGetHandleByIndex(0), ctypes.byref(found))
    assert ((found.aggregateUncSecDed, found.aggregateUncParity, found.aggregateCor, found.bThresholdExceeded)
            == (3, 2, 0, 1))
    found.version = 1
    with refused(VERSION):
        n.nvmlDeviceGetSramEccErrorStatus(n.nvmlDeviceGetHandleByIndex(0), ctypes.byref(found))


def test_the_fabric_is_reported_in_all_versions(nvml: Nvml) -> None:
    n = nvml("gpu.0.fabric.clique = 7", "gpu.0.fabric.cluster = 01234567-89ab-cdef-0123-456789abcdef",
             "gpu.0.fabric.health = 1", "gpu.0.fabric.summary = 2")
    handle = n.nvmlDeviceGetHandleByIndex(0)
    first, second = n.c_nvmlGpuFabricInfo_t(), n.c_nvmlGpuFabricInfo_v2_t()
    third = n.c_nvmlGpuFabricInfo_v3_t()
    n.nvmlDeviceGetGpuFabricInfo(handle, ctypes.byref(first))
    for versioned in (second, third):
        n.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(versioned))
    for found in (first, second, third):
        assert (found.state, found.status, found.cliqueId) == (n.NVML_GPU_FABRIC_STATE_COMPLETED, 0, 7)
        assert bytes(found.clusterUuid).hex() == "0123456789abcdef0123456789abcdef"
    assert (second.healthMask, third.healthMask, third.healthSummary) == (
        1, 1, n.NVML_GPU_FABRIC_HEALTH_SUMMARY_UNHEALTHY)
    second.version = 0
    with refused(VERSION):
        n.nvmlDeviceGetGpuFabricInfoV(handle, ctypes.byref(second))


def test_one_link_or_all_links_of_a_gpu_differ(nvml: Nvml) -> None:
    n = nvml(
        "gpu.0.nvlink.*.state = 0", "gpu.0.nvlink.3.state = 1", "gpu.0.nvlink.3.remote.pci = 0001:9d:00.0")
    handle = n.nvmlDeviceGetHandleByIndex(0)
    assert [n.nvmlDeviceGetNvLinkState(handle, link) for link in (2, 3, 4)] == [0, 1, 0]
    assert n.nvmlDeviceGetNvLinkRemotePciInfo(handle, 3).busId == "00000001:9D:00.0"
    assert n.nvmlDeviceGetNvLinkRemotePciInfo(handle, 0).busId == "00000000:05:00.0"


def test_fields_of_a_link_are_told_by_their_scope(nvml: Nvml) -> None:
    n = nvml("gpu.0.nvlink.3.replay = 5", "gpu.0.nvlink.count = 12")
    asked = [(161, 3), (161, 4), (164, 0), (161, 12), (215, 0), 91]
    found = n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), asked)
    assert [(each.nvmlReturn, each.value.ullVal) for each in found[:3]] == [(0, 5), (0, 0), (0, 26562)]
    assert [found[3].nvmlReturn, found[4].nvmlReturn] == [INVALID_ARGUMENT, NOT_SUPPORTED]
    assert (found[5].nvmlReturn, found[5].value.ullVal) == (0, 12)


def test_peers_are_reported_in_each_order_for_itself(nvml: Nvml) -> None:
    n = nvml("gpu.0.p2p.3.write = 6")
    zero, three = n.nvmlDeviceGetHandleByIndex(0), n.nvmlDeviceGetHandleByIndex(3)
    assert [n.nvmlDeviceGetP2PStatus(zero, three, kind) for kind in (0, 1, 2)] == [0, 6, 0]
    assert n.nvmlDeviceGetP2PStatus(three, zero, 1) == 0
    with refused(INVALID_ARGUMENT):
        n.nvmlDeviceGetP2PStatus(zero, zero, 0)


def test_processes_are_those_of_the_scenario_and_a_list_that_is_none_is_no_idle_gpu(
    nvml: Nvml, libraries: Libraries,
) -> None:
    n = nvml("gpu.0.processes = 4711:1048576 12", "gpu.1.processes = 12:", "gpu.2.processes = python")
    handles = [n.nvmlDeviceGetHandleByIndex(index) for index in range(3)]
    found = n.nvmlDeviceGetComputeRunningProcesses(handles[0])
    assert [(each.pid, each.usedGpuMemory) for each in found] == [(4711, 1048576), (12, 0)]
    room, one = ctypes.c_uint(1), n.c_nvmlProcessInfo_t()
    assert library(libraries).nvmlDeviceGetComputeRunningProcesses_v3(
        handles[0], ctypes.byref(room), ctypes.byref(one)) == INSUFFICIENT_SIZE
    assert (room.value, one.pid) == (2, 4711)
    for handle in handles[1:]:
        with refused(UNKNOWN):
            n.nvmlDeviceGetComputeRunningProcesses(handle)


def test_memory_adds_up_in_both_versions(nvml: Nvml) -> None:
    n = nvml("gpu.0.memory.used = 1000000000")
    handle = n.nvmlDeviceGetHandleByIndex(0)
    old, new = n.nvmlDeviceGetMemoryInfo(handle), n.nvmlDeviceGetMemoryInfo(handle, version=n.nvmlMemory_v2)
    assert old.total == new.total == 85520809984
    assert old.used + old.free == old.total
    assert new.used + new.free + new.reserved == new.total
    assert new.used == 1000000000
    with refused(VERSION):
        n.nvmlDeviceGetMemoryInfo(handle, version=1)


def test_a_divided_gpu_counts_by_instance_and_refuses_what_nvml_says(nvml: Nvml) -> None:
    n = nvml("gpu.0.mig.mode = 1", "gpu.0.mig.instances = 2", "gpu.0.mig.1.uncorrected = 3")
    gpu, other = n.nvmlDeviceGetHandleByIndex(0), n.nvmlDeviceGetHandleByIndex(1)
    assert [n.nvmlDeviceGetMaxMigDeviceCount(each) for each in (gpu, other)] == [7, 0]
    parts = [n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, index) for index in range(2)]
    assert [n.nvmlDeviceGetMemoryErrorCounter(part, 1, 0, 7) for part in parts] == [0, 3]
    with refused(NOT_FOUND):
        n.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 2)
    for call in (lambda: n.nvmlDeviceGetTotalEccErrors(gpu, 1, 0), lambda: n.nvmlDeviceGetRemappedRows(gpu),
                 lambda: n.nvmlDeviceGetUtilizationRates(gpu),
                 lambda: n.nvmlDeviceGetMigDeviceHandleByIndex(other, 0)):
        with refused(NOT_SUPPORTED):
            call()
    assert n.nvmlDeviceGetTotalEccErrors(gpu, 1, 1) == 0
    assert [n.nvmlDeviceGetNvLinkState(each, 0) for each in (gpu, other)] == [0, 1]
    assert n.nvmlDeviceGetP2PStatus(other, gpu, 0) == n.NVML_P2P_STATUS_NOT_SUPPORTED


def test_a_gpu_of_a_rack_has_a_place_and_links_to_its_cpu(nvml: Nvml) -> None:
    n = nvml("gpu.0.platform.chassis = 1820224000000", "gpu.0.platform.slot = 200", "gpu.0.platform.tray = 7",
             "gpu.0.platform.module = 3", "gpu.0.c2c.count = 10", "gpu.0.c2c.9.state = 0",
             "gpu.0.repair.tpc = 1")
    handle, found = n.nvmlDeviceGetHandleByIndex(0), n.c_nvmlPlatformInfo_v2_t()
    n.nvmlDeviceGetPlatformInfo(handle, ctypes.byref(found))
    assert bytes(found)[20:44] == b"1820224000000\0\0\0" + bytes((200, 7, 0, 0, 3, 0, 0, 0))
    assert n.nvmlDeviceGetC2cModeInfoV(handle).isC2cEnabled == 1
    assert n.nvmlDeviceGetRepairStatus(handle) == [0, 1]
    states = n.nvmlDeviceGetFieldValues(handle, [(171, 8), (171, 9), (171, 10)])
    assert [(each.nvmlReturn, each.value.uiVal) for each in states[:2]] == [(0, 1), (0, 0)]
    assert states[2].nvmlReturn == INVALID_ARGUMENT
    other = n.nvmlDeviceGetHandleByIndex(1)
    for call in (lambda: n.nvmlDeviceGetPlatformInfo(other, ctypes.byref(found)),
                 lambda: n.nvmlDeviceGetC2cModeInfoV(other)):
        with refused(NOT_SUPPORTED):
            call()


def test_row_remapping_of_a_healthy_gpu_has_all_banks_spare(nvml: Nvml) -> None:
    n = nvml("gpu.0.rows.banks.max = 2550", "gpu.0.rows.banks.high = 10")
    values = n.nvmlDeviceGetRowRemapperHistogram(n.nvmlDeviceGetHandleByIndex(0))
    assert (values.max, values.high, values.partial, values.low, values.none) == (2550, 10, 0, 0, 0)


def test_a_field_is_there_or_says_that_it_is_not_supported(nvml: Nvml) -> None:
    n = nvml("gpu.0.field.82 = 41", "gpu.0.field.83 = unsupported")
    there, not_there, unset = n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), [82, 83, 84])
    assert (there.nvmlReturn, there.value.ullVal, there.valueType) == (0, 41, n.NVML_VALUE_TYPE_UNSIGNED_INT)
    assert not_there.nvmlReturn == unset.nvmlReturn == NOT_SUPPORTED


def test_a_gpu_is_found_by_what_identifies_it(nvml: Nvml) -> None:
    n = nvml("gpu.5.uuid = GPU-five", "gpu.5.serial = 12345", "gpu.5.pci = 0000:c3:00.0")
    for handle in (n.nvmlDeviceGetHandleByUUID(b"GPU-five"), n.nvmlDeviceGetHandleBySerial(b"12345"),
                   n.nvmlDeviceGetHandleByPciBusId(b"00000000:C3:00.0"),
                   n.nvmlDeviceGetHandleByPciBusId(b"0000:c3:00.0")):
        assert n.nvmlDeviceGetIndex(handle) == 5
    for search in (
        n.nvmlDeviceGetHandleByUUID, n.nvmlDeviceGetHandleBySerial, n.nvmlDeviceGetHandleByPciBusId):
        with refused(NOT_FOUND):
            search(b"none of these")


def test_a_lost_gpu_is_counted_and_answers_nothing(nvml: Nvml) -> None:
    n = nvml("gpu.5.error = 15", "gpu.5.uuid = GPU-five")
    assert n.nvmlDeviceGetCount() == 8
    for ask in (lambda: n.nvmlDeviceGetHandleByIndex(5), lambda: n.nvmlDeviceGetHandleByUUID(b"GPU-five")):
        with refused(LOST):
            ask()
    assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByIndex(6)) == 6


def test_every_call_on_a_gpu_that_is_lost_later_says_so(
    libraries: Libraries, nvml: Nvml, tmp_path: Path,
) -> None:
    n = nvml("gpu.5.serial = 1")
    handle = n.nvmlDeviceGetHandleByIndex(5)
    n.nvmlShutdown()
    (tmp_path / "scenario").write_text("gpu.5.error = 15\n")
    n.nvmlInit()
    for function, (arguments, _) in HEALTHY.items():
        with refused(LOST):
            getattr(n, function)(handle, *arguments)


@pytest.mark.parametrize(
    ("value", "code"), [("unsupported", NOT_SUPPORTED), ("error 4", 4), ("a lot", UNKNOWN), ("-1", UNKNOWN)])
def test_a_single_reading_can_be_refused(nvml: Nvml, value: str, code: int) -> None:
    n = nvml(f"gpu.2.power.usage = {value}")
    with refused(code):
        n.nvmlDeviceGetPowerUsage(n.nvmlDeviceGetHandleByIndex(2))
    assert n.nvmlDeviceGetPowerUsage(n.nvmlDeviceGetHandleByIndex(3)) == 72000


def test_error_counts_are_not_supported_where_ecc_is_off_or_unknown(nvml: Nvml) -> None:
    n = nvml("gpu.0.ecc.mode = 0", "gpu.1.ecc.mode = unsupported")
    assert n.nvmlDeviceGetEccMode(n.nvmlDeviceGetHandleByIndex(0)) == [0, 0]
    for index in (0, 1):
        with refused(NOT_SUPPORTED):
            n.nvmlDeviceGetTotalEccErrors(n.nvmlDeviceGetHandleByIndex(index), 1, 0)


@pytest.mark.parametrize("call",
                         ["nvmlDeviceGetTotalEccErrors 2 0", "nvmlDeviceGetTotalEccErrors 0 2",
                          "nvmlDeviceGetMemoryErrorCounter 1 0 8", "nvmlDeviceGetTemperature 1",
                          "nvmlDeviceGetTemperatureThreshold 4", "nvmlDeviceGetClockInfo 4",
                          "nvmlDeviceGetNvLinkState 18", "nvmlDeviceGetNvLinkErrorCounter 0 5"])
def test_an_argument_out_of_range_is_invalid(nvml: Nvml, call: str) -> None:
    function, *arguments = call.split()
    n = nvml()
    with refused(INVALID_ARGUMENT):
        getattr(n, function)(n.nvmlDeviceGetHandleByIndex(0), *map(int, arguments))


def test_an_index_past_the_last_gpu_is_invalid(nvml: Nvml) -> None:
    n = nvml("gpu.count = 7")
    with refused(INVALID_ARGUMENT):
        n.nvmlDeviceGetHandleByIndex(7)


def test_what_is_not_a_handle_is_invalid(nvml: Nvml) -> None:
    n = nvml()
    for handle in (None, ctypes.c_void_p(64), ctypes.byref(ctypes.c_uint())):
        with refused(INVALID_ARGUMENT):
            n.nvmlDeviceGetPowerUsage(handle)


def library(libraries: Libraries) -> Any:
    return ctypes.CDLL(str(libraries.nvml))


def test_a_buffer_that_is_too_small_is_left_alone(nvml: Nvml, libraries: Libraries) -> None:
    n, raw = nvml("gpu.0.serial = 1234"), library(libraries)
    handle = n.nvmlDeviceGetHandleByIndex(0)
    buffer = ctypes.create_string_buffer(b"untouched")
    assert raw.nvmlDeviceGetSerial(handle, buffer, 4) == INSUFFICIENT_SIZE
    assert raw.nvmlSystemGetDriverVersion(buffer, 4) == INSUFFICIENT_SIZE
    assert buffer.value == b"untouched"
    assert raw.nvmlDeviceGetSerial(handle, buffer, 5) == 0
    assert buffer.value == b"1234"


OF_A_GPU = (
    ("nvmlDeviceGetName", (None, 64)), ("nvmlDeviceGetPowerUsage", (None,)),
    ("nvmlDeviceGetTotalEnergyConsumption", (None,)), ("nvmlDeviceGetEccMode", (None, None)),
    ("nvmlDeviceGetIndex", (None,)), ("nvmlDeviceGetMinorNumber", (None,)),
    ("nvmlDeviceGetPciInfo_v3", (None,)), ("nvmlDeviceGetMemoryInfo", (None,)),
    ("nvmlDeviceGetMemoryInfo_v2", (None,)), ("nvmlDeviceGetTotalEccErrors", (1, 0, None)),
    ("nvmlDeviceGetMemoryErrorCounter", (1, 0, 2, None)),
    ("nvmlDeviceGetRemappedRows", (None, None, None, None)), ("nvmlDeviceGetRowRemapperHistogram", (None,)),
    ("nvmlDeviceGetTemperature", (0, None)), ("nvmlDeviceGetNvLinkState", (0, None)),
    ("nvmlDeviceGetNvLinkErrorCounter", (0, 0, None)), ("nvmlDeviceGetFieldValues", (1, None)),
    ("nvmlDeviceGetComputeRunningProcesses_v3", (None, None)), ("nvmlDeviceGetArchitecture", (None,)),
    ("nvmlDeviceGetGspFirmwareVersion", (None,)), ("nvmlDeviceGetMarginTemperature", (None,)),
    ("nvmlDeviceGetSramEccErrorStatus", (None,)), ("nvmlDeviceGetRetiredPagesPendingStatus", (None,)),
    ("nvmlDeviceGetUtilizationRates", (None,)), ("nvmlDeviceGetNvLinkRemotePciInfo_v2", (0, None)),
    ("nvmlDeviceGetNvLinkRemoteDeviceType", (0, None)), ("nvmlDeviceGetGpuFabricInfo", (None,)),
    ("nvmlDeviceGetGpuFabricInfoV", (None,)), ("nvmlDeviceGetRepairStatus", (None,)),
    ("nvmlDeviceGetPlatformInfo", (None,)), ("nvmlDeviceGetC2cModeInfoV", (None,)),
    ("nvmlDeviceGetMaxMigDeviceCount", (None,)), ("nvmlDeviceGetMigDeviceHandleByIndex", (0, None)))
OF_THE_LIBRARY = (("nvmlSystemGetDriverVersion", (None, 80)), ("nvmlSystemGetNVMLVersion", (None, 80)),
                  ("nvmlSystemGetCudaDriverVersion_v2", (None,)), ("nvmlDeviceGetCount_v2", (None,)),
                  ("nvmlDeviceGetHandleByIndex_v2", (0, None)), ("nvmlDeviceGetHandleByUUID", (None, None)))


def test_a_null_pointer_is_invalid_everywhere(nvml: Nvml, libraries: Libraries) -> None:
    n, raw = nvml(), library(libraries)
    handle = n.nvmlDeviceGetHandleByIndex(0)
    answers = {name: getattr(raw, name)(handle, *rest) for name, rest in OF_A_GPU}
    answers |= {name: getattr(raw, name)(*arguments) for name, arguments in OF_THE_LIBRARY}
    assert answers == dict.fromkeys(answers, INVALID_ARGUMENT)


def test_nothing_answers_before_init_and_after_the_last_shutdown(nvml: Nvml, libraries: Libraries) -> None:
    raw = library(libraries)

    def answers() -> set[int]:
        return {getattr(raw, name)(None, *rest) for name, rest in OF_A_GPU} | {
            getattr(raw, name)(*rest) for name, rest in OF_THE_LIBRARY}

    assert answers() == {UNINITIALIZED}
    assert raw.nvmlShutdown() == UNINITIALIZED
    n = nvml()
    n.nvmlInit()
    n.nvmlShutdown()
    assert n.nvmlDeviceGetCount() == 8
    n.nvmlShutdown()
    assert answers() == {UNINITIALIZED}
    n.nvmlInit()


def test_init_is_refused_as_the_scenario_says(nvml: Nvml) -> None:
    with refused(9):
        nvml("init = 9")


def test_a_damaged_scenario_is_no_healthy_gpu(nvml: Nvml, capfd: pytest.CaptureFixture[str]) -> None:
    with refused(UNKNOWN):
        nvml("gpu.count = 8", "gpu.count 7")
    assert capfd.readouterr().err.endswith("scenario:2: expected 'key = value'\n")


def test_a_missing_scenario_is_no_healthy_gpu(libraries: Libraries, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_NVML_SCENARIO", "/does/not/exist")
    assert library(libraries).nvmlInit_v2() == UNKNOWN


def test_one_gpu_can_be_slow_to_attach_or_fail_in_one_function_with_any_error(nvml: Nvml) -> None:
    n = nvml("gpu.3.attach.error = 999", "gpu.4.fail.nvmlDeviceGetSerial = 20", "gpu.5.attach.delay = 0.2",
             "gpu.*.fail.nvmlDeviceGetUUID = 10")
    with refused(UNKNOWN):
        n.nvmlDeviceGetHandleByIndex(3)
    four, six = n.nvmlDeviceGetHandleByIndex(4), n.nvmlDeviceGetHandleByIndex(6)
    with refused(20):
        n.nvmlDeviceGetSerial(four)
    with refused(10):
        n.nvmlDeviceGetUUID(six)
    assert n.nvmlDeviceGetName(four) and n.nvmlDeviceGetSerial(six)


@pytest.mark.parametrize("flags", [0, 2])
def test_gpus_are_attached_in_init_or_with_no_attach_one_by_one(
    libraries: Libraries, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, flags: int,
) -> None:
    (tmp_path / "scenario").write_text("gpu.1.attach.delay = 0.2\n")
    monkeypatch.setenv("MUSTER_NVML_SCENARIO", str(tmp_path / "scenario"))
    raw, handle, took = library(libraries), ctypes.c_void_p(), []
    for call in (lambda: raw.nvmlInitWithFlags(flags),
                 *(lambda index=index: raw.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
                   for index in (0, 1, 1)), raw.nvmlShutdown):
        began = time.monotonic()
        assert call() == 0
        took.append(time.monotonic() - began >= 0.2)
    assert took == ([False, False, True, False, False] if flags else [True, False, False, False, False])


def test_a_function_can_be_made_to_fail_or_to_hang(nvml: Nvml) -> None:
    n = nvml("fail.nvmlDeviceGetSerial = 999", "delay.nvmlDeviceGetUUID = 0.2")
    handle = n.nvmlDeviceGetHandleByIndex(0)
    with refused(UNKNOWN):
        n.nvmlDeviceGetSerial(handle)
    began = time.monotonic()
    n.nvmlDeviceGetUUID(handle)
    assert time.monotonic() - began >= 0.2


def test_errors_have_names_of_nvml(libraries: Libraries) -> None:
    raw = library(libraries)
    raw.nvmlErrorString.restype = ctypes.c_char_p
    assert [raw.nvmlErrorString(code) for code in (0, 3, 9, 15, 18, 999, -1)] == [
        b"Success", b"Not Supported", b"Driver Not Loaded", b"GPU is lost",
        b"RM has detected an NVML/RM version mismatch.", b"Unknown Error", b"Unknown Error"]


def test_a_function_that_is_not_there_is_an_older_driver(nvml: Nvml) -> None:
    with refused(13):
        nvml().nvmlSystemGetHicVersion()
