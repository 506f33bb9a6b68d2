"""Rules of rules/pcie-config.yaml: redirection by switches, sizes of payloads and read requests, and the
words that they are read from."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.pcie_config import words
from healthcheck.facts.values import Partial, Unmeasured
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.assessing import assessed
from tests.healthcheck.checks.ports import BASE as RDMA
from tests.healthcheck.checks.ports import changed
from tests.healthcheck.checks.verdicts import findings_of, ids, status_findings, verdict

ACS, PAYLOAD, READS, FLEET = "pcie-acs", "pcie-max-payload", "pcie-max-read-request", "fleet-pcie-config"
RELAXED = "pcie-relaxed-ordering"
ON_NODE = (ACS, PAYLOAD, READS, RELAXED)
ADAPTER, GPU = "port 0000:17:00.0 above mlx5_core 0000:18:00.0", "port 0000:17:01.0 above nvidia 0000:1b:00.0"
TO_ROOT, NONE = "between peers up to the root complex", "expected no redirection"


def with_words(**texts: str | None) -> Recording:
    return machine.recording(pcie_config=machine.pcie_settings(**texts))


def port(acs: str = "0000", devctl: str = "215f", kind: int = 6) -> str:
    return f"flags 00{kind}2\ndevcap 00008022\ndevctl {devctl}\nacs 005f {acs}\n"


def device(devctl: str, driver: str = "mlx5_core", devcap: str = "00008022") -> str:
    return f"driver {driver}\nflags 0002\ndevcap {devcap}\ndevctl {devctl}\n"


@pytest.mark.parametrize(("texts", "finding"), [
    ({}, ""),
    ({"p17:00.0": port("001d")}, f"{ADAPTER}: ACS sends requests and completions {TO_ROOT}, {NONE}"),
    ({"p17:00.0": port("0004")}, f"{ADAPTER}: ACS sends requests {TO_ROOT}, {NONE}"),
    ({"p17:01.0": port("0008")}, f"{GPU}: ACS sends completions {TO_ROOT}, {NONE}"),
    ({"p17:00.0": port("001d"), "p17:01.0": port("001d")},
     f"{ADAPTER} and 1 more: ACS sends requests and completions {TO_ROOT}, {NONE}"),
    # sources are validated, translations blocked, nothing is redirected
    ({"p17:00.0": port("0013")}, ""),
    ({"p17:00.0": port("005d")}, ""),       # redirected but for what is translated already
    ({"p17:00.0": port(kind=5).partition("acs")[0]}, ""),
])
def test_a_switch_that_sends_peers_to_the_root_complex_is_named(texts: dict[str, str], finding: str) -> None:
    assert status_findings(ACS, with_words(**texts)) == (Status.FAIL if finding else Status.PASS, finding)


@pytest.mark.parametrize(("texts", "finding"), [
    ({}, ""),
    ({"p18:00.0": device("512f")}, "mlx5_core 0000:18:00.0: payloads of up to 256 bytes, expected 512 bytes, "
     "as port 0000:17:00.0 above it"),
    ({"p18:00.0": device("516f")}, "mlx5_core 0000:18:00.0: payloads of up to 1024 bytes, expected 512 "
     "bytes, as port 0000:17:00.0 above it"),
    ({"p18:00.0": device("512f", devcap="00008021")}, ""),         # it can do no more
    ({"p17:01.0": port(devctl="212f"), "p1b:00.0": device("512f", "nvidia")},
     f"{GPU}: payloads of up to 256 bytes, expected 512 bytes, as port 0000:16:00.0 above it"),
    ({"p17:00.0": None, "p18:00.0": device("512f")}, ""),          # what it hangs from is none of PCI Express
])
def test_payloads_that_do_not_fit_the_port_above_are_reported(texts: dict[str, str | None],
                                                              finding: str) -> None:
    assert status_findings(PAYLOAD, with_words(**texts)) == (Status.FAIL if finding else Status.PASS, finding)


@pytest.mark.parametrize(("devctl", "finding"), [
    ("515f", ""), ("215f", ""),
    ("115f", "mlx5_core 0000:18:00.0: reads of up to 256 bytes, expected at least 512"),
    ("015f", "mlx5_core 0000:18:00.0: reads of up to 128 bytes, expected at least 512"),
])
def test_an_adapter_that_may_read_less_than_a_device_does_by_default_is_reported(
    devctl: str, finding: str,
) -> None:
    result = verdict(READS, with_words(**{"p18:00.0": device(devctl)}))
    assert (result.status, findings_of(result)) == (Status.FAIL if finding else Status.PASS, finding)
    assert verdict(READS, with_words(**{"p1b:00.0": device(devctl, "nvidia")})).status is Status.PASS


def test_an_adapter_whose_writes_may_not_overtake_others_is_reported() -> None:
    strict = with_words(**{"p18:00.0": device("514f")})
    assert findings_of(verdict(RELAXED,
                               strict)) == "mlx5_core 0000:18:00.0: relaxed ordering is off, expected on"
    assert verdict(RELAXED, with_words(**{"p1b:00.0": device("514f", "nvidia")})).status is Status.PASS
    found = fleet(n2=machine.pcie_settings(**{"p18:00.0": device("514f")}))
    assert findings_of(found[2]) == (
        "mlx5_core 0000:18:00.0: payloads of 512 bytes, reads of 4096, no relaxed ordering, expected "
        "payloads of 512 "
        "bytes, reads of 4096, as on 4 of 5 nodes")


@pytest.mark.parametrize("driver", ["mlx5_core", "bnxt_en", "ice", "idpf", "ionic", "efa", "hfi1", "cxi_ss1"])
def test_every_rdma_driver_is_judged_as_mlx5_is(driver: str) -> None:
    rdma = changed(machine.ports(), f"{RDMA}/mlx5_0/device/uevent", text="PCI_SLOT_NAME=0000:18:00.0\n")

    def seen(rule: str, **texts: str) -> str:
        held = machine.pcie_settings(**{"p18:00.0": device("515f", driver), **texts})
        return findings_of(verdict(rule, machine.recording(pcie_config=held, port_sysfs=rdma)))

    assert [seen(rule) for rule in ON_NODE] == [""] * 4
    assert seen(READS,
                **{"p18:00.0": device("115f",
                                      driver)}).startswith(f"{driver} 0000:18:00.0: reads of up to 256")
    assert seen(RELAXED, **{"p18:00.0": device("514f", driver)}).startswith(f"{driver} 0000:18:00.0: relaxed")
    assert seen(PAYLOAD,
                **{"p18:00.0": device("511f", driver)}).startswith(f"{driver} 0000:18:00.0: payloads of up")
    assert seen(ACS,
                **{"p17:00.0": port("001d")}).startswith(f"port 0000:17:00.0 above {driver} 0000:18:00.0")


@pytest.mark.parametrize("driver", ["bnxt_en", "ice", "idpf", "ionic"])
def test_an_ethernet_adapter_without_rdma_is_not_judged_nor_the_port_above_it(driver: str) -> None:
    held = machine.pcie_settings(**{"p18:00.0": device("010f", driver), "p17:00.0": port("001d")})
    assert [verdict(rule, machine.recording(pcie_config=held)).status for rule in ON_NODE] == [
        Status.PASS, Status.PASS, Status.SKIPPED, Status.SKIPPED]
    # Not known which of them have RDMA: no pass.
    lost = machine.recording(pcie_config=held, port_sysfs=Capture(Outcome.TIMEOUT))
    torn = machine.recording(pcie_config=held, port_sysfs=changed(
        machine.ports(), f"{RDMA}/mlx5_0/device/uevent", outcome=Outcome.DENIED))
    for one in (lost, torn):
        assert {verdict(rule, one).status for rule in ON_NODE} == {Status.UNKNOWN}


@pytest.mark.parametrize("devctl", ["0000", "8000"])
def test_a_virtual_function_that_a_guest_was_given_shows_no_settings_and_is_not_judged(devctl: str) -> None:
    guest = with_words(**{"p18:00.0": device(devctl)})
    assert verdict(PAYLOAD, guest).status is Status.PASS
    for rule in (READS, RELAXED):
        assert verdict(rule, guest).status is Status.SKIPPED


@pytest.mark.parametrize("rule", ON_NODE)
@pytest.mark.parametrize("wrong", [Outcome.DENIED, Outcome.TIMEOUT, Outcome.CRASHED, "\x1b[31m",
                                   "flags 0062\ndevcap", "flags 0062\ndevcap 00008022\ndevctl 61ff"])
def test_what_was_not_shown_is_unknown_and_hides_no_finding(rule: str, wrong: Outcome | str) -> None:
    for path in machine.pcie_settings().files:
        held = machine.pcie_settings()
        entry = FileCapture(wrong) if isinstance(wrong, Outcome) else FileCapture(Outcome.DONE, wrong)
        result = verdict(rule,
                         machine.recording(pcie_config=replace(held, files={**held.files, path: entry})))
        assert result.status is Status.UNKNOWN, path
    held = machine.pcie_settings(**{"p17:01.0": port("001d")})
    adapter = next(path for path in held.files if "17:00.0/config" in path)
    both = machine.recording(pcie_config=replace(held,
                                                 files={**held.files, adapter: FileCapture(Outcome.DENIED)}))
    assert verdict(ACS, both).status is Status.FAIL


@pytest.mark.parametrize(("rule", "lacking"), [
    (ACS, ("p17:00.0", "p17:01.0")), (ACS, ("p17:01.0",)), (READS, ("p18:00.0",)),
    (RELAXED, ("p18:00.0",)),
    (PAYLOAD, ("p:15:01.0", "p16:00.0", "p17:00.0", "p17:01.0", "p18:00.0", "p1b:00.0")),
])
def test_a_node_without_a_switch_an_adapter_or_any_of_them_skips_the_rule(
    rule: str, lacking: tuple[str, ...],
) -> None:
    held = machine.pcie_settings()
    kept = {path: entry for path, entry in held.files.items() if f"p{path[-14:-7]}" not in lacking
            and rule != PAYLOAD}
    result = verdict(rule, machine.recording(pcie_config=replace(held, files=kept)))
    assert (result.status, result.reason.partition(":")[0]) == (Status.SKIPPED, "not supported")


def fleet(**odd: Capture) -> list[Result]:
    """Results of five nodes, of which those named have settings of their own."""
    seen = [machine.recording(name, pcie_config=odd.get(name, machine.pcie_settings()))
            for name in ("n0", "n1", "n2", "n3", "n4")]
    return [next(result for result in report.results if result.rule == FLEET)
            for report in assessed(*seen).reports]


def test_the_node_whose_sizes_are_not_its_peers_is_named_and_what_differs_alike_is_one_finding() -> None:
    odd = machine.pcie_settings(**{"p18:00.0": device("215f"), "p1b:00.0": device("215f", "nvidia")})
    found = fleet(n2=odd, n3=machine.pcie_settings(**{"p17:00.0": port("001d")}))
    assert findings_of(found[2]) == (
        "mlx5_core 0000:18:00.0 and 1 more: payloads of 512 bytes, reads of 512, "
        "expected payloads of 512 bytes, reads of 4096, as on 4 of 5 nodes")
    assert [result.status for result in found] == [Status.PASS, Status.PASS, Status.FAIL, Status.PASS,
                                                   Status.PASS]


def test_a_fleet_that_is_split_accuses_no_one_and_a_node_that_was_not_read_is_unknown() -> None:
    split = {f"n{n}": machine.pcie_settings(**{"p18:00.0": device(f"{n}15f")}) for n in range(3)}
    assert [result.status for result in fleet(**split)] == [Status.SKIPPED] * 5
    found = fleet(n1=replace(machine.pcie_settings(), outcome=Outcome.DENIED, files={}))
    assert [result.status for result in found] == [Status.PASS, Status.UNKNOWN, Status.PASS, Status.PASS,
                                                   Status.PASS]


def test_every_rule_of_the_file_is_tested_here() -> None:
    assert ids("pcie-config.yaml") == {*ON_NODE, FLEET}


SAMPLE = "driver pcieport\nflags 0062\ndevcap 00008022\ndevctl 515f\nacs 005f 001d"


def test_words_are_read_and_refused_where_they_are_cut_anywhere() -> None:
    assert words(SAMPLE) == ("pcieport", (0x0062, 0x8022, 0x515F, 0x1D))
    assert words("driver nvidia\nconventional") == ("nvidia", None)
    for end in range(len(SAMPLE)):
        with pytest.raises(ValueError, match=r"\A"):
            words(SAMPLE[:end])


@given(st.text())
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"\A"):
        words(text)


@given(data=st.data())
def test_no_bytes_in_any_entry_raise(data: st.DataObject) -> None:
    held = machine.pcie_settings()
    path = data.draw(st.sampled_from(sorted(held.files)))
    text = data.draw(st.text(max_size=60) | st.from_regex(
                         r"flags [0-9a-f]{4}\ndevcap [0-9a-f]{8}\ndevctl [0-9a-f]{4}", fullmatch=True))
    changed = replace(held, files={**held.files, path: FileCapture(Outcome.DONE, text)})
    value = build_fact(FACTS["pcie_config"], Captures(machine.recording(pcie_config=changed)))
    assert not isinstance(value, Unmeasured)
    assert not isinstance(value, Partial) or value.reason
