"""The Docker check against a real daemon: it answers, it hangs, it is gone, it may not be asked; with each
client of this machine."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import muster
from tests.testbed.docker import DOCKERD, Dockerd, busybox, docker, dockerd, led_to, small_disk
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, sshd, wait_until
from tests.testbed.users import throwaway_user

pytestmark = [pytest.mark.root,
              pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start a Docker daemon")]

# Clients before 23 exit with 0 when there is no daemon, and say so in their answer; later ones exit with 1.
CLIENTS = sorted({str(Path(folder))
                  for folder in ("/usr/bin", "/usr/local/bin") if shutil.which("docker", path=folder)})

# The distribution's client every time, another one in the slow tier.
EACH = [pytest.param(one, marks=[pytest.mark.slow] if number else [])
        for number, one in enumerate(CLIENTS)] or [""]


@pytest.fixture
def daemon() -> Iterator[Dockerd]:
    require(DOCKERD and CLIENTS, "no Docker on this machine: apt-get install -y docker.io")
    with dockerd() as running:
        yield running


def rules(home: Path) -> str:
    """A folder of site rules with a SKU that needs Docker and nothing else that this machine may not have."""
    (home / "site" / "sku").mkdir(parents=True, exist_ok=True)
    (home / "site" / "sku"
     / "box.yaml").write_text("sku: box\ninherit: cpu-only\nnumbers: {docker: true}\nsource: the test\n")
    return str(home / "site")


def asked(home: Path, *words: str, rule: str = "docker-answers", **more: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the result of a rule."""
    done = muster("check", *words, "--only", "docker-answers", "--sku", "box", "--rules", rules(home),
                  "--format", "json", "--full", home=home, timeout=60, **more)
    node = json.loads(done.stdout)["nodes"][0]
    assert node["results"], node["reason"]
    result: dict[str, Any] = next(result for result in node["results"] if result["rule"] == rule)
    return done.returncode, result


@pytest.mark.parametrize("client", EACH)
def test_a_daemon_is_seen_to_answer_to_hang_and_to_be_gone(daemon: Dockerd, tmp_path: Path,
                                                           client: str) -> None:
    where = {"PATH": f"{led_to(daemon, tmp_path / 'bin', client)}:{os.environ['PATH']}"}
    code, result = asked(tmp_path, "--local", **where)
    assert (code, result["status"]) == (0, "pass"), result
    daemon.stop()
    code, result = asked(tmp_path, "--local", "--only", "docker-hangs", rule="docker-hangs", **where)
    assert (code, result["status"]) == (1, "fail"), result
    assert result["findings"][0]["observed"] == "no answer in time to docker info and docker ps"
    daemon.go_on()
    assert asked(tmp_path, "--local", **where)[1]["status"] == "pass"
    daemon.kill()
    code, result = asked(tmp_path, "--local", **where)
    assert (code, result["status"]) == (1, "fail")
    assert "Cannot connect to the Docker daemon" in result["findings"][0]["observed"], result


@pytest.mark.parametrize("client", EACH)
def test_a_socket_that_an_ordinary_user_may_not_open_is_unknown_and_denied(daemon: Dockerd, tmp_path: Path,
                                                                           client: str) -> None:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    folder = daemon.socket.parent / "sshd"
    client = str(led_to(daemon, daemon.socket.parent / "bin", client))
    with throwaway_user() as user, sshd(folder, user=user,
                                        config=f"SetEnv PATH={client}:/usr/bin:/bin") as server:
        (tmp_path / "muster.yaml").write_text(
            f"version: 1\nnodes: {{n1: {{address: 127.0.0.1, port: {server.port}, user: {user}, "
            f"identity_file: {server.user_key}, "
            f"known_hosts_file: {server.known_hosts}}}}}\n")
        code, result = asked(tmp_path)
    assert (code, result["status"], result["origin"]) == (3, "unknown", "node"), result
    assert "permission denied" in result["reason"] and "root or the docker group" in result["reason"]


def test_a_machine_without_a_client_is_unknown_not_failed(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    code, result = asked(tmp_path, "--local", PATH=str(tmp_path / "bin"))
    assert (code, result["status"]) == (3, "unknown") and "docker" in result["reason"]


@pytest.mark.parametrize("client", EACH)
def test_another_machines_daemon_does_not_stand_for_the_nodes_own_whatever_the_login_is_set_to(
        daemon: Dockerd, tmp_path: Path, client: str) -> None:
    if Path("/var/run/docker.sock").exists():
        pytest.skip("this machine has a Docker daemon of its own")
    where = {"PATH": f"{client}:{os.environ['PATH']}"}
    config = tmp_path / ".docker" / "contexts" / "meta" / hashlib.sha256(b"far").hexdigest()
    config.mkdir(parents=True)
    meta = {"Name": "far", "Metadata": {},
            "Endpoints": {"docker": {"Host": daemon.host, "SkipTLSVerify": False}}}
    (config / "meta.json").write_text(json.dumps(meta))
    (tmp_path / ".docker" / "config.json").write_text('{"currentContext": "far"}')
    there = subprocess.run([f"{client}/docker", "version", "-f", "{{.Server.Version}}"],
                           env={"HOME": str(tmp_path), **where}, capture_output=True, check=False)
    assert there.returncode == 0, "the context leads to the daemon"
    for more in ({}, {"DOCKER_HOST": daemon.host}, {"DOCKER_CONTEXT": "far"}):
        code, result = asked(tmp_path, "--local", **where, **more)
        assert (code, result["status"]) == (1, "fail"), result
        assert "unix:///var/run/docker.sock" in result["findings"][0]["observed"]


def judged(home: Path, client: Path, *only: str, site: str = "") -> dict[str, Any]:
    """The results of these rules, by id, with a site's own rules if there are any."""
    folder = rules(home)
    if site:
        (Path(folder) / "site.yaml").write_text(site)
    done = muster("check", "--local", *(word for glob in only for word in ("--only", glob)), "--sku", "box",
                  "--rules", folder,
                  "--format", "json", "--full", home=home, timeout=60, PATH=f"{client}:{os.environ['PATH']}")
    assert done.stdout, done.stderr
    node = json.loads(done.stdout)["nodes"][0]
    return {result["rule"]: result for result in node["results"] if result["reason"] != "left out by --only"}


def settled(client: Path, name: str, state: str) -> None:
    """Waits until Docker says this state of the container."""
    def there() -> bool:
        return docker(client, "inspect", "-f", "{{.State.Status}}", name) == state

    wait_until(there, 60, f"{name} to be {state}")


@pytest.mark.parametrize("client", EACH)
def test_containers_and_images_of_a_real_daemon_are_judged(daemon: Dockerd, tmp_path: Path,
                                                           client: str) -> None:
    at = led_to(daemon, tmp_path / "bin", client)
    image = busybox(at, tmp_path)
    docker(at, "run", "-d", "--network", "none", "--name", "fine", image, "sleep", "1000")
    docker(at, "run", "-d", "--network", "none", "--name", "loops", "--restart", "always", image, "sh",
           "-c", "exit 3")
    docker(at, "run", "--network", "none", "--name", "ended", image, "sh", "-c", "exit 7", check=False)
    docker(at, "run", "-d", "--network", "none", "--name", "ill", "--health-cmd", "false",
           "--health-interval", "1s", "--health-retries", "1",
           image, "sleep", "1000")
    # Between two starts it waits for twice as long each time, 0.1 s at first: so long that a look falls into
    # it.
    wait_until(lambda: int(docker(at, "inspect", "-f", "{{.RestartCount}}", "loops")) >= 6, 60,
               "loops to have been started often")
    settled(at, "loops", "restarting")
    wait_until(lambda: docker(at, "inspect", "-f", "{{.State.Health.Status}}", "ill") == "unhealthy", 60,
               "ill to be unhealthy")
    key = docker(at, "inspect", "-f", "{{.Id}}", image)
    site = (
        f"- id: docker-images\n  enabled: true\n  with: {{images: ['{image}', '{image}@{key}', 'absent:1', "
        f"'{image}@sha256:{'e' * 64}']}}\n"
        "- id: container-left-over\n  enabled: true\n- id: container-stopped\n  with: {at_most: 0}\n")
    found = judged(tmp_path, at, "container-*", "docker-*", site=site)
    told = {rule: [(f["subject"], f["observed"]) for f in result["findings"]]
            for rule, result in found.items() if result["status"] == "fail"}
    assert told.pop("container-restarting") == [("loops", f"restarting ({image}), ended with exit status 3")]
    assert told.pop("container-unhealthy") == [("ill", f"unhealthy ({image})")]
    assert {subject for subject, _ in told.pop("container-left-over")} == {"fine", "ill"}
    assert told.pop("container-stopped") == [("containers", "1 have ended, 1 of them not with 0")]
    assert told.pop("docker-images") == [("absent:1", "not on the node"), (image, f"no digest, id {key}")]
    assert (found["container-dead"]["status"] == "pass"
            and found["docker-storage-driver"]["status"] == "pass"), found["docker-storage-driver"]
    docker(at, "rm", "-f", "loops", "ill")
    after = judged(tmp_path, at, "container-restarting", "container-unhealthy")
    assert {result["status"] for result in after.values()} == {"pass"}


def test_a_data_root_that_is_full_is_named(tmp_path: Path) -> None:
    require(DOCKERD and CLIENTS, "no Docker on this machine: apt-get install -y docker.io")
    with small_disk(tmp_path / "disk", megabytes=96) as disk, dockerd(disk / "data") as running:
        (disk / "fill").write_bytes(bytes(8 << 20))
        at = led_to(running, tmp_path / "bin", CLIENTS[0])
        found = judged(tmp_path, at, "docker-disk")["docker-disk"]
        assert (found["status"], found["findings"][0]["subject"]) == ("fail", f"{disk}/data on {disk}"), found
        assert found["findings"][0]["observed"].startswith("0.")
