"""The stand-in for NVIDIA's library, called through pynvml as the collector calls it, and by ctypes where pynvml hides the answer."""

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
UNINITIALIZED, INVALID_ARGUMENT, NOT_SUPPORTED, NOT_FOUND, INSUFFICIENT_SIZE, LOST, VERSION, UNKNOWN = 1, 2, 3, 6, 7, 15, 25, 999


@contextmanager
def refused(code: int) -> Iterator[None]:
    import pynvml

    with pytest.raises(pynvml.NVMLError) as error:
        yield
    assert error.value.value == code


def test_eight_healthy_h100_answer_without_a_scenario(libraries: Libraries) -> None:
    script = (
        "import pynvml as n; n.nvmlInit(); h = [n.nvmlDeviceGetHandleByIndex(i) for i in range(n.nvmlDeviceGetCount())]; "
        "print(len(h), len({n.nvmlDeviceGetUUID(x) for x in h}), len({n.nvmlDeviceGetSerial(x) for x in h}), n.nvmlDeviceGetName(h[7]))"
    )
    environment = {"LD_LIBRARY_PATH": str(libraries.folder), "PATH": os.environ["PATH"]}
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "8 8 8 NVIDIA H100 80GB HBM3\n"


def test_readings_come_from_the_scenario(nvml: Nvml) -> None:
    n = nvml("driver.version = 550.54.15", "gpu.count = 4", "gpu.3.ecc.volatile.uncorrected = 12", "gpu.*.power.usage = 1000",
             "gpu.1.power.usage = 2000", "gpu.2.pci = 0001:9d:00.0", "gpu.0.name = one # a comment", "# another", "")
    first, second, third, fourth = (n.nvmlDeviceGetHandleByIndex(index) for index in range(4))
    assert n.nvmlSystemGetDriverVersion() == "550.54.15"
    assert n.nvmlDeviceGetCount() == 4
    assert n.nvmlDeviceGetTotalEccErrors(fourth, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC) == 12
    assert n.nvmlDeviceGetTotalEccErrors(fourth, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_AGGREGATE_ECC) == 0
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
}


@pytest.mark.parametrize("function", HEALTHY)
def test_a_healthy_gpu_answers_as_an_h100(nvml: Nvml, function: str) -> None:
    arguments, answer = HEALTHY[function]
    n = nvml()
    assert getattr(n, function)(n.nvmlDeviceGetHandleByIndex(0), *arguments) == answer


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


def test_row_remapping_of_a_healthy_gpu_has_all_banks_spare(nvml: Nvml) -> None:
    n = nvml("gpu.0.rows.banks.max = 2550", "gpu.0.rows.banks.high = 10")
    values = n.nvmlDeviceGetRowRemapperHistogram(n.nvmlDeviceGetHandleByIndex(0))
    assert (values.max, values.high, values.partial, values.low, values.none) == (2550, 10, 0, 0, 0)


def test_a_field_is_there_or_says_that_it_is_not_supported(nvml: Nvml) -> None:
    n = nvml("gpu.0.field.82 = 41", "gpu.0.field.83 = unsupported")
    there, not_there, unset = n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), [82, 83, 84])
    assert (there.nvmlReturn, there.value.ullVal, there.valueType) == (0, 41, n.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG)
    assert not_there.nvmlReturn == unset.nvmlReturn == NOT_SUPPORTED


def test_a_gpu_is_found_by_what_identifies_it(nvml: Nvml) -> None:
    n = nvml("gpu.5.uuid = GPU-five", "gpu.5.serial = 12345", "gpu.5.pci = 0000:c3:00.0")
    for handle in (n.nvmlDeviceGetHandleByUUID(b"GPU-five"), n.nvmlDeviceGetHandleBySerial(b"12345"),
                   n.nvmlDeviceGetHandleByPciBusId(b"00000000:C3:00.0"), n.nvmlDeviceGetHandleByPciBusId(b"0000:c3:00.0")):
        assert n.nvmlDeviceGetIndex(handle) == 5
    for search in (n.nvmlDeviceGetHandleByUUID, n.nvmlDeviceGetHandleBySerial, n.nvmlDeviceGetHandleByPciBusId):
        with refused(NOT_FOUND):
            search(b"none of these")


def test_a_lost_gpu_is_counted_and_answers_nothing(nvml: Nvml) -> None:
    n = nvml("gpu.5.error = 15", "gpu.5.uuid = GPU-five")
    assert n.nvmlDeviceGetCount() == 8
    for ask in (lambda: n.nvmlDeviceGetHandleByIndex(5), lambda: n.nvmlDeviceGetHandleByUUID(b"GPU-five")):
        with refused(LOST):
            ask()
    assert n.nvmlDeviceGetIndex(n.nvmlDeviceGetHandleByIndex(6)) == 6


def test_every_call_on_a_gpu_that_is_lost_later_says_so(libraries: Libraries, nvml: Nvml, tmp_path: Path) -> None:
    n = nvml("gpu.5.serial = 1")
    handle = n.nvmlDeviceGetHandleByIndex(5)
    n.nvmlShutdown()
    (tmp_path / "scenario").write_text("gpu.5.error = 15\n")
    n.nvmlInit()
    for function, (arguments, _) in HEALTHY.items():
        with refused(LOST):
            getattr(n, function)(handle, *arguments)


@pytest.mark.parametrize(("value", "code"), [("unsupported", NOT_SUPPORTED), ("error 4", 4), ("a lot", UNKNOWN), ("-1", UNKNOWN)])
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


@pytest.mark.parametrize("call", [
    "nvmlDeviceGetTotalEccErrors 2 0", "nvmlDeviceGetTotalEccErrors 0 2", "nvmlDeviceGetMemoryErrorCounter 1 0 8",
    "nvmlDeviceGetTemperature 1",
    "nvmlDeviceGetTemperatureThreshold 4", "nvmlDeviceGetClockInfo 4", "nvmlDeviceGetNvLinkState 18", "nvmlDeviceGetNvLinkErrorCounter 0 5",
])
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
    ("nvmlDeviceGetName", (None, 64)), ("nvmlDeviceGetPowerUsage", (None,)), ("nvmlDeviceGetTotalEnergyConsumption", (None,)),
    ("nvmlDeviceGetEccMode", (None, None)), ("nvmlDeviceGetIndex", (None,)), ("nvmlDeviceGetMinorNumber", (None,)),
    ("nvmlDeviceGetPciInfo_v3", (None,)), ("nvmlDeviceGetMemoryInfo", (None,)), ("nvmlDeviceGetMemoryInfo_v2", (None,)),
    ("nvmlDeviceGetTotalEccErrors", (1, 0, None)), ("nvmlDeviceGetMemoryErrorCounter", (1, 0, 2, None)),
    ("nvmlDeviceGetRemappedRows", (None, None, None, None)), ("nvmlDeviceGetRowRemapperHistogram", (None,)),
    ("nvmlDeviceGetTemperature", (0, None)), ("nvmlDeviceGetNvLinkState", (0, None)), ("nvmlDeviceGetNvLinkErrorCounter", (0, 0, None)),
    ("nvmlDeviceGetFieldValues", (1, None)), ("nvmlDeviceGetComputeRunningProcesses_v3", (None, None)),
)
OF_THE_LIBRARY = (
    ("nvmlSystemGetDriverVersion", (None, 80)), ("nvmlSystemGetNVMLVersion", (None, 80)), ("nvmlSystemGetCudaDriverVersion_v2", (None,)),
    ("nvmlDeviceGetCount_v2", (None,)), ("nvmlDeviceGetHandleByIndex_v2", (0, None)), ("nvmlDeviceGetHandleByUUID", (None, None)),
)


def test_a_null_pointer_is_invalid_everywhere(nvml: Nvml, libraries: Libraries) -> None:
    n, raw = nvml(), library(libraries)
    handle = n.nvmlDeviceGetHandleByIndex(0)
    answers = {name: getattr(raw, name)(handle, *rest) for name, rest in OF_A_GPU}
    answers |= {name: getattr(raw, name)(*arguments) for name, arguments in OF_THE_LIBRARY}
    assert answers == dict.fromkeys(answers, INVALID_ARGUMENT)


def test_nothing_answers_before_init_and_after_the_last_shutdown(nvml: Nvml, libraries: Libraries) -> None:
    raw = library(libraries)

    def answers() -> set[int]:
        return {getattr(raw, name)(None, *rest) for name, rest in OF_A_GPU} | {getattr(raw, name)(*rest) for name, rest in OF_THE_LIBRARY}

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
        b"Success", b"Not Supported", b"Driver Not Loaded", b"GPU is lost", b"RM has detected an NVML/RM version mismatch.",
        b"Unknown Error", b"Unknown Error",
    ]


def test_a_function_that_is_not_there_is_an_older_driver(nvml: Nvml) -> None:
    with refused(13):
        nvml().nvmlSystemGetHicVersion()
