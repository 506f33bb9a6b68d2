"""Rules of rules/hca.yaml, and of the adapters' devices: each passes at its limit, fails beyond it, and says
what it could not see."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from healthcheck.facts.base import FACTS, Captures, build_fact
from healthcheck.facts.hca import HCA, Adapter
from healthcheck.model.outcome import Owner, Result, Status
from healthcheck.model.recording import Capture, Outcome, Recording
from inventory.model import PortPlan
from tests.healthcheck import machine, network
from tests.healthcheck.assessing import assessed
from tests.healthcheck.checks.ports import PLANNED, changed, of, snapshot
from tests.healthcheck.checks.verdicts import RULES, after, findings_of, ids, only, verdict

ALL = range(8)
PCI = "/sys/bus/pci/devices"


def files(name: str, text: str, which: range | tuple[int, ...] = (3,)) -> dict[str, str]:
    return {f"mlx5_{n}.{name}": f"{text}\n" for n in which}


PASSING: list[tuple[str, dict[str, str]]] = [
    *((rule, {})
      for rule in ("hca-pcie-width", "hca-pcie-speed", "hca-firmware", "hca-psid", "port-devices")),
    # Adapter and slot both count: a slot of eight lanes, or of an older generation, is a choice of the
    # board's maker.
    ("hca-pcie-width", files("current_link_width", "8", ALL) | files("slot/max_link_width", "8", ALL)),
    ("hca-pcie-speed",
     files("current_link_speed", "16.0 GT/s PCIe", ALL) | files("slot/max_link_speed", "16 GT/s", ALL)),
    ("hca-pcie-speed",
     files("current_link_speed", "16 GT/s", ALL) | files("max_link_speed", "16.0 GT/s PCIe", ALL)),
    ("hca-firmware", files("fw_ver", "28.41.1000", ALL)),
    # Half against half: no one can say which is the odd one.
    ("hca-firmware", files("fw_ver", "28.41.1000", (0, 1, 2, 3))),
    ("hca-psid", files("board_id", "DEL0000000036", (0, 1, 2, 3))),
    # Another board has firmware of its own.
    ("hca-firmware", files("fw_ver", "22.41.1000") | files("board_id", "MT_0000000359")),
]
FAILING: list[tuple[str, dict[str, str], str]] = [
    ("hca-pcie-width", files("current_link_width", "8"), "mlx5_3 (0000:43:00.0): x8, expected x16"),
    ("hca-pcie-speed", files("current_link_speed", "16.0 GT/s PCIe"),
     "mlx5_3 (0000:43:00.0): 16 GT/s, expected 32 GT/s"),
    ("hca-firmware", files("fw_ver", "28.36.1010"),
     "mlx5_3 (0000:43:00.0): 28.36.1010, expected 28.39.1002, as 7 of the node's 8 such adapters"),
    ("hca-psid", files("board_id", "DEL0000000036"),
     "mlx5_3 (0000:43:00.0): DEL0000000036, expected MT_0000000838, as 7 of the node's 8 such adapters"),
    ("port-devices", files("uverbs", "mlx5_33"), "mlx5_3 (0000:43:00.0): no uverbs device, expected one"),
    ("port-devices", files("umad", "mlx5_33"),
     "mlx5_3 (0000:43:00.0): no umad device, expected one for each port"),
]


@pytest.mark.parametrize(("rule", "held"), PASSING)
def test_adapters_as_they_should_be_pass(rule: str, held: dict[str, str]) -> None:
    result = of(rule, snapshot(hca_sysfs=machine.hcas(**held)), **PLANNED)
    assert (result.status, findings_of(result)) == (Status.PASS, "")


@pytest.mark.parametrize(("rule", "held", "words"), FAILING)
def test_the_adapter_that_is_wrong_is_named_and_no_other(rule: str, held: dict[str, str], words: str) -> None:
    result = of(rule, snapshot(hca_sysfs=machine.hcas(**held)), **PLANNED)
    assert (result.status, findings_of(result)) == (Status.FAIL, words)
    assert result.remedy


def test_without_a_plan_boards_are_not_compared_and_that_is_said() -> None:
    result = of("hca-psid", snapshot(hca_sysfs=machine.hcas(**files("board_id", "DEL0000000036"))))
    assert (result.status, result.reason) == (Status.SKIPPED,
                                              "no plan of the ports says which adapters are for compute")


@pytest.mark.parametrize(("rule", "name"), [
    ("hca-pcie-width", "device/current_link_width"), ("hca-pcie-width", "device/../max_link_width"),
    ("hca-pcie-speed", "device/max_link_speed"),
    ("hca-firmware", "fw_ver"), ("hca-firmware", "board_id"),
])
def test_what_cannot_be_read_of_an_adapter_is_unknown(rule: str, name: str) -> None:
    torn = changed(machine.hcas(), f"/sys/class/infiniband/mlx5_3/{name}", outcome=Outcome.DENIED)
    result = of(rule, snapshot(hca_sysfs=torn))
    assert (result.status, findings_of(result)) == (Status.UNKNOWN, "") and "mlx5_3" in result.reason


@pytest.mark.parametrize(("rule", "held"), [
    ("hca-pcie-speed", files("current_link_speed", "Unknown", ALL)),
    ("hca-pcie-speed", files("max_link_speed", "Unknown speed", ALL)),
    *(("hca-pcie-width", files("current_link_width", width, ALL)) for width in ("0", "63", "255")),
])
def test_a_virtual_machines_link_that_no_one_knows_is_skipped(rule: str, held: dict[str, str]) -> None:
    assert of(rule, snapshot(hca_sysfs=machine.hcas(**held))).status is Status.SKIPPED


@pytest.mark.parametrize("rule", ["hca-pcie-width", "hca-pcie-speed", "hca-firmware", "hca-psid",
                                  "port-devices", "hca-present"])
def test_adapters_that_were_not_captured_are_unknown_and_a_machine_without_is_not_asked(rule: str) -> None:
    lost = {"port_sysfs" if rule == "hca-present" else "hca_sysfs": Capture(Outcome.DENIED)}
    assert of(rule, snapshot(**lost), **PLANNED).status is Status.UNKNOWN
    bare = snapshot(port_sysfs=Capture(Outcome.DONE), hca_sysfs=Capture(Outcome.DONE), gpu_pci=machine.pci(0))
    assert of(rule, bare, sku="cpu-only").status in (Status.SKIPPED, Status.PASS)


def test_an_adapter_on_the_bus_without_its_rdma_device_is_named() -> None:
    bus = machine.pci()
    card = "DRIVER={}\nPCI_CLASS={}\nPCI_ID=15B3:{}\nPCI_SLOT_NAME=0000:99:00.0\n"
    at = f"{PCI}/0000:99:00.0/uevent"
    for text, expected in (
        (card.format("mlx5_core", "20700", "1021"),
         "adapter at 0000:99:00.0: driver mlx5_core, no RDMA device, expected an RDMA device"),
        (card.replace("DRIVER={}\n", "").format("20700", "1021"),
         "adapter at 0000:99:00.0: no driver bound to it, expected an RDMA device"),
        # Of a model of which another one has its device; of a model that no one uses for RDMA; a virtual
        # function; another maker's.
        (card.format("mlx5_core", "20000", "1021"),
         "adapter at 0000:99:00.0: driver mlx5_core, no RDMA device, expected an RDMA device"),
        (card.format("mlx5_core", "20000", "1017"), ""), (card.format("mlx5_core", "20700", "101E"), ""),
        (card.replace("15B3", "8086").format("ice", "20000", "1592"), ""),
        # Passed on to a program or a virtual machine.
        (card.format("vfio-pci", "20700", "1021"), ""), (card.format("igb_uio", "20000", "1021"), ""),
    ):
        assert findings_of(of("hca-present", snapshot(gpu_pci=changed(bus, at, text=text)))) == expected


def test_two_functions_that_are_one_bond_have_one_rdma_device() -> None:
    bus, ports = machine.pci(), machine.ports()
    text = "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=0000:99:00.{}\n"
    for number in (0, 1):
        bus = changed(bus, f"{PCI}/0000:99:00.{number}/uevent", text=text.format(number))
    for device, expected in (("mlx5_bond_0", ""), (
            "mlx5_12", "adapter at 0000:99:00.1: driver mlx5_core, no RDMA device, expected an RDMA device")):
        seen = changed(ports, f"/sys/class/infiniband/{device}/device/uevent", text=text.format(0))
        assert findings_of(of("hca-present", snapshot(gpu_pci=bus, port_sysfs=seen))) == expected


def test_two_functions_of_a_bond_have_one_rdma_device_whatever_udev_calls_it() -> None:
    """rdma-core's rdma_rename names it after its PCI address, as any other."""
    bus, ports, netdevs = machine.pci(), machine.ports(), network.netdev()
    text = "DRIVER=mlx5_core\nPCI_CLASS=20000\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=0000:0b:00.{}\n"
    for number in (0, 1):
        bus = changed(bus, f"{PCI}/0000:0b:00.{number}/uevent", text=text.format(number))
        netdevs = changed(netdevs, f"/sys/class/net/eno{number + 1}/device/uevent", text=text.format(number))
    seen = changed(ports, "/sys/class/infiniband/rocep11s0f0/device/uevent", text=text.format(0))
    one = {"gpu_pci": bus, "port_sysfs": seen}
    missing = "adapter at 0000:0b:00.1: driver mlx5_core, no RDMA device, expected an RDMA device"
    assert findings_of(of("hca-present", snapshot(netdev_sysfs=netdevs, **one))) == ""
    alone = "Slave Interface".join(network.BOND.split("Slave Interface")[:2])
    for apart in (network.netdev(bond=""), network.netdev(bond=alone)):
        assert findings_of(of("hca-present", snapshot(netdev_sysfs=apart, **one))) == missing
    neither = findings_of(of("hca-present", snapshot(netdev_sysfs=netdevs, gpu_pci=bus)))
    assert neither.count("no RDMA device, expected") == 2
    shown = changed(seen, "/sys/class/infiniband/rocep11s0f0/ports/1/state", text="4: ACTIVE\n")
    plans = {f"0000:0b:00.{number}": PortPlan("compute", number) for number in (0, 1)}
    counted = of("port-count", snapshot(netdev_sysfs=netdevs, gpu_pci=bus, port_sysfs=shown), **plans)
    assert (counted.status, findings_of(counted)) == (Status.PASS, "")


def test_a_function_of_ethernet_needs_no_device_for_management_datagrams() -> None:
    roce = machine.ports(**{f"mlx5_{n}.link_layer": "Ethernet\n" for n in range(8)})
    bare = machine.hcas(**files("umad", "none", ALL))
    assert of("port-devices", snapshot(port_sysfs=roce, hca_sysfs=bare)).status is Status.PASS


# ---- the kernel log


def kernel(*lines: str, seconds: int = 100) -> Recording:
    """The healthy machine's log with these lines of the adapter at 0000:d2:00.0, and one that is so much
    younger than they."""
    text = "".join(f"4,{100 + n},{(100 + n) * 1_000_000},-;mlx5_core 0000:d2:00.0: {line}\n"
                   for n, line in enumerate(lines))
    return snapshot(kernel_log=machine.done(
        **{"/dev/kmsg": f"{machine.KMSG}{text}6,999,{(100 + seconds) * 1_000_000},-;hello\n"}))


LOST = [
    ("poll_health:825:(pid 0): device's health compromised - reached miss count", "health compromised"),
    ("wait_func:1195:(pid 1967079): ENABLE_HCA(0x104) timeout. Will cause a leak of a command resource",
     "command timeout"),
    ("cb_timeout_handler:877:(pid 7): cmd[3]: CREATE_EQ(0x301) Async, timeout. Will cause a leak of a "
     "command resource", "command timeout"),
    ("poll_health:1141:(pid 0): Fatal error 3 detected", "fatal error"),
    ("print_health_info:425:(pid 912): Health issue observed, HW fatal error, severity(2) CRITICAL:",
     "fatal error"),
    ("print_health_info:401:(pid 0): synd 0x8: unrecoverable hardware error", "unrecoverable hardware error"),
    ("print_health_info:420:(pid 0): PCI slot is unavailable", "PCI slot unavailable"),
]
LOOK_AT = [
    ("mlx5_pcie_event:299:(pid 268269): Detected insufficient power on the PCIe slot (27W).",
     "insufficient slot power", Owner.DATACENTRE),
    ("mlx5_port_module_event:1131:(pid 0): Port module event[error]: module 0, Cable error, High Temperature",
     "module too hot", Owner.DATACENTRE),
    ("temp_warn:181:(pid 0): High temperature on sensors with bit set 0 1", "adapter too hot",
     Owner.DATACENTRE),
    ("Port module event[error]: module 1, Cable error, Bad or shorted cable/module", "bad cable or module",
     Owner.NETWORK),
    ("print_health_info:425:(pid 912): Health issue observed, High temperature, severity(3) ERROR:",
     "adapter too hot", Owner.DATACENTRE),
    ("print_health_info:425:(pid 912): Health issue observed, firmware internal error, severity(3) ERROR:",
     "firmware error", Owner.VENDOR),
]
HARMLESS = [
    "firmware version: 28.39.1002", "252.048 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x16 link)",
    "Port module event: module 0, Cable plugged",
    "mlx5_pcie_event:304:(pid 9): PCIe slot advertised sufficient power (75W).",
    "cmd[3]: CREATE_EQ(0x301) Async, recovered after timeout",
    "E-Switch: Total vports 2, per vport: max uc(128) max mc(2048)",
    "mlx5_pcie_event:301:(pid 1): PCIe slot power capability was not advertised.",
]


@pytest.mark.parametrize(("line", "what"), LOST)
def test_an_adapter_that_is_lost_is_named_by_its_address(line: str, what: str) -> None:
    result = of("hca-log-fatal", kernel(line))
    assert findings_of(result).startswith(f"adapter at 0000:d2:00.0: {what}: 100 s after boot, 100 s ago: "
                                          f"mlx5_core 0000:d2:00.0: {line[:20]}")
    assert of("hca-log", kernel(line)).status is Status.PASS


@pytest.mark.parametrize(("line", "what", "owner"), LOOK_AT)
def test_what_somebody_should_look_at_goes_to_who_can(line: str, what: str, owner: Owner) -> None:
    result = of("hca-log", kernel(line, line))
    assert findings_of(result).startswith(f"adapter at 0000:d2:00.0: {what}: 2 lines, the first 100 s after "
                                          "boot")
    assert result.findings[0].owner is owner and result.findings[0].remedy
    assert of("hca-log-fatal", kernel(line)).status is Status.PASS


@pytest.mark.parametrize("rule", ["hca-log", "hca-log-fatal", "hca-log-refused"])
def test_what_a_healthy_driver_says_accuses_no_one(rule: str) -> None:
    assert of(rule, kernel(*HARMLESS)).status is Status.PASS
    # Not of mlx5: a user's words, written to /dev/kmsg, that only look like it.
    assert of(rule, snapshot(kernel_log=machine.done(**{"/dev/kmsg": machine.KMSG + f"14,99,9,-;app: "
                                                        f"{LOST[0][0]}\n"}))).status is Status.PASS


def test_a_cable_is_out_until_it_is_plugged_in_again() -> None:
    out, back = "Port module event: module 0, Cable unplugged", "Port module event: module 0, Cable plugged"
    expected = ("adapter at 0000:d2:00.0: cable unplugged 101 s after boot, 99 s ago, and not plugged in "
                "since, expected plugged in")
    assert findings_of(of("hca-log", kernel(back, out))) == expected
    assert of("hca-log", kernel(out, back)).status is Status.PASS


REFUSED = ("mlx5_cmd_out_err:838:(pid 2): ACCESS_REG(0x805) op_mod(0x1) failed, status bad operation(0x2), "
           "syndrome (0x305684), err(-22)")


@pytest.mark.parametrize(("rule", "line"), [("hca-log", LOOK_AT[0][0]), ("hca-log-refused", REFUSED)])
def test_what_is_older_than_a_day_is_not_accused_and_an_adapter_that_was_lost_is_for_the_boot(
        rule: str, line: str) -> None:
    assert of(rule, kernel(line, seconds=86400)).status is Status.FAIL
    assert of(rule, kernel(line, seconds=86401)).status is Status.PASS
    assert of("hca-log-fatal", kernel(LOST[0][0], seconds=90 * 86400)).status is Status.FAIL


def test_refused_readings_are_counted() -> None:
    assert findings_of(of("hca-log-refused", kernel(*[REFUSED] * 40))) == (
        "adapter at 0000:d2:00.0: 40 lines say that ACCESS_REG failed, expected no such line")


# ---- the fleet


def fleet(rule: str, **odd: dict[str, str]) -> list[Result]:
    """Results of five nodes, of which those named have adapters of their own."""
    seen = [machine.recording(name, hca_sysfs=machine.hcas(**odd.get(name, {})))
            for name in ("n0", "n1", "n2", "n3", "n4")]
    return [next(r for r in report.results if r.rule == rule)
            for report in assessed(*seen, rules=only(rule)).reports]


@pytest.mark.parametrize(("rule", "name", "words"), [
    ("fleet-hca-firmware", "fw_ver", "mlx5_3 (0000:43:00.0): firmware odd, expected firmware 28.39.1002, as "
     "on 39 of 40 adapters of board MT_0000000838"),
    ("fleet-hca-psid", "board_id",
     "mlx5_3 (0000:43:00.0): board odd, expected board MT_0000000838, as on 4 of 5 nodes at 0000:43:00.0"),
])
def test_the_adapter_that_is_not_as_the_fleets_is_named(rule: str, name: str, words: str) -> None:
    results = fleet(rule, n2=files(name, "odd"))
    assert [r.status for r in results] == [Status.PASS, Status.PASS, Status.FAIL, Status.PASS, Status.PASS]
    assert findings_of(results[2]) == words


def test_a_fleet_that_is_split_accuses_no_one() -> None:
    results = fleet("fleet-hca-firmware", n0=files("fw_ver", "a", ALL), n1=files("fw_ver", "a", ALL),
                    n2=files("fw_ver", "b", ALL))
    assert Status.FAIL not in {r.status for r in results}


# ---- reading


@given(text=st.text(max_size=40), name=st.sampled_from([path.rpartition("/")[2] for path in HCA.paths]))
def test_whatever_a_file_holds_an_adapter_is_made_of_it(text: str, name: str) -> None:
    held = machine.hcas(2)
    paths = [path for path in held.files if path.endswith(f"/{name}")]
    value = build_fact(FACTS["hcas"], Captures(machine.recording(hca_sysfs=changed(held, *paths, text=text))))
    assert isinstance(value, tuple) and len(value) == 2


@given(text=st.text(max_size=80))
def test_whatever_the_bus_says_it_is_adapters_or_not_measured(text: str) -> None:
    bus = changed(machine.pci(), f"{PCI}/0000:99:00.0/uevent",
                  text=f"PCI_ID=15B3:{text}\nPCI_CLASS=20700\nPCI_SLOT_NAME={text}\n")
    value = build_fact(FACTS["adapter_bus"], Captures(machine.recording(gpu_pci=bus)))
    assert not hasattr(value, "adapters") or all(isinstance(adapter, Adapter) for adapter in value.adapters)


def test_every_rule_of_the_file_is_tested_here() -> None:
    logs = {"hca-log", "hca-log-fatal", "hca-log-refused"}
    tables = {line[0] for line in (*PASSING, *FAILING)} - {"port-devices"}
    assert ids("hca.yaml") == tables | logs | {"hca-present", "fleet-hca-firmware", "fleet-hca-psid"}


def test_a_port_plan_that_says_nothing_of_links_expects_them_up() -> None:
    dark = snapshot(port_sysfs=machine.ports(**{"mlx5_3.state": "1: DOWN\n"}))
    assert of("port-state", dark,
              **{**PLANNED, "0000:43:00.0": PortPlan("compute", 3, expect="up")}).status is Status.FAIL


def test_what_cannot_be_read_of_a_bond_s_device_makes_no_card_a_bond() -> None:
    """A folder that could not be listed has an entry of its own."""
    at = "/sys/class/infiniband"
    unread = changed(machine.ports(), at, f"{at}/mlx5_bond_0/device/uevent", outcome=Outcome.DENIED)
    without = network.netdev(bond="")
    for ports in (machine.ports(), unread):
        found = build_fact(FACTS["lag_cards"], Captures(snapshot(port_sysfs=ports, netdev_sysfs=without)))
        assert found.cards == frozenset()


# ---- functions that share another's port


SHARING = {
    "a sub-function": {"device/uevent": "DRIVER=mlx5_core.sf\nMODALIAS=auxiliary:mlx5_core.sf\n"},
    "a virtual function": {
        "device/uevent": "DRIVER=mlx5_core\nPCI_ID=15B3:101E\nPCI_SLOT_NAME=0000:43:00.2\n",
        "device/physfn/uevent": "DRIVER=mlx5_core\nPCI_ID=15B3:1021\nPCI_SLOT_NAME=0000:43:00.0\n"}}


def test_a_sub_function_is_no_adapter_of_its_own() -> None:
    at = "/sys/class/infiniband/mlx5_9/device/uevent"
    seen = changed(machine.hcas(), at, text=SHARING["a sub-function"]["device/uevent"])
    found = build_fact(FACTS["hcas"], Captures(snapshot(hca_sysfs=seen)))
    assert [hca.device for hca in found] == [f"mlx5_{number}" for number in ALL]


NOT_ASKED = 'exit 1\n{"status": {"code": 1, "message": "FW_OPEN is not supported for this device"}}'


@pytest.mark.parametrize("own", SHARING.values(), ids=list(SHARING))
def test_a_function_that_shares_another_s_port_changes_no_rule_s_result(own: dict[str, str]) -> None:
    """Names of sub-functions: drivers/base/auxiliary.c; rdma-core's rdma_rename finds them so, too."""
    at = "/sys/class/infiniband/mlx5_9"

    def beside(capture: Capture, **more: str) -> Capture:
        held = {path.replace("/mlx5_3", "/mlx5_9"): entry.text for path, entry in capture.files.items()
                if "/mlx5_3/" in path and "/device/" not in path}
        for path, text in (held | {f"{at}/{name}": text for name, text in {**own, **more}.items()}).items():
            capture = changed(capture, path, text=text)
        return capture

    plain = {"port_sysfs": machine.ports(), "hca_sysfs": machine.hcas(), "port_counters": machine.counters(),
             "optics_hwmon": network.hwmon()}
    counted = network.statistics(rx_pcs_symbol_err_phy=7)
    tools = {"optics_mlxlink": network.mlxlink(), "roce_ethtool": network.ethtool(rail0=counted)}
    interface = f"{at}/device/net/enp67s0f0s9"
    shared = {name: beside(capture, **({"device/hwmon/hwmon9/temp1_input": "1\n"} if "hwmon" in name else {}))
              for name, capture in plain.items()} | {
        "optics_mlxlink": changed(tools["optics_mlxlink"], at, text=NOT_ASKED),
        "roce_ethtool": changed(tools["roce_ethtool"], interface, text=f"exit 0\n{counted}")}
    for rule in sorted(ids("port.yaml") | ids("hca.yaml") | ids("roce.yaml") | ids("optics.yaml")
                       | {"numa-rails", "fleet-rdma-binding"}):
        if not RULES[rule].checked.fleet:
            found = [verdict(rule, after(snapshot(**captures), 600.0), snapshot(**captures))
                     for captures in ({**plain, **tools}, shared)]
            assert [found[0].status, found[0].findings] == [found[1].status, found[1].findings], rule
