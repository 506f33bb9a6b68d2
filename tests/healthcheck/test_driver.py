"""The driver's facts and rules: each refusal by its cause, what is no refusal, and nodes without a GPU."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.driver import Driver, driver
from healthcheck.facts.service import services
from healthcheck.facts.values import UNSUPPORTED, Unmeasured, reading, readings
from healthcheck.model.outcome import Owner, Result, Severity, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome
from inventory.model import Node
from tests.healthcheck import machine
from tests.healthcheck.facts.test_smi import LOG, printed
from tests.healthcheck.test_checks import results, said
from tests.tries import tries

PROPRIETARY = ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:15:33 UTC 2024\nGCC "
               "version: gcc\n")


def refused(code: int, words: str) -> Capture:
    text = json.dumps({"error": [code, words]}) + "\n"
    return Capture(Outcome.DONE, seconds=0.1, bytes=len(text), text=text)


def facts(**changes: Capture) -> Driver:
    return driver(Captures(machine.recording(**changes)))


TIMEOUT = Capture(Outcome.TIMEOUT, seconds=10.0, note="no answer within 10 s while starting NVML")
GONE = Capture(Outcome.MISSING)
NOT_RUN = Capture(Outcome.MISSING, note="not run: a process that asked the driver cannot be killed")
SMI_HUNG = Capture(Outcome.TIMEOUT, seconds=20.0)
CRASH = Capture(Outcome.CRASHED, exit=-11)
NO_GPUS = "<?xml version=\"1.0\" ?><nvidia_smi_log><attached_gpus>0</attached_gpus></nvidia_smi_log>"


# ---- the fact ----

def test_a_healthy_driver_says_what_it_is() -> None:
    found = facts()
    assert (found.loads, found.trouble, found.cause, found.caveat) == (True, "", "", "")
    assert (found.version, found.library_version, found.module_version) == ("550.54.15",) * 3
    assert (found.open_module, found.peermem_loaded, found.uvm_loaded,
            found.dmabuf) == (True, True, True, True)
    assert isinstance(reading(found, "gsp_enabled"), Unmeasured)    # 18: the driver decides


@pytest.mark.parametrize(("text", "enabled"), [
    ("EnableGpuFirmware: 0\n", False), ("EnableGpuFirmware: 1\n", True), ("EnableGpuFirmware: 17\n", True)])
def test_whether_the_gsp_is_on_is_read_from_the_modules_parameters(text: str, enabled: bool) -> None:
    assert facts(driver_module=with_files({"/proc/driver/nvidia/params": text})).gsp_enabled is enabled


@pytest.mark.parametrize(("version", "kernel", "possible"), [
    (machine.OPEN_VERSION, "5.12.0-1-generic\n", True), (machine.OPEN_VERSION, "5.11.22-x\n", False),
    (machine.OPEN_VERSION, "6.5.0\n", True),
    (machine.OPEN_VERSION, "4.18.0-553.el8\n", False), (PROPRIETARY, "6.5.0\n", False),
])
def test_dma_buf_needs_the_open_module_and_linux_5_12(version: str, kernel: str, possible: bool) -> None:
    module = with_files({"/proc/driver/nvidia/version": version, "/proc/sys/kernel/osrelease": kernel})
    assert facts(driver_module=module).dmabuf is possible


def with_files(texts: dict[str, str | None]) -> Capture:
    held = machine.module()
    files = {**held.files, **{path: FileCapture(Outcome.MISSING) if text is None
                              else FileCapture(Outcome.DONE, text) for path, text in texts.items()}}
    return Capture(Outcome.DONE, files=files)


def test_without_the_sysfs_file_the_modules_version_is_that_of_proc() -> None:
    assert facts(driver_module=with_files({"/sys/module/nvidia/version": None})).module_version == "550.54.15"
    assert (facts(driver_module=with_files({"/sys/module/nvidia/version": None,
                                            "/proc/driver/nvidia/version": PROPRIETARY})).module_version
            == "550.54.15")


@settings(deadline=None, max_examples=tries(200))
@given(st.sampled_from(sorted(machine.module().files)), st.text(max_size=80))
def test_any_text_in_a_module_file_costs_one_field(path: str, text: str) -> None:
    found = build_fact(FACTS["driver"], Captures(machine.recording(driver_module=with_files({path: text}))))
    assert isinstance(found, Driver) and found.loads is True


def test_a_pass_by_nvidia_smi_says_so_beside_it() -> None:
    found = results(gpu_nvml=CRASH, gpu_smi=printed(LOG))
    assert (found["gpu-answers"].status is Status.PASS
            and found["gpu-answers"].reason == "read by nvidia-smi (gpu.nvml crashed (signal 11))")


def test_nvidia_smi_tells_of_the_driver_where_nvml_is_not_to_be_had() -> None:
    found = facts(gpu_nvml=GONE, gpu_smi=printed(LOG))
    assert (found.loads, found.version, found.cuda) == (True, "550.54.15", "12.4")
    assert found.caveat.startswith("reported by nvidia-smi")


# ---- driver-loads ----

def none_answers(code: int, words: str) -> Capture:
    lines = [machine.nvml().text.splitlines()[0],
             *(json.dumps({"index": index, "error": [code, words]}) for index in range(8))]
    return Capture(Outcome.DONE, seconds=0.1, bytes=1, text="\n".join(lines) + "\n")


def test_where_no_gpu_answers_that_is_the_drivers_matter_and_no_gpus_passes() -> None:
    found = results(gpu_nvml=none_answers(999, "Unknown Error"))
    assert (found["driver-loads"].status, found["gpu-answers"].status) == (Status.FAIL, Status.UNKNOWN)
    assert "driver-loads" in found["gpu-answers"].reason
    denied = results(gpu_nvml=none_answers(4, "Insufficient Permissions"))
    assert (denied["driver-loads"].status, denied["gpu-answers"].status) == (Status.PASS, Status.UNKNOWN)


REFUSALS: list[tuple[dict[str, Capture], str, str, Owner]] = [
    ({"gpu_nvml": refused(9, "Driver Not Loaded")}, "NVML: Driver Not Loaded", "modprobe", Owner.OPERATOR),
    ({"gpu_nvml": refused(18, "Driver/library version mismatch")},
     "NVML: Driver/library version mismatch; the loaded module is 550.54.15", "updated under a loaded module",
     Owner.OPERATOR),
    ({"gpu_nvml": refused(12, "NVML Shared Library Not Found")}, "NVML: NVML Shared Library Not Found",
     "Install", Owner.OPERATOR),
    ({"gpu_nvml": refused(999, "Unknown Error")}, "NVML: Unknown Error", "read the kernel log",
     Owner.OPERATOR),
    ({"gpu_nvml": machine.nvml(0)}, "No devices were found: 8 GPUs are on PCI, and the driver lists none",
     "Power the node off", Owner.DATACENTRE),
    ({"gpu_nvml": none_answers(999, "Unknown Error")},
     "the driver lists 8 GPUs, and none answers: Unknown Error (NVML 999)",
     "Reload the driver", Owner.OPERATOR),
    ({"gpu_nvml": CRASH, "gpu_smi": CRASH}, "gpu.nvml crashed (signal 11); nvidia-smi crashed (signal 11)",
     "Reinstall", Owner.OPERATOR),
    ({"gpu_nvml": GONE,
      "gpu_smi": printed("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n",
                         9)},
     "nvidia-smi: Driver Not Loaded", "modprobe", Owner.OPERATOR),
    ({"gpu_nvml": GONE,
      "gpu_smi": printed(
          "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 550.90\n", 18)},
     "nvidia-smi: Driver/library version mismatch NVML library version: 550.90; the loaded module is "
     "550.54.15", "updated", Owner.OPERATOR),
    ({"gpu_nvml": GONE, "gpu_smi": printed("No devices were found\n", 6)},
     "nvidia-smi: No devices were found", "Power", Owner.DATACENTRE),
    ({"gpu_nvml": GONE,
      "gpu_smi": printed("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.\n", 12)},
     "nvidia-smi: NVML Shared Library Not Found", "Install", Owner.OPERATOR),
]


@pytest.mark.parametrize(("changes", "words", "remedy", "owner"), REFUSALS,
                         ids=[str(n) for n in range(len(REFUSALS))])
def test_a_refusal_of_the_driver_fails_with_the_remedy_of_its_cause(changes: dict[str, Capture], words: str,
                                                                    remedy: str, owner: Owner) -> None:
    result = results(**changes)["driver-loads"]
    assert result.status is Status.FAIL and said(result) == f"driver: {words}, expected a driver that answers"
    (finding,) = result.findings
    assert remedy in (finding.remedy or result.remedy) and (finding.owner or result.owner) is owner


@pytest.mark.parametrize(("code", "words"), [
    (12, "NVML Shared Library Not Found"), (13, "Function Not Found"),
    (18, "Driver/library version mismatch"), (9, "Driver Not Loaded"), (999, "Unknown Error"),
])
def test_a_driver_that_answers_nvidia_smi_is_up_whatever_nvml_says_and_nvml_has_a_finding_of_its_own(
        code: int, words: str) -> None:
    found = results(gpu_nvml=refused(code, words), gpu_smi=printed(LOG))
    assert (found["driver-loads"].status is Status.PASS
            and found["driver-loads"].reason == f"reported by nvidia-smi (NVML: {words})")
    assert found["driver-module-matches"].status is Status.PASS
    assert (said(found["driver-nvml"])
            == f"driver: NVML: {words}, while nvidia-smi answers, expected an NVML that answers")
    assert found["driver-nvml"].severity is Severity.WARNING and "ldconfig" in found["driver-nvml"].remedy


@pytest.mark.parametrize("smi", [printed("No devices were found\n", 6), printed(NO_GPUS)],
                         ids=["refused", "empty log"])
def test_an_nvidia_smi_without_a_gpu_does_not_outrank_nvml(smi: Capture) -> None:
    assert results(gpu_nvml=refused(999, "Unknown Error"), gpu_smi=smi)["driver-loads"].status is Status.FAIL


def test_where_no_library_is_found_the_second_source_names_the_cause_and_its_silence_leaves_it_unknown(
) -> None:
    ours = refused(12, "NVML Shared Library Not Found")
    silent = printed("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", 9)
    assert said(results(gpu_nvml=ours,
                        gpu_smi=silent)["driver-loads"]).startswith("driver: nvidia-smi: Driver Not Loaded")
    for smi in (TIMEOUT, Capture(Outcome.DENIED), printed("?", 255)):
        unknown = reading(facts(gpu_nvml=ours, gpu_smi=smi), "loads")
        assert isinstance(unknown,
                          Unmeasured) and unknown.reason.startswith("NVML: NVML Shared Library Not Found; ")
        assert results(gpu_nvml=ours, gpu_smi=smi)["driver-loads"].status is Status.UNKNOWN


def test_nvml_is_not_judged_where_it_gave_no_answer_of_its_own() -> None:
    assert results()["driver-nvml"].status is Status.PASS
    for nvml in (CRASH, GONE, refused(4, "Insufficient Permissions")):
        assert results(gpu_nvml=nvml, gpu_smi=printed(LOG))["driver-nvml"].status is Status.SKIPPED
    assert (results(gpu_nvml=refused(9, "Driver Not Loaded"))["driver-nvml"].reason
            == "the driver does not come up")


@pytest.mark.parametrize("changes", [
    {"gpu_nvml": TIMEOUT, "gpu_smi": NOT_RUN}, {"gpu_nvml": GONE, "gpu_smi": TIMEOUT},
    {"gpu_nvml": GONE, "gpu_smi": GONE},
    {"gpu_nvml": CRASH, "gpu_smi": GONE}, {"gpu_nvml": refused(4, "Insufficient Permissions")},
    {"gpu_nvml": refused(-1, "TypeError: x")},
    {"gpu_nvml": refused(17, "The operating system has blocked the request")},
    {"gpu_nvml": GONE, "gpu_smi": printed("?", 255)},
], ids=["nvml hung", "smi hung", "neither is there", "one crash", "no permission", "ours",
        "cgroup", "rubbish"])
def test_that_no_one_answered_is_no_refusal(changes: dict[str, Capture]) -> None:
    assert results(**changes)["driver-loads"].status is Status.UNKNOWN


def test_a_driver_that_hangs_under_nvml_is_as_nvidia_smi_says() -> None:
    assert results(gpu_nvml=TIMEOUT,
                   gpu_smi=printed("NVIDIA-SMI has failed", 9))["driver-loads"].status is Status.FAIL
    well = results(gpu_nvml=TIMEOUT, gpu_smi=printed(LOG))["driver-loads"]
    assert (well.status, well.reason) == (Status.PASS, f"reported by nvidia-smi (gpu.nvml: {TIMEOUT.note})")
    both = results(gpu_nvml=TIMEOUT, gpu_smi=SMI_HUNG)["driver-loads"]
    assert (both.status, both.reason) == (Status.UNKNOWN, f"driver: gpu.nvml: {TIMEOUT.note}")


def test_one_gpu_that_hangs_is_no_verdict_on_the_driver() -> None:
    line = {"index": 5, "error": [-1, "no answer within 10 s while attaching it"]}
    read = machine.nvml().text.splitlines()
    nvml = Capture(Outcome.DONE, text="\n".join([*read[:6], json.dumps(line), *read[7:]]) + "\n")
    assert results(gpu_nvml=nvml, gpu_smi=SMI_HUNG)["driver-loads"].status is Status.PASS


def no_gpu(**changes: Any) -> dict[str, Result]:
    none = Capture(Outcome.MISSING, note="no NVIDIA device")
    empty = with_files(dict.fromkeys(set(machine.module().files) - {"/proc/sys/kernel/osrelease"}))
    return results(Node(name="gpu001", sku="cpu-only"), **{
        "gpu_nvml": none, "gpu_smi": none, "service_nvidia": none, "gpu_pci": machine.pci(0),
        "driver_module": empty,
        "fabric_journal": machine.journal(), **changes})


def test_a_node_without_a_gpu_needs_no_driver_and_no_services() -> None:
    found = no_gpu()
    for rule in ("driver-loads", "driver-module-matches", "driver-peermem", "driver-gsp",
                 "nvlink-fabric-manager", "nvlink-fabric-manager-log", "nvlink-fabric-imex"):
        assert found[rule].status in (Status.SKIPPED, Status.PASS), (rule, found[rule])


def test_a_node_without_a_gpu_whose_bus_was_not_read_is_not_known_to_have_none() -> None:
    assert no_gpu(gpu_pci=Capture(Outcome.DENIED))["driver-loads"].status is Status.UNKNOWN


def test_gpus_on_pci_without_a_driver_are_a_fault() -> None:
    bare = with_files(dict.fromkeys(set(machine.module().files) - {"/proc/sys/kernel/osrelease"}))
    found = results(gpu_nvml=refused(12, "NVML Shared Library Not Found"), gpu_smi=GONE, driver_module=bare)
    assert found["driver-loads"].status is Status.FAIL


# ---- the others ----

def test_a_mismatch_of_library_and_module_fails_its_rule_and_another_refusal_leaves_it_unknown() -> None:
    found = results(gpu_nvml=refused(18, "Driver/library version mismatch"))["driver-module-matches"]
    assert said(found) == ("driver: NVML: Driver/library version mismatch; the loaded module is 550.54.15, "
                           "expected library and module of one version")
    assert results(gpu_nvml=refused(9, "Driver Not Loaded"))["driver-module-matches"].status is Status.UNKNOWN
    assert results(gpu_nvml=TIMEOUT, gpu_smi=NOT_RUN)["driver-module-matches"].status is Status.UNKNOWN
    assert results()["driver-module-matches"].status is Status.PASS


NO_PEERMEM = {"/sys/module/nvidia_peermem/initstate": None}


def test_neither_peermem_nor_dma_buf_is_a_fault_where_there_are_rdma_ports() -> None:
    found = results(driver_module=with_files({**NO_PEERMEM,
                                              "/proc/driver/nvidia/version": PROPRIETARY}))["driver-peermem"]
    assert said(found) == "driver: no nvidia-peermem, no DMA-BUF, and 8 RDMA ports, expected one of the two"
    assert results(driver_module=with_files(NO_PEERMEM))["driver-peermem"].status is Status.PASS
    assert results(driver_module=with_files(
        {"/proc/driver/nvidia/version": PROPRIETARY}))["driver-peermem"].status is Status.PASS
    legacy = with_files({**NO_PEERMEM, "/proc/driver/nvidia/version": PROPRIETARY,
                         "/sys/module/nv_peer_mem/initstate": "live\n"})
    assert results(driver_module=legacy)["driver-peermem"].status is Status.PASS


def test_peermem_is_unknown_where_the_modules_or_the_ports_were_not_read() -> None:
    assert results(driver_module=Capture(Outcome.TIMEOUT))["driver-peermem"].status is Status.UNKNOWN
    assert results(driver_module=Capture(Outcome.DENIED))["driver-peermem"].status is Status.UNKNOWN
    assert results(port_sysfs=Capture(Outcome.DENIED))["driver-peermem"].status is Status.UNKNOWN
    assert results(gpu_nvml=refused(9, "Driver Not Loaded"))["driver-peermem"].status is Status.UNKNOWN


def off(**more: Any) -> Capture:
    return machine.nvml(gpu3={"persistence": {"ok": 0}, **more})


def test_either_persistence_mode_or_its_daemon_will_do() -> None:
    rule = "driver-persistence-daemon"
    found = results(gpu_nvml=off(), service_nvidia=machine.services(persistenced="failed/failed"))[rule]
    assert (said(found)
            == "GPU 3: persistence mode is off, nvidia-persistenced is failed (failed), expected one of the "
               "two is on")
    assert "not installed" in said(results(gpu_nvml=off(),
                                           service_nvidia=machine.services(persistenced=""))[rule])
    assert results(gpu_nvml=off())[rule].status is Status.PASS
    assert results(service_nvidia=machine.services(persistenced="inactive/dead"))[rule].status is Status.PASS


def test_persistence_is_unknown_where_what_decides_was_not_read_and_skipped_where_no_gpu_has_it() -> None:
    rule = "driver-persistence-daemon"
    no_systemd = Capture(Outcome.DONE, exit=1,
                         stderr="System has not been booted with systemd as init system (PID 1). Can't "
                                "operate.\n")
    found = results(gpu_nvml=off(), service_nvidia=no_systemd)[rule]
    assert found.status is Status.UNKNOWN and "not booted with systemd" in found.reason
    assert results(service_nvidia=no_systemd)[rule].status is Status.PASS
    assert results(gpu_nvml=machine.nvml(
        gpu1={"persistence": {"error": [999, "Unknown Error"]}}))[rule].status is Status.UNKNOWN
    assert results(gpu_nvml=machine.nvml(**{f"gpu{n}": {"persistence": {"na": True}}
                                            for n in range(8)}))[rule].status is Status.SKIPPED


def test_gsp_firmware_of_another_version_is_named_and_a_gpu_without_it_is_not() -> None:
    found = results(gpu_nvml=machine.nvml(gpu5={"gsp_firmware": {"ok": "535.161.08"}}))["driver-gsp"]
    assert said(found) == "GPU 5: GSP firmware 535.161.08, expected 550.54.15, as the driver"
    assert results()["driver-gsp"].status is Status.PASS
    assert results(gpu_nvml=machine.nvml(**{f"gpu{n}": {"gsp_firmware": {"na": True}}
                                            for n in range(8)}))["driver-gsp"].status is Status.SKIPPED
    assert results(gpu_nvml=machine.nvml(
        gpu5={"gsp_firmware": {"error": [999, "x"]}}))["driver-gsp"].status is Status.UNKNOWN


# ---- services ----

def test_each_service_is_shown_in_systemds_words() -> None:
    found = services(Captures(machine.recording()))
    assert (found.fabric_manager.active, found.fabric_manager.sub,
            found.fabric_manager.since_s) == ("active", "running", 21.0)
    assert (found.imex.load, found.imex.description) == ("not-found", "not installed")


def test_a_service_that_is_not_shown_costs_no_other() -> None:
    text = machine.services().text
    cut = Capture(Outcome.DONE, exit=0, text=text[:text.index("Id=nvidia-imex")])
    found = services(Captures(machine.recording(service_nvidia=cut)))
    assert isinstance(reading(found, "imex"), Unmeasured) and found.fabric_manager.active == "active"


@settings(deadline=None, max_examples=tries(200))
@given(st.text(max_size=300), st.sampled_from([0, 1, None]))
def test_any_text_of_systemctl_is_services_or_unmeasured(text: str, exit_status: int | None) -> None:
    said_by = Capture(Outcome.DONE, exit=exit_status, text=machine.services().text.replace("active", text))
    found = services(Captures(machine.recording(service_nvidia=said_by)))
    for service in (reading(found, "fabric_manager"), reading(found, "imex")):
        assert isinstance(service, Unmeasured) or isinstance(reading(service, "active"), (str, Unmeasured))
    assert UNSUPPORTED not in readings(found).values()
