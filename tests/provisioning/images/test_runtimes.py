"""Pulls by digest through a real containerd and a real Docker, from a registry that works, lies, dies, is
slow, or wants a password."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from inventory.model import Node
from inventory.transport.local import LocalTransport
from provisioning.images import send
from provisioning.images.model import ImageState, NodeImage, NodeImages, PullEnd
from provisioning.images.send import PullBounds, RuntimeChoice
from provisioning.images.wanted import from_words
from tests.testbed.containerd import Containerd, containerd, require_containerd
from tests.testbed.distribution import distribution
from tests.testbed.docker import DOCKERD, Dockerd, dockerd, small_disk
from tests.testbed.docker import docker as run
from tests.testbed.registry import Registry, image, registry
from tests.testbed.require import require
from tests.testbed.sshd import wait_until

pytestmark = pytest.mark.root
NODE = Node("n1", python=sys.executable)


@pytest.fixture
def source() -> Iterator[Registry]:
    with registry() as made:
        yield made


@pytest.fixture(scope="module")
def daemon() -> Iterator[Containerd]:
    require_containerd()
    with containerd() as made:
        yield made


@pytest.fixture(scope="module")
def docker() -> Iterator[Dockerd]:
    require(os.geteuid() == 0, "only root can start dockerd")
    require(DOCKERD and shutil.which("docker"), "no Docker on this machine: apt-get install -y docker.io")
    with dockerd() as made:
        yield made


@pytest.fixture(params=["containerd", pytest.param("docker", marks=pytest.mark.slow)])
def through(request: pytest.FixtureRequest, source: Registry, tmp_path: Path) -> RuntimeChoice:
    """A runtime that reaches the registry without TLS, as Docker does every one on loopback."""
    if request.param == "docker":
        return by_docker(request.getfixturevalue("docker"), tmp_path)
    daemon = request.getfixturevalue("daemon")
    daemon.plain(source.host)
    return by_containerd(daemon, tmp_path)


def by_containerd(daemon: Containerd, folder: Path) -> RuntimeChoice:
    return RuntimeChoice("containerd", str(daemon.socket), hosts=str(daemon.hosts), lock=str(folder / "lock"))


def by_docker(daemon: Dockerd, folder: Path) -> RuntimeChoice:
    return RuntimeChoice("docker", str(daemon.socket), lock=str(folder / "lock"))


def look(reference: str, choice: RuntimeChoice) -> NodeImage:
    return only(list(send.look([NODE], from_words([reference]), LocalTransport(), choice)))


def pull(reference: str, choice: RuntimeChoice, **bounds: float) -> NodeImage:
    return only(list(send.pull([NODE], from_words([reference]), LocalTransport(), choice,
                               bounds=PullBounds(**bounds))))  # type: ignore[arg-type]


def only(found: list[NodeImages]) -> NodeImage:
    ((one,),) = (each.images for each in found)
    return one


def test_an_image_is_pulled_by_its_digest_once_and_is_there_afterwards(source: Registry,
                                                                       through: RuntimeChoice) -> None:
    reference = source.add("team/app:1.0", image("good"))
    assert look(reference, through).state is ImageState.ABSENT
    one = pull(reference, through)
    assert (one.state, one.end, one.why) == (ImageState.PRESENT, PullEnd.PULLED, ""), one
    assert look(reference, through).state is ImageState.PRESENT
    asked = len(source.requests)
    assert pull(reference, through).end is PullEnd.THERE
    assert len(source.requests) == asked


def test_docker_pulls_by_digest_and_shows_it(source: Registry, docker: Dockerd, tmp_path: Path) -> None:
    choice, reference = by_docker(docker, tmp_path), source.add("team/app:1.0", image("docker"))
    assert look(reference, choice).state is ImageState.ABSENT
    one = pull(reference, choice)
    assert (one.state, one.end, one.why) == (ImageState.PRESENT, PullEnd.PULLED, ""), one
    assert pull(reference, choice).end is PullEnd.THERE


def test_what_the_tag_means_on_the_node_is_reported_beside_the_wanted_digest(source: Registry,
                                                                             through: RuntimeChoice) -> None:
    old, new = image("old"), image("new")
    source.add("team/tagged:1.0", old)
    tagged = f"{source.host}/team/tagged:1.0"
    words = (("docker", "--host", f"unix://{through.address}", "pull", tagged)
             if through.kind == "docker" else
             ("ctr", "--address", through.address, "images", "pull", "--plain-http", tagged))
    subprocess.run(words, check=True, capture_output=True, timeout=60)
    reference = source.add("team/tagged:1.0", new)
    before = look(reference, through)
    assert (before.state, before.others) == (ImageState.OTHER, (old.digest,))
    after = pull(reference, through)
    assert (after.state, after.others) == (ImageState.PRESENT, (old.digest,))


@pytest.mark.parametrize("lie", [pytest.param("manifest", marks=pytest.mark.slow), "blob"])
def test_a_registry_that_sends_other_bytes_than_the_digest_says_is_found_out(lie: str, source: Registry,
                                                                             through: RuntimeChoice) -> None:
    reference = source.add(f"team/lie{lie}:1.0", image(lie, 50_000))
    source.lies = lie
    one = pull(reference, through)
    assert (one.state, one.end) == (ImageState.ABSENT, PullEnd.FAILED)
    assert "digest" in one.why or "verif" in one.why, one.why
    source.lies = ""
    assert pull(reference, through).state is ImageState.PRESENT


def test_a_registry_that_dies_in_the_middle_leaves_an_absent_image_and_its_reason(
        source: Registry, through: RuntimeChoice) -> None:
    reference = source.add("team/dies:1.0", image("dies", 2_000_000))
    source.dies_after = 500_000
    one = pull(reference, through, seconds=15)
    assert (one.state, one.end) == (ImageState.ABSENT, PullEnd.FAILED)
    assert one.why


def test_a_pull_that_takes_too_long_is_ended(source: Registry, through: RuntimeChoice) -> None:
    reference = source.add("team/slow:1.0", image("slow", 5_000_000))
    source.slow = 300_000
    one = pull(reference, through, seconds=2)
    assert (one.state, one.end) == (ImageState.ABSENT, PullEnd.FAILED)
    assert one.why == f"{'docker' if through.kind == 'docker' else 'ctr'} did not end within 2 s"
    assert not clients(reference)


def clients(reference: str) -> list[str]:
    """The processes that pull it."""
    digest = reference.partition("@")[2]
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words and words[0].endswith((b"ctr", b"docker")) and any(digest.encode() in word
                                                                    for word in words):
            found.append(path.parent.name)
    return found


def test_whoever_loses_the_line_to_the_head_ends_the_pull_and_the_next_one_goes_on(
        source: Registry, through: RuntimeChoice) -> None:
    reference = source.add("team/cut:1.0", image("cut", 3_000_000))
    source.slow = 300_000
    with pulling(reference, through) as program:
        assert source.started.wait(20)
        second = pull(reference, through)
        assert (second.state, second.end) == (ImageState.UNKNOWN, None)
        assert "another pull is at work here since 20" in second.why
        assert program.stdin is not None
        program.stdin.close()
        assert program.wait(20) == 0
    assert not clients(reference)
    wait_until(lambda: not source.serving, 10, "the end of the fetch, in a daemon too")
    source.slow = 0.0
    third = pull(reference, through)
    assert (third.state, third.end) == (ImageState.PRESENT, PullEnd.PULLED)


def test_whoever_kills_the_program_on_the_node_ends_the_pull_with_it(source: Registry,
                                                                     through: RuntimeChoice) -> None:
    reference = source.add("team/killed:1.0", image("killed", 3_000_000))
    source.slow = 300_000
    with pulling(reference, through) as program:
        assert source.started.wait(20)
        program.kill()
        program.wait(10)
    wait_until(lambda: not clients(reference) and not source.serving, 10, "the end of client and fetch")
    source.slow = 0.0
    assert pull(reference, through).state is ImageState.PRESENT


@contextmanager
def pulling(reference: str, choice: RuntimeChoice) -> Iterator[subprocess.Popen[bytes]]:
    """The program of a node, at work, whose standard input is the line to the head."""
    caught: list[tuple[str, ...]] = []

    class Caught(LocalTransport):
        def run(self, nodes, program, limits):  # type: ignore[no-untyped-def]
            (node,) = nodes
            caught.append((program.loader, program.nonce, *program.arguments(node)))
            self.payload = program.payload
            return iter(())

    transport = Caught()
    list(send.pull([NODE], from_words([reference]), transport, choice))
    loader, *words = caught[0]
    with subprocess.Popen([sys.executable, "-I", "-S", "-c", loader, *words], stdin=subprocess.PIPE,
                          stdout=subprocess.DEVNULL, bufsize=0) as program:
        assert program.stdin is not None
        program.stdin.write(transport.payload)
        yield program


@pytest.mark.slow
def test_what_was_pushed_to_a_real_registry_is_pulled_by_the_digest_that_the_push_shows(
    docker: Dockerd, daemon: Containerd, tmp_path: Path,
) -> None:
    client = Path("/usr/bin")
    at = ("--host", docker.host)
    with distribution(tmp_path / "registry") as host:
        (tmp_path / "tree.tar").write_bytes(image("pushed").tar)
        run(client, *at, "import", str(tmp_path / "tree.tar"), f"{host}/team/pushed:1.0")
        said = run(client, *at, "push", f"{host}/team/pushed:1.0")
        digest = next(word for word in said.split() if word.startswith("sha256:") and len(word) == 71)
        run(client, *at, "rmi", f"{host}/team/pushed:1.0")
        daemon.plain(host)
        for choice in (by_docker(docker, tmp_path), by_containerd(daemon, tmp_path)):
            reference = f"{host}/team/pushed:1.0@{digest}"
            assert look(reference, choice).state is ImageState.ABSENT
            one = pull(reference, choice)
            assert (one.state, one.end) == (ImageState.PRESENT, PullEnd.PULLED), one
            wrong = pull(f"{host}/team/pushed:1.0@sha256:{'0' * 64}", choice)
            assert (wrong.state, wrong.end) == (ImageState.ABSENT, PullEnd.FAILED)
            assert "not found" in wrong.why or "unknown" in wrong.why


@pytest.mark.slow
def test_a_daemon_that_is_gone_or_hangs_is_unknown_and_no_pass(source: Registry, tmp_path: Path) -> None:
    require_containerd()
    reference = source.add("team/hung:1.0", image("hung"))
    with containerd() as daemon:
        choice = by_containerd(daemon, tmp_path)
        daemon.stop()
        hung = look(reference, choice)
        assert (hung.state, pull(reference, choice).state) == (ImageState.UNKNOWN, ImageState.UNKNOWN)
        daemon.go_on()
    assert "timed out waiting for server handshake" in hung.why
    gone = look(reference, choice)
    assert gone.state is ImageState.UNKNOWN
    assert gone.why == f"no container runtime is found here: no socket of containerd ({choice.address})"


def test_too_little_free_space_begins_nothing(source: Registry, through: RuntimeChoice) -> None:
    reference = source.add("team/large:1.0", image("large"))
    (wanted,) = from_words([reference])
    vast = replace(wanted, size=1 << 50)
    one = only(list(send.pull([NODE], [vast], LocalTransport(), through)))
    assert (one.state, one.end) == (ImageState.ABSENT, PullEnd.NO_SPACE)
    assert "MiB are free at" in one.why and "beside the image's 1073741824 MiB" in one.why
    assert not any("large" in line for line in source.requests)


@pytest.mark.slow
def test_a_disk_that_fills_up_ends_the_pull_before_it_is_full(source: Registry, tmp_path: Path) -> None:
    require_containerd()
    with small_disk(tmp_path / "disk", 64) as disk, containerd(disk / "root") as daemon:
        daemon.plain(source.host)
        choice = by_containerd(daemon, tmp_path)
        reference = source.add("team/fills:1.0", image("fills", 60_000_000))
        source.slow = 12_000_000
        one = pull(reference, choice, keep_percent=20)
        assert (one.state, one.end) == (ImageState.ABSENT, PullEnd.NO_SPACE), one
        assert "ended, because only" in one.why
        small = source.add("team/small:1.0", image("small"))
        again = pull(small, choice, keep_percent=0)
        assert again.state is ImageState.PRESENT, again
