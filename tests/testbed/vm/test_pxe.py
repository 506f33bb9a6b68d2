"""Of a machine that boots over the network nothing is left, however the test that made it ended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed.processes import alive
from tests.testbed.sshd import wait_until
from tests.testbed.vm.images import releases
from tests.testbed.vm.netimage import netimage
from tests.testbed.vm.pxe import lab, require_pxe

_ROOT = Path(__file__).resolve().parents[3]
_CHILD = """
import sys, time
from pathlib import Path
from tests.testbed.vm.images import releases
from tests.testbed.vm.netimage import netimage
from tests.testbed.vm.pxe import lab
with lab(Path(sys.argv[1]), netimage(releases("6.1.")[0]), {}) as made:
    made.turn(True, network=True)
    print(made.holder, flush=True)
    time.sleep(600)
"""


def _inside(holder: int) -> list[int]:
    """The processes of a namespace, by its first one."""
    space = Path(f"/proc/{holder}/ns/pid").readlink()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            found += [int(path.name)] if (path / "ns/pid").readlink() == space else []
        except OSError:
            continue
    return found


def _links() -> set[str]:
    return {path.name for path in Path("/sys/class/net").iterdir()}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_nothing_is_left_of_a_lab_whose_process_was_killed(tmp_path: Path) -> None:
    require_pxe()
    before = _links()
    child = subprocess.Popen([sys.executable, "-c", _CHILD, str(tmp_path / "lab")], cwd=_ROOT,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    try:
        assert child.stdout is not None
        holder = int(child.stdout.readline())
        wait_until(lambda: len(_inside(holder)) == 4, 60, "sleep, dnsmasq, chronyd and qemu")
        inside = _inside(holder)
        assert _links() - before
    finally:
        child.kill()
        child.communicate()
    wait_until(lambda: not any(map(alive, inside)), 30, "their end")
    wait_until(lambda: _links() <= before, 30, "the end of the network")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_machine_that_is_not_told_to_boot_from_the_network_asks_no_one_there(tmp_path: Path) -> None:
    require_pxe()
    with lab(tmp_path / "lab", netimage(releases("6.1.")[0]), {}) as made:
        inside = _inside(made.holder)
        made.turn(True)
        assert made.on
        wait_until(lambda: "No bootable device" in made.console(), 60, "its BIOS")
        assert made.mac not in made.network()
        made.turn(False)
        assert made.booted == 1
        made.turn(True, network=True)
        wait_until(lambda: f"DHCPACK(lan) {made.address} {made.mac}" in made.network(), 60, "its DHCP")
    wait_until(lambda: not any(map(alive, inside)), 10, "the end of its daemons")
