"""A server of files that stops answering, and teams of interfaces, in a virtual machine whose kernel has
both; the real collector reads them there."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.facts.bond import LACP
from healthcheck.facts.filesystem import MOUNTS
from healthcheck.facts.netdev import NETDEV
from healthcheck.facts.team import TEAMD
from healthcheck.model.outcome import Result, Status
from healthcheck.model.probes import Probe
from healthcheck.model.recording import Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import findings_of, verdict
from tests.testbed.sshd import wait_until
from tests.testbed.vm.collected import collected
from tests.testbed.vm.hardware import Hardware
from tests.testbed.vm.images import images, releases, require_vm
from tests.testbed.vm.machine import BOOT_SECONDS, Machine
from tests.testbed.vm.machine import machine as booted

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(BOOT_SECONDS + 600)]
_LACP = {"runner": {"name": "lacp", "active": True, "fast_rate": True}, "link_watch": {"name": "ethtool"}}
_ROUND_ROBIN = {"runner": {"name": "roundrobin"}, "link_watch": {"name": "ethtool"}}


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    require_vm()
    folder: Path = tmp_path_factory.mktemp("vm")
    with booted(folder, images(releases("6.1.")[0]), Hardware(seed=9)) as made:
        yield made


def look(up: Machine, *probes: Probe) -> Recording:
    """A healthy machine that has these readings of that one."""
    healthy = machine.recording()
    return replace(healthy, captures={**healthy.captures, **collected(up, probes).captures})


@pytest.fixture(scope="module")
def exported(up: Machine) -> Machine:
    """A file system of a server that is this machine itself, mounted hard, as homes and data sets are."""
    up.run(
        "mkdir -p /srv/data /data; mount -t tmpfs none /srv/data; touch /srv/data/file; systemctl unmask "
        "rpcbind.service rpcbind.socket rpc-statd.service >/dev/null; "
        "ip link set lo up; modprobe nfsd; modprobe nfs; mount -t nfsd none /proc/fs/nfsd 2>/dev/null || "
        "true; mkdir -p /var/lib/nfs/v4recovery")
    up.run(
        "rpcbind -w || rpcbind; rpc.mountd --no-nfs-version 3 --nfs-version 4; rpc.nfsd --no-nfs-version 3 "
        "--nfs-version 4 4; "
        "exportfs -o rw,no_root_squash,fsid=0,insecure 127.0.0.1:/srv/data; exportfs -v")
    up.run("mount -t nfs4 -o hard,proto=tcp,timeo=20 127.0.0.1:/ /data; ls /data/file")
    return up


def test_a_file_server_that_stops_answering_is_named_beside_what_does_and_the_look_ends(
        exported: Machine) -> None:
    up = exported
    sound = look(up, MOUNTS)
    assert verdict("filesystem-answers", sound).status is Status.PASS
    # Its packets are lost rather than refused: a switch that died, or a server that is too busy.
    up.run("modprobe sch_netem; tc qdisc add dev lo root netem loss 100%")
    # the second meets the reader that the first had to leave
    first, second = look(up, MOUNTS, NETDEV), look(up, MOUNTS, NETDEV)
    once, twice = verdict("filesystem-answers", first), verdict("filesystem-hung", second, first)
    assert (once.status is Status.UNKNOWN
            and "/data (nfs4 of 127.0.0.1:/) did not return in time" in once.reason), once
    assert twice.status is Status.FAIL, twice
    assert findings_of(twice).startswith("/data:") and ";" not in findings_of(twice)
    # the other mounts are read all the same
    assert verdict("filesystem-space", second).status is not Status.FAIL
    assert second.captures[NETDEV.id].outcome is Outcome.DONE
    up.run("tc qdisc del dev lo root")
    wait_until(lambda: verdict("filesystem-hung", look(up, MOUNTS), first).status is Status.PASS, 120,
               "the mount that answers again")


def teamed(up: Machine, ours: dict[str, object], theirs: dict[str, object]) -> None:
    """A team of two ends of cables whose others are the switch's, each as its runner is set up; what was
    there before is gone."""
    up.run(
        "pkill teamd; while pgrep teamd; do sleep 0.1; done; ip link del team0 2>/dev/null; ip -n switch "
        "link del team9 2>/dev/null; for name in port0 port1; do ip link del $name 2>/dev/null; done; "
        "ip netns add switch 2>/dev/null; modprobe veth; mkdir -p /run/teamd; true")
    for name in ("port0", "port1"):
        up.run(f"ip link add {name} type veth peer name {name} netns switch")
    ports: dict[str, object] = {"port0": {}, "port1": {}}
    for before, name, setup in (("", "team0", ours), ("ip netns exec switch ", "team9", theirs)):
        config = json.dumps({"device": name, **setup, "ports": ports})
        up.run(f"{before}teamd -d -t {name} -c '{config}'")
        up.run(f"{before}ip link set {name} up")
    up.run("rm -f /run/teamd/team9.*")      # the switch's is not this machine's


def until(up: Machine, rule: str, status: Status) -> str:
    """What the rule finds of the teams, once it says so."""
    results: list[Result] = []

    def asked() -> bool:
        results[:] = [verdict(rule, look(up, NETDEV, TEAMD, LACP))]
        return results[0].status is status

    wait_until(asked, 90, rule)
    return findings_of(results[0])


def test_a_team_with_lacp_is_sound_one_that_loses_a_cable_is_named_and_it_recovers(up: Machine) -> None:
    teamed(up, _LACP, _LACP)
    until(up, "bond-lacp", Status.PASS)
    until(up, "bond-members", Status.PASS)
    up.run("ip -n switch link set port1 down")
    assert "port1" in until(up, "bond-members", Status.FAIL)
    up.run("ip -n switch link set port1 up")
    until(up, "bond-members", Status.PASS)


def test_a_switch_that_speaks_no_lacp_to_a_team_is_named(up: Machine) -> None:
    teamed(up, _LACP, _ROUND_ROBIN)
    assert "team0" in until(up, "bond-lacp", Status.FAIL)
