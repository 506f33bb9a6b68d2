"""Which ports are judged: those that the plan of node or SKU names, else those of the kind there is most of,
by PCI address always.
"""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture
from inventory.model import Node, PortPlan
from tests.healthcheck import machine
from tests.healthcheck.assessing import by_rule
from tests.healthcheck.checks.verdicts import only
from tests.tries import tries

COMPUTE = tuple(f"0000:{bus}:00.0" for bus in ("18", "40", "4f", "5e", "9a", "c0", "ce", "dc"))
STORAGE = ("0000:29:00.0", "0000:29:00.1", "0000:aa:00.0", "0000:aa:00.1")
CONNECTX7, BLUEFIELD3, VIRTUAL = "15B3:1021", "15B3:A2DC", "15B3:101E"
JUDGED = ("port-count", "port-state", "port-rate")


def adapter(pci: str, device: str = CONNECTX7, layer: str = "InfiniBand", rate: str = "400 Gb/sec (4X NDR)",
            state: str = "4: ACTIVE", phys: str = "5: LinkUp") -> dict[str, str]:
    """One RDMA device with one port, as its files below /sys/class/infiniband/NAME say."""
    return {"ports/1/state": f"{state}\n", "ports/1/phys_state": f"{phys}\n", "ports/1/rate": f"{rate}\n",
            "ports/1/link_layer": f"{layer}\n", "ports/1/counters/link_downed": "0\n",
            "device/uevent": f"DRIVER=mlx5_core\nPCI_ID={device}\nPCI_SLOT_NAME={pci}\n"}


def sysfs(*adapters: dict[str, str]) -> Capture:
    """The capture, with the devices numbered in this order."""
    return machine.done(**{f"/sys/class/infiniband/mlx5_{n}/{name}": text for n, files in enumerate(adapters)
                           for name, text in files.items()})


def results(capture: Capture, sku: str = "hgx-h100", **ports: PortPlan) -> dict[str, Result]:
    return by_rule(machine.recording(port_sysfs=capture), rules=only(*JUDGED),
                   nodes=[Node("gpu001", sku=sku, ports=ports)])


def failed(found: dict[str, Result]) -> set[str]:
    return {rule for rule in JUDGED if found[rule].status is Status.FAIL}


def passed(found: dict[str, Result]) -> bool:
    return all(found[rule].status is Status.PASS for rule in JUDGED)


EIGHT = tuple(adapter(pci) for pci in COMPUTE)
DOWN = {"state": "1: DOWN", "phys": "3: Disabled"}
BLUEFIELDS = {
    # In DPU mode the host sees an Ethernet function whose link is that of the embedded switch; in NIC mode it
    # is an adapter like others.
    "dpu mode": tuple(adapter(pci, BLUEFIELD3, "Ethernet", "25 Gb/sec (1X EDR)", **DOWN)
                      for pci in STORAGE[::2]),
    "nic mode": tuple(adapter(pci, BLUEFIELD3, "InfiniBand", "200 Gb/sec (4X HDR)") for pci in STORAGE[::2]),
}


@pytest.mark.parametrize("mode", BLUEFIELDS)
def test_a_bluefield_in_either_mode_is_not_taken_for_a_slow_compute_port(mode: str) -> None:
    assert passed(results(sysfs(*EIGHT, *BLUEFIELDS[mode])))
    assert passed(results(sysfs(*BLUEFIELDS[mode], *EIGHT)))


@pytest.mark.parametrize("mode", BLUEFIELDS)
def test_a_bluefield_does_not_make_up_for_a_compute_port_that_is_missing(mode: str) -> None:
    assert failed(results(sysfs(*EIGHT[1:], *BLUEFIELDS[mode]))) == {"port-count"}


def test_storage_adapters_of_the_same_model_on_ethernet_are_not_judged_as_compute() -> None:
    storage = [adapter(pci, CONNECTX7, "Ethernet", "100 Gb/sec (4X EDR)") for pci in STORAGE]
    assert passed(results(sysfs(*EIGHT, *storage)))


def test_virtual_functions_do_not_outvote_the_ports_that_they_are_on() -> None:
    functions = [adapter(f"0000:18:{n // 8 + 1:02x}.{n % 8}", VIRTUAL, rate="400 Gb/sec (4X NDR)", **DOWN)
                 for n in range(64)]
    assert passed(results(sysfs(*EIGHT, *functions)))
    assert failed(results(sysfs(adapter(COMPUTE[0], **DOWN), *EIGHT[1:], *functions))) == {"port-state"}


def test_the_sku_of_a_dgx_knows_its_ports_and_names_the_rail_of_a_missing_one() -> None:
    # Of the same model and link layer
    storage = [adapter(pci, rate="200 Gb/sec (4X HDR)") for pci in STORAGE]
    assert passed(results(sysfs(*storage, *EIGHT), sku="dgx-h100"))
    found = results(sysfs(*storage, *EIGHT[:-1]), sku="dgx-h100")
    assert failed(found) == {"port-count"}
    assert found["port-count"].findings[0].subject == f"port at {COMPUTE[-1]} (rail 7)"


def test_what_the_node_says_of_a_port_counts_more_than_its_sku() -> None:
    slow = (*EIGHT[:-1], adapter(COMPUTE[-1], rate="200 Gb/sec (4X HDR)"))
    assert failed(results(sysfs(*slow), sku="dgx-h100")) == {"port-rate"}
    assert passed(results(sysfs(*slow), sku="dgx-h100", **{COMPUTE[-1]: PortPlan(role="mgmt")}))


def test_a_node_that_names_the_leaf_of_its_ports_leaves_role_and_rail_to_its_sku() -> None:
    storage = [adapter(pci, rate="200 Gb/sec (4X HDR)") for pci in STORAGE]
    leaves = {pci: PortPlan(leaf="leaf01") for pci in (*COMPUTE, *STORAGE)}
    assert passed(results(sysfs(*storage, *EIGHT), sku="dgx-h100", **leaves))
    found = results(sysfs(*storage, *EIGHT[:-1]), sku="dgx-h100", **leaves)
    assert found["port-count"].findings[0].subject == f"port at {COMPUTE[-1]} (rail 7)"
    # What it does say counts: this one was moved to compute, and so is slow; its rail is not that of another
    # role.
    assert failed(results(sysfs(*storage, *EIGHT), sku="dgx-h100",
                          **{STORAGE[0]: PortPlan(role="compute")})) == {"port-rate"}


def test_a_node_that_only_says_which_ports_are_not_compute_has_the_others_judged() -> None:
    storage = [adapter(pci, rate="200 Gb/sec (4X HDR)") for pci in STORAGE]
    plans = {pci: PortPlan(role="storage") for pci in STORAGE}
    assert failed(results(sysfs(*EIGHT, *storage))) == {"port-rate"}
    assert passed(results(sysfs(*EIGHT, *storage), **plans))
    assert failed(results(sysfs(*EIGHT[1:], *storage), **plans)) == {"port-count"}


@settings(deadline=None, max_examples=tries(50))
@given(st.randoms(use_true_random=False), st.sampled_from([(), *BLUEFIELDS.values()]),
       st.sampled_from([None, *range(8)]))
def test_renumbering_the_devices_changes_no_verdict(order: random.Random, beside: tuple[dict[str, str], ...],
                                                    sick: int | None) -> None:
    adapters = [adapter(pci, **(DOWN if n == sick else {})) for n, pci in enumerate(COMPUTE)] + list(beside)
    before = results(sysfs(*adapters), sku="dgx-h100")
    order.shuffle(adapters)
    after = results(sysfs(*adapters), sku="dgx-h100")
    assert failed(before) == failed(after) == ({"port-state"} if sick is not None else set())
    for rule in JUDGED:
        # The address is in the subject, behind the device's name of the day.
        assert [f.subject.partition("(")[2] for f in before[rule].findings] == [
            f.subject.partition("(")[2] for f in after[rule].findings]
