"""The exporter's web.yml, in the format of Prometheus' exporters: TLS, headers, and users with passwords.

The format is https://github.com/prometheus/exporter-toolkit/blob/master/docs/web-configuration.md. What this
server cannot do is an error here, so that no file means less than it says.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from healthcheck.config.documentmap import DocumentMap
from healthcheck.config.entry import nearest
from healthcheck.exporter.tls import TlsSettings, names_of
from inventory.errors import Mark, RulesError
from inventory.located import LocatedMap, load_yaml

_MOST_BYTES = 1 << 20
_MOST_COST = 16         # of a bcrypt hash: 4 s on a core of today; a scrape waits for 10
_KEYS = ("tls_server_config", "http_server_config", "basic_auth_users", "rate_limit")
_TLS_KEYS = ("cert_file", "key_file", "cert", "key", "client_auth_type", "client_ca_file", "client_ca",
             "client_allowed_sans", "min_version", "max_version", "cipher_suites",
             "prefer_server_cipher_suites", "curve_preferences")
_HASH = re.compile(r"\$2[aby]\$(?P<cost>[0-9]{2})\$[./A-Za-z0-9]{53}")
_NO_CLIENTS, _IF_GIVEN, _REQUIRED = "NoClientCert", "VerifyClientCertIfGiven", "RequireAndVerifyClientCert"
_VERSIONS = {"TLS12": ssl.TLSVersion.TLSv1_2, "TLS13": ssl.TLSVersion.TLSv1_3}
# The headers that may be added, and the values of those that have few.
_HEADERS: Mapping[str, tuple[str, ...]] = {
    "Content-Security-Policy": (), "X-Frame-Options": ("deny", "sameorigin"),
    "X-Content-Type-Options": ("nosniff",), "X-XSS-Protection": (), "Strict-Transport-Security": ()}
# Go's names for TLS 1.2, by OpenSSL's; those for TLS 1.3 are always on, in both.
_SUITES = {
    f"TLS_ECDHE_{kind}_WITH_{name}": f"ECDHE-{kind}-{ours}" for kind in ("ECDSA", "RSA") for name, ours in (
        ("AES_128_CBC_SHA", "AES128-SHA"), ("AES_256_CBC_SHA", "AES256-SHA"),
        ("AES_128_GCM_SHA256", "AES128-GCM-SHA256"), ("AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("CHACHA20_POLY1305_SHA256", "CHACHA20-POLY1305"))}
_SUITES_13 = ("TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256")


@dataclass(frozen=True)
class WebConfig:
    """TLS, headers for every response, and bcrypt hashes by user; without users everyone may read."""

    tls: TlsSettings | None = None
    headers: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    users: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))


def load_web_config(path: Path) -> WebConfig:
    """The file's settings; raises ConfigError: one line with file and line, and without a secret."""
    whole = load_yaml(path, max_bytes=_MOST_BYTES, error=RulesError)
    if not isinstance(whole, LocatedMap):
        raise RulesError(f"web config: expected a map with {', '.join(_KEYS[:3])}", Mark(str(path), 1, 1))
    top = DocumentMap(whole, _KEYS, "web config", Mark(str(path), 1, 1))
    if "rate_limit" in top:
        raise RulesError("rate_limit: is not supported; connections are limited by address anyway",
                         top.item.key_marks["rate_limit"])
    tls = (_tls(DocumentMap(top.item["tls_server_config"], _TLS_KEYS, "tls_server_config",
                            top.mark("tls_server_config")), path.parent)
           if "tls_server_config" in top else None)
    return WebConfig(tls, _headers(top), _users(top))


def _tls(held: DocumentMap, folder: Path) -> TlsSettings:
    certificate, key = (_pem(held, name, folder) for name in ("cert", "key"))
    if certificate is None or key is None:
        missing = "cert" if certificate is None else "key"
        raise RulesError(f"tls_server_config: needs {missing}_file: FILE (or {missing}: PEM)", held.item.mark)
    if "curve_preferences" in held:
        raise RulesError("tls_server_config: curve_preferences: is not supported; OpenSSL's own order counts",
                         held.item.key_marks["curve_preferences"])
    clients, auth = _pem(held, "client_ca", folder), _auth(held)
    if clients is not None and auth == _NO_CLIENTS:
        raise RulesError(f"tls_server_config: an authority of clients needs client_auth_type: {_REQUIRED} or "
                         f"{_IF_GIVEN}", held.item.mark)
    if clients is None and auth != _NO_CLIENTS:
        raise RulesError(f"tls_server_config: client_auth_type: {auth} needs client_ca_file: FILE",
                         held.mark("client_auth_type"))
    least, most = _version(held, "min_version", "TLS12"), _version(held, "max_version", "TLS13")
    if least > most:
        raise RulesError("tls_server_config: min_version: is above max_version", held.mark("min_version"))
    ciphers = _ciphers(held)
    if "cipher_suites" in held and not ciphers and held.items("cipher_suites"):
        least = ssl.TLSVersion.TLSv1_3       # only its suites are named
    first = held.flag("prefer_server_cipher_suites") if "prefer_server_cipher_suites" in held else True
    return TlsSettings(certificate, key, clients, auth == _REQUIRED, _names(held, auth), least, most, ciphers,
                       first)


def _pem(held: DocumentMap, key: str, folder: Path) -> Path | str | None:
    """The file of `key`_file, from the folder of web.yml, or the text of `key`."""
    name = f"{key}_file"
    if key in held and name in held:
        raise RulesError(f"{held.what}: {key} and {name}: give one of them", held.item.key_marks[key])
    if name in held:
        return folder / held.text(name)
    if key not in held:
        return None
    text = held.item[key]
    if not isinstance(text, str) or not text.strip():
        raise RulesError(f"{held.what}: {key}: expected PEM as text", held.mark(key))
    return text


def _auth(held: DocumentMap) -> str:
    if "client_auth_type" not in held:
        return _NO_CLIENTS
    asked, known = held.text("client_auth_type"), (_NO_CLIENTS, _IF_GIVEN, _REQUIRED)
    if asked in ("RequestClientCert", "RequireClientCert", "RequireAnyClientCert"):
        raise RulesError(f"{held.what}: client_auth_type: {asked} is not supported, as it verifies no "
                         f"certificate; use {_REQUIRED}", held.mark("client_auth_type"))
    if asked not in known:
        raise held.fail("client_auth_type", f"one of {', '.join(known)}", nearest(asked, known))
    return asked


def _version(held: DocumentMap, key: str, default: str) -> ssl.TLSVersion:
    asked = held.text(key) if key in held else default
    if asked in ("TLS10", "TLS11"):
        raise RulesError(f"{held.what}: {key}: {asked} is not supported, as it is broken; expected TLS12 or "
                         "TLS13", held.mark(key))
    if asked not in _VERSIONS:
        raise held.fail(key, "TLS12 or TLS13")
    return _VERSIONS[asked]


def _ciphers(held: DocumentMap) -> str:
    if "cipher_suites" not in held:
        return ""
    named, known = held.items("cipher_suites"), (*_SUITES, *_SUITES_13)
    for at, name in enumerate(named):
        if name not in known:
            raise RulesError(f"{held.what}: cipher_suites: unknown suite {name!r}{nearest(str(name), known)}",
                             named.value_marks[at])
    return ":".join(_SUITES[name] for name in named if name in _SUITES)


def _names(held: DocumentMap, auth: str) -> frozenset[str]:
    if "client_allowed_sans" not in held:
        return frozenset()
    names = held.items("client_allowed_sans")
    if auth != _REQUIRED:
        raise RulesError(f"{held.what}: client_allowed_sans needs client_auth_type: {_REQUIRED}",
                         held.item.key_marks["client_allowed_sans"])
    for at, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise RulesError(f"{held.what}: client_allowed_sans: expected text", names.value_marks[at])
    if not names:
        raise held.fail("client_allowed_sans", "a list with a name in it")
    return names_of(names)


def _headers(top: DocumentMap) -> Mapping[str, str]:
    if top.item.get("http_server_config") is None:
        return {}
    http = DocumentMap(top.item["http_server_config"], ("http2", "headers"), "http_server_config",
                       top.mark("http_server_config"))
    if "http2" in http and http.flag("http2"):
        raise RulesError("http_server_config: http2: true is not supported; the exporter speaks HTTP/1, so "
                         "leave it out or write false", http.mark("http2"))
    if http.item.get("headers") is None:
        return {}
    held = DocumentMap(http.item["headers"], tuple(_HEADERS), "http_server_config: headers",
                       http.mark("headers"))
    found = {}
    for name, allowed in _HEADERS.items():
        if held.item.get(name) in (None, ""):
            continue        # "Unset if blank"
        value = held.item.written.get(name) or held.item[name]
        if not isinstance(value, str) or not value.isascii() or "\n" in value or "\r" in value:
            raise held.fail(name, "one line of ASCII text")
        if allowed and value not in allowed:
            raise held.fail(name, " or ".join(allowed))
        found[name] = value
    return found


def _users(top: DocumentMap) -> Mapping[str, str]:
    """The hash of each user. No message holds one: it might be a password in the clear."""
    users = top.item.get("basic_auth_users")
    if users is None:
        return {}
    if not isinstance(users, LocatedMap):
        raise RulesError("basic_auth_users: expected a map of users, each with the bcrypt hash of a password",
                         top.mark("basic_auth_users"))
    for user, hashed in users.items():
        match = _HASH.fullmatch(hashed) if isinstance(hashed, str) else None
        if ":" in user:
            raise RulesError("basic_auth_users: a user's name has a colon, which no client can send",
                             users.key_marks[user])
        if match is None:
            raise RulesError(f"basic_auth_users: {user}: expected a bcrypt hash ($2a$, $2b$ or $2y$), as "
                             "from htpasswd -nBC 10 USER", users.value_marks[user])
        if not 4 <= int(match["cost"]) <= _MOST_COST:
            raise RulesError(f"basic_auth_users: {user}: the hash's cost is {int(match['cost'])}, expected "
                             f"4 to {_MOST_COST}", users.value_marks[user])
    return dict(users)
