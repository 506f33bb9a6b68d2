"""One virtual machine from power-off over own PXE, by the real commands alone: bring-up arms it, an installer
writes its disk, the installed system phones home, and its proven host key is pinned; muster is killed on the
way."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from healthcheck.store import bringups
from healthcheck.store.file import opened
from tests.command import muster, running
from tests.provisioning.osinstall.pxesite import MINUTES, NAME, Site, site
from tests.testbed.bmcs import Machine, rack, require_rack
from tests.testbed.planted import private
from tests.testbed.sshd import wait_until
from tests.testbed.vm.diskimage import require_installer
from tests.testbed.vm.pxe import require_pxe

_VM = Machine(NAME, gpus=0, cpus=1, dimms=1, drives=1, nics=1, psus=1)
_BRINGUP = """\
os: {by: pxe}
power: {answer_minutes: 0.05}
"""


@pytest.mark.slow
@pytest.mark.timeout(MINUTES * 60 + 300)
def test_bring_up_installs_a_machine_over_own_pxe_though_it_is_killed(tmp_path: Path,
                                                                      capsys: pytest.CaptureFixture[
                                                                          str]) -> None:
    require_pxe()
    require_installer()
    require_rack()
    there: list[Site] = []

    def power(name: str, on: bool) -> None:
        there[0].vm.turn(on, network=bmc.boots.get(name) == "Pxe")

    with rack(tmp_path / "rack", [_VM], on_power=power, power_s=1.0, post_s=2.0) as bmc:
        secret = private(tmp_path / "bmc.password", f"{bmc.password}\n")
        (tmp_path / "rules").mkdir()
        (tmp_path / "rules/bringup.yaml").write_text(_BRINGUP)
        with site(tmp_path, uuid=_VM.uuid, serial=_VM.number, more=(
                f"lifecycle: planned, sku: cpu-only, rack: r1, identity_file: {tmp_path}/key, "
                f"known_hosts_file: {tmp_path}/known_hosts, "
                f"bmc: {{address: {bmc.address(NAME)}, port: {bmc.port}, user: {bmc.user}, tls: pin, "
                f"password: {{file: {secret}}}}}")) as one:
            there.append(one)
            said = [_muster(one, "bmc", "enroll", NAME, "--yes")]
            said.append(_muster(one, "bringup", "run", NAME, "--until", "ssh", "--rules", "rules"))
            assert (one.vm.booted, bmc.boots) == (0, {})
            _killed_in_the_installer(one)
            said.append(_muster(one, "bringup", "resume", "--until", "ssh", "--rules", "rules"))

            assert ("is installed with small" in one.served()
                    and one.served().count("boots the installer of small") == 1)
            assert bmc.boots == {NAME: "Pxe"}
            (key,) = one.state().host_keys
            assert (tmp_path / "known_hosts").read_text().split()[1:3] == key.split()
            with opened(tmp_path / "state") as store:
                steps = {line.step: line.outcome for line in bringups.steps(store)}
                operations = [(line.step, line.name, line.done) for line in bringups.actions(store)]
                (row,) = bringups.progress(store)
            assert (steps["os"], steps["ssh"], row.kept["os.image"]) == ("so", "so", "small")
            assert [name
                    for step, name, _ in operations
                    if step == "os"].count("have its operating system installed") == 1
            assert all(done for *_, done in operations), operations
            assert one.run("cat", "/etc/hostname").strip() == NAME
            assert not [text for text in said if bmc.password in text]
    with capsys.disabled():
        print("", *operations, sep="\n")


def _muster(one: Site, *words: str) -> str:
    done = muster(*words, home=one.home, timeout=MINUTES * 60)
    assert (done.returncode
            == 0), f"{words}: {done.stdout}{done.stderr}\n{one.served()}\n{one.vm.console()[-2000:]}"
    return done.stdout + done.stderr


def _killed_in_the_installer(one: Site) -> None:
    with (one.home / "run.log").open("wb") as file:
        process = running("bringup", "run", NAME, "--apply", "--until", "ssh", "--rules", "rules",
                          home=one.home,
                          out=file, err=file)
    try:
        wait_until(lambda: process.poll() is not None or "its installer fetched seed" in one.served(), 480,
                   "the installer")
        assert process.poll() is None, (one.home / "run.log").read_text()
    finally:
        process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
