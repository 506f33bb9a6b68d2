"""The snapshot on its way to nodes: pushed over a real sshd, by the oldest Python that a node may have, and
fetched by a real agent."""

from __future__ import annotations

import json
import random
import stat
import sys
import zlib
from pathlib import Path

import pytest

from healthcheck.certify.keys import NAMESPACES, load_keys, retire_key, use_key
from healthcheck.certify.pair import read_pair
from healthcheck.gate.locate import load
from inventory.model import Node
from inventory.transport.base import Limits
from inventory.transport.local import LocalTransport
from inventory.transport.remote import RemoteTransport
from provisioning.gate.push import Pushed, answered, push
from tests.healthcheck.agent import world as agents
from tests.healthcheck.certify.world import Head, head
from tests.testbed.require import require, require_fleet
from tests.testbed.sshd import Sshd

HERE = Node("gpu001", python=sys.executable)
GATE, TRUSTED, SOURCE = "var/lib/muster/gate", "etc/muster/gate.pub", "etc/muster/gate.from"


@pytest.fixture
def made(tmp_path: Path) -> Head:
    return head(tmp_path / "head")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


def trust(made: Head) -> str:
    return "".join(key.public.line(NAMESPACES[:1]) for key in load_keys(made.state).trusted)


def pushed(
    made: Head, root: Path, node: Node = HERE, transport: object = None, *, keys: bool = True,
    source: str | None = None,
) -> Pushed:
    (done,) = push([node], transport or LocalTransport(), Limits(),     # type: ignore[arg-type]
                   keys=trust(made) if keys else None, source=source,
                   snapshot=read_pair(str(made.state / "gate"), "gate.json"), root=str(root))
    return done


def kept(root: Path) -> int:
    return load(str(root / GATE), str(root / TRUSTED)).serial


@pytest.mark.parametrize("version", ["3.8", pytest.param("3.9", marks=pytest.mark.slow), ""])
def test_a_node_trusts_keeps_and_is_reported_where_to_fetch_from_in_one_exec(
    made: Head, root: Path, version: str,
) -> None:
    interpreter = agents.python(version) if version else Path(sys.executable)
    require(interpreter is not None, f"no Python {version} on this machine")
    snapshot = made.publish(*(f"gpu{number:03d}" for number in range(64)))
    done = pushed(made, root, Node("gpu001", python=str(interpreter)), source="http://head:9847/gate\n")
    assert done == Pushed(
        "gpu001", True, f"/etc/muster/gate.pub, /etc/muster/gate.from, snapshot {snapshot.serial} of alpha")
    assert kept(root) == snapshot.serial
    assert (root / SOURCE).read_text() == "http://head:9847/gate\n"
    assert stat.S_IMODE((root / TRUSTED).stat().st_mode) == 0o644
    assert pushed(made, root, keys=False).message == f"nothing newer: snapshot {snapshot.serial} of alpha"


def test_over_a_real_sshd_it_is_the_same(made: Head, root: Path, plain_sshd: Sshd) -> None:
    snapshot = made.publish()
    assert pushed(made, root, plain_sshd.node("gpu001", python=sys.executable), RemoteTransport()).ok
    assert kept(root) == snapshot.serial


def test_a_node_that_was_never_told_whom_to_trust_keeps_nothing(made: Head, root: Path) -> None:
    made.publish()
    done = pushed(made, root, keys=False)
    assert not done.ok and "no trusted key" in done.message
    assert not (root / GATE / "gate.json").exists()


def test_after_a_key_was_stolen_a_push_alone_ends_the_trust_in_it(made: Head, root: Path) -> None:
    made.publish()
    pushed(made, root)
    made.key()
    use_key(made.state, "key2")
    retire_key(made.state, "key1", made.now)
    made.publish()
    assert not pushed(made, root, keys=False).ok        # what the old key has not announced is not trusted
    assert pushed(made, root).ok
    assert (
        root / TRUSTED).read_text().count("ssh-ed25519") == 1 and "alpha-key2" in (root / TRUSTED).read_text()


def test_a_node_moves_to_another_cluster_when_its_new_head_says_whom_to_trust(
    made: Head, root: Path, tmp_path: Path,
) -> None:
    made.publish(now=made.now + 10_000)
    pushed(made, root)
    beta = head(tmp_path / "beta", "beta")
    snapshot = beta.publish()
    assert not pushed(beta, root, keys=False).ok
    assert pushed(beta, root).ok
    assert kept(root) == snapshot.serial


def test_an_agent_fetches_after_each_look_and_looks_all_the_same_when_it_cannot(
    made: Head, tmp_path: Path,
) -> None:
    require_fleet()
    node = agents.world(tmp_path, agents.bundle(), Node("gpu001", sku="hgx-h100"))
    (node.tree / "etc/muster").mkdir(parents=True, exist_ok=True)
    (node.tree / TRUSTED).write_text(trust(made))
    shared = tmp_path / "shared"
    shared.mkdir()
    snapshot = made.publish(shared=(shared,))
    (node.tree / SOURCE).write_text(f"{shared}\n")
    done = node.run()
    assert kept(node.tree) == snapshot.serial, done.stderr
    looked = node.result["time"]
    made.publish(shared=(shared,))
    (node.tree / SOURCE).write_text("http://127.0.0.1:1/gate\n")
    done = node.run(interpreter=agents.python("3.8") or Path("/usr/bin/python3"))
    assert "muster: the gate's snapshot: http://127.0.0.1:1/gate" in done.stderr
    assert node.result["time"] > looked and kept(node.tree) == snapshot.serial
    mode = stat.S_IMODE((node.tree / GATE / "gate.json").stat().st_mode)
    assert mode == 0o644 and stat.S_IMODE((node.tree / "var/lib/muster").stat().st_mode) & 0o011 == 0o011


@pytest.mark.parametrize("body",
                         [b"", b"[]", b"{", b"\xff", json.dumps({"ok": 1, "message": "\x1b[2J"}).encode(),
                          random.Random(3).randbytes(200)])
def test_whatever_a_node_answers_is_a_word_on_that_node(body: bytes) -> None:
    for sent in (body, zlib.compress(body)):
        done = answered("gpu001", sent)
        assert not done.ok and done.message.isprintable()
