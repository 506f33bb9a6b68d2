"""`muster os`: what a person sees and types."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.config.rulesfolder import packaged
from inventory.load import load_inventory
from provisioning.osinstall.base import OsState
from provisioning.osinstall.pxe import phonehome, record
from provisioning.osinstall.pxe.backend import pxe_backend
from provisioning.osinstall.pxe.options import PxeOptions
from provisioning.osinstall.pxe.record import InstallationStage
from provisioning.osinstall.pxe.settings import load
from tests.command import muster, running
from tests.documents import validate
from tests.provisioning.osinstall.pxe.pxesite import fetched, mac, seed_path
from tests.provisioning.osinstall.pxe.pxesite import home as phone_home
from tests.provisioning.osinstall.pxe.test_settings import SITE
from tests.testbed.ports import free_port
from tests.testbed.sshd import wait_until


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/pxe.yaml").write_text(SITE)
    (tmp_path / "muster.yaml").write_text(
        "version: 1\nnodes:\n" + "".join(f"  gpu{at:03d}: {{boot_mac: {mac(at)}}}\n" for at in range(1, 4))
        + "  gpu004: {}\n  gpu005: {boot_mac: '52:54:00:00:00:05', lifecycle: retired}\n")
    return tmp_path


def arm(home: Path, *names: str) -> PxeOptions:
    options = load([packaged(), home / "site"])
    at = time.time()    # one moment for all, whatever second begins in between
    backend = replace(pxe_backend(options, home / "state"), clock=lambda: at)
    for name in names:
        backend.install(load_inventory(home / "muster.yaml").nodes[name])
    return options


def test_what_is_rendered_is_for_machines_with_a_boot_mac_and_says_who_is_left_out(home: Path) -> None:
    done = muster("os", "render", "--output", "out", "--rules", "site", home=home)
    assert (done.returncode, done.stderr) == (0, "")
    assert ("gpu004: left out: the inventory has no boot_mac for it" in done.stdout
            and "for 3 machines" in done.stdout)
    files = {str(path.relative_to(home / "out")) for path in (home / "out").rglob("*") if path.is_file()}
    assert {"dnsmasq.conf", "muster-dnsmasq.service", "muster-os-serve.service", "boot.ipxe",
            "machines/gpu001/preseed.cfg"} <= files
    unit = (home / "out/muster-os-serve.service").read_text()
    assert f"os serve --listen 10.1.0.1:9850 --rules {home}/site" in unit
    assert "gpu005" not in (home / "out/dnsmasq.conf").read_text()
    again = muster("os", "render", "gpu001", "--output", "out", "--rules", "site", home=home)
    assert "for 1 machine" in again.stdout and "gpu002" not in (home / "out/dnsmasq.conf").read_text()


@pytest.mark.parametrize(("words", "said"), [
    (("os", "render", "--output", "out"), "no pxe.yaml has the key server"),
    (("os", "render", "gpu004", "--output", "out", "--rules", "site"), "none of these nodes has a boot_mac"),
    (("os", "render", "--output", "muster.yaml", "--rules", "site"), "muster.yaml"),
    (("os", "serve", "--rules", "site", "--listen", "192.0.2.1:9"), "--listen 192.0.2.1:9"),
    (("os", "serve", "--rules", "site", "--tls-cert", "x"), "--tls-cert and --tls-key go together"),
])
def test_a_mistake_is_one_line_and_nothing_is_written(home: Path, words: tuple[str, ...], said: str) -> None:
    done = muster(*words, home=home)
    assert (done.returncode == 2 and said in done.stderr and done.stderr.startswith("muster: ")
            and done.stderr.count("\n") == 1), done
    assert not (home / "out").exists()


def test_status_says_how_far_each_is_as_a_table_and_as_a_document(home: Path) -> None:
    assert muster("os", "status", home=home).stdout == "no installations\n"
    arm(home, "gpu001", "gpu002")
    done = muster("os", "status", home=home)
    assert done.returncode == 0 and "gpu[001-002]: installing: armed" in done.stdout
    (home / "state/osinstall/gpu002.json").write_text("{")
    done = muster("os", "status", "--format", "json", home=home)
    found = json.loads(done.stdout)
    validate(found, "installations-1")
    assert (done.returncode == 3 and [one["node"] for one in found["nodes"]] == ["gpu001"]
            and found["unreadable"][0]["node"] == "gpu002")
    held = json.loads((home / "state/osinstall/gpu001.json").read_text())
    assert held["token"] not in done.stdout and held["ticket"] not in done.stdout


def test_disarm_ends_what_is_on_its_way_and_says_what_it_did(home: Path) -> None:
    arm(home, "gpu001")
    assert "would end its installation" in muster("os", "disarm", "gpu[001-002]", "--dry-run",
                                                  home=home).stdout
    assert "installing" in muster("os", "status", home=home).stdout
    done = muster("os", "disarm", "gpu[001-002]", home=home)
    assert (done.returncode,
            done.stdout) == (0, "gpu001: its installation is ended\ngpu002: no installation is on its way\n")
    assert "planned: installation 1 was ended by hand" in muster("os", "status", home=home).stdout


@pytest.mark.parametrize("ended", ["done", "failed"])
def test_a_machine_is_installed_again_only_when_that_is_typed(home: Path, ended: str) -> None:
    options = arm(home, "gpu001")
    backend = pxe_backend(options, home / "state")
    backend.records.change("gpu001", lambda old: old and (
        record.done(old, ("ssh-ed25519 AAAA",), "d", 1.0) if ended == "done"
        else record.failed(old, "no disk", 1.0)))
    before = muster("os", "status", home=home).stdout
    assert muster("os", "disarm", "gpu001", home=home).stdout == "gpu001: no installation is on its way\n"
    assert (muster("os", "status", home=home).stdout == before
            and ("muster bringup retry gpu001" in before) == (ended == "failed"))
    assert muster("os", "disarm", "gpu001", "--again",
                  home=home).stdout == "gpu001: its installation is ended\n"
    found = backend.state(load_inventory(home / "muster.yaml").nodes["gpu001"])
    assert found.state is OsState.PLANNED and found.host_keys == ()


def test_a_served_machine_is_installed_and_the_server_ends_well_on_a_signal(home: Path) -> None:
    port = free_port("127.0.0.1")
    log = home / "log"
    with log.open("w") as file:
        process = running("os", "serve", "--listen", f"127.0.0.1:{port}", "--rules", "site",
                          home=home, out=file, err=file)
    try:
        address = f"http://127.0.0.1:{port}"
        _up(address, process)
        arm(home, "gpu001")
        records = pxe_backend(load([packaged(), home / "site"]), home / "state").records
        held = records.read("gpu001")
        assert held is not None and f"/{held.ticket}/" in fetched(f"{address}/boot/{mac(1)}.ipxe")[1]
        for name in ("preseed.cfg", "firstboot", "written"):
            assert fetched(address + seed_path(held, name))[0] == 200
        body = phone_home(held)
        assert fetched(f"{address}/done/gpu001", body,
                       **{phonehome.HEADER: phonehome.signed(held.token, body)})[0] == 200
        done = records.read("gpu001")
        assert done is not None and done.stage is InstallationStage.DONE
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
    said = log.read_text()
    assert ("gpu001: is installed with debian-12" in said and held.token not in said
            and held.ticket not in said)
    shown = muster("os", "status", "--format", "json", home=home)
    assert json.loads(shown.stdout)["nodes"][0]["state"] == "installed"


def _up(address: str, process: subprocess.Popen[str]) -> None:
    def serves() -> bool:
        assert process.poll() is None
        try:
            fetched(f"{address}/boot.ipxe")
        except OSError:
            return False
        return True

    wait_until(serves, 30, "its server")
