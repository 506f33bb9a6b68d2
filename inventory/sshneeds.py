"""What each option of ssh_config means for the SSH client in this process: honoured, without effect, or the
system's ssh's alone. The keywords are those of OpenSSH's readconf.c, from 7.4 to 10. An option that is not
here is one that this program does not know, and needs the system's ssh."""

from __future__ import annotations

import fnmatch
import functools
import os
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum


class Handling(Enum):
    """What happens to an option in this process."""

    HONOURED = "honoured"
    NO_EFFECT = "no effect"
    SYSTEM = "the system's ssh"


@dataclass(frozen=True)
class Option:
    """How an option is handled, and why. `harmless`: whether its words ask for nothing that we cannot do."""

    how: Handling
    why: str
    harmless: Callable[[Sequence[str]], bool] = lambda words: False


def _off(words: Sequence[str]) -> bool:
    return words[0].lower() in ("no", "false", "none")


def _no_ticket(words: Sequence[str]) -> bool:
    # Debian's and Red Hat's own files turn GSSAPI on for everyone.
    return _off(words) or not kerberos_ticket()


def _on(words: Sequence[str]) -> bool:
    return words[0].lower() not in ("no", "false")


def _by_key(words: Sequence[str]) -> bool:
    return "publickey" in words[0].lower().split(",")


def _takes_ours(words: Sequence[str]) -> bool:
    return not set(PUBLIC_KEYS) - set(allowed(words[0], PUBLIC_KEYS))


# What this process speaks, the cheapest for us first; the server's own policy still decides what it accepts.
CIPHERS = ("aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes128-ctr", "aes192-ctr", "aes256-ctr")
MACS = ("hmac-sha2-256-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-512",
        "hmac-sha1")
KEX = ("curve25519-sha256@libssh.org", "ecdh-sha2-nistp256", "mlkem768x25519-sha256", "ecdh-sha2-nistp384",
       "ecdh-sha2-nistp521", "diffie-hellman-group14-sha256", "diffie-hellman-group16-sha512",
       "diffie-hellman-group-exchange-sha256")
# Only newer releases of paramiko have the other one.
KEX_EVERYWHERE = tuple(name for name in KEX if not name.startswith("mlkem"))
HOST_KEYS = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521",
             "rsa-sha2-512", "rsa-sha2-256")
PUBLIC_KEYS = HOST_KEYS     # how our keys can sign

def _plain_name(words: Sequence[str]) -> bool:
    return "%" not in words[0] and "${" not in words[0]


_HONOURED = (
    "host", "match", "include", "addressfamily", "ciphers", "connecttimeout", "globalknownhostsfile",
    "hashknownhosts", "hostkeyalgorithms", "hostkeyalias", "hostname", "identitiesonly", "identityagent",
    "identityfile", "ignoreunknown", "kexalgorithms", "macs", "port", "proxyjump", "requiredrsasize",
    "revokedhostkeys", "userknownhostsfile",
)
_NO_EFFECT: Mapping[str, tuple[str, ...]] = {
    "no one is here to type or to read": (
        "batchmode", "kbdinteractiveauthentication", "kbdinteractivedevices", "numberofpasswordprompts",
        "passwordauthentication", "fingerprinthash", "visualhostkey", "loglevel", "logverbose",
        "syslogfacility", "enableescapecommandline", "escapechar", "obscurekeystroketiming", "warnweakcrypto",
    ),
    "nothing is forwarded": (
        "clearallforwardings", "dynamicforward", "exitonforwardfailure", "forwardagent", "forwardx11",
        "forwardx11timeout", "forwardx11trusted", "gatewayports", "localforward", "permitremoteopen",
        "remoteforward", "streamlocalbindmask", "streamlocalbindunlink", "tunnel", "tunneldevice",
        "xauthlocation",
    ),
    "nothing runs but the sweep's own program": (
        "forkafterauthentication", "localcommand", "permitlocalcommand", "remotecommand", "requesttty",
        "sessiontype", "stdinnull",
    ),
    "every node gets the same environment": ("sendenv",),
    "host keys are always checked strictly, and pinned by `muster inventory enroll` only": (
        "nohostauthenticationforlocalhost", "stricthostkeychecking", "updatehostkeys",
    ),
    "no key is put into an agent": ("addkeystoagent",),
    "muster has limits of its own": (
        "channeltimeout", "connectionattempts", "rekeylimit", "serveralivecountmax", "serveraliveinterval",
        "tcpkeepalive",
    ),
    "muster keeps connections of its own": ("controlmaster", "controlpersist"),
    "it changes the speed only": ("compression", "ipqos"),
    "it counts only with CanonicalizeHostname": (
        "canonicaldomains", "canonicalizefallbacklocal", "canonicalizemaxdots",
        "canonicalizepermittedcnames",
    ),
    "it counts only with HostbasedAuthentication": ("enablesshkeysign", "hostbasedacceptedalgorithms"),
    "it counts only with GSSAPI": (
        "gssapiclientidentity", "gssapidelegatecredentials", "gssapikexalgorithms",
        "gssapirenewalforcesrekey", "gssapiserveridentity", "gssapitrustdns",
    ),
    "it counts only with ProxyCommand": ("proxyusefdpass",),
    "it counts only for host certificates, which the system's ssh checks": ("casignaturealgorithms",),
    "it counts only for FIDO keys, which the system's ssh uses": ("securitykeyprovider",),
    "only Match tagged reads it, which needs the system's ssh": ("tag",),
    "the server alone reads it": ("versionaddendum",),
    "OpenSSH ignores it as well": (
        "afstokenpassing", "cipher", "compressionlevel", "fallbacktorsh", "globalknownhostsfile2",
        "kerberosauthentication", "kerberostgtpassing", "protocol", "rhostsauthentication",
        "rhostsrsaauthentication", "rsaauthentication", "useblacklistedkeys", "useprivilegedport",
        "useroaming", "usersh", "userknownhostsfile2",
    ),
}
_SYSTEM = {
    "bindaddress": Option(Handling.SYSTEM, "the address to connect from is chosen"),
    "bindinterface": Option(Handling.SYSTEM, "the interface to connect from is chosen"),
    "canonicalizehostname": Option(Handling.SYSTEM, "names are completed by DNS", _off),
    "certificatefile": Option(Handling.SYSTEM, "a user's certificate is named", _off),
    "checkhostip": Option(Handling.SYSTEM, "addresses are looked up in known_hosts too", _off),
    # Of a node muster shares connections by itself; `sshroute` looks at jump hosts.
    "controlpath": Option(Handling.NO_EFFECT, "muster keeps connections of its own; a jump host that is "
                                              "connected there is reached by the system's ssh"),
    "gssapiauthentication": Option(Handling.SYSTEM, "there is a Kerberos ticket to log in with", _no_ticket),
    "gssapikeyexchange": Option(Handling.SYSTEM, "there is a Kerberos ticket to exchange keys with",
                                _no_ticket),
    "hostbasedauthentication": Option(Handling.SYSTEM, "this machine's host key logs in", _off),
    "knownhostscommand": Option(Handling.SYSTEM, "a command gives the host keys", _off),
    "pkcs11provider": Option(Handling.SYSTEM, "keys are in a smart card", _off),
    "preferredauthentications": Option(Handling.SYSTEM, "keys are not to be used", _by_key),
    "proxycommand": Option(Handling.SYSTEM, "a command makes the connection", _off),
    "pubkeyacceptedalgorithms": Option(Handling.SYSTEM, "some kinds of keys are not to be used", _takes_ours),
    "pubkeyauthentication": Option(Handling.SYSTEM, "keys are not to be used", _on),
    "refuseconnection": Option(Handling.SYSTEM, "no connection is wanted", _off),
    "setenv": Option(Handling.SYSTEM, "the server is given variables"),
    "user": Option(Handling.SYSTEM, "newer releases of ssh put something in its place", _plain_name),
    "verifyhostkeydns": Option(Handling.SYSTEM, "host keys are looked up in DNS", _off),
}
OPTIONS: Mapping[str, Option] = {
    **{keyword: Option(Handling.HONOURED, "") for keyword in _HONOURED},
    **{keyword: Option(Handling.NO_EFFECT, why) for why, keywords in _NO_EFFECT.items()
       for keyword in keywords},
    **_SYSTEM,
}
# Other names of the same options (readconf.c).
ALIASES = {
    "challengeresponseauthentication": "kbdinteractiveauthentication",
    "dsaauthentication": "pubkeyauthentication", "hostbasedkeytypes": "hostbasedacceptedalgorithms",
    "identityfile2": "identityfile", "keepalive": "tcpkeepalive", "protocolkeepalives": "serveraliveinterval",
    "pubkeyacceptedkeytypes": "pubkeyacceptedalgorithms", "setuptimeout": "serveraliveinterval",
    "skeyauthentication": "kbdinteractiveauthentication", "smartcarddevice": "pkcs11provider",
    "tisauthentication": "kbdinteractiveauthentication",
}
# By Match, besides those that only the system's ssh can evaluate.
CRITERIA = ("all", "canonical", "final", "host", "originalhost", "user", "localuser")


def need(keyword: str, words: Sequence[str]) -> str | None:
    """Why this option needs the system's ssh; None where it does not."""
    option = OPTIONS.get(keyword)
    if option is None:
        return "this option is not known here"
    return option.why if option.how is Handling.SYSTEM and not option.harmless(words) else None


def allowed(text: str | None, ours: Sequence[str]) -> tuple[str, ...]:
    """Of our algorithms those that a list of ssh_config allows, in its order. With +, - or ^ before it the
    list is added to, taken from or put before ssh's defaults, of which we have these."""
    if not text:
        return tuple(ours)
    sign, names = (text[0], text[1:]) if text[0] in "+-^" else ("", text)
    listed = names.split(",")
    same = {_plain(name): name for name in reversed(ours)}
    if sign == "-":
        return tuple(name for name in ours if not any(fnmatch.fnmatchcase(_plain(name), _plain(pattern))
                                                      or fnmatch.fnmatchcase(name, pattern)
                                                      for pattern in listed))
    named = tuple(dict.fromkeys(same[_plain(name)] for name in listed if _plain(name) in same))
    if sign == "+":
        return tuple(ours)
    return named if not sign else (*named, *(name for name in ours if name not in named))


def _plain(name: str) -> str:
    """One name for an algorithm that has two (RFC 8731)."""
    return name.removesuffix("@libssh.org") if name.startswith("curve25519-sha256") else name


@functools.cache
def kerberos_ticket() -> bool:
    """Whether this user holds a Kerberos ticket, by klist(1); without it, by the usual places of one."""
    if (klist := shutil.which("klist")) is not None:
        try:
            return subprocess.run([klist, "-s"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL, timeout=5, check=False).returncode == 0
        except (OSError, subprocess.TimeoutExpired):
            return True
    return bool(os.environ.get("KRB5CCNAME")) or os.path.exists(f"/tmp/krb5cc_{os.getuid()}")  # noqa: PTH110, S108
