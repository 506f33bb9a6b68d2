"""What a node shows of whether GPUs belong in it: each piece by itself, and what was not read says
neither."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from healthcheck.facts import driver, firmware, kernel, module
from healthcheck.facts.base import Captures
from healthcheck.facts.gpusigns import GPUS_CAPTURE, GpuSigns, gpu_signs, gpus_capture, shown_before
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine, plainhost
from tests.healthcheck.plainhost import bus, names

LONG = "0123456789" * 40


def shown(**changes: Capture | None) -> GpuSigns:
    return gpu_signs(Captures(plainhost.recording(**changes)))


def device(cls: str, ids: str, slot: str = "0000:18:00.0") -> str:
    return f"PCI_CLASS={cls}\nPCI_ID={ids}\nPCI_SLOT_NAME={slot}\n"


def test_a_plain_machine_shows_nothing_and_was_wholly_read() -> None:
    assert shown() == GpuSigns((), (), gpus=False, machine="Dell Inc. PowerEdge R650", identities=())


@pytest.mark.parametrize(("ids", "cls", "slot"), [
    ("10DE:2330", "30200", "0000:18:00.0"), ("1A03:2000", "30200", "0000:18:00.0"),
    ("1DA3:1060", "120000", "0000:18:00.0"),
    ("1002:740C", "38000", "0000:18:00.0"), ("10DE:1EB8", "30000", "0000:00:02.0"),
    ("1002:744C", "30000", "0000:00:02.0"),
    ("8086:56C0", "30000", "0000:18:00.0"), ("8086:0BD5", "38000", "0000:00:02.0"),
])
def test_displays_of_makers_of_gpus_and_accelerators_are_gpus(ids: str, cls: str, slot: str) -> None:
    found = shown(gpu_pci=bus(device(cls, ids, slot)))
    assert found.gpus and found.signs == (f"it has 1 GPU on PCI ({ids.lower()})",) and found.unread == ()


@pytest.mark.parametrize(("ids", "cls", "slot"), [
    ("8086:4680", "30000", "0000:00:02.0"), ("1AF4:1050", "38000", "0000:18:00.0"),
    ("1234:1111", "38000", "0000:18:00.0"),
    ("1A03:2000", "30000", "0000:18:00.0"), ("1002:1478", "60400", "0000:18:00.0"),
    ("8086:4940", "B4000", "0000:18:00.0"),
    ("15B3:1021", "20700", "0000:18:00.0"), ("10B5:8796", "88000", "0000:18:00.0"),
    ("8086:2030", "60400", "0000:18:00.0"),
])
def test_other_displays_bridges_and_adapters_are_none(ids: str, cls: str, slot: str) -> None:
    assert shown(gpu_pci=bus(device(cls, ids, slot))).signs == ()


def adapters(count: int, cls: str = "20700", ids: str = "15B3:1021", ports: int = 2) -> Capture:
    return bus(*[device(cls, ids, f"0000:{0x40 + at:02x}:00.{port}") for at in range(count)
                 for port in range(ports)])


UNLISTED = replace(machine.done(), files={"/lib/modules/*/*/nvidia.ko*": FileCapture(Outcome.DENIED)})
PLAIN_DRIVER = {driver.OSRELEASE: "6.5.0\n"}


def installed(outcome: Outcome, of_file: Outcome, path: str = "/usr/src/nvidia-550/dkms.conf") -> Capture:
    return Capture(outcome, files={path: FileCapture(of_file)})


def units(line: str) -> Capture:
    return Capture(Outcome.DONE, exit=0, text=f"cron.service loaded active running Cron\n{line}\n")


def log(line: str) -> Capture:
    return machine.done(**{kernel.KMSG: plainhost.LOG + line})


NO_NAME = "firmware gives the machine no name (DMI)"
NO_FILES = "not read: which drivers are installed (gpu.installed: "


@pytest.mark.parametrize(("changes", "signs", "unread"), [
    # the bus
    ({"gpu_pci": None}, [], ["the PCI bus was not read (gpu.pci was not captured)"]),
    ({"gpu_pci": machine.done()}, [], ["the PCI bus was not read (there is no device, or not all of them)"]),
    ({"gpu_pci": replace(bus(), outcome=Outcome.TRUNCATED)}, [],
     ["the PCI bus was not read (there is no device, or not all of them)"]),
    ({"gpu_pci": bus(device("x", "8086:1"))}, [], [
        "the PCI bus was not read (/sys/bus/pci/devices/0000:02:00.0/uevent is not in the kernel's format)"]),
    ({"gpu_pci": bus("PCI_CLASS=30200\n")}, [], [
        "the PCI bus was not read (/sys/bus/pci/devices/0000:02:00.0/uevent is not in the kernel's format)"]),
    ({"gpu_pci": bus(*[device("30200", f"10DE:23{n}0") for n in (5, 1, 2, 3, 4, 5)])},
     ["it has 6 GPUs on PCI (10de:2310, 10de:2320, 10de:2330, 10de:2340)"], []),
    ({"gpu_pci": bus(device("30200", "1002:74A1"), device("68000", "10DE:22A3"))},
     ["it has 1 GPU on PCI (1002:74a1)"], []),
    ({"gpu_pci": bus(device("68000", "10DE:22A3"), device("68000", "10DE:22A3"))},
     ["it has 2 NVIDIA devices on PCI (10de:22a3)"], []),
    ({"gpu_pci": bus(device("60400", "10B5:8796"), device("60400", "11F8:4000"))},
     ["it has a PCI Express switch (10b5:8796), behind which servers have GPUs"], []),
    ({"gpu_pci": adapters(4)}, ["it has 4 NVIDIA network adapters, as GPU servers have"], []),
    ({"gpu_pci": adapters(4, cls="20000")}, ["it has 4 NVIDIA network adapters, as GPU servers have"], []),
    ({"gpu_pci": adapters(3)}, [], []), ({"gpu_pci": adapters(5, ids="8086:1592")}, [], []),
    ({"gpu_pci": adapters(5, cls="60100")}, [], []),
    # the driver
    ({"gpu_nvml": machine.nvml(2)}, ["it has 2 GPUs that its driver lists"], []),
    ({"driver_module": None}, [],
     ["not read: whether a driver is loaded (driver.module: driver.module was not captured)"]),
    ({"driver_module": plainhost.files(PLAIN_DRIVER, driver.MODULE)}, [], [
        f"not read: whether a driver is loaded (driver.module: {driver.PROC} was not captured)"]),
    ({"driver_module": plainhost.files({**PLAIN_DRIVER, driver.PROC: "x"}, *driver.FILES.paths)},
     [f"NVIDIA's driver is loaded ({driver.PROC})"], []),
    ({"module_loaded": None}, [],
     ["not read: the kernel's modules (module.loaded: module.loaded was not captured)"]),
    ({"module_loaded": machine.done()}, [],
     [f"not read: the kernel's modules (module.loaded: {module.PATH} was not captured)"]),
    ({"module_loaded": plainhost.files({}, module.PATH)}, [], []),
    ({"module_loaded": machine.done(**{module.PATH: "rubbish"})}, [], [
        f"not read: the kernel's modules (module.loaded: {module.PATH} is not in the kernel's format)"]),
    ({"module_loaded": machine.done(
        **{module.PATH: "nvidia 1 0 - Live 0x0\namdgpu 1 0 - Live 0x0\nnouveau 1 0 - Loading 0x0\n"})},
     ["the kernel module amdgpu is loaded"], []),
    ({"gpu_installed": None}, [], [f"{NO_FILES}gpu.installed was not captured)"]),
    ({"gpu_installed": UNLISTED}, [], [f"{NO_FILES}/lib/modules/*/*/nvidia.ko*: permission denied)"]),
    ({"gpu_installed": replace(machine.done(), outcome=Outcome.TIMEOUT)}, [], [f"{NO_FILES}not wholly)"]),
    *[({"gpu_installed": installed(*outcomes)},
       ["a GPU driver's files are installed (/usr/src/nvidia-550/dkms.conf)"], [])
      for outcomes in ((Outcome.DONE, Outcome.DONE), (Outcome.DONE, Outcome.TRUNCATED),
                       (Outcome.TRUNCATED, Outcome.DONE))],
    ({"gpu_installed": installed(Outcome.DONE, Outcome.MISSING)}, [], []),
    ({"gpu_installed": installed(Outcome.DONE, Outcome.DENIED)}, [],
     [f"{NO_FILES}/usr/src/nvidia-550/dkms.conf: permission denied)"]),
    ({"gpu_installed": installed(Outcome.DONE, Outcome.TRUNCATED, "/lib/modules/*/*/nvidia.ko*")}, [], [
        f"{NO_FILES}/lib/modules/*/*/nvidia.ko*: longer than its limit)"]),
    # firmware
    ({"host_firmware": None}, [], [NO_NAME]), ({"host_firmware": names(None)}, [], [NO_NAME]),
    ({"host_firmware": names(" Default string ")}, [], [NO_NAME]),
    ({"host_firmware": names("PowerEdge XE9680", board_name="0ABC")},
     ["firmware calls it PowerEdge XE9680, which is built for GPUs"], []),
    ({"host_firmware": names("System Product Name", board_name="DGXH100")},
     ["firmware calls it DGXH100, which is built for GPUs"], []),
    # what can only speak for GPUs
    ({"service_units": units("nvidia-imex.service loaded inactive dead x")},
     ["systemd has nvidia-imex.service"], []),
    ({"service_units": units("nvidia-imex.service not-found inactive dead x")}, [], []),
    ({"service_units": units("ssh.service loaded active running x")}, [], []),
    ({"service_units": None}, [], []),
    ({"kernel_log": log("3,9,9,-;NVRM: x\n")}, ["the kernel log names a GPU (NVRM:)"], []),
    ({"kernel_log": log("3,9,9,-;pci 0000:18:00.0: [10de:2330] type 00\n")},
     ["the kernel log names a GPU (pci 0000:18:00.0: [10de:2330])"], []),
    ({"kernel_log": log("3,9,9,-;usb 1-1: Product: NVRM: nvidia\n")}, [], []), ({"kernel_log": None}, [], []),
    ({"kernel_log": machine.done()}, [], []),
    # both
    ({"driver_module": plainhost.files({**PLAIN_DRIVER, driver.MODULE: "x", driver.PROC: "x"},
                                       *driver.FILES.paths), "gpu_pci": None},
     [f"NVIDIA's driver is loaded ({driver.MODULE})", f"NVIDIA's driver is loaded ({driver.PROC})"],
     ["the PCI bus was not read (gpu.pci was not captured)"]),
])
def test_each_piece_says_that_gpus_belong_in_a_machine_or_that_it_was_not_read(
    changes: Mapping[str, Any], signs: list[str], unread: list[str],
) -> None:
    found = shown(**changes)
    assert (list(found.signs), list(found.unread)) == (signs, unread)
    assert found.gpus is any("on PCI (10de:23" in sign or "GPU on PCI" in sign or "driver lists" in sign
                             for sign in signs)


def test_words_are_bounded() -> None:
    path = f"/usr/src/nvidia{LONG}/dkms.conf"
    assert len(shown(gpu_installed=machine.done(**{path: ""})).signs[0]) == 200
    assert len(shown(gpu_installed=installed(Outcome.DONE, Outcome.DENIED, path)).unread[0]) == 300
    kept = replace(plainhost.recording(), captures={GPUS_CAPTURE: Capture(Outcome.DONE, text=LONG)})
    assert len(shown_before(kept)) == 200


def test_a_machine_is_named_and_told_apart_by_its_firmware() -> None:
    assert shown(host_firmware=names("S7", "", board_name="B")).machine == "S7"
    assert shown(host_firmware=names("n/a", "Maker", board_name="B")).machine == "Maker B"
    assert shown(host_firmware=names("n/a", "Maker")).machine == ""
    ids = {**{f"/sys/class/dmi/id/{name}": None for name in ("product_name",)},
           firmware.MACHINE_ID: "0123456789abcdef" * 2}
    held = plainhost.files({**ids, "/sys/class/dmi/id/product_serial": "C0FFEE"}, *firmware.DMI.paths)
    first, second = shown(host_firmware=held).identities
    assert first.startswith("machine=") and len(first) == 24 and second == "chassis=1c9ee209ddaed605"


def test_what_a_node_showed_of_gpus_is_kept_for_good() -> None:
    now, plain = plainhost.recording(gpu_pci=bus(device("30200", "10DE:2330"))), plainhost.recording()
    listed = plainhost.recording(gpu_nvml=machine.nvml(1), gpu_pci=None)
    earlier = replace(plain, captures={GPUS_CAPTURE: Capture(Outcome.DONE, text="8 GPUs on PCI (10de:2330)")})
    empty: Recording = replace(now, captures={**now.captures, GPUS_CAPTURE: Capture(Outcome.DONE)})
    unreached = replace(now, host=None)
    assert [shown_before(one) for one in (None, plain, now, listed, earlier, empty, unreached)] == [
        "", "", "1 GPU on PCI (10de:2330)", "1 GPU that its driver lists", "8 GPUs on PCI (10de:2330)",
        "1 GPU on PCI (10de:2330)", ""]
    kept = gpus_capture(now, None)
    assert kept == Capture(Outcome.DONE, bytes=24,
                           text="1 GPU on PCI (10de:2330)") and gpus_capture(plain, now) == kept
    assert gpus_capture(plain, plain) is None and gpus_capture(unreached, None) is None
