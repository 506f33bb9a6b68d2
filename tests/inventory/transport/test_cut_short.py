"""A try that the end of a node's time or of the sweep cuts short hides no reason that was found before, and
blames no machine of which nothing is known."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.sshconfig import SshConfig
from inventory.sshtarget import target_for
from inventory.transport.base import HANGS, Stage
from inventory.transport.openssh import OpenSshSweep
from inventory.transport.scan import scan
from tests.inventory.transport.sweeps import LIMITS, refusal
from tests.inventory.transport.test_hops import alongside, kill, runs, waiting
from tests.inventory.transport.test_slow_nodes import at
from tests.inventory.transport.ways import Way, ways
from tests.testbed.planted import executable
from tests.testbed.relay import Relay, relay
from tests.testbed.sshd import Sshd, hangs_up, listener, public, silent, sshd, wait_until

way = ways("paramiko", "openssh kept", slow=("paramiko kept", "openssh"))
kept = ways("paramiko kept", "openssh kept")


@contextmanager
def staged(port: int, *serves: Callable[[socket.socket], None]) -> Iterator[int]:
    """A port whose connections are served one after the other by these, and then by what is at `port`."""
    passed, left = Relay(port), list(serves)

    def take(near: socket.socket) -> None:
        (left.pop(0) if left else passed.serve)(near)

    with listener(take) as found:
        yield found


def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pauses between tries of 0.1, 0.2, 0.4, 0.8, 1.6 and then 2 s."""
    monkeypatch.setattr("inventory.transport.retry.random.uniform", lambda *_: 1.0)


@pytest.mark.parametrize("hangs_at", [
    Stage.LOGIN, pytest.param(Stage.AUTH, marks=[pytest.mark.root, pytest.mark.skipif(
        os.getuid() != 0, reason="needs root: sshd takes keys of a command from root's alone")])])
def test_a_login_that_the_end_cuts_short_does_not_hide_that_the_node_dropped_us_for_longer(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hangs_at: Stage,
) -> None:
    steady(monkeypatch)
    config = ("ForceCommand exec sleep 20" if hangs_at is Stage.LOGIN else
              "AuthorizedKeysFile none\nAuthorizedKeysCommandUser root\n"
              "AuthorizedKeysCommand /bin/sh -c \"sleep 20\"")
    # The sixth try, after 3.1 s, is let in.
    with sshd(tmp_path / "d", config=config) as server, staged(server.port, *[hangs_up] * 5) as port:
        reply = way.one(at(server, port), node_s=5, twice=False)
    assert "before its banner" in refusal(reply, Stage.CONNECT)
    assert reply.failure is not None and reply.failure.stuck not in HANGS


def test_the_sweeps_end_does_not_hide_it_either(
    way: Way, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    steady(monkeypatch)
    with (sshd(tmp_path / "d", config="ForceCommand exec sleep 20") as server,
          staged(server.port, *[hangs_up] * 5) as port):
        reason = refusal(way.one(at(server, port), sweep_s=5), Stage.DEADLINE)
    assert reason.startswith("the sweep's 5 s were over while: ")
    assert "before its banner" in reason


@pytest.mark.parametrize("name", ["paramiko", "paramiko kept"])
def test_a_login_after_a_lost_jump_host_that_the_end_cuts_short_leaves_the_jump_host_to_blame(
    plain_sshd: Sshd, tmp_path: Path, name: str,
) -> None:
    hang = tmp_path / "hang"
    shell = executable(tmp_path / "shell", f"#!/bin/sh\n[ -e {hang} ] && exec sleep 20\n"
                                           'eval "$SSH_ORIGINAL_COMMAND"\n')
    way = Way(name, tmp_path)

    def after_most_of_the_time() -> None:
        wait_until(lambda: runs(tmp_path) == 1, what="the program")
        time.sleep(6)
        hang.touch()
        kill(hop, listener=False)

    with (sshd(tmp_path / "hop") as hop, sshd(tmp_path / "d", config=f"ForceCommand {shell}") as server,
          way.opened(hop.entry()) as transport):
        node = server.node(proxy_jump="bastion")
        if name.endswith("kept"):
            (tmp_path / "go").touch()
            (first,) = transport.run([node], waiting(tmp_path), LIMITS)
            assert first.body == b"well", first.failure
            (tmp_path / "go").unlink()
            for mark in tmp_path.glob("run.*"):
                mark.unlink()
        # With the jump host's 9 s the node has 11.
        found = alongside(transport.run([node], waiting(tmp_path), replace(
            LIMITS, connect_s=3, auth_s=3, node_s=2, program_s=30, twice=False)), after_most_of_the_time)
    assert "bastion: the connection was lost while the node was at work" in refusal(found["n1"], Stage.JUMP)


@pytest.mark.parametrize("name", ["openssh", "openssh kept"])
def test_a_sweep_that_ends_before_a_silent_hop_is_looked_at_blames_no_node(
    plain_sshd: Sshd, tmp_path: Path, name: str,
) -> None:
    with listener(silent) as port, sshd(tmp_path / "one") as one:
        config = f"Host mute\n HostName 127.0.0.1\n Port {port}\n" + one.entry("one")
        reply = Way(name, tmp_path).one(plain_sshd.node(proxy_jump="one,mute"), config=config, sweep_s=3,
                                        connect_s=10)
    assert refusal(reply, Stage.JUMP).startswith("the jump hosts one, mute did not connect us to ")


@pytest.mark.parametrize("name", ["openssh", "openssh kept"])
def test_a_look_at_a_silent_hop_that_the_sweeps_end_cuts_short_blames_no_node(
    plain_sshd: Sshd, tmp_path: Path, name: str,
) -> None:
    with listener(silent) as port:
        config = f"Host mute\n HostName 127.0.0.1\n Port {port}\n"
        # The look begins after 2 s, and may take 22.
        reply = Way(name, tmp_path).one(plain_sshd.node(proxy_jump="mute"), config=config, sweep_s=3,
                                        connect_s=2, auth_s=20)
    assert "mute" in refusal(reply, Stage.JUMP)


@pytest.mark.parametrize("name", ["openssh", "openssh kept"])
def test_a_hop_that_hangs_after_it_lost_a_program_that_changes_a_node_gives_it_no_second_run(
    plain_sshd: Sshd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str,
) -> None:
    real = OpenSshSweep.again

    def again(sweep: OpenSshSweep) -> None:
        kill(hop, 18)       # SIGCONT: a second try would get through
        real(sweep)

    def when_it_runs() -> None:
        wait_until(lambda: runs(tmp_path) == 1, what="the program")
        os.kill(hop.process.pid, 19)    # SIGSTOP: who connects waits
        kill(hop, listener=False)

    monkeypatch.setattr(OpenSshSweep, "again", again)
    with sshd(tmp_path / "hop") as hop:
        try:
            with Way(name, tmp_path).opened(hop.entry()) as transport:
                found = alongside(transport.run(
                    [plain_sshd.node(proxy_jump="bastion")], waiting(tmp_path, repeatable=False),
                    replace(LIMITS, connect_s=2, auth_s=2)), when_it_runs)
        finally:
            os.kill(hop.process.pid, 18)
    assert "bastion" in refusal(found["n1"], Stage.JUMP)
    assert found["n1"].failure is not None and found["n1"].failure.stuck is None
    assert (found["n1"].first, runs(tmp_path)) == (None, 1)


def test_a_kept_connection_that_fell_silent_is_no_shell_that_hangs(kept: Way, tmp_path: Path) -> None:
    with sshd(tmp_path / "d") as server, relay(server.port) as between, kept.opened() as transport:
        server.known_hosts.write_text(f"[127.0.0.1]:{between.port} {public(server.host_keys['ed25519'])}\n")
        node = server.node(port=between.port)
        (tmp_path / "go").touch()
        (first,) = transport.run([node], waiting(tmp_path), LIMITS)
        assert first.body == b"well", first.failure
        between.freeze()
        (reply,) = transport.run([node], waiting(tmp_path), replace(LIMITS, sweep_s=1.5))
    assert "has opened no session within" in refusal(reply, Stage.DEADLINE)
    assert reply.failure is not None and reply.failure.stuck is Stage.CONNECT


def test_what_kept_back_one_key_of_a_host_is_not_said_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    steady(monkeypatch)
    with (sshd(tmp_path / "d", host_key_types=("ed25519", "ecdsa")) as server,
          staged(server.port, hangs_up, Relay(server.port).serve, silent) as port):
        node = server.node(port=port)
        config = SshConfig.parse("")
        (found,) = scan([node], {"n1": target_for(node, config)}, config,
                        replace(LIMITS, node_s=3, twice=False))
    assert found.failure is not None
    assert "then sent nothing" in found.failure.reason, found.failure
