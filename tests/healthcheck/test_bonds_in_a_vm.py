"""Bonds of the real driver, with LACP between them over virtual Ethernet, in a virtual machine: this
machine's kernel has no bonding."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.facts.bond import LACP
from healthcheck.facts.netdev import NETDEV
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import findings_of, verdict
from tests.testbed.sshd import wait_until
from tests.testbed.vm.hardware import Hardware
from tests.testbed.vm.images import images, releases, require_vm
from tests.testbed.vm.machine import BOOT_SECONDS, Machine
from tests.testbed.vm.machine import machine as booted

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(BOOT_SECONDS + 600)]
_FILE = "-- file "
_BOND = "miimon 100"


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    require_vm()
    folder: Path = tmp_path_factory.mktemp("vm")
    with booted(folder, images(releases("6.1.")[0]), Hardware(seed=8)) as made:
        made.run("modprobe bonding; modprobe veth; ip netns add switch; rm -f /sys/class/net/bond0 || true")
        yield made


def bonded(up: Machine, ours: str, theirs: str) -> None:
    """A bond of two ends of cables whose others are the switch's, each in that mode; what was there before is
    gone."""
    up.run(
        "for name in port0 port1; do ip link del $name 2>/dev/null; done; ip link del bond0 2>/dev/null; ip "
        "-n switch link del bond0 2>/dev/null; true")
    up.run(
        f"ip link add bond0 type bond {ours} {_BOND}; ip -n switch link add bond0 type bond {theirs} {_BOND}")
    for name in ("port0", "port1"):
        up.run(
            f"ip link add {name} type veth peer name {name} netns switch; ip link set {name} master bond0; "
            f"ip -n switch link set {name} master bond0; ip link set {name} up; ip -n switch link set "
            f"{name} up")
    up.run("ip link set bond0 up; ip -n switch link set bond0 up")


def judged(up: Machine, rule: str) -> Result:
    """What the rule says of the bonds of that kernel, on a machine that is else healthy."""
    captures = {}
    for probe in (NETDEV, LACP):
        paths = [path for path in probe.paths if "bonding" in path]
        loop = (f"for file in {' '.join(paths)}; do [ -r \"$file\" ] && {{ echo \"{_FILE}$file\"; cat "
                f"\"$file\"; }}; done; true")
        found = {piece.partition("\n")[0]: FileCapture(Outcome.DONE, piece.partition("\n")[2])
                 for piece in up.run(loop).split(_FILE)[1:]}
        kept = {path: file
                for path, file in machine.captures()[probe.id].files.items() if "bonding" not in path}
        captures[probe.id.replace(".", "_")] = Capture(Outcome.DONE, seconds=0.1, bytes=1,
                                                       files={**kept, **found})
    return verdict(rule, machine.recording(**captures))


def until(up: Machine, rule: str, status: Status) -> str:
    """What the rule finds, once it says so."""
    results: list[Result] = []

    def asked() -> bool:
        results[:] = [judged(up, rule)]
        return results[0].status is status

    wait_until(asked, 90, rule)
    return findings_of(results[0])


def test_a_bond_whose_members_have_links_and_a_partner_is_sound_and_one_that_loses_a_cable_is_named(
        up: Machine) -> None:
    bonded(up, "mode 802.3ad lacp_rate fast", "mode 802.3ad lacp_rate fast")
    until(up, "bond-lacp", Status.PASS)
    until(up, "bond-members", Status.PASS)
    up.run("ip -n switch link set port1 down")
    assert "port1" in until(up, "bond-members", Status.FAIL)
    up.run("ip -n switch link set port1 up")
    until(up, "bond-members", Status.PASS)


def test_a_switch_that_speaks_no_lacp_is_named_as_no_partner(up: Machine) -> None:
    bonded(up, "mode 802.3ad lacp_rate fast", "mode active-backup")
    assert "bond0" in until(up, "bond-lacp", Status.FAIL)
    assert judged(up, "bond-members").status is Status.PASS


def test_a_bond_that_is_down_is_named_and_other_modes_have_no_lacp(up: Machine) -> None:
    bonded(up, "mode active-backup", "mode active-backup")
    until(up, "bond-members", Status.PASS)
    assert judged(up, "bond-lacp").status is Status.PASS       # its mode was read, which has none
    up.run("ip -n switch link set port0 down; ip -n switch link set port1 down")
    assert "bond0" in until(up, "bond-members", Status.FAIL)
