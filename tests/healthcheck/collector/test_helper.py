"""The root-owned helper, through a real sudo as a throw-away user: what it gives, what it refuses, and every
way it may not run."""

from __future__ import annotations

import contextlib
import json
import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path

import pytest

from healthcheck.collector import helper, program, reply
from healthcheck.collector.onnode.helperchild import parse_reply
from healthcheck.model.probes import Probe, ProbeKind, ProbeSet
from healthcheck.model.recording import Outcome, Recording
from inventory.model import Privilege, Via
from inventory.transport.base import Limits
from inventory.transport.remote import RemoteTransport
from tests.testbed import fuse
from tests.testbed.collector import Running, running
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, sshd, wait_until
from tests.testbed.users import allow_sudo, throwaway_user

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.getuid() != 0, reason="needs root, to create a user and to write a sudoers file"),
]

UID = Probe("test.uid", ProbeKind.COMMAND, argv=("id", "-u"), root=True)
ENV = Probe("test.env", ProbeKind.COMMAND, argv=("env",), root=True)
SECRET = Probe("test.secret", ProbeKind.FILES, paths=("/etc/shadow",), root=True)
OWN = Probe("test.own", ProbeKind.COMMAND, argv=("id", "-u"))


class Site:
    """A user who may not do anything, and a folder for the helper that is root's."""

    def __init__(self, user: str, folder: Path) -> None:
        self.user = user
        self.uid = pwd.getpwnam(user).pw_uid
        self.path = folder / "muster-probe"

    def install(self, *probes: Probe, text: str = "", mode: int = 0o755, uid: int = 0) -> None:
        self.path.unlink(missing_ok=True)
        self.path.write_text(text or helper.program(probes))
        os.chown(self.path, uid, 0)
        self.path.chmod(mode)

    def allow(self, *rules: str) -> None:
        allow_sudo(self.user, *(rule.replace("HELPER", str(self.path)) for rule in rules))

    def allow_as_printed(self, *before: str) -> None:
        self.allow(*before, *helper.sudoers(self.user, str(self.path)).splitlines())

    def look(
        self, *probes: Probe, seconds: float = 20.0, root: Path | None = None, **env: str,
    ) -> AbstractContextManager[Running]:
        """The collector, started as the user as over SSH: with no terminal."""
        start = ("setsid", "setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups",
                 "--inh-caps=-all")
        return running(probes, root, seconds=seconds, before=start, after=("helper",), env=env)

    def see(self, *probes: Probe, seconds: float = 20.0, root: Path | None = None, **env: str) -> Recording:
        with self.look(*probes, seconds=seconds, root=root, **env) as started:
            return started.recording()


@pytest.fixture(scope="module")
def home() -> Iterator[Site]:
    require(shutil.which("sudo"), "no sudo on this machine: apt-get install -y sudo")
    require(shutil.which("setpriv"), "no setpriv on this machine: apt-get install -y util-linux")
    with throwaway_user() as user, tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Site(user, Path(folder))
        shutil.rmtree(f"/tmp/muster-{pwd.getpwnam(user).pw_uid}", ignore_errors=True)


@pytest.fixture
def site(home: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """The helper with the tests' probes, installed and allowed as `muster privilege` prints it."""
    monkeypatch.setenv("MUSTER_HELPER", str(home.path))
    home.install(UID, ENV, SECRET)
    home.allow_as_printed()
    yield home
    home.allow()


def denied(recording: Recording, probe: Probe = UID) -> str:
    """Why this probe was denied; everything else has been captured all the same."""
    assert recording.captures["test.own"].outcome is Outcome.DONE
    capture = recording.captures[probe.id]
    assert capture.outcome is Outcome.DENIED, capture
    assert "root" not in capture.text
    return capture.note


def processes(*words: str) -> list[int]:
    """Who runs with all these words on the command line."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if all(word.encode() in line for word in words):
                found.append(int(entry.name))
    return found


def test_what_needs_root_is_seen_as_root_and_the_rest_as_the_user(site: Site) -> None:
    seen = site.see(UID, SECRET, OWN)
    assert seen.captures["test.uid"].text == "0\n"
    assert seen.captures["test.own"].text == f"{site.uid}\n"
    assert "root:" in seen.captures["test.secret"].files["/etc/shadow"].text
    assert seen.host is not None and seen.host.uid == site.uid


@pytest.mark.skipif(SSHD is None, reason="no sshd")
@pytest.mark.parametrize("via", Via)
def test_over_ssh_one_payload_serves_nodes_of_every_privilege(
    site: Site, via: Via, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))    # no ssh_config of whoever runs this
    if via is Via.OPENSSH:
        require(shutil.which("ssh"), "no ssh on this machine: apt-get install -y openssh-client")
    with tempfile.TemporaryDirectory() as folder, sshd(Path(folder), user=site.user) as server:
        nodes = [server.node(privilege.value, transport=via, privilege=privilege)
                 for privilege in (Privilege.HELPER, Privilege.UNPRIVILEGED)]
        answers = RemoteTransport().run(nodes, program.build(ProbeSet((UID, OWN))), Limits(sweep_s=30))
        seen = {answer.node: reply.decode(answer).captures for answer in answers}
        execs = server.log.count("Starting session: command")
    assert {name: captures["test.uid"].text for name, captures in seen.items()} == {
        "helper": "0\n", "unprivileged": f"{site.uid}\n"}
    assert {captures["test.own"].text for captures in seen.values()} == {f"{site.uid}\n"}
    assert execs == 2


@pytest.mark.parametrize("defaults", [
    "Defaults:{} requiretty", "Defaults:{} lecture=always", "Defaults:{} use_pty",
    "Defaults:{} !env_reset, setenv", "Defaults:{} log_input, log_output, iolog_dir=/tmp/muster-iolog",
])
def test_what_a_sites_sudoers_say_for_all_commands_does_not_disturb_it(site: Site, defaults: str) -> None:
    site.allow_as_printed(defaults)
    assert site.see(UID, OWN).captures["test.uid"].text == "0\n"
    shutil.rmtree("/tmp/muster-iolog", ignore_errors=True)


@pytest.mark.parametrize(("rules", "words"), [
    (("{} ALL=(root) HELPER",), "password"),
    (("Defaults:{} lecture=always", "{} ALL=(root) HELPER"), "password"),
    (("Defaults:{} requiretty", "{} ALL=(root) NOPASSWD: HELPER"), "tty"),
    (("{} ALL=(root) NOPASSWD: /bin/true",), "password"),
    ((), "password"),
])
def test_where_sudo_refuses_the_rest_is_captured_and_sudos_own_words_say_why(
    site: Site, rules: tuple[str, ...], words: str,
) -> None:
    site.allow(*rules)
    assert words in denied(site.see(UID, OWN))


def test_a_helper_that_is_not_installed_is_denied_and_named(site: Site) -> None:
    site.path.unlink()
    assert denied(site.see(UID, OWN)) == f"the helper did not run: it is not installed at {site.path}"


@pytest.mark.parametrize("how", [{"mode": 0o777}, {"mode": 0o775}, {"uid": 1}])
def test_a_helper_that_others_may_write_to_is_not_run(site: Site, how: dict[str, int]) -> None:
    site.install(UID, **how)
    assert "not only root may write to" in denied(site.see(UID, OWN))
    asked = subprocess.run([str(site.path), "test.uid"], capture_output=True, check=False,
                           stdin=subprocess.DEVNULL)
    assert asked.returncode == 2 and asked.stdout == b"" and b"may write to" in asked.stderr


def test_a_folder_that_others_may_write_to_is_as_bad(site: Site) -> None:
    site.path.parent.chmod(0o777)
    try:
        assert "may write to" in denied(site.see(UID, OWN))
    finally:
        site.path.parent.chmod(0o755)


def test_a_helper_of_another_version_is_denied_where_it_differs_and_used_where_it_does_not(
    site: Site,
) -> None:
    site.install(replace(UID, argv=("id", "-un")), ENV)
    seen = site.see(UID, ENV, SECRET, OWN)
    for probe in (UID, SECRET):
        assert denied(seen, probe) == "the helper on the node is of another version: reinstall it"
    assert "PATH=" in seen.captures["test.env"].text


@pytest.mark.parametrize("words", [
    [], ["../x"], ["--help"], ["-h"], ["test.uid", "--"], ["test.uid\n"], ["test.uid\nid"],
    ["test.uid", "test.uid"], ["TEST.UID"], [""], ["a" * 64], [f"id.{n}" for n in range(10_000)],
    ["test.uid;id"], ["test uid"], ["$(id)"], ["test.\u00fcid"],
])
def test_arguments_that_are_no_ids_are_refused_before_anything_is_done(site: Site, words: list[str]) -> None:
    done = subprocess.run(["sudo", "-n", "--", str(site.path), *words], capture_output=True, check=False,
                          stdin=subprocess.DEVNULL)
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr.startswith(b"muster-probe: expected") and done.stderr.count(b"\n") == 1


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_caller_who_closed_the_first_three_descriptors_has_nothing_taken_for_them(
    site: Site, closed: tuple[int, ...],
) -> None:
    shut = " ".join(f"{fd}{'<' if fd == 0 else '>'}&-" for fd in closed)
    done = subprocess.run(["sh", "-c", f"exec {site.path} test.uid {shut}"], capture_output=True, check=False,
                          timeout=20, stdin=subprocess.DEVNULL)
    assert b"Traceback" not in done.stderr, done.stderr


def test_a_caller_who_never_reads_does_not_keep_it_for_ever(site: Site) -> None:
    site.install(text=helper.program([UID]).replace("'seconds': 45.0", "'seconds': 1.0").replace(
        "LAST = 5.0", "LAST = 1.0"))
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(writing, b"x" * 65536)
    os.set_blocking(writing, True)
    with subprocess.Popen([str(site.path), "test.uid"], stdin=subprocess.PIPE, stdout=writing) as process:
        try:
            assert process.wait(20) == 1
        finally:
            process.kill()
    os.close(reading)
    os.close(writing)


def test_it_serves_no_one_but_root(site: Site) -> None:
    line = ["setpriv", "--reuid", str(site.uid), "--clear-groups", str(site.path), "test.uid"]
    done = subprocess.run(line, capture_output=True, check=False, stdin=subprocess.DEVNULL)
    assert done.returncode == 2 and b"must run as root" in done.stderr


@pytest.fixture
def evil(site: Site) -> Iterator[Path]:
    """A folder that a caller would like us to take programs and modules from."""
    folder = site.path.parent / "evil"
    (folder / "json").mkdir(parents=True)
    (folder / "json/__init__.py").write_text("raise SystemExit(7)\n")
    for name in ("id", "env"):
        (folder / name).write_text("#!/bin/sh\necho evil\n")
        (folder / name).chmod(0o755)
    yield folder
    shutil.rmtree(folder)


def ask(site: Site, *ids: str, env: dict[str, str]) -> dict[str, dict[str, str]]:
    """What the helper answers when it is started straight away with this environment, as sudo might with the
    worst of sudoers."""
    with subprocess.Popen([str(site.path), *ids], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          env=env) as process:
        assert process.stdout is not None
        answer = parse_reply(process.stdout.read())
    return {name.partition(" ")[0]: capture for name, capture in answer.items()}


def test_nothing_in_the_callers_environment_reaches_it(site: Site, evil: Path) -> None:
    hostile = {"MUSTER_ROOT": str(evil), "PYTHONPATH": str(evil), "PYTHONSTARTUP": str(evil / "id"),
               "PATH": str(evil), "XDG_RUNTIME_DIR": str(evil), "PYTHONHOME": str(evil), "PYTHONINSPECT": "1",
               "BASH_ENV": str(evil / "id")}
    seen = ask(site, "test.uid", "test.env", "test.secret", env=hostile)
    assert seen["test.uid"]["text"] == "0\n"
    assert {line.partition("=")[0] for line in seen["test.env"]["text"].splitlines()} == {
        "PATH", "LC_ALL", "LANG"}
    assert str(evil) not in str(seen)
    assert "root:" in str(seen["test.secret"])


def test_a_sudoers_that_passes_the_environment_on_passes_nothing_to_it(site: Site, evil: Path) -> None:
    site.allow("Defaults:{} !env_reset, setenv, !secure_path", "{} ALL=(root) NOPASSWD:SETENV: HELPER")
    seen = site.see(UID, ENV, PATH=f"{evil}:/usr/bin:/bin", LD_PRELOAD=str(evil / "none.so"),
                    PYTHONPATH=str(evil))
    assert seen.captures["test.uid"].text == "0\n"
    assert str(evil) not in str(seen.captures["test.env"])


@pytest.fixture
def hanging(site: Site) -> Iterator[tuple[Probe, str]]:
    """A probe of root's that hangs with a child in a group of its own, and the word by which both are
    found."""
    word = f"{secrets.randbelow(10**6) + 10**6}"
    probe = Probe("test.hang", ProbeKind.COMMAND,
                  argv=("sh", "-c", f"timeout {word} sleep {word} & sleep {word}"), seconds=60.0, root=True)
    site.install(probe, UID)
    yield probe, word
    for pid in processes(word):
        os.kill(pid, signal.SIGKILL)


def test_what_hangs_in_the_helper_is_ended_at_its_limit_and_costs_one_probe(
    site: Site, hanging: tuple[Probe, str],
) -> None:
    short = replace(hanging[0], seconds=1.0)
    site.install(short, UID)
    seen = site.see(short, UID, OWN)
    assert seen.captures["test.hang"].outcome is Outcome.TIMEOUT
    assert seen.captures["test.uid"].text == "0\n"
    assert not processes(hanging[1])


@pytest.mark.parametrize("end", [lambda run: run.hang_up(), lambda run: run.process.kill(),
                                 lambda run: run.process.terminate()], ids=["hang up", "kill", "terminate"])
def test_when_no_one_waits_any_more_the_helper_and_its_children_end(
    site: Site, hanging: tuple[Probe, str], end: Callable[[Running], None],
) -> None:
    probe, word = hanging
    with site.look(probe, OWN, seconds=60.0) as started:
        wait_until(lambda: len(processes(word)) == 3, what="the hanging probe")
        end(started)
        wait_until(lambda: not processes(word) and not processes(str(site.path)),
                   what="the end of the helper")


@pytest.mark.usefixtures("needs_fuse")
def test_a_reader_that_cannot_be_killed_does_not_keep_the_helper_alive(
    site: Site, hanging: tuple[Probe, str],
) -> None:
    probe, word = hanging
    point = site.path.parent / "hung"
    point.mkdir(exist_ok=True)
    stuck = Probe("test.stuck", ProbeKind.FILES, paths=(f"{point}/file",), seconds=60.0, each_s=60.0)
    with fuse.hung(point) as swallowed, site.look(probe, stuck, seconds=60.0) as started:
        assert swallowed.wait(10)
        wait_until(lambda: len(processes(word)) == 3, what="the hanging probe")
        started.process.kill()
        wait_until(lambda: not processes(word), what="the end of the helper")


def test_a_helper_past_the_end_of_the_look_is_a_timeout_and_ends(
    site: Site, hanging: tuple[Probe, str],
) -> None:
    probe, word = hanging
    seen = site.see(probe, OWN, seconds=2.0)
    assert seen.captures["test.hang"].outcome is Outcome.TIMEOUT
    assert "the helper did not answer within" in seen.captures["test.hang"].note
    assert seen.captures["test.own"].outcome is Outcome.DONE
    wait_until(lambda: not processes(word), what="the end of the helper")


def test_while_an_earlier_looks_sudo_is_stuck_no_other_is_started(site: Site) -> None:
    folder = Path(f"/tmp/muster-{site.uid}")
    folder.mkdir(mode=0o700, exist_ok=True)
    with subprocess.Popen(["sleep", "1000"]) as stuck:      # root's, so that the user cannot kill it
        start = int(Path(f"/proc/{stuck.pid}/stat").read_text().rpartition(")")[2].split()[19])
        record = folder / f"child-{stuck.pid}"
        record.write_text(json.dumps(["the helper", start, time.time() - 60, -60.0]))
        for path in (folder, record):
            os.chown(path, site.uid, site.uid)
        try:
            seen = site.see(UID, OWN).captures
        finally:
            stuck.kill()
    assert (seen["test.uid"].outcome, seen["test.own"].outcome) == (Outcome.WEDGED, Outcome.DONE)
    assert seen["test.uid"].note.startswith("the helper is wedged since")
    assert site.see(UID, OWN).captures["test.uid"].text == "0\n"


@pytest.fixture
def sudo(site: Site) -> Iterator[Callable[[str], str]]:
    """Call it with a script to have a sudo of that kind; returns the PATH to find it by."""
    folder = site.path.parent / "bin"
    folder.mkdir()

    def make(script: str) -> str:
        (folder / "sudo").write_text(f"#!/bin/sh\n{script}\n")
        (folder / "sudo").chmod(0o755)
        return f"{folder}:/usr/bin:/bin"

    yield make
    shutil.rmtree(folder)


def test_a_sudo_that_hangs_is_a_timeout_within_the_look(site: Site, sudo: Callable[[str], str]) -> None:
    path = sudo("trap '' TERM HUP INT; sleep 1000")
    seen = site.see(UID, OWN, seconds=2.0, PATH=path).captures
    assert (seen["test.uid"].outcome, seen["test.own"].outcome) == (Outcome.TIMEOUT, Outcome.DONE)
    assert "sudo did not start the helper within" in seen["test.uid"].note


def test_sudo_could_read_no_password_if_it_tried(site: Site, sudo: Callable[[str], str]) -> None:
    heard = site.path.parent / "heard"
    heard.touch()
    heard.chmod(0o666)
    seen = site.see(UID, OWN, seconds=1.0, PATH=sudo(f"read -r line; echo \"<$line>\" > {heard}"))
    assert seen.captures["test.uid"].outcome is Outcome.TIMEOUT
    wait_until(lambda: heard.read_text() == "<>\n", what="the end of what it could read")


def test_sudo_is_reported_to_ask_for_nothing_and_given_the_ids_alone(
    site: Site, sudo: Callable[[str], str],
) -> None:
    path = sudo("echo \"$#: $*\" >&2; exit 1")
    assert denied(site.see(UID, SECRET, OWN,
                           PATH=path)) == f"the helper did not run: 5: -n -- {site.path} test.uid test.secret"


@pytest.mark.parametrize("script", [
    "echo muster:helper:runs; echo muster:helper:frame 3 00; echo abc", "yes", "echo hello",
    "printf 'muster:helper:runs\\nx'", "printf 'muster:helper:runs\\nmuster:helper:frame 0 "
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855\\n'",
])
def test_an_answer_that_is_none_is_a_value(site: Site, sudo: Callable[[str], str], script: str) -> None:
    seen = site.see(UID, OWN, PATH=sudo(script)).captures
    assert (seen["test.uid"].outcome, seen["test.own"].outcome) == (Outcome.CRASHED, Outcome.DONE)
    assert ("wrote more than allowed" if script == "yes" else "reply cannot be read") in seen["test.uid"].note
    assert seen["test.uid"].seconds < 8
