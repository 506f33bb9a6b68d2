"""How a node comes by the snapshot: from a folder, from the exporter, pushed, or by its agent;
and which keys it trusts from then on."""

from __future__ import annotations

import gzip
import http.server
import json
import os
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from healthcheck.certify.keys import load_keys, retire_key, signer_of, use_key
from healthcheck.certify.sshsig import trusted_keys
from healthcheck.exporter.board import Board
from healthcheck.exporter.gatepage import GatePage
from healthcheck.exporter.page import Page
from healthcheck.exporter.server import Server, serve
from healthcheck.exporter.source import FleetStatus
from healthcheck.gate.fetch import fetch, keep, source_in
from healthcheck.gate.locate import load
from healthcheck.gate.publish import SignedSnapshot
from healthcheck.gate.reading import bytes_of
from healthcheck.gate.snapshot import NAME, SnapshotRefused, seen
from tests.command import started
from tests.healthcheck.certify.world import Head, Place, dying, head
from tests.healthcheck.exporter import made as exported

LINE = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOw36bRb5BRkBAUrW7R/Yw8dgQL7ClpsmuwOjaSGueva x"


def took(node: Place, snapshot: SignedSnapshot) -> str:
    return keep(snapshot.data, snapshot.signature, node.folder, node.trusted)


def trusted(node: Place) -> list[str]:
    return [key.comment for key in trusted_keys(Path(node.trusted).read_bytes(), "muster-gate")]


def test_a_folder_that_both_see_is_fetched_from_and_only_what_is_newer_is_kept(
    made: Head, node: Place, tmp_path: Path,
) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    first = made.publish(shared=(shared,))
    assert fetch(str(shared), node.folder, node.trusted) == f"snapshot {first.serial} of alpha"
    assert fetch(str(shared), node.folder, node.trusted).startswith("nothing newer")
    second = made.publish(shared=(shared,))
    fetch(str(shared), node.folder, node.trusted)
    assert load(node.folder, node.trusted).serial == second.serial
    with pytest.raises(SnapshotRefused,
                       match=f"number {first.serial}, but this node has seen {second.serial}"):
        took(node, first)
    assert load(node.folder, node.trusted).serial == second.serial


def test_a_node_whose_python_lacks_sqlite_fetches_all_the_same(made: Head, node: Place,
                                                               tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    first = made.publish(shared=(shared,))
    (tmp_path / "sqlite3.py").write_text("raise ImportError('there is no SQLite')\n")
    done = started("gate", "fetch", str(shared), "--folder", node.folder, "--keys", node.trusted,
                   home=tmp_path,
                   PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stdout) == (0, f"snapshot {first.serial} of alpha\n"), done


def test_everybody_on_the_node_may_read_what_is_kept(made: Head, node: Place) -> None:
    mask = os.umask(0o077)      # as an agent runs
    try:
        took(node, made.publish())
    finally:
        os.umask(mask)
    folder = Path(node.folder)
    for path in (folder, folder / "current", folder / "gate.json", folder / "gate.json.sig",
                 folder / "seen.json"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o044 == 0o044, path
    assert stat.S_IMODE(folder.parent.stat().st_mode) & 0o011 == 0o011


def test_killed_anywhere_keeping_it_leaves_the_old_snapshot_or_the_new_one_and_keys_that_trust_it(
    made: Head, node: Place,
) -> None:
    old = made.publish()
    took(node, old)
    made.key()
    use_after = made.publish()          # announces the new key, signed by the old one
    took(node, use_after)
    use_key(made.state, "key2")
    retire_key(made.state, "key1", made.now)
    # Signed by a key that was announced, and names it alone: keys, pair and memory all change.
    new = made.publish()
    found = []
    for after in range(300):
        with dying(after) as dead:
            took(node, new)
        found.append(load(node.folder, node.trusted).serial)
        assert found[-1] in (use_after.serial, new.serial)
        if not dead():
            break
    assert found == sorted(found) and found[-1] == new.serial and found[0] == use_after.serial
    assert trusted(node) == ["alpha-key2"] and seen(node.folder) == ("alpha", new.serial)
    newest = made.publish()
    took(node, newest)      # and what the dead have left is gone with the next
    assert sorted(path.name for path in Path(node.folder).iterdir()) == sorted(
        [".lock", str(new.serial), str(newest.serial), "current", "gate.json", "gate.json.sig", "seen.json"])


def test_a_new_key_is_trusted_because_the_old_one_says_so_and_the_old_one_goes(
    made: Head, node: Place,
) -> None:
    took(node, made.publish())
    made.key()
    took(node, made.publish())
    assert trusted(node) == ["alpha-key1", "alpha-key2"]
    use_key(made.state, "key2")
    took(node, made.publish())
    assert trusted(node) == ["alpha-key1", "alpha-key2"]
    retire_key(made.state, "key1", made.now)
    took(node, made.publish())
    assert trusted(node) == ["alpha-key2"]


def test_a_key_that_no_one_announced_signs_nothing_here(made: Head, node: Place) -> None:
    took(node, made.publish())
    before = Path(node.trusted).read_bytes()
    made.key()
    use_key(made.state, "key2")
    with pytest.raises(SnapshotRefused, match="it was not signed by a key trusted here"):
        took(node, made.publish())
    assert Path(node.trusted).read_bytes() == before


@pytest.mark.parametrize("keys", [[LINE], ["nothing"], [7], {"a": 1}, "key", ["ssh-ed25519 AAAA"],
                                  [LINE] * 40])
def test_a_snapshot_that_would_lock_its_own_key_out_or_names_none_is_refused(
    made: Head, node: Place, keys: object,
) -> None:
    before = Path(node.trusted).read_bytes()
    held = load_keys(made.state)
    data = bytes_of({**json.loads(made.publish().data), "keys": keys})
    with pytest.raises(SnapshotRefused, match="the snapshot is not valid"):
        keep(data, signer_of(made.state, held).signed(data, "muster-gate"), node.folder, node.trusted)
    assert Path(node.trusted).read_bytes() == before and not Path(node.folder, "gate.json").exists()


def test_a_snapshot_that_says_nothing_of_keys_changes_none(made: Head, node: Place) -> None:
    before = Path(node.trusted).read_bytes()
    data = bytes_of({**json.loads(made.publish().data), "keys": []})
    keep(data, signer_of(made.state, load_keys(made.state)).signed(data, "muster-gate"), node.folder,
         node.trusted)
    assert Path(node.trusted).read_bytes() == before


def test_a_retired_key_signs_nothing_once_the_node_was_told(made: Head, node: Place, tmp_path: Path) -> None:
    stolen = (made.state / "keys/key1.key").read_bytes(), (made.state / "keys/keys.json").read_bytes()
    took(node, made.publish())
    made.key()
    use_key(made.state, "key2")
    retire_key(made.state, "key1", made.now)
    Path(node.trusted).write_bytes(made.trusted())      # over SSH: muster gate push --trust
    took(node, made.publish())
    thief = Head(tmp_path / "thief", made.now + 1e6)
    (thief.state / "keys").mkdir(parents=True)
    (thief.state / "keys/key1.key").touch(0o600)
    (thief.state / "keys/key1.key").write_bytes(stolen[0])
    (thief.state / "keys/keys.json").write_bytes(stolen[1])
    with pytest.raises(SnapshotRefused, match="it was not signed by a key trusted here"):
        took(node, thief.publish())


class _Nothing:
    def read(self, now: float) -> FleetStatus | None:
        return exported.fleet()

    def close(self) -> None:
        pass


@contextmanager
def exporter(folder: Path) -> Iterator[str]:
    """The exporter's own server over this folder; gives the address."""
    server = Server("127.0.0.1", 0)
    server.board = Board(_Nothing(), Page(3600), lambda: exported.PROCESS, gate=GatePage(folder, NAME).answer)
    stop = serve(server)
    try:
        yield f"http://127.0.0.1:{server.port}/gate"
    finally:
        stop()


def test_the_exporter_serves_the_newest_and_says_when_there_is_nothing_newer(made: Head, node: Place) -> None:
    with exporter(made.state / "gate") as url:
        with pytest.raises(SnapshotRefused, match="answered 404"):
            fetch(url, node.folder, node.trusted)
        for _ in range(2):
            snapshot = made.publish(*(f"gpu{number:04d}" for number in range(500)))
            assert fetch(url, node.folder, node.trusted) == f"snapshot {snapshot.serial} of alpha"
            assert fetch(url, node.folder, node.trusted) == "nothing newer"
        assert load(node.folder, node.trusted).serial == snapshot.serial
        # Where what is kept does not hold, the newest is asked for whatever its number.
        Path(node.folder, "current", "gate.json").write_bytes(b"")
        assert fetch(url, node.folder, node.trusted) == f"snapshot {snapshot.serial} of alpha"
        assert load(node.folder, node.trusted).serial == snapshot.serial


@contextmanager
def answering(body: bytes, code: int = 200, **headers: str) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(code)
            for name, value in {"Content-Length": str(len(body)),
                                **{name.replace("_", "-"): text for name, text in headers.items()}}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/gate"
    finally:
        server.shutdown()
        server.server_close()


def test_whatever_answers_in_the_exporters_place_changes_nothing(
    made: Head, node: Place, tmp_path: Path,
) -> None:
    good = made.publish()
    took(node, good)
    foreign = head(tmp_path / "foreign").publish(now=made.now + 1000)
    whole = good.signature + good.data
    answers: list[tuple[bytes, int, dict[str, str], str]] = [
        (b"", 200, {}, "no signed snapshot"), (b"<html>login</html>", 200, {}, "no signed snapshot"),
        (b"", 500, {}, "answered 500"), (foreign.signature + foreign.data, 200, {},
                                         "not signed by a key trusted"), (good.signature, 200, {}, "altered"),
        (whole[:-9], 200, {}, "altered"), (b"nothing", 200, {"Content_Encoding": "gzip"}, "damaged"),
        (gzip.compress(whole)[:-30], 200, {"Content_Encoding": "gzip"}, "cut, or too large"),
        (gzip.compress(bytes(80 << 20), 1), 200, {"Content_Encoding": "gzip"}, "cut, or too large"),
        (b"", 302, {"Location": "http://127.0.0.1:1/"}, "answered 302"),
        (whole[:200], 200, {"Content_Length": "99999"}, "no signed snapshot"),
    ]
    for body, code, headers, match in answers:
        with answering(body, code, **headers) as url, pytest.raises(SnapshotRefused, match=match):
            fetch(url, node.folder, node.trusted)
    with pytest.raises(SnapshotRefused, match="refused"):
        fetch("http://127.0.0.1:1/gate", node.folder, node.trusted)
    with pytest.raises(SnapshotRefused, match=r"No such file|no such folder"):
        fetch("file:///etc/passwd", node.folder, node.trusted)
    assert load(node.folder, node.trusted).serial == good.serial


def test_where_from_is_one_line_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "gate.from"
    assert source_in(str(path)) is None
    for text, source in (("", None), ("# nothing\n\n", None),
                         ("# head\nhttp://head:9847/gate\n", "http://head:9847/gate")):
        path.write_text(text)
        assert source_in(str(path)) == source
    path.write_bytes(b"\xff\xfe")
    assert source_in(str(path)) is None
