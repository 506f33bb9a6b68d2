"""The Xid fact: every documented form of the GPU and NVSwitch drivers' reports is read, whatever surrounds
it, in bounded time."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.kernel import LOG
from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.facts.xid import NvLinkWords, Xids, architecture
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine

NVLINK5 = ("NVRM: Xid (PCI:0018:01:00): 149, NETIR_LINK_EVT  Fatal   XC0 i0 Link 09 (0x025525c6 0x00000001 "
           "0x00000000 0x00000000 0x00000000 0x00000000)")
SXID = "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Fatal, Link 30 LTSSM Fault Up"


def kmsg(*texts: str) -> str:
    return machine.KMSG + "".join(f"2,{100 + n},{(n + 50) * 1_000_000},-;{text}\n"
                                  for n, text in enumerate(texts))


def built(text: str, **captures: Capture) -> Any:
    changes = {"kernel_log": machine.done(**{"/dev/kmsg": text}), **captures}
    return build_fact(FACTS["xids"], Captures(machine.recording(**changes)))


def read(*texts: str) -> Xids:
    found = built(kmsg(*texts))
    assert isinstance(found, Xids), found
    return found


@pytest.mark.parametrize(("text", "words"), [
    ("NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
     ("0000:1b:00", 79, "", "", "")),
    ("NVRM: Xid (PCI:0000:1B:00): 79, GPU has fallen off the bus.", ("0000:1b:00", 79, "", "", "")),
    ("NVRM: Xid (0000:03:00): 14, Channel 00000001", ("0000:03:00", 14, "", "", "")),
    ("NVRM: Xid (PCI:0000:1b:00): 13, pid=812, name=python3, Graphics SM Warp Exception",
     ("0000:1b:00", 13, "812", "python3", "")),
    ("NVRM: Xid (PCI:0000:31:00 GPU-I:05 GPU-CI:00): 94, pid=7194, name=python3, Ch 8",
     ("0000:31:00", 94, "7194", "python3", "GPU-I:05 GPU-CI:00")),
    ("NVRM: Xid (PCI:0000:31:00 GPU-I:05): 95, pid=9, Uncontained ECC error",
     ("0000:31:00", 95, "9", "", "GPU-I:05")),
    ("NVRM: Xid (PCI:0000:b9:00): 74, pid=<n/a>, name=<unknown>, NVLink: x", ("0000:b9:00", 74, "", "", "")),
    ("NVRM: Xid (PCI:0000:1b:00.0): 45, pid=1, name=x): 79, y, Ch 1", ("0000:1b:00", 45, "1", "x): 79", "")),
])
def test_a_report_is_read_in_each_of_its_forms(text: str, words: tuple[str, int, str, str, str]) -> None:
    (event,) = read(text).events
    assert (event.pci, event.number, event.pid, event.process, event.instance) == words
    assert event.seconds == 50 and event.text == text


def test_what_stands_in_the_text_is_read_when_it_is_asked_for() -> None:
    tpc, registers, nvlink5, recovery, cause, plain = read(
        "NVRM: Xid (PCI:0000:1b:00): 13, pid=1, name=x, Graphics SM Warp Exception on (GPC 2, TPC 6, SM 1): "
        "Out Of Range Address",
        "NVRM: Xid (PCI:0000:1b:00): 74, pid='<unknown>', name=<unknown>, NVLink: fatal error detected on "
        "link 14(0x0, 0x0, 0x10000, 0x0, 0x1, 0x0, 0x0)",
        NVLINK5,
        "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x12 (OS Reboot)",
        "NVRM: Xid (PCI:0000:1b:00): 45, pid=1, name=x, Ch 8, errorString CTX SWITCH TIMEOUT, caused by "
        "previous Xid 149",
        "NVRM: Xid (PCI:0000:1b:00): 48, pid=1, name=x, DBE",
    ).events
    assert tpc.tpc == (2, 6) and registers.registers == (14, (0, 0, 0x10000, 0, 1, 0, 0))
    assert (nvlink5.nvlink5 == NvLinkWords("NETIR_LINK_EVT", True, 9, 0x025525C6, 1)
            and nvlink5.nvlink5.subcode == 0b100101)
    assert recovery.recovery == (0x12, "OS Reboot") and cause.cause == 149
    assert (plain.tpc, plain.registers, plain.nvlink5, plain.recovery,
            plain.cause) == (None, None, None, None, None)


@pytest.mark.parametrize("text", [
    "NVRM: Xid (PCI:0000:04:00): 145, pid=77, name=python3, RLW_REMAP Nonfatal XC1 i0 Link -1 (0x00000004 "
    "0x00000001 0x0)",
    "NVRM: Xid (PCI:0000:04:00): 146, TLW_RX/TLW_RX_PIPE0 Nonfatal XC0 i2 Link 17 (0x0000000a 0x00000004)",
    "NVRM: Xid (PCI:0000:04:00): 149, NETIR_LINK_DOWN Nonfatal XC1 i2 Link 17 (0xdeadbeef)",
])
def test_nvlink5_is_read_with_a_process_with_two_names_and_without_a_status(text: str) -> None:
    (event,) = read(text).events
    assert event.nvlink5 is not None and not event.nvlink5.fatal


GONE = "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, name=x, GPU has fallen off the bus."
FALLS = [
    (["NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."], ["0000:3b:00"]),
    ([GONE, "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."], ["0000:3b:00"]),
    (["NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.", GONE], ["0000:3b:00"]),
    ([GONE, "NVRM: GPU 0000:5d:00.0: GPU has fallen off the bus."], ["0000:3b:00", "0000:5d:00"]),
    (["NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus."] * 3, ["0000:3b:00"]),
    (["NVRM: The NVIDIA GPU 0000:3b:00.0", "NVRM: fallen off the bus and is not responding to commands."],
     ["0000:3b:00"]),
    (["NVRM: The NVIDIA GPU 0000:3b:00.0\\x0aNVRM: (PCI ID: 10de:2330) installed in this system "
      "has\\x0aNVRM: fallen off the bus and is not "
      "responding to commands."], ["0000:3b:00"]),
    ([GONE, "NVRM: has fallen off the bus and is not responding"], ["0000:3b:00"]),
    (["NVRM: has fallen off the bus and is not responding"], ["unknown"]),
    (["nvme nvme0: has fallen off the bus"], []),
]


@pytest.mark.parametrize(("texts", "gpus"), FALLS)
def test_a_gpu_that_fell_off_the_bus_is_one_xid_79_with_its_number_and_without(
    texts: list[str], gpus: list[str],
) -> None:
    assert [(event.pci, event.number) for event in read(*texts).events] == [(gpu, 79) for gpu in gpus]


def test_a_gpu_that_falls_again_an_hour_later_is_reported_twice() -> None:
    text = machine.KMSG + "".join(f"2,9,{at}000000,-;NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.\n"
                                  for at in (60, 61, 3660))
    assert [event.seconds for event in built(text).events] == [60, 3660]


def test_an_nvswitchs_report_is_one_event_with_its_severity_and_link() -> None:
    found = read(
        SXID, "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Severity 1 Engine instance 30 Sub-engine "
        "instance 00",
        "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Data {0x00000000, 0x00000001}",
        "nvidia-nvswitch3: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error "
        "(First)",
    )
    assert found.events == () and [(e.pci, e.number, e.fatal, e.link) for e in found.switch_events] == [
        ("0000:00:00", 20034, True, 30), ("0000:00:00", 20034, None, None), ("0000:86:00", 12028, False, 32)]


def test_an_nvswitchs_lines_of_one_second_are_one_event() -> None:
    lines = (SXID, "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Severity 1 Engine",
             "nvidia-nvswitch0: SXid (PCI:0000:00:00.0): 20034, Data {0x0}")
    text = machine.KMSG + "".join(f"2,{n},50{n}00000,-;{line}\n" for n, line in enumerate(lines))
    (event,) = built(text).switch_events
    assert event.fatal is True


@pytest.mark.parametrize("text", ["NVRM: Xid garbled", "NVRM: Xid (PCI:0000:66:00): abc, pid=2280636",
                                  "NVRM: GPU0 Xid (PCI:0000:66:00): 48, DBE",
                                  "NVRM:  Xid (PCI:0000:66:00): 48, DBE", "NVRM:Xid (PCI:0000:66:00): 48",
                                  "NVRM: GPU 0000:66:00.0: Xid (PCI:0000:66:00): 48, DBE",
                                  "nvidia-nvswitch3: SXid (PCI:0000:c1:00.0): garbled, Fatal"])
def test_a_report_that_cannot_be_read_leaves_the_log_partly_measured(text: str) -> None:
    found = built(kmsg(GONE, text))
    assert (isinstance(found, Partial) and "1 lines about Xids are not in a documented format" in found.reason
            and len(found.value.events) == 1)


@pytest.mark.parametrize("text", ["usb 1-1: Product: Xid 79 lookalike", "systemd[1]: Started Xid watcher.",
                                  "NVRM: loading NVIDIA UNIX"])
def test_a_line_of_somebody_else_is_no_report(text: str) -> None:
    assert read(text).events == ()


IN = "ip 0000000000401126 sp 00007ffd5e4e5a30 error 6 in"


@pytest.mark.parametrize(
    "text",
    [f"a.out[1234]: segfault at 0 {IN} NVRM: Xid (PCI:0000:18:00): 79, x[401000+1000] likely on CPU 3 (core "
     "3, socket 0)", f"a.out[1234]: segfault at 0 {IN} NVRM: fallen off the bus[401000+1000]",
     f"a.out[1234]: segfault at 0 {IN} nvidia-nvswitch0: SXid (PCI:0000:c4:00.0): 20034, Fatal[401000+1000]",
     f"a.out[1234]: segfault at 0 {IN} SXid (PCI:0000:c4:00.0): garbled[401000+1000]",
     f"a.out[1234]: segfault at 0 {IN} NVRM: Xid garbled[401000+1000]", f"NVRM: Xid (0000[1234]: segfault at "
     f"0 {IN} a.out[401000+1000]", f"NVRM: Xid (PCI:[1]: segfault at 0 {IN} ): 79, a.out[401000+1000]",
     f"NVRM: x[1234]: segfault at 0 {IN} fallen off the bus[401000+1000]",
     f"nvidia-nvswitch[1]: segfault at 0 {IN} SXid (PCI:0000:c4:00.0): 20034, Fatal",
     f"NVRM:\\x0aXid [1234]: segfault at 0 {IN} fallen off the bus[401000+1000]",
     "NVRM: Xid (0000(1234): Attempt to set a LOCK_MAND lock via flock(2). This support has been removed and "
     "the request ignored.", "NVRM: Xid (PCI: invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, "
     "oom_score_adj=0", "NVRM: Xid (0000: page allocation failure: order:5, mode:0xcc0(GFP_KERNEL), "
     "nodemask=(null),cpuset=/,mems_allowed=0-1",
     "traps: NVRM: Xid (0000[1234] general protection fault ip:401126 sp:7ffd5e4e5a30 error:0 in NVRM: Xid "
     "(PCI:0000:18:00): 79, x[401000+1000]",
     "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/a,"
     "task_memcg=/a,task=NVRM: Xid (0000,pid=12,uid=1000",
     "python[1]: NVRM: Xid (PCI:0000:18:00): 79, pid=1, GPU has fallen off the bus."])
def test_a_process_forges_no_report_by_its_name_or_its_files_name(text: str) -> None:
    found = read(text)
    assert found.events == () and found.switch_events == ()


def test_a_process_named_as_the_drivers_first_line_gives_a_fall_no_address() -> None:
    (event,) = read(f"a[1]: segfault at 0 {IN} NVRM: The NVIDIA GPU 0000:5d:00.0[401000+1000]",
                    "NVRM: has fallen off the bus and is not responding").events
    assert event.pci == "unknown"


def test_the_generation_of_a_gpu_is_that_of_its_device_id() -> None:
    (event,) = read("NVRM: Xid (PCI:0000:18:00): 74, x").events
    (stranger,) = read("NVRM: Xid (PCI:0000:99:00): 74, x").events
    assert (event.architecture, stranger.architecture) == ("hopper", "")
    known = {0x1DB6: "volta", 0x1EB8: "turing", 0x20B2: "ampere", 0x2235: "ampere", 0x25B6: "ampere",
             0x2330: "hopper", 0x26B9: "ada", 0x2901: "blackwell", 0x2941: "blackwell", 0x3182: "blackwell"}
    assert {device: architecture(device) for device in known} == known and architecture(0x0DE0) == ""


@pytest.mark.parametrize("outcome", [None, Outcome.MISSING, Outcome.TIMEOUT, Outcome.TRUNCATED,
                                     Outcome.CRASHED, Outcome.DENIED])
def test_a_pci_bus_that_was_not_captured_costs_the_generation_only(outcome: Outcome | None) -> None:
    found = built(kmsg(GONE), gpu_pci=Capture(outcome or Outcome.MISSING))
    assert isinstance(found, Xids) and found.events[0].architecture == ""


def test_one_unreadable_device_costs_its_own_generation_only() -> None:
    held = machine.pci()
    files = {**held.files, "/sys/bus/pci/devices/0000:19:00.0/uevent": FileCapture(Outcome.DENIED)}
    found = built(kmsg("NVRM: Xid (PCI:0000:18:00): 74, x", "NVRM: Xid (PCI:0000:19:00): 74, x"),
                  gpu_pci=Capture(Outcome.DONE, files=files))
    assert [event.architecture for event in found.events] == ["hopper", ""]


def test_a_log_that_was_not_measured_is_no_empty_list_of_xids() -> None:
    for capture in (machine.denied("/dev/kmsg"), machine.done(**{"/dev/kmsg": ""}), Capture(Outcome.TIMEOUT)):
        assert isinstance(build_fact(FACTS["xids"], Captures(machine.recording(kernel_log=capture))),
                          Unmeasured)


def test_a_log_that_was_cut_is_a_part_and_so_is_one_that_was_overwritten_while_read() -> None:
    cut = Capture(Outcome.TRUNCATED, files={"/dev/kmsg": FileCapture(Outcome.TRUNCATED, kmsg(GONE))})
    over = Capture(Outcome.DONE, files={"/dev/kmsg": FileCapture(Outcome.DONE, kmsg(GONE))},
                   note="records were overwritten while reading")
    for capture in (cut, over):
        found = build_fact(FACTS["xids"], Captures(machine.recording(kernel_log=capture)))
        assert isinstance(found, Partial) and [event.number for event in found.value.events] == [79]


def test_the_newest_record_is_found_behind_lines_of_no_record() -> None:
    assert built(machine.KMSG + "6,9,777000000,-;last\n SUBSYSTEM=pci\n DEVICE=+pci:0000\n").newest == 777


@given(st.lists(st.text(alphabet=st.sampled_from("NVRM: Xid(PC0123456789abcdf,.)<>'=\\x SXidTLnk\t\udc80;-"),
                        max_size=80), max_size=8), st.integers(0, 6))
def test_any_lines_are_read_without_an_exception_and_never_lost(texts: list[str], at: int) -> None:
    texts = [text.replace("\n", "") for text in texts]
    texts.insert(min(at, len(texts)), GONE)
    found = built(kmsg(*texts))
    value = found.value if isinstance(found, Partial) else found
    assert any(event.text == GONE for event in value.events)


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.slow)])
def test_a_log_cut_at_any_byte_keeps_every_whole_report_and_raises_nothing(step: int) -> None:
    text = kmsg(GONE, NVLINK5, SXID, "NVRM: GPU 0000:5d:00.0: GPU has fallen off the bus.")
    start = len(machine.KMSG)
    for cut in range(start, len(text) + 1, step):
        found = built(text[:cut])
        value = found.value if isinstance(found, Partial) else found
        whole = text[start:cut].count("\n")
        assert len(value.events) + len(value.switch_events) >= whole
        ends = {event.text for event in (*value.events, *value.switch_events)}
        assert all(any(line.endswith(words) or words in line for line in text.splitlines()) for words in ends)
    for cut in range(0, len(text), step):
        found = built(text[cut:])
        assert isinstance(found, (Xids, Partial, Unmeasured))


HOSTILE = {
    "reports": "NVRM: Xid (PCI:0000:3b:00): 13, pid=1, name=x, (GPC 1, TPC 2, SM 0)",
    "links": "NVRM: Xid (PCI:0000:{n:02x}:00): 74, NVLink: fatal error detected on link 2(0x0, 0x0, 0x10000, "
    "0x0, 0x0, 0x0, 0x0)",
    "strangers": "NVRM: Xid (PCI:{n:04x}:3b:00): 79, pid={n}, name=x",
    "falls": "NVRM: GPU {n:04x}:3b:00.0: GPU has fallen off the bus.",
    "heads": "NVRM: The NVIDIA GPU {n:04x}:3b:00.0",
    "switches": "nvidia-nvswitch0: SXid (PCI:{n:04x}:00:00.0): 20034, Data",
    "rubbish": "NVRM: Xid (((((: : : : : Xid (PCI: Xid SXid (",
}


@pytest.mark.parametrize("parts", [12, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", HOSTILE)
def test_mebibytes_of_reports_are_read_in_bounded_time(kind: str, parts: int) -> None:
    """A twelfth of what a log may hold, and in the slow tier all of it. What grows with the square of it
    takes many seconds for a twelfth, too."""
    line = HOSTILE[kind]
    lines = [f"2,{n},{n * 1000},-;{line.format(n=n % 65536)}\n"
             for n in range(LOG.limit // parts // (len(line) + 20))]
    before = time.process_time()
    built("".join(lines))
    assert time.process_time() - before < (5 if parts == 1 else 2)


def test_a_healthy_log_costs_next_to_nothing() -> None:
    text = "".join(f"6,{n},{n * 1000},-;systemd[1]: Started a service, number {n}, as ever.\n"
                   for n in range(5000))
    recording = Captures(machine.recording(kernel_log=machine.done(**{"/dev/kmsg": text})))
    before = time.process_time()
    for _ in range(50):
        build_fact(FACTS["xids"], recording)
    assert (time.process_time() - before) / 50 < 0.003
