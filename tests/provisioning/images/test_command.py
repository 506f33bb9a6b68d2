"""`muster images`: what it refuses, what it would do, which nodes it leaves out, and what it prints to
whom."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from healthcheck.store import leases
from healthcheck.store.file import opened
from provisioning.images.model import ImageState, NodeImage, NodeImages
from provisioning.images.progress import PullProgress
from provisioning.images.turns import PlaceTurns
from tests.command import muster
from tests.documents import validate
from tests.provisioning.remediate.bed import SCHEDULER
from tests.testbed.planted import executable
from tests.testbed.sshd import Sshd, sshd

DIGEST = "sha256:" + "a" * 64
ROOT = Path(__file__).parents[3]
REFERENCE = f"host.site/team/app:1.0@{DIGEST}"
# A runtime that has what it was asked to pull.
DOCKER = f"""#!/bin/sh
shift 2
case "$1" in
  pull) touch "$(dirname "$0")/pulled" ;;
  info) dirname "$0" ;;
  images) [ ! -e "$(dirname "$0")/pulled" ] || echo '{{"Repository":"host.site/team/app","Tag":"<none>","Digest":"{DIGEST}"}}' ;;
esac
"""  # noqa: E501


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Nodes that cannot be reached, a scheduler that knows of jobs, and a wanted image."""
    program = executable(
        tmp_path / "scheduler", SCHEDULER.format(python=sys.executable, path=str(tmp_path / "held.json")))
    (tmp_path / "muster.yaml").write_text(
        f"version: 1\ncordon: {{command: [{program}]}}\nnodes:\n\n"
        + "".join(f"  gpu{at:03d}: {{address: 127.0.0.1, port: {at}, rack: r1, sku: hgx-h100}}\n"
                  for at in (1, 2, 3))
        + "  old1: {lifecycle: retired}\n  cpu1: {address: 127.0.0.1, port: 4, sku: cpu-only}\n")
    (tmp_path / "rules").mkdir()
    (tmp_path / "rules/images.yaml").write_text(
        f"images:\n- {{id: app, image: '{REFERENCE}', skus: [hgx-h100]}}\n")
    return tmp_path


def test_nothing_wanted_is_said_so_and_a_tag_is_refused(home: Path) -> None:
    none = muster("images", "status", home=home)
    assert (none.returncode == 2
            and none.stderr.startswith(
                "muster: no image is wanted: no images.yaml in a folder of rules has one"))
    tag = muster("images", "pull", "gpu001", "--image", "host.site/team/app:1.0", home=home)
    assert (tag.returncode == 2
            and "it has no digest, and a tag may mean another image tomorrow" in tag.stderr
            and tag.stderr.count("\n") == 1)
    for words in (("--address", "/run/x.sock"), ("--address", "x", "--runtime", "docker"),
                  ("--namespace", "a b")):
        bad = muster("images", "status", "--image", REFERENCE, *words, home=home)
        assert bad.returncode == 2 and bad.stderr.count("\n") == 1 and f"muster: {words[0]}" in bad.stderr


def test_nodes_that_are_not_reached_are_unknown_and_no_pass(home: Path) -> None:
    done = muster("images", "status", "--rules", "rules", "--format", "json", home=home, code=3)
    document = json.loads(done.stdout)
    validate(document, "images-1")
    assert {one["node"]: one["state"] for one in document["nodes"]} == {
        "gpu001": "unknown", "gpu002": "unknown", "gpu003": "unknown", "cpu1": "nothing wanted"}
    table = muster("images", "status", "--rules", "rules", home=home)
    assert (table.returncode == 3 and "  unknown          3  gpu[001-003]  connect: " in table.stdout
            and "\x1b" not in table.stdout)
    assert table.stdout.endswith("4 nodes: 3 unknown\n")


def test_a_dry_run_shows_what_would_be_pulled_where_and_asks_no_node(home: Path) -> None:
    done = muster("images", "pull", "gpu[001-003],cpu1", "--rules", "rules", "--in-place", "2", "--fanout",
                  "8", "--dry-run", home=home)
    assert (done.returncode, done.stdout) == (0, (
        f"would pull {REFERENCE} where it is not there: gpu[001-003]\nnothing wanted: cpu1\n"
        "at most 8 nodes at a time, 2 of a rack or leaf; no node was asked\n"))


def test_nodes_with_a_job_or_a_test_are_left_out_unless_they_are_wanted(home: Path) -> None:
    (home / "held.json").write_text(json.dumps({"gpu001": {"holder": "nobody", "reason": "", "busy": True}}))
    with opened(home / "state", make=True) as store:
        leases.begin(store, "cordon", "command", ["gpu002"], "burn-in", "me", "{}", time.time(),
                     time.time() + 900)
    dry = muster("images", "pull", "gpu[001-003]", "--rules", "rules", "--dry-run", home=home)
    assert "where it is not there: gpu003\n" in dry.stdout
    assert ("gpu001: left out: a job is on it\n" in dry.stdout
            and "gpu002: left out: muster holds it for a test (muster-1-" in dry.stdout)
    done = muster("images", "pull", "gpu[001-003]", "--rules", "rules", "--format", "json", home=home)
    document = json.loads(done.stdout)
    validate(document, "images-1")
    left = {one["node"]: one["left_out"] for one in document["nodes"]}
    assert done.returncode == 3 and left["gpu001"] == "a job is on it" and left["gpu003"] is None
    anyway = muster("images", "pull", "gpu[001-003]", "--rules", "rules", "--beside-jobs",
                    "--dry-run", home=home)
    assert "where it is not there: gpu[001-003]\n" in anyway.stdout


def test_a_scheduler_that_does_not_answer_is_no_proof_that_no_job_is_there(home: Path) -> None:
    (home / "scheduler").write_text("#!/bin/sh\nexit 1\n")
    done = muster("images", "pull", "gpu001", "--rules", "rules", home=home)
    assert done.returncode == 2 and "muster: it is not known on which nodes a job is: " in done.stderr
    assert "--beside-jobs pulls there anyway" in done.stderr and done.stderr.count("\n") == 1


@pytest.fixture
def node(home: Path) -> Sshd:  # type: ignore[misc]
    """n1 is this machine over a real sshd, with a runtime of its own."""
    executable(home / "docker", DOCKER)
    with sshd(home / "sshd") as server:
        python = executable(home / "python3", f'#!/bin/sh\nexec {sys.executable} "$@"\n')
        (home / "muster.yaml").write_text(
            f"version: 1\ncordon: {{hostfile: bad}}\nnodes:\n  n1: {{address: 127.0.0.1, port: "
            f"{server.port}, user: {server.user}, "
            f"identity_file: {server.user_key}, known_hosts_file: {server.known_hosts}, python: {python}}}\n")
        yield server


def test_a_runtime_without_a_socket_is_unknown_over_a_real_connection(home: Path, node: Sshd) -> None:
    done = muster("images", "status", "--image", REFERENCE, "--runtime", "docker", "--address",
                  f"{home}/none.sock", home=home)
    assert (done.returncode == 3
            and f"no container runtime is found here: no socket of docker ({home}/none.sock)" in done.stdout)


class _Slow(PlaceTurns):
    def at_work(self) -> dict[str, float]:
        return {"slow1": 99.0}


def _done(name: str) -> NodeImages:
    return NodeImages(name, (NodeImage("a", ImageState.PRESENT, seconds=1.0),))


def test_a_log_gets_plain_lines_that_name_who_is_slow(capfd: pytest.CaptureFixture[str]) -> None:
    said = ""
    with PullProgress(4, _Slow([], 4), every_s=0.02) as progress:
        for at in range(3):
            progress.done(_done(f"n{at}"))
        end = time.monotonic() + 20
        while "slow1\n" not in said and time.monotonic() < end:
            said += capfd.readouterr().err
    assert ("muster: pull: 3 of 4 nodes, 0 without an image, 1 at work; slow: slow1\n" in said
            and "\x1b" not in said)


def test_a_terminal_gets_a_bar_that_names_who_is_slow() -> None:
    ours, theirs = pty.openpty()
    text = (
        "import sys; sys.path.insert(0, '.')\nfrom tests.provisioning.images.test_command import *\nfrom "
        "tests.provisioning.images.test_command "
        "import _Slow, _done\nwith PullProgress(4, _Slow([], 4)) as progress:\n  for name in 'abc': "
        "progress.done(_done(name))\n  sys.stdin.read()\n")
    with subprocess.Popen([sys.executable, "-c", text], cwd=ROOT, stdin=subprocess.PIPE, stderr=theirs,
                          env={**os.environ, "TERM": "xterm", "COLUMNS": "160"}) as process:
        os.close(theirs)
        shown = b""
        while (b"3 of 4 nodes, 0 without an image, 1 at work; slow: slow1" not in shown
               and (more := os.read(ours, 4096))):
            shown += more
        assert process.stdin is not None
        process.stdin.close()
        with contextlib.suppress(OSError):      # so Linux says that the other side has closed
            while os.read(ours, 4096):
                pass
    os.close(ours)
    assert process.returncode == 0
