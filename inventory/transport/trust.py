"""Checks strictly whether a server's host key is known, and if not says what to type."""

from __future__ import annotations

import shlex

from inventory.hostkeys import KnownHost, KnownKey, RevokedKeys, fingerprint, key_type
from inventory.sshtarget import SshTarget

_RSA = ("rsa-sha2-512", "rsa-sha2-256")


def algorithms(known: KnownHost, supported: tuple[str, ...]) -> tuple[str, ...]:
    """`supported`, first those whose key is known, so that the server shows one that can be checked."""
    wanted: list[str] = []
    for name in known.types:
        wanted += _RSA if name == "ssh-rsa" else (name,)
    first = [name for name in supported if name in wanted]
    return (*first, *(name for name in supported if name not in first))


def rsa_bits(blob: bytes) -> int | None:
    """The size of an RSA key in wire form (RFC 4253 section 6.6); None for another kind of key."""
    if key_type(blob) != "ssh-rsa":
        return None
    at, part = 0, b""
    for _ in range(3):      # type, exponent, modulus
        size = int.from_bytes(blob[at:at + 4], "big")
        part, at = blob[at + 4:at + 4 + size], at + 4 + size
    return int.from_bytes(part, "big").bit_length()


def revocation(target: SshTarget, known: KnownHost, revoked: RevokedKeys | None, blob: bytes) -> str | None:
    """Why the key may not be taken whoever vouches for it: it is revoked, or the list of revoked keys cannot
    be read, which refuses every key, as in OpenSSH. None where it may."""
    offered = f"{key_type(blob)} {fingerprint(blob)}"
    if bad := [key for key in known.revoked if key.blob == blob]:
        return f"{known.name} offers {offered}, which {bad[0].where} marks as revoked"
    if revoked is not None and revoked.problem:
        return f"no host key is trusted while RevokedHostKeys cannot be read: {revoked.problem}"
    if revoked is not None and blob in revoked:
        return f"{known.name} offers {offered}, which {target.revoked_host_keys} revokes"
    return None


def objection(target: SshTarget, known: KnownHost, revoked: RevokedKeys | None, blob: bytes) -> str | None:
    """Why the key that the server has proven is refused, with what to type; None when it is known."""
    offered = f"{key_type(blob)} {fingerprint(blob)}"
    if (problem := revocation(target, known, revoked, blob)) is not None:
        return problem
    if any(key.blob == blob for key in (*known.keys, *known.portless)):
        return None
    same = [key for key in known.keys if key.type == key_type(blob)]
    if same:
        return _changed(target, known, same[0], offered)
    if known.keys:
        others = ", ".join(f"{key.type} ({key.where})" for key in known.keys[:3])
        return f"{known.name} offers {offered}, but only its {others} is known; {_enroll(target)}"
    if known.authorities:
        return (f"{known.name} is trusted only through a certificate authority "
                f"({known.authorities[0].where}), and this transport cannot check host certificates; set "
                f"`transport: openssh`, which can; or, as it offers {offered}, {_enroll(target)}")
    return (f"{known.name} is not in {' or '.join(target.known_hosts_files[:2]) or 'any file'}; it offers "
            f"{offered}; {_enroll(target)}")


def _changed(target: SshTarget, known: KnownHost, old: KnownKey, offered: str) -> str:
    name = shlex.quote(target.name)
    return (f"the host key of {known.name} has changed: it offers {offered}, {old.where} holds "
            f"{fingerprint(old.blob)}; see it with: ssh-keygen -l -F {shlex.quote(known.name)} -f "
            f"{shlex.quote(old.file)}; only if the node was reinstalled, pin the new one with: muster "
            f"inventory enroll {name} --replace {name}")


def _enroll(target: SshTarget) -> str:
    return ("compare with the node's console, then pin it with: muster inventory enroll "
            f"{shlex.quote(target.name)}")


def by_hand(target: SshTarget, *options: str) -> str:
    """The ssh command that reaches the same place by hand."""
    words = ["ssh", *options]
    if target.host_key_alias:
        words += ["-o", f"HostKeyAlias={target.host_key_alias}"]
    if target.proxy_jump:
        words += ["-J", target.proxy_jump]
    if target.port != 22:
        words += ["-p", str(target.port)]
    return shlex.join([*words, f"{target.user}@{target.hostname}"])
