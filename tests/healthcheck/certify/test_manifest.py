"""The manifest: certificates issued, renewed and revoked, signed, never an older one,
and whole whatever is killed."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.certify.certificate import (
    Certificate,
    CertificateManifest,
    canonical,
    from_document,
    numbered,
    to_document,
)
from healthcheck.certify.keys import load_keys
from healthcheck.certify.manifest import checked_manifest, issue, load_manifest, revoke
from healthcheck.certify.pair import read_pair, write_pair
from inventory.errors import CertificateError
from tests.healthcheck.certify.world import HARDWARE, NOW, Head, dying, head, passed
from tests.tries import tries


@pytest.fixture
def made(tmp_path: Path) -> Head:
    found = head(tmp_path / "state")
    found.certify("n1", "n2")
    return found


def test_a_certificate_says_what_ran_when_and_for_which_hardware(made: Head) -> None:
    manifest = load_manifest(made.state)
    held = manifest.nodes["n1"]
    assert (held.stage, held.at, held.boot, held.hardware) == ("standard", NOW + 1, "b1", HARDWARE)
    assert held.id == numbered("n1", held).id != manifest.nodes["n2"].id
    assert manifest.cluster == "alpha"
    assert from_document(to_document(manifest)) == manifest


def test_a_shorter_burn_in_of_the_same_hardware_renews_what_a_longer_one_has_proven(made: Head) -> None:
    made.now += 86400
    made.certify("n1", stage="quick", boot="b2")
    held = load_manifest(made.state).nodes["n1"]
    assert (held.stage, held.at, held.renewed, held.boot) == ("standard", NOW + 1, NOW + 86402, "b2")
    made.now += 86400
    made.certify("n1", stage="quick", hardware={**HARDWARE, "board": {"serial": "C13"}})
    held = load_manifest(made.state).nodes["n1"]
    # of another board nothing longer was ever proven
    assert (held.stage, held.renewed) == ("quick", None)
    made.certify("n1", stage="soak")
    assert load_manifest(made.state).nodes["n1"].stage == "soak"


def test_a_result_that_is_older_than_the_certificate_changes_nothing(made: Head) -> None:
    with pytest.raises(CertificateError, match="n1: this result is older than the one of its certificate"):
        made.now -= 500
        made.certify("n1")


def test_a_revoked_certificate_stays_revoked_and_only_a_new_one_counts(made: Head) -> None:
    (one,) = revoke(made.state, ["n1"], "a leak", "root", made.now)
    manifest = load_manifest(made.state)
    assert manifest.revocation("n1") == one and manifest.revocation("n2") is None
    assert (one.why, one.who) == ("a leak", "root")
    assert revoke(made.state, ["n1"], "again", "root", made.now) == ()
    made.now += 86400
    made.certify("n1", stage="quick")
    manifest = load_manifest(made.state)
    # not what it was revoked for
    assert manifest.revocation("n1") is None and manifest.nodes["n1"].stage == "quick"
    with pytest.raises(CertificateError, match="n9: has no certificate"):
        revoke(made.state, ["n9"], "x", "root", made.now)


def test_a_result_from_before_a_revocation_brings_nothing_back_whatever_it_was(made: Head) -> None:
    made.certify("n1", stage="soak")
    before = made.now
    made.certify("n1", stage="quick")
    made.now += 1
    revoke(made.state, ["n1"], "a leak", "root", made.now)
    for at in (before, made.now):
        with pytest.raises(CertificateError, match="n1: its certificate was revoked after this result; only "
                                                   "a new burn-in restores it"):
            issue(made.state, [passed("n1", "soak", int(at), versions={"driver": "2"})], {"n1": HARDWARE},
                  made.now + 10)
    assert load_manifest(made.state).revocation("n1") is not None


def test_a_result_of_the_future_certifies_nothing(made: Head) -> None:
    with pytest.raises(CertificateError, match="n1: this result is in the future; check the clocks"):
        issue(made.state, [passed("n1", at=int(made.now) + 86400)], {"n1": HARDWARE}, made.now)


def test_an_older_manifest_that_is_put_back_does_not_hold(made: Head) -> None:
    folder = str(made.state / "certificates")
    data, signature = read_pair(folder, "certificates.json")
    revoke(made.state, ["n1"], "a leak", "root", made.now)
    write_pair(folder, "certificates.json", json.loads(data)["serial"], data, signature)
    with pytest.raises(CertificateError, match="an older one was restored"):
        load_manifest(made.state)


def test_a_manifest_that_is_gone_is_not_taken_for_one_that_never_was(made: Head) -> None:
    assert load_manifest(head(made.state / "new").state) == CertificateManifest("alpha")
    (made.state / "certificates/current").unlink()
    with pytest.raises(CertificateError, match="put it back from a copy"):
        load_manifest(made.state)


def test_a_foreign_manifest_or_one_of_another_cluster_does_not_hold(made: Head, tmp_path: Path) -> None:
    other = head(tmp_path / "other", "beta")
    other.certify("n1")
    pair = read_pair(str(other.state / "certificates"), "certificates.json")
    with pytest.raises(CertificateError, match="not signed by a key trusted"):
        checked_manifest(*pair, load_keys(made.state), "x")
    keys = load_keys(other.state)
    with pytest.raises(CertificateError, match="is of the cluster 'beta'"):
        checked_manifest(*pair, type(keys)("alpha", keys.signing, keys.keys), "x")


@pytest.mark.parametrize("step", [10, pytest.param(3, marks=pytest.mark.slow)])
def test_a_manifest_cut_anywhere_or_with_any_bit_flipped_never_holds(made: Head, step: int) -> None:
    keys = load_keys(made.state)
    data, signature = read_pair(str(made.state / "certificates"), "certificates.json")
    for at in range(0, len(data), step):
        wrong = bytearray(data)
        wrong[at] ^= 1 << random.Random(at).randrange(8)
        for altered in (data[:at], bytes(wrong)):
            with pytest.raises(CertificateError):
                checked_manifest(altered, signature, keys, "x")


def test_killed_anywhere_revoking_leaves_the_old_manifest_or_the_new_one(made: Head) -> None:
    for after in range(300):
        with dying(after) as dead:
            revoke(made.state, ["n1"], "a leak", "root", made.now)
        manifest = load_manifest(made.state)
        assert list(manifest.nodes) == ["n1", "n2"]
        if manifest.revoked:
            break
        assert dead()
    assert manifest.revocation("n1") is not None
    made.certify("n2", stage="soak")        # and it goes on
    assert load_manifest(made.state).serial > manifest.serial


JSON = st.recursive(st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
                    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
                        st.text(max_size=5), inner, max_size=3), max_leaves=8)


@given(st.sampled_from(("nodes", "revoked", "cluster", "serial", "made", "schema", "stage", "at", "what",
                        "figures", "hardware", "id", "boot", "renewed")),
       JSON)
@settings(max_examples=tries(150))
def test_a_key_of_the_manifest_that_is_anything_is_read_or_refused_and_no_traceback(
    key: str, value: Any,
) -> None:
    one = numbered("n1", Certificate("quick", NOW, ({"stage": "node"},), {"a": 1.0}, {"driver": "1"},
                                     HARDWARE, "b1", "d"))
    document = to_document(CertificateManifest("alpha", 3, NOW, {"n1": one}))
    (document if key in document else document["nodes"]["n1"])[key] = value
    try:
        found = from_document(document)
    except ValueError:
        return
    assert from_document(json.loads(canonical(to_document(found)))) == found


def test_a_certificate_of_another_node_is_not_one_of_this() -> None:
    one = numbered("n1", Certificate("quick", NOW, (), {}, {}, {}, None, "d"))
    document = to_document(CertificateManifest("alpha", 3, NOW, {"n2": one}))
    with pytest.raises(ValueError, match="the certificate of 'n2' does not fit its id"):
        from_document(document)


def test_a_stage_that_there_is_not_certifies_no_one(made: Head) -> None:
    with pytest.raises(CertificateError, match="n1: 'long' is not a stage; there are quick, standard, soak"):
        made.certify("n1", stage="long")
    assert passed().stage == "standard"
