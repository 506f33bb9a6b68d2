"""What the user's and the machine's ssh_config say about a host, read as OpenSSH reads it,
and merged under the inventory.

Read here rather than by paramiko, whose reader has no Include, and runs the command of `Match exec`.
Supported: Host, Match (all, host, originalhost, user, localuser, final, canonical, each with !), Include
(also within a block), quotes, `~`, ${VARIABLE} in paths, and the tokens %% %C %d %h %i %j %k %L %l %n %p %r
%u. Nothing is ever executed. What only the system's ssh can do is in `needs`: a block under `Match exec` or
any criterion not named above, which may apply, and the options that `sshneeds` lists. Whatever it says, host
keys are always checked strictly.
"""

from __future__ import annotations

import functools
import getpass
import glob
import hashlib
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inventory.errors import ConfigError, Mark
from inventory.model import Node
from inventory.sshneeds import ALIASES, CRITERIA, OPTIONS, need
from inventory.sshowner import check_owner
from inventory.text import clean, short

MAX_BYTES = 4 * 1024 * 1024
MAX_DEPTH = 16              # of Include, as in OpenSSH's readconf.c
SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
DEFAULT_KEYS = ("id_ed25519", "id_ecdsa", "id_rsa")     # the kinds of ssh's defaults that need no token
OWN_KNOWN_HOSTS = "muster_known_hosts"      # of muster alone: in ~/.ssh, and never hashed
DEFAULT_KNOWN_HOSTS = ("known_hosts", "known_hosts2")
DEFAULT_GLOBAL_KNOWN_HOSTS = ("/etc/ssh/ssh_known_hosts", "/etc/ssh/ssh_known_hosts2")

_KEYWORD = re.compile(r"([A-Za-z0-9]+)[ \t]*(?:=[ \t]*|[ \t]+|$)(.*)", re.DOTALL)
_TOKEN = re.compile(r"%(.?)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_SPAN = re.compile(r"(?:([0-9]+)([smhdwSMHDW]?))")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_HOP = re.compile(r"(?:ssh://)?(?:(?P<user>[^@\s]+)@)?"
                  r"(?:\[(?P<v6>[0-9A-Fa-f:.%\w]+)\]|(?P<host>[^\s:@\[\]/-][^\s:@\[\]/]*))"
                  r"(?::(?P<port>[0-9]{1,5}))?/?")


@dataclass(frozen=True)
class SshAlgorithms:
    """Lists as ssh_config writes them, None where it gives none; `rsa_bits` is the least size of an RSA key
    that is believed (OpenSSH's default of 1024)."""

    kex: str | None = None
    host_keys: str | None = None
    ciphers: str | None = None
    macs: str | None = None
    rsa_bits: int = 1024


@dataclass(frozen=True)
class SshOptions:
    """What ssh_config gives for one host; None or () where it gives nothing,
    which is not the same as a default.

    Paths and names are expanded. `identity_files` are () too where IdentityFile is none, and the usual ones
    are not to be tried (`no_identity_files`). `identity_agent` is a socket's path, "none", or
    "SSH_AUTH_SOCK". `proxy_command` is never run by this module. `connect_timeout` is in seconds. `needs`
    say, one line each with its place, what only the system's ssh can do. `control_path` is where an ssh may
    keep a connection.
    """

    hostname: str
    port: int | None = None
    user: str | None = None
    identity_files: tuple[str, ...] = ()
    no_identity_files: bool = False
    identities_only: bool = False
    identity_agent: str | None = None
    user_known_hosts_files: tuple[str, ...] | None = None
    global_known_hosts_files: tuple[str, ...] | None = None
    revoked_host_keys: str | None = None
    host_key_alias: str | None = None
    proxy_jump: str | None = None
    proxy_command: str | None = None
    connect_timeout: float | None = None
    address_family: str = "any"
    hash_known_hosts: bool = False
    algorithms: SshAlgorithms = SshAlgorithms()
    control_path: str | None = None
    needs: tuple[str, ...] = ()


@dataclass(frozen=True)
class SshTarget:
    """All that a connection to one node needs: the inventory over ssh_config over the defaults.

    `identity_files` were asked for when `identities_given`; else they are the usual ones, which need not
    exist. `known_hosts_files` need not exist either. `proxy_jump` is None for a direct connection;
    `parse_jump` reads it.
    """

    name: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[str, ...]
    identities_given: bool
    identities_only: bool
    identity_agent: str | None
    known_hosts_files: tuple[str, ...]
    revoked_host_keys: str | None
    host_key_alias: str | None
    proxy_jump: str | None
    proxy_command: str | None
    connect_timeout: float | None
    address_family: str
    algorithms: SshAlgorithms = SshAlgorithms()
    control_path: str | None = None
    needs: tuple[str, ...] = ()

    @property
    def known_hosts_name(self) -> str:
        """What the host is called in known_hosts: its alias, its name,
        or [name]:port where the port is not 22."""
        if self.host_key_alias is not None:
            return self.host_key_alias
        host = self.hostname.lower()
        return host if self.port == 22 else f"[{host}]:{self.port}"


@dataclass(frozen=True)
class Hop:
    """One jump host of a ProxyJump; None where its own ssh_config entry or a default decides."""

    host: str
    user: str | None = None
    port: int | None = None


def options_for(
    name: str, config: SshConfig | None = None, *, address: str | None = None, user: str | None = None,
    port: int | None = None,
) -> SshOptions:
    """What the files say about `name`. `config` None: ~/.ssh/config and /etc/ssh/ssh_config,
    read once per process.

    What the inventory gives (address, user, port) counts as given on ssh's command line: it wins, and Match
    and tokens see it. Raises ConfigError, one line naming file and line, where the files are broken.
    """
    return (config if config is not None else default_config()).lookup(
        name, address=address, user=user, port=port)


def resolve(node: Node, options: SshOptions) -> SshTarget:
    """The node's own values over the options over the defaults of ssh.

    Where the inventory names no known_hosts files, muster's own counts beside those of ssh. A limit that was
    given to muster is over ssh's ConnectTimeout.
    """
    ssh = _home() / ".ssh"
    given = node.identity_file or options.identity_files
    jump = node.proxy_jump if node.proxy_jump is not None else options.proxy_jump
    users = options.user_known_hosts_files
    if users is None:
        users = tuple(str(ssh / name) for name in DEFAULT_KNOWN_HOSTS)
    machines = options.global_known_hosts_files
    return SshTarget(
        name=node.name,
        hostname=node.address or options.hostname,
        port=node.port or options.port or 22,
        user=node.user or options.user or local_user(),
        identity_files=given or (() if options.no_identity_files
                                 else tuple(str(ssh / name) for name in DEFAULT_KEYS)),
        identities_given=bool(given) or options.no_identity_files,
        identities_only=options.identities_only,
        identity_agent=options.identity_agent,
        known_hosts_files=tuple(dict.fromkeys(
            (*(node.known_hosts_file or (own_known_hosts(), *users)),
             *(machines if machines is not None else DEFAULT_GLOBAL_KNOWN_HOSTS)))),
        revoked_host_keys=options.revoked_host_keys,
        host_key_alias=options.host_key_alias,
        proxy_jump=None if jump is None or jump.lower() == "none" else jump,
        proxy_command=options.proxy_command if node.proxy_jump is None else None,
        connect_timeout=options.connect_timeout if node.given_limits.connect is None else None,
        address_family=options.address_family,
        algorithms=options.algorithms,
        control_path=options.control_path,
        needs=options.needs,
    )


def target_for(node: Node, config: SshConfig | None = None) -> SshTarget:
    """`options_for` and `resolve` in one, so that Match blocks and tokens see what the inventory gives."""
    return resolve(node, options_for(node.name, config, address=node.address, user=node.user, port=node.port))


def parse_jump(text: str) -> tuple[Hop, ...]:
    """The hops of a ProxyJump ([user@]host[:port] or ssh:// forms, joined by commas),
    nearest to us first. Raises ConfigError."""
    hops = []
    for part in text.split(","):
        match = _HOP.fullmatch(part.strip())
        port = int(match["port"]) if match and match["port"] else None
        if match is None or (port is not None and not 1 <= port <= 65535):
            raise ConfigError(f"proxy jump {ascii(part.strip())[:80]} is not [user@]host[:port]")
        hops.append(Hop(match["v6"] or match["host"], match["user"], port))
    return tuple(hops)


def _nearest(jump: str | None) -> str:
    """The host of the last hop, for %j."""
    match = _HOP.fullmatch(jump.rpartition(",")[2].strip()) if jump is not None else None
    return (match["v6"] or match["host"]) if match is not None else ""


def own_known_hosts() -> str:
    """The file in which muster pins host keys unless another is named; it need not exist."""
    return str(_home() / ".ssh" / OWN_KNOWN_HOSTS)


def local_user() -> str:
    """The user who runs this program."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


@functools.cache
def default_config() -> SshConfig:
    """The user's and the machine's files, read once."""
    return SshConfig.load()


# reading

@dataclass(frozen=True)
class _Line:
    """One directive; an Include carries the lines of its files."""

    keyword: str
    words: tuple[str, ...]
    rest: str
    mark: Mark
    spelt: str
    included: tuple[tuple[_Line, ...], ...] = ()


@dataclass(frozen=True)
class SshConfig:
    """The lines of the files, the user's before the machine's."""

    files: tuple[tuple[_Line, ...], ...]

    @classmethod
    def load(cls, user: Path | None = None, system: Path | None = SYSTEM_CONFIG) -> SshConfig:
        """Reads both; a file that is not there is empty. `user` None: ~/.ssh/config. Raises ConfigError, also
        for a file that others than its owner may change, which OpenSSH refuses."""
        folder = _home() / ".ssh"
        found = [_read(user if user is not None else folder / "config", folder, 0, required=user is not None)]
        if system is not None:
            found.append(_read(system, SYSTEM_CONFIG.parent, 0, required=False, checked=False))
        return cls(tuple(found))

    @classmethod
    def parse(cls, text: str, filename: str = "ssh_config") -> SshConfig:
        """Reads text as if it were the user's only file."""
        return cls((tuple(_lines(text, filename, _home() / ".ssh", 0)),))

    def lookup(
        self, name: str, *, address: str | None = None, user: str | None = None, port: int | None = None,
    ) -> SshOptions:
        """See `options_for`."""
        found = _Lookup(name, address, user, port)
        for lines in self.files:
            found.apply(lines)
        if found.wants_final:
            found.resolve()
            for lines in self.files:
                found.apply(lines)
        return found.options()

    def hosts(self) -> tuple[str, ...]:
        """The names that Host lines of the user's file give in full, each once, in the file's order."""
        return tuple(dict.fromkeys(_named(self.files[0]))) if self.files else ()


def _named(lines: tuple[_Line, ...]) -> Iterator[str]:
    for line in lines:
        for included in line.included:
            yield from _named(included)
        if line.keyword == "host":
            yield from (word for word in line.words if not word.startswith("!") and not set(word) & set("*?"))


def _home() -> Path:
    return Path(os.path.expanduser("~"))  # noqa: PTH111  (never raises)


def _read(
    path: Path, folder: Path, depth: int, *, required: bool, checked: bool = True,
) -> tuple[_Line, ...]:
    """`checked`: as readconf.c, which trusts only files of root or this user that no one else may write; the
    machine's own file is not looked at, but what it includes is."""
    try:
        with open(path, "rb") as file:
            if checked:
                check_owner(path, os.fstat(file.fileno()))
            data = file.read(MAX_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        if required:
            raise ConfigError(f"{path}: no such file") from None
        return ()
    except OSError as problem:
        raise ConfigError(f"{path}: cannot be read: {problem.strerror}") from None
    if len(data) > MAX_BYTES:
        raise ConfigError(f"{path}: is over {MAX_BYTES} bytes")
    return tuple(_lines(data.decode("utf-8", "surrogateescape"), str(path), folder, depth))


def _lines(text: str, filename: str, folder: Path, depth: int) -> Iterator[_Line]:
    for number, raw in enumerate(text.split("\n"), 1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        mark = Mark(filename, number, raw.index(line[0]) + 1)
        match = _KEYWORD.fullmatch(line)
        if match is None:
            raise ConfigError(f"expected a keyword and its value, found {short(line)}", mark)
        keyword, rest = match[1].lower(), match[2]
        keyword = ALIASES.get(keyword, keyword)
        words = _split(rest, mark)
        if not words:
            raise ConfigError(f"{match[1]} has no value", mark)
        if keyword == "match":
            _check_match(words, mark)
        included = tuple(_included(words, folder, depth, mark)) if keyword == "include" else ()
        yield _Line(keyword, words, rest, mark, match[1], included)


def _split(text: str, mark: Mark) -> tuple[str, ...]:
    """Words as OpenSSH's argv_split takes them: quotes, backslashes,
    and # at the start of a word for a comment."""
    words: list[str] = []
    at = 0
    while at < len(text):
        if text[at] in " \t":
            at += 1
            continue
        if text[at] == "#":
            break
        word, quote = [], ""
        while at < len(text) and (quote or text[at] not in " \t"):
            char = text[at]
            if (char == "\\" and text[at + 1: at + 2] in ("'", '"', "\\", *((" ",) if not quote else ()))
                and at + 1 < len(text)):
                at += 1
                word.append(text[at])
            elif quote and char == quote:
                quote = ""
            elif not quote and char in "'\"":
                quote = char
            else:
                word.append(char)
            at += 1
        if quote:
            raise ConfigError("a quote is not closed", mark)
        words.append("".join(word))
    return tuple(words)


def _included(words: tuple[str, ...], folder: Path, depth: int, mark: Mark) -> Iterator[tuple[_Line, ...]]:
    if depth >= MAX_DEPTH:
        raise ConfigError(f"Include goes over {MAX_DEPTH} levels deep", mark)
    for pattern in words:
        full = os.path.join(folder, os.path.expanduser(pattern))  # noqa: PTH111, PTH118  (a pattern, not a path)
        for path in sorted(glob.glob(full)):  # noqa: PTH207  (absolute patterns)
            yield _read(Path(path), folder, depth + 1, required=False)


_PLAIN_CRITERIA = ("all", "canonical", "final")
_KNOWN_CRITERIA = tuple(name for name in CRITERIA if name not in _PLAIN_CRITERIA)


def _criteria(words: tuple[str, ...]) -> Iterator[tuple[bool, str, str | None]]:
    """(negated, criterion, argument); the argument may follow an equals sign."""
    queue = list(words)
    while queue:
        word = queue.pop(0)
        negated = word.startswith("!")
        criterion, equals, argument = word.lstrip("!").partition("=")
        criterion = criterion.lower()
        if criterion in _PLAIN_CRITERIA:
            yield negated, criterion, None
        else:
            yield negated, criterion, argument if equals else queue.pop(0) if queue else None


def _check_match(words: tuple[str, ...], mark: Mark) -> None:
    criteria = list(_criteria(words))
    for _, criterion, argument in criteria:
        if criterion not in _PLAIN_CRITERIA and argument is None:
            raise ConfigError(f"Match {short(criterion)} has no value", mark)
    names = [criterion for _, criterion, _ in criteria]
    if ("all" in names and (len(names) > 2 or names[-1] != "all"
                            or (len(names) == 2 and names[0] not in ("canonical", "final")))):
        raise ConfigError("Match all goes with nothing but canonical or final before it", mark)


# asking

@dataclass
class _Lookup:
    """Looks up one host: the first value of each keyword counts."""

    name: str
    address: str | None
    user: str | None
    port: int | None
    final: bool = False
    resolved: str | None = None
    wants_final: bool = False
    found: dict[str, _Line] = field(default_factory=dict)
    identities: list[_Line] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)

    def resolve(self) -> None:
        """Ends the first pass; as in ssh, a HostName of the final pass has no effect."""
        self.resolved = self._hostname()
        self.final = True

    def apply(self, lines: tuple[_Line, ...]) -> None:
        active = True
        for line in lines:
            if line.keyword == "host":
                active = self._host(line.words)
            elif line.keyword == "match":
                active = self._match(line)
            elif not active:
                continue
            elif line.keyword == "include":
                for each in line.included:
                    self.apply(each)
            elif line.keyword == "identityfile":
                if line not in self.identities:
                    self.identities.append(line)
            elif line.keyword == "proxyjump" and line.rest.strip().lower() == "none":
                # blocks later ProxyJumps, but, as in ssh, no ProxyCommand
                self.found.setdefault("nojump", line)
            elif (line.keyword == "proxycommand"
                  or (line.keyword == "proxyjump" and "nojump" not in self.found)):
                # ssh ignores the later of the two.
                self.found.setdefault("proxy", line)
            else:
                self.found.setdefault(line.keyword, line)

    def _host(self, patterns: tuple[str, ...]) -> bool:
        return _matches(self.name, patterns)

    def _match(self, line: _Line) -> bool:
        result = True
        unknown = None
        for negated, criterion, argument in _criteria(line.words):
            if criterion == "final":
                self.wants_final = True
            if criterion == "all":
                holds = True
            elif criterion in ("final", "canonical"):
                holds = self.final
            elif criterion in _KNOWN_CRITERIA:
                holds = _matches(self._subject(criterion), tuple((argument or "").split(",")))
            else:
                unknown = unknown or criterion
                continue
            result = result and holds is not negated
        if result and unknown is not None:
            self._need(f"{line.mark}: Match {unknown}: only ssh can tell whether its block applies")
        return result and unknown is None

    def _subject(self, criterion: str) -> str:
        if criterion == "host":
            return self._hostname().lower()
        if criterion == "originalhost":
            return self.name
        if criterion == "user":
            return self._user() or local_user()
        return local_user()

    def _need(self, text: str) -> None:
        if (text := clean(text, 300)) not in self.needs:
            self.needs.append(text)

    def _gather_needs(self) -> None:
        ignored: tuple[str, ...] = ()
        for keyword, line in self.found.items():
            if keyword == "ignoreunknown":
                ignored = tuple(line.rest.lower().split(","))       # of what comes after it
            # `sshroute` looks at a ProxyCommand, over which the inventory's proxy_jump wins.
            elif (keyword not in ("proxy", "nojump")
                  and (keyword in OPTIONS or not _matches(keyword, ignored))
                  and (why := need(keyword, line.words)) is not None):
                self._need(f"{line.mark}: {line.spelt}: {why}")

    def _first(self, keyword: str) -> str | None:
        line = self.found.get(keyword)
        return line.words[0] if line is not None else None

    def _user(self) -> str | None:
        return self.user or self._first("user")

    def _hostname(self) -> str:
        if self.address is not None or self.resolved is not None:
            return self.address or self.resolved or self.name
        line = self.found.get("hostname")
        return self._tokens(line.words[0], {"h": self.name}, line.mark) if line is not None else self.name

    def options(self) -> SshOptions:
        """The result; raises ConfigError for a bad value."""
        port = self.port if self.port is not None else self._port()
        user = self._user()
        alias = self._first("hostkeyalias")
        hostname = self._hostname()
        local = socket.gethostname()
        tokens = {
            "d": str(_home()), "h": hostname, "i": str(os.getuid()), "k": alias or self.name,
            "L": local.split(".")[0], "l": local,
            "j": "", "n": self.name, "p": str(port or 22), "r": user or local_user(), "u": local_user(),
        }
        tokens["C"] = hashlib.sha1(  # the digest that ssh_config(5) names for %C; no secret hangs on it
            (tokens["l"] + hostname + tokens["p"] + tokens["r"]).encode("utf-8", "surrogateescape"),
            usedforsecurity=False
        ).hexdigest()
        jump, command = self._proxy(tokens)
        tokens["j"] = _nearest(jump)
        self._gather_needs()
        agent = self._path("identityagent", tokens)
        identities = self._identity_files(tokens)
        return SshOptions(
            hostname=hostname, port=port, user=user, identity_files=identities,
            no_identity_files=bool(self.identities) and not identities,
            identities_only=self._flag("identitiesonly"),
            identity_agent=agent if agent is None or agent.lower() != "none" else "none",
            user_known_hosts_files=self._paths("userknownhostsfile", tokens),
            global_known_hosts_files=self._paths("globalknownhostsfile", tokens),
            revoked_host_keys=self._path("revokedhostkeys", tokens), host_key_alias=alias,
            proxy_jump=jump, proxy_command=command, connect_timeout=self._timeout(),
            address_family=self._choice("addressfamily", ("any", "inet", "inet6")) or "any",
            hash_known_hosts=self._flag("hashknownhosts"),
            algorithms=SshAlgorithms(self._first("kexalgorithms"), self._first("hostkeyalgorithms"),
                                     self._first("ciphers"), self._first("macs"), self._rsa_bits()),
            control_path=self._path("controlpath", tokens), needs=tuple(self.needs),
        )

    def _port(self) -> int | None:
        line = self.found.get("port")
        if line is None:
            return None
        if not re.fullmatch(r"[0-9]{1,5}", line.words[0]) or not 1 <= int(line.words[0]) <= 65535:
            raise ConfigError(f"Port is {short(line.words[0])}, expected a number from 1 to 65535", line.mark)
        return int(line.words[0])

    def _rsa_bits(self) -> int:
        line = self.found.get("requiredrsasize")
        if line is None:
            return SshAlgorithms.rsa_bits
        if not re.fullmatch(r"[0-9]{1,6}", line.words[0]):
            raise ConfigError(f"RequiredRSASize is {short(line.words[0])}, expected a number of bits",
                              line.mark)
        return int(line.words[0])

    def _choice(self, keyword: str, choices: tuple[str, ...]) -> str | None:
        line = self.found.get(keyword)
        if line is None:
            return None
        if line.words[0].lower() not in choices:
            raise ConfigError(f"{keyword} is {short(line.words[0])}, expected one of {', '.join(choices)}",
                              line.mark)
        return line.words[0].lower()

    def _flag(self, keyword: str) -> bool:
        return self._choice(keyword, ("yes", "true", "no", "false")) in ("yes", "true")

    def _timeout(self) -> float | None:
        line = self.found.get("connecttimeout")
        if line is None or line.words[0].lower() == "none":
            return None
        parts = _SPAN.findall(line.words[0])
        if (not parts or "".join(number + unit for number, unit in parts) != line.words[0]
            or len(line.words[0]) > 12):
            raise ConfigError(f"ConnectTimeout is {short(line.words[0])}, expected seconds", line.mark)
        return float(sum(int(number) * _SECONDS[unit.lower()] for number, unit in parts)) or None

    def _proxy(self, tokens: Mapping[str, str]) -> tuple[str | None, str | None]:
        line = self.found.get("proxy")
        if line is None or line.rest.strip().lower() == "none":
            return None, None
        if line.keyword == "proxyjump":
            return self._tokens(line.words[0], tokens, line.mark), None
        return None, self._tokens(line.rest, tokens, line.mark)

    def _identity_files(self, tokens: Mapping[str, str]) -> tuple[str, ...]:
        found = [self._expand(line.words[0], tokens, line.mark) for line in self.identities
                 if line.words[0].lower() != "none"]
        return tuple(dict.fromkeys(found))

    def _path(self, keyword: str, tokens: Mapping[str, str]) -> str | None:
        line = self.found.get(keyword)
        if line is None or (keyword != "identityagent" and line.words[0].lower() == "none"):
            return None
        return self._expand(line.words[0], tokens, line.mark)

    def _paths(self, keyword: str, tokens: Mapping[str, str]) -> tuple[str, ...] | None:
        line = self.found.get(keyword)
        if line is None:
            return None
        return tuple(self._expand(word, tokens, line.mark) for word in line.words if word.lower() != "none")

    def _expand(self, text: str, tokens: Mapping[str, str], mark: Mark) -> str:
        def variable(match: re.Match[str]) -> str:
            if match[1] not in os.environ:
                raise ConfigError(f"the environment has no variable {short(match[1])}", mark)
            return os.environ[match[1]]

        return os.path.expanduser(self._tokens(_VARIABLE.sub(variable, text), tokens, mark))  # noqa: PTH111  (never raises)

    def _tokens(self, text: str, tokens: Mapping[str, str], mark: Mark) -> str:
        def token(match: re.Match[str]) -> str:
            if match[1] == "%":
                return "%"
            if match[1] not in tokens:
                raise ConfigError(f"%{match[1]} is not a valid token here: {short(text)}", mark)
            return tokens[match[1]]

        return _TOKEN.sub(token, text)


def _matches(subject: str, patterns: tuple[str, ...]) -> bool:
    """Whether a pattern with * and ? fits and no negated one does."""
    fits = False
    for pattern in patterns:
        negated = pattern.startswith("!")
        if _pattern(pattern[1:] if negated else pattern).fullmatch(subject):
            if negated:
                return False
            fits = True
    return fits


@functools.lru_cache(maxsize=4096)
def _pattern(pattern: str) -> re.Pattern[str]:
    # Runs of stars are one star, so that no pattern can make matching slow.
    return re.compile(re.escape(re.sub(r"\*+", "*", pattern)).replace(r"\*", ".*").replace(r"\?", "."),
                      re.DOTALL)
