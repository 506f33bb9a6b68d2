"""What the user's and the machine's ssh_config say about a host, read as OpenSSH reads it.

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
import hashlib
import os
import re
import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from inventory.errors import ConfigError, Mark
from inventory.sshjump import nearest_hop
from inventory.sshlines import KNOWN_CRITERIA, SshLine, criteria, parse_lines, read_lines
from inventory.sshneeds import OPTIONS, need
from inventory.text import clean, short

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")

_TOKEN = re.compile(r"%(.?)", re.DOTALL)
_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_SPAN = re.compile(r"(?:([0-9]+)([smhdwSMHDW]?))")
_SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


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
    """What ssh_config gives for one host; None or () where it gives nothing, which is no default. Paths and
    names are expanded. With `no_identity_files` the usual ones are not tried. `identity_agent` is a socket's
    path, "none", or "SSH_AUTH_SOCK". `proxy_command` is never run by this module. `connect_timeout` is in
    seconds. `needs` say with their place what only the system's ssh can do."""

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
class SshConfig:
    """The lines of the files, the user's before the machine's."""

    files: tuple[tuple[SshLine, ...], ...]

    @classmethod
    def load(cls, user: Path | None = None, system: Path | None = SYSTEM_CONFIG) -> SshConfig:
        """Reads both; a file that is not there is empty. `user` None: ~/.ssh/config. Raises ConfigError, also
        for a file that others than its owner may change, which OpenSSH refuses."""
        folder = home() / ".ssh"
        found = [read_lines(user if user is not None else folder / "config", folder, 0,
                            required=user is not None)]
        if system is not None:
            found.append(read_lines(system, SYSTEM_CONFIG.parent, 0, required=False, checked=False))
        return cls(tuple(found))

    @classmethod
    def parse(cls, text: str, filename: str = "ssh_config") -> SshConfig:
        """Reads text as if it were the user's only file."""
        return cls((tuple(parse_lines(text, filename, home() / ".ssh", 0)),))

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


@functools.cache
def default_config() -> SshConfig:
    """The user's and the machine's files, read once."""
    return SshConfig.load()


def _named(lines: tuple[SshLine, ...]) -> Iterator[str]:
    for line in lines:
        for included in line.included:
            yield from _named(included)
        if line.keyword == "host":
            yield from (word for word in line.words if not word.startswith("!") and not set(word) & set("*?"))


def home() -> Path:
    """The user's home folder."""
    return Path(os.path.expanduser("~"))  # noqa: PTH111  (never raises)


def local_user() -> str:
    """The user who runs this program."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


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
    found: dict[str, SshLine] = field(default_factory=dict)
    identities: list[SshLine] = field(default_factory=list)
    needs: list[str] = field(default_factory=list)

    def resolve(self) -> None:
        """Ends the first pass; as in ssh, a HostName of the final pass has no effect."""
        self.resolved = self._hostname()
        self.final = True

    def apply(self, lines: tuple[SshLine, ...]) -> None:
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

    def _match(self, line: SshLine) -> bool:
        result = True
        unknown = None
        for negated, criterion, argument in criteria(line.words):
            if criterion == "final":
                self.wants_final = True
            if criterion == "all":
                holds = True
            elif criterion in ("final", "canonical"):
                holds = self.final
            elif criterion in KNOWN_CRITERIA:
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
            "d": str(home()), "h": hostname, "i": str(os.getuid()), "k": alias or self.name,
            "L": local.split(".")[0], "l": local,
            "j": "", "n": self.name, "p": str(port or 22), "r": user or local_user(), "u": local_user(),
        }
        tokens["C"] = hashlib.sha1(  # the digest that ssh_config(5) names for %C; no secret hangs on it
            (tokens["l"] + hostname + tokens["p"] + tokens["r"]).encode("utf-8", "surrogateescape"),
            usedforsecurity=False
        ).hexdigest()
        jump, command = self._proxy(tokens)
        tokens["j"] = nearest_hop(jump)
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
