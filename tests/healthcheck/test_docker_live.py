"""The Docker check against a real daemon: it answers, it hangs, it is gone, it may not be asked; with each client of this machine."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.command import muster
from tests.testbed.docker import DOCKERD, Dockerd, dockerd
from tests.testbed.require import require
from tests.testbed.sshd import SSHD, sshd
from tests.testbed.users import throwaway_user

pytestmark = [pytest.mark.root, pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to start a Docker daemon")]

# Clients before 23 exit with 0 when there is no daemon, and say so in their answer; later ones exit with 1.
CLIENTS = sorted({str(Path(folder)) for folder in ("/usr/bin", "/usr/local/bin") if shutil.which("docker", path=folder)})


@pytest.fixture
def daemon() -> Iterator[Dockerd]:
    require(DOCKERD and CLIENTS, "no Docker on this machine: apt-get install -y docker.io")
    with dockerd() as running:
        yield running


def rules(home: Path) -> str:
    """A folder of site rules with a SKU that needs Docker and nothing else that this machine may not have."""
    (home / "site" / "sku").mkdir(parents=True, exist_ok=True)
    (home / "site" / "sku" / "box.yaml").write_text("sku: box\ninherit: cpu-only\nnumbers: {docker: true}\nsource: the test\n")
    return str(home / "site")


def asked(home: Path, *words: str, **more: str) -> tuple[int, dict[str, Any]]:
    """The exit code and the result of docker-answers."""
    done = muster("check", *words, "--only", "docker-answers", "--sku", "box", "--rules", rules(home), "--format", "json", home=home, timeout=60, **more)
    node = json.loads(done.stdout)["nodes"][0]
    assert node["results"], node["reason"]
    result: dict[str, Any] = next(result for result in node["results"] if result["rule"] == "docker-answers")
    return done.returncode, result


@pytest.mark.parametrize("client", CLIENTS or [""])
def test_a_daemon_is_seen_to_answer_to_hang_and_to_be_gone(daemon: Dockerd, tmp_path: Path, client: str) -> None:
    where = {"PATH": f"{client}:{os.environ['PATH']}", "DOCKER_HOST": daemon.host}
    code, result = asked(tmp_path, "--local", **where)
    assert (code, result["status"]) == (0, "pass"), result
    daemon.stop()
    code, result = asked(tmp_path, "--local", **where)
    assert (code, result["status"], result["origin"]) == (3, "unknown", "node") and "did not answer within 10 s" in result["reason"], result
    daemon.go_on()
    assert asked(tmp_path, "--local", **where)[1]["status"] == "pass"
    daemon.kill()
    code, result = asked(tmp_path, "--local", **where)
    assert (code, result["status"]) == (1, "fail")
    assert "Cannot connect to the Docker daemon" in result["findings"][0]["observed"], result


@pytest.mark.parametrize("client", CLIENTS or [""])
def test_a_socket_that_an_ordinary_user_may_not_open_is_unknown_and_denied(daemon: Dockerd, tmp_path: Path, client: str) -> None:
    require(SSHD, "no sshd on this machine: apt-get install -y openssh-server")
    folder = daemon.socket.parent / "sshd"
    with throwaway_user() as user, sshd(folder, user=user, config=f"SetEnv PATH={client}:/usr/bin:/bin DOCKER_HOST={daemon.host}") as server:
        (tmp_path / "muster.yaml").write_text(
            f"version: 1\nnodes: {{n1: {{address: 127.0.0.1, port: {server.port}, user: {user}, identity_file: {server.user_key}, "
            f"known_hosts_file: {server.known_hosts}}}}}\n")
        code, result = asked(tmp_path)
    assert (code, result["status"], result["origin"]) == (3, "unknown", "node"), result
    assert "permission denied" in result["reason"] and "root or the docker group" in result["reason"]


def test_a_machine_without_a_client_is_unknown_not_failed(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    code, result = asked(tmp_path, "--local", PATH=str(tmp_path / "bin"))
    assert (code, result["status"]) == (3, "unknown") and "docker" in result["reason"]
