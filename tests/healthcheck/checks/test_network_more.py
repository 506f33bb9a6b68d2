"""Rules of networks beside a single link's: what interfaces dropped and repaired, teams, a cloud's virtual
interfaces, and what nodes of one kind share (drivers, RDMA devices, addresses and routes)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.routes import parse_addresses6, parse_routes
from healthcheck.facts.team import parse_team
from healthcheck.facts.values import Unmeasured, reading
from healthcheck.model.outcome import Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from healthcheck.scrub import scrub
from inventory.model import Node
from tests.healthcheck import machine, network
from tests.healthcheck.checks.verdicts import RULES, after, cohort, ids, status_words
from tests.healthcheck.network import capture, ethtool, netdev, route, statistics

PASS, FAIL, UNKNOWN, SKIPPED = Status.PASS, Status.FAIL, Status.UNKNOWN, Status.SKIPPED
DENIED = FileCapture(Outcome.DENIED)


# ---- what Ethernet interfaces of RDMA devices dropped and repaired; the ports run at 400 Gb/s

COUNTERS = {"rx_discards_phy": 0, "rx_out_of_buffer": 0, "rx_pcs_symbol_err_phy": 0,
            "rx_corrected_bits_phy": 0}


def counting(speed: str = "400 Gb/sec (4X NDR)", **values: int) -> Recording:
    ports = machine.ports(**{f"mlx5_{n}.rate": f"{speed}\n" for n in range(8)})
    return machine.recording(port_sysfs=ports, roce_ethtool=ethtool(
        rail0=statistics(**COUNTERS), rail1=statistics(**COUNTERS | values)))


# In 100 seconds at 400 Gb/s 4e13 bits pass: 1e-13 of them is 4, 2.4e-5 is 9.6e8.
COUNTED = [
    ("roce-pfc-storm-warning", "tx_pause_storm_warning_events", 0, 1,
     "tx_pause_storm_warning_events grew by 1 since the earlier snapshot, expected no growth"),
    ("roce-discards", "rx_discards_phy", 10_000, 10_010,
     "dropped 100.1 packets a second for want of the adapter's buffers, expected at most 100 a second"),
    ("roce-out-of-buffer", "rx_out_of_buffer", 10_000, 10_010,
     "dropped 100.1 packets a second that the host had no buffers for, expected at most 100 a second"),
    ("roce-symbol-errors", "rx_pcs_symbol_err_phy", 9, 10,
     "10 errors lost, 2e-13 of its bits at 400 Gb/s, expected at most 1e-13"),
    ("roce-corrected-bits", "rx_corrected_bits_phy", 960_000_000, 980_000_000,
     "980000000 errors corrected, 2e-05 of its bits at 400 Gb/s, expected at most 2e-05"),
]


@pytest.mark.parametrize(("rule", "counter", "most", "beyond", "words"), COUNTED)
def test_what_an_interface_dropped_or_repaired_is_judged_by_its_growth(
    rule: str, counter: str, most: int, beyond: int, words: str,
) -> None:
    earlier = counting()
    assert status_words(rule, after(counting(**{counter: most}), 100), earlier) == (PASS, "")
    assert status_words(rule, after(counting(**{counter: beyond}), 100),
                        earlier) == (FAIL, f"mlx5_1 rail1: {words}")
    # Counters that stand high and do not grow are old news.
    assert status_words(rule, after(counting(**{counter: beyond}), 100),
                        counting(**{counter: beyond})) == (PASS, "")


def test_slower_links_have_the_limit_of_their_own_error_correction() -> None:
    slow = "100 Gb/sec (4X EDR)"
    errors, corrected = counting(slow, rx_pcs_symbol_err_phy=10), counting(slow,
                                                                           rx_corrected_bits_phy=51_000_000)
    # 1e13 bits: 1e-12 of them is 10, and 5e-6 is 5e7.
    assert status_words("roce-symbol-errors", after(errors, 100), counting(slow))[0] is PASS
    assert status_words("roce-symbol-errors", after(counting(slow, rx_pcs_symbol_err_phy=11), 100),
                        counting(slow))[0] is FAIL
    assert status_words("roce-corrected-bits", after(corrected, 100), counting(slow))[0] is FAIL
    unknown = machine.ports(**{"mlx5_1.rate": "fast\n"})
    lost = machine.recording(port_sysfs=unknown, roce_ethtool=after(errors, 0).captures["roce.ethtool"])
    assert status_words("roce-symbol-errors", after(lost, 100), counting(slow))[0] is UNKNOWN


@pytest.mark.parametrize("name",
                         ["rx_discards_phy", "rx_total_discard_pkts", "rx_dropped.nic", "frames_rx_dropped"])
def test_each_drivers_name_of_dropped_packets_is_known(name: str) -> None:
    now, earlier = (machine.recording(roce_ethtool=ethtool(rail0=f"NIC statistics:\n     {name}: {value}\n"))
                    for value in (50_000, 0))
    assert status_words("roce-discards", after(now, 100), earlier)[0] is FAIL


@pytest.mark.parametrize("rule", [line[0] for line in COUNTED])
def test_an_interface_without_the_counter_is_skipped_and_one_that_was_not_asked_unknown(rule: str) -> None:
    bare = machine.recording(roce_ethtool=ethtool(rail0="NIC statistics:\n     rx_packets: 3\n"))
    assert status_words(rule, after(bare, 100), bare)[0] is SKIPPED
    hung = machine.recording(roce_ethtool=capture({f"{network.RDMA}/mlx5_0/device/net/rail0":
                                                   FileCapture(Outcome.TIMEOUT, "\n")}))
    assert status_words(rule, after(hung, 100), counting())[0] is UNKNOWN
    assert status_words(rule, machine.recording(roce_ethtool=Capture(Outcome.MISSING)),
                        counting())[0] is SKIPPED


def test_a_storm_that_ended_with_packets_dropped_is_reported_once() -> None:
    both = counting(tx_pause_storm_warning_events=3, tx_pause_storm_error_events=1)
    assert status_words("roce-pfc-storm-warning", after(both, 100), counting()) == (PASS, "")
    assert status_words("roce-pfc-storm", after(both, 100), counting())[0] is FAIL


# ---- teams, as teamd's state dump shows them


def team(runner: str = "lacp", ports: tuple[str, ...] = ("eno1", "eno2"), **changes: Any) -> str:
    """A team's state; `changes` by "eno2" replace entries of one port."""
    def port(name: str) -> dict[str, Any]:
        held: dict[str, Any] = {
            "ifinfo": {"ifname": name, "ifindex": 4}, "link": {"duplex": "full", "speed": 10000, "up": True},
            "link_watches": {"list": {"link_watch_0": {"name": "ethtool", "up": True, "down_count": 0}},
                             "up": True}}
        if runner == "lacp":
            held["runner"] = {
                "aggregator": {"id": 4, "selected": True}, "selected": True, "state": "current",
                "prio": 255, "key": 0,
                "actor_lacpdu_info": {"system": "00:0f:53:11:22:33", "state": 61},
                "partner_lacpdu_info": {"system": "c4:7d:4f:44:55:66", "state": 60, "port": 51}}
        return {**held, **changes.get(name, {})}

    return json.dumps({
        "ports": {name: port(name) for name in ports}, "runner": {"active": True, "fast_rate": False},
        "setup": {"runner_name": runner, "kernel_team_mode_name": "loadbalance", "pid": 5018,
                  "daemonized": False},
        "team_device": {"ifinfo": {"ifname": "team0"}}})


def teamed(text: str = "", entry: FileCapture | None = None, **changes: Any) -> Recording:
    return machine.recording(
        netdev_sysfs=netdev("", **changes), netdev_lacp=capture({}),
        netdev_teamd=capture({"/run/teamd/team0.sock": entry or f"exit 0\n{text or team()}"}))


DOWN = {"link_watches": {"up": False}}
ASTRAY = {"runner": {"aggregator": {"id": 5, "selected": False}, "state": "current",
                     "partner_lacpdu_info": {}}}
SILENT = {"runner": {"aggregator": {"id": 4, "selected": True}, "state": "defaulted",
                     "partner_lacpdu_info": {"system": "00:00:00:00:00:00"}}}


@pytest.mark.parametrize(("rule", "now", "status", "words"), [
    ("bond-members", teamed(), PASS, ""),
    ("bond-members", teamed(team(eno2=DOWN)), FAIL, "team0 eno2: no link, expected a link"),
    ("bond-members", teamed(team(ports=("eno1",))), FAIL, "team0: 1 members, expected at least 2"),
    ("bond-members", teamed(team(ports=())), FAIL,
     "team0: down, expected up; team0: 0 members, expected at least 2"),
    ("bond-members", teamed(team("activebackup", eno2=DOWN)), FAIL, "team0 eno2: no link, expected a link"),
    ("bond-lacp", teamed(), PASS, ""),
    ("bond-lacp", teamed(team("activebackup")), PASS, ""),
    ("bond-lacp", teamed(team(eno2=ASTRAY)), FAIL,
     "team0 eno2: in aggregator 5, expected in the active one, 4"),
    ("bond-lacp", teamed(team(eno1=SILENT, eno2=SILENT)), FAIL,
     "team0: no LACP partner answers, expected the switch's address as partner"),
    ("bond-members", teamed(entry=FileCapture(Outcome.DONE, "exit 1: Failed to connect daemon.\n")), UNKNOWN,
     "team0: teamdctl team0 state dump ended with exit status 1: Failed to connect daemon."),
    ("bond-members", teamed("{}"), UNKNOWN,
     "team0: the answer of teamdctl team0 state dump is not in the known format"),
    ("bond-members", machine.recording(netdev_teamd=Capture(Outcome.MISSING)), UNKNOWN,
     "bonds: teamdctl is not there"),
    # A member is the team's matter.
    ("netdev-link", teamed(eno2={"operstate": "down\n"}), PASS, ""),
    ("netdev-link", machine.recording(netdev_sysfs=netdev("", eno2={"operstate": "down\n"})), FAIL,
     "eno2 (0000:0b:00.1): no link; since its driver was loaded it had one 2 times, expected a link"),
])
def test_a_team_is_judged_as_a_bond(rule: str, now: Recording, status: Status, words: str) -> None:
    assert status_words(rule, now) == (status, words)


def test_a_node_whose_team_is_gone_or_has_another_runner_is_named_among_its_equals() -> None:
    gone = machine.recording(netdev_sysfs=netdev(""), netdev_lacp=capture({}))
    found = cohort("fleet-bond", teamed(), teamed(), teamed(), teamed(team("activebackup")), gone)
    assert [status for status, _ in found] == [PASS, PASS, PASS, FAIL, FAIL]
    assert "team0, team, activebackup, of 0000:0b:00.0 and 0000:0b:00.1" in found[3][1]
    assert "no bond" in found[4][1]


_JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=8),
                     lambda inner: st.lists(inner, max_size=3)
                     | st.dictionaries(st.sampled_from(["up", "id", "selected", "system", "aggregator",
                                                        "state"]), inner, max_size=4),
                     max_leaves=6)


@given(port=st.dictionaries(st.sampled_from(["link_watches", "runner", "ifinfo"]), _JSON))
def test_whatever_a_team_says_it_is_a_bond_or_not_in_the_known_format(port: dict[str, Any]) -> None:
    found = build_fact(FACTS["bonds"], Captures(teamed(team(eno2=port))))
    assert len(found) == 1 and found[0].name == "team0"


def test_a_team_cut_anywhere_is_no_team() -> None:
    whole = team()
    for end in range(len(whole)):
        with pytest.raises((ValueError, KeyError, TypeError)):
            parse_team("team0", whole[:end])


# ---- interfaces of virtual machines

HYPERV = {"device/uevent": "DRIVER=hv_netvsc\nMODALIAS=vmbus:635161f83edfc546913ff2d2f965ed0e\n",
          "speed": "100000\n"}
VIRTIO = {"device/uevent": "DRIVER=virtio_net\nMODALIAS=virtio:d00000001v00001AF4\n", "speed": "-1\n",
          "duplex": "unknown\n"}
ODD = {"device/uevent": "DRIVER=vif\nMODALIAS=xen:vif\n"}


@pytest.mark.parametrize(("kind", "word"), [(HYPERV, "hv_netvsc"), (VIRTIO, "virtio_net")])
def test_a_clouds_interface_is_judged_by_its_name(kind: dict[str, str], word: str) -> None:
    rows = {"eno3": "1000 1000 0 0 0 0 0 0 1000 1000 0 0 0 0 0 0"}
    def seen(errors: int = 0, **more: str) -> Recording:
        held = rows | {"eno3": f"1000 1000 {errors} 0 0 0 0 0 1000 1000 0 0 0 0 0 0"}
        return machine.recording(netdev_sysfs=netdev(rows=held, eno3=kind | more))

    assert status_words("netdev-link", seen(operstate="down\n")) == (
        FAIL, f"eno3 ({word}): no link; since its driver was loaded it had one 2 times, expected a link")
    assert status_words("netdev-errors", after(seen(errors=300), 100), seen()) == (
        FAIL, f"eno3 ({word}): rx_errors: 3.00 a second, expected at most 1 a second")
    for rule in ("netdev-link", "netdev-speed", "netdev-duplex", "netdev-mtu", "netdev-carrier-changes",
                 "netdev-errors"):
        assert status_words(rule, after(seen(), 100), seen())[0] is PASS
    found = cohort("fleet-netdev-mtu", seen(), seen(), seen(mtu="9000\n"))
    assert found[2][0] is FAIL and f"eno3 ({word}): MTU 9000" in found[2][1]
    assert "as on 2 of 3 nodes at interface eno3" in found[2][1]


def test_another_interface_without_a_pci_device_is_no_hardware() -> None:
    found = build_fact(FACTS["netdevs"], Captures(machine.recording(netdev_sysfs=netdev(eno3=ODD))))
    assert [netdev.interface for netdev in found] == ["eno1", "eno2"]


# ---- what nodes of one kind share


def bus(**drivers: str) -> Capture:
    """The PCI bus with a second network card; `drivers` by "1b" are those of a function on that bus, empty
    for none."""
    files: dict[str, str | FileCapture] = {
        "/sys/bus/pci/devices/0000:0b:00.0/uevent":
        "DRIVER=ixgbe\nPCI_CLASS=20000\nPCI_ID=8086:1563\nPCI_SLOT_NAME=0000:0b:00.0\n"}
    files |= machine.pci().files
    for path, entry in files.items():
        driver, text = drivers.get(path.split("/")[-2][5:7]), entry if isinstance(entry, str) else entry.text
        first, _, rest = text.partition("\n")
        files[path] = text if driver is None else (driver and f"DRIVER={driver}\n") + rest
        assert driver is None or first.startswith("DRIVER=")
    return capture(files)


def test_a_node_whose_function_has_another_driver_than_its_equals_is_named() -> None:
    sound = machine.recording(gpu_pci=bus())
    found = cohort("fleet-pci-driver", sound, sound, sound,
                   machine.recording(gpu_pci=bus(**{"1b": "vfio-pci"})),
                   machine.recording(gpu_pci=bus(**{"0b": "", "1c": ""})))
    assert [status for status, _ in found] == [PASS, PASS, PASS, FAIL, FAIL]
    assert found[3][1] == "display 0000:1b:00.0: driver vfio-pci, expected driver nvidia, as on 4 of 5 nodes"
    # A GPU without any driver is gpu-count's matter.
    assert found[4][1] == (
        "network 0000:0b:00.0: no driver bound to it, expected driver ixgbe, as on 4 of 5 nodes")
    unread = cohort("fleet-pci-driver", sound, sound, sound,
                    machine.recording(gpu_pci=Capture(Outcome.TIMEOUT)))
    assert [status for status, _ in unread] == [PASS, PASS, PASS, UNKNOWN]


def test_functions_of_another_model_are_no_equals() -> None:
    other = capture({path: entry.text.replace("10DE:2330", "10DE:2335").replace("DRIVER=nvidia\n", "")
                     for path, entry in machine.pci().files.items()})
    found = cohort("fleet-pci-driver", machine.recording(), machine.recording(),
                   machine.recording(gpu_pci=other))
    assert [status for status, _ in found] == [PASS, PASS, PASS]


def railed(names: str = "rail{}", devices: str = "mlx5_{}") -> Recording:
    sysfs = {path.replace("mlx5_3/", devices.format(3) + "/"): entry
             for path, entry in machine.ports().files.items()}
    paths = {f"{network.RDMA}/{devices.format(n) if n == 3 else f'mlx5_{n}'}/device/net/"
             f"{names.format(n) if n == 3 else f'rail{n}'}/mtu": "4200\n"
             for n in range(8) if names or n != 3}
    return machine.recording(port_sysfs=capture(sysfs), roce_sysfs=capture(paths))


def test_an_rdma_device_with_another_name_or_interface_than_its_equals_is_named() -> None:
    sound = [railed() for _ in range(4)]
    found = cohort("fleet-rdma-binding", *sound, railed(names="eth{}"), railed(names=""),
                   railed(devices="rocep{}s0"))
    assert [status for status, _ in found[:4]] == [PASS] * 4
    usual = "expected mlx5_3 with rail3, as on 4 of 7 nodes"
    assert found[4:] == [(FAIL, f"mlx5_3 (0000:43:00.0): mlx5_3 with eth3, {usual}"),
                         (FAIL, f"mlx5_3 (0000:43:00.0): mlx5_3 without an interface, {usual}"),
                         (FAIL, f"rocep3s0 (0000:43:00.0): rocep3s0 with rail3, {usual}")]


def test_an_interface_where_most_have_none_is_no_fault() -> None:
    bare = machine.recording(roce_sysfs=capture({}))
    assert [status for status, _ in cohort("fleet-rdma-binding", bare, bare, bare, railed())] == [PASS] * 4


def test_bindings_that_were_not_read_are_unknown_and_a_node_without_rdma_is_skipped() -> None:
    torn = machine.recording(port_sysfs=capture({**machine.ports().files,
                                                 f"{network.RDMA}/mlx5_0/device/uevent": DENIED}))
    none = machine.recording(port_sysfs=capture({}), roce_sysfs=capture({}))
    hung = machine.recording(roce_sysfs=Capture(Outcome.TIMEOUT))
    found = cohort("fleet-rdma-binding", railed(), railed(), railed(), torn, none, hung)
    assert [status for status, _ in found] == [PASS, PASS, PASS, UNKNOWN, SKIPPED, UNKNOWN]


def addressed(text: str = network.ROUTES, addresses6: str = network.ADDRESSES6, **more: Any) -> Recording:
    return machine.recording(netdev_routes=network.routes(text, addresses6), **more)


GLOBAL6 = "20010db8000000000000000000000001 04 40 00 80    bond0\n"


@pytest.mark.parametrize(("odd", "words"), [
    (addressed(network.ROUTES.replace("bond0\t00000000", "eno3\t00000000")),
     "bond0: an IPv4 subnet of /24, expected an IPv4 subnet of /24, the default route, as on 3 of 4 nodes "
     "with bond0; "
     "eno3 (0000:0c:00.0): an IPv4 subnet of /24, the default route, expected an IPv4 subnet of /24, as "
     "on 3 of 4 "
     "nodes with eno3 at 0000:0c:00.0"),
    (addressed(network.ROUTES.replace(route("eno3", "0002010A"), "")),
     "eno3 (0000:0c:00.0): no address, expected an IPv4 subnet of /24, as on 3 of 4 nodes with eno3 at "
     "0000:0c:00.0"),
    (addressed(network.ROUTES.replace(route("eno3", "0002010A"), route("eno3", "0000010A", mask="0000FFFF"))),
     "eno3 (0000:0c:00.0): an IPv4 subnet of /16, expected an IPv4 subnet of /24, as on 3 of 4 nodes with "
     "eno3 at "
     "0000:0c:00.0"),
    (addressed(addresses6=network.ADDRESSES6 + GLOBAL6),
     "bond0: an IPv4 subnet of /24, the default route, a global IPv6 address, expected an IPv4 subnet of "
     "/24, the "
     "default route, as on 3 of 4 nodes with bond0"),
    (addressed(network.ROUTES + route("eno3", "0000140A", "0102010A", "0000FFFF", "0003")),
     "eno3 (0000:0c:00.0): an IPv4 subnet of /24, routes through a gateway, expected an IPv4 subnet of /24, "
     "as on 3 of "
     "4 nodes with eno3 at 0000:0c:00.0"),
])
def test_an_interface_that_lacks_an_address_or_route_of_its_equals_is_named(odd: Recording,
                                                                            words: str) -> None:
    sound = [addressed() for _ in range(3)]
    found = cohort("fleet-addressing", *sound, odd)
    assert [status for status, _ in found[:3]] == [PASS] * 3
    assert found[3] == (FAIL, words)


def test_what_comes_and_goes_with_jobs_is_not_compared() -> None:
    busy = addressed(network.ROUTES + route("cni0", "0000F40A") + route("veth12", "0100F40A", mask="FFFFFFFF")
                     + route("bond0", "0501010A", mask="FFFFFFFF"))
    down = addressed(network.ROUTES, netdev_sysfs=netdev(eno3={"flags": "0x1002\n"}))
    found = cohort("fleet-addressing", addressed(), addressed(), busy, down)
    assert [status for status, _ in found] == [PASS] * 4


def test_a_vlan_and_an_infiniband_interface_are_compared_too() -> None:
    vlan = network.ROUTES + route("bond0.100", "0003010A") + route("ib0", "0004010A", mask="0000FFFF")
    ib = capture({f"{network.RDMA}/mlx5_0/device/net/ib0/mtu": "2044\n"})
    sound = [addressed(vlan, roce_sysfs=ib) for _ in range(3)]
    bare = addressed(vlan.replace(route("ib0", "0004010A", mask="0000FFFF"), ""), roce_sysfs=ib)
    found = cohort("fleet-addressing", *sound, bare)
    assert found[3] == (FAIL, "ib0: no address, expected an IPv4 subnet of /16, as on 3 of 4 nodes with ib0")


@pytest.mark.parametrize("tables", [
    Capture(Outcome.DENIED), capture({"/proc/net/route": DENIED}), capture({"/proc/net/route": "Iface\n"}),
    capture({"/proc/net/route": network.ROUTE_HEAD, "/proc/net/if_inet6": DENIED}),
    capture({"/proc/net/route": network.ROUTE_HEAD + "eth0\t1\n"}),
])
def test_tables_that_were_not_read_are_unknown(tables: Capture) -> None:
    sound = [addressed() for _ in range(3)]
    found = cohort("fleet-addressing", *sound, machine.recording(netdev_routes=tables))
    assert [status for status, _ in found] == [PASS, PASS, PASS, UNKNOWN]


def test_a_kernel_without_ipv6_is_read_and_a_bond_that_was_not_is_unknown() -> None:
    plain = machine.recording(netdev_routes=capture({"/proc/net/route": network.ROUTE_HEAD + network.ROUTES}))
    torn = addressed(netdev_sysfs=netdev(bond="Ethernet Channel"))
    found = cohort("fleet-addressing", plain, plain, addressed(), torn)
    assert [status for status, _ in found] == [PASS, PASS, PASS, UNKNOWN]


@given(st.text(max_size=200))
def test_no_text_upsets_a_parser_of_routes(text: str) -> None:
    for parse in (parse_routes, parse_addresses6):
        with suppress(ValueError):
            parse(text)
    with suppress(ValueError):
        parse_routes(network.ROUTE_HEAD + text)


def test_routes_cut_anywhere_are_never_more_than_the_whole() -> None:
    whole = network.ROUTE_HEAD + network.ROUTES
    truth = parse_routes(whole)
    for end in range(len(whole)):
        with suppress(ValueError):
            for name, words in parse_routes(whole[:end]).items():
                assert set(words) <= set(truth[name])


def test_a_fact_of_addresses_is_of_unmeasured_words_only_where_it_was_not_read() -> None:
    found = build_fact(FACTS["addressing"], Captures(addressed()))
    assert {one.place: reading(one, "words") for one in found} == {
        "bond0": "an IPv4 subnet of /24, the default route", "eno3 at 0000:0c:00.0": "an IPv4 subnet of /24"}
    torn = build_fact(FACTS["addressing"], Captures(addressed(netdev_sysfs=netdev(eno3={"flags": DENIED}))))
    assert isinstance(next(reading(one, "words") for one in torn if "eno3" in one.place), Unmeasured)


NEW = {"fleet-pci-driver", "fleet-rdma-binding", "fleet-addressing", *(line[0] for line in COUNTED)}


def test_every_rule_here_is_in_the_files_and_gives_owner_and_remedy() -> None:
    assert ids("netdev.yaml") | ids("roce.yaml") >= NEW
    assert all(RULES[rule].remedy and RULES[rule].owner for rule in NEW)


def test_a_scrubbed_recording_keeps_the_kinds_of_routes_and_none_of_their_addresses() -> None:
    kept = scrub(addressed(), Node("gpu001", sku="hgx-h100"), key=b"x" * 32).recording
    assert build_fact(FACTS["addressing"], Captures(kept)) == build_fact(FACTS["addressing"],
                                                                         Captures(addressed()))
    shown = " ".join(entry.text for entry in kept.captures["netdev.routes"].files.values())
    assert not {"0101010A", "0001010A", "0002010A", "000011AC"} & {word.upper() for word in shown.split()}
