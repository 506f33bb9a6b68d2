"""numa-rails: compute ports sit beside the GPUs that they are for, by number and, where rails are planned,
one by one."""

from __future__ import annotations

import pytest

from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome
from inventory.model import PortPlan
from tests.healthcheck import machine
from tests.healthcheck.checks.ports import PLANNED, changed, of, snapshot
from tests.healthcheck.checks.verdicts import findings_of

GPUS = [f"0000:{0x18 + n:02x}:00.0" for n in range(8)]
PORTS = sorted(PLANNED)
HALVES = (0, 0, 0, 0, 1, 1, 1, 1)


def places(gpus: tuple[int, ...] = HALVES, ports: tuple[int, ...] = HALVES, nodes: str = "0-1") -> Capture:
    """The NUMA nodes of GPUs and ports, in the order of their addresses."""
    at = {f"{machine.DRIVERS}/{driver}/{address}/numa_node": f"{node}\n"
          for driver, addresses, numbers in (("nvidia", GPUS, gpus), ("mlx5_core", PORTS, ports))
          for address, node in zip(addresses, numbers, strict=False)}
    return machine.done(**{f"{machine.NUMA}/online": f"{nodes}\n", **at})


def rails(capture: Capture, ports: Capture | None = None, **plans: PortPlan) -> Result:
    now = snapshot(numa_devices=capture, **({} if ports is None else {"port_sysfs": ports}))
    return of("numa-rails", now, **plans)


@pytest.mark.parametrize(("ports", "words"), [
    (HALVES, ""), (HALVES[::-1], ""),
    ((0, 0, 0, 0, 0, 1, 1, 1), "NUMA node 1: 3 compute ports beside 4 GPUs, expected 4"),
    ((0, 0, 0, 0, 0, 0, 0, 0), "NUMA node 1: 0 compute ports beside 4 GPUs, expected 4"),
])
def test_numa_nodes_without_their_share_of_compute_ports_are_named(
    ports: tuple[int, ...], words: str,
) -> None:
    result = rails(places(ports=ports))
    assert (result.status, findings_of(result)) == (Status.FAIL if words else Status.PASS, words)


def test_a_rail_whose_port_sits_beside_another_socket_than_its_gpu_is_named() -> None:
    swapped = {**PLANNED, PORTS[3]: PortPlan("compute", 4), PORTS[4]: PortPlan("compute", 3)}
    assert findings_of(rails(places(),
                             **swapped)) == (f"port at {PORTS[3]} (rail 4): on NUMA node 0, expected on NUMA "
                                             f"node 1, beside the GPU of rail 4 ({GPUS[4]}); "
                                             f"port at {PORTS[4]} (rail 3): on NUMA node 1, expected on NUMA "
                                             f"node 0, beside the GPU of rail 3 ({GPUS[3]})")
    assert rails(places(), **PLANNED).status is Status.PASS


@pytest.mark.parametrize("plans", [
    # numbered from the other end
    {address: PortPlan("compute", 7 - rail) for rail, address in enumerate(PORTS)},
    {address: PortPlan("compute", rail % 4) for rail, address in enumerate(PORTS)},      # two ports to a rail
    {address: PortPlan("compute", None) for address in PORTS},
])
def test_rails_that_are_numbered_otherwise_accuse_no_one(plans: dict[str, PortPlan]) -> None:
    assert rails(places(), **plans).status is Status.PASS


@pytest.mark.parametrize(("capture", "reason"), [
    (places(nodes="0"), "there is one NUMA node"),
    (places(gpus=HALVES[:5]), "8 compute ports cannot be divided evenly among 5 GPUs"),
    (places(gpus=()), "8 compute ports cannot be divided evenly among 0 GPUs"),
    (places(gpus=(-1, *HALVES[1:])), "firmware does not say on which NUMA node some of them sit"),
    (places(ports=HALVES[:7]), "firmware does not say on which NUMA node some of them sit"),
    (places(ports=(2, 2, 2, 2, 3, 3, 3, 3), nodes="0-3"),
     "on no NUMA node every GPU has a compute port beside it: this machine is built differently"),
])
def test_where_ports_cannot_be_told_to_be_for_a_gpu_the_rule_is_skipped_and_says_why(
    capture: Capture, reason: str,
) -> None:
    result = rails(capture)
    assert (result.status, result.reason) == (Status.SKIPPED, reason)


def test_where_no_driver_holds_such_a_device_the_rule_is_skipped() -> None:
    result = rails(places(gpus=(), ports=()))
    assert (result.status, result.reason.partition(":")[0]) == (Status.SKIPPED, "not supported")


@pytest.mark.parametrize("outcome", [Outcome.DENIED, Outcome.TIMEOUT])
def test_what_could_not_be_read_is_unknown(outcome: Outcome) -> None:
    path = f"{machine.DRIVERS}/nvidia/{GPUS[2]}/numa_node"
    assert rails(changed(places(), path, outcome=outcome)).status is Status.UNKNOWN
    ports = machine.ports()
    cut = Capture(Outcome.TRUNCATED, seconds=0.0, bytes=1, files=dict(list(ports.files.items())[:60]))
    assert rails(places(), cut).status is Status.UNKNOWN
    wrong = changed(places(), path, text="\x1b[31m\n")
    assert (wrong.files[path] == FileCapture(Outcome.DONE, "\x1b[31m\n")
            and rails(wrong).status is Status.UNKNOWN)
