"""The user's keys, from files and the SSH agent, loaded once for all connections of a sweep."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from inventory.errors import LACKING
from inventory.hostkeys import key_type
from inventory.sshkeyfile import is_public, public_key
from inventory.transport.quiet import paramiko

_AGENT_SECONDS = 15.0
_MOST_AGENT_BYTES = 1024 * 1024
_LIST, _LISTED, _SIGN, _SIGNED = 11, 12, 13, 14
_RSA_FLAGS = {"rsa-sha2-256": 2, "rsa-sha2-512": 4}


class AgentError(OSError):
    """The agent is not there, does not answer, or refuses."""


class SshAgent:
    """A client of ssh-agent(1), one request at a time, each within 15 s (paramiko's own waits for ever)."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._lock = threading.Lock()

    def keys(self) -> list[tuple[bytes, str]]:
        """(public key in wire form, comment) of each key it holds; raises AgentError."""
        answer = self._ask(bytes([_LIST]), _LISTED)
        count, rest = _number(answer)
        keys = []
        for _ in range(min(count, 1000)):
            blob, rest = _string(rest)
            comment, rest = _string(rest)
            keys.append((blob, comment.decode("utf-8", "replace")))
        return keys

    def sign(self, blob: bytes, data: bytes, flags: int) -> bytes:
        """The agent's signature in wire form; raises AgentError."""
        request = bytes([_SIGN]) + _packed(blob) + _packed(data) + flags.to_bytes(4, "big")
        return _string(self._ask(request, _SIGNED))[0]

    def _ask(self, request: bytes, expected: int) -> bytes:
        with self._lock, socket.socket(socket.AF_UNIX) as sock:
            try:
                sock.settimeout(_AGENT_SECONDS)
                sock.connect(self.path)
                sock.sendall(_packed(request))
                size = int.from_bytes(_exactly(sock, 4), "big")
                if not 0 < size <= _MOST_AGENT_BYTES:
                    raise AgentError(f"the agent at {self.path} does not speak the agent protocol")
                answer = _exactly(sock, size)
            except AgentError:
                raise
            except OSError as error:
                raise AgentError(f"the agent at {self.path}: {error.strerror or 'does not answer'}") from None
        if answer[0] != expected:
            raise AgentError(f"the agent at {self.path} refused")
        return answer[1:]


class AgentKey:
    """A key that stays in the agent, in the shape that paramiko's authentication asks of a key."""

    public_blob = None

    def __init__(self, agent: SshAgent, blob: bytes) -> None:
        self._agent = agent
        self._blob = blob
        self.problem: str | None = None

    def get_name(self) -> str:
        return key_type(self._blob)

    def asbytes(self) -> bytes:
        return self._blob

    def sign_ssh_data(self, data: bytes, algorithm: str | None = None) -> bytes:
        try:
            return self._agent.sign(
                self._blob, data, _RSA_FLAGS.get((algorithm or "").removesuffix("-cert-v01@openssh.com"), 0))
        except AgentError as error:
            self.problem = str(error)
            raise paramiko.SSHException(str(error)) from None


@dataclass(frozen=True)
class SshIdentity:
    """One key to try: its name for a person, and the object that signs."""

    name: str
    key: Any
    blob: bytes

    @property
    def in_agent(self) -> bool:
        """Whether signing is the agent's work, which may fail, or wait for a person."""
        return isinstance(self.key, AgentKey)

    @property
    def broken(self) -> str | None:
        """Why it cannot sign, once that is known."""
        return getattr(self.key, "problem", None)


class Identities:
    """The keys to try, in order, and what kept others from being tried."""

    def __init__(self, keys: tuple[SshIdentity, ...], notes: tuple[str, ...] = ()) -> None:
        self.keys = keys
        self.notes = notes
        self._good: SshIdentity | None = None

    def in_order(self) -> tuple[SshIdentity, ...]:
        """All keys, the last successful one first: sshd counts wrong keys."""
        good = self._good
        return self.keys if good is None else (good, *(key for key in self.keys if key is not good))

    def worked(self, identity: SshIdentity) -> None:
        """This key let us in."""
        self._good = identity


@dataclass
class _File:
    keys: tuple[SshIdentity, ...] = ()
    public: bytes | None = None
    note: str | None = None


@dataclass
class Keyring:
    """Loads each key file and asks each agent once. Safe to use from many threads."""

    _files: dict[str, _File] = field(default_factory=dict)
    _agents: dict[str, tuple[tuple[SshIdentity, ...], str | None]] = field(default_factory=dict)
    _chosen: dict[tuple[tuple[str, ...], bool, str | None], Identities] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def identities(self, files: Iterable[str], agent: str | None, *, only_files: bool) -> Identities:
        """Keys of `files` that the agent holds, then the files' own, then (unless `only_files`) the agent's
        others: OpenSSH tries those before files; last is better, as sshd hangs up after six."""
        wanted = (tuple(files), only_files, agent)
        with self._lock:
            if wanted not in self._chosen:
                self._chosen[wanted] = self._choose(*wanted)
            return self._chosen[wanted]

    def _choose(self, files: tuple[str, ...], only_files: bool, agent: str | None) -> Identities:
        held, note = self._agent(agent) if agent else ((), None)
        notes = [note] if note else []
        by_blob = {identity.blob: identity for identity in held}
        order: dict[bytes, SshIdentity] = {}
        for path in files:
            loaded = self._file(path)
            if loaded.public in by_blob:
                order.setdefault(loaded.public, by_blob[loaded.public])
            elif loaded.note:
                notes.append(loaded.note)
            for identity in loaded.keys:
                order.setdefault(identity.blob, identity)
        if not only_files:
            for identity in held:
                order.setdefault(identity.blob, identity)
        return Identities(tuple(order.values()), tuple(notes))

    def _agent(self, path: str) -> tuple[tuple[SshIdentity, ...], str | None]:
        if path not in self._agents:
            agent = SshAgent(path)
            try:
                found = agent.keys()
            except AgentError as error:
                self._agents[path] = ((), str(error))
            else:
                self._agents[path] = (tuple(SshIdentity(f"{comment or key_type(blob)} (agent)",
                                                        AgentKey(agent, blob), blob)
                                            for blob, comment in found),
                                      None if found else "the agent holds no keys")
        return self._agents[path]

    def _file(self, path: str) -> _File:
        if path not in self._files:
            self._files[path] = _load(path)
        return self._files[path]


def _load(path: str) -> _File:
    """A private key, with its certificate in PATH-cert.pub if any; a public key names one of the agent."""
    public = public_key(path)
    if is_public(path):
        return _File(public=public, note=f"{path} is a public key, whose private key is not in the agent")
    try:
        key: Any = paramiko.PKey.from_path(path)
    except FileNotFoundError:
        return _File(public=public)
    except OSError as error:
        if error.errno in LACKING:
            raise       # the next to ask may read it
        return _File(public=public, note=f"{path}: {error.strerror}")
    except (TypeError, paramiko.PasswordRequiredException):
        return _File(public=public, note=f"{path} is encrypted and not in the agent (ssh-add {path})")
    except Exception as error:  # noqa: BLE001  (cryptography and paramiko raise many kinds for a damaged file)
        return _File(public=public,
                     note=f"{path} is not a private key that can be read ({type(error).__name__})")
    keys = []
    if getattr(key, "public_blob", None) is not None:
        keys.append(SshIdentity(f"{path} (certificate)", key, bytes(key.public_blob.key_blob)))
        key = paramiko.PKey.from_path(path)
        key.public_blob = None
    blob = bytes(key.asbytes())
    keys.append(SshIdentity(path, key, blob))
    return _File(tuple(keys), blob)


def _exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = sock.recv(size - len(data))
        if not piece:
            raise AgentError("the agent closed the connection")
        data += piece
    return data


def _packed(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _number(data: bytes) -> tuple[int, bytes]:
    if len(data) < 4:
        raise AgentError("the agent's answer is cut")
    return int.from_bytes(data[:4], "big"), data[4:]


def _string(data: bytes) -> tuple[bytes, bytes]:
    size, rest = _number(data)
    if len(rest) < size:
        raise AgentError("the agent's answer is cut")
    return rest[:size], rest[size:]


def agent_socket(configured: str | None) -> str | None:
    """The agent's socket: IdentityAgent as given, else SSH_AUTH_SOCK; None without an agent."""
    if configured is not None and configured.lower() == "none":
        return None
    if configured is None or configured == "SSH_AUTH_SOCK":
        return os.environ.get("SSH_AUTH_SOCK") or None
    return os.environ.get(configured[1:]) if configured.startswith("$") else configured
