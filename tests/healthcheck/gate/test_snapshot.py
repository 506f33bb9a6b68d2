"""What a node takes for the snapshot: signed by a key that it trusts, whole, of its cluster,
and never older than one it has seen."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.certify.pair import NoPair, read_pair, write_pair
from healthcheck.gate.fetch import keep, parted
from healthcheck.gate.locate import Forged, Missing, load
from healthcheck.gate.snapshot import SnapshotRefused, keys_in, seen
from tests.healthcheck.certify.world import Head, Place, head, place
from tests.tries import tries


def kept(made: Head, node: Place) -> int:
    snapshot = made.publish()
    keep(snapshot.data, snapshot.signature, node.folder, node.trusted)
    return snapshot.serial


def plain(node: Place, data: bytes, signature: bytes) -> None:
    """As files that somebody has put there by hand."""
    Path(node.folder).mkdir(exist_ok=True)
    Path(node.folder, "gate.json").write_bytes(data)
    Path(node.folder, "gate.json.sig").write_bytes(signature)


def test_what_was_kept_is_read_and_verified_anew(made: Head, node: Place) -> None:
    serial = kept(made, node)
    found = load(node.folder, node.trusted)
    assert (found.serial, found.cluster, found.names()) == (serial, "alpha", ["n1", "n2"])
    assert seen(node.folder) == ("alpha", serial)


def test_without_any_there_is_none_and_without_keys_none_is_trusted(
    made: Head, node: Place, tmp_path: Path,
) -> None:
    with pytest.raises(Missing, match=r"no such folder|No such file"):
        load(node.folder, node.trusted)
    kept(made, node)
    with pytest.raises(Missing, match=r"no trusted key.*muster gate push"):
        load(node.folder, str(tmp_path / "nothing"))
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(Missing, match="contains no ed25519 key"):
        load(node.folder, str(tmp_path / "empty"))


@pytest.mark.parametrize("mode", [0o666, 0o664, 0o646])
def test_keys_that_others_may_have_put_there_are_not_trusted(made: Head, node: Place, mode: int) -> None:
    kept(made, node)
    Path(node.trusted).chmod(mode)
    with pytest.raises(Missing, match="is writable by others"):
        load(node.folder, node.trusted)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="needs root: gives a file to another user")
def test_keys_of_another_user_are_not_trusted(made: Head, node: Place) -> None:
    kept(made, node)
    os.chown(node.trusted, 65534, 65534)
    with pytest.raises(SnapshotRefused, match="is writable by others"):
        keys_in(node.trusted)


def test_a_foreign_altered_or_older_snapshot_is_refused(made: Head, node: Place, tmp_path: Path) -> None:
    old = made.publish()
    keep(old.data, old.signature, node.folder, node.trusted)
    new = made.publish()
    keep(new.data, new.signature, node.folder, node.trusted)
    foreign = head(tmp_path / "foreign").publish()
    for data, signature, match in ((foreign.data, foreign.signature,
                                    "it was not signed by a key trusted here"),
                                   (new.data.replace(b"healthy", b"Healthy"), new.signature, "altered"),
                                   (new.data, old.signature, "altered"),
                                   (old.data, old.signature,
                                    f"older snapshot was restored: number {old.serial}")):
        write_pair(node.folder, "gate.json", 1, data, signature)
        with pytest.raises(Forged, match=match):
            load(node.folder, node.trusted)


def test_a_snapshot_of_another_cluster_is_refused_though_its_key_is_trusted(
    made: Head, tmp_path: Path,
) -> None:
    beta = head(tmp_path / "beta", "beta")
    node = place(tmp_path / "both", made, beta)
    kept(made, node)
    Path(node.trusted).write_bytes(made.trusted() + beta.trusted())
    other = beta.publish(now=beta.now + 500)
    with pytest.raises(SnapshotRefused, match="of another cluster, 'beta'; this node is of 'alpha'"):
        keep(other.data, other.signature, node.folder, node.trusted)
    write_pair(node.folder, "gate.json", 1, other.data, other.signature)
    with pytest.raises(Forged, match="of another cluster"):
        load(node.folder, node.trusted)


@pytest.mark.parametrize("step", [7, pytest.param(1, marks=pytest.mark.slow)])
def test_a_snapshot_cut_anywhere_or_with_any_bit_flipped_is_never_taken(
    made: Head, node: Place, step: int,
) -> None:
    whole = made.publish("n1")
    assert len(whole.data) < 1000
    for at in range(0, len(whole.data), step):
        wrong = bytearray(whole.data)
        wrong[at] ^= 1 << random.Random(at).randrange(8)
        for data in (whole.data[:at], bytes(wrong)):
            plain(node, data, whole.signature)
            with pytest.raises(Forged):
                load(node.folder, node.trusted)
    for at in range(0, len(whole.signature), step):
        plain(node, whole.data, whole.signature[:at])
        with pytest.raises(Forged):
            load(node.folder, node.trusted)
    plain(node, whole.data, whole.signature)
    assert load(node.folder, node.trusted).serial == whole.serial


def test_a_damaged_memory_opens_nothing_and_a_fetch_mends_it(made: Head, node: Place) -> None:
    serial = kept(made, node)
    path = Path(node.folder, "seen.json")
    whole = path.read_bytes()
    for damaged in (*(whole[:at] for at in range(len(whole) - 1)), b"[]", b"null",
                    b'{"cluster": 1, "serial": 2}', b"\xff" * 9, b"[" * 4096,
                    b'{"cluster": "alpha", "serial": true}'):
        path.write_bytes(damaged)
        with pytest.raises(Missing, match="is damaged"):
            load(node.folder, node.trusted)
    old = made.publish(now=made.now - 5000)
    assert old.serial > serial      # whatever the clock says
    keep(old.data, old.signature, node.folder, node.trusted)
    assert seen(node.folder) == ("alpha", old.serial)


@given(st.binary(max_size=200), st.binary(max_size=200))
@settings(max_examples=tries(60), deadline=None)
def test_no_bytes_are_a_snapshot_by_chance(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, signature: bytes,
) -> None:
    folder = tmp_path_factory.mktemp("node")
    node = place(folder / "n", head(folder / "head"))
    plain(node, data, signature)
    with pytest.raises(Forged):
        load(node.folder, node.trusted)
    with pytest.raises(SnapshotRefused):
        keep(*parted(signature + data), node.folder, node.trusted)


def test_a_pair_is_never_half_of_one_and_half_of_another(made: Head, tmp_path: Path) -> None:
    """A reader that has found its folder reads both of it, though a writer switches in between."""
    one, two = made.publish(), made.publish()
    write_pair(str(tmp_path), "gate.json", one.serial, one.data, one.signature)
    real = os.open
    switched: list[object] = []

    def switching(path: object, flags: int, *more: object, **named: object) -> int:
        if path == "gate.json.sig" and not switched:
            switched.append(path)
            write_pair(str(tmp_path), "gate.json", two.serial, two.data, two.signature)
        return real(path, flags, *more, **named)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "open", switching)
        assert read_pair(str(tmp_path), "gate.json") == (one.data, one.signature)
    assert switched and read_pair(str(tmp_path), "gate.json") == (two.data, two.signature)
    # People and ssh-keygen find them by their plain names.
    assert ((tmp_path / "gate.json").read_bytes() == two.data and (tmp_path / "gate.json.sig").read_bytes()
            == two.signature)


def test_a_pipe_in_the_place_of_a_snapshot_keeps_no_one_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "gate.json")
    (tmp_path / "gate.json.sig").write_bytes(b"")
    assert read_pair(str(tmp_path), "gate.json") == (b"", b"")
    with pytest.raises(NoPair, match=r"no such folder|No such file"):
        read_pair(str(tmp_path / "nowhere"), "gate.json")
