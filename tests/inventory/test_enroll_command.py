"""`muster inventory enroll` against real servers: ssh gets in where it pins, and ssh-keygen agrees."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paramiko
import pytest

from inventory.hostkeys import fingerprint
from tests.command import MUSTER, environment, muster, unread
from tests.testbed.ports import free_port
from tests.testbed.require import require
from tests.testbed.sshd import (
    SSHD,
    Sshd,
    hangs_up,
    hashed,
    listener,
    make_key,
    public,
    silent,
    sshd,
    wait_until,
)

TYPES = ("ed25519", "ecdsa", "rsa")
_PIPE = ("import os,socket,sys,threading as t;s=socket.create_connection(sys.argv[1:3]);"
         "t.Thread(target=lambda:[s.sendall(b) for b in "
         "iter(lambda:os.read(0,65536),bytes())],daemon=True).start();[os.write(1,b) for b in "
         "iter(lambda:s.recv(65536),bytes())]")
Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sshd]:
    """One with a key of every type."""
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    with sshd(tmp_path_factory.mktemp("server"), host_key_types=TYPES) as found:
        yield found


class Place:
    """A home folder with an inventory in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.known_hosts = home / ".ssh" / "muster_known_hosts"
        self.of_ssh = home / ".ssh" / "known_hosts"
        self.known_hosts.parent.mkdir(mode=0o700)
        self.config("Host *\n HashKnownHosts no\n")

    def config(self, text: str) -> None:
        (self.home / ".ssh" / "config").write_text(text)

    def inventory(self, *servers: Sshd, **more: object) -> None:
        lines = [f"  n{number}: {json.dumps({'address': '127.0.0.1', 'port': each.port, **more})}"
                 for number, each in enumerate(servers, 1)]
        (self.home / "muster.yaml").write_text("\n".join(["version: 1", "nodes:", *lines, ""]))

    def enroll(self, *words: str, code: int | None = None) -> Done:
        return muster("inventory", "enroll", *words, home=self.home, code=code)

    def answered(self, answer: str, *words: str) -> Done:
        """The command at a terminal where somebody types `answer`."""
        ours, theirs = pty.openpty()
        try:
            os.write(ours, f"{answer}\n".encode())
            return subprocess.run([str(MUSTER), "inventory", "enroll", *words], cwd=self.home,
                                  env=environment(self.home), text=True, capture_output=True, timeout=60,
                                  check=False, stdin=theirs)
        finally:
            os.close(ours)
            os.close(theirs)

    def ssh(self, server: Sshd, *options: str, file: Path | None = None) -> int:
        """How the real client ends, with nothing but our known_hosts to go by."""
        return subprocess.run(
            ["ssh", "-F", "none", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o",
             f"UserKnownHostsFile={file or self.known_hosts}", "-o", "GlobalKnownHostsFile=none",
             *options, "-i",
             str(server.user_key), "-p", str(server.port), f"{server.user}@127.0.0.1",
             "true"], capture_output=True, check=False, timeout=30).returncode

    def found(self, server: Sshd, file: Path | None = None) -> int:
        """How many keys ssh-keygen finds."""
        done = subprocess.run(["ssh-keygen", "-F", server.known_name, "-f", str(file or self.known_hosts)],
                              capture_output=True, text=True, check=False)
        return sum(not line.startswith("#") for line in done.stdout.splitlines())


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def document(done: Done) -> dict[str, Any]:
    """The JSON that was printed, its nodes by name."""
    whole: dict[str, Any] = json.loads(done.stdout)
    return {**whole, "nodes": {each["node"]: each for each in whole["nodes"]}}


def key_of(server: Sshd, type_: str = "ed25519") -> paramiko.PKey:
    return paramiko.PKey.from_path(server.host_keys[type_])


def test_every_type_of_key_is_pinned_so_that_ssh_logs_in_by_each_and_no_one_logged_in_for_it(
    place: Place, server: Sshd,
) -> None:
    place.inventory(server)
    logins = server.log.count("Accepted")
    done = place.enroll("n1", "--yes", code=0)
    assert "pinned" in done.stdout
    assert "Trusted on first use" in done.stdout
    assert server.log.count("Accepted") == logins
    assert place.found(server) == 3
    for algorithm in ("ssh-ed25519", "ecdsa-sha2-nistp256", "rsa-sha2-512"):
        assert place.ssh(server, "-o", f"HostKeyAlgorithms={algorithm}") == 0
    for type_ in TYPES:
        printed = subprocess.run(["ssh-keygen", "-lf", f"{server.host_keys[type_]}.pub"], capture_output=True,
                                 text=True, check=True).stdout
        assert printed.split()[1] in done.stdout
    before = place.known_hosts.read_bytes()
    again = place.enroll("n1", code=0)
    assert again.stdout.split() == ["known", "1", "n1"]
    assert place.known_hosts.read_bytes() == before


def test_without_anybody_to_ask_nothing_is_written_and_the_nodes_are_named(
    place: Place, server: Sshd,
) -> None:
    place.inventory(server)
    done = place.enroll("n1", code=2)
    assert "n1" in done.stderr
    assert "--expect" in done.stderr
    assert fingerprint(key_of(server).asbytes()) in done.stdout
    assert not place.known_hosts.exists()


@pytest.mark.parametrize(("answer", "code"), [
    ("yes", 0), ("y", 1), *(pytest.param(answer, 1, marks=pytest.mark.slow) for answer in ("no", ""))])
def test_at_a_terminal_only_the_word_yes_pins(place: Place, server: Sshd, answer: str, code: int) -> None:
    place.inventory(server)
    done = place.answered(answer, "n1")
    assert done.returncode == code
    assert fingerprint(key_of(server).asbytes()) in done.stderr
    assert ("pinned" if code == 0 else "declined") in done.stdout
    assert place.known_hosts.exists() == (code == 0)


def test_a_dry_run_says_what_it_would_do_and_writes_nothing(place: Place, server: Sshd) -> None:
    place.inventory(server)
    done = place.enroll("n1", "--dry-run", code=0)
    assert done.stdout.startswith("to pin")
    assert not place.known_hosts.exists()


@pytest.mark.parametrize("why", ["the file", "ssh_config"])
def test_names_are_hashed_in_a_named_file_of_ssh_where_it_or_ssh_config_does_so(
    place: Place, server: Sshd, why: str,
) -> None:
    place.inventory(server)
    old = f"{hashed('other')} {public(server.host_keys['rsa'])}\n"
    if why == "the file":
        place.of_ssh.write_text(old)
    else:
        place.config("Host *\n HashKnownHosts yes\n")
    assert place.enroll("n1", "--yes", "--known-hosts", str(place.of_ssh)).returncode == 0
    assert "127.0.0.1" not in place.of_ssh.read_text()
    assert place.of_ssh.read_text().startswith(old if why == "the file" else "|1|")
    assert place.found(server, place.of_ssh) == 3
    assert place.ssh(server, file=place.of_ssh) == 0
    assert place.enroll("n1").stdout.split()[0] == "known"
    assert not place.known_hosts.exists()


def test_in_musters_own_file_names_stand_plainly_whatever_ssh_config_and_the_file_do(
    place: Place, server: Sshd,
) -> None:
    place.inventory(server)
    place.config("Host *\n HashKnownHosts yes\n UserKnownHostsFile none\n")
    place.known_hosts.write_text(f"{hashed('other')} {public(server.host_keys['rsa'])}\n")
    done = place.enroll("n1", "--yes")
    assert f"Written: {place.known_hosts}\n" in done.stdout
    assert place.known_hosts.read_text().count(f"{server.known_name} ") == 3


def test_what_an_earlier_release_pinned_in_the_file_of_ssh_stays_known(place: Place, server: Sshd) -> None:
    place.inventory(server)
    place.of_ssh.write_text("".join(f"{hashed(server.known_name)} {public(key)}\n"
                                    for key in server.host_keys.values()))
    done = place.enroll("n1", "--yes")
    assert done.stdout.split() == ["known", "1", "n1"]
    assert not place.known_hosts.exists()


def test_an_old_key_in_a_file_of_ssh_stays_and_is_named_and_the_new_one_is_pinned_in_musters_own(
    place: Place, server: Sshd, tmp_path: Path,
) -> None:
    place.inventory(server)
    old = public(make_key(tmp_path / "old"))
    before = f"# mine\n{server.known_name} {old}\n{hashed(server.known_name)} {old}\n"
    place.of_ssh.write_text(before)
    place.known_hosts.write_text(f"{server.known_name},other {old}\n")
    assert place.enroll("n1", "--yes").returncode == 1
    done = place.enroll("n1", "--yes", "--replace", "n1", "--format", "json", code=0)
    assert place.of_ssh.read_text() == before
    assert place.known_hosts.read_text().startswith(f"other {old}\n")
    assert place.found(server) == 3
    assert [each["where"] for each in document(done)["nodes"]["n1"]["elsewhere"]] == [
        f"{place.of_ssh}:2", f"{place.of_ssh}:3"]
    assert f"{place.of_ssh} still holds an old key of n1 (lines 2, 3)" in done.stderr
    command = shlex.split(done.stderr.strip().rpartition("remove it with: ")[2])
    subprocess.run(command, check=True, capture_output=True)
    assert place.of_ssh.read_text() == "# mine\n"
    assert "still holds" not in place.enroll("n1", "--replace", "n1").stderr


def test_an_old_key_goes_from_each_of_musters_files_also_when_the_new_one_stands_in_another(
    place: Place, server: Sshd, tmp_path: Path,
) -> None:
    old = public(make_key(tmp_path / "old"))
    first, second = tmp_path / "first", tmp_path / "second"
    place.inventory(server, known_hosts_file=[str(first), str(second)])
    second.write_text(f"{server.known_name} {old}\n# kept\n")
    done = place.enroll("n1", "--yes", "--replace", "n1", code=0)
    assert (place.found(server, first), second.read_text()) == (3, "# kept\n")
    assert f"Written: {first}\nWritten: {second}\n" in done.stdout
    # Killed between the two files, it is made good by the same command.
    second.write_text(f"{server.known_name} {old}\n")
    done = place.enroll("n1", "--replace", "n1", code=0)
    assert "replaced" in done.stdout
    assert second.read_text() == ""


def test_one_reason_of_many_nodes_is_one_line_with_the_nodes_as_a_set(place: Place, server: Sshd) -> None:
    lines = [f"  n{number}: {{address: 127.0.0.{number}, port: {free_port()}}}" for number in range(1, 9)]
    (place.home / "muster.yaml").write_text("\n".join(["version: 1", "nodes:", *lines, ""]))
    done = place.enroll("@all", "--yes", code=3)
    (line,) = [line for line in done.stdout.splitlines() if "connect" in line]
    assert line.startswith("n[1-8]: connect: each of their addresses (127.0.0.1:")


def test_changed_nodes_share_the_command_that_replaces_their_keys(
    place: Place, server: Sshd, tmp_path: Path,
) -> None:
    with sshd(tmp_path / "d") as second:
        place.inventory(server, second)
        old = public(make_key(tmp_path / "old"))
        place.known_hosts.write_text(f"{server.known_name},{second.known_name} {old}\n")
        done = place.enroll("n[1-2]", "--yes", code=1)
        assert done.stdout.count("--replace") == 1
        words = shlex.split(done.stdout.splitlines()[-1].partition("muster inventory ")[2])
        assert place.enroll(*words[1:], "--yes").returncode == 0


def test_a_known_host_keys_of_further_types_are_added_when_approved_and_left_alone_otherwise(
    place: Place, server: Sshd,
) -> None:
    place.inventory(server)
    place.known_hosts.write_text(f"{server.known_name} {public(server.host_keys['ed25519'])}\n")
    done = place.enroll("n1", code=0)
    assert done.stdout.split()[0] == "known"
    assert "ssh-rsa" in done.stderr
    assert place.found(server) == 1
    assert place.enroll("n1", "--yes").stdout.startswith("added to")
    assert place.found(server) == 3


def test_a_changed_key_is_refused_and_replaced_only_for_the_nodes_that_are_named(
    place: Place, server: Sshd, tmp_path: Path,
) -> None:
    place.inventory(server)
    old, line = make_key(tmp_path / "old"), f"other {public(server.host_keys['rsa'])} kept\n"
    before = f"# mine\n{server.known_name},other {public(old)} both\n{line}"
    place.known_hosts.write_text(before)
    for words in ([], ["--yes"]):
        done = place.enroll("n1", *words, code=1)
        assert (f"{place.known_hosts}:2 holds {fingerprint(paramiko.PKey.from_path(old).asbytes())}"
                in done.stdout)
        assert fingerprint(key_of(server).asbytes()) in done.stdout
        assert "--replace n1" in done.stdout
        assert place.known_hosts.read_text() == before
    assert place.ssh(server) != 0
    done = place.enroll("n1", "--replace", "n*", "--yes", code=0)
    assert place.known_hosts.read_text().startswith(f"# mine\nother {public(old)} both\n{line}")
    assert place.known_hosts.with_name("muster_known_hosts.old").read_text() == before
    assert place.found(server) == 3
    assert place.ssh(server) == 0


def test_nodes_to_replace_must_be_among_those_chosen(place: Place, server: Sshd) -> None:
    place.inventory(server, server)
    done = place.enroll("n1", "--replace", "n[1-2]", code=2)
    assert "n2" in done.stderr


def test_a_revoked_key_is_never_pinned(place: Place, server: Sshd) -> None:
    place.inventory(server)
    line = f"@revoked * {public(server.host_keys['rsa'])}\n"
    place.known_hosts.write_text(line)
    done = place.enroll("n1", "--yes", code=1)
    assert f"{place.known_hosts}:1 marks as revoked" in done.stdout
    assert place.known_hosts.read_text() == line
    place.known_hosts.write_text("")
    (place.home / "revoked").write_text(f"{public(server.host_keys['ed25519'])}\n")
    place.config(f"Host *\n RevokedHostKeys {place.home}/revoked\n")
    assert place.enroll("n1", "--yes", "--replace", "n1").returncode == 1
    assert place.known_hosts.read_text() == ""


def test_a_host_known_by_its_certificate_is_pinned_for_paramiko_only(place: Place, tmp_path: Path) -> None:
    authority = make_key(tmp_path / "ca")
    key = make_key(tmp_path / "certified")
    subprocess.run(["ssh-keygen", "-q", "-h", "-s", str(authority), "-I", "n1", f"{key}.pub"], check=True)
    with sshd(tmp_path / "d", config=f"HostKey {key}\nHostCertificate {key}-cert.pub") as server:
        line = f"@cert-authority * {public(authority)}\n"
        place.known_hosts.write_text(line)
        assert place.ssh(server) == 0
        place.inventory(server, transport="openssh")
        done = place.enroll("n1", code=0)
        assert "by authority" in done.stdout
        assert place.known_hosts.read_text() == line
        place.inventory(server, transport="paramiko")
        assert "pinned" in place.enroll("n1", "--yes").stdout


def test_a_node_behind_a_jump_host_is_reached_once_the_jump_host_is_enrolled_itself(
    place: Place, server: Sshd, plain_sshd: Sshd,
) -> None:
    place.config(f"Host bastion\n HostName 127.0.0.1\n Port {plain_sshd.port}\n User {plain_sshd.user}\n"
                 f" IdentityFile {plain_sshd.user_key}\nHost *\n HashKnownHosts no\n")
    place.inventory(server, proxy_jump="bastion")
    done = place.enroll("n1", "--yes", code=3)
    assert "muster inventory enroll bastion" in done.stdout
    assert place.enroll("bastion", "--yes").returncode == 0
    done = place.enroll("n1", "--yes", code=0)
    assert place.found(server) == 3
    assert place.found(plain_sshd) == 1


def test_a_jump_host_before_the_jump_host_is_enrolled_by_the_name_that_the_refusal_gives(
    place: Place, server: Sshd, plain_sshd: Sshd,
) -> None:
    entry = (f" HostName 127.0.0.1\n Port {plain_sshd.port}\n User {plain_sshd.user}\n IdentityFile "
             f"{plain_sshd.user_key}\n")
    place.config(f"Host inner\n{entry} ProxyJump outer\nHost outer\n{entry} HostKeyAlias outer\n")
    place.inventory(server, proxy_jump="inner")
    assert "muster inventory enroll outer" in place.enroll("n1", "--yes").stdout
    assert place.enroll("outer", "--yes").returncode == 0
    assert place.enroll("inner", "--yes").returncode == 0
    assert place.enroll("n1", "--yes").returncode == 0
    place.config("Host one\n ProxyJump two\nHost two\n ProxyJump one\n")
    place.inventory(server, proxy_jump="one")
    assert "has no node three" in place.enroll("three").stderr      # and a circle ends


def test_a_node_behind_a_proxy_command_is_pinned_by_the_command_that_its_refusal_gives(
    place: Place, server: Sshd,
) -> None:
    place.config(f"Host n1\n ProxyCommand {sys.executable} -c '{_PIPE}' %h %p\n UserKnownHostsFile "
                 f"{place.known_hosts}\n")
    place.inventory(server, transport="openssh", user=server.user)
    done = place.enroll("n1", "--yes", code=3)
    words = shlex.split(done.stdout.splitlines()[-1].partition("pin it with: ")[2])
    assert words[:3] == ["ssh", "-o", "StrictHostKeyChecking=ask"]
    # as if "yes" were typed
    config = ["-F", str(place.home / ".ssh" / "config"), "-o", "BatchMode=no", "-o",
              "StrictHostKeyChecking=accept-new"]
    with subprocess.Popen(["ssh", *config, *words[3:]], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                          stderr=subprocess.DEVNULL) as ssh:
        wait_until(place.known_hosts.exists, 30, "the pinned key")
        ssh.kill()


def test_a_jump_host_that_is_an_ipv6_address_can_be_named(place: Place, server: Sshd) -> None:
    place.inventory(server, proxy_jump=f"[::1]:{free_port()}")
    done = place.enroll("::1", "--yes")
    assert (done.returncode, done.stderr) == (3, "")
    assert "not reached" in done.stdout


def test_what_was_refused_counts_even_when_no_one_reads_it(
    place: Place, server: Sshd, tmp_path: Path,
) -> None:
    place.inventory(server)
    place.known_hosts.write_text(f"{server.known_name} {public(make_key(tmp_path / 'old'))}\n")
    assert unread("inventory", "enroll", "n1", "--yes", home=place.home) == 1


def test_a_pipe_in_the_place_of_known_hosts_is_refused_and_not_waited_for(place: Place, server: Sshd) -> None:
    os.mkfifo(place.known_hosts)
    place.inventory(server)
    done = muster("inventory", "enroll", "n1", "--yes", home=place.home, timeout=20, code=1)
    assert "not a regular file" in done.stdout


def test_the_file_of_the_inventory_the_alias_and_the_option_say_where_and_under_what_name(
    place: Place, server: Sshd,
) -> None:
    place.inventory(server, known_hosts_file="site/known_hosts")
    assert place.enroll("n1", "--yes").returncode == 0
    assert server.known_name in (place.home / "site" / "known_hosts").read_text()
    assert not place.known_hosts.exists()
    place.inventory(server)
    place.config("Host *\n HostKeyAlias Farm-1\n HashKnownHosts no\n")
    assert place.enroll("n1", "--yes").returncode == 0
    assert place.known_hosts.read_text().startswith("farm-1 ssh-ed25519 ")
    done = place.enroll("n1", "--yes", "--known-hosts", "elsewhere")
    assert "known" in done.stdout     # where checks look it up it is known already
    place.known_hosts.unlink()
    done = place.enroll("n1", "--yes", "--known-hosts", "elsewhere")
    assert "known_hosts_file" in done.stderr
    assert (place.home / "elsewhere").read_text().startswith("farm-1 ")


def test_a_place_that_keeps_nothing_is_refused(place: Place, server: Sshd) -> None:
    place.inventory(server)
    done = place.enroll("n1", "--yes", "--known-hosts", "/dev/null", code=1)
    assert "/dev/null is not a regular file" in done.stdout


# expectations

def consoles(folder: Path, server: Sshd, *nodes: str) -> Path:
    """A folder of console logs as cloud-init writes them."""
    folder.mkdir()
    lines = [subprocess.run(["ssh-keygen", "-lf", f"{key}.pub"], capture_output=True, text=True,
                            check=True).stdout.strip() for key in server.host_keys.values()]
    for node in nodes:
        (folder
         / f"{node}.log").write_text("\n".join(["[    0.000000] Linux version 6.1",
                                                "ci-info: no authorized SSH keys",
                                                "-----BEGIN SSH HOST KEY FINGERPRINTS-----",
                                                *(f"<14>cloud-init: {line}" for line in lines),
                                                "-----END SSH HOST KEY FINGERPRINTS-----", "login: "]))
    return folder


def test_keys_that_are_on_the_console_are_pinned_without_asking(
    place: Place, server: Sshd, tmp_path: Path,
) -> None:
    place.inventory(server)
    done = place.enroll("n1", "--expect", str(consoles(tmp_path / "logs", server, "n1")), code=0)
    assert "first use" not in done.stdout
    assert place.found(server) == 3
    assert place.ssh(server) == 0


def test_a_key_that_is_not_on_the_console_refuses_its_node_and_the_others_are_pinned(
        place: Place, server: Sshd, plain_sshd: Sshd, tmp_path: Path) -> None:
    (place.home / "muster.yaml").write_text(
        f"version: 1\ndefaults: {{address: 127.0.0.1}}\nnodes:\n  n1: {{port: {server.port}}}\n  n2: {{port: "
        f"{plain_sshd.port}}}\n"
        f"  n3: {{address: localhost, port: {server.port}}}\n")
    done = place.enroll("n[1-3]", "--expect", str(consoles(tmp_path / "logs", server, "n1", "n2")),
                        "--format", "json", code=1)
    nodes = document(done)["nodes"]
    assert [nodes[name]["outcome"] for name in ("n1", "n2", "n3")] == ["pinned", "mismatch", "not listed"]
    assert "n2.log:4" in nodes["n2"]["reason"]
    assert place.found(plain_sshd) == 0


def test_a_console_log_without_keys_leaves_its_node_out_and_the_others_are_pinned(
    place: Place, server: Sshd, tmp_path: Path,
) -> None:
    place.inventory(server, server)
    logs = consoles(tmp_path / "logs", server, "n1")
    (logs / "n2.log").write_text("[    0.000000] Linux version 6.8.0\nn2 login: \n")
    (place.home / "muster.yaml").write_text(
        (place.home / "muster.yaml").read_text().replace("127.0.0.1", "localhost", 1))
    done = place.enroll("n[1-2]", "--expect", str(logs), code=1)
    assert f"{logs / 'n2.log'} has no key of this node: " in done.stdout
    assert f"[localhost]:{server.port} " in place.known_hosts.read_text()
    assert "127.0.0.1" not in place.known_hosts.read_text()


@pytest.mark.parametrize("form", ["known_hosts", "fingerprints", "pairs"])
def test_a_list_in_any_form_says_what_to_expect(
    place: Place, server: Sshd, tmp_path: Path, form: str,
) -> None:
    place.inventory(server)
    known = "".join(f"{server.known_name} {public(key)}\n" for key in server.host_keys.values())
    (tmp_path / "known").write_text(known)
    listed = subprocess.run(["ssh-keygen", "-lf", str(tmp_path / "known")], capture_output=True, text=True,
                            check=True).stdout
    pairs = "".join(f"n1 {line.split()[1]}\n" for line in listed.splitlines())
    (tmp_path / "list").write_text({"known_hosts": known, "fingerprints": listed, "pairs": pairs}[form])
    place.enroll("n1", "--expect", str(tmp_path / "list"), code=0)
    assert place.found(server) == 3


def test_to_expect_something_and_to_trust_anything_exclude_each_other(place: Place, server: Sshd) -> None:
    place.inventory(server)
    assert place.enroll("n1", "--yes", "--expect", "x").returncode == 2


# what is out there

def test_nodes_that_cannot_be_reached_are_named_with_the_stage_and_a_refusal_weighs_more(
    place: Place, server: Sshd,
) -> None:
    with listener(silent) as quiet, listener(hangs_up) as closing:
        (place.home / "muster.yaml").write_text(
            f"version: 1\ndefaults: {{address: 127.0.0.1}}\nnodes:\n  up: {{port: {server.port}}}\n  down: "
            f"{{port: 1}}\n"
            f"  quiet: {{port: {quiet}}}\n  closing: {{port: {closing}}}\n  nowhere: {{address: "
            f"nowhere.invalid}}\n")
        done = place.enroll("@all", "--yes", "--timeout", "3", "--format", "json")
    assert done.returncode == 3
    nodes = document(done)["nodes"]
    assert nodes["up"]["outcome"] == "pinned"
    stages = {name: each["stage"] for name, each in nodes.items() if each["outcome"] == "not reached"}
    assert set(stages) == {"down", "quiet", "closing", "nowhere"}
    assert stages["down"] == "connect"
    assert stages["nowhere"] == "resolve"
    place.known_hosts.write_text(f"@revoked * {public(server.host_keys['rsa'])}\n")
    assert place.enroll("up,down", "--yes").returncode == 1


def test_two_nodes_with_one_key_are_both_named_and_still_pinned(place: Place, server: Sshd) -> None:
    (place.home / "muster.yaml").write_text(f"version: 1\nnodes:\n  a: {{address: 127.0.0.1, port: "
                                            f"{server.port}}}\n  b: {{address: localhost, port: "
                                            f"{server.port}}}\n")
    done = place.enroll("a,b", "--yes", "--format", "json", code=0)
    assert "a,b show the same host key" in done.stderr
    assert "(and 2 more)" in done.stderr
    assert document(done)["shared_keys"][0]["nodes"] == ["a", "b"]
    assert len(place.known_hosts.read_text().splitlines()) == 6


class _Impostor(paramiko.Ed25519Key):
    """Shows another's public key and signs with its own."""

    shown: bytes

    def asbytes(self) -> bytes:
        return self.shown


def test_a_key_that_is_shown_and_not_owned_is_not_pinned(place: Place, server: Sshd, tmp_path: Path) -> None:
    own = _Impostor.from_private_key_file(str(make_key(tmp_path / "own")))
    own.shown = key_of(server).asbytes()

    def pose(connection: Any) -> None:
        transport = paramiko.Transport(connection)
        transport.add_server_key(own)
        with contextlib.suppress(EOFError, paramiko.SSHException):     # it hangs up on us
            transport.start_server(server=paramiko.ServerInterface())

    with listener(pose) as port:
        (place.home / "muster.yaml").write_text(
            f"version: 1\nnodes:\n  n1: {{address: 127.0.0.1, port: {port}}}\n")
        done = place.enroll("n1", "--yes")
    assert done.returncode == 3
    assert "could not prove" in done.stdout
    assert not place.known_hosts.exists()


def test_without_an_inventory_names_are_those_of_ssh_config(place: Place, server: Sshd) -> None:
    place.config(f"Host gpu1\n HostName 127.0.0.1\n Port {server.port}\n")
    assert place.enroll("gpu1", "--yes").returncode == 0
    assert place.found(server) == 3
