"""Rules of the host's installation, services, modules, firmware and management controller: what passes, what
fails and how it is said, both sides of each limit, and what was not measured or is not there."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts import bmc, firmware, module, resolver, system, unit
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from provisioning.demo import host as demo
from tests.healthcheck import machine
from tests.healthcheck.checks.changed import files, printed
from tests.healthcheck.checks.verdicts import cohort, findings_of, ids, verdict

RULES = ids("bmc.yaml") | ids("service.yaml") | ids("module.yaml") | {
    "host-clock-offset", "host-resolver", "host-own-name", "host-name", "host-crash", "host-cmdline",
    "host-sysctl", "host-dimm-count",
    "host-dimm-alike", "host-bios", "host-clock-source",
}
# 2026-11-21 12:00 UTC, where an event's age matters.
NOON = 1795262400.0
COMMANDS = {
    "host-own-name": "host.own-name", "host-dimm-count": "host.dimms", "host-dimm-alike": "host.dimms",
    "service-failed": "service.units",
    "service-expected": "service.units", "bmc-sel-critical": "bmc.log", "bmc-power-supply": "bmc.log",
    "bmc-sel-full": "bmc.log-info",
    "bmc-sensors": "bmc.sensors", "bmc-fan": "bmc.sensors",
}
FILES = {
    "host-resolver": ("host.resolver", "/etc/resolv.conf"), "host-cmdline": ("host.system", "/proc/cmdline"),
    "host-sysctl": ("host.sysctl", "/proc/sys/kernel/numa_balancing"),
    "host-clock-source": ("host.clock-source", "/current_clocksource"),
    "host-bios": ("host.firmware", "/sys/class/dmi/id/bios_version"),
    "module-forbidden": ("module.loaded", "/proc/modules"),
    "module-expected": ("module.loaded", "/proc/modules"),
}


def healthy(probe: str) -> str:
    return machine.captures()[probe].text


def sel(*rows: str) -> Recording:
    """The healthy machine at noon of 2026-11-21, with more events in its log."""
    seen = printed("bmc.log", healthy("bmc.log") + "".join(f"{row}\n" for row in rows))
    return machine.on_host(seen, time=NOON)


HOT = demo.sensor("TEMP_CPU0", "ucr", "96 degrees C")
CLOCKS = "current_clocksource"
FAILING = [
    ("host-clock-source", files("host.clock-source", {CLOCKS: "hpet\n"}),
     "clock source: hpet, expected tsc, which is available"),
    ("host-clock-source", files("host.clock-source", {
        CLOCKS: "acpi_pm\n", "available_clocksource": "hpet acpi_pm \n"}),
     "clock source: acpi_pm, expected none of the slow ones"),
    ("host-resolver", files("host.resolver", {"resolv.conf": "search cluster.internal\n"}),
     "resolver: no nameserver in /etc/resolv.conf, expected one at least"),
    ("host-resolver", files("host.resolver", {"resolv.conf": Outcome.MISSING}),
     "resolver: no nameserver in /etc/resolv.conf, expected one at least"),
    ("host-own-name", printed("host.own-name", "", exit=1, stderr="hostname: Name or service not known\n"),
     "host name: hostname: Name or service not known, expected an address (hostname -i)"),
    ("host-own-name", printed("host.own-name", "", exit=None, outcome=Outcome.TIMEOUT, seconds=3.0),
     "host name: no answer within 3 s, expected an address (hostname -i)"),
    ("host-own-name", printed("host.own-name", "\n"),
     "host name: no address, expected an address (hostname -i)"),
    ("host-crash", files("host.crash", {"/sys/fs/pstore/dmesg-efi-1": "Panic#1\n",
                                        "/sys/fs/pstore/dmesg-efi-2": "Panic#1\n"}),
     "kernel: left a crash record: /sys/fs/pstore/dmesg-efi-1 and 1 more, expected none"),
    ("host-cmdline", files("host.system", {"cmdline": "root=LABEL=/ ro iommu=on\n"}),
     "kernel parameters: no iommu=pt, expected iommu=pt"),
    ("host-sysctl", files("host.sysctl", {"numa_balancing": "1\n"}), "kernel.numa_balancing: 1, expected 0"),
    ("host-dimm-count", printed("host.dimms",
                                "\n".join([*(demo.dimm(f"A{n}") for n in range(31)), demo.dimm("B7", "")])),
     "memory: 31 modules; empty: B7, expected 32"),
    ("host-dimm-alike", printed("host.dimms",
                                "\n".join([demo.dimm("A1"), demo.dimm("A2"),
                                           demo.dimm("A3", "32 GB", 4400)])),
     "A3: 32 GiB, expected 64 GiB, as most; A3: 4400 MT/s, expected 4800 MT/s, as most"),
    ("service-failed", printed("service.units",
                               demo.unit("chrony") + "\u25cf " + demo.unit("munge", "failed", "failed")),
     "munge: failed (failed), expected not failed"),
    ("service-expected", printed("service.units",
                                 demo.unit("sshd") + demo.unit("chronyd", "activating", "auto-restart")),
     "chronyd: activating (auto-restart), expected active"),
    ("service-expected", printed("service.units", demo.unit("sshd")),
     "chronyd: not installed, expected active"),
    ("module-forbidden", files("module.loaded", {"modules": "nouveau 2306048 0 - Live 0x0000000000000000\n"}),
     "nouveau: loaded, expected not loaded"),
    ("module-expected", files("module.loaded", {"modules": "".join(
        f"{name} 1 0 - Live 0x0\n" for name in ("nvidia", "nvidia_uvm", "mlx5_core",
                                                "mlx5_ib"))}), "ib_uverbs: not loaded, expected loaded"),
    ("bmc-sel-critical",
     sel("   6 | 11/20/2026 | 03:10:11 | Memory CPU0_DIMM_A1 | Uncorrectable ECC | Asserted"),
     "Memory CPU0_DIMM_A1: Uncorrectable ECC (2026-11-20 03:10), expected none in 7 days"),
    ("bmc-sel-critical", sel("   6 | 11/14/2026 | 12:00:00 | Processor CPU1 | IERR | Asserted"),
     "Processor CPU1: IERR (2026-11-14 12:00), expected none in 7 days"),
    ("bmc-sel-critical",
     sel("   6 | 11/20/26 | 03:10:11 UTC | Critical Interrupt #0x05 | PCI SERR | Asserted | bus 5"),
     "Critical Interrupt #0x05: PCI SERR (2026-11-20 03:10), expected none in 7 days"),
    ("bmc-sel-critical", sel("   6 |  Pre-Init  |0000000099| Processor CPU0 | Thermal Trip | Asserted"),
     "Processor CPU0: Thermal Trip (undated), expected none in 7 days"),
    ("bmc-power-supply",
     sel("   6 | 01/02/2026 | 03:10:11 | Power Supply PSU4 | Power Supply AC lost | Asserted"),
     "Power Supply PSU4: Power Supply AC lost (2026-01-02 03:10), expected supplied, and redundant"),
    ("bmc-power-supply",
     sel("   6 | 01/02/2026 | 03:10:11 | Power Unit PSU_RED | Redundancy Lost | Asserted"),
     "Power Unit PSU_RED: Redundancy Lost (2026-01-02 03:10), expected supplied, and redundant"),
    ("bmc-sel-full", printed("bmc.log-info", "Percent Used     : 90%\n"),
     "event log: 90 % full, expected below 90 %"),
    ("bmc-sensors",
     printed("bmc.sensors", HOT + demo.sensor("FAN3", "cr", "0 RPM")),
     "TEMP_CPU0: 96 degrees C (ucr), expected within its critical thresholds"),
    ("bmc-fan",
     printed("bmc.sensors", HOT + demo.sensor("FAN3", "lnr", "0 RPM")),
     "FAN3: 0 RPM (lnr), expected within its critical thresholds"),
]
PASSING = [
    ("host-clock-source", machine.recording()),
    ("host-clock-source", files("host.clock-source", {CLOCKS: "kvm-clock\n"})),
    ("host-clock-source", files("host.clock-source", {CLOCKS: "arch_sys_counter\n"})),
    ("host-resolver", files("host.resolver", {"resolv.conf": "nameserver fe80::1%eth0\n"})),
    ("host-crash", machine.recording()),
    ("host-cmdline", machine.recording()), ("host-sysctl", machine.recording()),
    ("module-forbidden", machine.recording()),
    ("module-forbidden",
     files("module.loaded", {"modules": "nouveau 2306048 0 - Unloading 0x0000000000000000\n"})),
    ("module-expected", machine.recording()),
    ("service-failed", machine.recording()),
    ("service-expected", printed("service.units", demo.unit("sshd") + demo.unit("chronyd"))),
    ("host-dimm-count", machine.recording()), ("host-dimm-alike", machine.recording()),
    ("bmc-sel-critical", sel("   6 | 11/14/2026 | 11:59:59 | Processor CPU1 | IERR | Asserted")),
    ("bmc-sel-critical", sel("   6 | 11/20/2026 | 11:59:59 | Memory A1 | Correctable ECC | Asserted")),
    ("bmc-sel-critical", printed("bmc.log", "SEL has no entries\n")),
    ("bmc-power-supply",
     sel("   6 | 01/02/2026 | 03:10:11 | Power Supply PSU4 | Presence detected | Asserted")),
    ("bmc-sel-full", printed("bmc.log-info", "Percent Used     : 89%\n")),
    ("bmc-sensors", printed("bmc.sensors", demo.sensor("TEMP_CPU0", "unc", "86 degrees C"))),
    ("bmc-fan", printed("bmc.sensors", demo.sensor("FAN1", "ns", "No Reading"))),
]


@pytest.mark.parametrize(("rule", "seen", "text"), FAILING,
                         ids=[f"{n}-{rule}" for n, (rule, _, _) in enumerate(FAILING)])
def test_what_is_wrong_fails_and_is_said(rule: str, seen: Recording, text: str) -> None:
    result = verdict(rule, seen, dimm_count=32)
    assert (result.status, findings_of(result)) == (Status.FAIL, text), result.reason


@pytest.mark.parametrize(("rule", "seen"), PASSING,
                         ids=[f"{n}-{rule}" for n, (rule, _) in enumerate(PASSING)])
def test_what_is_right_passes(rule: str, seen: Recording) -> None:
    result = verdict(rule, seen, dimm_count=32)
    assert result.status is Status.PASS, (result.reason, findings_of(result))


@pytest.mark.parametrize("rule", sorted(RULES - {"host-clock-offset", "host-name"}))
@pytest.mark.parametrize("outcome", [Outcome.DENIED, Outcome.TIMEOUT, Outcome.CRASHED, Outcome.WEDGED,
                                     Outcome.TRUNCATED])
def test_what_was_not_measured_is_unknown(rule: str, outcome: Outcome) -> None:
    if rule in COMMANDS:
        seen = machine.recording(**{COMMANDS[rule].replace(".", "_", 1): Capture(outcome)})
    elif rule in FILES:
        seen = files(FILES[rule][0], {FILES[rule][1]: outcome})
    else:
        seen = machine.recording(host_crash=Capture(Outcome.DONE,
                                                    files={**machine.captures()["host.crash"].files,
                                                           "/sys/fs/pstore": FileCapture(outcome)}))
    assert verdict(rule, seen, dimm_count=32).status is Status.UNKNOWN


@pytest.mark.parametrize("rule", sorted(COMMANDS))
def test_a_tool_that_is_not_installed_skips_its_rules(rule: str) -> None:
    seen = machine.recording(**{COMMANDS[rule].replace(".", "_", 1): Capture(Outcome.MISSING)})
    assert verdict(rule, seen, dimm_count=32).status is Status.SKIPPED


@pytest.mark.parametrize(("rule", "probe", "stderr"), [
    ("bmc-sel-critical", "bmc.log",
     "Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: No such file or directory\n"),
    ("host-dimm-count", "host.dimms", "# No SMBIOS nor DMI entry point found, sorry.\n"),
    ("service-failed", "service.units",
     "System has not been booted with systemd as init system (PID 1). Can't operate.\n"),
])
def test_a_node_that_has_no_such_thing_is_skipped(rule: str, probe: str, stderr: str) -> None:
    assert verdict(rule, printed(probe, "", exit=1, stderr=stderr), dimm_count=32).status is Status.SKIPPED


@pytest.mark.parametrize("backend", ["(null)\n", Outcome.MISSING])
def test_a_machine_that_keeps_no_crash_records_is_skipped_unless_there_is_one(backend: str | Outcome) -> None:
    assert verdict("host-crash", files("host.crash",
                                       {"parameters/backend": backend})).status is Status.SKIPPED
    kept = files("host.crash",
                 {"parameters/backend": backend, "/var/lib/systemd/pstore/1732170000/dmesg.txt": "Panic#1\n"})
    assert verdict("host-crash", kept).status is Status.FAIL


def test_a_controller_that_may_not_be_asked_is_unknown() -> None:
    denied = "Could not open device at /dev/ipmi0 or /dev/ipmi/0 or /dev/ipmidev/0: Permission denied\n"
    assert verdict("bmc-sensors", printed("bmc.sensors", "", exit=1, stderr=denied)).status is Status.UNKNOWN


@pytest.mark.parametrize(("off", "text"), [
    (60.0, ""), (-60.0, ""), (61.0, "clock: 61 s ahead of the head's, expected at most 60 s apart"),
    (-300.0, "clock: 300 s behind the head's, expected at most 60 s apart"),
])
def test_a_clock_is_off_beyond_a_minute(off: float, text: str) -> None:
    seen = machine.recording()
    assert findings_of(verdict("host-clock-offset", machine.on_host(seen, time=seen.received + off))) == text


@pytest.mark.parametrize(("own", "fails"),
                         [("GPU001.cluster.internal", False), ("gpu001", False), ("gpu002", True)])
def test_a_node_is_called_what_the_inventory_calls_it(own: str, fails: bool) -> None:
    result = verdict("host-name", machine.on_host(machine.recording(), hostname=own))
    assert findings_of(result) == (f"host name: {own}, expected gpu001, as in the inventory" if fails else "")


APPROVED = {"versions": ("1.6.8", "1.6.7")}


def test_a_bios_is_of_an_approved_version() -> None:
    assert verdict("host-bios", machine.recording(), having=APPROVED).status is Status.PASS
    other = files("host.firmware", {"bios_version": "1.6.6\n"})
    assert findings_of(verdict("host-bios", other,
                               having=APPROVED)) == "BIOS: 1.6.6 of 04/10/2024, expected 1.6.8 or 1.6.7"


@pytest.mark.parametrize(("outcome", "status"),
                         [(Outcome.DENIED, Status.UNKNOWN), (Outcome.CRASHED, Status.UNKNOWN),
                          (Outcome.MISSING, Status.SKIPPED)])
def test_a_bios_that_could_not_be_read_or_is_not_there_is_not_approved(
    outcome: Outcome, status: Status,
) -> None:
    assert verdict("host-bios", files("host.firmware",
                                      {"bios_version": outcome}), having=APPROVED).status is status


def test_a_kernel_without_modules_has_none_that_could_be_missing() -> None:
    assert verdict("module-expected", files("module.loaded",
                                            {"modules": Outcome.MISSING})).status is Status.SKIPPED


@pytest.mark.parametrize(("rule", "probe", "path", "text", "words"), [
    ("fleet-product", "host.firmware", "product_name", "DGXH200\n", "machine: "),
    ("fleet-microcode", "cpu.microcode", "microcode/version", "0x2b0004b1\n", "microcode: "),
])
def test_the_node_that_is_another_machine_is_named(rule: str, probe: str, path: str, text: str,
                                                   words: str) -> None:
    same = machine.recording()
    found = cohort(rule, same, same, same, files(probe, {path: text}))
    assert [status for status, _ in found] == [Status.PASS] * 3 + [Status.FAIL]
    assert (found[3][1].startswith(words) and text.strip() in found[3][1]
            and found[3][1].endswith("as on 3 of 4 nodes"))
    unread = cohort(rule, same, same, same, files(probe, {path: Outcome.DENIED}))
    assert [status for status, _ in unread] == [Status.PASS] * 3 + [Status.UNKNOWN]


def test_an_event_that_was_taken_back_is_none_and_one_that_came_again_is() -> None:
    lost = "{} | 11/20/2026 | 03:1{}:11 | Power Supply PSU4 | Power Supply AC lost | {}"
    rows = [lost.format(6, 1, "Asserted"), lost.format(7, 2, "Deasserted"), lost.format(8, 3, "Asserted")]
    assert verdict("bmc-power-supply", sel(*rows[:2])).status is Status.PASS
    assert findings_of(verdict("bmc-power-supply", sel(*rows))).startswith(
        "Power Supply PSU4: Power Supply AC lost (2026-11-20 03:13)")


def test_a_redundancy_that_came_back_is_not_lost_although_its_loss_was_never_deasserted() -> None:
    """As Dell's and Intel's controllers log it: states of one sensor (IPMI 2.0, table 42-2, type 0Bh)."""
    states = "{} | 11/20/2026 | 03:1{}:11 | Power Supply {} | {} | Asserted"
    lost = states.format(6, 1, "PS Redundancy", "Redundancy Lost")
    back = states.format(7, 2, "PS Redundancy", "Fully Redundant")
    assert findings_of(verdict("bmc-power-supply", sel(lost))).startswith("Power Supply PS Redundancy: Redun")
    assert verdict("bmc-power-supply", sel(lost, back)).status is Status.PASS
    again = states.format(8, 3, "PS Redundancy", "Non-Redundant: Insufficient Resources")
    assert verdict("bmc-power-supply", sel(lost, back, again)).status is Status.FAIL
    other = states.format(7, 2, "PS2 Redundancy", "Fully Redundant")
    failed = states.format(7, 2, "PS Redundancy", "Failure detected")
    assert verdict("bmc-power-supply", sel(lost, other)).status is Status.FAIL
    assert findings_of(verdict("bmc-power-supply", sel(failed, lost, back))).count("Failure detected") == 1
    assert findings_of(verdict("bmc-power-supply", sel(lost, failed))).count("Redundancy Lost") == 1
    taken_back = back.replace("Asserted", "Deasserted")
    assert verdict("bmc-power-supply", sel(lost, taken_back)).status is Status.FAIL


PARSERS = {
    "sel": (bmc.events, "bmc.log", bmc.BmcLog), "sensors": (bmc.sensors, "bmc.sensors", bmc.BmcSensors),
    "units": (unit.states, "service.units", unit.Units),
    "dimms": (firmware.slots, "host.dimms", firmware.Dimms),
}
OF_FILES = {
    "modules": (module.live, demo.MODULES), "resolv": (resolver.servers, demo.RESOLV),
    "cmdline": (system.parameters, demo.CMDLINE),
}


@pytest.mark.parametrize("name", sorted(PARSERS))
def test_a_command_that_was_cut_at_any_byte_is_parsed_or_refused_and_never_another_fault(name: str) -> None:
    parse, probe, _ = PARSERS[name]
    text = healthy(probe)
    for at in range(min(len(text), 3000)):
        try:
            parse(text[:at])
        except ValueError:
            continue


@given(st.sampled_from(sorted(PARSERS)),
       st.text(alphabet=st.sampled_from("0aF|: \n\t/.-%\x1b\u25cf\x00Sizemdy"), max_size=200))
def test_whatever_a_command_says_becomes_a_fact_or_a_reason(name: str, text: str) -> None:
    parse, _, _ = PARSERS[name]
    with contextlib.suppress(ValueError):
        parse(text)


@given(st.sampled_from(sorted(OF_FILES)), st.text(max_size=200))
def test_whatever_a_file_holds_becomes_a_fact_or_a_reason(name: str, text: str) -> None:
    parse, _ = OF_FILES[name]
    with contextlib.suppress(ValueError, IndexError):
        parse(text)


@given(st.text(max_size=300))
def test_a_distribution_is_a_name_of_one_line_or_none(text: str) -> None:
    try:
        name = system.pretty_name(text)
    except ValueError:
        return
    assert name and "\n" not in name and "\x1b" not in name and len(name) <= 100


def test_the_node_with_another_clock_source_is_named_and_a_slow_one_only_once() -> None:
    same = machine.recording()
    other, slow = (files("host.clock-source", {CLOCKS: f"{name}\n"}) for name in ("kvm-clock", "hpet"))
    unread = files("host.clock-source", {CLOCKS: Outcome.DENIED})
    said = cohort("fleet-clock-source", same, same, same, same, same, other, slow, unread)
    assert said[5] == (Status.FAIL, "clock source: kvm-clock, expected tsc, as on 5 of 7 nodes")
    assert (said[6][0], "host-clock-source" in said[6][1]) == (Status.SKIPPED, True)
    assert said[7][0] is Status.UNKNOWN and {status for status, _ in said[:5]} == {Status.PASS}
