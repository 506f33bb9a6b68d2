"""What only the system's ssh can do, how it is configured, and the connections that it keeps."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from inventory.model import Node
from inventory.transport import openssh_config
from inventory.transport.base import Limits, Stage
from inventory.transport.openssh import OpensshTransport
from inventory.transport.openssh_config import Configs, version
from inventory.transport.openssh_masters import MOST_MASTERS, Masters
from inventory.transport.remote import RemoteTransport
from inventory.transport.watch import TaskFailed
from tests.inventory.transport.speaker import gone, speaker, waits
from tests.inventory.transport.sweeps import LIMITS, refusal
from tests.inventory.transport.test_both import our_ssh
from tests.inventory.transport.ways import Way
from tests.testbed.planted import executable, private
from tests.testbed.processes import alive
from tests.testbed.sshd import Sshd, make_key, sshd, wait_until


@pytest.fixture
def way(tmp_path: Path) -> Way:
    return Way("openssh", tmp_path)


def effective(path: str, host: str = "n1", *options: str) -> dict[str, str]:
    """What ssh makes of a configuration, by keyword in lower case."""
    out = subprocess.run(["ssh", "-G", "-F", path, *options, "--", host], capture_output=True, text=True,
                         check=True).stdout
    return dict(line.split(" ", 1) for line in out.splitlines() if " " in line)


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    return private(tmp_path / "user", "")


def configs(*files: Path) -> Configs:
    return Configs(files, version("ssh"), Limits())


# the configuration

def test_what_must_hold_holds_whatever_the_user_says(user_file: Path) -> None:
    user_file.write_text(
        "StrictHostKeyChecking no\nBatchMode no\nForwardAgent yes\nForwardX11 yes\nPermitLocalCommand "
        "yes\nLocalCommand false\n"
        "RequestTTY force\nUpdateHostKeys yes\nControlMaster auto\nTunnel yes\nRemoteCommand "
        "false\nLocalForward 9 localhost:9\n"
        "SessionType none\nStdinNull yes\nForkAfterAuthentication yes\n")
    with closing(configs(user_file)) as ours:
        found = effective(ours.path())
    assert found["stricthostkeychecking"] in ("yes", "true")
    assert (found["batchmode"], found["forwardagent"], found["forwardx11"], found["permitlocalcommand"]) == (
        "yes", "no", "no", "no")
    assert (found["requesttty"], found["controlmaster"], found["tunnel"]) == ("false", "false", "false")
    assert found["updatehostkeys"] in ("no", "false")
    assert found.get("remotecommand", "none") == "none"
    assert found.get("sessiontype", "default") == "default"
    assert found.get("stdinnull", "no") == found.get("forkafterauthentication", "no") == "no"
    assert "localforward" not in found or found["clearallforwardings"] == "yes"


def test_the_cheap_key_exchange_comes_first_unless_the_user_says_otherwise(user_file: Path) -> None:
    with closing(configs(user_file)) as ours:
        assert effective(ours.path())["kexalgorithms"].startswith("curve25519-sha256,")
    user_file.write_text("Host n1\n KexAlgorithms ecdh-sha2-nistp384\n ConnectTimeout 3\n")
    with closing(configs(user_file)) as ours:
        assert effective(ours.path())["kexalgorithms"] == "ecdh-sha2-nistp384"
        assert effective(ours.path())["connecttimeout"] == "3"
        assert effective(ours.path(), "n2")["kexalgorithms"].startswith("curve25519-sha256,")


def test_a_relative_include_of_the_machines_file_is_read_from_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = tmp_path / "etc"
    (folder / "ssh_config.d").mkdir(parents=True)
    system = folder / "ssh_config"
    system.write_text("Host n1\n Include ssh_config.d/*.conf\nHost *\n User late\n")
    (folder / "ssh_config.d" / "a.conf").write_text("Port 77\nInclude deeper\n")
    (folder / "deeper").write_text("User deep\n")
    monkeypatch.setattr(openssh_config, "SYSTEM_CONFIG", system)
    with closing(configs(system)) as ours:
        found, other = effective(ours.path()), effective(ours.path(), "n2")
    assert (found["port"], found["user"]) == ("77", "deep")
    assert (other["port"], other["user"]) == ("22", "late")


@pytest.mark.parametrize("name", ["with space", "with[brackets]*", 'with"quote'])
def test_a_file_with_an_odd_name_is_read_all_the_same(tmp_path: Path, name: str) -> None:
    path = private(tmp_path / name, "User odd\n")
    with closing(configs(path)) as ours:
        assert effective(ours.path())["user"] == "odd"


def test_a_missing_file_is_no_error() -> None:
    with closing(configs(Path("/nonexistent/config"))) as ours:
        effective(ours.path())


def test_our_configuration_is_private_and_gone_with_the_sweep(user_file: Path) -> None:
    ours = configs(user_file)
    path = Path(ours.path())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert not Path(str(path.readlink()).removesuffix(" (deleted)")).exists()
    ours.close()
    assert not path.exists() or ours.path() != str(path)


def test_a_configuration_that_others_can_write_to_is_refused_in_sshs_words(
    plain_sshd: Sshd, tmp_path: Path,
) -> None:
    path = tmp_path / "config"
    path.write_text("Host *\n User root\n")
    path.chmod(0o666)
    with closing(OpensshTransport([path])) as transport:
        (reply,) = transport.run([plain_sshd.node()], speaker(), LIMITS)
    assert f"Bad owner or permissions on {path}" in refusal(reply, Stage.RESOLVE)


def test_a_broken_configuration_is_said_with_file_and_line(
    plain_sshd: Sshd, way: Way, tmp_path: Path,
) -> None:
    reason = refusal(way.one(plain_sshd.node(), config="Host *\n Prot 22\n"), Stage.RESOLVE)
    assert f"{tmp_path}/ssh_config" in reason
    assert "line 2" in reason


def test_a_known_hosts_file_that_cannot_be_written_in_a_configuration_is_refused(
    plain_sshd: Sshd, way: Way,
) -> None:
    assert "file name" in refusal(way.one(plain_sshd.node(known_hosts_file=('/a"b',))), Stage.RESOLVE)


def test_a_key_file_that_is_missing_or_damaged_is_named(plain_sshd: Sshd, way: Way, tmp_path: Path) -> None:
    assert "/none/key: No such file" in refusal(way.one(plain_sshd.node(identity_file=("/none/key",))),
                                                Stage.AUTH)
    damaged = private(tmp_path / "damaged", "not a key\n")
    assert f"{damaged}: " in refusal(way.one(plain_sshd.node(identity_file=(str(damaged),))), Stage.AUTH)


def test_files_with_spaces_and_percent_signs_are_found(plain_sshd: Sshd, way: Way, tmp_path: Path) -> None:
    folder = tmp_path / "a b %h"
    folder.mkdir()
    known, key = folder / "known", folder / "key"
    known.write_bytes(plain_sshd.known_hosts.read_bytes())
    key.write_bytes(plain_sshd.user_key.read_bytes())
    key.chmod(0o600)
    assert way.one(plain_sshd.node(known_hosts_file=("/none", str(known)),
                                   identity_file=(str(key),))).body == b"well"


def test_without_ssh_the_reason_names_the_package(
    plain_sshd: Sshd, way: Way, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "apt-get install openssh-client" in refusal(way.one(plain_sshd.node()), Stage.HEAD)


def test_the_inventory_chooses_the_client(
    plain_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    from inventory.model import Via

    monkeypatch.setenv("HOME", str(tmp_path))
    transport = RemoteTransport()
    nodes = [plain_sshd.node("a"), plain_sshd.node("b", transport=Via.OPENSSH)]
    before = len(plain_sshd.log.splitlines())
    assert [reply.body for reply in transport.run(nodes, speaker(), LIMITS)] == [b"well"] * 2
    transport.close()
    assert len(plain_sshd.log.splitlines()) > before


# what only ssh can do

def test_a_proxy_command_leads_to_the_node(plain_sshd: Sshd, way: Way) -> None:
    bridge = ("python3 -c \"import socket,sys,threading,os; "
              f"s=socket.create_connection(('127.0.0.1',{plain_sshd.port}));"
              f"t=threading.Thread(target=lambda:[s.sendall(d) for d in "
              f"iter(lambda:os.read(0,65536),b'')]);t.daemon=True;t.start();"
              "[os.write(1,d) for d in iter(lambda:s.recv(65536),b'')]\"")
    assert way.one(plain_sshd.node(), config=f"Host *\n ProxyCommand {bridge}\n").body == b"well"


def test_a_proxy_command_that_fails_is_stage_connect_in_its_own_words_and_not_tried_again(
    plain_sshd: Sshd, way: Way,
) -> None:
    reply = way.one(plain_sshd.node(),
                    config="Host *\n ProxyCommand sh -c 'echo the tunnel is closed >&2; exit 1'\n")
    assert "ProxyCommand" in refusal(reply, Stage.CONNECT)
    assert "the tunnel is closed" in refusal(reply, Stage.CONNECT)
    assert reply.attempts == 1


def test_a_proxy_command_that_ends_without_a_word_is_tried_again_and_named(
    plain_sshd: Sshd, way: Way,
) -> None:
    reply = way.one(plain_sshd.node(), config="Host *\n ProxyCommand true\n", node_s=4)
    assert "the ProxyCommand, hung up without a message" in refusal(reply, Stage.CONNECT)
    assert reply.attempts > 1


@pytest.mark.parametrize("auth_s", [
    pytest.param(0.0, id="by us"), pytest.param(20.0, id="by ssh's own ConnectTimeout, which is sooner")])
def test_a_proxy_command_that_hangs_is_ended_with_its_children(
    plain_sshd: Sshd, way: Way, tmp_path: Path, auth_s: float,
) -> None:
    note = tmp_path / "pid"
    reply = way.one(plain_sshd.node(), config=f"Host *\n ProxyCommand sleep 600 & echo $! >{note}; wait\n",
                    connect_s=1, auth_s=auth_s, twice=False)
    assert "ProxyCommand" in refusal(reply, Stage.CONNECT)
    wait_until(lambda: not alive(int(note.read_text())), what="the end of the proxy's child")


def test_match_exec_is_run_as_by_hand(plain_sshd: Sshd, way: Way, tmp_path: Path) -> None:
    config = f"Match host 127.0.0.1 exec \"touch {tmp_path}/asked\"\n Port {plain_sshd.port}\n"
    assert way.one(plain_sshd.node(port=None), config=config).body == b"well"
    assert (tmp_path / "asked").exists()


def test_a_match_exec_that_hangs_is_stage_resolve_within_its_limit(plain_sshd: Sshd, way: Way) -> None:
    began = time.monotonic()
    reason = refusal(way.one(plain_sshd.node(), config="Match exec \"sleep 60\"\n User x\n", connect_s=1),
                     Stage.RESOLVE)
    assert time.monotonic() - began < 12
    assert "Match exec" in reason
    wait_until(lambda: not our_ssh(), what="the end of ssh")


def test_the_users_key_file_named_by_the_configuration_logs_in(plain_sshd: Sshd, way: Way) -> None:
    config = plain_sshd.entry("gpu1", " RemoteCommand false\n LocalForward 1 localhost:1\n")
    assert way.one(Node("gpu1"), config=config).body == b"well"


def test_a_connection_that_the_user_keeps_is_not_taken_for_the_node(
    plain_sshd: Sshd, way: Way, tmp_path: Path,
) -> None:
    with socket.socket(socket.AF_UNIX) as mute:
        mute.bind(str(tmp_path / "cm"))
        mute.listen()
        assert way.one(plain_sshd.node(),
                       config=f"Host *\n ControlMaster auto\n ControlPath {tmp_path}/cm\n").body == b"well"


def test_an_encrypted_key_asks_no_one(tmp_path: Path, way: Way, monkeypatch: pytest.MonkeyPatch) -> None:
    ask = executable(tmp_path / "ask", f"#!/bin/sh\ntouch {tmp_path}/asked\necho secret\n")
    monkeypatch.setenv("SSH_ASKPASS", str(ask))
    monkeypatch.setenv("SSH_ASKPASS_REQUIRE", "force")
    monkeypatch.setenv("DISPLAY", ":0")
    with sshd(tmp_path / "d", user_key=make_key(tmp_path / "key", "ed25519", "secret")) as server:
        refusal(way.one(server.node()), Stage.AUTH)
    assert not (tmp_path / "asked").exists()


# connections that are kept

@pytest.fixture
def keeping(user_file: Path) -> Iterator[OpensshTransport]:
    with closing(OpensshTransport([user_file], keep=20.0)) as transport:
        yield transport


def masters(transport: OpensshTransport) -> list[int]:
    """The processes of the connections that a transport keeps."""
    folder = transport._masters._folder  # type: ignore[union-attr]
    found = []
    for each in Path("/proc").iterdir():
        if each.name.isdigit():
            try:
                command = (each / "cmdline").read_bytes()
            except OSError:
                continue
            if (folder is not None and command.startswith(b"ssh: ") and folder.encode() in command
                and alive(int(each.name))):
                found.append(int(each.name))
    return found


def bodies(
    transport: OpensshTransport, nodes: list[Node], source: str = "answer(b'well')",
) -> list[bytes | None]:
    return [reply.body for reply in transport.run(nodes, speaker(source), LIMITS)]


@pytest.mark.parametrize("how", [pytest.param(signal.SIGKILL, marks=pytest.mark.slow), signal.SIGSTOP])
def test_a_kept_connection_that_is_dead_or_hangs_costs_the_node_no_answer(
        plain_sshd: Sshd, keeping: OpensshTransport, how: signal.Signals) -> None:
    assert bodies(keeping, [plain_sshd.node()]) == [b"well"]
    (pid,) = masters(keeping)
    os.kill(pid, how)
    try:
        assert bodies(keeping, [plain_sshd.node()]) == [b"well"]
        assert bodies(keeping, [plain_sshd.node()]) == [b"well"]
    finally:
        if how is signal.SIGSTOP:
            os.kill(pid, signal.SIGKILL)


def test_a_node_that_runs_out_of_time_begins_anew_the_next_time(
    plain_sshd: Sshd, keeping: OpensshTransport, tmp_path: Path,
) -> None:
    assert bodies(keeping, [plain_sshd.node()]) == [b"well"]
    (pid,) = masters(keeping)
    note = tmp_path / "pid"
    (reply,) = keeping.run([plain_sshd.node()], speaker(waits(note)), Limits(program_s=2))
    refusal(reply, Stage.DEADLINE)
    gone(note)
    wait_until(lambda: not alive(pid), what="the end of the connection")
    assert bodies(keeping, [plain_sshd.node()]) == [b"well"]


def test_a_program_that_fails_on_a_kept_connection_is_reported_from_a_connection_that_is_lost(
        plain_sshd: Sshd, keeping: OpensshTransport, tmp_path: Path) -> None:
    assert bodies(keeping, [plain_sshd.node()]) == [b"well"]
    (reply,) = keeping.run([plain_sshd.node()], speaker("raise KeyError('lost')"), LIMITS)
    assert "KeyError: 'lost'" in refusal(reply, Stage.REPLY)
    (reply,) = keeping.run([plain_sshd.node()], speaker("sys.exit(255)"), LIMITS)
    assert "without an answer (exit 255)" in refusal(reply, Stage.REPLY)
    (reply,) = keeping.run([plain_sshd.node(python="nope")], speaker(), LIMITS)
    refusal(reply, Stage.PYTHON)
    # What failed on a kept connection ends it, in the background; the next good answer leaves one behind,
    # and no more.
    assert bodies(keeping, [plain_sshd.node()]) == [b"well"]
    wait_until(lambda: len(masters(keeping)) == 1, what="the sight of the one connection that is kept")


def test_kept_connections_end_by_themselves_when_no_one_comes_again(
    plain_sshd: Sshd, user_file: Path,
) -> None:
    transport = OpensshTransport([user_file], keep=0.0)
    transport._masters.seconds = 4  # type: ignore[union-attr]
    assert bodies(transport, [plain_sshd.node()]) == [b"well"]
    (pid,) = masters(transport)
    wait_until(lambda: not alive(pid), what="the end of the connection")
    transport.close()


def test_a_folder_of_sockets_that_somebody_tidied_away_costs_no_answer(
    plain_sshd: Sshd, keeping: OpensshTransport,
) -> None:
    node = plain_sshd.node()
    assert keeping._masters is not None
    for _ in range(2):
        (reply,) = keeping.run([node], speaker(), LIMITS)
        assert reply.body == b"well", reply.failure
        assert keeping._masters._folder is not None
        (socket_,) = Path(keeping._masters._folder).iterdir()
        subprocess.run(["ssh", "-S", str(socket_), "-O", "exit", "x"], stderr=subprocess.DEVNULL, check=True)
        wait_until(lambda path=socket_: not path.exists(),
                   what="the end of the connection")  # type: ignore[misc]
        shutil.rmtree(keeping._masters._folder)
    (reply,) = keeping.run([node], speaker(), LIMITS)
    assert reply.body == b"well", reply.failure
    folder = Path(str(keeping._masters._folder))
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    keeping.close()
    assert not folder.exists()


def test_the_number_of_kept_connections_is_bounded_and_their_names_are_short() -> None:
    held = Masters(60.0)
    paths = []
    for number in range(MOST_MASTERS + 1):
        paths.append(held.path(["n", str(number), "/proc/1/fd/3"]))
        if (made := paths[-1]) is not None:
            Path(made).touch()      # as if a connection were kept
    assert paths[-1] is None
    assert len(set(paths)) == MOST_MASTERS + 1
    assert all(len(path) + 17 < 108 for path in paths if path is not None)
    assert held.path(["n", "0", "/proc/2/fd/9"]) == paths[0]
    held.drop(str(paths[0]))
    assert held.path(["n", "0", "/proc/1/fd/3"]) not in paths[:-1]
    wait_until(lambda: not Path(str(paths[0])).exists(), what="the end of the connection that was dropped")
    assert 120 < held.seconds < 180
    Path(str(paths[1])).unlink()    # the end of one makes room for another
    assert held.path(["n", "another"]) is not None
    shutil.rmtree(Path(str(paths[2])).parent)


def test_a_quoted_path_refuses_what_ssh_could_read_otherwise() -> None:
    assert openssh_config.quoted("/a b%") == '"/a b%%"'
    for path in ('/a"b', "/a\nb", "/a\\b"):
        with pytest.raises(TaskFailed):
            openssh_config.quoted(path)
