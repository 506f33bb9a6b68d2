"""Every option of ssh_config has a decision: honoured here, without effect on a sweep, or the system's
ssh."""

from __future__ import annotations

import base64
import errno
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inventory import sshkeyfile, sshneeds, sshowner, sshroute
from inventory.errors import ConfigError
from inventory.model import Node, Via
from inventory.sshconfig import SshConfig
from inventory.sshneeds import CIPHERS, HOST_KEYS, KEX, OPTIONS, Handling, allowed
from inventory.sshroute import route_for
from inventory.transport.keys import Keyring
from tests.testbed.require import require
from tests.testbed.sshd import make_key
from tests.tries import tries

# ssh_config(5) of OpenSSH 10.0, every keyword of it.
KEYWORDS = re.findall(r"\w+", """
Host Match AddKeysToAgent AddressFamily BatchMode BindAddress BindInterface CanonicalDomains
CanonicalizeFallbackLocal CanonicalizeHostname CanonicalizeMaxDots CanonicalizePermittedCNAMEs
CASignatureAlgorithms CertificateFile ChannelTimeout CheckHostIP Ciphers ClearAllForwardings Compression
ConnectionAttempts ConnectTimeout ControlMaster ControlPath ControlPersist DynamicForward
EnableEscapeCommandline EnableSSHKeysign EscapeChar ExitOnForwardFailure FingerprintHash
ForkAfterAuthentication ForwardAgent ForwardX11 ForwardX11Timeout ForwardX11Trusted GatewayPorts
GlobalKnownHostsFile GSSAPIAuthentication GSSAPIDelegateCredentials HashKnownHosts
HostbasedAcceptedAlgorithms HostbasedAuthentication HostKeyAlgorithms HostKeyAlias Hostname IdentitiesOnly
IdentityAgent IdentityFile IgnoreUnknown Include IPQoS KbdInteractiveAuthentication KbdInteractiveDevices
KexAlgorithms KnownHostsCommand LocalCommand LocalForward LogLevel LogVerbose MACs
NoHostAuthenticationForLocalhost NumberOfPasswordPrompts ObscureKeystrokeTiming PasswordAuthentication
PermitLocalCommand PermitRemoteOpen PKCS11Provider Port PreferredAuthentications ProxyCommand ProxyJump
ProxyUseFdpass PubkeyAcceptedAlgorithms PubkeyAuthentication RekeyLimit RemoteCommand RemoteForward RequestTTY
RequiredRSASize RevokedHostKeys SecurityKeyProvider SendEnv ServerAliveCountMax ServerAliveInterval
SessionType SetEnv StdinNull StreamLocalBindMask StreamLocalBindUnlink StrictHostKeyChecking SyslogFacility
Tag TCPKeepAlive Tunnel TunnelDevice UpdateHostKeys User UserKnownHostsFile VerifyHostKeyDNS VersionAddendum
VisualHostKey XAuthLocation RefuseConnection WarnWeakCrypto GSSAPIClientIdentity GSSAPIKexAlgorithms GSSAPIKeyExchange
GSSAPIRenewalForcesRekey GSSAPIServerIdentity GSSAPITrustDns
""")  # noqa: E501

# What takes the system's ssh, and a value of the same option that takes nothing.
SYSTEM = {
    "BindAddress": ("10.0.0.1", None), "BindInterface": ("eth1", None),
    "CanonicalizeHostname": ("yes", "no"), "CertificateFile": ("/k-cert.pub", "none"),
    "CheckHostIP": ("yes", "no"), "HostbasedAuthentication": ("yes", "no"),
    "KnownHostsCommand": ("/bin/true", "none"), "PKCS11Provider": ("/lib/p11.so", "none"),
    "PreferredAuthentications": ("hostbased,password", "gssapi-with-mic,publickey"),
    "ProxyCommand": ("nc %h %p", "none"), "PubkeyAcceptedAlgorithms": ("ssh-ed25519", "+ssh-rsa"),
    "PubkeyAuthentication": ("no", "yes"), "RefuseConnection": ("not-today", None),
    "SetEnv": ("A=b", None), "User": ("%u-admin", "u"), "VerifyHostKeyDNS": ("yes", "no"),
    "Ciphers": ("chacha20-poly1305@openssh.com", "aes128-ctr"), "MACs": ("umac-64@openssh.com", "hmac-sha1"),
    "KexAlgorithms": ("sntrup761x25519-sha512@openssh.com", "ecdh-sha2-nistp256"),
    "HostKeyAlgorithms": ("ssh-ed25519-cert-v01@openssh.com", "ssh-ed25519"),
    "SomethingNew": ("yes", None),
}
# A value for each other option that a person might well have set.
VALUES = {
    "AddressFamily": "inet", "Compression": "yes", "ConnectTimeout": "7", "HostKeyAlias": "h",
    "Hostname": "h",
    "Port": "2222", "ProxyJump": "none", "IdentityAgent": "none", "RequiredRSASize": "3072",
    "HashKnownHosts": "yes", "IdentitiesOnly": "yes", "IgnoreUnknown": "UseKeychain",
    "LocalForward": "1 h:2", "RemoteForward": "1 h:2", "DynamicForward": "1",
}


@pytest.fixture(autouse=True)
def _no_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sshneeds, "kerberos_ticket", lambda: False)


def route(text: str, name: str = "gpu1", **changes: object) -> sshroute.SshRoute:
    return route_for(Node(name, **changes), SshConfig.parse(text))  # type: ignore[arg-type]


@pytest.mark.parametrize("keyword", KEYWORDS)
def test_every_option_of_openssh_is_decided_with_a_reason(keyword: str) -> None:
    option = OPTIONS[keyword.lower()]
    assert option.how is Handling.HONOURED or option.why


@pytest.mark.parametrize("keyword", sorted({*KEYWORDS, *SYSTEM} - {"Host", "Match", "Include"}))
def test_an_option_goes_to_the_system_s_ssh_exactly_where_it_must(keyword: str) -> None:
    value, harmless = SYSTEM.get(keyword, (None, VALUES.get(keyword, "yes")))
    if value is not None:
        found = route(f"Host gpu*\n {keyword} {value}\n")
        assert found.via is Via.OPENSSH
        assert any(keyword in line for line in found.why)
        assert route(f"Host other\n {keyword} {value}\n").via is Via.PARAMIKO
    if harmless is not None:
        found = route(f"{keyword} {harmless}\n")
        assert (found.via, found.why) == (Via.PARAMIKO, ())


def test_what_ssh_itself_prints_of_a_host_is_all_decided() -> None:
    program = shutil.which("ssh")
    require(program, "OpenSSH's client is not installed: apt-get install -y openssh-client")
    printed = subprocess.run([str(program), "-G", "-F", "none", "gpu1"], capture_output=True, text=True,
                             timeout=20, check=True).stdout
    keywords = {line.split()[0].lower() for line in printed.splitlines()}
    assert len(keywords) > 50
    assert not {sshneeds.ALIASES.get(each, each) for each in keywords} - OPTIONS.keys()


def test_gssapi_takes_the_system_s_ssh_only_where_there_is_a_ticket(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "GSSAPIAuthentication yes\n"
    assert route(text).via is Via.PARAMIKO
    monkeypatch.setattr(sshneeds, "kerberos_ticket", lambda: True)
    assert (route(text).why
            == ("ssh_config:1:1: GSSAPIAuthentication: there is a Kerberos ticket to log in with",))
    assert route("GSSAPIAuthentication no\n").via is Via.PARAMIKO


@pytest.mark.parametrize("criterion", [
    'exec "test -e /x"', "localnetwork 10.0.0.0/8", "tagged slow", "version OpenSSH_10*", "sessiontype exec",
    "command x", "brandnew x"])
def test_a_block_that_only_ssh_can_judge_takes_it_there_unless_it_cannot_apply(criterion: str) -> None:
    assert route(f"Match {criterion}\n User a\n").via is Via.OPENSSH
    assert route(f"Match !{criterion}\n User a\n").via is Via.OPENSSH
    assert route(f"Match originalhost other {criterion}\n User a\n").via is Via.PARAMIKO
    assert route(f"Match {criterion} originalhost other\n User a\n").via is Via.PARAMIKO


def test_the_files_that_distributions_ship_leave_every_host_in_this_process() -> None:
    debian = "Host *\n SendEnv LANG LC_*\n HashKnownHosts yes\n GSSAPIAuthentication yes\n"
    # Red Hat's 50-redhat.conf, with what its crypto policy DEFAULT includes there
    red_hat = """Match final all
 Ciphers aes256-gcm@openssh.com,chacha20-poly1305@openssh.com,aes256-ctr,aes128-gcm@openssh.com,aes128-ctr
 MACs hmac-sha2-256-etm@openssh.com,umac-128-etm@openssh.com,hmac-sha2-512-etm@openssh.com,hmac-sha2-256
 GSSAPIKeyExchange no
 KexAlgorithms curve25519-sha256,curve25519-sha256@libssh.org,ecdh-sha2-nistp256,ecdh-sha2-nistp384
 PubkeyAcceptedAlgorithms ecdsa-sha2-nistp256,ecdsa-sha2-nistp384,ecdsa-sha2-nistp521,ssh-ed25519,\
rsa-sha2-256,rsa-sha2-512
 HostKeyAlgorithms ecdsa-sha2-nistp256,ssh-ed25519,rsa-sha2-256,rsa-sha2-512
 CASignatureAlgorithms ecdsa-sha2-nistp256,ssh-ed25519,rsa-sha2-256,rsa-sha2-512
 RequiredRSASize 2048
 GSSAPIAuthentication yes
 ForwardX11Trusted yes
""".replace("\\\n", "")
    ubuntu = "Host unix/* vsock/*\n ProxyCommand /usr/lib/x %h %p\n ProxyUseFdpass yes\n CheckHostIP no\n"
    for text in (debian, red_hat, ubuntu):
        assert route(text).why == ()


def test_an_unknown_option_that_ssh_is_to_ignore_is_ignored() -> None:
    assert route("IgnoreUnknown UseKeychain,X*\nUseKeychain yes\nXyz 1\n").via is Via.PARAMIKO
    assert route("IgnoreUnknown Other\nUseKeychain yes\n").via is Via.OPENSSH
    assert route("UseKeychain yes\nIgnoreUnknown UseKeychain\n").via is Via.OPENSSH


def test_what_a_jump_host_needs_counts_for_the_node_behind_it(tmp_path: Path) -> None:
    text = ("Host bastion\n KnownHostsCommand /bin/x\nHost gpu*\n ProxyJump inner\nHost inner\n ProxyJump "
            "bastion\n")
    assert (route(text).why
            == ("jump host bastion: ssh_config:2:2: KnownHostsCommand: a command gives the host keys",))
    assert route(text, proxy_jump="other").via is Via.PARAMIKO
    assert route("Host bastion\n ProxyCommand nc %h %p\n", proxy_jump="bastion").via is Via.OPENSSH


def test_a_proxy_command_that_the_inventory_overrides_takes_nothing() -> None:
    assert route("Host gpu*\n ProxyCommand nc %h %p\n", proxy_jump="bastion").via is Via.PARAMIKO


def test_the_inventory_s_own_choice_is_never_changed() -> None:
    assert route("ProxyCommand nc %h %p\n", transport=Via.PARAMIKO).via is Via.PARAMIKO
    assert route("", transport=Via.OPENSSH).via is Via.OPENSSH


def test_files_on_this_machine_decide_too(tmp_path: Path) -> None:
    (tmp_path / "sk.pub").write_text("sk-ssh-ed25519@openssh.com AAAA me\n")
    assert route(f"IdentityFile {tmp_path}/sk\n").why == (f"IdentityFile {tmp_path}/sk: a FIDO key",)
    (tmp_path / "known").write_text("@cert-authority *.a ssh-ed25519 AAAA\n")
    assert route(f"UserKnownHostsFile {tmp_path}/known\nGlobalKnownHostsFile none\n",
                 "x.b").via is Via.PARAMIKO


@pytest.fixture(scope="module")
def key_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Keys in the forms in which people have them, with and without what belongs to them."""
    folder = tmp_path_factory.mktemp("keys")
    forms = {"ed": ("ed25519", ""), "locked": ("ed25519", "long word"), "ec8": ("ecdsa", ""),
             "ec8locked": ("ecdsa", "long word"),
             "pem": ("ecdsa", "")}
    for name, (kind, word) in forms.items():
        make_key(folder / name, kind, word,
                 *(("-m", "PKCS8") if "8" in name else ("-m", "PEM") if name == "pem" else ()))
    (folder / "only.pub").write_bytes((folder / "ed.pub").read_bytes())
    # What ssh-keygen -t ed25519-sk makes with a token: its public key stands in the file in clear.
    public_key = b"".join(len(each).to_bytes(4, "big") + each
                          for each in (b"sk-ssh-ed25519@openssh.com", bytes(32), b"ssh:"))
    texts = b"".join(len(each).to_bytes(4, "big") + each for each in (b"none", b"none", b""))
    body = b"openssh-key-v1\0" + texts + (1).to_bytes(4,
                                                      "big") + len(public_key).to_bytes(4, "big") + public_key
    (folder / "token").write_bytes(b"-----BEGIN OPENSSH PRIVATE KEY-----\n" + base64.encodebytes(body)
                                   + b"-----END OPENSSH PRIVATE KEY-----\n")
    for name in ("ed", "locked", "only.pub"):
        (folder / f"certified-{name}").write_bytes((folder / name).read_bytes())
        (folder / "signed.pub").write_bytes(
            (folder / f"{name.removesuffix('.pub').replace('only', 'ed')}.pub").read_bytes())
        subprocess.run(["ssh-keygen", "-q", "-s", folder / "pem", "-I", "me", "-n", "me",
                        folder / "signed.pub"], check=True)
        (folder / "signed-cert.pub").rename(folder / f"certified-{name}-cert.pub")
    return folder


@pytest.mark.parametrize(("name", "why"), [
    ("ed", ""), ("pem", ""), ("locked", ""), ("ec8locked", ""), ("only.pub", ""), ("missing", ""),
    ("certified-ed", ""),
    ("ec8", "PKCS #8"), ("token", "FIDO"), ("certified-locked", "certificate"),
    ("certified-only.pub", "certificate"),
])
def test_a_key_goes_to_the_system_s_ssh_where_this_process_cannot_log_in_with_it(key_files: Path, name: str,
                                                                                 why: str) -> None:
    found = route(f"IdentityFile {key_files}/{name}\n")
    assert found.via is (Via.OPENSSH if why else Via.PARAMIKO)
    assert not why or why in found.why[0]
    # This process can use what it is said to use, by itself or with an agent.
    loaded = Keyring().identities([f"{key_files}/{name}"], None, only_files=True)
    assert bool(loaded.keys) is (name in ("ed", "pem", "certified-ed"))


@settings(max_examples=tries(50), deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_of_a_key_file_are_judged(data: bytes) -> None:
    armour = b"-----BEGIN OPENSSH PRIVATE KEY-----\n%s\n-----END OPENSSH PRIVATE KEY-----\n"
    with tempfile.TemporaryDirectory() as folder:
        for number, text in enumerate((data, armour % data,
                                       armour % base64.b64encode(b"openssh-key-v1\0" + data))):
            Path(folder, str(number)).write_bytes(text)
            assert sshkeyfile.only_ssh_uses.__wrapped__(f"{folder}/{number}") in ("", "a FIDO key")
            assert (sshkeyfile.public_key(f"{folder}/{number}") is None
                    or data.lstrip().startswith((b"ssh", b"sk", b"ecdsa")))


def test_a_list_of_revoked_keys_in_binary_form_takes_the_system_s_ssh(tmp_path: Path,
                                                                      key_files: Path) -> None:
    subprocess.run(["ssh-keygen", "-q", "-k", "-f", tmp_path / "krl", key_files / "ed.pub"], check=True)
    shutil.copy(key_files / "ed.pub", tmp_path / "text")
    found = route(f"RevokedHostKeys {tmp_path}/krl\n")
    assert (found.via, len(found.why)) == (Via.OPENSSH, 1) and "RevokedHostKeys" in found.why[0]
    assert route(f"RevokedHostKeys {tmp_path}/text\n").via is Via.PARAMIKO


# the lists of algorithms

NAMES = st.sampled_from([*KEX, "curve25519-sha256", "sntrup761x25519-sha512@openssh.com", "nonsense"])


@given(st.sampled_from(["", "+", "-", "^"]), st.lists(NAMES, min_size=1, max_size=6, unique=True))
def test_a_list_never_allows_what_it_forbids(sign: str, names: list[str]) -> None:
    found = allowed(sign + ",".join(names), KEX)
    plain = {name.removesuffix("@libssh.org") for name in names}
    assert set(found) <= set(KEX)
    assert len(found) == len(set(found))
    if not sign:
        assert [name.removesuffix("@libssh.org") for name in found] == list(dict.fromkeys(
            name.removesuffix("@libssh.org") for name in names if name.removesuffix("@libssh.org")
            in {each.removesuffix("@libssh.org") for each in KEX}))
    if sign == "-":
        assert not {name.removesuffix("@libssh.org") for name in found} & plain
    if sign in ("+", "^"):
        assert set(found) == set(KEX)


def test_patterns_are_taken_out() -> None:
    assert allowed("-aes*-ctr", CIPHERS) == CIPHERS[:2]
    assert allowed("^rsa-sha2-256", HOST_KEYS)[0] == "rsa-sha2-256"


# files that OpenSSH refuses

def refused(path: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        SshConfig.load(path, None)
    return str(caught.value)


@pytest.mark.parametrize("mode", [0o666, 0o622, 0o664, 0o646])
@pytest.mark.parametrize("included", [False, True])
def test_a_file_that_others_may_write_is_refused_as_ssh_refuses_it(
    tmp_path: Path, mode: int, included: bool,
) -> None:
    (tmp_path / "inner").write_text("User a\n")
    (tmp_path / "config").write_text(f"Include {tmp_path}/inner\n")
    bad = tmp_path / ("inner" if included else "config")
    bad.chmod(mode)
    program = shutil.which("ssh")
    require(program, "OpenSSH's client is not installed: apt-get install -y openssh-client")
    outer = tmp_path / "outer"      # of what -F names itself, ssh does not look at the mode
    outer.write_text(f"Include {tmp_path}/config\n")
    done = subprocess.run([str(program), "-G", "-F", str(outer), "x"], capture_output=True,
                          text=True, timeout=20,
                          check=False)
    if mode & 0o002:
        assert done.returncode != 0
    if done.returncode == 0:        # Debian's, where no one else is in the group
        SshConfig.load(tmp_path / "config", None)
        return
    assert f"Bad owner or permissions on {bad}" in done.stderr
    assert refused(tmp_path / "config").startswith(f"{bad}: bad permissions: mode {mode:04o}")


def test_what_ssh_thinks_of_a_mode_is_asked_again_where_it_could_not_be_asked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:
    def lacks(*args: object, **options: object) -> object:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    path = tmp_path / "config"
    path.write_text("User a\n")
    path.chmod(0o664)
    monkeypatch.setattr(sshowner, "_alone", lambda _: True)
    sshowner._debian.cache_clear()
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "run", lacks)
        assert "Too many open files" in refused(path)
    monkeypatch.setattr(subprocess, "run",
                        lambda *args, **options: subprocess.CompletedProcess((), 0, b"", b"OpenSSH Debian"))
    try:
        assert SshConfig.load(path, None).lookup("x").user == "a"
    finally:
        sshowner._debian.cache_clear()


def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a file away")
    path = tmp_path / "config"
    path.write_text("User a\n")
    os.chown(path, 12345, 12345)
    assert refused(path).startswith(f"{path}: bad owner: uid 12345")


def test_the_machine_s_own_file_is_read_whatever_its_mode(tmp_path: Path) -> None:
    path = tmp_path / "system"
    path.write_text("Port 2222\n")
    path.chmod(0o666)
    (tmp_path / "user").write_text("")
    assert SshConfig.load(tmp_path / "user", path).lookup("x").port == 2222
