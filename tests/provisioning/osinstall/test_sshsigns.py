"""Looks over real SSH servers at machines being installed and installed: words and host keys."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.model import StageLimits
from inventory.sshconfig import SshConfig
from inventory.transport.ssh import SshTransport
from provisioning.osinstall.base import OsReport, OsState
from provisioning.osinstall.evidence import MarkerFile, WantedSigns
from provisioning.osinstall.sshsigns import SshSigns
from tests.testbed.sshd import hangs_after_banner, listener, make_key, public, silent
from tests.testbed.systems import (
    FIRST_BOOT,
    INSTALLED,
    STARTING,
    STATELESS,
    STRANGER,
    SUBIQUITY,
    Place,
    System,
    place,
)

NO_CONFIG = SshConfig.parse("")


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Place]:
    with place(tmp_path / "machine") as made:
        yield made


def looked(machine: Place, wanted: WantedSigns = WantedSigns()) -> OsReport:  # noqa: B008  (frozen)
    look = SshSigns(lambda: SshTransport(NO_CONFIG), wanted, NO_CONFIG)
    before = machine.known.read_text() if machine.known.exists() else None
    report = look.state(machine.node())
    assert (machine.known.read_text() if machine.known.exists() else None) == before
    return report


def lines(machine: Place, name: str) -> set[str]:
    return {public(key) for key in machine.started[name].host_keys.values()}


def test_nothing_that_answers_is_nothing_installed(machine: Place) -> None:
    report = looked(machine)
    assert report.state is OsState.PLANNED
    assert "refused" in report.message


def test_where_the_way_there_fails_nothing_is_known_of_the_machine(machine: Place) -> None:
    look = SshSigns(lambda: SshTransport(NO_CONFIG), WantedSigns(), NO_CONFIG)
    for node in (replace(machine.node(), proxy_jump="bastion.invalid"),
                 replace(machine.node(), address="gone.invalid")):
        report = look.state(node)
        assert (report.state, report.answered) == (OsState.UNKNOWN, False), report


def test_an_installed_system_is_proven_with_all_host_keys_of_its_server(machine: Place) -> None:
    machine.start("system", INSTALLED, "ed25519", "rsa", "ecdsa")
    report = looked(machine)
    assert report.state is OsState.INSTALLED, report
    assert set(report.host_keys) == lines(machine, "system")
    assert report.image == "Ubuntu 24.04.1 LTS"


def test_one_whose_key_is_pinned_is_proven_by_that_connection_and_brings_no_new_key(machine: Place) -> None:
    server = machine.start("system", INSTALLED)
    machine.known.write_text(server.known_hosts.read_text())
    report = looked(machine)
    assert (report.state, report.host_keys) == (OsState.INSTALLED, ())


def test_one_whose_pinned_key_is_another_is_proven_with_the_key_that_it_shows(machine: Place,
                                                                              tmp_path: Path) -> None:
    server = machine.start("system", INSTALLED)
    machine.known.write_text(f"{server.known_name} {public(make_key(tmp_path / 'old'))}\n")
    assert set(looked(machine).host_keys) == lines(machine, "system")


@pytest.mark.parametrize(("system", "said"), [
    (SUBIQUITY, "subiquity"), (STARTING, "starting"), (FIRST_BOOT, "modules-final"),
    (System(cmdline="inst.ks=http://x rd.live.image\n"), "inst.ks=http://x"),
    (System(processes=("/usr/bin/python3 /usr/sbin/anaconda --kickstart x",)), "anaconda"),
    (System(processes=("/bin/sh /sbin/debian-installer",)), "debian-installer")])
def test_an_installer_or_a_system_that_starts_is_waited_for_and_its_host_key_does_not_come_back(
    machine: Place, system: System, said: str,
) -> None:
    machine.start("installer", system)
    report = looked(machine)
    assert report.state is OsState.INSTALLING, report
    assert said in report.message
    assert report.host_keys == ()


def test_an_installer_that_does_not_know_our_user_is_not_told_from_a_system_without_our_key(
        machine: Place) -> None:
    machine.start("installer", STRANGER)
    report = looked(machine)
    assert (report.state, report.host_keys) == (OsState.UNKNOWN, ())
    assert "may be an installer's" in report.message
    assert "authorized_keys" in report.advice


def test_a_stateless_system_is_proven_by_its_marker_alone(machine: Place) -> None:
    machine.start("image", STATELESS)
    assert looked(machine).state is OsState.UNKNOWN
    report = looked(machine, WantedSigns(MarkerFile("/etc/site-image", "r7")))
    assert report.state is OsState.INSTALLED
    assert set(report.host_keys) == lines(machine, "image")
    assert looked(machine, WantedSigns(MarkerFile("/etc/site-image", "r8"))).state is OsState.UNKNOWN


def test_a_marker_is_read_and_never_waited_for(machine: Place) -> None:
    server = machine.start("image", STATELESS)
    path = server.folder / "tree/etc/fifo"
    os.mkfifo(path)
    assert "FIFO" in looked(machine, WantedSigns(MarkerFile("/etc/fifo"))).message


def test_a_server_that_says_its_line_and_no_more_is_not_taken_for_an_empty_machine(machine: Place) -> None:
    with listener(hangs_after_banner) as port:
        look = SshSigns(lambda: SshTransport(NO_CONFIG), WantedSigns(), NO_CONFIG)
        report = look.state(replace(machine.node(), port=port, limits=StageLimits(connect=0.5)))
    assert report.state is OsState.UNKNOWN
    with listener(silent) as port:
        assert look.state(replace(machine.node(), port=port)).state is OsState.PLANNED
