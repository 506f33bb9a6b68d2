"""Rules of rules/netdev.yaml, rules/roce.yaml and rules/optics.yaml over the healthy machine with some files
changed."""

from __future__ import annotations

import re
from typing import Any

import pytest

from healthcheck.model.outcome import Severity, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine, network
from tests.healthcheck.checks.verdicts import RULES, after, cohort, ids, status_words, verdict
from tests.healthcheck.network import EINVAL, ethtool, hwmon, link, mlxlink, netdev, roce, statistics

DENIED = FileCapture(Outcome.DENIED)
PASS, FAIL, UNKNOWN, SKIPPED = Status.PASS, Status.FAIL, Status.UNKNOWN, Status.SKIPPED


def ether(bond: str = network.BOND, rows: dict[str, str] | None = None, **changes: Any) -> Recording:
    lacp = network.capture({"/proc/net/bonding/bond0": bond} if bond else {})
    return machine.recording(netdev_sysfs=netdev(bond, rows, **changes), netdev_lacp=lacp)


def unprivileged(bond: str) -> str:
    """The same file as the kernel shows it to everybody: bond_procfs.c leaves out what LACP agreed on."""
    of_bond, *of_members = bond.split("\nSlave Interface:")
    seen = [of_bond.partition("System priority:")[0],
            *(part.partition("Actor Churn State:")[0] for part in of_members)]
    return "\nSlave Interface:".join(seen)


# ---- Ethernet, one look

NO_LINK = {"operstate": "down\n", "speed": EINVAL, "duplex": EINVAL}


@pytest.mark.parametrize(("rule", "now", "status", "words"), [
    ("netdev-link", ether(), PASS, ""),
    ("netdev-link", ether(eno3=NO_LINK), FAIL,
     "eno3 (0000:0c:00.0): no link; since its driver was loaded it had one 2 times, expected a link"),
    ("netdev-link", ether(eno3=NO_LINK | {"carrier_up_count": "0\n"}), PASS, ""),
    ("netdev-link", ether(eno3=NO_LINK | {"flags": "0x1002\n"}), PASS, ""),
    ("netdev-link", ether(eno2=NO_LINK), PASS, ""),     # bond-members' matter
    ("netdev-link", ether(eno3={"operstate": "unknown\n"}), PASS,
     "not supported: link of eno3 (0000:0c:00.0)"),
    ("netdev-link", ether(eno3={"operstate": "sideways\n"}), UNKNOWN,
     "eno3 (0000:0c:00.0): /sys/class/net/eno3/operstate holds 'sideways', which is not in the documented "
     "format"),
    ("netdev-link", ether(eno3={"flags": DENIED}), UNKNOWN,
     "eno3 (0000:0c:00.0): /sys/class/net/eno3/flags: permission denied"),
    ("netdev-speed", ether(), PASS, ""),
    ("netdev-speed", ether(eno2={"speed": "1000\n"}), FAIL,
     "eno2 (0000:0b:00.1): 1000 Mb/s, expected 10000 Mb/s, as another of bond0"),
    ("netdev-speed", ether(eno3={"speed": "1000\n"}), PASS, ""),    # alone, it may be meant so
    ("netdev-speed", ether("", eno3={"speed": "1000\n"}), FAIL,
     "eno3 (0000:0c:00.0): 1000 Mb/s, expected 10000 Mb/s, as 2 of the node's 3 such interfaces"),
    ("netdev-speed", ether(eno2=NO_LINK), PASS, ""),
    ("netdev-duplex", ether(), PASS, ""),
    ("netdev-duplex", ether(eno3={"duplex": "half\n"}), FAIL,
     "eno3 (0000:0c:00.0): half duplex, expected full duplex"),
    ("netdev-mtu", ether(), PASS, ""),
    ("netdev-mtu", ether(eno1={"mtu": "9000\n"}), FAIL,
     "eno2 (0000:0b:00.1): MTU 1500, expected MTU 9000, as another of bond0"),
    ("netdev-mtu", ether(eno3={"mtu": "9000\n"}), PASS, ""),
    ("bond-members", ether(), PASS, ""),
    ("bond-members", ether(""), SKIPPED, "not supported: up of bonds"),
    ("bond-members", ether(network.BOND.replace("Slave Interface: eno2\nMII Status: up",
                                                "Slave Interface: eno2\nMII Status: down")), FAIL,
     "bond0 eno2: no link, expected a link"),
    ("bond-members", ether(network.BOND.partition("\nSlave Interface: eno2")[0]), FAIL,
     "bond0: 1 members, expected at least 2"),
    ("bond-lacp", ether(), PASS, ""),
    ("bond-lacp", ether(network.BOND.replace("\tPartner Mac Address: 02:01:00:00:01:01",
                                             "\tPartner Mac Address: 00:00:00:00:00:00")), FAIL,
     "bond0: no LACP partner answers, expected the switch's address as partner"),
    ("bond-lacp", ether("Aggregator ID: 2".join(network.BOND.rsplit("Aggregator ID: 1", 1))), FAIL,
     "bond0 eno2: in aggregator 2, expected in the active one, 1"),
    ("bond-lacp", ether("Partner Churn State: churned".join(network.BOND.rsplit("Partner Churn State: none",
                                                                                1))), FAIL,
     "bond0 eno2: LACP churned, expected in synchronisation"),
    ("bond-lacp", ether(network.BOND.replace("IEEE 802.3ad Dynamic link aggregation",
                                             "fault-tolerance (active-backup)")), PASS, ""),
    ("bond-lacp", ether(unprivileged(network.BOND)), UNKNOWN,
     "bond0: what /proc/net/bonding/bond0 says of LACP needs root (CAP_NET_ADMIN)"),
    ("bond-members", ether(unprivileged(network.BOND)), PASS, ""),
    ("bond-lacp", ether(re.sub("(?s)Active Aggregator Info:.*?\n\n",
                               "bond bond0 has no active aggregator\n\n", network.BOND)), FAIL,
     "bond0: no LACP partner answers, expected the switch's address as partner"),
    ("bond-lacp", ether(""), SKIPPED, "not supported: lacp of bonds"),
])
def test_an_ethernet_fault_is_named(rule: str, now: Recording, status: Status, words: str) -> None:
    assert status_words(rule, now) == (status, words)


# ---- Ethernet, two looks

def row(packets: int = 1000, errors: int = 0, drops: int = 0, frame: int = 0,
        sent_errors: int = 0) -> dict[str, str]:
    return {"eno1": f"1000 {packets} {errors} {drops} 0 {frame} 0 0 1000 1000 {sent_errors} 0 0 0 0 0"}


@pytest.mark.parametrize(("rule", "now", "status", "words"), [
    ("netdev-carrier-changes", ether(eno1={"carrier_up_count": "3\n", "carrier_down_count": "3\n"}), PASS,
     ""),
    ("netdev-carrier-changes", ether(eno1={"carrier_up_count": "3\n", "carrier_down_count": "4\n"}), FAIL,
     "eno1 (0000:0b:00.0): its link changed 3 times since the earlier snapshot, expected at most 2 times"),
    ("netdev-carrier-changes", ether(eno1={"carrier_up_count": "1\n", "carrier_down_count": "1\n"}), UNKNOWN,
     "eno1 (0000:0b:00.0): ups went from 2 to 1: it was reset between the two snapshots"),
    ("netdev-errors", ether(rows=row(errors=10, frame=10)), PASS, ""),
    ("netdev-errors", ether(rows=row(errors=11, frame=11)), FAIL,
     "eno1 (0000:0b:00.0): rx_frame: 0.11 a second, expected at most 0.1 a second"),
    ("netdev-errors", ether(rows=row(errors=101)), FAIL,
     "eno1 (0000:0b:00.0): rx_errors: 1.01 a second, expected at most 1 a second"),
    ("netdev-errors", ether(rows=row(sent_errors=101)), FAIL,
     "eno1 (0000:0b:00.0): tx_errors: 1.01 a second, expected at most 1 a second"),
    ("netdev-drops", ether(rows=row(packets=100_000, drops=999)), PASS, ""),
    ("netdev-drops", ether(rows=row(packets=101_000, drops=1000)), PASS, ""),
    ("netdev-drops", ether(rows=row(packets=91_000, drops=1000)), FAIL,
     "eno1 (0000:0b:00.0): dropped 1000 packets, received 90000, expected at most 1.00% dropped"),
])
def test_what_grew_between_two_looks_is_judged_by_its_rate(rule: str, now: Recording, status: Status,
                                                           words: str) -> None:
    assert status_words(rule, after(now, 100), ether()) == (status, words)


def test_a_new_interface_has_no_rate_yet() -> None:
    earlier = network.netdev()
    fewer = machine.recording(netdev_sysfs=network.capture(
        {path: entry for path, entry in earlier.files.items() if "/eno3/" not in path}))
    assert status_words("netdev-errors", after(ether(), 100),
                 fewer) == (UNKNOWN, "eno3 (0000:0c:00.0): the earlier snapshot has no such netdev")


@pytest.mark.parametrize("rule",
                         sorted(name for name in ids("netdev.yaml") if name.startswith(("netdev-", "bond-"))))
def test_a_machine_without_ethernet_on_pci_is_skipped_and_one_that_cannot_be_listed_unknown(
    rule: str,
) -> None:
    nothing = machine.recording(netdev_sysfs=network.capture({"/proc/net/dev": network.counts()}),
                                netdev_lacp=network.capture({}))
    assert verdict(rule, nothing, nothing).status is SKIPPED
    closed = machine.recording(
        netdev_sysfs=network.capture({"/sys/class/net": DENIED, "/proc/net/bonding": DENIED}),
        netdev_lacp=network.capture({"/proc/net/bonding": DENIED}))
    assert verdict(rule, closed, nothing).status is UNKNOWN
    wedged = Capture(Outcome.WEDGED, note="wedged since noon")
    late = machine.recording(netdev_sysfs=wedged, netdev_lacp=wedged)
    assert verdict(rule, late, nothing).status is UNKNOWN


def test_virtual_functions_and_interfaces_of_containers_are_not_judged() -> None:
    files = dict(network.netdev().files)
    for name, more in (("enp1v0", {"device/physfn/uevent": "PCI_SLOT_NAME=0000:0c:00.0\n"}),
                       ("usb0", {"device/uevent": "DRIVER=cdc_ether\n"})):
        changed = network.interface(name, "0000:0d:00.1", **{**NO_LINK, **more})
        files |= network.capture(changed).files
    now = machine.recording(netdev_sysfs=network.capture(files))
    assert status_words("netdev-link", now) == (PASS, "")


# ---- Ethernet, the fleet

@pytest.mark.parametrize(("rule", "odd", "unread", "words"), [
    ("fleet-netdev-mtu", {"mtu": "9000\n"}, {"mtu": DENIED},
     "eno3 (0000:0c:00.0): MTU 9000, expected MTU 1500, as on 3 of 4 nodes at 0000:0c:00.0"),
    ("fleet-netdev-speed", {"speed": "1000\n"}, {"speed": DENIED},
     "eno3 (0000:0c:00.0): 1000 Mb/s, expected 10000 Mb/s, as on 3 of 4 nodes at 0000:0c:00.0"),
])
def test_the_interface_that_is_not_as_the_fleets_is_named(
    rule: str, odd: dict[str, Any], unread: dict[str, Any], words: str,
) -> None:
    same, other = ether(), ether(eno3=odd)
    assert cohort(rule, same, same, other, same) == [(PASS, "")] * 2 + [(FAIL, words), (PASS, "")]
    split = cohort(rule, same, same, other, other)
    assert {status for status, _ in split} == {PASS}
    assert all(reason.startswith("eno3 (0000:0c:00.0): no ") for _, reason in split)
    found = cohort(rule, same, same, same, ether(eno3=unread), other)
    assert [status for status, _ in found] == [PASS] * 3 + [UNKNOWN, FAIL]
    assert "permission denied" in found[3][1] and found[4][1] == words


def test_an_interface_that_is_administratively_down_is_named_and_so_is_one_that_only_this_node_uses() -> None:
    same, down = ether(), ether(eno3=NO_LINK | {"flags": "0x1002\n"})
    words = ("eno3 (0000:0c:00.0): {}, expected {}, as on 3 of 4 nodes with eno3 at 0000:0c:00.0")
    off, on = "not set up (administratively down)", "set up"
    assert cohort("fleet-netdev-state", same, same, down, same)[2] == (FAIL, words.format(off, on))
    assert cohort("fleet-netdev-state", down, same, down, down)[1] == (FAIL, words.format(on, off))
    assert {status for status, _ in cohort("fleet-netdev-state", same, same, down, down)} == {PASS}


def test_a_bond_that_is_gone_or_of_another_mode_is_named() -> None:
    same = ether()
    held = dict(network.netdev().files)
    bond = next(path for path in held if path.startswith("/proc/net/bonding/"))
    gone = machine.recording(netdev_sysfs=network.capture({path: entry
                                                           for path, entry in held.items() if path != bond}))
    other = machine.recording(netdev_sysfs=network.capture({**held, bond: held[bond].text.replace(
        "IEEE 802.3ad Dynamic link aggregation", "fault-tolerance (active-backup)")}))
    for odd, words in ((gone, "bonds: no bond, expected bond"), (other, "fault-tolerance (active-backup)")):
        found = cohort("fleet-bond", same, same, odd, same)
        assert [status for status, _ in found] == [PASS, PASS, FAIL, PASS] and words in found[2][1], found
    closed = machine.recording(netdev_sysfs=network.capture({**held, bond: DENIED}))
    assert [status
            for status, _ in cohort("fleet-bond", same, same, closed, same)] == [PASS, PASS, UNKNOWN, PASS]


def test_an_interface_that_is_not_set_up_is_compared_with_none() -> None:
    same, down = ether(), ether(eno3=NO_LINK | {"flags": "0x1002\n", "mtu": "9000\n"})
    for rule in ("fleet-netdev-mtu", "fleet-netdev-speed"):
        assert cohort(rule, same, same, same, down) == [(PASS, "")] * 4


# ---- RoCE

def converged(**changes: Any) -> Recording:
    """The machine with RoCE on all its ports."""
    ethernet: dict[str, Any] = {f"mlx5_{n}.link_layer": "Ethernet\n" for n in range(8)}
    return machine.recording(port_sysfs=machine.ports(**ethernet), roce_sysfs=roce(**changes))


PORT = "mlx5_3/1 (0000:43:00.0)"


@pytest.mark.parametrize(("rule", "now", "status", "words"), [
    ("roce-gid", converged(), PASS, ""),
    ("roce-gid", converged(**{"mlx5_3.gids/3": network.LINK_LOCAL}), FAIL,
     f"{PORT}: no RoCE v2 GID but link-local ones, expected a RoCE v2 GID of the interface's address"),
    ("roce-gid", converged(**{"mlx5_3.gid_attrs/types/3": EINVAL}), FAIL,
     f"{PORT}: no RoCE v2 GID but link-local ones, expected a RoCE v2 GID of the interface's address"),
    ("roce-gid", converged(**{"mlx5_3.gid_attrs/types/3": DENIED}), UNKNOWN,
     f"{PORT}: /sys/class/infiniband/mlx5_3/ports/1/gid_attrs/types/3: permission denied"),
    # Three VLANs of a port whose own interface has no address: link-local ones fill what is read.
    ("roce-gid", converged(**{f"mlx5_3.{table}/{entry}": text for entry in range(8) for table, text in (
        ("gid_attrs/types", "RoCE v2\n" if entry % 2 else "IB/RoCE v1\n"), ("gids", network.LINK_LOCAL))}),
     UNKNOWN, f"{PORT}: only its first 8 GIDs are read, and none of them routes"),
    ("roce-gid", machine.recording(), SKIPPED, "not supported: active of RoCE ports"),
    ("roce-mtu", converged(), PASS, ""),
    ("roce-mtu", converged(**{"mlx5_3.mtu": "1500\n"}), FAIL,
     f"{PORT}: MTU 1500, expected MTU 4200, as 7 of the node's 8 such ports"),
])
def test_a_roce_fault_is_named(rule: str, now: Recording, status: Status, words: str) -> None:
    assert status_words(rule, now) == (status, words)


@pytest.mark.parametrize(("rule", "changes", "status", "words"), [
    ("roce-retransmits", {"packet_seq_err": 1000, "implied_nak_seq_err": 1000, "roce_adp_retrans": 1000},
     PASS, ""),
    ("roce-retransmits", {"packet_seq_err": 1001}, FAIL,
     f"{PORT}: packet_seq_err: 10.0 a second, expected at most 10 a second"),
    ("roce-retransmits", {"roce_adp_retrans": 2000}, FAIL,
     f"{PORT}: roce_adp_retrans: 20.0 a second, expected at most 10 a second"),
    ("roce-icrc", {}, PASS, ""),
    ("roce-icrc", {"rx_icrc_encapsulated": 1}, FAIL,
     f"{PORT}: rx_icrc_encapsulated grew by 1 since the earlier snapshot, expected no growth"),
    ("roce-cnp", {"rp_cnp_handled": 100_000}, PASS, ""),
    ("roce-cnp", {"rp_cnp_handled": 100_100}, FAIL,
     f"{PORT}: rp_cnp_handled: 1001.0 a second, expected 0.0 a second, the median of the node's others"),
])
def test_losses_and_congestion_are_judged_by_their_rate(rule: str, changes: dict[str, int], status: Status,
                                                        words: str) -> None:
    now = converged(**{f"mlx5_3.{name}": f"{value}\n" for name, value in changes.items()})
    assert status_words(rule, after(now, 100), converged()) == (status, words)


def test_congestion_that_meets_all_ports_alike_accuses_none() -> None:
    now = converged(**{f"mlx5_{n}.rp_cnp_handled": f"{1_000_000 + n}\n" for n in range(8)})
    assert status_words("roce-cnp", after(now, 100), converged()) == (PASS, "")


def paused(**values: int) -> Recording:
    return machine.recording(roce_ethtool=ethtool(rail0=statistics(), rail1=statistics(**values)))


@pytest.mark.parametrize(("rule", "values", "status", "words"), [
    ("roce-pfc-storm", {}, PASS, ""),
    ("roce-pfc-storm", {"tx_pause_storm_error_events": 2}, FAIL,
     "mlx5_1 rail1: tx_pause_storm_error_events grew by 2 since the earlier snapshot, expected no growth"),
    ("roce-pfc", {"rx_prio3_pause_duration": 20_000_000}, PASS, ""),
    ("roce-pfc", {"rx_prio3_pause_duration": 20_100_000}, FAIL,
     "mlx5_1 rail1: was paused for 20.1% of the time, expected at most 20.0%"),
    ("roce-pfc", {"tx_prio3_pause_duration": 30_000_000}, FAIL,
     "mlx5_1 rail1: paused its switch for 30.0% of the time, expected at most 20.0%"),
])
def test_pauses_are_judged_by_their_share_of_the_time(rule: str, values: dict[str, int], status: Status,
                                                      words: str) -> None:
    assert status_words(rule, after(paused(**values), 100), paused()) == (status, words)


@pytest.mark.parametrize(
    ("said_of", "status", "words"),
    [(Capture(Outcome.MISSING), SKIPPED, "not supported: stalls of ethtool"),
     (ethtool(), SKIPPED, "not supported: stalls of RoCE interfaces"),
     (network.capture({f"{network.RDMA}/mlx5_0/device/net/rail0": "exit 94: no stats available\n"}), SKIPPED,
      "not supported: stalls of mlx5_0 rail0"),
     (network.capture({f"{network.RDMA}/mlx5_0/device/net/rail0": "exit 97: Cannot get stats information\n"}),
      UNKNOWN, "mlx5_0 rail0: ethtool -S rail0 ended with exit status 97: Cannot get stats information"),
     (network.capture({f"{network.RDMA}/mlx5_0/device/net/rail0": FileCapture(Outcome.TIMEOUT, "\n")}),
      UNKNOWN, f"mlx5_0 rail0: {network.RDMA}/mlx5_0/device/net/rail0: the command's outcome is timeout")])
def test_what_ethtool_does_not_say_is_no_pass(said_of: Capture, status: Status, words: str) -> None:
    now = machine.recording(roce_ethtool=said_of)
    assert status_words("roce-pfc-storm", now, now) == (status, words)


# ---- Optics

def optics(**texts: str) -> Recording:
    return machine.recording(
        optics_mlxlink=mlxlink(**{name: f"exit 0\n{text}" for name, text in texts.items()}))


def module(**changes: Any) -> str:
    return link(network.MODULE | changes)


@pytest.mark.parametrize(("rule", "now", "status", "words"), [
    ("optics-temperature", machine.recording(optics_hwmon=hwmon(**{"mlx5_3.temp2_input": "70000\n"})), PASS,
     ""),
    ("optics-temperature", machine.recording(optics_hwmon=hwmon(**{"mlx5_3.temp2_input": "71000\n"})), FAIL,
     "mlx5_3 (0000:43:00.0) Module0: 71 C, expected at most 70 C"),
    ("optics-temperature", machine.recording(optics_hwmon=hwmon(**{"mlx5_3.temp1_input": "90000\n"})), PASS,
     ""),
    ("optics-temperature", machine.recording(optics_hwmon=network.capture({})), SKIPPED,
     "not supported: module of sensors of adapters"),
    ("optics-temperature", machine.recording(optics_hwmon=hwmon(**{"mlx5_3.temp2_input": "hot\n"})), UNKNOWN,
     "mlx5_3 (0000:43:00.0) Module0: /sys/class/infiniband/mlx5_3/device/hwmon/hwmon3/temp2_input holds "
     "'hot', "
     "which is not in the documented format"),
    ("optics-adapter-temperature",
     machine.recording(optics_hwmon=hwmon(**{"mlx5_3.temp1_input": "100000\n"})), PASS, ""),
    ("optics-adapter-temperature",
     machine.recording(optics_hwmon=hwmon(**{"mlx5_3.temp1_input": "101000\n"})), FAIL,
     "mlx5_3 (0000:43:00.0) asic: 101 C, expected at most 100 C, 5 below critical"),
    ("optics-rx-power", optics(), PASS, ""),
    ("optics-rx-power", optics(mlx5_3=module(**{"Rx Power Current [dBm]": "0,2,-9,0 [-8..6]"})), FAIL,
     "mlx5_3 lane 2: receives -9 dBm, expected -8 to 6 dBm"),
    ("optics-rx-power", optics(mlx5_3=module(**{"Rx Power Current [dBm]": "0,2,-8,0 [-8..6]"})), PASS, ""),
    ("optics-rx-power",
     optics(mlx5_3=link(network.MODULE | {"Rx Power Current [dBm]": "-40,-40,-40,-40 [-8..6]"}, "Polling")),
     PASS, ""),
    ("optics-rx-power", optics(**{f"mlx5_{n}": link(network.COPPER) for n in range(8)}), SKIPPED,
     "not supported: rx dBm of mlx5_0; rx dBm of mlx5_1; rx dBm of mlx5_2; and 5 more"),
    ("optics-rx-power", optics(mlx5_3=module(**{"Rx Power Current [dBm]": "bright"})), UNKNOWN,
     "mlx5_3: mlxlink's Rx power is bright, which is not in the known format"),
    ("optics-rx-power", machine.recording(), SKIPPED, "not supported: up of mlxlink and ethtool"),
    ("optics-tx-power", optics(mlx5_3=module(**{"Tx Power Current [dBm]": "1,1,1,5.5 [-8.508..5]"})), FAIL,
     "mlx5_3 lane 3: sends 5.5 dBm, expected -8.508 to 5 dBm"),
    ("optics-alarm", optics(), PASS, ""),
    ("optics-alarm", optics(mlx5_3=module(**{"Rx LOS [per lane]": {"values": ["0", "1", "0", "0"]}})), FAIL,
     "mlx5_3: Rx LOS lane 1, expected no such flag"),
    ("optics-alarm", optics(mlx5_3=module(**{"Module FW Fault": "1"})), FAIL,
     "mlx5_3: Module FW Fault, expected no such flag"),
    ("optics-alarm", optics(mlx5_3=module(**{"Temperature [C]": "76 [-5..75]"})), FAIL,
     "mlx5_3: module at 76 C, expected at most 75 C, its own threshold"),
    ("port-ber", optics(), PASS, ""),
    ("port-ber", optics(mlx5_3=link(effective="1E-12")), PASS, ""),
    ("port-ber", optics(mlx5_3=link(effective="2E-12")), FAIL,
     "mlx5_3: effective BER 2e-12, expected at most 1e-12"),
    ("port-ber", optics(mlx5_3=link(effective="low")), UNKNOWN,
     "mlx5_3: mlxlink's ratio of bit errors is low, which is not in the known format"),
    ("port-ber", machine.recording(optics_mlxlink=Capture(Outcome.DENIED, note="the helper did not run")),
     UNKNOWN,
     "optics: mlxlink: permission denied: the helper did not run (needs root)"),
    ("port-ber", optics(mlx5_3='{"result": {}, "status": {"code": 1, "message": "No such device"}}'), UNKNOWN,
     "mlx5_3: mlxlink -d mlx5_3: No such device"),
])
def test_optics_are_judged_by_their_own_thresholds(rule: str, now: Recording, status: Status,
                                                   words: str) -> None:
    assert status_words(rule, now) == (status, words)


def test_what_costs_a_command_a_port_and_root_is_asked_for_by_bringup_alone() -> None:
    costly = {rule.id for rule in RULES.values()
              if any(probe.id == "optics.mlxlink" for probe in rule.probes)}
    assert costly == {"optics-alarm", "optics-rx-power", "optics-tx-power", "port-ber"}
    assert all(RULES[name].disabled for name in costly)


def test_no_rule_that_is_only_simulated_is_critical() -> None:
    for name in ids("netdev.yaml") | ids("roce.yaml") | ids("optics.yaml"):
        assert RULES[name].proven.value != "simulated" or RULES[name].severity is not Severity.CRITICAL


# ---- Optics without mlxlink

LIGHT = ("optics-rx-power", "optics-tx-power", "optics-alarm")


def seen_by_ethtool(text: str = "", *, ports: dict[str, str] | None = None, whole: str = "") -> Recording:
    """The machine without mlxlink; `text` is what ethtool printed of the fourth adapter, `whole` the
    command's whole word."""
    said_of = network.modules(mlx5_3=whole or f"exit 0\n{text or network.transceiver()}")
    return machine.recording(optics_ethtool=said_of, port_sysfs=machine.ports(**(ports or {})))


@pytest.mark.parametrize(("rule", "now", "status", "words"), [
    *((rule, seen_by_ethtool(), PASS, "") for rule in LIGHT),
    ("optics-rx-power",
     seen_by_ethtool(network.transceiver(Rcvr_signal_avg_optical_power_Channel_3="0.0467 mW / -13.31 dBm")),
     PASS, ""),
    ("optics-rx-power",
     seen_by_ethtool(network.transceiver(Rcvr_signal_avg_optical_power_Channel_3="0.0449 mW / -13.48 dBm")),
     FAIL,
     "mlx5_3 eth3 lane 2: receives -13.48 dBm, expected -13.31 to 5.4 dBm"),
    ("optics-rx-power",
     seen_by_ethtool(network.transceiver(Rcvr_signal_avg_optical_power_Channel_1="0.0000 mW / -inf dBm")),
     FAIL,
     "mlx5_3 eth3 lane 0: receives -40 dBm, expected -13.31 to 5.4 dBm"),
    ("optics-tx-power",
     seen_by_ethtool(network.transceiver(Transmit_avg_optical_power_Channel_4="3.5000 mW / 5.44 dBm")), FAIL,
     "mlx5_3 eth3 lane 3: sends 5.44 dBm, expected -11.4 to 5.4 dBm"),
    ("optics-alarm", seen_by_ethtool(network.transceiver(Laser_rx_power_low_alarm_Channel_2="On")), FAIL,
     "mlx5_3 eth3: Laser rx power low alarm channel 2, expected no such flag"),
    ("optics-alarm", seen_by_ethtool(network.transceiver(Laser_bias_current_high_alarm_Chan_4="On")), FAIL,
     "mlx5_3 eth3: Laser bias current high alarm channel 4, expected no such flag"),
    ("optics-alarm", seen_by_ethtool(network.transceiver(Laser_bias_current_high_warning_Chan_4="On")), PASS,
     ""),
    ("optics-alarm", seen_by_ethtool(network.transceiver(Module_voltage_low_alarm="On")), FAIL,
     "mlx5_3 eth3: Module voltage low alarm, expected no such flag"),
    ("optics-alarm", seen_by_ethtool(network.transceiver(Rx_loss_of_lock="[ No, Yes, No, Yes ]")), FAIL,
     "mlx5_3 eth3: Rx loss of lock channel 2, expected no such flag; mlx5_3 eth3: Rx loss of lock channel 4, "
     "expected no such flag"),
    ("optics-alarm",
     seen_by_ethtool(network.transceiver(Module_temperature="80.00 degrees C / 176.00 degrees F")), PASS, ""),
    ("optics-alarm",
     seen_by_ethtool(network.transceiver(Module_temperature="80.50 degrees C / 176.90 degrees F")), FAIL,
     "mlx5_3 eth3: module at 80.5 C, expected at most 80 C, its own threshold"),
    # An empty port in the rack is no one's fault: the port's own rules speak of its link.
    ("optics-alarm", seen_by_ethtool(network.transceiver(Rx_loss_of_signal="[ Yes, Yes, Yes, Yes ]"),
                                     ports={"mlx5_3.phys_state": "2: Polling\n"}),
     PASS, ""),
    ("optics-alarm", seen_by_ethtool(ports={"mlx5_3.phys_state": "bright\n"}), UNKNOWN,
     "mlx5_3 eth3: /sys/class/infiniband/mlx5_3/ports/1/phys_state holds 'bright', which is not in the "
     "documented format"),
    # A module that has no thresholds gives zeroes; one of copper gives none of it.
    ("optics-rx-power",
     seen_by_ethtool(network.transceiver(Laser_rx_power_high_alarm_threshold="0.0000 mW / -inf dBm",
                                         Laser_rx_power_low_alarm_threshold="0.0000 mW / -inf dBm")), PASS,
     "not supported: rx low of mlx5_3 eth3"),
    ("optics-alarm",
     seen_by_ethtool("\tIdentifier                                : 0x11 (QSFP28)\n\tVendor : Mellanox\n"),
     PASS, "not supported: faults of mlx5_3 eth3"),
    *((rule, seen_by_ethtool(whole="exit 1: netlink error: Operation not supported\n"), PASS,
       "not supported: up of mlx5_3 eth3")
      for rule in ("optics-rx-power", "optics-tx-power")),
    *((rule, seen_by_ethtool(whole="exit 1: netlink error: Input/output error\n"), UNKNOWN,
       "mlx5_3 eth3: ethtool -m eth3: exit status 1, netlink error: Input/output error")
      for rule in ("optics-rx-power", "optics-tx-power")),
    ("optics-rx-power",
     seen_by_ethtool(network.transceiver(Rcvr_signal_avg_optical_power_Channel_1="bright")), UNKNOWN,
     "mlx5_3 eth3: ethtool's power is bright, which is not in the known format"),
    ("optics-alarm", seen_by_ethtool(whole="exit 0\nOffset\t\tValues\n"), UNKNOWN,
     "mlx5_3 eth3: ethtool -m eth3: the answer has no Identifier, or is truncated"),
    ("port-ber", seen_by_ethtool(), SKIPPED,
     "not supported: effective BER of mlx5_0 eth0; effective BER of mlx5_1 eth1; effective BER of mlx5_2 "
     "eth2; and 5 more"),
    ("optics-alarm", machine.recording(optics_ethtool=network.capture({})), SKIPPED,
     "not supported: up of interfaces of adapters"),
    ("optics-alarm", machine.recording(optics_ethtool=Capture(Outcome.DENIED)), UNKNOWN,
     "optics: ethtool: permission denied (needs root)"),
])
def test_a_module_is_judged_by_ethtool_where_mlxlink_is_not_installed(
    rule: str, now: Recording, status: Status, words: str,
) -> None:
    assert status_words(rule, now) == (status, words)


def test_where_mlxlink_is_installed_its_word_is_taken() -> None:
    dark = network.modules(mlx5_3=f"exit 0\n{network.transceiver(Laser_rx_power_low_alarm_Channel_2='On')}")
    assert status_words("optics-alarm", machine.recording(optics_mlxlink=mlxlink(),
                                                   optics_ethtool=dark)) == (PASS, "")
