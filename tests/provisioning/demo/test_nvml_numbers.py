"""Every number of the simulated library, and every number that the NVML reader asks for, against NVIDIA's own
binding and against recorded output of real tools: reader and simulation cannot share a guess.

The disputed fields are those of help topic `gpu`: tests/recordings/nvml/bindings.json holds what nine
releases of NVIDIA's binding say of them.
"""

from __future__ import annotations

import ctypes
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pynvml
import pytest

from healthcheck.collector.onnode import nvml as reader
from provisioning.demo import build

SOURCE = Path(build.__file__).with_name("nvml.c").read_text()
RECORDED = Path(__file__).parents[2] / "recordings"
BINDINGS: dict[str, dict[str, Any]] = json.loads((RECORDED / "nvml/bindings.json").read_text())
HELP = (Path(reader.__file__).parents[2] / "help/gpu.md").read_text()

Nvml = Callable[..., Any]

# The binding's name of each field, by the scenario's key (of a link: with its scope).
FIELDS = {
    "GPU pages.retired.corrected": "RETIRED_SBE", "GPU pages.retired.uncorrected": "RETIRED_DBE",
    "GPU pages.pending": "RETIRED_PENDING", "GPU slowdown.power": "PERF_POLICY_POWER",
    "GPU slowdown.thermal": "PERF_POLICY_THERMAL", "GPU temperature.memory": "MEMORY_TEMP",
    "GPU nvlink.count": "NVLINK_LINK_COUNT", "GPU pcie.replays": "PCIE_REPLAY_COUNTER",
    "NVLINK replay": "NVLINK_ERROR_DL_REPLAY", "NVLINK recovery": "NVLINK_ERROR_DL_RECOVERY",
    "NVLINK speed": "NVLINK_GET_SPEED", "NVLINK state": "NVLINK_GET_STATE",
    "NVLINK version": "NVLINK_GET_VERSION", "GPU c2c.count": "C2C_LINK_COUNT",
    "C2C state": "C2C_LINK_GET_STATUS", "GPU tlimit.shutdown": "TEMPERATURE_SHUTDOWN_TLIMIT",
    "GPU tlimit.slowdown": "TEMPERATURE_SLOWDOWN_TLIMIT", "GPU tlimit.memory": "TEMPERATURE_MEM_MAX_TLIMIT",
    "GPU tlimit.gpu": "TEMPERATURE_GPU_MAX_TLIMIT",
    "NVLINK malformed_packets": "NVLINK_COUNT_MALFORMED_PACKET_ERRORS",
    "NVLINK buffer_overruns": "NVLINK_COUNT_BUFFER_OVERRUN_ERRORS",
    "NVLINK rx_errors": "NVLINK_COUNT_RCV_ERRORS",
    "NVLINK local_integrity_errors": "NVLINK_COUNT_LOCAL_LINK_INTEGRITY_ERRORS",
    "NVLINK link_recovery_failed": "NVLINK_COUNT_LINK_RECOVERY_FAILED_EVENTS",
    "NVLINK link_recovery_events": "NVLINK_COUNT_LINK_RECOVERY_EVENTS",
    "NVLINK effective_errors": "NVLINK_COUNT_EFFECTIVE_ERRORS",
    "NVLINK effective_ber": "NVLINK_COUNT_EFFECTIVE_BER",
    "NVLINK symbol_errors": "NVLINK_COUNT_SYMBOL_ERRORS",
    "NVLINK symbol_ber": "NVLINK_COUNT_SYMBOL_BER", "NVLINK raw_ber": "NVLINK_COUNT_RAW_BER_V2",
    "GPU recovery_action": "GET_GPU_RECOVERY_ACTION", "C2C crc_errors": "C2C_LINK_ERROR_INTR",
    "C2C replays": "C2C_LINK_ERROR_REPLAY",
    **{f"NVLINK fec.{bin}": f"NVLINK_COUNT_FEC_HISTORY_{bin}" for bin in range(16)},
    "GPU rows.corrected.inactive": "REMAPPED_ROWS_COR_INACTIVE",
    "GPU rows.uncorrected.inactive": "REMAPPED_ROWS_UNC_INACTIVE",
    "GPU banks.remapped": "ACTIVE_BANK_REMAPPINGS",
    "GPU banks.none": "BANK_REMAPPER_HISTOGRAM_NONE", "GPU banks.pending": "PENDING_BANK_REMAPPING",
}
# The same for the reader, by the key of its line.
READ = {
    "pages_retired_corrected": "RETIRED_SBE", "pages_retired_uncorrected": "RETIRED_DBE",
    "pages_pending": "RETIRED_PENDING", "slowdown_power_ns": "CLOCKS_EVENT_REASON_SW_POWER_CAP",
    "slowdown_thermal_ns": "PERF_POLICY_THERMAL", "temperature_memory_c": "MEMORY_TEMP",
    "tlimit_shutdown_c": "TEMPERATURE_SHUTDOWN_TLIMIT", "tlimit_slowdown_c": "TEMPERATURE_SLOWDOWN_TLIMIT",
    "tlimit_memory_max_c": "TEMPERATURE_MEM_MAX_TLIMIT", "tlimit_gpu_max_c": "TEMPERATURE_GPU_MAX_TLIMIT",
    "recovery_action": "GET_GPU_RECOVERY_ACTION", "rows_corrected_inactive": "REMAPPED_ROWS_COR_INACTIVE",
    "rows_uncorrected_inactive": "REMAPPED_ROWS_UNC_INACTIVE", "banks_remapped": "ACTIVE_BANK_REMAPPINGS",
    "bank_remap_none": "BANK_REMAPPER_HISTOGRAM_NONE", "bank_remap_pending": "PENDING_BANK_REMAPPING",
}
TIMES = tuple(f"NVML_FI_DEV_CLOCKS_EVENT_REASON_{name}_SLOWDOWN"
              for name in ("SW_THERM", "HW_THERM", "HW_POWER_BRAKE"))
LIFE = "NVML_FI_PWR_SMOOTHING_HW_CIRCUITRY_PERCENT_LIFETIME_REMAINING"
# Enumerators of the source that are ours and not NVML's, and those that the binding calls otherwise.
OURS = {"MOST_GPUS", "MOST_INSTANCES", "NVLINKS", "KEY", "NO_INSTANCE"}
OTHERWISE = {"CLOCKS_EVENT_REASON_GPU_IDLE": "nvmlClocksEventReasonGpuIdle",
             "NVLINK_VERSION": "NVML_NVLINK_VERSION_5_0"}   # disputed: the help topic
LAYOUTS: dict[str, Any] = {
    "nvmlPciInfo_t": pynvml.nvmlPciInfo_t, "nvmlMemory_t": pynvml.c_nvmlMemory_t,
    "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t, "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
    "nvmlEccSramErrorStatus_t": pynvml.c_nvmlEccSramErrorStatus_v1_t,
    "nvmlMarginTemperature_t": pynvml.c_nvmlMarginTemperature_v1_t,
    "nvmlRepairStatus_t": pynvml.c_nvmlRepairStatus_t,
    "nvmlRowRemapperHistogramValues_t": pynvml.c_nvmlRowRemapperHistogramValues,
    "nvmlC2cModeInfo_v1_t": pynvml.c_nvmlC2cModeInfo_v1_t,
    "nvmlGpuFabricInfo_t": pynvml.c_nvmlGpuFabricInfo_t,
    "nvmlGpuFabricInfo_v2_t": pynvml.c_nvmlGpuFabricInfo_v2_t,
    "nvmlGpuFabricInfo_v3_t": pynvml.c_nvmlGpuFabricInfo_v3_t,
    "nvmlPlatformInfo_t": pynvml.c_nvmlPlatformInfo_v2_t, "nvmlFieldValue_t": pynvml.c_nvmlFieldValue_t,
    "nvmlProcessInfo_t": pynvml.c_nvmlProcessInfo_t,
}
VERSIONS = {
    ("nvmlMarginTemperature_t", 1): pynvml.nvmlMarginTemperature_v1,
    ("nvmlMemory_v2_t", 2): pynvml.nvmlMemory_v2,
    ("nvmlEccSramErrorStatus_t", 1): pynvml.nvmlEccSramErrorStatus_v1,
    ("nvmlRepairStatus_t", 1): pynvml.nvmlRepairStatus_v1,
    ("nvmlGpuFabricInfo_v2_t", 2): pynvml.nvmlGpuFabricInfo_v2,
    ("nvmlGpuFabricInfo_v3_t", 3): pynvml.nvmlGpuFabricInfo_v3,
    ("nvmlPlatformInfo_t", 1): pynvml.nvmlPlatformInfo_v1,
    ("nvmlPlatformInfo_t", 2): pynvml.nvmlPlatformInfo_v2,
}


def number(name: str) -> int:
    """A number of the binding, of which one is a tuple by a stray comma."""
    value = getattr(pynvml, name)
    return int(value[0] if isinstance(value, tuple) else value)


def rows(pattern: str) -> list[tuple[str, ...]]:
    """What a pattern finds in the source; a test that finds nothing would pass."""
    found = [match.groups() for match in re.finditer(pattern, SOURCE)]
    assert found, pattern
    return found


def test_each_field_of_the_simulation_has_the_number_that_the_binding_gives_it() -> None:
    found = {f"{scope} {key}": int(id) for id, scope, key in
             rows(r"\bF\((\d+), (\w+), \w+, \"([\w.]+)\"") + rows(r"\bLACKING\((\d+), (\w+), \"([\w.]+)\"")}
    assert found == {key: number(f"NVML_FI_DEV_{name}") for key, name in FIELDS.items()}


def test_each_field_of_the_reader_has_the_number_that_the_binding_gives_it() -> None:
    assert {key: number(f"NVML_FI_DEV_{name}") for key, name in READ.items()} == reader.FIELDS
    assert reader.LINK_COUNT == pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT
    assert reader.C2C_COUNT == pynvml.NVML_FI_DEV_C2C_LINK_COUNT
    for numbers, names in (
        (reader.LINK_FIELDS, "GET_VERSION GET_SPEED ERROR_DL_REPLAY ERROR_DL_RECOVERY"),
        (reader.NVLINK5, " ".join(f"COUNT_{name}" for name in (
            "MALFORMED_PACKET_ERRORS", "BUFFER_OVERRUN_ERRORS", "RCV_ERRORS", "LOCAL_LINK_INTEGRITY_ERRORS",
            "LINK_RECOVERY_FAILED_EVENTS", "LINK_RECOVERY_EVENTS", "EFFECTIVE_ERRORS", "EFFECTIVE_BER",
            "SYMBOL_ERRORS", "SYMBOL_BER", "RAW_BER_V2"))),
        (reader.FEC, " ".join(f"COUNT_FEC_HISTORY_{bin}" for bin in range(16))),
    ):
        assert list(numbers) == [number(f"NVML_FI_DEV_NVLINK_{name}") for name in names.split()]
    assert list(reader.C2C) == [number(f"NVML_FI_DEV_C2C_LINK_{name}")
                                for name in ("GET_STATUS", "ERROR_INTR", "ERROR_REPLAY")]
    assert {value for key, value in reader.FIELDS.items() if key.startswith("tlimit_")} == reader.SIGNED


def test_the_numbers_that_the_reader_names_are_the_bindings() -> None:
    def named(prefix: str, words: tuple[str, ...]) -> dict[str, int]:
        return {f"{prefix}{word.upper()}": at for at, word in enumerate(words) if word}

    tables = {
        **named("NVML_DEVICE_ARCH_", reader.ARCHITECTURES),
        **named("NVML_COMPUTEMODE_", reader.COMPUTE_MODES),
        **named("NVML_GPU_FABRIC_STATE_", reader.FABRIC_STATES),
        **named("NVML_GPU_FABRIC_HEALTH_SUMMARY_", reader.FABRIC_SUMMARIES),
        **named("NVML_GPU_RECOVERY_ACTION_", reader.ACTIONS),
        "NVML_ERROR_INVALID_ARGUMENT": reader.INVALID_ARGUMENT,
        "NVML_ERROR_NOT_SUPPORTED": reader.NOT_SUPPORTED,
        "NVML_ERROR_FUNCTION_NOT_FOUND": reader.FUNCTION_NOT_FOUND, "NVML_ERROR_UNKNOWN": reader.UNKNOWN,
        "NVML_ERROR_ARGUMENT_VERSION_MISMATCH": reader.VERSION_MISMATCH,
        "NVML_ERROR_LIBRARY_NOT_FOUND": reader.LIBRARY_NOT_FOUND, "NVML_ERROR_NOT_FOUND": reader.NOT_FOUND,
    }
    assert tables == {name: number(name) for name in tables}
    assert [reader.BEFORE_NVLINK5[0], reader.BEFORE_NVLINK5[-1]] == [
        pynvml.NVML_DEVICE_ARCH_KEPLER, pynvml.NVML_DEVICE_ARCH_HOPPER]
    assert list(reader.P2P) == [number(f"NVML_P2P_CAPS_INDEX_{name}") for name in ("READ", "WRITE", "NVLINK")]
    assert list(reader.LINK_ERRORS) == [number(f"NVML_NVLINK_ERROR_DL_{name}")
                                        for name in ("CRC_FLIT", "CRC_DATA", "ECC_DATA")]
    wide = ("DOUBLE", "UNSIGNED_LONG", "UNSIGNED_LONG_LONG", "SIGNED_LONG_LONG")
    assert set(reader.WIDE) == {number(f"NVML_VALUE_TYPE_{name}") for name in wide}
    members = {"dVal": "DOUBLE", "uiVal": "UNSIGNED_INT", "ulVal": "UNSIGNED_LONG",
               "ullVal": "UNSIGNED_LONG_LONG",
               "sllVal": "SIGNED_LONG_LONG", "siVal": "SIGNED_INT", "usVal": "UNSIGNED_SHORT"}
    assert {number(f"NVML_VALUE_TYPE_{type}"): member for member, type in members.items()} == reader.TYPES


def test_the_platform_is_read_from_the_bytes_where_the_binding_has_it() -> None:
    layout = pynvml.c_nvmlPlatformInfo_v2_t
    names = ("chassisSerialNumber", "slotNumber", "trayIndex", "hostId", "peerType", "moduleId")
    assert [getattr(layout, name).offset for name in names] == [20, 36, 37, 38, 39, 40]


def test_each_error_has_the_number_that_the_binding_gives_it(libraries: build.Libraries) -> None:
    found = {name: int(code) for code, name in rows(r"\bE\((\d+), (\w+), ")}
    theirs = {name.removeprefix("NVML_ERROR_"): value for name, value in vars(pynvml).items()
              if name.startswith("NVML_ERROR_")}
    assert found == {"SUCCESS": 0, **theirs}


def test_each_enumerator_has_the_number_that_the_binding_gives_it() -> None:
    inside = ", ".join(body for (body,) in rows(r"enum \{ ([^}]*) \}"))
    found = {name: int(value) for name, value in re.findall(r"(\w+) = (-?\w+)", inside) if name not in OURS}
    assert len(found) > 15
    assert found == {name: number(OTHERWISE.get(name, f"NVML_{name}")) for name in found}


def test_each_part_of_the_health_mask_lies_where_the_binding_has_it() -> None:
    for name, shift, well in rows(r"\bM\((\w+), (\d+), (\d+)\)"):
        prefix = "NVML_GPU_FABRIC_HEALTH_MASK_"
        assert int(shift) == number(f"{prefix}SHIFT_{name}")
        word = "NONE" if name == "INCORRECT_CONFIGURATION" else "FALSE"
        assert int(well) == number(f"{prefix}{name}_{word}")


def test_each_layout_has_the_size_that_the_binding_gives_it() -> None:
    sizes = {name: int(size) for name, size in rows(r"sizeof\((nvml\w+)\) == (\d+)")}
    assert sizes == {name: ctypes.sizeof(layout) for name, layout in LAYOUTS.items()}
    assert set(sizes) == {name for (name,) in rows(r"\} (nvml\w+_t);")}


def test_each_version_is_the_bindings() -> None:
    used = {(name, int(version)) for name, version in rows(r"\b(?:ENTER_)?VERSION\((nvml\w+), (\d)\)")}
    assert used == set(VERSIONS)
    assert {key: ctypes.sizeof(LAYOUTS[key[0]]) | key[1] << 24 for key in used} == VERSIONS


def test_what_stands_in_an_order_is_asked_for_by_the_bindings_numbers(nvml: Nvml) -> None:
    n = nvml("gpu.0.p2p.1.read = 1", "gpu.0.p2p.1.write = 2", "gpu.0.p2p.1.nvlink = 3",
             "gpu.0.p2p.1.atomics = 4",
             "gpu.0.p2p.1.pci = 5", "gpu.0.nvlink.0.replay = 1", "gpu.0.nvlink.0.recovery = 2",
             "gpu.0.nvlink.0.crc_flit = 3", "gpu.0.nvlink.0.crc_data = 4", "gpu.0.nvlink.0.ecc_data = 5")
    zero, one = n.nvmlDeviceGetHandleByIndex(0), n.nvmlDeviceGetHandleByIndex(1)
    kinds = [number(f"NVML_P2P_CAPS_INDEX_{name}") for name in ("READ", "WRITE", "NVLINK", "ATOMICS", "PCI")]
    assert [n.nvmlDeviceGetP2PStatus(zero, one, kind) for kind in kinds] == [1, 2, 3, 4, 5]
    errors = [number(f"NVML_NVLINK_ERROR_DL_{name}")
              for name in ("REPLAY", "RECOVERY", "CRC_FLIT", "CRC_DATA", "ECC_DATA")]
    assert [n.nvmlDeviceGetNvLinkErrorCounter(zero, 0, kind) for kind in errors] == [1, 2, 3, 4, 5]
    clocks = [number(f"NVML_CLOCK_{name}") for name in ("GRAPHICS", "SM", "MEM", "VIDEO")]
    assert [n.nvmlDeviceGetMaxClockInfo(zero, kind) for kind in clocks] == [1980, 1980, 2619, 1545]
    limits = [number(f"NVML_TEMPERATURE_THRESHOLD_{name}")
              for name in ("SHUTDOWN", "SLOWDOWN", "MEM_MAX", "GPU_MAX")]
    log = (RECORDED / "nvidia-smi/h100-q-x.xml").read_text()
    printed = [re.search(rf"<gpu_temp_{name}_threshold>(\d+) C", log)
               for name in ("max", "slow", "max_mem", "max_gpu")]
    assert [n.nvmlDeviceGetTemperatureThreshold(zero, kind) for kind in limits] == [
        int(each[1]) for each in printed if each]


def test_a_healthy_gpu_is_as_real_nvidia_smi_prints_an_h100(nvml: Nvml) -> None:
    n = nvml()
    gpu = n.nvmlDeviceGetHandleByIndex(0)
    first, *links = (RECORDED / "nvidia-smi/h100-nvlink-s.txt").read_text().split("GPU 1:")[0].splitlines()
    assert n.nvmlDeviceGetName(gpu) in first
    speeds = [value.value.uiVal for value in n.nvmlDeviceGetFieldValues(
        gpu, [(pynvml.NVML_FI_DEV_NVLINK_GET_SPEED, link) for link in range(len(links))])]
    assert [f"{speed / 1000:.3f} GB/s" for speed in speeds] == [line.partition(": ")[2] for line in links]
    (count,) = n.nvmlDeviceGetFieldValues(gpu, [pynvml.NVML_FI_DEV_NVLINK_LINK_COUNT])
    assert count.value.uiVal == len(links) == 18
    row = (RECORDED / "nvidia-smi/h100-query.csv").read_text().splitlines()[1].split(", ")
    assert row[3:] == [
        str(n.nvmlDeviceGetTotalEccErrors(gpu, n.NVML_MEMORY_ERROR_TYPE_UNCORRECTED, n.NVML_VOLATILE_ECC)),
        "Enabled" if n.nvmlDeviceGetEccMode(gpu) == [1, 1] else "",
        str(n.nvmlDeviceGetCurrPcieLinkGeneration(gpu)),
        str(n.nvmlDeviceGetCurrPcieLinkWidth(gpu)), f"{n.nvmlDeviceGetCurrentClocksEventReasons(gpu):#018x}"]


# What is disputed

def answering(n: Any, asked: range) -> dict[int, tuple[int, int]]:
    """Type and value of the fields of GPU 0 that answer."""
    values = n.nvmlDeviceGetFieldValues(n.nvmlDeviceGetHandleByIndex(0), list(asked))
    return {number: (each.valueType, each.value.ullVal) for number, each in zip(asked, values, strict=True)
            if not each.nvmlReturn}


@pytest.mark.parametrize("release", BINDINGS)
def test_a_driver_has_the_fields_that_the_binding_of_its_release_gives_it(nvml: Nvml, release: str) -> None:
    said = BINDINGS[release]["fields"]
    smoothing = {value for name, value in said.items() if "PWR_SMOOTHING" in name}
    n = nvml(f"driver.version = {release.partition('.')[2]}.06", "gpu.0.smoothing = 32",
             "gpu.0.slowdown.sw_thermal = 7", "gpu.0.slowdown.hw_thermal = 8",
             "gpu.0.slowdown.hw_power_brake = 9")
    found = answering(n, range(251, 275))
    times = [said[name] for name in TIMES if name in said]
    assert set(found) == smoothing | set(times)
    assert [found[number] for number in times] == [(pynvml.NVML_VALUE_TYPE_UNSIGNED_LONG_LONG, value)
                                                   for value in (7, 8, 9)[:len(times)]]
    assert not smoothing or found[said[LIFE]] == (pynvml.NVML_VALUE_TYPE_UNSIGNED_INT, 100)


def test_the_reader_asks_for_both_numberings_that_the_bindings_have_and_the_help_names_them() -> None:
    known = {tuple(said["fields"][name]
                   for name in (*TIMES, LIFE)): said["fields"]["NVML_FI_PWR_SMOOTHING_ENABLED"]
             for said in BINDINGS.values() if TIMES[0] in said["fields"]}
    assert set(known) == {(*reader.EARLIER, reader.LIFE_EARLIER), (*reader.LATER, reader.LIFE_LATER)}
    assert known[(*reader.EARLIER, reader.LIFE_EARLIER)] == reader.ON_EARLIER
    assert tuple(number(name) for name in (*TIMES, LIFE)) in known
    first = {numbers: next(release for release, said in BINDINGS.items()
                           if said["fields"].get(TIMES[0]) == numbers[0])
             for numbers in (reader.EARLIER, reader.LATER)}
    disputed = HELP[HELP.index("## Disputed"):]
    for numbers, release in first.items():
        row = next(line for line in disputed.splitlines() if f"{numbers[0]} to {numbers[2]}" in line)
        assert release in row


def test_no_setting_of_a_healthy_gpu_is_as_large_as_the_reader_takes_for_a_time() -> None:
    (line,) = rows(r"settings\[\] = \{ ([\d, ]+) \}")
    healthy = [int(value) for value in line[0].split(", ")]
    assert all(value <= most for value, most in zip(healthy, reader.MOST_SWITCHES, strict=False))
    at = reader.LATER[0] - BINDINGS["13.580.65"]["fields"]["NVML_FI_PWR_SMOOTHING_ENABLED"]
    assert all(value <= most for value, most in zip(healthy[at:], reader.MOST_PROFILE, strict=False))
