"""Reads which host keys nodes are expected to show: known_hosts lines, prints of ssh-keygen -l, console logs.
Of a console log only cloud-init's blocks between -----BEGIN SSH HOST KEY ...----- and END count, and of
several the last: earlier ones speak of the machine before it was reinstalled."""

from __future__ import annotations

import base64
import binascii
import codecs
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from inventory.errors import ConfigError, UsageError
from inventory.hostkeys import KnownHost, KnownHosts, fingerprint, key_type
from inventory.sshtarget import SshTarget
from inventory.text import short

MAX_BYTES = 64 * 1024 * 1024
SUFFIXES = (".log", ".txt")
FORMS = ("a known_hosts line, a line of ssh-keygen -l, NAME SHA256:..., or a console log with cloud-init's "
         "block of host keys")

_SHA256 = r"SHA256:[A-Za-z0-9+/]{43}"
_PRINT = re.compile(rf"([0-9]+) ({_SHA256})(?: (.*?))? \(([A-Za-z0-9-]+)\)")
_KEY = re.compile(r"((?:ssh|ecdsa)-[a-z0-9-]+) (AAAA[A-Za-z0-9+/]+={0,2})(?![A-Za-z0-9+/=])(?: +([^\r\n]*))?")
_BLOCK = re.compile(r"-----(BEGIN|END) SSH HOST KEY (FINGERPRINTS|KEYS)-----")


@dataclass(frozen=True)
class Expected:
    """One key that a node is to show; `type` is None where the file does not say it, `where` is FILE:LINE."""

    fingerprint: str
    type: str | None
    where: str


class Expectations:
    """What one or more files say about nodes, by any name that they go by."""

    def __init__(self) -> None:
        self._named: dict[str, list[Expected]] = {}
        self._lists: list[KnownHosts] = []
        self._silent: dict[str, str] = {}

    def about(self, node: str, target: SshTarget) -> tuple[Expected, ...]:
        """The keys that a node is to show; empty when no file lists the node."""
        found: list[Expected] = []
        for name in dict.fromkeys((node.lower(), target.hostname.lower(), target.known_hosts_name.lower())):
            found += self._named.get(name, [])
        for known_hosts in self._lists:
            for host in _hosts(node, target):
                found += _trusted(known_hosts.about(*host))
        return tuple(dict.fromkeys(found))

    def prepare(self, nodes: Iterable[tuple[str, SshTarget]]) -> None:
        """Looks up many nodes in hashed lists at once, which makes `about` cheap."""
        hosts = [host for node, target in nodes for host in _hosts(node, target)]
        for known_hosts in self._lists:
            known_hosts.prepare(hosts)

    def add(self, name: str, expected: Expected) -> None:
        self._named.setdefault(name.lower(), []).append(expected)

    def add_list(self, known_hosts: KnownHosts) -> None:
        self._lists.append(known_hosts)

    def add_all(self, other: Expectations) -> None:
        """Adds all that another one holds."""
        for name, keys in other._named.items():
            self._named.setdefault(name, []).extend(keys)
        self._lists += other._lists

    def add_unreadable(self, node: str, why: str) -> None:
        """Records that a node's own file was there but useless."""
        self._silent[node] = why

    def why_unreadable(self, node: str) -> str:
        """Why a node's own file lists no key of it; empty when it has none, or it does."""
        return self._silent.get(node, "")


def _hosts(node: str, target: SshTarget) -> tuple[tuple[str, int, str | None], ...]:
    """What a known_hosts file may call a node."""
    return (target.hostname, target.port, target.host_key_alias), (node, 22, None)


def read_expected(path: Path, nodes: Sequence[str]) -> Expectations:
    """What a file says, or a folder of files NODE.log and NODE.txt, each about its node alone. Raises
    ConfigError with file and line for what cannot be read, and for keys without a node. In a folder an
    unreadable file counts as empty: it would concern no other node."""
    found = Expectations()
    if not path.is_dir():
        _file(found, path, _read(path), path.stem if path.stem in nodes else None, nodes)
        return found
    for node in nodes:
        for suffix in SUFFIXES:
            each = path / f"{node}{suffix}"
            if each.is_file():
                own = Expectations()
                try:
                    _file(own, each, _read(each), node, nodes)
                except ConfigError as error:
                    found.add_unreadable(node, f"{each} has no key of this node: {error}")
                else:
                    found.add_all(own)
    return found


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise UsageError(f"--expect {path}: {error.strerror}") from None
    if len(data) > MAX_BYTES:
        raise UsageError(f"--expect {path}: larger than 64 MiB")
    return data


def _file(found: Expectations, path: Path, data: bytes, owner: str | None, nodes: Sequence[str]) -> None:
    data = data.removeprefix(codecs.BOM_UTF8)
    text = data.decode("utf-8", "surrogateescape")
    only = owner if owner is not None else nodes[0] if len(nodes) == 1 else None
    if _BLOCK.search(text):
        if only is None:
            raise ConfigError(
                f"{path}: a console log, but {len(nodes)} nodes are chosen; put it in a folder as NODE.log")
        keys = console(text, str(path))
        if not keys:
            raise ConfigError(f"{path}: its last block of host keys is empty or damaged")
        for expected in keys:
            found.add(only, expected)
        return
    known_hosts = KnownHosts.parse(data, str(path))
    unread = dict(known_hosts.ignored)
    for number, line in enumerate(text.split("\n"), 1):
        where = f"{path}:{number}"
        words = line.split()
        if not words or words[0].startswith("#"):
            continue
        if (read := _listed(line.strip(), where)) is not None:
            names, expected = read
            # A file named after a node is about it, whatever machine it was written on.
            for name in (owner,) if owner is not None else names or (only,):
                if name is None:
                    raise ConfigError(f"{where}: a key without a host name, but {len(nodes)} nodes are "
                                      "chosen; expected NAME SHA256:...")
                found.add(name, expected)
        elif where in unread:
            raise ConfigError(
                f"{where}: {_trouble(words, unread[where])}; expected {FORMS}; found {short(line.strip())}")
        elif owner is not None and not words[0].startswith("@"):
            found.add(owner, Expected(fingerprint(base64.b64decode(words[2])), words[1], where))
    found.add_list(known_hosts)


def _trouble(words: Collection[str], why: str) -> str:
    return "an MD5 fingerprint, which is too weak" if any(word.startswith("MD5:") for word in words) else why


def console(text: str, file: str) -> tuple[Expected, ...]:
    """The host keys that cloud-init wrote to a console, without damaged ones; any text may precede them."""
    found: dict[str, list[Expected]] = {"FINGERPRINTS": [], "KEYS": []}
    inside: str | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if (edge := _BLOCK.search(line)) is not None:
            inside = edge[2] if edge[1] == "BEGIN" else None
            if inside is not None:
                found[inside] = []
            if inside == "FINGERPRINTS":    # it comes first, so what stood before is of an earlier boot
                found["KEYS"] = []
        elif inside is not None and (read := _key_in(line, f"{file}:{number}")) is not None:
            found[inside].append(read[1])
    return (*found["FINGERPRINTS"], *found["KEYS"])


def _listed(line: str, where: str) -> tuple[tuple[str, ...], Expected] | None:
    """The names and the key of one line of a list, unless it is none of ours (as in a known_hosts file)."""
    words = line.split()
    if len(words) == 2 and re.fullmatch(f"{_SHA256}=?", words[1]):
        return (words[0],), Expected(words[1].rstrip("="), None, where)
    if _PRINT.fullmatch(line) or _KEY.fullmatch(line):
        return _key_in(line, where)
    return None


def _key_in(line: str, where: str) -> tuple[tuple[str, ...], Expected] | None:
    """A fingerprint or a public key somewhere in a line, and the hosts that its comment names."""
    if (match := _PRINT.search(line)) is not None:
        return tuple(_names(match[3] or "")), Expected(match[2], _named_type(match[4], match[1]), where)
    if (match := _KEY.search(line)) is not None:
        try:
            blob = base64.b64decode(match[2], validate=True)
        except (binascii.Error, ValueError):
            return None
        if key_type(blob) == match[1] and _is_whole(blob):
            return tuple(_names(match[3] or "")), Expected(fingerprint(blob), match[1], where)
    return None


def _is_whole(blob: bytes) -> bool:
    """Whether a key in wire form ends where its last part does; on a console a line may be cut anywhere."""
    at = 0
    while at < len(blob):
        at += 4 + int.from_bytes(blob[at:at + 4], "big")
    return at == len(blob)


def _named_type(family: str, bits: str) -> str:
    """The key type that ssh-keygen means by ED25519, RSA, or ECDSA with its number of bits."""
    return {"ED25519": "ssh-ed25519", "RSA": "ssh-rsa", "ECDSA": f"ecdsa-sha2-nistp{bits}"}.get(
        family, family.lower())


def _names(comment: str) -> Iterator[str]:
    if comment and comment != "no comment":
        for name in comment.split()[-1].split(","):
            yield name.rpartition("@")[2]


def _trusted(known: KnownHost) -> Iterator[Expected]:
    revoked = {key.blob for key in known.revoked}
    for key in (*known.keys, *known.portless):
        if key.blob not in revoked:
            yield Expected(fingerprint(key.blob), key.type, key.where)
