"""One virtual machine from power-off over PXE to service by the real commands; killed once."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from healthcheck.store import bringups
from healthcheck.store.file import opened
from inventory.model import LifecycleState
from provisioning.bringup.engine.model import ORDER
from tests.command import muster, running
from tests.provisioning.bringup.onevm import NAME, Site, site
from tests.testbed.bmcs import require_rack
from tests.testbed.sshd import wait_until
from tests.testbed.vm.pxe import require_pxe

_MINUTES = 15


@pytest.fixture
def one(tmp_path: Path) -> Iterator[Site]:
    require_pxe()
    require_rack()
    with site(tmp_path) as made:
        yield made


@pytest.mark.slow
@pytest.mark.timeout(_MINUTES * 60 + 300)
def test_a_machine_goes_from_power_off_over_pxe_to_service_though_the_command_is_killed(
    one: Site, capsys: pytest.CaptureFixture[str],
) -> None:
    message = [_muster(one, "bmc", "enroll", NAME, "--yes")]
    message.append(_muster(one, "bringup", "run", NAME, "--rules", "rules"))
    assert "write BIOS settings" in message[-1]
    assert (one.vm.booted, one.bmc.boots) == (0, {})

    message.append(_killed(one))
    assert _rows(one)[0].step == "os"
    message.append(_muster(one, "bringup", "status", code=3))

    # The first machine of its kind: it is not known yet what its kernel says when all is well.
    message.append(_muster(one, "bringup", "resume", "--rules", "rules", code=1))
    assert _rows(one)[0].step == "kernel", message[-1]
    with opened(one.home / "state") as store:
        assert "muster baseline learn" in bringups.troubles(store)[0].hand
    assert one.lifecycle() is LifecycleState.BRINGUP
    _learned(one)
    message.append(_muster(one, "bringup", "resume", "--rules", "rules"))

    assert one.lifecycle() is LifecycleState.SERVICE
    assert one.bmc.boots == {NAME: "Pxe"}
    assert one.vm.network().count(f"sent {one.home}/lab/tftp/system") == 1
    counts = one.bmc.counts(NAME)
    assert [counts[operation] for operation in ("bios", "boot", "off", "on", "restart", "401")] == [
        1, 1, 1, 2, 0, 0]
    assert one.vm.booted == 2
    with opened(one.home / "state") as store:
        steps = {line.step: line for line in bringups.steps(store)}
        operations = bringups.actions(store)
    assert {name: line.outcome for name, line in steps.items()} == {
        name: "skipped" if name in ("leased", "burnin", "certificate") else "so" for name in ORDER}
    assert all(operation.done for operation in operations)

    assert one.run("cat", "/etc/hostname", "/proc/sys/kernel/hostname").split() == [NAME, NAME]
    assert one.run("cat", "/sys/class/dmi/id/product_serial").strip() == one.vm.serial
    message.append(_muster(one, "check", NAME, "--rules", "rules"))
    assert re.search(rf"healthy +1 +{NAME}", message[-1]), message[-1]
    assert not [text for text in message if one.bmc.password in text]
    assert not [path for path in _files(one.home / "state") if one.bmc.password.encode() in path.read_bytes()]

    with capsys.disabled():
        print("\n"
              f"{NAME}: from power-off to service in "
              f"{_seconds(steps['bmc'].began, steps['service'].ended)}, with a person's baseline")
        for name, line in steps.items():
            print(f"  {name:12}{line.outcome:8}{_seconds(line.began, line.ended):>8}  "
                  + "; ".join(operation.name for operation in operations if operation.step == name))


def _seconds(began: float, ended: float | None) -> str:
    return f"{(ended or began) - began:.1f} s"


def _muster(one: Site, *words: str, code: int = 0) -> str:
    done = muster(*words, home=one.home, timeout=_MINUTES * 60)
    assert (done.returncode
            == code), f"{words}: {done.returncode}\n{done.stdout}{done.stderr}\n{one.vm.console()[-2000:]}"
    return done.stdout + done.stderr


def _killed(one: Site) -> str:
    """Begins, and is killed while the machine loads its system over the network; what it had said."""
    log = one.home / "run.log"
    with log.open("wb") as file:
        process = running("bringup", "run", NAME, "--apply", "--rules", "rules", home=one.home,
                          out=file, err=file)
    try:
        wait_until(lambda: process.poll() is not None or "tftp/vmlinuz to" in one.vm.network(), 120, "PXE")
        assert process.poll() is None, log.read_text()
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    return log.read_text()


def _rows(one: Site) -> list[bringups.MachineProgress]:
    with opened(one.home / "state") as store:
        return bringups.progress(store)


def _learned(one: Site) -> None:
    """What a person does: a baseline of the first machine, reviewed, and approved into the site's rules."""
    _muster(one, "baseline", "learn", NAME, "--output", "vm1.yaml", "--rules", "rules")
    _muster(one, "baseline", "approve", "vm1.yaml", "--seen-on", "100%", "--reason", "the first of its kind")
    if flagged := re.findall(
        r"^([0-9a-f]{7})\b", _muster(one, "baseline", "review", "vm1.yaml", "--flagged"), re.MULTILINE):
        _muster(one, "baseline", "approve", "vm1.yaml", *flagged, "--flagged", "--reason",
                "clocks of an emulated machine")
    (one.home / "rules/baseline").mkdir()
    (one.home / "vm1.yaml").rename(one.home / "rules/baseline/vm1.yaml")


def _files(folder: Path) -> list[Path]:
    return [Path(base) / name for base, _, names in os.walk(folder) for name in names]
