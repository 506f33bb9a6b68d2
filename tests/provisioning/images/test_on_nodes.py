"""`muster images` on nodes with a real systemd, containerd and Docker: a slow one, a full one, one without a
runtime, a head that is killed."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command import muster, running
from tests.documents import validate
from tests.provisioning.images.runtimenodes import mirrored, site, with_containerd, with_docker
from tests.testbed.containerd import require_containerd
from tests.testbed.nspawn import Machine, nodes, require_nspawn
from tests.testbed.registry import Registry, image, registry
from tests.testbed.sshd import wait_until

pytestmark = [pytest.mark.timeout(600), pytest.mark.slow, pytest.mark.root]
SECRET = "hunter2-of-the-site"
BASIC = base64.b64encode(f"puller:{SECRET}".encode()).decode()


@pytest.fixture(scope="module")
def source() -> Iterator[Registry]:
    with registry() as made:
        yield made


@pytest.fixture(scope="module")
def slow() -> Iterator[Registry]:
    with registry() as made:
        made.slow = 700_000
        yield made


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory, source: Registry,
             slow: Registry) -> Iterator[dict[str, Machine]]:
    """n1 to n3 are sound, n2 with Docker; n4 has a slow mirror, n5 a small disk, n6 no runtime."""
    require_nspawn()
    require_containerd()
    with nodes(tmp_path_factory.mktemp("nspawn"), "n1", "n2", "n3", "n4", "n5", "n6") as started:
        found = {one.name: one for one in started}
        for name in ("n1", "n3"):
            with_containerd(found[name], source)
        with_docker(found["n2"], source)
        with_containerd(found["n4"], slow)
        with_containerd(found["n5"], source, megabytes=8)
        yield found


@pytest.fixture
def home(tmp_path: Path, machines: dict[str, Machine]) -> Path:
    site(tmp_path, list(machines.values()))
    return tmp_path


def added(seed: str, size: int, *mirrors: Registry) -> str:
    made = image(seed, size)
    for one in mirrors:
        one.add(f"team/{seed}:1.0", made)
    return f"docker.io/team/{seed}:1.0@{made.digest}"


def states(home: Path, *words: str, code: int) -> dict[str, dict[str, object]]:
    done = muster("images", *words, "--format", "json", home=home, timeout=200, code=code)
    document = json.loads(done.stdout)
    validate(document, "images-1")
    return {one["node"]: one for one in document["nodes"]}


def test_a_fleet_is_pulled_to_a_digest_with_the_slow_the_full_and_the_unknown_named(
        home: Path, source: Registry, slow: Registry) -> None:
    reference = added("app", 12_000_000, source, slow)
    before = states(home, "status", "--image", reference, code=1)
    assert {name: one["state"] for name, one in before.items()} == {
        "n1": "absent", "n2": "absent", "n3": "absent", "n4": "absent", "n5": "absent", "n6": "unknown"}
    assert {name: one["runtime"] for name, one in before.items()} == {
        "n1": "containerd", "n2": "docker", "n3": "containerd", "n4": "containerd",
        "n5": "containerd", "n6": None}
    done = muster("images", "pull", "n[1-6]", "--image", reference, home=home, timeout=200, code=1)
    out = done.stdout
    assert "  present          4  n[1-4]" in out
    assert "  absent           1  n5  ended, because only" in out
    assert "  unknown          1  n6  no container runtime is found here: no docker, no ctr, no crictl" in out
    assert "slow, where the median is" in out and ": n4 " in out
    assert out.endswith("6 nodes: 1 absent, 1 unknown, 4 present; pulled: 4\n")
    assert muster("images", "status", "n[1-4]", "--image", reference, home=home).returncode == 0


def test_a_killed_head_leaves_no_pull_behind_and_the_same_command_goes_on(
        home: Path, machines: dict[str, Machine], source: Registry, slow: Registry) -> None:
    reference = added("killed", 9_000_000, source, slow)
    slow.started.clear()
    with running("images", "pull", "n4", "--image", reference, home=home) as head:
        assert slow.started.wait(60)
        assert "images pull" in machines["n4"].run("ps", "axww")
        head.send_signal(signal.SIGKILL)
        head.wait(10)
    wait_until(lambda: "images pull" not in machines["n4"].run("ps", "axww") and not slow.serving, 30,
               "the end of the pull on the node")
    assert states(home, "status", "n4", "--image", reference, code=1)["n4"]["state"] == "absent"
    found = states(home, "pull", "n4", "--image", reference, code=0)
    assert found["n4"]["state"] == "present"


def test_credentials_are_those_of_the_nodes_runtime_and_show_nowhere(home: Path, machines: dict[str, Machine],
                                                                     source: Registry) -> None:
    reference = added("private", 2_000_000, source)
    source.password, source.slow = f"puller:{SECRET}", 1_000_000
    seen: list[str] = []
    over = threading.Event()

    def watch() -> None:
        while not over.is_set():
            seen.extend(_shown())

    try:
        refused = muster("images", "pull", "n1", "--image", reference, home=home, timeout=100)
        mirrored(machines["n1"], source, f"Basic {BASIC}")
        watcher = threading.Thread(target=watch)
        watcher.start()
        done = muster("images", "pull", "n1", "--image", reference, home=home, timeout=100)
    finally:
        over.set()
        source.password, source.slow = "", 0.0
        mirrored(machines["n1"], source)
    watcher.join()
    assert refused.returncode == 1 and "absent" in refused.stdout
    assert done.returncode == 0, done
    everything = refused.stdout + refused.stderr + done.stdout + done.stderr + "".join(
        path.read_text(errors="replace") for path in home.rglob("*") if path.is_file())
    everything += machines["n1"].run("journalctl", "--no-pager") + "".join(seen)
    assert any("images\0pull" in one for one in seen)
    assert SECRET not in everything and BASIC not in everything


def _shown() -> list[str]:
    """The arguments and environments of all processes."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        if int(path.name) == os.getpid():
            continue        # the test knows the secret
        for name in ("cmdline", "environ"):
            with contextlib.suppress(OSError):
                found.append((path / name).read_bytes().decode(errors="replace"))
    return [one for one in found if "pull" in one or SECRET in one or BASIC in one]
