"""Which SSH client reaches a node, through which jump hosts, and why: this process where it can do all that
ssh_config asks for, else the system's ssh."""

from __future__ import annotations

import functools
import os
import stat
from dataclasses import dataclass, replace
from pathlib import Path

from inventory.errors import LACKING, ConfigError
from inventory.hostkeys import KnownHosts, RevokedKeys
from inventory.model import Node, Via
from inventory.sshconfig import SshConfig
from inventory.sshjump import parse_jump
from inventory.sshkeyfile import only_ssh_uses
from inventory.sshneeds import CIPHERS, HOST_KEYS, KEX_EVERYWHERE, MACS, allowed
from inventory.sshtarget import SshTarget, target_for

MOST_HOPS = 8
_AUTHORITY = b"@cert-authority"
_MOST_KNOWN_HOSTS = 64 * 1024 * 1024


class TooManyHops(ConfigError):
    """More jump hosts than any site has: probably a cycle."""


@dataclass(frozen=True)
class SshRoute:
    """How a node is reached: by `via`, which is never AUTO, through `hops` (nearest to us first). `why` names
    what takes the system's ssh where the inventory leaves the choice, one line each."""

    target: SshTarget
    hops: tuple[SshTarget, ...]
    via: Via
    why: tuple[str, ...] = ()


def route_for(node: Node, config: SshConfig) -> SshRoute:
    """The route to a node by inventory and ssh_config; makes no connection. Raises ConfigError, one line, for
    what cannot be read in ssh_config and for over 8 jump hosts, and OSError where this machine lacks a
    descriptor or memory to look into the files that it names."""
    target = target_for(node, config)
    hops = hops_to(target, node, config)
    if node.transport is not Via.AUTO:
        return SshRoute(target, hops, node.transport)
    why = tuple(dict.fromkeys((*needs(target, first=not hops), *(
        line for number, hop in enumerate(hops) for line in needs(hop, first=number == 0, hop=True)))))
    return SshRoute(target, hops, Via.OPENSSH if why else Via.PARAMIKO, why)


def hops_to(target: SshTarget, node: Node, config: SshConfig) -> tuple[SshTarget, ...]:
    """The jump hosts, nearest to us first. Each has its own entry in ssh_config; the node's own files count
    for it too. Raises ConfigError for an unreadable jump and for more than 8 hops (probably a cycle)."""
    route: list[SshTarget] = []
    jump = target.proxy_jump
    while jump is not None:
        hops = [_hop_target(hop.host, hop.user, hop.port, node, config) for hop in parse_jump(jump)]
        route[:0] = hops
        # As with ssh, only the nearest hop may name others before it.
        jump = hops[0].proxy_jump
        if len(route) > MOST_HOPS:
            raise TooManyHops(f"over {MOST_HOPS} jump hosts on the way; does ssh_config send {hops[0].name} "
                              "through itself?")
    return tuple(route)


def _hop_target(host: str, user: str | None, port: int | None, node: Node, config: SshConfig) -> SshTarget:
    own = target_for(Node(name=host, user=user, port=port, limits=node.given_limits), config)
    return replace(own, identity_files=tuple(dict.fromkeys((*own.identity_files, *node.identity_file))),
                   known_hosts_files=tuple(dict.fromkeys((*own.known_hosts_files, *node.known_hosts_file))))


def needs(target: SshTarget, *, first: bool, hop: bool = False) -> list[str]:
    """What only the system's ssh can do about this machine, `first` if we connect to it ourselves."""
    found = list(target.needs)
    if first and target.proxy_command is not None and target.proxy_jump is None:
        found.append("ProxyCommand: a command makes the connection")
    asked = target.algorithms
    for name, text, ours in (
            ("KexAlgorithms", asked.kex, KEX_EVERYWHERE), ("HostKeyAlgorithms", asked.host_keys, HOST_KEYS),
            ("Ciphers", asked.ciphers, CIPHERS), ("MACs", asked.macs, MACS)):
        if text is not None and not allowed(text, ours):
            found.append(f"{name}: this process knows none of them")
    found += [f"IdentityFile {path}: {why}" for path in target.identity_files if (why := only_ssh_uses(path))]
    if target.revoked_host_keys is not None and _is_binary_list(target.revoked_host_keys):
        found.append(f"RevokedHostKeys {target.revoked_host_keys}: a binary list, which only ssh reads")
    if any(map(_names_authority, target.known_hosts_files)) and _by_authority(target):
        found.append("a certificate authority vouches for its host key")
    if hop and target.control_path is not None and _is_socket(target.control_path):
        found.append(f"ControlPath: {target.name} is connected already")
    return [f"jump host {target.name}: {line}" for line in found] if hop else found


@functools.lru_cache(maxsize=64)
def _is_binary_list(path: str) -> bool:
    return RevokedKeys(path).binary


@functools.lru_cache(maxsize=64)
def _names_authority(path: str) -> bool:
    try:
        with Path(path).open("rb") as file:
            return _AUTHORITY in file.read(_MOST_KNOWN_HOSTS)
    except OSError as error:
        if error.errno in LACKING:
            raise       # an answer would be kept
        return False


def _by_authority(target: SshTarget) -> bool:
    return _known_hosts(target.known_hosts_files).by_authority(
        target.hostname, target.port, target.host_key_alias)


@functools.lru_cache(maxsize=16)
def _known_hosts(files: tuple[str, ...]) -> KnownHosts:
    return KnownHosts(files)


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)  # noqa: PTH116  (a path from ssh_config may hold a NUL)
    except (OSError, ValueError):
        return False
