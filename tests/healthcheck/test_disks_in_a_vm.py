"""Disks that are really sick, in a virtual machine whose kernel has what this one lacks: scsi_debug, the
device mapper, md arrays in each of their states, and an NVMe target over TCP. muster judges what that
kernel's sysfs and log say of them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from healthcheck.facts.multipath import MULTIPATH
from healthcheck.facts.nvme import HEAT, NAMESPACES, NVME
from healthcheck.facts.raid import MD
from healthcheck.facts.scsi import SCSI
from healthcheck.model.outcome import Result, Status
from healthcheck.model.recording import Capture, FileCapture, Outcome, Recording
from tests.healthcheck import machine
from tests.healthcheck.checks.verdicts import findings_of, verdict
from tests.testbed.sshd import wait_until
from tests.testbed.vm.hardware import Hardware
from tests.testbed.vm.images import images, releases, require_vm
from tests.testbed.vm.machine import BOOT_SECONDS, Machine
from tests.testbed.vm.machine import machine as booted

pytestmark = [pytest.mark.slow, pytest.mark.root, pytest.mark.timeout(BOOT_SECONDS + 900)]
PROBES = (SCSI, MULTIPATH, MD, NVME, NAMESPACES, HEAT)
_FILE = "-- file "


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    require_vm()
    folder: Path = tmp_path_factory.mktemp("vm")
    with booted(folder, images(releases("6.1.")[0]), Hardware(seed=7)) as made:
        made.run(
            "mkdir -p /var/tmp/disks; mount -t tmpfs none /var/tmp/disks; mount -t configfs none "
            "/sys/kernel/config || true")
        yield made


def seen(up: Machine, log: bool = False) -> Recording:
    """The healthy machine with what this one's kernel says of its disks, by the paths of the probes
    themselves."""
    captures = {}
    for probe in PROBES:
        loop = (f"for file in {' '.join(probe.paths)}; do [ -r \"$file\" ] && {{ echo \"{_FILE}$file\"; cat "
                f"\"$file\"; }}; done; true")
        pieces = up.run(loop).split(_FILE)[1:]
        captures[probe.id.replace(".", "_", 1)] = Capture(Outcome.DONE, seconds=0.1, bytes=1, files={
            piece.partition("\n")[0]: FileCapture(Outcome.DONE, piece.partition("\n")[2])
            for piece in pieces})
    if log:
        captures["kernel_log"] = machine.done(**{"/dev/kmsg": up.records().decode(errors="replace")})
    return machine.recording(**captures)


def said(up: Machine, rule: str, **more: bool) -> str:
    """The findings of a rule."""
    return findings_of(verdict(rule, seen(up, **more)))


def until(up: Machine, rule: str, holds: Callable[[Result], object]) -> Result:
    """What the rule says, once it is so."""
    results: list[Result] = []

    def asked() -> object:
        results[:] = [verdict(rule, seen(up))]
        return holds(results[0])

    wait_until(asked, 60, rule)
    return results[0]


def loops(up: Machine, *names: str) -> list[str]:
    """Loop devices of 32 MiB."""
    return [
        up.run(
            f"truncate --size=32M /var/tmp/disks/{name}; losetup --find --show "
            f"/var/tmp/disks/{name}").strip().rpartition("/")[2]
        for name in names]


def array(up: Machine, name: str, level: str, members: list[str]) -> str:
    """An md array without metadata, made through sysfs, whose members agree; returns its folder there."""
    at = f"/sys/block/{name}/md"
    words = ["metadata_version none", f"raid_disks {len(members)}", f"level {level}"]
    words += ["chunk_size 65536"] if level != "raid1" else []
    for slot, member in enumerate(members):
        words += [f"new_dev $(cat /sys/block/{member}/dev)", f"dev-{member}/size 16384",
                  f"dev-{member}/slot {slot}"]
    words += ["component_size 16384", "resync_start none"] if level != "raid0" else []
    steps = [f"echo {text} > {at}/{file}"
             for file, _, text in (word.partition(" ") for word in (*words, "array_state active"))]
    up.run(" && ".join([f"modprobe {'raid456' if level == 'raid5' else level}",
                        f"echo {name} > /sys/module/md_mod/parameters/new_array", *steps]))
    return at


def debug_disks(up: Machine, number: int, words: str = "") -> list[str]:
    """Disks of scsi_debug, which is loaded for them."""
    up.run(
        f"modprobe -r scsi_debug; modprobe scsi_debug dev_size_mb=64 num_tgts={number} {words}; "
        f"udevadm settle")
    return up.run("grep -l scsi_debug /sys/block/sd*/device/model | cut -d/ -f4").split()


def test_a_scsi_disk_that_is_offline_is_named_and_its_medium_errors_are_its_own(up: Machine) -> None:
    (disk,) = debug_disks(up, 1)
    assert said(up, "disk-scsi-state") == ""
    since = up.size()
    up.run(
        f"echo 2 > /sys/bus/pseudo/drivers/scsi_debug/opts; dd if=/dev/{disk} of=/dev/null bs=512 skip=4660 "
        f"count=1 iflag=direct", check=False)
    up.said(f"critical medium error, dev {disk}", 60, since=since)
    assert f"{disk}: " in said(up, "disk-log-io-errors", log=True)
    up.run(f"echo 0 > /sys/bus/pseudo/drivers/scsi_debug/opts; echo offline > /sys/block/{disk}/device/state")
    assert said(up, "disk-scsi-state") == f"{disk} (scsi_debug): offline, expected running"
    up.run(f"echo running > /sys/block/{disk}/device/state")
    assert said(up, "disk-scsi-state") == ""


def test_a_command_without_an_answer_is_counted_by_the_kernel_and_by_muster(up: Machine) -> None:
    (disk,) = debug_disks(up, 1)
    before = seen(up)
    if "iotmo_cnt" not in "".join(before.captures["disk.scsi"].files):
        # before Linux 6.0 there is no such counter
        assert verdict("disk-scsi-timeouts", before, before).status is Status.SKIPPED
        return
    up.run(f"echo 1 > /sys/block/{disk}/device/timeout; echo 4 > /sys/bus/pseudo/drivers/scsi_debug/opts; "
           f"echo -1 > /sys/bus/pseudo/drivers/scsi_debug/every_nth; dd if=/dev/{disk} of=/dev/null bs=4096 "
           f"count=1 iflag=direct; "
           "echo 0 > /sys/bus/pseudo/drivers/scsi_debug/opts; echo 0 > "
           "/sys/bus/pseudo/drivers/scsi_debug/every_nth", check=False)
    found = findings_of(verdict("disk-scsi-timeouts", seen(up), before))
    assert re.match(rf"{disk} \(scsi_debug\): \d+ commands without an answer", found)


def test_a_mapped_disk_that_fails_is_in_the_log_and_one_that_is_slow_is_no_fault(up: Machine) -> None:
    (loop,) = loops(up, "slow")
    up.run(
        f"modprobe dm-delay; echo '0 8192 delay /dev/{loop} 0 200' | dmsetup create slow; echo '0 8192 "
        f"error' | dmsetup create bad")
    up.run("dd if=/dev/mapper/slow of=/dev/null bs=4096 count=2 iflag=direct")
    names = {name: up.run(f"basename $(readlink -f /dev/mapper/{name})").strip() for name in ("slow", "bad")}
    since = up.size()
    up.run("dd if=/dev/mapper/bad of=/dev/null bs=4096 count=1", check=False)
    up.said(f"Buffer I/O error on dev {names['bad']}", 60, since=since)
    found = said(up, "disk-log-io-errors", log=True)
    assert f"{names['bad']}: " in found and f"{names['slow']}: " not in found
    up.run("dmsetup remove slow; dmsetup remove bad")


def test_a_path_of_a_multipath_disk_that_goes_offline_is_named(up: Machine) -> None:
    one, two = debug_disks(up, 2)
    assert verdict("disk-multipath-path", seen(up)).status is Status.SKIPPED
    table = f"0 8192 linear /dev/{one} 0\n8192 8192 linear /dev/{two} 0"
    up.run(f"printf '{table}\n' | dmsetup create --uuid mpath-3333330000000bb8 mpatha")
    before = seen(up)
    assert verdict("disk-multipath-path", before).status is Status.PASS
    up.run(f"echo offline > /sys/block/{two}/device/state")
    assert (said(up, "disk-multipath-path")
            == f"mpatha: 1 of 2 paths lost: {two} offline, expected every path in use")
    up.run(f"echo running > /sys/block/{two}/device/state")
    up.run(
        f"dmsetup suspend mpatha; echo '0 8192 linear /dev/{one} 0' | dmsetup load mpatha; dmsetup "
        f"resume mpatha")
    assert findings_of(verdict("disk-multipath-lost", seen(up),
                               before)) == "mpatha: 1 paths, expected 2, as in the earlier snapshot"
    up.run("dmsetup remove mpatha")


def test_a_mirror_is_judged_in_each_of_its_states(up: Machine) -> None:
    one, two = loops(up, "m1", "m2")
    at = array(up, "md100", "raid1", [one, two])
    rules = ("raid-state", "raid-degraded", "raid-rebuilding", "raid-frozen")

    def all_said() -> dict[str, str]:
        recording = seen(up)
        return {rule: found for rule in rules if (found := findings_of(verdict(rule, recording)))}

    until(up, "raid-rebuilding", lambda result: not result.findings)
    assert all_said() == {}
    up.run(f"echo frozen > {at}/sync_action")
    assert (all_said()
            == {"raid-frozen": "md100 (raid1): frozen: no rebuild and no check begins, expected idle"})
    up.run(f"echo faulty > {at}/dev-{two}/state; echo idle > {at}/sync_action", check=False)
    until(up, "raid-degraded", lambda result: result.findings)
    assert (all_said() == {
        "raid-degraded": f"md100 (raid1): 1 of 2 members missing (faulty: {two}), expected all members"})
    up.run(f"echo 64 > {at}/sync_speed_max; echo 64 > {at}/sync_speed_min")
    up.run(
        f"echo remove > {at}/dev-{two}/state; cat /sys/block/{two}/dev > {at}/new_dev; echo 16384 > "
        f"{at}/dev-{two}/size; "
        f"echo recover > {at}/sync_action", check=False)
    until(up, "raid-rebuilding", lambda result: result.findings)
    assert all_said().keys() == {"raid-degraded",
                                 "raid-rebuilding"} and "recover, " in said(up, "raid-rebuilding")
    up.run(f"echo 500000 > {at}/sync_speed_max; echo 500000 > {at}/sync_speed_min")
    until(up, "raid-degraded", lambda result: not result.findings)
    up.run(f"echo readonly > {at}/array_state")
    assert all_said() == {}
    up.run(f"echo inactive > {at}/array_state", check=False)
    assert all_said() in ({"raid-state": "md100 (raid1): inactive, expected active or clean"},
                          {"raid-state": "md100: inactive, expected active or clean"})
    up.run(f"echo clear > {at}/array_state")
    assert said(up, "raid-state") == ""


def test_parity_that_is_wrong_is_found_by_a_check(up: Machine) -> None:
    members = loops(up, "p1", "p2", "p3")
    at = array(up, "md101", "raid5", members)
    until(up, "raid-rebuilding", lambda result: not result.findings)
    assert said(up, "raid-mismatch") == ""
    up.run(
        f"dd if=/dev/urandom of=/dev/{members[0]} bs=64k count=4 oflag=direct; echo check > {at}/sync_action")
    result = until(up, "raid-mismatch", lambda result: result.findings)
    assert re.fullmatch(r"md101 \(raid5\): \d+ sectors disagree with their parity, expected 0",
                        findings_of(result))
    until(up, "raid-rebuilding", lambda result: not result.findings)
    up.run(f"echo clear > {at}/array_state")


def test_a_stripe_without_a_member_is_broken(up: Machine) -> None:
    one, two = debug_disks(up, 2)
    at = array(up, "md102", "raid0", [one, two])
    assert said(up, "raid-state") == ""
    up.run(f"echo 1 > /sys/block/{two}/device/delete")
    # The kernel notices at the next request.
    up.run("dd if=/dev/md102 of=/dev/null bs=64k iflag=direct", check=False)
    result = until(up, "raid-state", lambda result: result.findings)
    assert findings_of(result) == "md102 (raid0): broken, expected active or clean"
    up.run(f"echo clear > {at}/array_state", check=False)


TARGET = """modprobe -a nvmet nvmet-tcp nvme-tcp; ip link set lo up; cd /sys/kernel/config/nvmet; mkdir subsystems/test; cd subsystems/test
echo 1 > attr_allow_any_host; mkdir namespaces/1; echo -n /dev/{loop} > namespaces/1/device_path; echo 1 > namespaces/1/enable
cd ../..; mkdir ports/1; cd ports/1; echo tcp > addr_trtype; echo ipv4 > addr_adrfam; echo 127.0.0.1 > addr_traddr; echo 4420 > addr_trsvcid
ln -s /sys/kernel/config/nvmet/subsystems/test subsystems/test; cd /
echo transport=tcp,traddr=127.0.0.1,trsvcid=4420,nqn=test,reconnect_delay=2,ctrl_loss_tmo=600 > /dev/nvme-fabrics"""  # noqa: E501


def test_a_drive_over_a_network_is_no_local_one_and_its_lost_target_is_named(up: Machine) -> None:
    (loop,) = loops(up, "far")
    local = verdict("disk-nvme-namespace", seen(up))
    assert local.status is Status.PASS
    up.run(TARGET.format(loop=loop))
    until(up, "disk-nvme-state", lambda result: "over a network" not in result.reason
          and "nvme1" in str(seen(up).captures["nvme.sysfs"].files))
    assert said(up, "disk-nvme-state") == ""
    for rule in ("disk-nvme-pcie", "disk-nvme-namespace", "disk-nvme-temperature"):
        assert "nvme1" not in findings_of(verdict(rule, seen(up))), rule
    up.run("rm /sys/kernel/config/nvmet/ports/1/subsystems/test")
    result = until(up, "disk-nvme-state", lambda result: result.findings)
    assert findings_of(result) == "nvme1: connecting, expected live"
    up.run("echo 1 > /sys/class/nvme/nvme1/delete_controller")
    until(up, "disk-nvme-state", lambda result: not result.findings)
