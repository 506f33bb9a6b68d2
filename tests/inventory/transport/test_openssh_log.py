"""ssh's log, as versions write it, and as anybody might."""

from __future__ import annotations

import errno
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inventory.transport.base import Stage
from inventory.transport.openssh_log import MOST_BYTES, OpenSshLog, Reached, SshFailure

# As OpenSSH 7.4 (RHEL 7) writes it.
OLD = b"""OpenSSH_7.4p1, OpenSSL 1.0.2k-fips  26 Jan 2017\r
debug1: Reading configuration data /etc/ssh/ssh_config\r
debug1: Connecting to 10.0.0.1 [10.0.0.1] port 22.\r
debug1: Connection established.\r
debug1: Remote protocol version 2.0, remote software version OpenSSH_7.4\r
debug1: Authenticating to 10.0.0.1:22 as 'root'\r
debug1: SSH2_MSG_KEXINIT sent\r
debug1: Server host key: ecdsa-sha2-nistp256 SHA256:abc\r
"""
LET_IN = b"""debug1: SSH2_MSG_NEWKEYS received\r
debug1: Offering RSA public key: /home/ada/.ssh/id_rsa\r
debug1: Authentications that can continue: publickey,gssapi-with-mic\r
"""
PIECES = [
    b"debug1: Connecting to ", b"h [::1] port 22.\n", b"debug1: Connection established.\n",
    b"debug1: Remote protocol version 2.0\n", b"debug1: SSH2_MSG_NEWKEYS received\n",
    b"Authenticated to h (via proxy) using \"none\".\n", b"debug1: Sending command: x\n",
    b"debug1: Executing proxy command: exec ssh -W '[h]:22' j\n", b"Permission denied (publickey).\n",
    b"@revoked", b"\xff\x00\x1b[2J", b"Host key for x has changed and you have requested strict checking.\n",
    b"Offending ED25519 key in /x:", b"99999999999999999999\n", b"No ED25519 host key is known for \n",
    b"channel 0: open failed: ", b"kex_exchange_identification: banner line 0: x\n",
    b"debug1: auto-mux: Trying existing master\n", b"Unable to negotiate with x port 2: no",
    b"port 99999999999: x\n", b"\r\n",
]


def log(*pieces: bytes) -> OpenSshLog:
    found = OpenSshLog("n1:22")
    for piece in pieces:
        found.feed(piece)
    return found


def test_the_log_of_an_old_ssh_is_followed() -> None:
    assert log(OLD).reached is Reached.EXCHANGE
    found = log(OLD, LET_IN)
    assert (found.reached, found.who) == (Reached.AUTH, "10.0.0.1:22")
    assert log(OLD, LET_IN, b"debug1: Authentication succeeded (publickey).\r\n").reached is Reached.LOGIN
    assert log(OLD, LET_IN, b"debug1: Sending command: x\r\n").reached is Reached.RUNNING


@pytest.mark.parametrize(("text", "stage", "words"), [
    (b"No ECDSA host key is known for 10.0.0.1 and you have requested strict checking.\r\nHost key "
     b"verification failed.\r\n",
     Stage.HOST_KEY, "muster inventory enroll n1"),
    (LET_IN + b"Permission denied (publickey,gssapi-with-mic).\r\n", Stage.AUTH,
     "tried /home/ada/.ssh/id_rsa; it allows publickey, gssapi"),
    (LET_IN + b"Received disconnect from 10.0.0.1 port 22:2: Too many authentication failures\r\n",
     Stage.AUTH, "identity_file"),
    (b"Unable to negotiate with 10.0.0.1 port 22: no matching key exchange method found. Their offer: x\r\n",
     Stage.CONNECT, "no matching"),
    (b"Connection reset by 10.0.0.1 port 22\r\n", Stage.CONNECT, "during the key exchange"),
    (LET_IN + b"Connection closed by 10.0.0.1 port 22\r\n", Stage.AUTH, "closed the connection"),
    (b"something that no version says\r\n", Stage.CONNECT, "something that no version says"),
])
def test_the_end_is_put_into_words(text: bytes, stage: Stage, words: str) -> None:
    verdict = log(OLD, text).verdict("n1")
    assert verdict.stage is stage, verdict
    assert words in verdict.reason


@pytest.mark.parametrize("text", [
    b"ssh_exchange_identification: Connection closed by remote host\r\n",
    b"ssh_exchange_identification: read: Connection reset by peer\r\n",
    b"kex_exchange_identification: Connection closed by remote host\r\nConnection closed by 10.0.0.1 "
    b"port 22\r\n",
    b"debug1: kex_exchange_identification: banner line 0: Exceeded MaxStartups\r\n"
    b"kex_exchange_identification: Connection closed by remote host\r\n",
    b"debug1: ssh_exchange_identification: Exceeded MaxStartups\r\nssh_exchange_identification: Connection "
    b"closed by remote host\r\n",
])
def test_a_drop_before_the_banner_may_go_better_another_time(text: bytes) -> None:
    verdict = log(b"debug1: Connecting to h [10.0.0.1] port 22.\ndebug1: Connection established.\n",
                  text).verdict("n1")
    assert (verdict.stage, verdict.again) == (Stage.CONNECT, True), verdict


def test_a_penalty_is_not_worth_another_try() -> None:
    found = log(b"debug1: Connecting to h [10.0.0.1] port 22.\ndebug1: Connection established.\n"
                b"debug1: kex_exchange_identification: banner line 0: Not allowed at this time\n"
                b"kex_exchange_identification: Connection closed by remote host\n")
    assert not found.verdict("n1").again
    assert "PerSourcePenalties" in found.verdict("n1").reason


def test_the_fingerprint_of_a_host_certificate_ends_before_the_comma() -> None:
    line = (
        b'debug1: Server host certificate: ssh-ed25519-cert-v01@openssh.com SHA256:aRkU/+9, serial 0 ID "n1" '
        b'CA ssh-ed25519 SHA256:b '
        b"valid forever\n")
    found = (log(OLD, line,
                 b"debug1: Host 'n1' is known and matches the key.\nWARNING: REVOKED HOST KEY DETECTED!\n"
                           b"The ED25519 host key for n1 is marked as revoked.\nHost key verification "
                           b"failed.\n").verdict("n1"))
    assert found.stage is Stage.HOST_KEY
    assert " SHA256:aRkU/+9, which the known_hosts files mark as revoked" in found.reason


@pytest.mark.parametrize(("command", "words"), [
    (b"exec ssh -W '[10.0.0.1]:22' bast",
     "bast.invalid: has no address (Name or service not known); correct `proxy_jump`"),
    (b"exec nc gate 22",
     "bast.invalid: has no address (Name or service not known); correct that in ssh_config"),
])
def test_a_name_without_address_on_the_way_is_not_said_to_be_the_nodes(command: bytes, words: str) -> None:
    found = log(b"debug1: Executing proxy command: " + command + b"\n")
    found.stderr(b"ssh: Could not resolve hostname bast.invalid: Name or service not known\r\n")
    assert found.verdict("n1").stage is Stage.JUMP
    assert words in found.verdict("n1").reason
    assert "`address`" not in found.verdict("n1").reason


def test_a_step_is_never_taken_back() -> None:
    found = log(OLD, LET_IN)
    assert not found.feed(b"debug1: Connecting to 10.0.0.1 [10.0.0.1] port 22.\n")
    assert found.reached is Reached.AUTH


def test_a_line_without_end_is_not_kept_and_counts_as_a_flood() -> None:
    found = OpenSshLog("n1:22")
    for _ in range(MOST_BYTES // 65536 + 1):
        found.feed(b"x" * 65536)
        found.stderr(b"")
    assert found.flooded
    assert len(found._rest) <= 4096


@given(st.lists(st.one_of(st.sampled_from(PIECES), st.binary(max_size=60)), max_size=30),
       st.binary(max_size=200))
def test_whatever_is_in_the_log_there_is_one_verdict(pieces: list[bytes], stderr: bytes) -> None:
    found = log(*pieces)
    found.stderr(stderr)
    verdict = found.verdict("n1")
    assert verdict.reason
    assert isinstance(verdict.stage, Stage)
    assert len(verdict.reason) < 6000


def unreachable(*whys: bytes) -> SshFailure:
    """What is said of a name whose addresses could not be connected to, each for a reason."""
    return log(b"debug1: Connecting to n1 [10.0.0.1] port 22.\n",
               *(b"debug1: connect to address 10.0.0.1 port 22: %s\n" % why for why in whys),
               b"ssh: connect to host n1 port 22: %s\n" % whys[-1]).verdict("n1")


@pytest.mark.parametrize("number", [errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.ENETUNREACH, errno.EPERM])
def test_a_connection_that_this_machine_could_not_begin_is_not_the_nodes_fault(number: int) -> None:
    found = unreachable(os.strerror(number).encode())
    assert (found.stage, found.stuck) == (Stage.HEAD, Stage.CONNECT)
    assert os.strerror(number) in found.reason


@pytest.mark.parametrize("in_the_chain", [False, True])
def test_a_process_that_this_machine_cannot_start_is_not_the_nodes_fault(in_the_chain: bool) -> None:
    said = b"fork failed: Resource temporarily unavailable\n"
    found = log(b"debug1: Executing proxy command: exec ssh -W '[n1]:22' j\n", b"" if in_the_chain else said)
    if in_the_chain:
        found.stderr(said + b"Connection closed by UNKNOWN port 65535\n")
    verdict = found.verdict("n1")
    assert (verdict.stage, verdict.stuck) == (Stage.HEAD, Stage.CONNECT)
    assert "fork failed: Resource temporarily unavailable" in verdict.reason


@pytest.mark.parametrize("why", [b"Connection refused", b"No route to host"])
def test_an_address_that_this_machine_cannot_ask_excuses_no_node_with_another(why: bytes) -> None:
    for whys in ((why, b"Network is unreachable"), (b"Network is unreachable", why)):
        found = unreachable(*whys)
        assert (found.stage, found.stuck) == (Stage.CONNECT, None)
        assert why.split()[-1].decode() in found.reason
