"""What an agent says and leaves where its state disk is full, read-only or gone: real file systems, the real
program."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from healthcheck.agent.exporting import board_of
from healthcheck.agent.keep import StateFolder, Unkept, note, unkept
from healthcheck.agent.main import Installed, main
from healthcheck.config import agentnote
from healthcheck.gate.onnode import main as gate
from healthcheck.model import agentfault
from healthcheck.model.probes import ProbeSet
from healthcheck.model.recording import Capture, FileCapture, Host, Outcome, Recording
from healthcheck.sweep.agents import PATH, PROBE, Agents
from inventory.model import Node
from inventory.transport.base import Limits, Stage
from inventory.transport.local import LocalTransport
from provisioning.agent.bundle import Bundle
from provisioning.agent.install import AgentAction, AgentRequest, act
from provisioning.agent.status import status
from tests.healthcheck.agent import world as worlds
from tests.healthcheck.agent.test_agent_run import HERE
from tests.healthcheck.agent.world import World, world
from tests.healthcheck.certify.world import head
from tests.testbed.require import require, require_fleet

NOTE = agentfault.NOTE


@pytest.fixture(scope="module")
def made() -> Bundle:
    require_fleet()
    require(os.geteuid() == 0 and shutil.which("mount"), "needs root, and mount(8) of util-linux")
    return worlds.bundle()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, made: Bundle, earlier: World) -> World:
    """A node that has run well once, with what that left in `good`; its tree is the same for all tests, and
    its state is not."""
    folder = tmp_path_factory.mktemp("node")
    node = world(folder, made, Node(HERE, sku="hgx-h100")).compiled(earlier)
    assert node.run().returncode in (0, 1, 3)
    shutil.move(node.state, folder / "good")
    return node


def good(node: World) -> None:
    """Its state as the first run left it."""
    shutil.copytree(node.at.parent / "good", node.state)


@pytest.fixture
def disk(shared: World) -> Iterator[Callable[..., Path]]:
    """Mounts a tmpfs on the parent of the state folder, or another, and what lies there goes again."""
    parent = shared.state.parent
    shutil.rmtree(parent, ignore_errors=True)
    parent.mkdir(parents=True)
    mounted = []

    def mount(options: str, at: Path = parent) -> Path:
        at.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(at)], check=False,
                              capture_output=True, text=True)
        require(done.returncode == 0, f"no tmpfs can be mounted here: {done.stderr}")
        mounted.append(at)
        return at

    yield mount
    for each in reversed(mounted):
        subprocess.run(["umount", "-l", str(each)], check=False, capture_output=True)
    (shared.tree / NOTE[1:]).unlink(missing_ok=True)


def fill(at: Path) -> None:
    """Until not a byte is left."""
    with (at / "filler").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 65536)
        except OSError:
            pass
    with (at / "filler2").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x")
        except OSError:
            pass


def fault(node: World, place: str = "state") -> str:
    return agentnote.read(str(node.tree) + NOTE).get(place, "")


def kept(node: World) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in node.state.iterdir() if path.is_file()
            and path.name != "lock"}


def full(node: World, mount: Callable[..., Path]) -> None:
    at = mount("size=8m")
    good(node)
    fill(at)


def no_inodes(node: World, mount: Callable[..., Path]) -> None:
    at = mount("size=64m,nr_inodes=20")
    good(node)
    for number in range(20):
        try:
            (at / f"empty{number}").touch()
        except OSError:
            return


def read_only(node: World, mount: Callable[..., Path]) -> None:
    at = mount("size=64m")
    good(node)
    subprocess.run(["mount", "-o", "remount,ro", str(at)], check=True)


def of_another(node: World, mount: Callable[..., Path]) -> None:
    at = mount("size=64m")
    good(node)
    os.chown(at / node.state.name, 65534, 65534)


@pytest.mark.parametrize(("broken", "option", "code", "words"), [
    (full, "--textfile", 2, "No space left on device; see: df -h "),
    (no_inodes, "--nagios", 3, "No space left on device: no inode is free; see: df -i "),
    (read_only, "--slurm", 0, "Read-only file system; see: findmnt -T "),
    pytest.param(of_another, "--textfile", 2, " must belong to the current user", marks=pytest.mark.slow),
])
def test_a_state_disk_that_takes_nothing_is_named_by_the_agent_its_note_and_its_exporter(
    shared: World, disk: Callable[..., Path], tmp_path: Path,
    broken: Callable[[World, Callable[..., Path]], None], option: str, code: int, words: str,
) -> None:
    node = shared
    broken(node, disk)
    before = kept(node)
    done = node.run(option, *([str(tmp_path)] if option == "--textfile" else []))
    # The line is unknown for the disk, unless something failed.
    assert done.returncode == code or (option == "--nagios" and done.returncode in (1, 2))
    said = done.stdout if option == "--nagios" else done.stderr
    assert said.count("\n") == 1 and words in said and str(node.state) in said
    assert "install the agent again" not in done.stdout + done.stderr
    # It was measured and judged all the same, and what was there is whole.
    assert done.stdout.count("\n") == 1 and kept(node) == before
    assert not [path for path in node.state.rglob("*") if path.name.endswith(".new")]
    assert words in fault(node)
    if option == "--textfile":
        text = (tmp_path / "muster.prom").read_text()
        assert f'muster_agent_writable{{node="{HERE}",place="state"}} 0.0\n' in text
        assert "muster_gpu_info{" in text
    board = board_of(node.state, node.at, [0])
    board.refresh()
    assert f'muster_agent_writable{{node="{HERE}",place="state"}} 0' in board.text()


def test_a_state_folder_that_was_unmounted_is_made_again_and_the_report_ends(
    shared: World, disk: Callable[..., Path], tmp_path: Path,
) -> None:
    at = disk("size=64m")
    good(shared)
    note = shared.tree / NOTE[1:]
    note.write_bytes(NOTED)
    subprocess.run(["umount", str(at)], check=True)
    assert not shared.state.exists() and fault(shared)
    assert shared.run("--textfile", str(tmp_path)).returncode in (0, 1, 3)
    assert shared.result["state"] and not note.exists()
    assert 'place="state"} 1.0\n' in (tmp_path / "muster.prom").read_text()


def test_text_files_that_cannot_be_written_stay_whole_and_are_noted_and_served_until_they_can(
    shared: World, disk: Callable[..., Path], tmp_path: Path,
) -> None:
    good(shared)
    earlier = shared.result["time"]
    texts = disk("size=1m", tmp_path / "texts")
    (texts / "muster.prom").write_text("old\n")
    fill(texts)
    done = shared.run("--textfile", str(texts))
    said = f"{texts}/muster.prom cannot be written: No space left on device; see: df -h "
    assert done.returncode == 2 and said in done.stderr and said in fault(shared, "textfile")
    assert not fault(shared) and shared.result["time"] > earlier
    assert (texts / "muster.prom").read_text() == "old\n"
    board = board_of(shared.state, shared.at, [0])
    board.refresh()
    assert f'muster_agent_writable{{node="{HERE}",place="textfile"}} 0' in board.text()
    assert f'muster_agent_writable{{node="{HERE}",place="state"}} 1' in board.text()
    for filler in texts.iterdir():
        filler.unlink()
    assert shared.run("--textfile", str(texts)).returncode in (0, 1, 3)
    board.refresh()
    assert not fault(shared, "textfile") and 'place="textfile"' not in board.text()


def test_a_gates_snapshot_that_cannot_be_kept_is_noted_and_the_gate_tells_it(
    shared: World, disk: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    good(shared)
    made, share = head(tmp_path / "head"), tmp_path / "share"
    share.mkdir()
    made.publish(HERE, now=time.time(), shared=(share,))
    config, folder = shared.tree / "etc/muster", shared.state.parent / "gate"
    config.mkdir(parents=True, exist_ok=True)
    (config / "gate.from").write_text(f"{share}\n")
    (config / "gate.pub").write_bytes(made.trusted())
    words = ["--slurm-prolog", "--folder", str(folder), "--keys", str(config / "gate.pub")]
    monkeypatch.setattr(agentfault, "NOTE", str(shared.tree) + NOTE)
    try:
        assert shared.run().returncode in (0, 1, 3)
        gate(words)
        assert "note:" not in capsys.readouterr().out
        made.publish(HERE, now=time.time() + 1, shared=(share,))
        held = disk("size=64k", folder)
        fill(held)
        done = shared.run()
        assert done.returncode in (0, 1, 3) and f"{folder}" in done.stderr
        assert "No space left on device; see: df -h " in done.stderr
        gate(words)
        assert (f"muster gate: note: this node's agent could not keep the newest snapshot: {folder}"
                in capsys.readouterr().out)
    finally:
        shutil.rmtree(config)


def a_file(state: Path) -> None:
    state.write_text("")


def a_link_to_nothing(state: Path) -> None:
    state.symlink_to("/nowhere/at/all")


def below_a_file(state: Path) -> None:
    state.parent.rmdir()
    state.parent.write_text("")


@pytest.mark.parametrize(("broken", "words"), [
    (a_file, "it is not a folder; see: namei -l"),
    (a_link_to_nothing, "a link that leads nowhere; see: namei -l"),
    (below_a_file, "Not a directory; see: namei -l"),
])
def test_a_state_folder_that_is_none_is_named(
    tmp_path: Path, broken: Callable[[Path], None], words: str,
) -> None:
    path = tmp_path / "state/agent"
    path.parent.mkdir()
    broken(path)
    folder = StateFolder(path)
    assert words in str(folder.fault) and str(path) in str(folder.fault) and folder.result() is None
    with pytest.raises(Unkept):
        folder.put("x", b"")


def test_a_state_folder_removed_during_the_run_is_named_and_nothing_is_made_of_it(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path / "agent")
    shutil.rmtree(tmp_path / "agent")
    with pytest.raises(Unkept, match="No such file or directory; see: namei -l"):
        folder.put("result.json", b"{}")
    assert not (tmp_path / "agent").exists()


@pytest.mark.parametrize("unsafe", ["a link", "open to all"])
def test_nothing_is_noted_in_a_run_folder_that_is_not_ours_alone(tmp_path: Path, unsafe: str) -> None:
    target = tmp_path / "elsewhere"
    target.mkdir(0o700)
    (tmp_path / "run").mkdir()
    run = tmp_path / "run/muster"
    if unsafe == "a link":
        run.symlink_to(target)
    else:
        run.mkdir()
        run.chmod(0o777)
    note(str(run / "agent-fault.json"), NOTED)
    assert not list(target.iterdir()) and not list(run.iterdir())


def test_an_installation_that_cannot_be_read_is_no_reason_to_install_it_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "rules.json").mkdir()
    mask, handler = os.umask(0o022), signal.getsignal(signal.SIGALRM)
    try:
        assert main(["run", "--state", str(tmp_path / "state")], lambda _: Installed(
            json.loads((tmp_path / "rules.json").read_bytes()), {}, b"", b"")) == 2
    finally:
        os.umask(mask)
        signal.signal(signal.SIGALRM, handler)
    said = capsys.readouterr().err
    assert (f"{tmp_path}/rules.json cannot be read: Is a directory; see: namei -l "
            f"{tmp_path}/rules.json") in said
    assert "again" not in said


@pytest.mark.parametrize(("name", "command"), [
    ("ENOSPC", "df -h"), ("EDQUOT", "quota -v"), ("EROFS", "findmnt -T"), ("ENOENT", "namei -l"),
    ("EACCES", "namei -l"), ("EIO", "journalctl -k"), ("ENOTDIR", "namei -l"), ("ESTALE", "findmnt -T"),
])
def test_each_reason_has_its_words_and_its_next_command(tmp_path: Path, name: str, command: str) -> None:
    number = getattr(errno, name)
    text = str(unkept(tmp_path / "a b" / "result.json", OSError(number, os.strerror(number))))
    assert f"/a b/result.json cannot be written: {os.strerror(number)}; see: {command}" in text
    assert command != "namei -l" or text.endswith(f"'{tmp_path}/a b/result.json'")


NOTED = agentfault.encode({"state": "/var/lib/muster/agent/x cannot be written: \x1b[2J; see: df -h /"}, 1.0)


def test_status_shows_what_a_node_noted(tmp_path: Path) -> None:
    (tmp_path / "run/muster").mkdir(parents=True)
    (tmp_path / NOTE[1:]).write_bytes(NOTED)
    base = tmp_path / "opt/muster"
    (base / "0123456789ab").mkdir(parents=True)
    (base / "current").symlink_to("0123456789ab")
    node = Node("gpu001", python="/usr/bin/python3")
    (done,) = act([node], LocalTransport(), AgentRequest(AgentAction.STATUS, root=str(tmp_path)), Limits())
    shown = status(done)
    assert "/var/lib/muster/agent/x cannot be written: \\x1b[2J; see: df -h /" in shown.trouble


@pytest.mark.parametrize("outcome", [Outcome.DONE, Outcome.MISSING])
def test_check_names_the_agents_disk_where_it_finds_no_recording_that_is_good(outcome: Outcome) -> None:
    host = Host("gpu001", "boot-1", 1_800_000_000.0, 0, "3.11.2", "x86_64", 0.1)
    files = {PATH: FileCapture(outcome, "cut"), agentfault.NOTE: FileCapture(Outcome.DONE, NOTED.decode())}
    reply = Recording("gpu001", host.time, host, None, {PROBE.id: Capture(Outcome.DONE, files=files)})
    recording, _ = Agents().snapshots(reply, ProbeSet.of([], 15.0))
    assert recording.failure is not None and recording.failure.stage is Stage.AGENT
    assert recording.failure.reason.startswith("/var/lib/muster/agent/x cannot be written: \\x1b[2J; see: df")


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"schema": "x", "state": "y"}', NOTED[:-9],
                                  json.dumps({"schema": agentfault.SCHEMA, "state": 7}).encode()])
def test_what_is_no_note_says_nothing(data: bytes) -> None:
    assert agentfault.decode(data) == {}
