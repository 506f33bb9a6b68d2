"""Facts: what each parser makes of documented formats, of what is missing, and of rubbish."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.filesystem import parse_mountinfo
from healthcheck.facts.kernel import MessagePattern
from healthcheck.facts.values import UNSUPPORTED, Fact, Partial, Unmeasured, reading
from healthcheck.model.recording import Capture, FileCapture, Outcome, from_json, to_json
from healthcheck.ruleset import plugins
from tests.healthcheck import machine
from tests.tries import tries

plugins.load()


def built(name: str, **changes: Capture) -> Any:
    return build_fact(FACTS[name], Captures(machine.recording(**changes)))


def command(text: str, exit_status: int = 0, stderr: str = "") -> Capture:
    return Capture(Outcome.DONE, exit=exit_status, text=text, stderr=stderr)


# GPUs

def test_gpus_are_read_with_their_identity_and_errors() -> None:
    gpus = built("gpus", gpu_nvml=machine.nvml(gpu3={"ecc_uncorrected": {"ok": 12}}))
    assert len(gpus) == 8
    assert (gpus[3].name, gpus[3].pci, gpus[3].ecc_uncorrected,
            gpus[3].ecc_enabled) == ("GPU 3", "0000:1b:00.0", 12, True)


def test_a_reading_that_nvml_does_not_support_is_unsupported_and_one_it_refuses_is_unmeasured() -> None:
    gpus = built("gpus", gpu_nvml=machine.nvml(gpu0={"ecc_uncorrected": {"na": True},
                                                     "serial": {"error": [4, "Insufficient Permissions"]}}))
    assert reading(gpus[0], "ecc_uncorrected") is UNSUPPORTED
    assert reading(gpus[0], "serial") == Unmeasured("NVML: serial: Insufficient Permissions (error 4)")


def test_a_gpu_whose_readings_say_it_is_lost_does_not_answer() -> None:
    gpus = built("gpus", gpu_nvml=machine.nvml(gpu5={"ecc_uncorrected": {"error": [15, "GPU is lost"]}}))
    assert (gpus[5].answers, gpus[5].trouble, gpus[4].answers) == (False, "GPU is lost (NVML 15)", True)


def test_a_gpu_without_a_handle_is_still_a_gpu() -> None:
    capture = machine.nvml()
    lines = capture.text.splitlines()
    lines[6] = json.dumps({"index": 5, "error": [15, "GPU is lost"]})
    gpus = built("gpus", gpu_nvml=replace(capture, text="\n".join(lines)))
    assert (len(gpus), gpus[5].answers) == (8, False)
    assert isinstance(reading(gpus[5], "uuid"), Unmeasured)


def test_no_nvidia_device_on_a_bus_that_was_read_is_a_measured_none() -> None:
    gone = Capture(Outcome.MISSING, note="no NVIDIA device")
    assert built("gpus", gpu_nvml=gone, gpu_pci=machine.pci(0)) == ()
    assert built("gpu_presence", gpu_nvml=gone, gpu_pci=machine.pci(0)).listed == 0


@pytest.mark.parametrize("bus", [
    Capture(Outcome.DENIED), Capture(Outcome.TIMEOUT), Capture(Outcome.DONE),
    Capture(Outcome.MISSING),
])
def test_without_the_bus_no_device_is_not_a_measured_none(bus: Capture) -> None:
    assert isinstance(built("gpus", gpu_nvml=Capture(Outcome.MISSING), gpu_pci=bus), Unmeasured)


def test_a_gpu_on_the_bus_without_a_library_is_unmeasured_not_none() -> None:
    assert isinstance(built("gpus", gpu_nvml=Capture(Outcome.MISSING)), Unmeasured)
    presence = built("gpu_presence", gpu_nvml=Capture(Outcome.MISSING))
    assert presence.on_pci == 8 and isinstance(reading(presence, "listed"), Unmeasured)


def test_a_library_that_does_not_start_says_why() -> None:
    failed = Capture(Outcome.DONE, text=json.dumps({"error": [9, "Driver Not Loaded"]}) + "\n")
    assert built("gpus", gpu_nvml=failed) == Unmeasured("NVML: Driver Not Loaded")


def test_gpus_read_before_the_time_ran_out_are_kept_but_are_not_all() -> None:
    capture = machine.nvml()
    cut = replace(capture, outcome=Outcome.TIMEOUT, text=capture.text[: capture.text.index('"index": 4')])
    gpus = built("gpus", gpu_nvml=cut)
    assert isinstance(gpus, Partial) and len(gpus.value) == 4


# Ports

def test_ports_are_read_by_the_kernels_abi() -> None:
    ports = built("ports")
    assert [port.name for port in ports] == [f"mlx5_{n}/1 (0000:{0x40 + n:02x}:00.0)" for n in range(8)]
    assert (ports[0].pci, ports[0].state, ports[0].phys_state,
            ports[0].rate_gbps) == ("0000:40:00.0", "ACTIVE", "LinkUp", 400.0)


@pytest.mark.parametrize(("name", "text", "field"), [
    ("state", "ACTIVE", "state"), ("state", "", "state"), ("rate", "fast", "rate_gbps"),
    ("rate", "400 GB/sec (x)", "rate_gbps"),
    ("link_downed", "-1", "link_downed"), ("link_downed", "12 13", "link_downed"),
    ("uevent", "DRIVER=mlx5_core", "pci"),
])
def test_a_port_file_of_another_form_is_unmeasured(name: str, text: str, field: str) -> None:
    ports = built("ports", port_sysfs=machine.ports(**{f"mlx5_3.{name}": text}))
    assert isinstance(reading(ports[3], field), Unmeasured)
    assert not isinstance(reading(ports[2], field), Unmeasured)


def test_ports_of_a_device_are_in_natural_order() -> None:
    assert [p.name.split()[0] for p in built("ports", port_sysfs=machine.ports(12))][-3:] == [
        "mlx5_9/1", "mlx5_10/1", "mlx5_11/1"]


# File systems

def test_filesystems_hold_what_df_would_say() -> None:
    root, home, raid = built("filesystems")
    assert (root.name, root.fstype, root.source, root.read_only) == ("/", "ext4", "/dev/nvme0n1p2", False)
    assert root.used_percent == pytest.approx(100 * 300000 / 950000, abs=0.01)
    assert (home.name, raid.name, raid.inodes_used_percent) == ("/home", "/raid", 20.0)


def test_a_filesystem_remounted_read_only_is_so_and_a_read_only_bind_mount_is_not() -> None:
    text = machine.MOUNTINFO.replace("/dev/md0 rw,", "/dev/md0 ro,").replace("/ / rw,", "/ / ro,")
    files = machine.done(**{"/proc/self/mountinfo": text, "/": machine.STATVFS, "/raid": machine.STATVFS,
                            "/home": machine.STATVFS})
    assert [f.read_only for f in built("filesystems", filesystem_mounts=files)] == [False, False, True]


def test_a_mount_that_hangs_is_unmeasured_and_the_others_are_not() -> None:
    held = machine.captures()["filesystem.mounts"]
    files = {**held.files, "/home": FileCapture(Outcome.TIMEOUT)}
    root, home, _ = built("filesystems", filesystem_mounts=replace(held, files=files))
    assert (isinstance(reading(home, "used_percent"), Unmeasured)
            and not isinstance(reading(root, "used_percent"), Unmeasured))


@pytest.mark.parametrize(("outcome", "asked"), [
    (Outcome.TIMEOUT, ("/home",)), (Outcome.WEDGED, ("/home",)), (Outcome.CRASHED, ("/home",)),
    (Outcome.DENIED, ()), (Outcome.UNABLE, ()), (Outcome.MISSING, ())])
def test_a_mount_is_accused_of_no_answer_only_where_that_is_its_own_doing(outcome: Outcome,
                                                                          asked: tuple[str, ...]) -> None:
    held = machine.captures()["filesystem.mounts"]
    _, home, _ = built("filesystems",
                       filesystem_mounts=replace(held, files={**held.files, "/home": FileCapture(outcome)}))
    assert reading(home, "used_percent").asked == asked


def test_a_mount_whose_figures_are_of_another_form_has_answered() -> None:
    held = machine.captures()["filesystem.mounts"]
    _, home, _ = built("filesystems",
                       filesystem_mounts=replace(held, files={**held.files,
                                                              "/home": FileCapture(Outcome.DONE, "x")}))
    assert reading(home, "used_percent").asked == ()


def test_escapes_in_mount_points_are_undone_and_the_last_mount_at_a_point_counts() -> None:
    mounts = parse_mountinfo("1 0 8:1 / /a\\040b rw - ext4 /dev/sda rw\n2 1 0:9 / /a\\040b ro - tmpfs tmpfs "
                             "ro\n")
    assert {p: m.fstype for p, m in mounts.items()} == {"/a b": "tmpfs"}


def test_a_filesystem_without_blocks_or_inodes_does_not_support_the_figure() -> None:
    held = machine.captures()["filesystem.mounts"]
    files = {**held.files, "/": FileCapture(Outcome.DONE, "4096 4096 0 0 0 0 0 0 0 255")}
    root = built("filesystems", filesystem_mounts=replace(held, files=files))[0]
    assert (reading(root, "used_percent") is UNSUPPORTED
            and reading(root, "inodes_used_percent") is UNSUPPORTED)


# Docker

def test_a_daemon_that_answers_has_a_version() -> None:
    docker = built("docker")
    assert (docker.answers, docker.version, docker.storage_driver) == (True, "24.0.7", "overlay2")


@pytest.mark.parametrize("capture", [
    command("", 1, "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon "
            "running?\n"),
    command(json.dumps({"ServerErrors": ["Cannot connect to the Docker daemon at "
                                         "unix:///var/run/docker.sock."]}) + "\n"),
    command(json.dumps({"ServerErrors": ["Cannot connect to the Docker daemon"]}) + "\n", 1,
            "errors pretty printing info\n"),
])
def test_a_daemon_that_is_gone_is_a_measurement_with_old_and_new_clients(capture: Capture) -> None:
    docker = built("docker", docker_info=capture)
    assert docker.answers is False and "Cannot connect" in docker.trouble


@pytest.mark.parametrize("capture", [
    command("", 1, "permission denied while trying to connect to the Docker daemon socket\n"),
    command(json.dumps({"ServerErrors": ["permission denied while trying to connect"]}), 1),
    command("", 1), command(""), command("{}"), command('{"ServerVersion": ""}'), command("{" * 5000),
    command("not json"),
    Capture(Outcome.TIMEOUT), Capture(Outcome.WEDGED, note="wedged since"),
    Capture(Outcome.CRASHED, exit=-11), Capture(Outcome.DONE),
])
def test_a_client_that_could_not_tell_has_measured_nothing(capture: Capture) -> None:
    assert isinstance(built("docker", docker_info=capture), Unmeasured)


# Host

def test_memory_swap_clock_and_versions_are_read() -> None:
    assert built("memory").total_bytes == 2113000000 * 1024
    assert built("swap").total_bytes == 0
    assert (built("clock").synchronised, built("versions").kernel,
            built("versions").driver) == (True, "6.5.0-1019", "550.54.15")


def test_swap_counts_every_area() -> None:
    text = "Filename Type Size Used Priority\n/dev/sda2 partition 2097148 0 -2\n/swapfile file 1024 0 -3\n"
    swap = built("swap", host_swap=machine.done(**{"/proc/swaps": text}))
    assert (swap.total_bytes, swap.areas) == ((2097148 + 1024) * 1024, ("/dev/sda2", "/swapfile"))


@pytest.mark.parametrize(("state", "status", "synchronised"),
                         [(0, 0x2001, True), (5, 0x2041, False), (0, 0x40, False), (5, 0, False)])
def test_the_clock_is_synchronised_as_adjtimex_says(state: int, status: int, synchronised: bool) -> None:
    text = json.dumps({"state": state, "status": status, "maxerror": 16000000, "esterror": 0})
    assert built("clock", host_clock=Capture(Outcome.DONE, text=text)).synchronised is synchronised


def test_a_node_without_the_nvidia_module_does_not_support_a_driver_version() -> None:
    files = {"/proc/sys/kernel/osrelease": FileCapture(Outcome.DONE, "6.1\n"),
             "/sys/module/nvidia/version": FileCapture(Outcome.MISSING)}
    assert reading(built("versions",
                         host_versions=Capture(Outcome.DONE, files=files)), "driver") is UNSUPPORTED


# Kernel log

KMSG = machine.done(**{"/dev/kmsg": machine.KMSG})


@pytest.mark.parametrize(("capture", "kind"), [
    (machine.done(**{"/dev/kmsg": ""}), Unmeasured),
    (Capture(Outcome.TRUNCATED, files={"/dev/kmsg": FileCapture(Outcome.TRUNCATED, machine.KMSG)}), Partial),
    (replace(KMSG, note="/dev/kmsg: records were overwritten while it was read"), Partial)])
def test_an_empty_log_is_unmeasured_and_one_that_was_cut_is_a_part(capture: Capture, kind: type) -> None:
    log = built("kernel_log", kernel_log=capture)
    assert isinstance(log, kind)
    assert kind is Unmeasured or "Linux version" in log.value.text


def test_records_already_overwritten_are_counted_and_told_beside_the_pass() -> None:
    log = built("kernel_log", kernel_log=machine.done(**{"/dev/kmsg": "6,4711,99,-;hello\n"}))
    assert log.caveat == "of this boot, the 4711 oldest records are gone from the kernel's buffer"


def test_searching_a_log_that_is_one_line_of_matches_is_linear() -> None:
    line = "6,1,1,-;" + "NVRM: Xid (PCI:" * 200_000
    log = built("kernel_log", kernel_log=machine.done(**{"/dev/kmsg": line}))
    assert len(list(log.matching(MessagePattern("NVRM: Xid", "Xid")))) == 1


# Rubbish

TEXTS = st.one_of(st.text(max_size=300), st.sampled_from([
    "null\n", "[]\n", "{}\n", '{"count": {"ok": 1e999}}\n', "[" * 3000, "1" * 5000, "\x00" * 50,
    "\udc80\x1b[31m", "4: \n", "a - b\n",
]))


@settings(deadline=None, max_examples=tries(300))
@given(name=st.sampled_from(sorted(FACTS)), text=TEXTS, stderr=TEXTS,
       exit_status=st.sampled_from([None, 0, 1, -9]), keep=st.booleans())
def test_rubbish_costs_one_fact_and_never_the_sweep(name: str, text: str, stderr: str,
                                                    exit_status: int | None, keep: bool) -> None:
    held = machine.captures()
    for probe in FACTS[name].probes:
        files = {path: FileCapture(Outcome.DONE, text)
                 for path in held.get(probe.id, Capture(Outcome.MISSING)).files}
        held[probe.id] = Capture(Outcome.DONE, exit=exit_status, text=text, stderr=stderr,
                                 files=files if keep else {text: FileCapture(Outcome.DONE)})
    value = build_fact(FACTS[name],
                       Captures(machine.recording(**{k.replace(".", "_"): v for k, v in held.items()})))
    if isinstance(value, Partial):
        value = value.value
    for fact in value if isinstance(value, tuple) else (value,):
        assert isinstance(fact, Unmeasured) or isinstance(fact.name, str)


def test_a_recording_survives_json_byte_for_byte() -> None:
    recording = machine.recording()
    document = json.loads(json.dumps(to_json(recording)))
    assert from_json(document) == recording
    assert {field.name for field in fields(recording)} == {"node", "received", "host", "failure", "captures"}


def test_a_probe_that_the_look_had_no_more_time_for_is_not_said_to_have_had_its_own() -> None:
    cut = replace(machine.nvml(), outcome=Outcome.TIMEOUT, text="", seconds=2.12)
    assert (built("gpus", gpu_nvml=cut).reason == "gpu.nvml had not answered after 2.1 s, when the "
            "snapshot's time was over")
    assert built("gpus", gpu_nvml=replace(cut, seconds=40.0)).reason == "gpu.nvml did not answer within 40 s"


# How facts are written

def test_no_fact_is_a_dataclass() -> None:
    """The base's constructor is the only one; `XidTable` is in `healthcheck/xid` and beside it."""
    plugins.load()
    made = [kind.__name__ for kind in _derived(Fact)
            if kind.__module__.startswith("healthcheck.facts.") and "__dataclass_fields__" in vars(kind)]
    assert made == [] and len(list(_derived(Fact))) > 50


def _derived(kind: type[Any]) -> Iterator[type[Any]]:
    for one in kind.__subclasses__():
        yield one
        yield from _derived(one)
