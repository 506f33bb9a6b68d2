"""Hashed lines of known_hosts: few operations, fewer the second time; what is kept trusts no key."""

from __future__ import annotations

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from inventory import hashednames, hostcache, hostkeys
from inventory.enroll import EnrolmentOutcome
from inventory.enrolment import decided, subject_of
from inventory.hostcache import HostCache
from inventory.hostkeys import HostKeyFiles, KnownHost, KnownHosts
from inventory.model import Node, Via
from inventory.sshconfig import SshConfig
from inventory.sshroute import route_for
from inventory.sshtarget import target_for
from inventory.transport.trust import objection
from tests.inventory.test_hostkeys import RSA, A, B, C, blob, text
from tests.testbed.require import require
from tests.testbed.sshd import hashed
from tests.tries import tries

N = 40
_SLOW = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]     # the machine may be busy
NAMES = [f"gpu{number:03}" for number in range(N)]
HOSTS = [(name, 22, None) for name in NAMES]


class Operations:
    """How many times a name was hashed under a salt."""

    def __init__(self) -> None:
        self.count = 0

    def since(self) -> int:
        """The count, which begins again."""
        count, self.count = self.count, 0
        return count


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> Operations:
    found, real = Operations(), hashednames.hasher

    def counting(salt: bytes) -> Callable[[bytes], bytes]:
        digest = real(salt)

        def counted(message: bytes) -> bytes:
            found.count += 1
            return digest(message)

        return counted

    monkeypatch.setattr(hashednames, "hasher", counting)
    monkeypatch.setattr(hostkeys, "hasher", counting)
    return found


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where caches are kept, of files and searches of any size."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(hashednames, "WORTH_LOADING", 0)
    monkeypatch.setattr(hashednames, "WORTH_SAVING", 0)
    return tmp_path / "cache" / "muster"


def key(number: int) -> bytes:
    return blob(seed=number.to_bytes(32, "big"))


def lines(names: Iterable[str], each: int = 1) -> str:
    return "".join(f"{hashed(name)} {text(key(number * 10 + at))}\n" for number, name in enumerate(names)
                   for at in range(each))


def known(folder: Path, content: str) -> Path:
    file = folder / "known_hosts"
    file.write_text(content)
    return file


def prepared(file: Path, hosts: Iterable[tuple[str, int, str | None]] = HOSTS) -> KnownHosts:
    """As a command begins."""
    found = KnownHosts([str(file)])
    found.prepare(hosts, all_lines=False, remember=True)
    return found


def blobs(found: KnownHost) -> list[bytes]:
    return [each.blob for each in found.keys]


def the_cache(folder: Path) -> Path:
    (file,) = folder.iterdir()
    return file


# operations

@pytest.mark.parametrize("each", [1, 3])
def test_a_file_that_grew_in_the_order_of_names_takes_few_operations_a_line(
    tmp_path: Path, operations: Operations, each: int,
) -> None:
    file = known(tmp_path, lines(NAMES, each))
    found = prepared(file)
    assert all(len(found.about(*host).keys) == each for host in HOSTS)
    assert operations.since() <= 3 * N * each


def test_ports_and_addresses_in_order_take_few_operations_too(tmp_path: Path, operations: Operations) -> None:
    file = known(tmp_path, lines(f"[10.0.0.{number}]:2222" for number in range(N)))
    hosts = [(f"10.0.0.{number}", 2222, None) for number in range(N)]
    found = prepared(file, hosts)
    assert all(found.about(*host).keys for host in hosts)
    assert operations.since() <= 3 * N


def test_in_any_order_a_line_is_tried_until_it_fits_and_never_again(
    tmp_path: Path, operations: Operations,
) -> None:
    file, names = tmp_path / "known_hosts", list(NAMES)
    random.Random(1).shuffle(names)
    file.write_text(lines(names))
    found = prepared(file)
    assert operations.since() <= N * (N + 1)
    assert [blobs(found.about(*host)) for host in HOSTS] == [[key(names.index(name) * 10)] for name in NAMES]
    assert operations.since() == 0


def test_no_line_is_tried_for_hosts_that_plain_lines_of_any_file_name(
    tmp_path: Path, operations: Operations,
) -> None:
    own, file = tmp_path / "own", tmp_path / "known_hosts"
    own.write_text("".join(f"{name} {text(A)}\n" for name in NAMES))
    file.write_text(lines(NAMES))
    found = KnownHosts([str(file), str(own)])
    found.prepare(HOSTS, all_lines=False)
    assert all(blobs(found.enough(*host)) == [A] for host in HOSTS)
    assert operations.since() == 0


@pytest.mark.parametrize(("pattern", "via"), [("*.other.example", Via.PARAMIKO), ("gpu*", Via.OPENSSH)])
def test_no_line_is_tried_to_choose_a_client_where_there_is_a_certificate_authority(
    tmp_path: Path, operations: Operations, pattern: str, via: Via,
) -> None:
    file = known(tmp_path, f"@cert-authority {pattern} {text(A)}\n{lines(NAMES)}")
    config = SshConfig.parse(f"UserKnownHostsFile {file}\nGlobalKnownHostsFile none\n")
    assert {route_for(Node(name), config).via for name in NAMES} == {via}
    assert operations.since() == 0


def test_the_second_time_each_remembered_line_is_proven_once_and_nothing_else_is_tried(
    tmp_path: Path, operations: Operations, cache: Path,
) -> None:
    file = known(tmp_path, lines(NAMES[::-2]) + lines(f"foreign{number}" for number in range(N)))
    first = [prepared(file).about(*host) for host in HOSTS]
    assert operations.since() > N * N
    assert [prepared(file).about(*host) for host in HOSTS] == first
    assert operations.since() == N * (N // 2)      # each of the N commands proves the lines of N/2 hosts


def test_a_new_line_is_tried_with_the_names_and_the_old_ones_are_not_again(
    tmp_path: Path, operations: Operations, cache: Path,
) -> None:
    file = tmp_path / "known_hosts"
    foreign = lines(f"foreign{number}" for number in range(N))
    file.write_text(foreign)
    prepared(file)
    operations.since()
    file.write_text(f"{hashed(NAMES[7])} {text(A)}\n# moved by one\n{foreign}")
    assert blobs(prepared(file).about(NAMES[7], 22)) == [A]
    assert operations.since() <= N + 1
    assert blobs(prepared(file).about(NAMES[7], 22)) == [A]
    assert operations.since() == 1


def test_a_new_name_is_tried_with_the_lines_that_no_other_name_has(
    tmp_path: Path, operations: Operations, cache: Path,
) -> None:
    file = known(tmp_path, lines([*NAMES, "new", "foreign"]))
    prepared(file)
    operations.since()
    assert blobs(prepared(file, [*HOSTS, ("new", 22, None)]).about("new", 22)) == [key(N * 10)]
    assert operations.since() == N + 2      # proven, and two lines left to try


def test_a_sweep_of_one_node_forgets_nothing_of_the_others(
    tmp_path: Path, operations: Operations, cache: Path,
) -> None:
    file = known(tmp_path, lines(reversed(NAMES)))
    prepared(file)
    with file.open("a") as more:
        more.write(lines(["foreign"]))
    prepared(file, HOSTS[:1])
    operations.since()
    found = prepared(file)
    assert all(found.about(*host).keys for host in HOSTS)
    assert operations.since() <= 2 * N + 1


def test_a_key_that_no_plain_line_of_its_host_holds_is_looked_for_only_in_lines_with_that_key(
    tmp_path: Path, operations: Operations,
) -> None:
    file = known(tmp_path, lines(NAMES) + "".join(f"{name} {text(A)}\n" for name in NAMES))
    found = prepared(file)
    for number, host in enumerate(HOSTS):
        assert blobs(found.about_key(key(number * 10), *host)) == [A, key(number * 10)]
        assert blobs(found.about_key(key(number * 10 + 10), *host)) == [A]
        assert blobs(found.about_key(B, *host)) == [A]
    assert operations.since() <= 2 * N


@pytest.mark.parametrize("shown", ["the known key", "another key", "a further key"])
@pytest.mark.parametrize("replaced", [False, True])
def test_an_enrolment_takes_few_operations_a_node_whatever_the_nodes_show(
    tmp_path: Path, operations: Operations, monkeypatch: pytest.MonkeyPatch, shown: str, replaced: bool,
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh" / "known_hosts").write_text(lines(NAMES))
    subjects = [replace(subject_of(Node(name), SshConfig.parse(""), None), keys={
        "the known key": (key(number * 10),), "another key": (key(10_000 + number),),
        "a further key": (key(number * 10), RSA)}[shown]) for number, name in enumerate(NAMES)]
    outcomes = {each.decision.outcome for each in decided(subjects, None, NAMES if replaced else ())}
    assert outcomes == {{
        "the known key": EnrolmentOutcome.KNOWN, "a further key": EnrolmentOutcome.ADD,
        "another key": EnrolmentOutcome.REPLACE if replaced else EnrolmentOutcome.CHANGED}[shown]}
    assert operations.since() <= 3 * N


# threads

def test_a_thread_that_tries_names_keeps_no_other_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, real = tmp_path / "known_hosts", hashednames.hasher
    file.write_text(lines(NAMES))
    found, begun, go = KnownHosts([str(file)]), threading.Event(), threading.Event()

    def slow(salt: bytes) -> Callable[[bytes], bytes]:
        if threading.current_thread() is not threading.main_thread():
            begun.set()
            assert go.wait(30)
        return real(salt)

    monkeypatch.setattr(hashednames, "hasher", slow)
    results: list[list[bytes]] = []
    threads = [threading.Thread(target=lambda: results.append(blobs(found.about(NAMES[3], 22))))
               for _ in range(4)]
    for thread in threads:
        thread.start()
    assert begun.wait(30)
    assert blobs(found.about(NAMES[5], 22)) == [key(50)]
    assert blobs(found.about(NAMES[3], 22)) == [key(30)]
    go.set()
    for thread in threads:
        thread.join(30)
    assert results == [[key(30)]] * 4


def test_a_file_is_read_once_for_all_that_look_into_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    reads: list[str] = []
    real = hostkeys._KnownFile.read

    def read(name: str) -> hostkeys._KnownFile:
        reads.append(name)
        return real(name)

    monkeypatch.setattr(hostkeys._KnownFile, "read", read)
    one, two = str(tmp_path / "one"), str(tmp_path / "two")
    files = HostKeyFiles()
    for names in ((one,), (one, two), (two, one), (one,)):
        files.of(names).about("gpu1", 22)
    assert sorted(reads) == [one, two]


# what is remembered

def test_the_cache_is_private_and_names_no_host_and_no_key(tmp_path: Path, cache: Path) -> None:
    file = known(tmp_path, lines(["secret.example", *reversed(NAMES)]))
    prepared(file)
    assert cache.stat().st_mode & 0o777 == 0o700
    assert the_cache(cache).stat().st_mode & 0o777 == 0o600
    data = the_cache(cache).read_bytes()
    assert b"secret" not in data
    assert not any(name.encode() in data for name in NAMES)
    assert text(key(10)).split()[1].encode() not in data


def test_what_was_asked_for_one_by_one_is_not_kept(tmp_path: Path, cache: Path) -> None:
    file = known(tmp_path, lines(NAMES))
    assert KnownHosts([str(file)]).about(NAMES[1], 22).keys
    assert not cache.exists()


def test_a_key_that_the_file_no_longer_holds_is_not_known(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "known_hosts"
    whole = lines(NAMES)
    file.write_text(whole)
    prepared(file)
    file.write_text("".join(whole.splitlines(keepends=True)[1:]))
    found = prepared(file)
    assert found.about(NAMES[0], 22) == KnownHost(NAMES[0])
    assert blobs(found.about(NAMES[1], 22)) == [key(10)]
    file.write_text(whole.replace(text(key(10)), text(A)))
    assert blobs(prepared(file).about(NAMES[1], 22)) == [A]


def test_a_line_that_became_revoked_or_was_added_as_revoked_is(tmp_path: Path, cache: Path) -> None:
    file = tmp_path / "known_hosts"
    whole = lines(NAMES)
    file.write_text(whole)
    prepared(file)
    file.write_text(f"@revoked {whole}@revoked {hashed(NAMES[1])} {text(key(10))}\n")
    found = prepared(file)
    assert [each.blob for each in found.about(NAMES[0], 22).revoked] == [key(0)]
    assert found.about(NAMES[0], 22).keys == ()
    assert [each.blob for each in found.about(NAMES[1], 22).revoked] == [key(10)]


def test_a_hashed_line_that_revokes_a_plainly_known_key_is_seen_without_trying_the_others(
    tmp_path: Path, operations: Operations,
) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"{lines(NAMES)}gpu001 {text(A)}\n@revoked {hashed('gpu001')} {text(A)}\n"
                    f"[gpu002]:2222 {text(B)}\n@revoked {hashed('gpu002')} {text(B)}\n")
    found = prepared(file, [("gpu001", 22, None), ("gpu002", 2222, None)])
    assert [each.blob for each in found.enough("gpu001", 22).revoked] == [A]
    assert [each.blob for each in found.enough("gpu002", 2222).revoked] == [B]
    assert operations.since() <= 3


@pytest.mark.parametrize("damage", [
    lambda data: b"", lambda data: data[:-1], lambda data: data + b" ", lambda data: b"\0" * len(data),
    lambda data: data[:100], lambda data: data[:60] + b"\xff" + data[61:],
])
def test_a_damaged_cache_is_ignored_and_made_again(
    tmp_path: Path, operations: Operations, cache: Path, damage: Callable[[bytes], bytes],
) -> None:
    file = known(tmp_path, lines(reversed(NAMES)))
    prepared(file)
    first = operations.since()
    the_cache(cache).write_bytes(damage(the_cache(cache).read_bytes()))
    assert all(prepared(file).about(*host).keys for host in HOSTS[:1])
    assert operations.since() == first
    prepared(file)
    assert operations.since() == N


SALT = "AAAAAAAAAAAAAAAAAAAAAA=="


@pytest.mark.parametrize("text_", [
    "", "[]", "null", "{}", "\udcff", "[" * 100_000,
    *(json.dumps({"salt": SALT, "tried": "", "names": "", "rows": [], **changes}) for changes in (
        {"salt": 1}, {"salt": ""}, {"salt": "A" * 88}, {"salt": "!"}, {"tried": "AAAA"}, {"names": "AAAA"},
        {"rows": [[0, []]]}, {"names": SALT, "rows": [[1, []]]}, {"names": SALT, "rows": [[0, [0]]]},
        {"names": SALT, "rows": [[0, "a"]]}, {"names": SALT, "rows": [0]}, {"names": SALT, "rows": {}}))
])
def test_a_cache_with_a_right_checksum_and_other_contents_is_ignored(
    tmp_path: Path, cache: Path, text_: str,
) -> None:
    file = known(tmp_path, lines(reversed(NAMES)))
    prepared(file)
    the_cache(cache).write_bytes(hashlib.sha256(data := text_.encode("utf-8", "surrogateescape")).digest()
                                 + data)
    found = prepared(file)
    assert all(found.about(*host).keys for host in HOSTS)


def test_a_cache_that_others_may_write_to_is_ignored(
    tmp_path: Path, operations: Operations, cache: Path,
) -> None:
    file = known(tmp_path, lines(reversed(NAMES)))
    prepared(file)
    first = operations.since()
    the_cache(cache).chmod(0o620)
    prepared(file)
    assert operations.since() == first


def test_a_cache_that_lends_a_host_the_line_of_another_is_found_out(tmp_path: Path, cache: Path) -> None:
    file = known(tmp_path, lines(NAMES[:2]))
    hashes = tuple(KnownHosts([str(file)])._held[0].hashed)
    hostcache.save(str(file), HostCache().learned(hashes, {NAMES[0]: [hashes[1]], NAMES[1]: [hashes[0]]}))
    found = prepared(file)
    assert [blobs(found.about(name, 22)) for name in NAMES[:2]] == [[key(0)], [key(10)]]


def test_where_no_cache_can_be_kept_all_is_found_all_the_same(
    tmp_path: Path, cache: Path,
) -> None:
    cache.parent.write_text("a file, where the folder should be")
    file = known(tmp_path, lines(NAMES))
    found = prepared(file)
    assert all(found.about(*host).keys for host in HOSTS)


_KILLED = """
import os, signal, sys
from pathlib import Path
from inventory import hashednames, hostcache
from inventory.hostkeys import KnownHosts
def die(*_, **__): os.kill(os.getpid(), signal.SIGKILL)
hashednames.WORTH_LOADING = hashednames.WORTH_SAVING = 0
{patch}
KnownHosts([sys.argv[1]]).prepare([(name, 22, None) for name in sys.argv[2:]], remember=True)
"""


@pytest.mark.parametrize("patch", ["os.fsync = die", "Path.replace = die", "os.fdopen = die"])
def test_a_kill_in_the_middle_leaves_the_old_cache(tmp_path: Path, cache: Path, patch: str) -> None:
    file, root = tmp_path / "known_hosts", Path(__file__).parents[2]
    file.write_text(lines(NAMES))
    prepared(file, HOSTS[:1])
    before = the_cache(cache).read_bytes()
    done = subprocess.run([sys.executable, "-c", _KILLED.format(patch=patch), str(file), *NAMES], check=False,
                          cwd=root, env={**os.environ, "PYTHONPATH": str(root)})
    assert done.returncode == -9
    assert [each.read_bytes() for each in cache.glob("hostkeys-*")] == [before]


@given(data=st.data())
@settings(suppress_health_check=_SLOW, deadline=None)
def test_whatever_the_file_and_the_inventory_become_the_answers_are_those_without_a_cache(
    tmp_path: Path, cache: Path, data: st.DataObject,
) -> None:
    pool = [f"{hashed(name)} {text(key(number))}\n" for number, name in enumerate(NAMES[:6] * 2)]
    file = tmp_path / "known_hosts"
    for _ in range(4):
        chosen = data.draw(st.lists(st.sampled_from(pool), max_size=8))
        content = "".join(data.draw(st.sampled_from(["", "@revoked "])) + line for line in chosen)
        file.write_text(content)
        hosts = data.draw(st.lists(st.sampled_from(HOSTS[:6]), max_size=6))
        found, plain = prepared(file, hosts), KnownHosts.parse(content.encode(), str(file))
        for host in HOSTS[:6]:
            assert found.about(*host) == plain.about(*host)


# as OpenSSH

_LABELS = ["gpu1", "gpu2", "10.0.0.1", "[gpu1]:2222", "[10.0.0.1]:22022", "[fe80::1]:2222", "alias"]
_PATTERNS = ["gpu*", "*", "gpu?", "!gpu2", "!*2", "[gpu*]:2222", "[*]:2222", "10.0.*", "?", "!gpu?"]


@st.composite
def known_lines(draw: st.DrawFn) -> str:
    """One line: hashed, plain, or of patterns, with any marker."""
    marker = draw(st.sampled_from(["", "", "", "@revoked ", "@cert-authority "]))
    if draw(st.booleans()):
        names = hashed(draw(st.sampled_from(_LABELS)))
    else:
        each = st.sampled_from(_LABELS) | st.sampled_from(_PATTERNS)
        names = ",".join(draw(st.lists(each, min_size=1, max_size=3)))
        names = draw(st.sampled_from([names, names.upper()]))
    return f"{marker}{names} {text(draw(st.sampled_from([A, B, C])))}"


@given(content=st.lists(known_lines() | st.sampled_from(["# gpu1", ""]), max_size=8))
@settings(suppress_health_check=_SLOW, max_examples=tries(25), deadline=None)
def test_the_lines_of_a_host_are_those_that_ssh_keygen_finds(tmp_path: Path, content: list[str]) -> None:
    require(shutil.which("ssh-keygen"), "no ssh-keygen on this machine: apt-get install -y openssh-client")
    file = known(tmp_path, "".join(f"{line}\n" for line in content))
    ours = KnownHosts([str(file)])
    for name in _LABELS:
        found = ours.about("", 22, name)
        listed = subprocess.run(["ssh-keygen", "-F", name, "-f", str(file)], capture_output=True, text=True,
                                check=False).stdout
        theirs = {int(line.split("line ")[1].split()[0]) for line in listed.splitlines()
                  if line.startswith("# Host ")}
        assert {each.line for each in (*found.keys, *found.revoked, *found.authorities)} == theirs


@given(files=st.lists(st.lists(known_lines(), max_size=6), min_size=1, max_size=2),
       host=st.sampled_from([("gpu1", 22), ("gpu1", 2222), ("gpu2", 22), ("10.0.0.1", 22022)]))
@settings(suppress_health_check=_SLOW, deadline=None)
def test_a_key_is_accepted_by_the_short_search_exactly_if_it_is_by_the_whole_one(
    tmp_path_factory: pytest.TempPathFactory, files: list[list[str]], host: tuple[str, int],
) -> None:
    paths = [tmp_path_factory.getbasetemp() / f"short_{number}" for number in range(len(files))]
    for path, content in zip(paths, files, strict=True):
        path.write_text("".join(f"{line}\n" for line in content))
    found = KnownHosts(map(str, paths))
    target = target_for(Node("n1", address=host[0], port=host[1]), SshConfig.parse(""))
    short, whole = found.enough(*host), found.about(*host)
    for offered in (A, B, C):
        problem = objection(target, short, None, offered)
        if problem is not None and not short.whole:
            problem = objection(target, found.about_key(offered, *host), None, offered)
        in_full = objection(target, whole, None, offered)
        assert (problem is None) == (in_full is None)
        assert ("revoked" in (problem or "")) == ("revoked" in (in_full or ""))
