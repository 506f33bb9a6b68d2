"""nvidia-smi as the second source: its log gives the facts that NVML would have given, and no log, however
broken, gives more.

The forms are those of public logs and of the manual page; see tests/recordings/nvidia-smi/README.md.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts import smi
from healthcheck.facts.base import Captures
from healthcheck.facts.gpu import NVML, Gpu, gpu_presence, gpus
from healthcheck.facts.limits import SMI_ELEMENTS, SMI_TEXT
from healthcheck.facts.values import UNSUPPORTED, Partial, Unmeasured, Unread, reading
from healthcheck.model.probes import Probe
from healthcheck.model.recording import Capture, Outcome
from provisioning.demo.build import build
from tests.healthcheck import machine
from tests.testbed.collector import collect
from tests.tries import tries

HERE = Path(__file__).parents[2] / "recordings/nvidia-smi"
LOG = (HERE / "h100-q-x.xml").read_text()
NO_NVML = Capture(Outcome.CRASHED, exit=-11)


def printed(text: str, exit_status: int = 0, outcome: Outcome = Outcome.DONE, stderr: str = "") -> Capture:
    return Capture(outcome, exit=exit_status, seconds=2.0, bytes=len(text), text=text, stderr=stderr)


def by_smi(text: str, exit_status: int = 0, nvml: Capture = NO_NVML) -> Any:
    return gpus(Captures(machine.recording(gpu_nvml=nvml, gpu_smi=printed(text, exit_status))))


def one(text: str) -> Gpu:
    (gpu,) = by_smi(text)
    assert isinstance(gpu, Gpu)
    return gpu


def changed(element: str, *values: str) -> str:
    """The log with other text in the first elements of this name."""
    text = LOG
    for value in values or ("N/A",):
        before, start, rest = text.partition(f"<{element}>")
        assert start, element
        text = before + f"<{element} >" + value + rest[rest.index("</"):]
    return text.replace(f"<{element} >", f"<{element}>")


# ---- the same facts ----

def test_nvidia_smi_fills_every_field_that_it_has_just_as_nvml_does() -> None:
    """The log of driver 550 with what later ones print besides."""
    margins = "".join(f"<gpu_temp_{name}_tlimit_threshold>{margin} C</gpu_temp_{name}_tlimit_threshold>"
                      for name, margin in (("max", -8), ("slow", -2), ("max_gpu", 0), ("max_mem", 0)))
    later = LOG.replace("<temperature>", f"<temperature>{margins}").replace(
        "<health>", "<health><summary>Healthy</summary>").replace(
        "</ecc_errors>", "<channel_repair_pending>No</channel_repair_pending>"
                         "<tpc_repair_pending>No</tpc_repair_pending></ecc_errors>")
    (said,) = gpus(Captures(machine.recording(gpu_nvml=machine.nvml(1))))
    gpu = one(later)
    other = {field for field in Gpu.FIELDS if reading(gpu, field) != reading(said, field)}
    assert other == {"caveat", "slowdown_thermal_ns"}
    assert gpu.caveat == "read by nvidia-smi (gpu.nvml crashed (signal 11))"


def test_of_links_to_the_cpu_nvidia_smi_says_only_whether_there_are_any() -> None:
    for mode, value in (("Enabled", Unmeasured), ("Disabled", type(UNSUPPORTED)), ("N/A", type(UNSUPPORTED)),
                        ("ERR!", Unmeasured)):
        gpu = one(changed("c2c_mode", mode))
        assert gpu.model == "NVIDIA H100 80GB HBM3"
        assert {type(reading(gpu, field))
                for field in ("c2c_links", "c2c_links_active", "c2c_replays")} == {value}


def test_links_to_the_cpu_that_are_off_are_not_taken_for_none_beside_a_grace() -> None:
    gpu = one(changed("c2c_mode", "Disabled").replace("NVIDIA H100 80GB HBM3", "NVIDIA GB200"))
    assert gpu.c2c_enabled is False and isinstance(reading(gpu, "c2c_links"), Unmeasured)


def divided(*instances: str, own: str = "N/A") -> Gpu:
    """The log with MIG on, these texts for its instances' uncorrectable errors, and this for its own."""
    blocks = "".join(
        f"<mig_device><index>{number}</index><ecc_error_count><volatile_count>{text}</volatile_count></"
        f"ecc_error_count>"
        f"<fb_memory_usage><total>19968 MiB</total></fb_memory_usage></mig_device>"
        for number, text in enumerate(instances))
    log = changed("current_mig", "Enabled")
    start, end = log.index("<volatile>"), log.index("</volatile>")
    log = log[:start] + log[start:end].replace(">0<", f">{own}<") + log[end:]
    start, end = log.index("<mig_devices>"), log.index("</mig_devices>")
    return one(f"{log[:start]}<mig_devices>{blocks or 'None'}{log[end:]}")


def count(number: str) -> str:
    return f"<sram_uncorrectable>{number}</sram_uncorrectable>"


def test_a_divided_gpu_counts_by_itself_or_else_by_its_instances() -> None:
    """The form of influxdata/telegraf, a100-sxm4-v12.xml (driver 535, MIG)."""
    gpu = divided(count("2"), count("3"))
    assert (gpu.mig, gpu.ecc_uncorrected, gpu.sram_uncorrected,
            gpu.memory_bytes) == (True, 5, 5, 81559 * 2**20)
    assert divided(count("2"), count("3"), own="0").ecc_uncorrected == 0
    assert reading(divided(), "ecc_uncorrected") is UNSUPPORTED
    for odd in ("", count("ERR!"), count("-1"), count("1") * 2, count("GPU is lost")):
        assert isinstance(reading(divided(count("2"), odd), "ecc_uncorrected"), Unmeasured), odd


FAULTS = [
    ("product_name", "NVIDIA A100-SXM4-80GB", "model", "NVIDIA A100-SXM4-80GB"),
    ("product_architecture", "Ada Lovelace", "architecture", "ada"),
    ("persistence_mode", "Disabled", "persistence", False), ("current_mig", "Enabled", "mig", True),
    ("pending_mig", "Enabled", "mig_pending", True),
    ("minor_number", "5", "minor", 5),
    ("compute_mode", "Exclusive_Process", "compute_mode", "exclusive_process"),
    ("reset_required", "Yes", "recovery_action", "gpu_reset"),
    ("drain_and_reset_recommended", "Yes", "recovery_action", "drain_and_reset"),
    ("max_link_gen", "4", "pcie_generation_max", 4), ("current_link_gen", "1", "pcie_generation", 1),
    ("current_link_width", "8x", "pcie_width", 8),
    ("replay_counter", "17", "pcie_replays", 17), ("total", "40960 MiB", "memory_bytes", 40960 * 2**20),
    ("used", "3 MiB", "memory_used_bytes", 3 * 2**20),
    ("current_ecc", "Disabled", "ecc_enabled", False), ("pending_ecc", "Disabled", "ecc_pending", False),
    ("sram_correctable", "4", "ecc_corrected", 4),
    ("dram_correctable", "5", "ecc_corrected", 5), ("sram_uncorrectable_parity", "1", "ecc_uncorrected", 1),
    ("sram_uncorrectable_secded", "2", "ecc_uncorrected", 2),
    ("dram_uncorrectable", "3", "ecc_uncorrected", 3),
    ("sram_threshold_exceeded", "Yes", "sram_threshold_exceeded", True),
    ("remapped_row_corr", "1", "rows_corrected", 1),
    ("remapped_row_unc", "2", "rows_uncorrected", 2), ("remapped_row_pending", "Yes", "rows_pending", True),
    ("remapped_row_failure", "Yes", "rows_failed", True),
    ("row_remapper_histogram_low", "3 bank(s)", "banks_low", 3),
    ("gpu_temp", "91 C", "temperature_c", 91), ("gpu_temp_tlimit", "-2 C", "temperature_margin_c", -2),
    ("memory_temp", "88 C", "temperature_memory_c", 88),
    ("power_draw", "699.5 W", "power_watts", 699.5),
    ("current_power_limit", "500.00 W", "power_limit_watts", 500.0),
    ("sm_clock", "345 MHz", "clock_sm_mhz", 345), ("mem_clock", "1593 MHz", "clock_memory_mhz", 1593),
    ("clocks_event_reason_hw_slowdown", "Active", "clock_reasons", 0x9),
    ("clocks_event_reason_hw_power_brake_slowdown", "Active", "clock_reasons", 0x81),
    ("clocks_event_reasons_counters_hw_power_brake", "25 us", "slowdown_hw_power_brake_ns", 25000),
    ("gpu_util", "97 %", "utilization_percent", 97),
    ("state", "In Progress", "fabric_state", "in_progress"),
    ("status", "Insufficient Resources", "fabric_status", 23), ("cliqueId", "4026", "fabric_clique", 4026),
    ("clusterUuid", "9C6F5AF3-53BF-49B5-A436-B66766C413C3", "fabric_cluster",
     "9c6f5af3-53bf-49b5-a436-b66766c413c3"),
    ("bandwidth", "Degraded", "fabric_health", 0x1A9), ("route_unhealthy", "True", "fabric_health", 0x19A),
    ("incorrect_configuration", "No Partition", "fabric_health", 0x4AA),
    ("route_recovery_in_progress", "N/A", "fabric_health", 0x1A2),
    ("retired_count", "63", "pages_retired_corrected", 63),
    ("pending_retirement", "Yes", "pages_pending", True),
]


@pytest.mark.parametrize(("element", "value", "field", "expected"), FAULTS,
                         ids=[f"{e}-{v}" for e, v, _, _ in FAULTS])
def test_a_value_that_differs_is_read_as_what_it_is(element: str, value: str, field: str,
                                                    expected: object) -> None:
    assert reading(one(changed(element, value)), field) == expected


@pytest.mark.parametrize(("word", "action"), [
    ("None", "none"), ("Reset", "gpu_reset"), ("GPU Reset", "gpu_reset"), ("PF FLR", "gpu_reset"),
    ("Reboot", "node_reboot"), ("OS Reboot", "node_reboot"),
    ("Node Reboot", "node_reboot"), ("Drain P2P", "drain_p2p"), ("Drain and Reset", "drain_and_reset"),
    ("Recover IMEX Domain", "recover_imex_domain"),
    ("Bus Reset", "bus_reset"), ("System Reboot", "system_reboot"), ("Dance", "unknown (Dance)"),
])
def test_what_nvidia_smi_says_that_the_driver_wants_is_a_request_whatever_it_calls_it(
    word: str, action: str,
) -> None:
    start, end = (LOG.index("<gpu_reset_status>"),
                  LOG.index("</gpu_reset_status>") + len("</gpu_reset_status>"))
    assert (one(f"{LOG[:start]}<gpu_recovery_action>{word}</gpu_recovery_action>{LOG[end:]}").recovery_action
            == action)


@pytest.mark.parametrize(("word", "value"),
                         [("N/A", UNSUPPORTED), ("Unknown Error", Unmeasured), ("[GPU is lost]", Unmeasured)])
def test_a_recovery_that_nvidia_smi_does_not_know_of_is_no_request(word: str, value: object) -> None:
    start, end = (LOG.index("<gpu_reset_status>"),
                  LOG.index("</gpu_reset_status>") + len("</gpu_reset_status>"))
    found = reading(one(f"{LOG[:start]}<gpu_recovery_action>{word}</gpu_recovery_action>{LOG[end:]}"),
                    "recovery_action")
    assert found is value if value is UNSUPPORTED else isinstance(found, Unmeasured)


def test_the_forms_of_drivers_before_and_after_are_read_too() -> None:
    newer = LOG.replace("power_draw>", "average_power_draw>").replace(
        LOG[LOG.index("<gpu_reset_status>"):LOG.index("</gpu_reset_status>") + len("</gpu_reset_status>")],
        "<gpu_recovery_action>Drain and Reset</gpu_recovery_action>")
    gpu = one(newer)
    assert (gpu.power_watts, gpu.recovery_action) == (72.0, "drain_and_reset")
    older = one(LOG.replace("clocks_event_reason",
                            "clocks_throttle_reason").replace("gpu_power_readings", "power_readings").replace(
                    "<current_power_limit>", "<enforced_power_limit>").replace("</current_power_limit>",
                                                                               "</enforced_power_limit>"))
    assert (older.clock_reasons, older.power_watts, older.power_limit_watts) == (1, 72.0, 700.0)
    volta = (
        LOG[:LOG.index("<volatile>")]
        + "<volatile><single_bit><total>7</total></single_bit>"
        "<double_bit><total>2</total></double_bit></volatile>"
        + LOG[LOG.index("<aggregate>"):])
    assert (one(volta).ecc_corrected, one(volta).ecc_uncorrected) == (7, 2)
    combined = LOG.replace("<sram_uncorrectable_parity>0</sram_uncorrectable_parity>",
                           "<sram_uncorrectable>6</sram_uncorrectable>").replace(
        "<sram_uncorrectable_secded>0</sram_uncorrectable_secded>", "")
    assert (one(combined).ecc_uncorrected, one(combined).sram_uncorrected_lifetime) == (6, 6)
    unreserved = one(LOG.replace("<reserved>551 MiB</reserved>", ""))
    assert isinstance(reading(unreserved, "memory_used_bytes"), Unmeasured)


# ---- three ways of saying nothing ----

@pytest.mark.parametrize("word", ["N/A", "[N/A]", "[Not Supported]", "Not Supported"])
def test_what_the_device_lacks_is_unsupported(word: str) -> None:
    assert reading(one(changed("current_ecc", word)), "ecc_enabled") is UNSUPPORTED
    assert reading(one(changed("replay_counter", word)), "pcie_replays") is UNSUPPORTED


@pytest.mark.parametrize("word", ["[Unknown Error]", "Unknown Error", "ERR!",
                                  "Requested functionality has been deprecated", "[Insufficient Permissions]",
                                  "", "12 apples", "Enabled-ish", "9" * 50, "[GPU requires a hug]"])
def test_what_nvidia_smi_could_not_tell_is_unmeasured_and_never_a_value(word: str) -> None:
    gpu = one(changed("replay_counter", word))
    replays = reading(gpu, "pcie_replays")
    assert isinstance(replays, Unmeasured)
    assert gpu.answers is True


@pytest.mark.parametrize(("word", "code"), [("[GPU is lost]", 15), ("GPU is lost", 15),
                                            ("[GPU requires reset]", 16)])
def test_a_lost_gpu_does_not_answer(word: str, code: int) -> None:
    gpu = one(changed("gpu_temp", word))
    assert (gpu.answers is False and gpu.trouble == f"{word.strip('[]')} (NVML {code})"
            and isinstance(reading(gpu, "temperature_c"), Unmeasured))


def test_a_block_that_is_not_available_as_a_whole_is_unsupported_in_each_part() -> None:
    start, end = LOG.index("<remapped_rows>"), LOG.index("</remapped_rows>")
    gpu = one(LOG[:start] + "<remapped_rows>N/A" + LOG[end:])
    assert [reading(gpu, field) for field in ("rows_pending", "banks_max",
                                              "rows_corrected")] == [UNSUPPORTED] * 3


def test_a_block_in_place_of_which_there_is_a_word_is_what_the_word_says() -> None:
    """The mock of a vendor's driver 580 prints so of a lost GPU (NVIDIA/k8s-test-infra,
    qx-gb200-lost.xml)."""
    start, end = LOG.index("<remapped_rows>"), LOG.index("</remapped_rows>")
    for word, why in (("GPU is lost", "GPU is lost (error 15)"), ("GPU requires reset", "(error 16)"),
                      ("31 C", "remapped_rows is '31 C', which is not in the documented format")):
        gpu = one(LOG[:start] + "<remapped_rows>" + word + LOG[end:])
        pending = reading(gpu, "rows_pending")
        assert isinstance(pending, Unmeasured) and why in pending.reason
        assert gpu.answers is (word == "31 C")


def test_an_element_that_this_version_does_not_print_is_unmeasured() -> None:
    gpu = one(LOG.replace("<gpu_temp_slow_threshold>92 C</gpu_temp_slow_threshold>", ""))
    assert reading(gpu, "temperature_slowdown_c") == Unmeasured(
        "nvidia-smi: temperature_slowdown_c: it does not print temperature/gpu_temp_slow_threshold (error "
        "-1)")


def test_a_threshold_in_place_of_which_there_is_a_margin_is_unsupported() -> None:
    gpu = one(LOG.replace("<gpu_temp_slow_threshold>92 C</gpu_temp_slow_threshold>",
                          "<gpu_temp_slow_tlimit_threshold>-2 C</gpu_temp_slow_tlimit_threshold>"))
    assert reading(gpu, "temperature_slowdown_c") is UNSUPPORTED


def drawing(**elements: str) -> Gpu:
    """The log whose readings of power are these elements."""
    made = "".join(f"<{name}>{value}</{name}>" for name, value in elements.items())
    return one(LOG.replace("<power_draw>72.00 W</power_draw>", made, 1))


@pytest.mark.parametrize(("average", "instant", "watts", "instantaneous"), [
    ("68.57 W", "68.92 W", 68.57, False), ("N/A", "33.51 W", 33.51, True), ("12.50 W", "N/A", 12.5, False),
    (None, "33.51 W", 33.51, True), ("12.50 W", None, 12.5, False), ("[N/A]", "33.51 W", 33.51, True),
    ("N/A", "N/A", UNSUPPORTED, False), ("ERR!", "33.51 W", Unmeasured, False),
    ("N/A", "[Unknown Error]", Unmeasured, False), ("N/A", "GPU is lost", Unmeasured, False),
])
def test_the_power_draw_is_the_average_else_the_instantaneous_one_and_which_is_said(
    average: str | None, instant: str | None, watts: object, instantaneous: bool,
) -> None:
    gpu = drawing(**{f"{name}_power_draw": text for name, text in
                     (("average", average), ("instant", instant)) if text is not None})
    found = reading(gpu, "power_watts")
    assert isinstance(found, Unmeasured) if watts is Unmeasured else found == watts
    said = "; its power draw is the instantaneous one, as it has no average"
    assert gpu.caveat.endswith(said) is instantaneous


def test_a_counter_below_zero_and_an_empty_number_are_no_values() -> None:
    for element, field in (("remapped_row_unc", "rows_uncorrected"),
                           ("dram_uncorrectable", "ecc_uncorrected"),
                           ("total", "memory_bytes"), ("sm_clock", "clock_sm_mhz"),
                           ("gpu_util", "utilization_percent")):
        for value in ("-1", "-1 MiB", "-1 MHz", "-1 %", ""):
            assert isinstance(reading(one(changed(element, value)), field), Unmeasured), (element, value)


# ---- which source ----

def test_nvml_is_the_source_where_it_answers() -> None:
    found = gpus(Captures(machine.recording(gpu_smi=printed(LOG))))
    assert len(found) == 8 and not any(gpu.caveat for gpu in found)


def test_gpus_are_counted_by_nvidia_smi_where_nvml_has_no_answer() -> None:
    assert gpu_presence(Captures(machine.recording(gpu_nvml=NO_NVML, gpu_smi=printed(LOG)))).listed == 1
    none = gpu_presence(
        Captures(machine.recording(gpu_nvml=NO_NVML, gpu_smi=printed("No devices were found\n", 6))))
    assert (none.listed, none.on_pci) == (0, 8)


def test_fewer_gpus_than_it_says_are_attached_are_a_part() -> None:
    found = by_smi(changed("attached_gpus", "8"))
    assert isinstance(found, Partial) and found.reason == "nvidia-smi lists 8 GPUs, but 1 were read"


# ---- how it ends ----

@pytest.mark.parametrize(("exit_status", "text", "words"), [
    (2, "", "an argument is invalid"), (4, "", "no permission"), (8, "", "power cables"),
    (9, "NVIDIA-SMI has failed because ...\n", "Driver Not Loaded"),
    (10, "", "interrupt"),
    (12, "NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", "Shared Library Not Found"),
    (14, "", "infoROM"), (15, "", "GPU is lost"),
    (255, "Mismatch in versions between nvidia-smi and NVML.\n", "Mismatch in versions"),
])
def test_an_end_without_a_log_says_why(exit_status: int, text: str, words: str) -> None:
    with pytest.raises(Unread, match=words):
        by_smi(text, exit_status)


def test_a_corrupted_inforom_costs_nothing_and_any_other_bad_end_makes_the_log_a_part() -> None:
    assert isinstance(by_smi(LOG + "WARNING: infoROM is corrupted at gpu 0000:18:00.0\n", 14), tuple)
    cut = by_smi(LOG, 15)
    assert (isinstance(cut, Partial) and cut.reason == "nvidia-smi: GPU is lost (exit status 15)"
            and len(cut.value) == 1)


def test_the_gpu_that_it_gives_up_on_is_named() -> None:
    middle = (LOG[:LOG.index("</gpu>")] + "</gpu>\nUnable to determine the device handle for GPU "
              "0000:3B:00.0: GPU is lost.  Reboot the system to recover this GPU\n")
    cut = by_smi(middle, 15)
    assert isinstance(cut, Partial)
    assert [(gpu.answers, gpu.trouble) for gpu in cut.value] == [(True, ""), (False, "GPU is lost (NVML 15)")]


@pytest.mark.parametrize("name", ["h100", "a100"])
def test_a_crash_inside_the_first_gpu_gives_no_gpu_and_no_pass(name: str) -> None:
    text = (HERE / f"{name}-q-x-crashed.xml").read_text()
    found = gpus(Captures(machine.recording(gpu_nvml=NO_NVML, gpu_smi=printed(text, -11, Outcome.CRASHED))))
    assert found == Partial((), "nvidia-smi crashed (signal 11)")


SHORT = (LOG[:LOG.index("<product_brand>")] + LOG[LOG.index("<serial>"):LOG.index("<minor_number>")]
         + LOG[LOG.index("<temperature>"):LOG.index("<supported_gpu_target_temp>")]
         + "</gpu>\n</nvidia_smi_log>\n")


@pytest.mark.parametrize(("text", "step"), [(LOG, 61), (SHORT, 1)], ids=["whole", "short"])
def test_cut_anywhere_the_log_gives_the_whole_gpus_and_only_those(text: str, step: int) -> None:
    two = text.replace("\n</nvidia_smi_log>", text[text.index("\t<gpu id"):text.index("</gpu>")]
                       + "</gpu>\n</nvidia_smi_log>").replace("<attached_gpus>1", "<attached_gpus>2")
    assert len(smi.parse(two).gpus) == 2 and not smi.parse(two).cut
    (whole, _) = smi.parse(two).gpus
    data = two.rstrip()
    for end in range(0, len(data), step):
        try:
            log = smi.parse(data[:end])
        except Unread:
            assert "<gpu" not in data[:end]
            continue
        assert (log.cut and len(log.gpus) == data[:end].count("</gpu>")
                and all(gpu["uuid"] == whole["uuid"] for gpu in log.gpus))


# ---- hostile ----

BOMB = '<!DOCTYPE nvidia_smi_log [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]>'


@pytest.mark.parametrize("text", [
    LOG.replace('<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">', BOMB),
    '<?xml version="1.0"?><!DOCTYPE nvidia_smi_log [<!ENTITY e SYSTEM '
    '"file:///etc/passwd">]><nvidia_smi_log><serial>&e;</serial></nvidia_smi_log>',
    "<?xml version='1.0'?><html><body>nvidia-smi</body></html>", "<nvidia_smi_log" + "<a>" * 5000,
    "nothing at all", "",
], ids=["entities", "external entity", "another document", "unclosed", "no XML", "empty"])
def test_what_is_no_log_is_unread(text: str) -> None:
    with pytest.raises(Unread):
        smi.parse(text)


def test_depth_and_length_are_bounded() -> None:
    deep = LOG.replace("<fan_speed>", "<fan_speed>" + "<a>" * 100 + "</a>" * 100)
    assert "deeper" in smi.parse(deep).cut
    many = LOG.replace("<fan_speed>", "<a/>" * (SMI_ELEMENTS + 1) + "<fan_speed>")
    assert "longer" in smi.parse(many).cut
    assert len(one(changed("serial", "x" * 100_000)).serial) == SMI_TEXT


@settings(deadline=None, max_examples=tries(300))
@given(st.one_of(st.text(max_size=200), st.text(max_size=200).map(lambda text: LOG.replace("N/A", text)),
                 st.integers(0, len(LOG)).flatmap(
                     lambda at: st.text(max_size=20).map(lambda text: LOG[:at] + text + LOG[at:]))))
def test_any_text_is_a_log_of_typed_values_or_unread(text: str) -> None:
    try:
        log = smi.parse(text)
    except Unread:
        return
    for line in log.gpus:
        for key, value in line.items():
            assert (key in ("index", "note") or value.get("na") is True
                    or isinstance(value.get("ok"), (int, str))
                    or len(value["error"]) == 2)
    json.dumps(log.gpus)


# ---- on the node ----

def tree(tmp_path: Path, *, device: bool = True, script: str = "echo asked\n") -> Path:
    (tmp_path / "run").mkdir()
    (tmp_path / "usr/bin").mkdir(parents=True)
    tool = tmp_path / "usr/bin/nvidia-smi"
    tool.write_text(f"#!/bin/sh\n{script}")
    tool.chmod(0o755)
    if device:
        (tmp_path / "proc/driver/nvidia").mkdir(parents=True)
        (tmp_path / "proc/driver/nvidia/version").write_text("NVRM version: ...\n")
    return tmp_path


def snapshot(root: Path, first: Probe = NVML, **how: Any) -> Capture:
    return collect([first, smi.SMI], root, mark=str(root), **how).captures["gpu.smi"]


def simulated(scenario: Path, text: str) -> dict[str, str]:
    scenario.write_text(text)
    return {"MUSTER_NVML_SCENARIO": str(scenario), "LD_LIBRARY_PATH": str(build().folder)}


def test_nvidia_smi_is_not_run_where_nvml_answers(tmp_path: Path) -> None:
    capture = snapshot(tree(tmp_path), env=simulated(tmp_path / "nvml", "gpu.count = 1\n"))
    assert (capture.outcome, capture.note) == (Outcome.MISSING, "not needed: NVML answered")


def test_nvidia_smi_is_not_run_where_there_is_no_nvidia_device(tmp_path: Path) -> None:
    capture = snapshot(tree(tmp_path, device=False))
    assert (capture.outcome, capture.note) == (Outcome.MISSING, "no NVIDIA device")


def test_nvidia_smi_is_run_where_nvml_refuses(tmp_path: Path) -> None:
    capture = snapshot(tree(tmp_path), env=simulated(tmp_path / "nvml", "init = 9\n"))
    assert (capture.outcome, capture.text) == (Outcome.DONE, "asked\n")


def test_nvidia_smi_is_run_where_the_nvml_reader_is_not_to_be_had(tmp_path: Path) -> None:
    assert snapshot(tree(tmp_path), nvml=False).text == "asked\n"


def test_the_real_nvidia_smi_without_a_driver_says_so(tmp_path: Path) -> None:
    real = shutil.which("nvidia-smi")
    if real is None or Path("/proc/driver/nvidia/version").exists():
        pytest.skip("needs the real nvidia-smi (Debian non-free: nvidia-smi, libnvidia-ml1), and no driver")
    done = subprocess.run([real, "-q", "-x"], capture_output=True, text=True, timeout=30)
    captures = Captures(machine.recording(gpu_nvml=NO_NVML,
                                          gpu_smi=printed(done.stdout, done.returncode, stderr=done.stderr)))
    assert smi.trouble(captures) in ((9, "Driver Not Loaded"), (12, "NVML Shared Library Not Found"))


@pytest.mark.parametrize(("limit", "most"), [("SMI_DEPTH", 4), ("SMI_ELEMENTS", 5)])
def test_a_log_as_deep_and_as_long_as_may_be_is_read_and_one_element_more_is_not(
    monkeypatch: pytest.MonkeyPatch, limit: str, most: int,
) -> None:
    text = '<nvidia_smi_log><gpu id="1"></gpu><gpu id="2"><a><b>x</b></a></gpu></nvidia_smi_log>'
    monkeypatch.setattr(smi, limit, most)
    assert smi.parse(text).cut == ""
    monkeypatch.setattr(smi, limit, most - 1)
    assert "deeper or longer" in smi.parse(text).cut
