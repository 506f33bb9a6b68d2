"""The demo fleet is real: OpenSSH logs in to it, its nodes differ, and nothing of it outlives its owner."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from inventory.errors import MusterError
from inventory.load import load_inventory
from provisioning.demo import fleet as fleet_module
from provisioning.demo.fleet import DemoFleet, DemoNode
from tests.testbed.memory import base_in_memory

ROOT = Path(__file__).resolve().parents[3]
PLANTED = {
    "gpu001": (), "gpu002": (), "gpu003": ("refused",), "gpu004": ("silent",),
    "gpu005": ("host-key-changed",), "gpu006": ("host-key-unknown",), "gpu007": ("python-missing",),
    "gpu008": ("login-hangs",), "gpu009": ("link-flapping",)}
END_S = 20.0


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DemoFleet]:
    with DemoFleet(base=base_in_memory(tmp_path_factory.mktemp("base")), planted=PLANTED) as running:
        yield running


def ssh_command(fleet: DemoFleet, node: DemoNode, command: str) -> list[str]:
    return ["ssh", "-F", "none", "-i", str(fleet.folder / "id_ed25519"), "-o", "IdentitiesOnly=yes", "-o",
            "BatchMode=yes", "-o", f"UserKnownHostsFile={fleet.folder / 'known_hosts'}", "-o",
            "GlobalKnownHostsFile=none", "-o", "StrictHostKeyChecking=yes", "-o",
            "KexAlgorithms=curve25519-sha256", "-p", str(node.port), "127.0.0.1", command]


def ssh(fleet: DemoFleet, name: str, command: str) -> subprocess.CompletedProcess[str]:
    words = ssh_command(fleet, fleet.nodes[name], command)
    return subprocess.run(words, capture_output=True, text=True, timeout=30, check=False)


def ended(pidfd: int) -> bool:
    """Whether the process ends within the time granted; then the descriptor is readable."""
    return bool(select.select([pidfd], [], [], END_S)[0])


def test_openssh_logs_in_and_sees_the_nodes_own_files(fleet: DemoFleet) -> None:
    for name in ("gpu001", "gpu002"):
        done = ssh(fleet, name,
                   'cat "$MUSTER_ROOT/proc/sys/kernel/hostname" && command -v python3 && command -v docker')
        tree = fleet.nodes[name].tree
        assert done.stdout.splitlines() == [
            name, f"{tree}/usr/bin/python3", f"{tree}/usr/bin/docker"], done.stderr


def test_nodes_differ_in_what_identifies_them_and_in_nothing_that_is_compared(fleet: DemoFleet) -> None:
    one, two = (fleet.nodes[name].tree for name in ("gpu001", "gpu002"))
    for same in ("proc/sys/kernel/osrelease", "sys/module/nvidia/version", "proc/swaps"):
        assert (one / same).read_text() == (two / same).read_text()
    for own in ("proc/sys/kernel/random/boot_id", "sys/class/infiniband/mlx5_0/node_guid", ".muster/nvml"):
        assert (one / own).read_text() != (two / own).read_text()


def test_the_inventory_can_be_loaded_and_names_every_node_and_its_port(fleet: DemoFleet) -> None:
    inventory = load_inventory(fleet.inventory)
    assert {
        node.name: node.port for node in inventory} == {name: node.port for name, node in fleet.nodes.items()}
    assert {node.address for node in inventory} == {"127.0.0.1"}
    assert inventory.nodes["gpu001"].known_hosts_file == (str(fleet.folder / "known_hosts"),)


def test_a_refused_node_refuses_and_a_silent_one_accepts_and_says_nothing(fleet: DemoFleet) -> None:
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", fleet.nodes["gpu003"].port), timeout=5)
    with socket.create_connection(("127.0.0.1", fleet.nodes["gpu004"].port), timeout=5) as connection:
        connection.sendall(b"SSH-2.0-test\r\n")
        connection.settimeout(0.5)
        with pytest.raises(TimeoutError):
            connection.recv(1)


def test_openssh_itself_refuses_a_changed_and_an_unknown_host_key(fleet: DemoFleet) -> None:
    assert "IDENTIFICATION HAS CHANGED" in ssh(fleet, "gpu005", "true").stderr
    assert "No ED25519 host key is known" in ssh(fleet, "gpu006", "true").stderr


def test_a_node_without_python_says_so_in_the_shells_words(fleet: DemoFleet) -> None:
    done = ssh(fleet, "gpu007", "exec python3 -V")
    assert done.returncode == 127
    assert "python3: not found" in done.stderr


def test_a_login_that_hangs_lets_one_in_and_runs_nothing(fleet: DemoFleet) -> None:
    words = ssh_command(fleet, fleet.nodes["gpu008"], "echo ran")
    with subprocess.Popen(
        ["ssh", "-v", *words[1:]], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as client:
        assert client.stdout is not None and client.stderr is not None
        # The client's own word that the server took the command.
        assert any(b"Sending command" in line for line in client.stderr)
        assert not select.select([client.stdout], [], [], 1.0)[0]
        client.kill()


def test_as_time_passes_a_flapping_link_has_lost_its_link_more_often(fleet: DemoFleet) -> None:
    def counts() -> dict[str, list[int]]:
        pattern = "sys/class/infiniband/*/ports/1/counters/link_downed"
        return {
            name: [int(path.read_text()) for path in sorted(node.tree.glob(pattern))]
                for name, node in fleet.nodes.items()}

    before = counts()
    fleet.advance()
    after = counts()
    assert len(before["gpu009"]) == 8
    assert sum(after.pop("gpu009")) > sum(before.pop("gpu009"))
    assert after == before


def test_twenty_connections_at_once_are_all_greeted(fleet: DemoFleet) -> None:
    connections = [
        socket.create_connection(("127.0.0.1", fleet.nodes["gpu001"].port), timeout=20) for _ in range(20)]
    try:
        assert {connection.recv(8) for connection in connections} == {b"SSH-2.0-"}
    finally:
        for connection in connections:
            connection.close()


def test_it_listens_on_loopback_only(fleet: DemoFleet) -> None:
    listening = {}
    for line in [*Path("/proc/net/tcp").read_text().splitlines()[1:],
                 *Path("/proc/net/tcp6").read_text().splitlines()[1:]]:
        local, state = line.split()[1], line.split()[3]
        if state == "0A":
            address, port = local.split(":")
            listening.setdefault(int(port, 16), set()).add(address)
    for node in fleet.nodes.values():
        if node.name != "gpu003":
            assert listening[node.port] == {"0100007F"}


def test_the_user_key_and_the_folder_are_the_owners_alone(fleet: DemoFleet) -> None:
    assert fleet.folder.stat().st_mode & 0o077 == 0
    assert (fleet.folder / "id_ed25519").stat().st_mode & 0o777 == 0o600


# A process that owns a fleet, with a command on a node that has left its session and ignores every polite
# signal.
OWNER = """
import json, os, subprocess, sys
from pathlib import Path
from provisioning.demo.fleet import DemoFleet
from tests.provisioning.demo.test_fleet import ssh_command
stay = "import os, signal, time; [signal.signal(n, signal.SIG_IGN) for n in (1, 2, 15)]; " \\
    "pid = os.fork(); pid or (os.setsid(), os.dup2(2, 1), time.sleep(3600)); " \\
    "print(pid, flush=True); os._exit(0)"
with DemoFleet(base=Path(sys.argv[1]), planted={"gpu001": ()}) as fleet:
    command = ssh_command(fleet, fleet.nodes["gpu001"], f"python3 -I -S -c '{stay}'")
    # ssh would set our own standard input not to block, and what is read of it then ends at once.
    client = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    pid = int(client.stdout.readline())
    print(json.dumps({"folder": str(fleet.folder), "pids": [fleet._keeper.pid, pid]}), flush=True)
    if sys.argv[2] == "raise":
        sys.stdin.readline()
        raise ValueError("on purpose")
    if sys.argv[2] == "exit":
        sys.stdin.readline()
        os._exit(3)
    sys.stdin.read()
"""


@pytest.mark.parametrize("way", ["raise", "KILL", *(
    pytest.param(way, marks=pytest.mark.slow) for way in ("leave", "exit", "INT", "TERM"))])
def test_nothing_is_left_however_the_owner_ends(way: str, tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path), way], cwd=ROOT,
                          env={**os.environ, "PYTHONPATH": str(ROOT)}, bufsize=0, stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE) as owner:
        assert owner.stdin is not None and owner.stdout is not None and owner.stderr is not None
        line = owner.stdout.readline()
        assert line, owner.stderr.read().decode()
        said = json.loads(line)
        pidfds = [os.pidfd_open(pid) for pid in said["pids"]]
        assert Path(said["folder"]).is_dir()
        if way in ("leave", "raise", "exit"):
            owner.stdin.write(b"\n")
            owner.stdin.close()
        else:
            owner.send_signal(signal.Signals[f"SIG{way}"])
        try:
            assert all(ended(pidfd) for pidfd in pidfds)
        finally:
            for pidfd in pidfds:
                os.close(pidfd)
    assert list(tmp_path.iterdir()) == []


def test_a_fleet_can_be_closed_twice(tmp_path: Path) -> None:
    fleet = DemoFleet(base=tmp_path, planted={"gpu001": ("refused",)})
    with fleet:
        fleet.close()
    assert list(tmp_path.iterdir()) == []


def test_a_failed_start_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(KeyError), DemoFleet(base=tmp_path, planted={"gpu001": ("no-such-fault",)}):
        pass
    assert list(tmp_path.iterdir()) == []


def test_without_sshd_the_error_is_what_to_type(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fleet_module.shutil, "which", lambda name, path=None: None if name == "sshd" else shutil.which(name))
    with pytest.raises(MusterError, match=r"type: apt-get install -y openssh-server") as caught:
        fleet_module.find_sshd()
    assert "\n" not in str(caught.value)


def test_when_sshd_refuses_its_configuration_its_own_word_is_given(tmp_path: Path) -> None:
    (tmp_path / "sshd_config").write_text("Port none\n")
    with pytest.raises(MusterError, match="refuses the demo's configuration"):
        fleet_module._try_config(fleet_module.find_sshd(), tmp_path / "sshd_config")
