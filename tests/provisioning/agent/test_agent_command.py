"""`muster agent`, as a user types it, against a real sshd."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.command import muster
from tests.testbed.ports import free_port
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, Sshd, sshd
from tests.testbed.users import allow_sudo, throwaway_user


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    """One where a user without rights logs in."""
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    if os.geteuid():
        with sshd(tmp_path_factory.mktemp("sshd")) as found:
            yield found
        return
    # Not under pytest's folder, which only root may enter.
    with throwaway_user() as name, tempfile.TemporaryDirectory() as folder, sshd(
        Path(folder), user=name) as found:
        yield found


@pytest.fixture
def home(tmp_path: Path, server: Sshd) -> Path:
    (tmp_path / "muster.yaml").write_text(
        "version: 1\n"
        f"defaults: {{user: {server.user}, sku: cpu-only, python: /usr/bin/python3, address: 127.0.0.1, "
        f"identity_file: {server.user_key}, known_hosts_file: {server.known_hosts}}}\n"
        "nodes:\n"
        f"  gpu001: {{port: {server.port}}}\n"
        f"  gpu002: {{port: {free_port()}}}\n")
    return tmp_path


def test_where_we_are_not_root_each_node_says_what_to_do_and_the_exit_code_is_1(home: Path) -> None:
    done = muster("agent", "install", "gpu[001-002]", home=home, code=1)
    first, second = sorted(done.stdout.splitlines())
    assert (first == ("gpu001: NOT done: this needs root here: log in as root, or go through sudo with "
                      "--become or `privilege: become` in the inventory"))
    assert second.startswith("gpu002: NOT done: connect: ")


def test_with_become_it_goes_through_sudo(home: Path) -> None:
    done = muster("agent", "uninstall", "gpu001", "--become", home=home, code=1)
    assert done.stdout.startswith("gpu001: NOT done: become: ")


def test_with_become_and_a_sudo_that_allows_it_we_are_root(home: Path, server: Sshd) -> None:
    require(os.geteuid() == 0 and shutil.which("sudo"),
            "only root can allow a user to use sudo, and sudo must be installed")
    allow_sudo(server.user, "{} ALL=(root) NOPASSWD: ALL")
    done = muster("agent", "uninstall", "gpu001", "--become", "--dry-run", home=home, code=0)
    assert done.stdout.startswith(("gpu001: nothing to do", "gpu001: would remove"))


def test_anybody_may_ask_for_the_status(home: Path) -> None:
    done = muster("agent", "status", "--json", home=home, code=1)
    first, second = json.loads(done.stdout)["nodes"]
    assert (first["node"], first["answered"], first["trouble"]) == ("gpu001", True, "no agent is installed")
    assert (second["node"], second["answered"]) == ("gpu002", False)
    assert muster("agent", "status", "gpu002", home=home).returncode == 3


@pytest.mark.parametrize(("words", "report"), [
    (("install",), "Missing argument 'NODES'"),
    (("install", "gpu009"), "has no node gpu009"),
    (("install", "gpu001", "--sku", "abacus"), "--sku abacus: no such SKU"),
    (("install", "gpu001", "--period", "1s"), "out of bounds, expected 10s to 1d"),
    (("install", "gpu001", "--profile", "tea"), "tea"),
    (("upgrade", "gpu001", "--rings", "1,2"),
     "--rings '1,2': the last ring must be `rest`, as in 1,10%,rest"),
    (("upgrade", "gpu001", "--rings", "none,rest"), "'none' is no ring"),
])
def test_a_mistake_is_one_line_before_any_node_is_asked(
    words: tuple[str, ...], report: str, home: Path,
) -> None:
    done = muster("agent", *words, home=home, code=2)
    assert report in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("words", [
    pytest.param(("--dry-run",), marks=pytest.mark.slow), ("--rings", "1,rest")])
def test_an_upgrade_names_the_nodes_where_it_cannot_be_and_begins_no_ring(words: tuple[str, ...],
                                                                          home: Path) -> None:
    done = muster("agent", "upgrade", "gpu[001-002]", *words, home=home, code=1)
    first, second = sorted(done.stdout.splitlines())
    assert first.startswith("gpu001: NOT done: ") and second.startswith("gpu002: NOT done: connect: ")
    assert "ring" not in done.stdout and "begins" not in done.stderr


def test_done_is_reported_as_a_document_too(home: Path) -> None:
    done = muster("agent", "rollback", "gpu001", "--json", home=home)
    document = json.loads(done.stdout)
    assert (document["schema"], document["do"], document["nodes"][0]["ok"]) == (
        "muster.agent-done/1", "rollback", False)
