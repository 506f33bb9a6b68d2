"""The configuration that our ssh runs with: what must hold, then the user's and the machine's files,
then what we would rather have.

Of a keyword ssh takes the first value. So what stands before the files holds whatever they say, for the node
and for every machine that a ProxyJump goes through; what stands after them holds only where they say nothing.
All of it is handed over as an open file without a name (/proc/PID/fd/N), which is gone with us.
"""

from __future__ import annotations

import glob
import os
import re
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping
from math import ceil
from pathlib import Path
from types import MappingProxyType
from typing import IO

from inventory.model import Node
from inventory.sshconfig import SYSTEM_CONFIG
from inventory.sshtarget import DEFAULT_GLOBAL_KNOWN_HOSTS, DEFAULT_KEYS
from inventory.transport.base import Limits, Stage
from inventory.transport.watch import TaskFailed

_VERSION = re.compile(r"OpenSSH_(\d+)\.(\d+)")
_INCLUDE = re.compile(r"^([ \t]*include(?:[ \t]*=[ \t]*|[ \t]+))(.*)$", re.IGNORECASE | re.MULTILINE)
_WORD = re.compile(r'"([^"\n]*)"|(\S+)')
_PLAIN = re.compile(r"[\w./@:+,~ -]+")
_HOST = re.compile(r"[\w.:%-]+")
_MOST_FILE = 1024 * 1024
# What counts as gone, in seconds without a sign of life: a machine on the way, and the node. ssh counts those
# of a login too, in which there is none before an answer.
SILENT_S = 8.0
_NODE_SILENT_S = 45.0
_MOST_DEPTH = 16        # of Include, as in OpenSSH's readconf.c

# No one is here to be asked, and nothing is to be forwarded, opened or run but the one command.
_ALWAYS = """\
BatchMode yes
StrictHostKeyChecking yes
NoHostAuthenticationForLocalhost no
UpdateHostKeys no
ClearAllForwardings yes
ForwardAgent no
ForwardX11 no
PermitLocalCommand no
RequestTTY no
EscapeChar none
Tunnel no
VisualHostKey no
AddKeysToAgent no
ControlMaster no
LogLevel INFO
"""
_SINCE = (
    ((7, 6), "RemoteCommand none\n"),
    ((8, 7), "SessionType default\nStdinNull no\nForkAfterAuthentication no\n"),
)
# curve25519 first: 14 to 19 ms of CPU here for a login, where ssh's own first choice takes over 100.
_KEX = (
    ((0, 0),
     "curve25519-sha256,curve25519-sha256@libssh.org,"
     "ecdh-sha2-nistp256,ecdh-sha2-nistp384,ecdh-sha2-nistp521"),
    ((9, 9), "mlkem768x25519-sha256"),
    ((8, 5), "sntrup761x25519-sha512@openssh.com"),
    ((0, 0),
     "diffie-hellman-group16-sha512,diffie-hellman-group14-sha256,diffie-hellman-group-exchange-sha256"),
)


def version(ssh: str) -> tuple[int, int]:
    """OpenSSH's version, (0, 0) for what does not say one or cannot be run now."""
    try:
        done = subprocess.run([ssh, "-V"], stdin=subprocess.DEVNULL, capture_output=True, timeout=10,
                              check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0, 0     # starting it for a node will report why
    match = _VERSION.search((done.stderr + done.stdout)[:1000].decode("ascii", "replace"))
    return (int(match[1]), int(match[2])) if match else (0, 0)


def quoted(path: str, *, tokens: bool = True) -> str:
    """A path as a word of ssh_config; `tokens`: % is special. Raises Refused for one that cannot be one."""
    if re.search(r'["\\\x00-\x1f]', path):
        raise TaskFailed(Stage.RESOLVE, f"ssh cannot be given the file name {ascii(path)[:120]}")
    return '"' + (path.replace("%", "%%") if tokens else path) + '"'


def global_files(files: Iterable[str]) -> str:
    """The option that names known_hosts files besides the user's. Raises TaskFailed as `quoted`."""
    return "GlobalKnownHostsFile=" + " ".join(quoted(path, tokens=False) for path in files)


class Configs:
    """The files that ssh reads, kept open until `close`."""

    def __init__(self, files: Iterable[Path], version: tuple[int, int], limits: Limits) -> None:
        self._version = version
        self._limits = limits
        self._open: dict[str, IO[bytes]] = {}
        self._names: dict[str, str] = {}
        self._made: dict[str, str] = {}
        self._lock = threading.Lock()
        self._files = [self._included(path, 0) for path in files]

    def path(
        self, keys: tuple[str, ...] = (), known_hosts: tuple[str, ...] = (), hops: tuple[str, ...] = (),
        hop_files: Mapping[str, tuple[str, ...]] = MappingProxyType({}), connect_s: float | None = None,
        hop_s: float = 0.0, given: bool = False, silent_s: float = SILENT_S, auth_s: float = 0.0,
    ) -> str:
        """What to give to `ssh -F`. `keys` and `known_hosts` count besides the files', `hops` are the
        machines on the way, nearest first, each of which may take `hop_s`, `hop_files` their
        GlobalKnownHostsFile where named, and gone after `silent_s` without a sign of life; the node is not
        before `auth_s`. A node's `connect_s`, where `given`, is over the files' ConnectTimeout."""
        text = self._text(keys, known_hosts, hops, hop_files,
                          self._limits.connect_s if connect_s is None else connect_s, hop_s, given, silent_s,
                          max(_NODE_SILENT_S, auth_s))
        with self._lock:
            if text not in self._made:
                self._made[text] = self._keep(text, "the options that muster gives to ssh")
            return self._made[text]

    def named(self, text: str) -> str:
        """`text` with our files called what a person knows them by."""
        return re.sub(r"/proc/\d+/fd/\d+", lambda match: self._names.get(match[0], match[0]), text)

    def close(self) -> None:
        """The files are gone."""
        for file in self._open.values():
            file.close()

    def _text(
        self, keys: tuple[str, ...], known_hosts: tuple[str, ...], hops: tuple[str, ...],
        hop_files: Mapping[str, tuple[str, ...]], connect_s: float, hop_s: float, given: bool,
        silent_s: float, node_silent_s: float,
    ) -> str:
        # Ours ends first, and says more. Where others are on the way, ssh counts their logins, too.
        timeout = "".join(f"Host {host}\nConnectTimeout {ceil(connect_s + number * hop_s) + 1}\n"
                          for number, host in enumerate((*hops, "*")))
        lines = [_ALWAYS, *(text for since, text in _SINCE if self._version >= since)]
        if given:
            lines.append(timeout)
        lines += [f"Match originalhost {host}\n{global_files((*files, *known_hosts))}\nMatch all\n"
                  for host, files in hop_files.items() if _HOST.fullmatch(host)]
        lines += [f"Include {path}\n" for path in self._files]
        if hops:
            # A jump host that has gone without a word is noticed while there is time to name it.
            lines.append(f"Host {' '.join(hops)}\nServerAliveInterval 4\n"
                         f"ServerAliveCountMax {ceil(silent_s / 4)}\n")
        lines.append(timeout)
        lines.append(f"KexAlgorithms {','.join(names for since, names in _KEX if self._version >= since)}\n")
        lines.append(f"ServerAliveInterval 15\nServerAliveCountMax {ceil(node_silent_s / 15)}\n")
        if keys:
            folder = Path("~/.ssh").expanduser()
            usual = [str(folder / name) for name in DEFAULT_KEYS if (folder / name).exists()]
            lines += [f"IdentityFile {quoted(path)}\n" for path in (*keys, *usual)]
        if known_hosts:
            lines.append(f"{global_files((*DEFAULT_GLOBAL_KNOWN_HOSTS, *known_hosts))}\n")
        return "".join(lines)

    def _included(self, path: Path, depth: int) -> str:
        """What to name in our Include for `path`: itself, or a copy where its own Include lines would be read
        differently (relative ones of /etc/ssh/ssh_config are from /etc/ssh, but ~/.ssh when included)."""
        system = path.parent == SYSTEM_CONFIG.parent or SYSTEM_CONFIG.parent in path.parents
        odd = not _PLAIN.fullmatch(str(path))
        if not (system or odd) or depth > _MOST_DEPTH:
            return f'"{path}"'
        try:
            with path.open("rb") as file:
                text = file.read(_MOST_FILE).decode("utf-8", "surrogateescape")
        except OSError:
            return f'"{path}"' if not odd else "/nonexistent"
        changed = odd

        def absolute(match: re.Match[str]) -> str:
            nonlocal changed
            words = []
            for word in _WORD.finditer(match[2]):
                pattern = word[1] if word[1] is not None else word[2]
                if pattern.startswith("~"):
                    words.append(word[0])
                    continue
                found = sorted(glob.glob(os.path.join(SYSTEM_CONFIG.parent, pattern)))  # noqa: PTH118, PTH207  (a pattern)
                named = [self._included(Path(each), depth + 1) for each in found]
                if not pattern.startswith("/") or named != [f'"{each}"' for each in found]:
                    changed = True
                    words += named or ["/nonexistent"]
                else:
                    words.append(word[0])
            return match[1] + " ".join(words)

        rewritten = _INCLUDE.sub(absolute, text) if system else text
        return self._keep(rewritten, str(path)) if changed else f'"{path}"'

    def _keep(self, text: str, name: str) -> str:
        file = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `close`)
        file.write(text.encode("utf-8", "surrogateescape"))
        file.flush()
        path = f"/proc/{os.getpid()}/fd/{file.fileno()}"
        self._open[path] = file
        self._names[path] = name
        return path


def inventory_options(node: Node) -> list[str]:
    """The inventory's settings for a node as options of ssh."""
    words = []
    if node.address is not None:
        words += ["-o", f"HostName={node.address.replace('%', '%%')}"]
    if node.port is not None:
        words += ["-p", str(node.port)]
    if node.user is not None:
        words += ["-l", node.user]
    if node.proxy_jump is not None:
        words += ["-o", f"ProxyJump={node.proxy_jump}"]
    return words
