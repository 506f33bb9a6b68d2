"""The verifier in plain Python: RFC 8032's own vectors, agreement with a library,
and what a library alone would let through."""

from __future__ import annotations

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given, settings
from hypothesis import strategies as st

from healthcheck.certify.ed25519 import ed25519_holds
from tests.tries import tries

ORDER = 2**252 + 27742317777372353535851937790883648493
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
PUBLIC = KEY.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
# RFC 8032, section 7.1: public key, message, signature.
VECTORS = {
    "TEST 1": (
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a", "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b"
    ), "TEST 2": (
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c", "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00"
    ), "TEST 3": (
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025", "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    ), "TEST SHA(abc)": (
        "ec172b93ad5e563bf4932c70e1245034c35467ef2efd4d64ebf819683467e2bf",
        "ddaf35a193617abacc417349ae20413112e6fa4e89a97ea20a9eeee64b55d39a2192992a274fc1a836ba3c23a3feebbd454d4423643ce80e2a9ac94fa54ca49f",
        "dc2a4459e7369633a52b1bf277839a00201009a3efbf3ecb69bea2186c26b58909351fc9ac90b3ecfdfbc7c66431e0303dca179c138ac17ad9bef1177331a704"
    ),}


@pytest.mark.parametrize("name", VECTORS)
def test_the_vectors_of_the_rfc_hold_and_no_bit_of_them_may_change(name: str) -> None:
    public, message, signature = (bytes.fromhex(each) for each in VECTORS[name])
    assert ed25519_holds(public, message, signature)
    for at in range(0, 64, 5):
        wrong = bytearray(signature)
        wrong[at] ^= 1 << at % 8
        assert not ed25519_holds(public, message, bytes(wrong))
    assert not ed25519_holds(public, message + b"\0", signature)
    assert not ed25519_holds(public[:-1] + bytes([public[-1] ^ 1]), message, signature)


@settings(max_examples=tries(60), deadline=None)
@given(st.binary(min_size=32, max_size=32), st.binary(max_size=200), st.integers(-1, 95))
def test_what_a_library_signs_holds_and_what_it_refuses_does_not(
    secret: bytes, message: bytes, flipped: int,
) -> None:
    key = Ed25519PrivateKey.from_private_bytes(secret)
    public, signature = (bytearray(key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)),
                         bytearray(key.sign(message)))
    if flipped >= 0:
        part, at = (public, flipped) if flipped < 32 else (signature, flipped - 32)
        part[at] ^= 1 << flipped % 8
    try:
        Ed25519PublicKey.from_public_bytes(bytes(public)).verify(bytes(signature), message)
        theirs = True
    except InvalidSignature:
        theirs = False
    assert ed25519_holds(bytes(public), message, bytes(signature)) is theirs is (flipped < 0)


def test_a_second_signature_cannot_be_made_of_a_first() -> None:
    signature = KEY.sign(b"x")
    again = signature[:32] + (int.from_bytes(signature[32:], "little") + ORDER).to_bytes(32, "little")
    assert ed25519_holds(PUBLIC, b"x", signature)
    assert not ed25519_holds(PUBLIC, b"x", again)


# The neutral point, that of order two, one of order eight,
# and the neutral one in an encoding that is not its own.
@pytest.mark.parametrize("key", [(1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little"),
                                 bytes.fromhex(
                                     "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),
                                 (2**255 - 18).to_bytes(32, "little")])
def test_a_key_that_signs_anything_is_none(key: bytes) -> None:
    # With S = 0 and R = the neutral point such keys hold for every eighth message, or for all.
    for message in range(16):
        assert not ed25519_holds(key, bytes([message]), (1).to_bytes(32, "little") + bytes(32))


@given(st.binary(max_size=40), st.binary(max_size=10), st.binary(max_size=70))
@settings(max_examples=tries(100), deadline=None)
def test_any_bytes_at_all_are_refused_quietly(public: bytes, message: bytes, signature: bytes) -> None:
    assert not ed25519_holds(public, message, signature)
