"""The program on the installed system against the real server: it asks until it is accepted, and leaves
nothing behind."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from provisioning.osinstall.base import OsState
from provisioning.osinstall.onnode import phonehome as agent
from provisioning.osinstall.pxe import record
from tests.provisioning.osinstall.pxe.pxesite import (
    KEY,
    OTHER_KEY,
    Place,
    mac,
    node,
    options,
    seed_path,
    serving,
)
from tests.testbed.sshd import wait_until

SOURCE = Path(agent.__file__)


def system(root: Path, keys: tuple[str, ...] = (KEY,)) -> Path:
    """A root file system as an installer leaves it, with a port, and a bond that hides another port's
    address."""
    (root / "etc/ssh").mkdir(parents=True)
    for at, line in enumerate(keys):
        (root / f"etc/ssh/ssh_host_{at}_key.pub").write_text(f"{line} root@installer\n")
    for port, address, own in (("lo", "00:00:00:00:00:00", ""), ("bond0", mac(9), ""),
                               ("eno1", mac(9), mac(1))):
        folder = root / "sys/class/net" / port
        (folder / "bonding_slave").mkdir(parents=True)
        (folder / "address").write_text(f"{address}\n")
        if own:
            (folder / "bonding_slave/perm_hwaddr").write_text(f"{own}\n")
    (root / "etc/passwd").write_text(
        "root:x:0:0:root:/root:/bin/bash\nmuster:x:1000:1000::/home/muster:/bin/bash\n")
    (root / "etc/sudoers.d").mkdir()
    return root


def armed(place: Place, root: Path, address: str) -> record.Installation:
    """Installed with the script that the server gives, by a shell."""
    place.options = options(server=address)
    place.site._options = place.options
    held = place.armed()
    script = place.ask(seed_path(held, "firstboot")).text
    assert subprocess.run(["sh", "-s", str(root)], input=script, text=True, check=False, capture_output=True,
                          timeout=60).returncode == 0
    return held


def started(root: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-I", str(root / "etc/muster-firstboot/phonehome.py"),
                             str(root)], text=True,
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path / "state")


def test_an_installed_system_phones_home_once_and_keeps_no_token(place: Place, tmp_path: Path) -> None:
    root = system(tmp_path / "root", (KEY, OTHER_KEY))
    with serving(place) as address:
        held = armed(place, root, address)
        assert place.record().stage is record.InstallationStage.WRITTEN
        settings = root / "etc/muster-firstboot/settings.json"
        assert (settings.stat().st_mode & 0o777 == 0o600
                and json.loads(settings.read_text())["token"] == held.token)
        wanted = root / "etc/systemd/system/multi-user.target.wants/muster-firstboot.service"
        assert "phonehome.py" in wanted.resolve().read_text()
        assert (root / "home/muster/.ssh/authorized_keys").read_text() == f"{KEY} operator\n"
        assert (root / "etc/sudoers.d/muster").stat().st_mode & 0o777 == 0o440
        with started(root) as process:
            assert process.stdout is not None
            said = process.stdout.read()
        assert process.returncode == 0 and "200 accepted" in said and held.token not in said
    found = place.backend.state(node())
    assert found.state is OsState.INSTALLED and found.host_keys == tuple(sorted((KEY, OTHER_KEY)))
    assert not (root / "etc/muster-firstboot").exists() and not wanted.is_symlink()
    assert not [path for path in root.rglob("*") if path.is_file()
                and held.token.encode() in path.read_bytes()]


def test_it_waits_for_a_head_that_is_away_and_for_its_host_keys(place: Place, tmp_path: Path) -> None:
    root = system(tmp_path / "root", ())
    with serving(place) as address:
        armed(place, root, address)
    port = int(address.rpartition(":")[2])
    with started(root) as process:
        assert process.stdout is not None
        assert "no SSH host keys yet" in process.stdout.readline()
        system_key = root / "etc/ssh/ssh_host_ed25519_key.pub"
        system_key.write_text(f"{KEY}\n")
        assert "muster-firstboot: 0" in process.stdout.readline()      # refused
        with serving(place, port=port):
            assert process.wait(30) == 0
    assert place.backend.state(node()).state is OsState.INSTALLED


def test_killed_after_it_was_accepted_it_says_the_same_and_is_known(place: Place, tmp_path: Path) -> None:
    root = system(tmp_path / "root")
    with serving(place) as address:
        armed(place, root, address)
        kept = json.loads((root / "etc/muster-firstboot/settings.json").read_text())
        body = agent.message(kept, str(root))
        assert agent.sent(kept, body) == (200, "accepted\n")
        before = place.record()
        with started(root) as process:
            assert process.stdout is not None
            assert "200 accepted already" in process.stdout.read()
        assert (process.returncode == 0 and place.record() == before
                and not (root / "etc/muster-firstboot").exists())


def test_it_ends_when_its_installation_has(place: Place, tmp_path: Path) -> None:
    root = system(tmp_path / "root")
    with serving(place) as address:
        armed(place, root, address)
        place.records.change("gpu001", lambda old: old and record.disarmed(old, place.clock()))
        with started(root) as process:
            assert process.wait(30) == 0
    assert (place.backend.state(node()).state is OsState.PLANNED
            and not (root / "etc/muster-firstboot").exists())


def test_on_a_machine_that_is_not_the_one_it_goes_on_and_is_not_accepted(place: Place,
                                                                         tmp_path: Path) -> None:
    root = system(tmp_path / "root")
    for name in ("eno1/bonding_slave/perm_hwaddr", "eno1/address"):
        (root / "sys/class/net" / name).write_text(f"{mac(2)}\n")
    with serving(place) as address:
        armed(place, root, address)
        with started(root) as process:
            assert process.stdout is not None
            assert ("400 refused: it comes from a machine with none of the hardware "
                    "addresses") in process.stdout.readline()
            process.send_signal(signal.SIGKILL)
    assert place.backend.state(node()).state is OsState.INSTALLING


@pytest.mark.parametrize("cut", ["settings.json", "wanted", "unit"])
def test_killed_while_it_removes_itself_the_token_went_first(place: Place, tmp_path: Path, cut: str) -> None:
    root = system(tmp_path / "root")
    with serving(place) as address:
        armed(place, root, address)
    order = [root / "etc/muster-firstboot/settings.json", root / agent.WANTED[1:], root / agent.UNIT[1:]]
    for path in order[:["settings.json", "wanted", "unit"].index(cut)]:
        path.unlink()
    agent.removed(str(root))
    assert (not [path for path in order if os.path.lexists(path)]
            and not (root / "etc/muster-firstboot").exists())
    wait_until(lambda: not (root / "etc/muster-firstboot").exists(), 1, "its end")


def test_it_is_python_3_8_and_the_standard_library_alone() -> None:
    tree = ast.parse(SOURCE.read_text(), feature_version=(3, 8))
    names = {alias.name.partition(".")[0] for part in ast.walk(tree) if isinstance(part, ast.Import)
             for alias in part.names}
    names |= {str(part.module).partition(".")[0]
              for part in ast.walk(tree) if isinstance(part, ast.ImportFrom)}
    assert names <= set(sys.stdlib_module_names) | {"__future__"}
