"""Every RDMA driver beside mlx5: a sound node of it fails no rule and leaves none unknown; what its driver
shows of a fault is named; what its driver does not have is skipped."""

from __future__ import annotations

import pytest

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.counter import TABLE, GrowthMeaning
from healthcheck.model.outcome import Status
from healthcheck.model.recording import FileCapture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import RULES, after, cohort, findings_of, ids, verdict
from tests.healthcheck.network import capture
from tests.healthcheck.rdma import BNXT, EFA, HFI1, IDPF, IONIC, IRDMA, KINDS, MANA, ZERO_GID, Kind, node

NETWORK = sorted(rule for file in ("port.yaml", "hca.yaml", "roce.yaml", "optics.yaml") for rule in ids(file)
                 if not RULES[rule].checked.fleet and not rule.startswith("hca-log")
                 and rule not in ("optics-rx-power", "optics-tx-power", "optics-alarm", "port-ber"))
NAMED = pytest.mark.parametrize("kind", KINDS, ids=[kind.driver for kind in KINDS])
# Rates that a SKU asks for are another matter: 400 Gb/s of the H100's.
NUMBERS = {"port_rate_gbps": 100.0}


@NAMED
def test_a_sound_node_of_each_driver_fails_no_rule_and_leaves_none_unknown(kind: Kind) -> None:
    now, earlier = after(node(kind), 600), node(kind)
    results = {rule: verdict(rule, now, earlier, **NUMBERS) for rule in NETWORK}
    odd = {rule: (result.status, findings_of(result) or result.reason) for rule, result in results.items()
           if result.status not in (Status.PASS, Status.SKIPPED)}
    assert odd == {}
    for rule in ("port-count", "port-state", "port-rate", "port-gid", "port-devices", "hca-present"):
        assert results[rule].status is Status.PASS
    # Only mlx5 has boards; only InfiniBand has subnet managers; EFA and hfi1 have no RoCE.
    assert results["hca-psid"].status is Status.SKIPPED
    assert results["roce-gid"].status is (Status.SKIPPED if kind in (EFA, HFI1) else Status.PASS)
    assert results["port-link-downed"].status is (Status.PASS if kind is HFI1 else Status.SKIPPED)


@NAMED
def test_what_a_driver_shows_of_a_fault_is_named(kind: Kind) -> None:
    name = kind.name.format(3)
    at = f"{name}/1 (0000:43:00.0)"

    def found(rule: str, **changes: str | FileCapture | None) -> str:
        return findings_of(verdict(rule, node(kind, **changes), **NUMBERS))

    assert found("port-state",
                 **{"3 ports/1/state": "1: DOWN\n"}) == f"{at}: DOWN, LinkUp, expected ACTIVE, LinkUp"
    assert found("port-rate", **{"3 ports/1/rate": "25 Gb/sec (1X EDR)\n"}).startswith(f"{at}: 25 Gb/s")
    assert found("port-gid", **{"3 ports/1/gids/0": ZERO_GID}).startswith(f"{at}: no GID")
    if kind.firmware:
        assert found("hca-firmware", **{"3 fw_ver": "1.0\n"}) == (
            f"{name} (0000:43:00.0): 1.0, expected {kind.firmware}, as 7 of the node's 8 such adapters")
    if kind not in (EFA, MANA):
        assert found("hca-pcie-width",
                     **{"3 device/current_link_width": "8\n"}).startswith(f"{name} (0000:43:00.0): x8")
    if kind.sensor:
        assert found("optics-adapter-temperature", **{"3 device/hwmon/hwmon3/temp1_input": "104000\n"}) == (
            f"{name} (0000:43:00.0) temp1: 104 C, expected at most 100 C, 5 below critical")
    unread = verdict("port-state", node(kind, **{"3 ports/1/state": FileCapture(Outcome.DENIED)}))
    assert unread.status is Status.UNKNOWN and at in unread.reason


@pytest.mark.parametrize(("kind", "counter"), [(kind, counter) for kind in KINDS for counter in kind.counters
                                               if counter != "link_downed"])
def test_each_counter_of_a_driver_that_grows_is_named(kind: Kind, counter: str) -> None:
    spec = next(spec for spec in TABLE if spec.name == counter)
    rule = {GrowthMeaning.FATAL: "port-errors-fatal", GrowthMeaning.RATE: "port-errors-rate",
            GrowthMeaning.JOB: "port-retries"}[spec.meaning]
    most = (1 << spec.bits) - 2 if spec.bits else 10**6
    earlier = node(kind, counted={f"3 {counter}": 0})
    result = verdict(rule, after(node(kind, counted={f"3 {counter}": most}), 600), earlier)
    assert result.status is Status.FAIL and f"{kind.name.format(3)}/1 (0000:43:00.0)" in findings_of(result)
    assert counter in findings_of(result)
    assert verdict(rule, after(earlier, 600), earlier).status is Status.PASS


@pytest.mark.parametrize("kind", [BNXT, IRDMA, IDPF, IONIC, EFA], ids=lambda kind: kind.driver)
def test_an_adapter_that_lost_its_rdma_device_is_named_where_most_of_its_model_have_one(kind: Kind) -> None:
    whole = node(kind)
    bare = {path: entry for path, entry in whole.captures["port.sysfs"].files.items()
            if f"/{kind.name.format(3)}/" not in path}
    lost = machine.recording(**{name.replace(".", "_"): held for name, held in whole.captures.items()
                                     if name != "port.sysfs"}, port_sysfs=capture(bare))
    assert findings_of(verdict("hca-present", lost)) == (
        f"adapter at 0000:43:00.0: driver {kind.driver}, no RDMA device, expected an RDMA device")
    # One of eight has RDMA: switched on for that port alone, and no fault of the others.
    few = {path: entry for path, entry in bare.items() if f"/{kind.name.format(1)}/" in path}
    one = machine.recording(**{name.replace(".", "_"): held for name, held in whole.captures.items()
                                    if name != "port.sysfs"}, port_sysfs=capture(few))
    assert verdict("hca-present", one).status is Status.PASS


def test_a_driver_that_tells_no_firmware_is_not_compared_and_one_that_is_not_read_is_unknown() -> None:
    assert verdict("hca-firmware", node(EFA)).status is Status.SKIPPED
    assert verdict("hca-firmware",
                   node(BNXT, **{"3 fw_ver": FileCapture(Outcome.DENIED)})).status is Status.UNKNOWN
    found = cohort("fleet-hca-firmware", node(BNXT), node(BNXT), node(BNXT, **{
        f"{n} fw_ver": "229.0.0.0\n" for n in range(8)}))
    assert [status for status, _ in found] == [Status.PASS, Status.PASS, Status.FAIL]
    assert "bnxt_re0 (0000:40:00.0)" in found[2][1] and "adapters of board 14e4:1760" in found[2][1]


def test_a_counter_that_is_not_in_the_table_is_not_asked_for_on_a_node_of_mlx5() -> None:
    others = [spec for spec in TABLE if spec.devices != "*"]
    assert others and all(spec.devices in ("[!m]*", "mana*") and spec.folder == "hw_counters"
                          for spec in others)
    facts = build_fact(FACTS["port_rate_counters"], Captures(node(MANA)))
    assert {counter.counter for counter in facts} == {"requester_timeout", "requester_oos_nak"}
